"""The embedded backend as processes: threads, copies, forks, failures, walls that are missing, and an end without remains."""

import contextlib
import copy
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import sandboxes
from sandboxes import Limits, Outcome, Program, SandboxError, interpreter, pool
from sandboxes.channel import PipeChannel, RunnerError
from sandboxes.client import RunnerClient
from sandboxes.embedded import EmbeddedSandbox, UnsafeSandbox
from sandboxes.pool import ATTEMPTS

from .runs import PATIENT, run_one, wait_until

ENDLESS = "def f():\n    while True: pass"


def runners(sandbox):
    return list(sandbox._pool()._runners)


@pytest.fixture(scope="module")
def sandbox(use_bubblewrap):
    """A sandbox of this file alone: one worker has a runner for each set of modules that programs have imported."""
    with EmbeddedSandbox(workers=1, bubblewrap=use_bubblewrap) as sandbox:
        yield sandbox


def open_fds():
    return len(os.listdir("/proc/self/fd"))


# ---------------------------------------------------------------------------------------------------- batches and threads


def test_results_come_in_the_order_of_the_programs():
    with EmbeddedSandbox(workers=3) as sandbox:
        programs = [
            Program("import time\ndef f(x):\n    time.sleep(x % 3 / 100)\n    return x", (f"f({x})",), PATIENT)
            for x in range(60)
        ]
        assert [result.calls[0].value for result in sandbox.run(programs)] == list(range(60))
        assert len(runners(sandbox)) == 4  # one of each thread, and the plain one of the start
        assert sandbox.run([]) == []


def test_threads_share_a_sandbox():
    with EmbeddedSandbox(workers=2) as sandbox, ThreadPoolExecutor(8) as threads:
        values = threads.map(lambda x: sandbox.run([Program("", (f"{x} + {y}",), PATIENT) for y in range(5)]), range(40))
        assert [[r.calls[0].value for r in results] for results in values] == [[x + y for y in range(5)] for x in range(40)]


def test_runners_outlive_the_thread_that_first_used_them():
    made = []
    thread = threading.Thread(target=lambda: made.append(EmbeddedSandbox(workers=1)))
    thread.start()
    thread.join()
    time.sleep(0.05)
    with made[0] as sandbox:
        before = runners(sandbox)
        assert run_one(sandbox, "", "1").value == 1
        assert runners(sandbox) == before


# --------------------------------------------------------------------------------------------------------- copies and forks


def test_a_pickle_holds_the_settings_only():
    with EmbeddedSandbox(workers=1, packages=(), bubblewrap=False) as sandbox:
        copies = [pickle.loads(pickle.dumps(sandbox)), copy.deepcopy(sandbox)]
        for other in copies:
            assert other._pools == {}
            with other:
                assert run_one(other, "", "2").value == 2
                assert {runner.channel.pid for runner in runners(other)}.isdisjoint(
                    runner.channel.pid for runner in runners(sandbox)
                )
                assert other.guarantees()["packages"] == "none"
        assert run_one(sandbox, "", "3").value == 3


