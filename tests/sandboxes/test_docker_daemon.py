"""A Docker daemon that dies, comes back, or has a full disk. On a daemon of our own, which takes root and `dockerd`."""

from __future__ import annotations

import threading
import time

import pytest

from sandboxes import Program, SandboxError

pytest.importorskip("docker", reason="The docker package is missing.")
from sandboxes import containers
from sandboxes.docker import DockerSandbox

pytestmark = [
    pytest.mark.docker,
    pytest.mark.slow,  # `.ci/run` runs all that are marked docker
    # Docker's SDK forgets to close a socket whose connect fails. `knock` keeps it from trying, but a daemon can die in between.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


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
    filler = daemon.fill_disk()
    try:
        with pytest.raises(SandboxError, match=r"^Docker's disk is full .*docker system prune"):
            DockerSandbox(workers=1)
    finally:
        filler.unlink()
    with DockerSandbox(workers=1) as sandbox:
        assert sandbox.run([Program("", ("2",))])[0].calls[0].value == 2
