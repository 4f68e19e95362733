"""Every wall of every backend left out, one at a time: the others hold, or the self-test refuses and says what a program could do.

Without any of them a program holds nothing of its neighbours. Then the walls between a program and the requests that wait for its
runner, each of them alone.
"""

import os
from contextlib import contextmanager

import pytest

from sandboxes import Limits, Outcome, Program, SandboxError
from sandboxes.channel import RunnerError
from sandboxes.client import pack_request
from sandboxes.embedded import _Launcher
from sandboxes.interpreter import bubblewrap_command
from sandboxes.runner.walls import WALLS  # in a test only: a host must not load it

from .memory_spy import assert_isolated, spies

ALONE, BUBBLEWRAP, DOCKER = "kernel walls alone", "bubblewrap", "docker"
MARKS = {BUBBLEWRAP: [pytest.mark.bubblewrap], DOCKER: [pytest.mark.docker]}
LIMITS = Limits(call_timeout_s=5.0)
SECRET = "rival-answer"
RIVAL = Program(f"def solve():\n    return '{SECRET}'", ("solve()",))

#: `steal` reads what /proc has of processes other than its own, and says where it found the rival's answer.
THIEF = f"""
import os

def read(path):
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        return os.read(fd, 1 << 16)
    finally:
        os.close(fd)

def steal():
    found = []
    for pid in {{1, 2, *range(max(1, os.getppid() - 8), os.getpid())}}:
        for name in ("environ", "cmdline", *(f"fd/{{number}}" for number in range(64))):
            try:
                if "{SECRET[:5]}" "{SECRET[5:]}" in read(f"/proc/{{pid}}/{{name}}").decode("latin-1"):
                    found.append(name)
            except OSError:
                pass
    return found
"""

#: `run` says which of these things a program can do.
HOSTILE = """
import ctypes, mmap, os, resource, signal, socket

libc = ctypes.CDLL(None, use_errno=True)

def syscall(*arguments):
    if libc.syscall(*arguments) < 0:
        raise OSError(ctypes.get_errno(), "refused")

def exhaust_address_space():
    return [mmap.mmap(-1, 64 << 20) for _ in range(64)]

THINGS = {
    "fork": lambda: os.fork() or os._exit(0),
    "execute": lambda: os.execv("/bin/true", ["true"]),
    "signal": lambda: os.kill(os.getppid(), 0),
    "slow down": lambda: os.setpriority(os.PRIO_PROCESS, os.getppid(), 19),
    "limit": lambda: resource.prlimit(os.getppid(), resource.RLIMIT_CPU),
    "trace": lambda: syscall(101, 16, os.getppid(), 0, 0),
    "read memory": lambda: syscall(310, os.getppid(), 0, 0, 0, 0, 0),
    "new namespace": lambda: syscall(272, 0x10000000),
    "mount": lambda: syscall(165, b"none", b"/", b"tmpfs", 0, 0),
    "become root": lambda: os.setuid(0),
    "TCP": lambda: socket.socket(),
    "netlink": lambda: socket.socket(16, socket.SOCK_RAW, 0),
    "abstract socket": lambda: socket.socket(socket.AF_UNIX),
    "shared memory": lambda: syscall(29, 1, 4096, 0o1777),
    "write": lambda: open("/tmp/sandbox-wall", "w"),
    "write to memory": lambda: open("/dev/shm/sandbox-wall", "w"),
    "hostname": lambda: socket.sethostname("x"),
    "raise the limit": lambda: resource.setrlimit(resource.RLIMIT_AS, (-1, -1)),
    "map memory": exhaust_address_space,
    "read the host": lambda: open(CANARY).read(),
}

def run():
    done = []
    for name, thing in THINGS.items():
        try:
            thing()
        except (OSError, ValueError, MemoryError):
            continue
        done.append(name)
    return done
"""


@pytest.fixture(scope="module")
def canary(tmp_path_factory):
    path = tmp_path_factory.mktemp("host") / "canary"
    path.write_text("of the host")
    return str(path)