def in_fork(action):
    """What `action` returns in a forked process, as text."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(write_end, repr(action()).encode())
        finally:
            os._exit(0)
    os.close(write_end)
    with open(read_end) as pipe:
        text = pipe.read()
    os.waitpid(pid, 0)
    return text


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_starts_runners_of_its_own(use_bubblewrap):
    with EmbeddedSandbox(workers=1, bubblewrap=use_bubblewrap) as sandbox:
        assert run_one(sandbox, "", "1").value == 1
        (runner,) = runners(sandbox)

        def use_and_close():
            value = run_one(sandbox, "", "1 + 1").value
            pid = runners(sandbox)[0].channel.pid
            sandbox.close()
            return value, pid

        value, pid = eval(in_fork(use_and_close))
        assert value == 2 and pid != runner.channel.pid
        assert runners(sandbox) == [runner] and run_one(sandbox, "", "3").value == 3


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_fork_in_the_middle_of_work_is_harmless():
    with EmbeddedSandbox(workers=1) as sandbox, ThreadPoolExecutor(1) as threads:
        busy = threads.submit(sandbox.run, [Program("import time", ("time.sleep(0.3)",), PATIENT)])
        time.sleep(0.1)
        assert in_fork(lambda: run_one(sandbox, "", "5").value) == "5"
        assert busy.result()[0].calls[0].outcome is Outcome.OK


# ------------------------------------------------------------------------------------------------------ failure and repair


@pytest.fixture
def kill(descendants):
    """Function: runner -> kills it, and bubblewrap around it, at once."""

    def kill_all(runner):
        for pid in (*descendants(runner.channel.pid), runner.channel.pid):
            with contextlib.suppress(ProcessLookupError):  # goes with another one of them
                os.kill(pid, signal.SIGKILL)

    return kill_all


def test_a_dead_runner_is_replaced(sandbox, kill):
    (runner,) = runners(sandbox)
    kill(runner)
    assert run_one(sandbox, "", "1").value == 1
    assert runners(sandbox) != [runner]


def test_a_program_whose_runner_dies_every_time_counts_as_a_crash(sandbox, monkeypatch, kill):
    launched = []
    launch = sandbox._pool()._launch

    def launch_and_kill(packages):
        launched.append(launch(packages))
        kill(launched[-1])
        return launched[-1]

    monkeypatch.setattr(sandbox._pool(), "_launch", launch_and_kill)
    kill(runners(sandbox)[0])
    (result,) = sandbox.run([Program("", ("2", "1"))])
    assert [call.outcome for call in result.calls] == [Outcome.CRASH] * 2
    assert len(launched) == ATTEMPTS - 1
    monkeypatch.undo()
    assert run_one(sandbox, "", "1").value == 1


def test_a_program_over_which_runners_die_costs_its_neighbours_nothing(sandbox, monkeypatch, kill):
    deadly = "while True: pass"  # no runner answers before it is killed
    send = RunnerClient.send

    def send_and_kill(runner, program, request):
        send(runner, program, request)
        if program.source == deadly:
            kill(runner)  # with all that it was sent and all that it holds back

    monkeypatch.setattr(RunnerClient, "send", send_and_kill)
    programs = [Program(deadly if i == 13 else "", (str(i),), PATIENT) for i in range(40)]
    results = [result.calls[0] for result in sandbox.run(programs)]
    assert [call.outcome for call in results] == [Outcome.CRASH if i == 13 else Outcome.OK for i in range(40)]
    assert [call.value for call in results if call.outcome is Outcome.OK] == [i for i in range(40) if i != 13]


def test_a_slow_program_does_not_keep_back_what_others_gave(sandbox):
    endless = Program("while True: pass", ("1",) * 2)
    programs = [Program("", ("1",), PATIENT), endless, *[Program("", ("2",), PATIENT)] * 30]
    stream = sandbox.stream(programs)
    assert next(stream).calls[0].value == 1
    assert [result.calls[0].outcome for result in stream] == [Outcome.TIMEOUT] + [Outcome.OK] * 30


def test_a_runner_that_hangs_is_killed_and_replaced(sandbox, give_up_first_after, descendants):
    (runner,) = runners(sandbox)
    frozen = [runner.channel.pid, *descendants(runner.channel.pid)]
    for pid in frozen:
        os.kill(pid, signal.SIGSTOP)
    give_up_first_after(0.5)
    assert run_one(sandbox, "", "1").value == 1
    assert runners(sandbox) != [runner]
    assert not any(is_alive(pid) for pid in frozen)


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.parametrize("command", [["/bin/echo"], ["/bin/true"], ["/bin/sh", "-c", "cat; exit 1"]])
def test_something_that_is_not_a_runner_is_refused(command):
    before = open_fds()
    with pytest.raises(RunnerError, match="^The runner did not start: "):
        RunnerClient(PipeChannel(command, {}), {})
    assert open_fds() == before


def test_nothing_is_left_after_close(use_bubblewrap, descendants):
    before = open_fds(), set(descendants(os.getpid())), threading.active_count()
    for _ in range(3):
        sandbox = EmbeddedSandbox(workers=2, bubblewrap=use_bubblewrap)
        sandbox.run([Program("", ("1",))] * 4)
        sandbox.close()
        sandbox.close()
    assert (open_fds(), set(descendants(os.getpid())), threading.active_count()) == before
    with pytest.raises(SandboxError, match="^The sandbox has been closed; make a new one.$"):
        sandbox.run([Program("", ("1",))])


@pytest.mark.skipif(os.geteuid() != 0, reason="To become an ordinary user takes root.")
@pytest.mark.skipif(not interpreter.counts_by_namespace(), reason="This kernel counts all of a user's processes.")
@pytest.mark.bubblewrap
def test_an_ordinary_users_programs_cannot_use_up_the_process_ids(is_missing):
    """Root is not bound by the limit. The system's Python, because an ordinary user cannot read root's."""
    python = shutil.which("python3", path="/usr/bin")
    if python is None:
        pytest.skip("There is no /usr/bin/python3.")
    if not os.access(interpreter.BUBBLEWRAP, os.X_OK):
        is_missing(f"{interpreter.BUBBLEWRAP} is missing: `apt-get install bubblewrap`.")
    source = (
        "import threading, time\nthreading.stack_size(65536)\ndef run():\n    for made in range(2000):\n"
        "        try: threading.Thread(target=time.sleep, args=(9,), daemon=True).start()\n"
        "        except RuntimeError: return made"
    )
    code = f"""
