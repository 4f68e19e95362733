"""A runner killed at its launch, as by the kernel when memory runs out, is started again, as one killed at work is."""

import contextlib
import os
import signal
import stat

import pytest

from sandboxes import CallResult, ExecutionResult, Limits, Outcome, Program, SandboxError, embedded, interpreter
from sandboxes.channel import PipeChannel, RunnerError
from sandboxes.client import RunnerClient
from sandboxes.embedded import EmbeddedSandbox
from sandboxes.interpreter import BUBBLEWRAP
from sandboxes.pool import ATTEMPTS, PooledSandbox
from sandboxes.self_test import _PROBES, check_walls

ONE = Program("", ("1",), Limits(call_timeout_s=10.0))
needs_bubblewrap = [
    pytest.mark.bubblewrap,
    pytest.mark.skipif(not os.access(BUBBLEWRAP, os.X_OK), reason=f"{BUBBLEWRAP} is missing: `apt-get install bubblewrap`."),
]


class KilledSandbox(PooledSandbox):
    """The embedded backend, some of its runners killed at the launch; `launched` says which.

    Args:
        kills: For each launch, whether it is killed; later ones are not.
        at_end: Called with each runner's sandbox before it is killed.
    """

    def __init__(self, kills, at_end=lambda sandbox: None):
        self.kills, self.at_end, self.launched = list(kills), at_end, []
        self._start = embedded._Launcher((), bubblewrap=False)
        super().__init__(1, (), self._launch_or_kill)

    def _launch_or_kill(self, modules):
        is_killed = bool(self.kills) and self.kills.pop(0)
        self.launched.append(is_killed)
        if not is_killed:
            return self._start(modules)
        self.at_end(self)
        return RunnerClient(PipeChannel(["/bin/sh", "-c", "kill -9 $$"], {}), {})

    def guarantees(self):
        return {}


def test_a_first_runner_killed_at_its_launch_is_started_again():
    with KilledSandbox([True, True]) as sandbox:
        assert sandbox.run([ONE])[0].calls[0].value == 1
        assert sandbox.launched == [True, True, False]


def test_a_later_runner_killed_at_its_launch_costs_no_program():
    with KilledSandbox([False, True, True, False, True]) as sandbox:
        (runner,) = sandbox._pool()._runners
        os.kill(runner.channel.pid, signal.SIGKILL)
        results = sandbox.run([ONE] * 9 + [Program("import math", ("math.pi",))])
        assert [result.calls[0].outcome for result in results] == [Outcome.OK] * 10
        assert sandbox.launched == [False, True, True, False, True, False]


def test_a_runner_that_never_starts_is_an_error_after_all_attempts():
    launches = []

    def launch(modules):
        launches.append(modules)
        return RunnerClient(PipeChannel(["/bin/sh", "-c", "echo no memory >&2; kill -9 $$"], {}), {})

    with pytest.raises(SandboxError, match="^The runner did not start: It has ended. no memory$"):
        type("Failing", (KilledSandbox,), {"_launch_or_kill": staticmethod(launch)})([])
    assert launches == [()] * ATTEMPTS


def test_what_starting_again_cannot_mend_is_not_started_again():
    launches = []

    def launch(modules):
        launches.append(modules)
        raise SandboxError("A wall is missing.")

    with pytest.raises(SandboxError, match="^A wall is missing.$"):
        type("Failing", (KilledSandbox,), {"_launch_or_kill": staticmethod(launch)})([])
    assert launches == [()]


def test_a_sandbox_that_is_closed_meanwhile_starts_nothing_more():
    with pytest.raises(SandboxError, match="closed"), KilledSandbox([False, True], PooledSandbox.close) as sandbox:
        sandbox.run([Program("import math", ("1",))])
    assert sandbox.launched == [False, True]


