"""What is special about the Docker backend: the lock-down, what is left behind, and what happens when Docker fails."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

import sandboxes
from sandboxes import Outcome, Program, SandboxError

docker = pytest.importorskip("docker", reason="The docker package is missing.")
from sandboxes import containers  # noqa: E402
from sandboxes.client import RunnerClient  # noqa: E402
from sandboxes.docker import DockerSandbox, default_image, limits_of  # noqa: E402

from .runs import PATIENT, run_one, wait_until  # noqa: E402

pytestmark = pytest.mark.docker
PROJECT = Path(sandboxes.__file__).parents[1]


@pytest.fixture
def client(docker_image):
    client = containers.connect()
    yield client
    client.close()


OTHER_TESTS = set()


@pytest.fixture(autouse=True)
def _other_tests_containers(docker_image):
    """Leave containers out of account that were there before the test: other tests share a sandbox."""
    client = containers.connect()
    OTHER_TESTS.clear()
    OTHER_TESTS.update(container.id for container in own_containers(client))
    client.close()


def own_containers(client, pid=None):
    """Containers of this process, or of another one."""
    running = client.containers.list(all=True, filters={"label": containers.LABEL}, ignore_removed=True)
    owner = f", {pid or os.getpid()}, "
    return [c for c in running if owner in c.labels[containers.LABEL + ".owner"] and c.id not in OTHER_TESTS]


def stop(client, container_id):
    """Stop the processes of a container, the first of all first. Not `docker pause`: runc gives up where processes come and go."""
    processes = client.api.top(container_id)
    for row in processes["Processes"]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(row[processes["Titles"].index("PID")]), signal.SIGSTOP)


def channels(sandbox):
    return [runner.channel for runner in sandbox._pool()._runners]


# ---------------------------------------------------------------------------------------------------------------- the walls


def test_a_container_has_nothing_that_it_does_not_need_and_the_guarantees_name_it(client):
    with DockerSandbox(workers=1) as sandbox:
        (channel,) = channels(sandbox)
        attributes = client.api.inspect_container(channel.container_id)
        guarantees = sandbox.guarantees()
    assert (guarantees["image"], guarantees["runtime"]) == (default_image(), "default")
    assert guarantees["python"].startswith(f"{sys.version_info[0]}.{sys.version_info[1]}.")
    host, config = attributes["HostConfig"], attributes["Config"]
    assert (host["NetworkMode"], host["ReadonlyRootfs"], host["Privileged"], host["AutoRemove"]) == ("none", True, False, True)
    assert host["CapDrop"] == ["ALL"] and not host["CapAdd"]
    assert host["SecurityOpt"] == ["no-new-privileges=true"]
    assert host["Memory"] == host["MemorySwap"] == 1024 << 20
    assert (host["PidsLimit"], host["LogConfig"]["Type"], host["IpcMode"], host["Init"]) == (128, "none", "none", False)
    assert not host["Binds"] and not attributes["Mounts"] and not host["Devices"]
    assert "noexec" in host["Tmpfs"]["/tmp"]
    assert config["User"] == "65534:65534"
    assert all("KEY" not in entry and "TOKEN" not in entry for entry in config["Env"])


def test_a_program_larger_than_the_container_harms_only_itself(docker_image):
    with DockerSandbox(workers=1, memory_mib=128) as sandbox:
        fill = "for i in range(0, len(x), 4096): x[i] = 1"
        large = Program(f"def f():\n    x = bytearray(600 << 20)\n    {fill}", ("f()",), replace(PATIENT, memory_mib=2048))
        result, after = sandbox.run([large, Program("", ("1",), PATIENT)])
        assert result.calls[0].outcome is Outcome.CRASH
        assert after.calls[0].value == 1


def test_a_program_starts_no_more_threads_than_the_container_may_have(docker_image):
    source = """
import threading
def run():
    threading.stack_size(1 << 16)
    held, made = threading.Event(), 0
    try:
        for made in range(300):
            threading.Thread(target=held.wait, daemon=True).start()
    except RuntimeError:
        pass
    return made