@pytest.fixture
def start(request, is_missing):
    """Function: backend and what to leave out -> a context with its runner."""

    @contextmanager
    def run(backend, omit_walls=(), outer=None, is_checked=True):
        if backend == DOCKER:
            request.getfixturevalue("docker_image")
            from sandboxes.docker import _Launcher as Containers
            from sandboxes.images import default_image

            launch = Containers(default_image(), None, 1024, 0.0, omit_walls, outer or {}, is_checked)
        else:
            if backend == BUBBLEWRAP and not os.access("/usr/bin/bwrap", os.X_OK):
                is_missing("/usr/bin/bwrap is missing: `apt-get install bubblewrap`.")
            launch = _Launcher((), backend == BUBBLEWRAP, omit_walls, is_checked, outer or bubblewrap_command)
        runner = launch(())
        try:
            yield runner
        finally:
            runner.channel.close()

    return run


def stolen(runner):
    """What the thief finds while a rival's program waits for the runner; the rival must get its own result if nothing was found."""
    thief = Program(THIEF, ("steal()",), LIMITS)
    runner.send(
        thief, pack_request(thief) + pack_request(RIVAL)
    )  # in one piece, so that the rival is there before the thief looks
    runner._sent.append(RIVAL)
    answers = runner.receive().calls[0].value
    if not answers:
        assert runner.receive().calls[0].value == SECRET
    return answers


def run_ahead(runner, programs):
    """Run programs that are all sent before the first result is taken."""
    for program in programs:
        runner.send(program, pack_request(program))
    return [runner.receive() for _ in programs]


def assert_contained(runner, canary):
    assert stolen(runner) == []
    assert_isolated(lambda programs: run_ahead(runner, programs), *spies(3))
    assert runner.run(Program(f"CANARY = {canary!r}\n{HOSTILE}", ("run()",), LIMITS)).calls[0].value == []
    harm = Program(
        "import ctypes\ndef spin():\n while True: pass", ("spin()", "ctypes.string_at(0)", "2"), Limits(call_timeout_s=2.0)
    )
    outcomes = [call.outcome for call in runner.run(harm).calls]
    assert outcomes == [Outcome.TIMEOUT, Outcome.CRASH, Outcome.OK]


def without(*arguments):
    """Bubblewrap's command line without some of its arguments."""

    def wrap(interpreter):
        command = bubblewrap_command(interpreter)
        for argument in arguments:
            command.remove(argument)
        return command

    return wrap


def with_proc(command):
    """A command line of bubblewrap, with /proc mounted."""
    at = command.index("--dev")
    return [*command[:at], "--proc", "/proc", *command[at:]]


def with_files_of_the_host(interpreter):
    """Bubblewrap's command line with all files of the host mounted, its /proc included."""
    command = bubblewrap_command(interpreter)
    mounts, rest = command.index("--dev"), command.index("--remount-ro")
    return [*command[:mounts], "--ro-bind", "/", "/", "--dev", "/dev", *command[rest:]]


OF_BUBBLEWRAP = {
    "user namespace": without("--unshare-user-try", "--uid", "65534", "--gid", "65534"),
    "IPC namespace": without("--unshare-ipc"),
    "process namespace": without("--unshare-pid", "--as-pid-1"),
    "network namespace": without("--unshare-net"),
    "host name": without("--unshare-uts", "--hostname", "sandbox"),
    "cgroup namespace": without("--unshare-cgroup-try"),
    "runner is process 1": without("--as-pid-1"),
    "session": without("--new-session"),
    "capabilities": without("--cap-drop", "ALL"),
    "read-only root": without("--remount-ro", "/"),
    "no /proc": lambda interpreter: with_proc(bubblewrap_command(interpreter)),
    "no files of the host": with_files_of_the_host,
}
OF_DOCKER = {
    "network": {"network_mode": "host"},
    "read-only root": {"read_only": False},
    "capabilities": {"cap_drop": []},
    "no new privileges": {"security_opt": []},
    "the daemon's seccomp profile": {"security_opt": ["no-new-privileges=true", "seccomp=unconfined"]},
    "user": {"user": "0:0"},
    "processes": {"pids_limit": -1},
    "memory": {"mem_limit": 0, "memswap_limit": 0},
    "open files and cores": {"ulimits": []},
    "small /tmp": {"tmpfs": {}},
    "IPC namespace": {"ipc_mode": "host"},
    "process namespace": {"pid_mode": "host"},
    "host name": {"uts_mode": "host", "hostname": None},
    "cgroup namespace": {"cgroupns": "host"},
    "runner is process 1": {"init": True},
}
REFUSES = "^The sandbox refuses to serve: a program in it could .*{}.* Install bubblewrap"
#: How a runner is refused without one of its walls, by backend; everything else is held by the others.
REFUSED = (
    {
        (ALONE, "landlock"): REFUSES.format("read /etc/passwd"),
        (ALONE, "no new privileges"): "^The runner did not start: .*landlock_restrict_self failed",  # nor a filter
    }
    | {
        (backend, wall): REFUSES.format(could)
        for backend in (ALONE, BUBBLEWRAP, DOCKER)
        for wall, could in {
            "runner filter": "open a socket",
            "program filter": "start a process",
            "RLIMIT_AS": "use more memory than it may",
        }.items()
    }
    | {(DOCKER, "RLIMIT_AS"): "use more memory than it may"}
)  # the probe is killed where the daemon limits a container's memory


