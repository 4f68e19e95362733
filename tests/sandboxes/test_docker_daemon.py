"""A Docker daemon that dies, comes back, or has a full disk. On a daemon of our own, which takes root and `dockerd`."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import pytest

from sandboxes import Program, SandboxError

pytest.importorskip("docker", reason="The docker package is missing.")
from sandboxes import containers
from sandboxes.docker import DockerSandbox
from sandboxes.images import build

pytestmark = [
    pytest.mark.docker,
    pytest.mark.slow,  # `.ci/run` runs all that are marked docker
    # Docker's SDK forgets to close a socket whose connect fails. `knock` keeps it from trying, but a daemon can die in between.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


class Daemon:
    """A `dockerd` whose data lies on a small disk of its own."""

    def __init__(self, folder: Path):
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
            with contextlib.suppress(*containers.DAEMON_ERRORS):
                containers.connect().close()
                return
            time.sleep(0.1)
        raise AssertionError((self.folder / "log").read_text()[-2000:])

    def kill(self):
        """Kill it and its containerd, as the kernel does when memory has run out; the containers live on."""
        state = self.folder / "exec" / "containerd"
        os.kill(int((state / "containerd.pid").read_text()), signal.SIGKILL)
        self.process.kill()
        self.process.wait()
        for path in (self.folder / "pid", state / "containerd.pid", state / "containerd.sock"):
            path.unlink(missing_ok=True)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=60)


@pytest.fixture(scope="module")
def daemon(is_missing):
    if os.geteuid() != 0 or not shutil.which("dockerd"):
        is_missing("A daemon of our own takes root and dockerd: `apt-get install docker.io`.")
    folder = Path(tempfile.mkdtemp(prefix="colbench-daemon-"))
    data = folder / "data"
    data.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=700m", "tmpfs", data], check=True)
    daemon = Daemon(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", daemon.host)
        try:
            daemon.start()
            client = containers.connect()
            build(client, "host", say=lambda line: None)
            client.close()
            yield daemon
        finally:
            daemon.stop()
            mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
            for mount in reversed([mount for mount in mounts if mount.startswith(str(folder))]):
                subprocess.run(["umount", mount], check=True)
            shutil.rmtree(folder)


@pytest.mark.parametrize("is_killed", [True, False])
def test_a_daemon_that_restarts_in_the_middle_changes_no_verdict(daemon, is_killed):
    programs = [Program("import time\ndef f(x):\n    time.sleep(0.01)\n    return x", (f"f({x})", "1 / 0")) for x in range(500)]
    restarted = threading.Event()

    def restart():
        time.sleep(1.0)
        daemon.kill() if is_killed else daemon.stop()
        time.sleep(1.0)
        daemon.start()
        restarted.set()

    with DockerSandbox(workers=2) as sandbox:
        thread = threading.Thread(target=restart)
        thread.start()
        results = sandbox.run(programs)
        was_restarted = restarted.is_set()
        thread.join()
        assert was_restarted, "the batch was over before the daemon came back: the test shows nothing"
        assert [result.calls[0].value for result in results] == list(range(500))
        assert {result.calls[1].error for result in results} == {"ZeroDivisionError"}
    client = containers.connect()
    try:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and client.containers.list(all=True, ignore_removed=True):
            containers.reap(client)
            time.sleep(0.2)
        assert client.containers.list(all=True, ignore_removed=True) == []
    finally:
        client.close()


def test_a_daemon_that_stays_away_is_an_error_and_no_verdict(daemon):
    with DockerSandbox(workers=1, patience_s=1.0) as sandbox:
        assert sandbox.run([Program("", ("1",))])[0].calls[0].value == 1
        daemon.stop()
        try:
            with pytest.raises(SandboxError, match=r"^No Docker daemon answers .* or use sandbox='embedded' on Linux\.$"):
                sandbox.run([Program("", ("1",))])
        finally:
            daemon.start()
        assert sandbox.run([Program("", ("2",))])[0].calls[0].value == 2


def test_a_full_disk_says_what_to_do(daemon):
    filler = daemon.folder / "data" / "filler"
    with contextlib.suppress(OSError), filler.open("wb") as file:
        while True:
            file.write(bytes(1 << 20))
    try:
        with pytest.raises(SandboxError, match=r"^Docker's disk is full .*docker system prune"):
            DockerSandbox(workers=1)
    finally:
        filler.unlink()
    with DockerSandbox(workers=1) as sandbox:
        assert sandbox.run([Program("", ("2",))])[0].calls[0].value == 2
