"""The command that installs an extra: from the checkout, never from an index."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from sandboxes import extras
from sandboxes.extras import pip_install

ROOT = Path(__file__).resolve().parents[2]


def test_a_checkout_is_named_by_its_folder():
    assert pip_install("[frontend]") == f'pip install -e "{ROOT}[frontend]"'


def test_other_packages_are_quoted_for_every_shell():
    assert pip_install("docker") == "pip install docker"
    assert pip_install("trl>=1.16,<2") == 'pip install "trl>=1.16,<2"'


def test_packages_without_a_checkout_point_to_one(tmp_path):
    (tmp_path / "extras.py").write_text(Path(extras.__file__).read_text())
    code = f"import sys; sys.path[:0] = [{str(tmp_path)!r}]; import extras; print(extras.pip_install('[frontend]'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == 'pip install -e ".[frontend]"\n'


def test_no_message_names_an_index():
    """The distribution is on no index: `pip install colbench-gym[...]` fails, or installs something else. From wheels in a folder it works."""
    wrong = re.compile(r"colbench[-_]gym\[")
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    exempt = {"tests/sandboxes/test_extras.py", "CHANGELOG.md"}  # what it was is told there
    texts = [name for name in tracked if name.endswith((".py", ".md", ".yaml", ".toml", ".cff", ".sh")) and name not in exempt]
    wrong_lines = [
        f"{name}: {line.strip()}"
        for name in texts
        for line in (ROOT / name).read_text("utf-8").splitlines()
        if wrong.search(line) and "--no-index --find-links" not in line
    ]
    assert len(texts) > 500 and wrong_lines == []