"""
    with DockerSandbox(workers=1) as sandbox:
        result, after = sandbox.run([Program(source, ("run()",), PATIENT), Program("", ("1",), PATIENT)])
        assert 32 <= result.calls[0].value < containers.MAX_PROCESSES
        assert after.calls[0].value == 1


ALL_LIMITS = {"CgroupVersion": "2", "MemoryLimit": True, "SwapLimit": True, "PidsLimit": True, "CpuCfsQuota": True}


@pytest.mark.parametrize(
    ("lacking", "memory", "processes"),
    [
        (set(), "64 MiB without swap in the container (cgroup version 2)", "128 in the container (cgroup version 2)"),
        ({"SwapLimit"}, "64 MiB and swap without limit in the container (cgroup version 2)", None),
        ({"MemoryLimit", "SwapLimit"}, "the container has no limit: no memory cgroup", None),
        ({"PidsLimit"}, None, "threads have no limit: no cgroup of processes"),
        (set(ALL_LIMITS), "the container has no limit: no memory cgroup", "threads have no limit: no cgroup of processes"),
    ],
)
def test_guarantees_say_which_limits_the_daemon_keeps(lacking, memory, processes):
    guarantees = limits_of({key: value for key, value in ALL_LIMITS.items() if key not in lacking}, 64)
    assert guarantees["memory"] == (memory or "64 MiB without swap in the container (cgroup version 2)")
    assert guarantees["processes"] == (processes or "128 in the container (cgroup version 2)")


def test_the_image_holds_nothing_of_the_project(client):
    search = "import os; print([r for r, _, f in os.walk('/') for n in f if 'colbench' in r + n or 'sweetrl' in r + n])"
    container = client.containers.create(default_image(), ["-c", search], network_mode="none")
    try:
        container.start()
        assert container.wait()["StatusCode"] == 0
        assert container.logs().strip() == b"[]"
    finally:
        container.remove(force=True)


# ------------------------------------------------------------------------------------------------------------ left behind


def test_nothing_is_left_after_close(docker_image):
    def resources():
        with contextlib.closing(containers.connect()) as client:
            wait_until(lambda: not own_containers(client))
            left = own_containers(client)
        # Counted without the client that looked: its connections come and go.
        return left, threading.active_count(), len(os.listdir("/proc/self/fd"))

    gc.collect()  # what earlier tests have left
    before = resources()
    for _ in range(2):
        sandbox = DockerSandbox(workers=2)
        sandbox.run([Program("", ("1",))] * 8)
        sandbox.close()
        sandbox.close()
    assert resources() == before == ([], *before[1:])
    with pytest.raises(SandboxError, match="^The sandbox has been closed; make a new one.$"):
        sandbox.run([Program("", ("1",))])


@pytest.mark.parametrize("is_stopped", [False, True])
def test_containers_end_with_a_host_that_is_killed(client, is_stopped, monkeypatch):
    label = f"colbench-gym.test-{os.getpid()}"  # so that no other test's reaper comes first
    monkeypatch.setattr(containers, "LABEL", label)
    monkeypatch.setattr(containers, "_OWNER", f"{label}.owner")
    code = """
