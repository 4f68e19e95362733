"""Start and end of a command's process: bytecode without docstrings, closed streams, readers that leave, interrupts during imports."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys

import pytest

ROW = '{"problem_description": "Add.", "ground_truth": "def f(a):\\n    return a", "test_cases": {"test1": "f(1)"}}\n'
#: Commands that end soon, and a module that each imports late. Of those that plan a job, and import torch for it, one is here, of a job without
#: a model: all commands start alike.
COMMANDS = {
    "sandboxes check unsafe-no-isolation": "sandboxes.embedded",
    "colbench_gym ColBench-Backend-v0": "colbench_gym.catalog",
    "colbench_gym.grade rows.jsonl --out scores.jsonl --sandbox unsafe-no-isolation": "colbench_gym.scoring.unit_tests",
    "colbench_gym.evaluate random --dry-run": "colbench_gym.evaluation.policies",
    "colbench_gym.play --tasks embedded:test[:1] --sandbox unsafe-no-isolation": "colbench_gym.agents.person",
    "sweetrl_agent": "sandboxes.named",
    "sweetrl_agent.config": "sweetrl_agent.config.files",
    "sweetrl_agent.train --dry_run --algorithm random_actions": "transformers",
    "sweetrl_agent.report .": "sweetrl_agent.reporting.index",
}  # fmt: skip
#: Status of a command where it is not 0: its input ends before the episode does, or the folder has no runs.
STATUS = {"colbench_gym.play": 1, "sweetrl_agent.report": 2}
HOOK = """
import os, signal, sys

class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ.get("INTERRUPT_AT"):
            if os.environ["HOW"] == "signal":
                os.kill(os.getpid(), signal.SIGINT)
            else:
                raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupts())
if "REPORT_EVERY_S" in os.environ:
    from colbench_gym import progress

    progress.REPORT_EVERY_S = float(os.environ["REPORT_EVERY_S"])
"""

commands = pytest.mark.parametrize("command", COMMANDS)


@pytest.fixture(autouse=True)
def _foreground():
    """The tests themselves may run in the background, where a shell has interrupts ignored, and children inherit that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def run(tmp_path):
    (tmp_path / "rows.jsonl").write_text(ROW)
    (tmp_path / "hooks").mkdir()
    (tmp_path / "hooks" / "sitecustomize.py").write_text(HOOK)

    def start(command, redirections="", stdout=subprocess.PIPE, **variables):
        path = os.pathsep.join([str(tmp_path / "hooks"), os.environ.get("PYTHONPATH") or os.getcwd()])
        shell = f'"{sys.executable}" -m {command} {redirections}'
        environment = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": path, **variables}
        return subprocess.run(
            ["bash", "-c", shell], cwd=tmp_path, env=environment, stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=900
        )

    return start


@contextlib.contextmanager
def _without_a_reader(kind="pipe"):
    """A pipe or socket that nobody reads any more. A process that another program has started often gets sockets."""
    reader, writer = os.pipe() if kind == "pipe" else (end.detach() for end in socket.socketpair())
    os.close(reader)
    yield writer
    os.close(writer)


def _status(command):
    return STATUS.get(command.split()[0], 0)


def test_a_process_without_docstrings_is_refused_in_one_sentence(run):
    done = run("colbench_gym", PYTHONOPTIMIZE="2")
    expected = "error: the commands read docstrings, which -OO and PYTHONOPTIMIZE=2 remove; use -O at most\n"
    assert (done.returncode, done.stderr) == (1, expected)


@commands
def test_commands_run_with_closed_streams(command, run, tmp_path):
    done = run(command, "<&- >&-")
    assert done.returncode == _status(command) and "Traceback" not in done.stderr
    if "grade" in command:
        assert '"outcome": "passed"' in (tmp_path / "scores.jsonl").read_text()
        assert run(command, "<&- >&- 2>&-").returncode == 0


@pytest.mark.parametrize(
    ("command", "module", "how"),
    [
        *((command, module, "signal") for command, module in COMMANDS.items()),
        ("sweetrl_agent", "sandboxes.prerequisites", "exception"),
    ],
)
def test_an_interrupted_import_prints_no_traceback(command, module, how, run):
    done = run(command, "</dev/null", INTERRUPT_AT=module, HOW=how)
    assert (done.returncode, "Traceback" in done.stderr) == (130, False), done.stderr


#: Commands with a text, and one that plans a job before it has one.
LEFT = (
    "colbench_gym", "sweetrl_agent", "colbench_gym.play --tasks embedded:test[:1]", "colbench_gym.play --env LMRL-Maze-v0",
    "sandboxes check unsafe-no-isolation", "colbench_gym.evaluate random --dry-run",
)  # fmt: skip


@pytest.mark.parametrize(("command", "kind"), [*((command, "pipe") for command in LEFT), (LEFT[0], "socket")])
def test_a_reader_that_leaves_ends_a_command_quietly(command, kind, run):
    with _without_a_reader(kind) as writer:
        done = run(command, stdout=writer)
    assert (done.returncode, done.stderr) == (141, "")


def test_scores_are_whole_where_their_reader_leaves(run, tmp_path):
    with _without_a_reader() as writer:
        done = run("colbench_gym.grade rows.jsonl --out scores.jsonl --sandbox unsafe-no-isolation", stdout=writer)
    assert done.returncode == 141 and "error" not in done.stderr
    assert '"outcome": "passed"' in (tmp_path / "scores.jsonl").read_text()


def test_a_reader_that_leaves_in_the_middle_of_a_run_costs_nothing(run, tmp_path):
    """The command ends at its first word of progress, within the first policy; what was played is kept, and the same command resumes."""
    command = "colbench_gym.evaluate random oracle --tasks embedded:test[:3] --output {}"
    with _without_a_reader() as writer:
        done = run(
            command.format("left"), "2>&1", stdout=writer, REPORT_EVERY_S="inf"
        )  # its first word comes after the last episode
    assert (done.returncode, done.stderr) == (141, "")
    rows = [json.loads(line) for line in (tmp_path / "left" / "evaluation.jsonl").read_text().splitlines()]
    assert rows and {row["agent"] for row in rows} == {"random"}
    assert run(command.format("left")).returncode == run(command.format("whole")).returncode == 0
    for name in ("evaluation.jsonl", "results.json"):
        assert _without_times(tmp_path / "left" / name) == _without_times(tmp_path / "whole" / name)


def _without_times(path):
    return re.sub(r'"(seconds|wall_s|latency_s)": [0-9.e-]+', "", path.read_text())


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full, as Linux has it")
def test_a_full_disk_is_one_sentence(run):
    done = run("colbench_gym", ">/dev/full")
    assert (done.returncode, done.stderr) == (1, "error: the output cannot be written: No space left on device\n")


def test_a_library_is_left_alone():
    code = "import signal, sys; before = sys.stdout, sys.excepthook; import colbench_gym, sweetrl_agent; "
    code += "assert before == (sys.stdout, sys.excepthook) and signal.getsignal(signal.SIGINT) is signal.default_int_handler"
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE)


def test_a_command_in_the_background_ignores_interrupts_as_its_shell_says():
    code = "import runpy, signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); from sandboxes import startup; startup.prepare(); "
    code += "assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
