"""What tests of more than one package need: processes, and a Docker daemon of our own that may be killed."""

import contextlib
import gc
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import settings

from sweetrl_agent.core.processes import yield_idle_threads

# Before any test loads torch: two processes of tests share two cores.
yield_idle_threads()
os.environ.setdefault("OMP_NUM_THREADS", "1")

# No test depends on the clock. `benchmarks/fuzz.py` asks for more inputs, of the properties that do not name a number of their own.
settings.register_profile("tests", max_examples=int(os.environ.get("COLBENCH_FUZZ_EXAMPLES", "100")), deadline=None)
settings.load_profile("tests")
os.environ.setdefault("COLBENCH_PAGE_TIMEOUT_S", "600")  # tests of the limit name their own

#: Set where everything must be there, as in `.ci/run`: a missing backend is then a failure.
MUST_HAVE_ALL = os.environ.get("COLBENCH_REQUIRE_BACKENDS") == "1"


#: The files that take longest, which begin first, so that no process is left alone with one of them.
LONGEST = (
    "test_types.py", "test_commands.py", "test_workers_files.py", "test_attacks.py", "test_bad_input.py", "test_browser.py", "test_mixtures.py",
    "test_seen.py", "test_isolation.py", "test_hostile_pages.py", "test_startup.py",
)  # fmt: skip


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))


@pytest.fixture(scope="session", autouse=True)
def _nothing_reaches_the_disk():
    """Files are not flushed to the disk, which takes milliseconds each: tests kill processes, not machines."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(scope="module", autouse=True)
def _light_process():
    """Leaves the libraries' objects out of garbage collections, which took half the time of a tiny run: every stage starts some. And one thread
    for torch, of which a run without `--threads` leaves as many as cores."""
    gc.collect()
    gc.freeze()
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)


def _descendants(pid):
    children = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # has ended meanwhile
        for task in Path(f"/proc/{pid}/task").iterdir():
            children += map(int, (task / "children").read_text().split())
    return children + [descendant for child in children for descendant in _descendants(child)]


@pytest.fixture(scope="session")
def descendants():
    """Function: process id -> ids of all processes below it."""
    return _descendants


@pytest.fixture(scope="session")
def untimed():
    """Dry runs and runs in this process time neither a model nor episodes, which takes seconds each."""
    from colbench_gym.evaluation.trial import Trial
    from sweetrl_agent.core.work import Line, Speeds
    from sweetrl_agent.trainers import speeds

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(speeds, "time_model", lambda *_: Speeds(*[Line(call=0.01)] * 4))
        patch.setattr(speeds, "time_environment", lambda *_: Trial(num_steps=1, reset_s=0.01, step_s=0.01))
        yield


#: Tables of what is registered by name, and of what servers refuse, whose ports the next test may get: module -> name.
REGISTRIES = {
    "sweetrl_agent.algorithms.registry": "ALGORITHMS", "sweetrl_agent.algorithms.critics": "CRITICS", "sweetrl_agent.algorithms.own_critics": "SPECS",
    "sweetrl_agent.envs.registry": "RECORDS", "sweetrl_agent.models.loading": "ENGINES", "colbench_gym.servers.dialect": "_changes",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _unregistered():
    """What a test registers is forgotten after it: settings are derived from the tables, and tests run in any order."""
    tables = [getattr(sys.modules[module], name) for module, name in REGISTRIES.items() if module in sys.modules]
    before = [dict(table) for table in tables]
    yield
    for table, entries in zip(tables, before, strict=True):
        if table != entries:
            table.clear()
            table.update(entries)


@pytest.fixture(scope="session")
def is_missing():
    """Function: reason -> skips the test, or fails it where everything must be there."""

    def skip_or_fail(reason):
        if MUST_HAVE_ALL:
            pytest.fail(reason)
        pytest.skip(reason)

    return skip_or_fail


@pytest.fixture(scope="session")
def needs_browser(is_missing):
    """Skips, or fails where everything must be there, without Chromium or the style sheet that pages load."""
    from sandboxes import SandboxError
    from sandboxes.pages.chromium import find_chromium
    from sandboxes.pages.web_files import TAILWIND, WebFiles

    try:
        find_chromium()
        WebFiles().path(TAILWIND)
    except SandboxError as error:
        is_missing(str(error))


class Daemon:
    """A `dockerd` whose data lies on a small disk of its own.

    Args:
        folder: For all its files; `data` in it is the disk.
    """

    def __init__(self, folder):
        from sandboxes import containers

        self._containers = containers
        self.folder = folder
        self.host = f"unix://{folder}/d.sock"
        (folder / "config.json").write_text("{}")
        self.process = None

    def start(self):
        arguments = {
            "--data-root": "data", "--exec-root": "exec", "--pidfile": "pid", "--config-file": "config.json",
        }  # fmt: skip
        command = ["dockerd", "--host", self.host, "--iptables=false", "--ip-masq=false", "--bridge=none"]
        for name, value in arguments.items():
            command += [name, str(self.folder / value)]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with contextlib.suppress(*self._containers.DAEMON_ERRORS):
                self._containers.connect().close()
                return
            time.sleep(0.1)
        raise AssertionError((self.folder / "log").read_text()[-2000:])

    def connect(self):
        """A client of it."""
        return self._containers.connect()

    def kill(self):
        """Kill it and its containerd, as the kernel does when memory has run out; the containers live on."""
        state = self.folder / "exec" / "containerd"
        os.kill(int((state / "containerd.pid").read_text()), signal.SIGKILL)
        self.process.kill()
        self.process.wait()
        for path in (self.folder / "pid", state / "containerd.pid", state / "containerd.sock"):
            path.unlink(missing_ok=True)

    def fill_disk(self):
        """Leave no byte; the file whose removal makes room again."""
        filler = self.folder / "data" / "filler"
        with contextlib.suppress(OSError), filler.open("wb") as file:
            while True:
                file.write(bytes(1 << 20))
        return filler

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=900)


@pytest.fixture(scope="module")
def daemon(is_missing):
    """A daemon of our own, with the image, which DOCKER_HOST names meanwhile."""
    pytest.importorskip("docker", reason="The docker package is missing.")
    if os.geteuid() != 0 or not shutil.which("dockerd"):
        is_missing("A daemon of our own takes root and dockerd: `apt-get install docker.io`.")
    folder = Path(tempfile.mkdtemp(prefix="colbench-daemon-"))
    data = folder / "data"
    data.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=700m", "tmpfs", data], check=True)
    daemon = Daemon(folder)
    from sandboxes.images import build

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", daemon.host)
        try:
            daemon.start()
            client = daemon.connect()
            build(client, "host", say=lambda line: None)
            client.close()
            yield daemon
        finally:
            daemon.stop()
            mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
            for mount in reversed([mount for mount in mounts if mount.startswith(str(folder))]):
                subprocess.run(["umount", mount], check=True)
            shutil.rmtree(folder)