def cases(by_backend):
    return [
        pytest.param(backend, case, marks=MARKS.get(backend, []), id=f"{backend}-{case}")
        for backend, of_backend in by_backend.items()
        for case in of_backend
    ]


@pytest.mark.parametrize(("backend", "wall"), cases(dict.fromkeys((ALONE, BUBBLEWRAP, DOCKER), WALLS)))
def test_a_wall_of_the_runner_left_out(backend, wall, start, canary):
    if (backend, wall) in REFUSED:
        with pytest.raises((SandboxError, RunnerError), match=f"(?s){REFUSED[backend, wall]}"), start(backend, [wall]):
            pass
        assert not os.path.exists("/tmp/sandbox-self-test")
        return
    with start(backend, [wall]) as runner:
        assert_contained(runner, canary)


@pytest.mark.parametrize(("backend", "wall"), cases({BUBBLEWRAP: OF_BUBBLEWRAP, DOCKER: OF_DOCKER}))
def test_a_wall_around_the_runner_left_out(backend, wall, start, canary):
    with start(backend, outer={BUBBLEWRAP: OF_BUBBLEWRAP, DOCKER: OF_DOCKER}[backend][wall]) as runner:
        assert_contained(runner, canary)


#: Walls between a program and the requests that wait for its runner, each enough without the others: what of the runner and what
#: around it must then stand.
AGAINST_THEFT = {
    "landlock": ({"landlock"}, set()),
    "sealed pipes": ({"sealed pipes"}, set()),
    "no process but the runner, which is not dumpable": ({"not dumpable"}, {"process 1"}),
    "no /proc": (set(), {"no /proc"}),
}


def leave_out(backend, kept_inside, kept_outside):
    """Arguments of `start` that leave out all walls against theft but those to keep."""
    inside = {"landlock", "sealed pipes", "not dumpable"} - kept_inside
    if backend == DOCKER:
        return inside, {"init": "process 1" not in kept_outside}

    def wrap(interpreter):
        command = bubblewrap_command(interpreter)
        if "process 1" not in kept_outside:
            command.remove("--as-pid-1")
        return command if "no /proc" in kept_outside else with_proc(command)

    return inside, wrap


@pytest.mark.parametrize(("backend", "wall"), cases({BUBBLEWRAP: AGAINST_THEFT, DOCKER: list(AGAINST_THEFT)[:-1]}))
def test_each_wall_against_theft_is_enough(backend, wall, start):
    omit_walls, outer = leave_out(backend, *AGAINST_THEFT[wall])
    with start(backend, omit_walls, outer, is_checked=False) as runner:
        assert stolen(runner) == []


@pytest.mark.parametrize(
    ("kept_inside", "kept_outside"),
    [(set(), set()), ({"not dumpable"}, set()), (set(), {"process 1"})],
    ids=["none", "only not dumpable", "only process 1"],
)
@pytest.mark.parametrize("backend", [pytest.param(backend, marks=marks) for backend, marks in MARKS.items()])
def test_without_walls_against_theft_the_self_test_refuses(backend, kept_inside, kept_outside, start):
    """It must, for the thief then finds the rival's answer: this is what the other tests would miss if they could not fail."""
    omit_walls, outer = leave_out(backend, kept_inside, kept_outside)
    with start(backend, omit_walls, outer, is_checked=False) as runner:
        assert stolen(runner)
    with pytest.raises(SandboxError, match="could .*open a descriptor of another process"), start(backend, omit_walls, outer):
        pass


def test_an_unknown_wall_is_refused(start):
    with (
        pytest.raises((SandboxError, RunnerError), match="`omit` must name walls of .*, got \\['moat'\\]"),
        start(ALONE, ["moat"]),
    ):
        pass
