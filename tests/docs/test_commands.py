"""Every block of code in README, CONTRIBUTING and docs runs, or says why not.

A marker stands above each block of shell or Python: ``<!-- test: run -->`` runs it in an empty folder, ``<!-- test: dry_run -->`` runs each of its
commands of sweetrl_agent with `--dry_run`, ``<!-- test: skip REASON -->`` leaves it out. Blocks with a title are files, and lie in that folder. The Python
of a page is run in one process, block after block, as a reader would type it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import import_module
from itertools import groupby
from pathlib import Path
from unittest.mock import patch

import gymnasium
import pytest

from tests.docs.blocks import MODES, ROOT, all_blocks, commands, modules, write_files

BLOCKS = [block for block in all_blocks() if block.is_code]
PYTHON = {page: list(own) for page, own in groupby((b for b in BLOCKS if b.is_python and b.mode == "run"), lambda b: b.page)}
SHELL = [block for block in BLOCKS if block.mode == "run" and not block.is_python]
DRY = [block for block in BLOCKS if block.mode == "dry_run"]
TIMEOUT_S = 300  # ends a hanging command; the blocks take seconds
#: Imports the large libraries once, and runs each page in a fork of itself, where nothing of ours is imported yet.
_RUN_PAGES = """
import gc, json, os, sys
import gymnasium, peft, stable_baselines3, torch, transformers, trl

gc.freeze()

def run(blocks):
    names = {"__name__": "__main__"}
    for where, code in blocks:
        exec(compile(code, where, "exec"), names)

for line in sys.stdin:
    page = json.loads(line)
    if child := os.fork():
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        continue
    for number, name, flags in ((0, os.devnull, os.O_RDONLY), (1, page["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)):
        os.dup2(os.open(name, flags), number)
    os.dup2(1, 2)
    os.chdir(page["folder"])
    sys.path.insert(0, page["folder"])
    run(page["blocks"])
    break
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


@pytest.fixture(scope="module")
def run_page(tmp_path_factory):
    """Function: page, folder -> exit status of its Python in that folder, and what it printed."""
    program, folder = [sys.executable, "-c", _RUN_PAGES], tmp_path_factory.mktemp("pages") / "empty"
    folder.mkdir()
    with subprocess.Popen(
        program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder, env=environment(folder)
    ) as server:

        def run(page, folder):
            output, blocks = folder.parent / "output", [(str(block), block.code) for block in PYTHON[page]]
            print(json.dumps({"folder": str(folder), "output": str(output), "blocks": blocks}), file=server.stdin, flush=True)
            return int(server.stdout.readline()), output.read_text()

        yield run
        server.stdin.close()


@pytest.mark.parametrize("page", PYTHON)
def test_the_python_of_a_page_runs(page, folder, run_page):
    write_files(page, folder)
    status, output = run_page(page, folder)
    assert status == 0, output[-6000:]


@pytest.mark.parametrize("block", SHELL, ids=str)
def test_a_command_runs(block, folder):
    write_files(block.page, folder)
    command = ["bash", "-euo", "pipefail", "-c", block.code.replace(".venv/bin/", "")]
    done = subprocess.run(command, cwd=folder, env=environment(folder), capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"


@pytest.fixture
def importable(folder, monkeypatch):
    """The folder's modules can be imported, and are forgotten afterwards, with the environments that they register."""
    monkeypatch.syspath_prepend(folder)
    modules = set(sys.modules)
    with patch.dict(gymnasium.envs.registration.registry):
        yield
    for name in set(sys.modules) - modules:
        if Path(getattr(sys.modules[name], "__file__", None) or "/").is_relative_to(folder):
            del sys.modules[name]


@pytest.mark.usefixtures("importable", "untimed")
@pytest.mark.parametrize("block", DRY, ids=str)
def test_a_command_would_run(block, folder, monkeypatch, capsys):
    files, found = write_files(block.page, folder), modules(block.code)
    assert found, f"{block}: `dry_run` is for commands `python -m sweetrl_agent...`, and there is none."
    monkeypatch.chdir(folder)
    for module, arguments in found:
        assert import_module(module).main([*arguments, "--dry_run"]) == 0, capsys.readouterr()
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