from sandboxes import Limits, Program
from sandboxes.embedded import EmbeddedSandbox
with EmbeddedSandbox(workers=1, packages=(), bubblewrap=True) as sandbox:
    print(sandbox.run([Program({source!r}, ("run()",), Limits(call_timeout_s=9.0))])[0].calls[0].value)
"""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        shutil.copytree(Path(sandboxes.__file__).parent, f"{folder}/sandboxes")
        command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", python, "-c", code]
        result = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert result.returncode == 0, result.stderr
    assert 32 <= int(result.stdout) <= 256


def test_close_leaves_no_zombies_to_process_1():
    """Process 1 of a container may not reap. Here we take its place: what is orphaned becomes ours."""
    code = """
import ctypes, os
from pathlib import Path
from sandboxes import Program
from sandboxes.embedded import EmbeddedSandbox
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
with EmbeddedSandbox(workers=2) as sandbox:
    sandbox.run([Program("import math", ("1",)), Program("", ("1",))] * 4)
    assert [p for p in Path("/proc/self/task").glob("*/children") if p.read_text()]
print([p.read_text() for p in Path("/proc/self/task").glob("*/children") if p.read_text()])
"""
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(sandboxes.__file__).parents[1], check=True
    )
    assert result.stdout == "[]\n"


def test_close_ends_what_is_running_and_what_waits_for_its_turn(descendants):
    program = Program(ENDLESS, ("f()",), Limits(600.0, 600.0))
    sandbox = EmbeddedSandbox(workers=1)
    num_ready = len(descendants(os.getpid()))
    with ThreadPoolExecutor(4) as threads:
        runs = [threads.submit(sandbox.run, [program]) for _ in range(4)]
        assert wait_until(lambda: len(descendants(os.getpid())) > num_ready)
        sandbox.close()
        for run in runs:
            with pytest.raises(SandboxError, match="closed"):
                run.result(timeout=60)


def test_a_run_that_begins_while_the_sandbox_is_closed_starts_nothing(monkeypatch, descendants):
    before = set(descendants(os.getpid()))
    with EmbeddedSandbox(workers=1) as other:
        sandbox = copy.deepcopy(other)  # it has no pool yet
    make_pool = pool._Pool

    def close_and_make_pool(*settings):
        sandbox.close()  # as another thread does, after the run has seen that the sandbox is open
        return make_pool(*settings)

    monkeypatch.setattr(pool, "_Pool", close_and_make_pool)
    with pytest.raises(SandboxError, match="^The sandbox has been closed; make a new one.$"):
        sandbox.run([Program("", ("1",))])
    assert sandbox._pools == {} and set(descendants(os.getpid())) == before


def test_a_forgotten_sandbox_is_closed(descendants):
    before = set(descendants(os.getpid()))
    sandbox = EmbeddedSandbox(workers=1)
    del sandbox
    assert set(descendants(os.getpid())) == before


@pytest.mark.parametrize("with_bubblewrap", [True, False])
def test_runners_die_with_a_host_that_is_killed(with_bubblewrap, descendants):
    if with_bubblewrap and not os.access(interpreter.BUBBLEWRAP, os.X_OK):
        pytest.skip(f"{interpreter.BUBBLEWRAP} is missing: `apt-get install bubblewrap`.")
    code = f"""
