"""On macOS and Windows, the packages import, games run, and what needs Linux says so in one sentence: simulated, see `other_system.py`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROW = '{"problem_description": "Add.", "ground_truth": "def f(a):\\n    return a", "test_cases": {"test1": "f(1)"}}\n'
WINDOWS = "run everything in WSL2 (`wsl --install`), which is Linux."
MACOS = "start Docker, then `pip install docker` and `python -m sandboxes build`, and take the sandbox 'docker'."
TINY = "--sft_dialogues 8 --sft_epochs 1 --sft_batch 4 --tiny_hidden_size 32 --tiny_layers 1 --tiny_vocab_size 600 --num_tasks 2 --max_new_tokens 8 --max_turns 3"

systems = pytest.mark.parametrize("system", ["win32", "darwin"])


@pytest.fixture
def run(tmp_path):
    (tmp_path / "rows.jsonl").write_text(ROW)

    def start(system, command, says=""):
        words = [sys.executable, str(ROOT / "tests" / "other_system.py"), system, *command.split()]
        done = subprocess.run(
            words, cwd=tmp_path, capture_output=True, text=True, input=says, timeout=300,
            env={"PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", "PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "DOCKER_HOST": "unix:///no/socket"},
        )  # fmt: skip
        assert "Traceback" not in done.stderr, done.stderr
        return done

    return start


@pytest.mark.parametrize(
    ("system", "command"), [
        ("win32", "colbench_gym ColBench-Frontend-v0"), ("win32", "colbench_gym.play --help"), ("win32", "colbench_gym.grade --help"),
        ("win32", "colbench_gym.evaluate --help"), ("win32", "sweetrl_agent"), ("win32", "sweetrl_agent.config"), ("darwin", "colbench_gym"),
        ("darwin", "sweetrl_agent"), ("win32", "sweetrl_agent.train --help"),
    ],
)  # fmt: skip
def test_the_packages_import_and_their_commands_have_help(command, system, run):
    assert run(system, command).returncode == 0


@pytest.mark.parametrize(
    ("system", "command"), [
        ("win32", "sandboxes check"), ("win32", "sandboxes check unsafe-no-isolation"), ("win32", "colbench_gym.grade rows.jsonl --out scores.jsonl"),
        ("win32", "colbench_gym.play"), ("win32", "colbench_gym.evaluate random --tasks embedded:test[:2]"), ("win32", "sweetrl_agent.train --dry_run"),
        ("darwin", "sandboxes check"), ("darwin", "colbench_gym.play --env ColBench-Frontend-v0 --sandbox embedded"),
        ("darwin", "colbench_gym.evaluate oracle --env ColBench-Frontend-v0 --tasks embedded:test[:2]"),
        ("darwin", "sweetrl_agent.evaluate random"),
    ],
)  # fmt: skip
def test_what_needs_linux_says_so_in_one_sentence(command, system, run):
    done = run(system, command)
    advice = WINDOWS if system == "win32" else MACOS
    assert done.returncode in (1, 2)
    *before, last = done.stderr.splitlines()
    assert last.startswith("error: The sandbox '") and last.endswith(f"needs Linux, got {system!r}: {advice}")
    assert not before or (len(before) == 1 and before[0].startswith("sandbox: embedded ("))


def test_docker_is_for_macos_and_not_for_windows(run):
    pytest.importorskip("docker", reason="needs the docker package: `pip install docker`")
    assert "needs Linux or macOS, got 'win32': run everything in WSL2" in run("win32", "sandboxes check docker").stderr
    assert run("darwin", "sandboxes check docker").stderr.startswith("error: No Docker daemon")


@systems
def test_games_are_played(system, run):
    assert run(system, "colbench_gym.play --env LMRL-Maze-v0", "move up\n").returncode == 1  # the input ends before the game


@systems
def test_agents_are_evaluated_and_trained_on_games(system, run, tmp_path):
    assert run(system, "sweetrl_agent.evaluate random --env LMRL-Maze-v0 --num_tasks 2 --output games").returncode == 0
    assert (tmp_path / "games" / "report.html").exists()

    command = f"sweetrl_agent.train --env LMRL-Maze-v0 --algorithm bc --eval_tasks 2 --shown_dialogues 2 --output run {TINY}"
    assert run(system, command).returncode == 0
    assert (tmp_path / "run" / "results.json").exists()


def test_linux_is_not_mistaken_for_another_system():
    from sandboxes.prerequisites import unsupported

    assert not any(map(unsupported, ("embedded", "docker", "unsafe-no-isolation")))