import sys
from sandboxes import Program, containers
containers.LABEL, containers._OWNER = sys.argv[1], f"{sys.argv[1]}.owner"
from sandboxes.docker import DockerSandbox
sandbox = DockerSandbox(workers=1)
print("ready", flush=True)
sandbox.run([Program("def f():\\n    while True: pass", ("f()",) * 30)] * 100)
"""
    with subprocess.Popen([sys.executable, "-c", code, label], stdout=subprocess.PIPE, cwd=PROJECT) as host:
        try:
            assert host.stdout.readline() == b"ready\n"
            time.sleep(0.3)
            started = own_containers(client, host.pid)
            assert len(started) == 1
            if is_stopped:  # a container that cannot notice: the next host's reaper finds it
                stop(client, started[0].id)
        finally:
            host.kill()
    if is_stopped:
        time.sleep(0.5)
        assert own_containers(client, host.pid)
        assert containers.reap(client) == [started[0].id]
    assert wait_until(lambda: not own_containers(client, host.pid))


def test_the_reaper_leaves_the_living_alone(client):
    with DockerSandbox(workers=1) as sandbox:
        assert containers.reap(client) == []
        assert run_one(sandbox, "", "1").value == 1


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_starts_containers_of_its_own(client):
    with DockerSandbox(workers=1) as sandbox:
        (before,) = own_containers(client)
        pid = os.fork()
        if pid == 0:
            try:
                status = int(run_one(sandbox, "", "7").value)
                sandbox.close()
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
        assert [c.id for c in own_containers(client)] == [before.id]
        assert run_one(sandbox, "", "1").value == 1
    assert wait_until(lambda: not own_containers(client, pid))


def test_a_container_is_replaced_after_its_share_of_programs(client):
    with DockerSandbox(workers=1, recycle_after=5) as sandbox:
        seen = set()
        for _ in range(4):
            sandbox.run([Program("", ("1",))] * 3)
            seen |= {channel.container_id for channel in channels(sandbox)}
        assert len(seen) == 3
        assert wait_until(lambda: len(own_containers(client)) == 1)


# --------------------------------------------------------------------------------------------------------------- failures


def test_containers_that_are_killed_change_no_verdict(docker_image, monkeypatch):
    programs = [
        Program("import time\ndef f(x):\n    time.sleep(0.01)\n    return x", (f"f({x})", "1 / 0"), PATIENT) for x in range(400)
    ]
    receive, killed = RunnerClient.receive, []

    def receive_and_kill(runner):
        result = receive(runner)
        if runner.num_served == 50:  # it has been sent others, and runs one of them
            with contextlib.closing(containers.connect()) as own:
                own.api.kill(runner.channel.container_id)
            killed.append(runner.channel.container_id)
        return result

    monkeypatch.setattr(RunnerClient, "receive", receive_and_kill)
    with DockerSandbox(workers=2) as sandbox:
        results = sandbox.run(programs)
    assert len(killed) >= 4
    assert [result.calls[0].value for result in results] == list(range(400))
    assert {result.calls[1].error for result in results} == {"ZeroDivisionError"}


def test_a_runner_that_hangs_is_replaced(client, give_up_first_after):
    with DockerSandbox(workers=1) as sandbox:
        (channel,) = channels(sandbox)
        stop(client, channel.container_id)
        give_up_first_after(0.5)
        assert run_one(sandbox, "", "1").value == 1
        assert [c.status for c in own_containers(client) if c.id == channel.container_id] == []


@pytest.fixture
def no_daemon(monkeypatch, tmp_path):
    """A DOCKER_HOST where nobody listens."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")


def test_without_a_daemon_the_way_out_is_named(no_daemon):
    with pytest.raises(
        SandboxError,
        match=r"^No Docker daemon answers at unix://.*nobody.sock \(.*\)\. Start .* or use sandbox='embedded' on Linux\.$",
    ):
        DockerSandbox()


def test_without_an_image_the_way_out_is_named(docker_image):
    with pytest.raises(SandboxError, match=r"^There is no image 'no-such:image'\. Get it: `docker pull no-such:image`\.$"):
        DockerSandbox(image="no-such:image")


def test_an_unknown_runtime_is_refused(docker_image):
    with pytest.raises(SandboxError, match="^Docker refuses: .*no-such-runtime"):
        DockerSandbox(runtime="no-such-runtime")


def test_without_a_daemon_auto_is_the_embedded_backend(no_daemon):
    with sandboxes.make(workers=1) as sandbox:
        assert sandbox.name == "embedded"


def test_with_a_daemon_and_an_image_auto_is_docker(docker_image):
    with sandboxes.make(workers=1) as sandbox:
        assert sandbox.name == "docker"
        assert run_one(sandbox, "", "bytearray(10**9)").outcome is Outcome.MEMORY