from sandboxes import Limits, Program
from sandboxes.embedded import EmbeddedSandbox
sandbox = EmbeddedSandbox(workers=1, bubblewrap={with_bubblewrap})
input("ready\\n")
sandbox.run([Program({ENDLESS!r}, ("f()",), Limits(600.0, 600.0))])
"""
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(sandboxes.__file__).parents[1],
    ) as host:
        assert host.stdout.readline() == b"ready\n"
        num_ready = len(descendants(host.pid))
        host.stdin.write(b"\n")
        host.stdin.flush()
        assert wait_until(lambda: len(descendants(host.pid)) > num_ready), "no program runs"
        started = descendants(host.pid)
        host.kill()
    assert wait_until(lambda: not any(map(is_alive, started)))


# -------------------------------------------------------------------------------------------------------- walls and settings


def test_bubblewrap_is_used_where_it_works_and_not_needed(monkeypatch):
    monkeypatch.setattr(interpreter, "BUBBLEWRAP", "/bin/false")
    with EmbeddedSandbox(workers=1) as sandbox:
        assert run_one(sandbox, "", "1").value == 1
        assert "bubblewrap" not in str(sandbox.guarantees())
    with pytest.raises(SandboxError, match="^The runner did not start: "):
        EmbeddedSandbox(workers=1, bubblewrap=True)
    monkeypatch.setattr(interpreter, "BUBBLEWRAP", "/no/such/file")
    with pytest.raises(SandboxError, match="not found|No such file"):
        EmbeddedSandbox(workers=1, bubblewrap=True)


def test_guarantees_name_every_wall(sandbox, use_bubblewrap):
    guarantees = sandbox.guarantees()
    assert {"files", "network", "processes", "signals", "memory", "time", "python", "packages"} <= set(guarantees)
    assert ("bubblewrap" in guarantees["files"]) == use_bubblewrap
    assert guarantees["python"].startswith(f"{sys.version_info.major}.{sys.version_info.minor}.")


def test_packages_that_are_not_installed_are_absent():
    with EmbeddedSandbox(workers=1, packages=("no_such_package",)) as sandbox:
        assert sandbox.guarantees()["packages"] == "none"
        assert run_one(sandbox, "import numpy", "1").error == "ModuleNotFoundError"


@pytest.mark.parametrize(("platform", "advice"), [("darwin", "start Docker, then "), ("win32", "run everything in WSL2 ")])
@pytest.mark.parametrize("backend", [EmbeddedSandbox, UnsafeSandbox])
def test_other_systems_are_told_what_to_use(backend, monkeypatch, platform, advice):
    monkeypatch.setattr(sys, "platform", platform)
    with pytest.raises(SandboxError, match=f"^The sandbox '{backend.name}' needs Linux, got '{platform}': {advice}"):
        backend()


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="^`workers` must be at least 1, got 0.$"):
        EmbeddedSandbox(workers=0)


def test_without_isolation_is_never_a_default_and_says_what_it_is():
    with sandboxes.make("unsafe-no-isolation", workers=1) as sandbox:
        assert "NONE" in sandbox.guarantees()["isolation"]
        assert run_one(sandbox, "import os", "os.path.exists(os.sep) and len(os.listdir('/'))").value > 0
        assert run_one(sandbox, "", "bytearray(10**10)").outcome is Outcome.MEMORY
