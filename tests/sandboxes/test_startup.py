"""Start and end of a command's process: optimised bytecode, closed streams, readers that leave, interrupts during imports."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

ROW = '{"problem_description": "Add.", "ground_truth": "def f(a):\\n    return a", "test_cases": {"test1": "f(1)"}}\n'
#: Commands that end soon, and a module that each imports late.
COMMANDS = {
    "sandboxes check unsafe-no-isolation": "sandboxes.local",
    "colbench_gym ColBench-Backend-v0": "colbench_gym.catalog",
    "colbench_gym.grade rows.jsonl --out scores.jsonl --sandbox unsafe-no-isolation": "colbench_gym.scoring.unit_tests",
    "colbench_gym.evaluate random --dry-run": "colbench_gym.evaluation.policies",
    "colbench_gym.play --tasks embedded:test[:1] --sandbox unsafe-no-isolation": "colbench_gym.agents.person",
    "sweetrl_agent": "sandboxes.named",
    "sweetrl_agent.config": "sweetrl_agent.config.files",
    "sweetrl_agent.train --dry_run --num_tasks 2": "transformers",
    "sweetrl_agent.compare --dry_run --num_tasks 2": "trl",
    "sweetrl_agent.evaluate random --dry_run": "torch",
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
"""

commands = pytest.mark.parametrize("command", COMMANDS)


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


@pytest.fixture
def without_a_reader():
    """A pipe that nobody reads any more."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


def _status(command):
    return STATUS.get(command.split()[0], 0)


#: Commands that build a whole plan import a gigabyte of libraries; one of them does under optimised bytecode, for the others their parser does.
_HEAVY = ("sweetrl_agent.compare", "sweetrl_agent.evaluate")


@commands
def test_commands_run_with_optimised_bytecode(command, run):
    name = command.split()[0]
    done = run(f"{name} --help" if name in _HEAVY else command, "</dev/null", PYTHONOPTIMIZE="2")
    assert done.returncode == _status(command) and "Traceback" not in done.stderr


def test_help_has_its_text_with_optimised_bytecode(run):
    assert "Rows with `task` and `answer` are graded." in run("colbench_gym.grade --help", PYTHONOPTIMIZE="2").stdout


@commands
def test_commands_run_with_closed_streams(command, run, tmp_path):
    done = run(command, "<&- >&-")
    assert done.returncode == _status(command) and "Traceback" not in done.stderr
    if "grade" in command:
        assert '"outcome": "passed"' in (tmp_path / "scores.jsonl").read_text()
        assert run(command, "<&- >&- 2>&-").returncode == 0


@commands
def test_an_interrupted_import_prints_no_traceback(command, run):
    for module, how in ((COMMANDS[command], "signal"), ("sandboxes.daemon", "exception")):
        done = run(command, "</dev/null", INTERRUPT_AT=module, HOW=how)
        assert (done.returncode, "Traceback" in done.stderr) == (130, False), (module, done.stderr)


@pytest.mark.parametrize(
    "command", ["colbench_gym", "colbench_gym --markdown", "sweetrl_agent.config --markdown", "sweetrl_agent.train --help", "sweetrl_agent.train --dry_run"]
)  # fmt: skip
def test_a_reader_that_leaves_ends_a_command_quietly(command, run, without_a_reader):
    done = run(command, stdout=without_a_reader)
    assert (done.returncode, done.stderr) == (141, "")


def test_scores_are_whole_where_their_reader_leaves(run, without_a_reader, tmp_path):
    done = run("colbench_gym.grade rows.jsonl --out scores.jsonl --sandbox unsafe-no-isolation", stdout=without_a_reader)
    assert done.returncode == 141 and "error" not in done.stderr
    assert '"outcome": "passed"' in (tmp_path / "scores.jsonl").read_text()


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
