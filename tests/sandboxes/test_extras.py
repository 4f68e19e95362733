"""The command that installs an extra: from the checkout, from the file that was installed, or package by package; never from an index."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sandboxes import extras
from sandboxes.extras import pip_install

ROOT = Path(__file__).resolve().parents[2]
METADATA = """Metadata-Version: 2.1
Name: colbench-gym
Version: 9
Requires-Dist: numpy>=2.0
Requires-Dist: playwright>=1.60; extra == "frontend"
Requires-Dist: tinycss2<3,>=1.3; extra == "frontend"
Requires-Dist: ray>=2.50; extra == "ray"
Provides-Extra: frontend
"""
CODE = "import sys; sys.path[:0] = sys.argv[1:]; from sandboxes.extras import pip_install; print(pip_install('[frontend]'))"


def test_a_checkout_is_named_by_its_folder():
    assert pip_install("[frontend]") == f'pip install -e "{ROOT}[frontend]"'


def test_other_packages_are_quoted_for_every_shell():
    assert pip_install("docker") == "pip install docker"
    assert pip_install("trl>=1.16,<2") == 'pip install "trl>=1.16,<2"'


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        ({"url": "file:///FOLDER", "dir_info": {}}, 'pip install "/FOLDER[frontend]"'),
        ({"url": "file:///FOLDER/a%20b.whl", "archive_info": {}}, 'pip install "/FOLDER/a b.whl[frontend]"'),
        ({"url": "file:///gone", "dir_info": {}}, 'pip install "playwright>=1.60" "tinycss2<3,>=1.3"'),
        (
            {"url": "https://host/x", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            'pip install "colbench-gym[frontend] @ git+https://host/x@abc"',
        ),
        ({"url": "https://host/x.whl", "archive_info": {}}, 'pip install "colbench-gym[frontend] @ https://host/x.whl"'),
        (None, 'pip install "playwright>=1.60" "tinycss2<3,>=1.3"'),
    ],
)
def test_an_installation_is_named_by_where_it_came_from(origin, command, tmp_path):
    (tmp_path / "colbench_gym-9.dist-info").mkdir()
    (tmp_path / "colbench_gym-9.dist-info" / "METADATA").write_text(METADATA)
    (tmp_path / "a b.whl").write_text("")
    if origin:
        origin["url"] = origin["url"].replace("/FOLDER", str(tmp_path))
        (tmp_path / "colbench_gym-9.dist-info" / "direct_url.json").write_text(json.dumps(origin))
    _copy(tmp_path)
    assert _said(tmp_path) == command.replace("/FOLDER", str(tmp_path))


def test_a_copy_without_metadata_points_to_a_checkout(tmp_path):
    _copy(tmp_path)
    code = (
        f"import importlib.metadata, sys; sys.path = [{str(tmp_path)!r}, *(p for p in sys.path if 'site-packages' not in p)]; "
    )
    done = subprocess.run(
        [sys.executable, "-c", code + CODE.partition("; ")[2].partition("; ")[2]], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.stdout == 'pip install ".[frontend]"\n', done.stderr


def _copy(folder):
    """The modules alone, as in site-packages: no setup.py beside them."""
    (folder / "sandboxes").mkdir()
    (folder / "sandboxes" / "__init__.py").write_text("")
    (folder / "sandboxes" / "extras.py").write_text(Path(extras.__file__).read_text())


def _said(folder):
    done = subprocess.run([sys.executable, "-c", CODE, str(folder)], capture_output=True, text=True, cwd=folder, check=True)
    return done.stdout.strip()


def test_no_message_names_an_index():
    """The distribution is on no index: `pip install colbench-gym[...]` fails, or installs something else. From wheels in a folder it works."""
    wrong = re.compile(r"colbench[-_]gym\[")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    own = {"tests/sandboxes/test_extras.py", "CHANGELOG.md"}  # what it was is told there
    texts = [name for name in listed if name.endswith((".py", ".md", ".yaml", ".toml", ".cff", ".sh")) and name not in own]
    found = [
        f"{name}: {line.strip()}"
        for name in texts
        for line in (ROOT / name).read_text("utf-8").splitlines()
        if wrong.search(line) and "--no-index --find-links" not in line
    ]
    assert len(texts) > 500 and found == []
