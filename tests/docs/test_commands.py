"""Every block of code in README, CONTRIBUTING and docs runs, or says why not.

A marker stands above each block of shell or Python: ``<!-- test: run -->`` runs it in an empty folder, ``<!-- test: dry_run -->`` runs each of its
commands of sweetrl_agent with `--dry_run`, ``<!-- test: skip REASON -->`` leaves it out. Blocks with a title are files, and lie in that folder. The Python
of a page is run in one process, block after block, as a reader would type it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from itertools import groupby

import pytest

from tests.docs.blocks import MODES, ROOT, all_blocks, commands, modules, write_files

BLOCKS = [block for block in all_blocks() if block.is_code]
PYTHON = {page: list(own) for page, own in groupby((b for b in BLOCKS if b.is_python and b.mode == "run"), lambda b: b.page)}
SHELL = [block for block in BLOCKS if block.mode == "run" and not block.is_python]
DRY = [block for block in BLOCKS if block.mode == "dry_run"]
TIMEOUT_S = 300  # ends a hanging command; the blocks take seconds
_RUN_BLOCKS = """
import json, sys
names = {"__name__": "__main__"}
for where, code in json.load(sys.stdin):
    exec(compile(code, where, "exec"), names)
"""


def environment(folder):
    """Variables for a command: this checkout and a `python` that has what it needs, no network, one thread."""
    programs = folder.parent / "programs"
    programs.mkdir(exist_ok=True)
    for name in ("python", "python3"):
        (programs / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        (programs / name).chmod(0o755)
    paths = {"PYTHONPATH": f"{ROOT}{os.pathsep}{folder}", "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    return {**os.environ, **paths, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "GOMP_SPINCOUNT": "1000"}


def checked(command, folder, text=None):
    """Run a command in a folder; its output is the message of a failure."""
    done = subprocess.run(
        command, cwd=folder, env=environment(folder), input=text, capture_output=True, text=True, timeout=TIMEOUT_S
    )
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@pytest.fixture
def folder(tmp_path):
    """An empty folder."""
    found = tmp_path / "empty"
    found.mkdir()
    return found


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_a_block_says_how_it_is_tested(block):
    assert block.mode in MODES, (
        f"{block}: expected `<!-- test: run -->`, `dry_run` or `skip REASON` above the block, got {block.mode!r}."
    )
    assert (block.mode == "skip") == bool(block.reason), (
        f"{block}: a block that is skipped needs a reason, and only such a block."
    )


@pytest.mark.parametrize("page", PYTHON)
def test_the_python_of_a_page_runs(page, folder):
    import json

    write_files(page, folder)
    checked([sys.executable, "-c", _RUN_BLOCKS], folder, json.dumps([(str(block), block.code) for block in PYTHON[page]]))


@pytest.mark.parametrize("block", SHELL, ids=str)
def test_a_command_runs(block, folder):
    write_files(block.page, folder)
    checked(["bash", "-euo", "pipefail", "-c", block.code.replace(".venv/bin/", "")], folder)


@pytest.mark.parametrize("block", DRY, ids=str)
def test_a_command_would_run(block, folder, monkeypatch, capsys):
    files, found = write_files(block.page, folder), modules(block.code)
    assert found, f"{block}: `dry_run` is for commands `python -m sweetrl_agent...`, and there is none."
    monkeypatch.chdir(folder)
    for module, arguments in found:
        main = getattr(import_module(module), "main", None)
        words = [*arguments, "--dry_run"]
        if main is None or any(file.endswith(".py") for file in files):  # a page's own modules stay out of this process
            checked([sys.executable, "-m", module, *words], folder)
        else:
            assert main(words) == 0, capsys.readouterr()
    left = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    assert not [path for path in left if path.as_posix() not in files and "__pycache__" not in path.parts]


def test_commands_are_taken_apart_as_a_shell_would():
    code = 'a -x "b && c" && d  # e\n# f\npython -m sweetrl_agent.train --tasks "embedded:test[:300]" \\\n    --output "" ; g\n'
    assert commands(code) == [
        ["a", "-x", "b && c"],
        ["d"],
        ["python", "-m", "sweetrl_agent.train", "--tasks", "embedded:test[:300]", "--output", ""],
        ["g"],
    ]
    assert modules(code) == [("sweetrl_agent.train", ["--tasks", "embedded:test[:300]", "--output", ""])]
    assert modules("accelerate launch -m sweetrl_agent.train --lora true\n") == [("sweetrl_agent.train", ["--lora", "true"])]
    assert modules("python -m colbench_gym.play\n") == []