@pytest.mark.parametrize(
    "bubblewrap", [pytest.param(None, marks=needs_bubblewrap), pytest.param(True, marks=needs_bubblewrap), False]
)
@pytest.mark.parametrize("operation", range(4))
def test_a_kill_at_any_step_of_a_launch(monkeypatch, descendants, bubblewrap, operation):
    """While it is sent its code, before it is ready, and before and in its self-test; with its walls as they would have been."""

    class Killed(PipeChannel):
        made = 0

        def __init__(self, *arguments, **settings):
            super().__init__(*arguments, **settings)
            Killed.made += 1
            self.left = operation if Killed.made == 1 else -1

        def kill_at_the_operation(self):
            if self.left == 0:
                for pid in (*descendants(self.pid), self.pid):
                    with contextlib.suppress(ProcessLookupError):  # goes with another one of them
                        os.kill(pid, signal.SIGKILL)
            self.left -= 1

        def send(self, data, deadline):
            self.kill_at_the_operation()
            super().send(data, deadline)

        def receive(self, deadline):
            self.kill_at_the_operation()
            return super().receive(deadline)

    monkeypatch.setattr(embedded, "PipeChannel", Killed)
    with EmbeddedSandbox(workers=1, packages=(), bubblewrap=bubblewrap) as sandbox:
        assert sandbox.run([ONE])[0].calls[0].value == 1
        assert Killed.made == 2
        assert ("bubblewrap" in sandbox.guarantees()["files"]) == (bubblewrap is not False)


@pytest.mark.bubblewrap
@pytest.mark.skipif(not os.access(BUBBLEWRAP, os.X_OK), reason=f"{BUBBLEWRAP} is missing: `apt-get install bubblewrap`.")
def test_a_kill_does_not_make_the_walls_lower(monkeypatch, tmp_path):
    """One killed in bubblewrap was taken for a machine on which bubblewrap does not work."""
    wrapper = tmp_path / "bwrap"
    wrapper.write_text(
        f"#!/bin/sh\ncase $(ls {tmp_path} | wc -l) in [1-{ATTEMPTS - 1}]) mktemp -p {tmp_path} >/dev/null; kill -9 $$;; esac\n"
        f'exec {BUBBLEWRAP} "$@"\n'
    )
    wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(interpreter, "BUBBLEWRAP", str(wrapper))
    with EmbeddedSandbox(workers=1, packages=()) as sandbox:
        assert "bubblewrap" in sandbox.guarantees()["files"]
    assert len(list(tmp_path.iterdir())) == ATTEMPTS


class Answering:
    """A runner whose self-test gives these outcomes; `probe` is killed."""

    def __init__(self, killed):
        self.killed, self.channel, self.ready, self.num_served = killed, self, {"landlock": 6}, 0

    def run(self, program):
        passes = {"evaluate an expression": Outcome.OK, "use more memory than it may": Outcome.MEMORY}
        outcomes = [Outcome.CRASH if name in self.killed else passes.get(name, Outcome.FORBIDDEN) for name in _PROBES]
        return ExecutionResult(tuple(CallResult(outcome) for outcome in outcomes))

    def close(self):
        self.is_closed = True


@pytest.mark.parametrize("name", [name for name in _PROBES if name != "use more memory than it may"])
def test_a_probe_that_is_killed_says_nothing_about_a_wall(name):
    runner = Answering({name})
    with pytest.raises(RunnerError, match=f"^Its self-test was interrupted at: {name}.$"):
        check_walls(runner)
    assert runner.is_closed


def test_a_machine_that_kills_every_probe_cannot_confine_a_program():
    with pytest.raises(SandboxError, match="^The sandbox cannot confine a program on this machine"):
        check_walls(Answering(set(_PROBES)))


@pytest.mark.parametrize(("failures", "is_started"), [(ATTEMPTS - 1, True), (ATTEMPTS, False)])
def test_a_container_killed_at_its_launch_is_started_again(failures, is_started):
    docker_backend = pytest.importorskip("sandboxes.docker", reason="The docker package is missing.")
    launches = []

    class Launcher(docker_backend._Launcher):
        def _start(self, modules):
            launches.append(modules)
            if len(launches) <= failures:
                raise RunnerError("The runner did not start: It has ended.")
            return "a runner"

    launch = Launcher("image", None, 1024, patience_s=0.0)
    if is_started:
        assert launch(("math",)) == "a runner"
    else:
        with pytest.raises(SandboxError, match="^A container of 'image' cannot serve: The runner did not start: It has ended."):
            launch(("math",))
    assert len(launches) == ATTEMPTS
