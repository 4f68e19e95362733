"""The self-test of a runner before its first program: it tries to break through each wall."""

from __future__ import annotations

from collections.abc import Collection

from sandboxes.channel import RunnerError
from sandboxes.client import RunnerClient
from sandboxes.sandbox import CallResult, Limits, Outcome, Program, SandboxError

_MEMORY_MIB = 512

_SOURCE = """
import os, socket

def read(path):
    with open(path) as file:
        return len(file.read(1))

def write(path):
    with open(path, "w"):
        pass
    os.unlink(path)

def fork():
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)

def open_one(pids, names):
    # The first that opens of what /proc has of these processes.
    for pid in pids:
        for name in names:
            try:
                return os.close(os.open(f"/proc/{pid}/{name}", os.O_RDONLY | os.O_NONBLOCK))
            except OSError:
                pass
    raise PermissionError(1, "none")

def others():
    # All, where they can be listed, else those that there must be.
    try:
        found = [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        found = ["1", "2"]
    return {str(os.getppid()), *found} - {str(os.getpid())}

def use_any(descriptors):
    for fd in descriptors:
        try:
            return os.fstat(fd).st_mode
        except OSError:
            pass
    raise PermissionError(1, "none")
"""

_PROBES = {
    "evaluate an expression": "1 + 1",
    "write a file": "write('/tmp/sandbox-self-test')",
    "write a file in memory": "write('/dev/shm/sandbox-self-test')",
    "read /etc/passwd": "read('/etc/passwd')",
    "read the environment of its runner": "read('/proc/%d/environ' % os.getppid())",
    "open a descriptor of another process": "open_one(others(), [f'fd/{number}' for number in range(64)])",
    "read the memory of another process": "open_one(others(), ('mem', 'maps', 'environ'))",
    "open the channel of its results again": "open_one(['self'], ['fd/3'])",
    "use a descriptor that is not its own": "use_any(range(4, 256))",
    "read the project": f"read({__file__!r})",
    "open a socket": "socket.socket().close()",
    "start a process": "fork()",
    "run a command": "os.execv('/bin/true', ['true'])",
    "signal its runner": "os.kill(os.getppid(), 0)",
    "use more memory than it may": f"len(bytearray({2 * _MEMORY_MIB} << 20))",
}
_EXPECTED = {"evaluate an expression": Outcome.OK, "use more memory than it may": Outcome.MEMORY}


def check_walls(runner: RunnerClient, tolerated: Collection[str] = ()) -> None:
    """Test every wall. If one is missing, the runner is closed.

    Args:
        runner: A runner that has just started.
        tolerated: Names of probes that may succeed here.

    Raises:
        SandboxError: If a wall is missing. The message names it and says what to do.
        RunnerError: If the runner or one of its probes is killed.
    """
    try:
        _check(runner, tolerated)
    except BaseException:
        runner.channel.close()
        raise
    runner.num_served = 0


def _check(runner: RunnerClient, tolerated: Collection[str]) -> None:
    result = runner.run(Program(_SOURCE, tuple(_PROBES.values()), Limits(call_timeout_s=5.0, memory_mib=_MEMORY_MIB)))
    failed = [name for name, call in zip(_PROBES, result.calls, strict=True) if not _is_as_expected(name, call)]
    if failed == list(_PROBES):
        raise SandboxError(
            f"The sandbox cannot confine a program on this machine: {result.stderr or 'no reason given'}. {_ADVICE}"
        )
    failed = [name for name in failed if name not in tolerated]
    ended = {name for name, call in zip(_PROBES, result.calls, strict=True) if call.outcome is Outcome.CRASH}
    if failed and ended.issuperset(failed):  # killed from outside: this says nothing about the walls
        raise RunnerError(f"Its self-test was interrupted at: {', '.join(failed)}.")
    if failed:
        raise SandboxError(f"The sandbox refuses to serve: a program in it could {', '.join(failed)}. {_ADVICE}")


def _is_as_expected(name: str, call: CallResult) -> bool:
    if name.startswith("read") and call.error == "FileNotFoundError":
        return True  # not mounted at all
    return call.outcome is _EXPECTED.get(name, Outcome.FORBIDDEN)


_ADVICE = (
    "Install bubblewrap (`apt-get install bubblewrap`), or use Linux 5.13 or newer with Landlock and seccomp enabled; in a "
    "container, allow those system calls."
)
