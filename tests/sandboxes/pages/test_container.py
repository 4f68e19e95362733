"""Pages in a container: the same pictures as behind bubblewrap, no network, and nothing left."""

from __future__ import annotations

import contextlib
import os
import signal
import socket

import pytest

pytest.importorskip("playwright")
pytest.importorskip("docker", reason="The docker package is missing.")

from sandboxes import SandboxError, containers, docker_lacks, resolve
from sandboxes.browser import Browser, make_browser
from sandboxes.pages import Page, PageOutcome
from sandboxes.pages.chromium import BROWSER_IMAGE
from sandboxes.pages.container import write_docker_launcher

from ..runs import wait_until
from .hostile_pages import HOSTILE, WITH_SCRIPTS

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def browser(is_missing):
    if reason := docker_lacks(BROWSER_IMAGE):
        is_missing(f"{reason}; build the image with `python -m sandboxes build browser`")
    with make_browser("docker", workers=1) as browser:
        yield browser


def _own_containers():
    client = containers.connect()
    try:
        running = client.containers.list(all=True, filters={"ancestor": "colbench-gym/browser:chromium"}, ignore_removed=True)
        return {container.id for container in running}
    finally:
        client.close()


def test_the_pictures_are_those_of_the_embedded_browser(browser):
    pages = [
        Page(f'<h1 style="color:rgb({i},90,120)">Page {i}</h1><img src="https://picsum.photos/30{i}/20{i}">') for i in range(4)
    ]
    with make_browser("embedded", workers=1) as other:
        embedded = other.render(pages)
    made = browser.render(pages)
    assert all(rendering.outcome is PageOutcome.OK for rendering in made)
    assert [r.boxes for r in made] == [r.boxes for r in embedded] and [r.picture for r in made] == [r.picture for r in embedded]
    assert resolve("auto", BROWSER_IMAGE)[0] == "docker"


@pytest.mark.parametrize(
    "name", ["frame of a file", "image of the web", "a loop", "calls home", "sockets", "windows", "all memory"]
)
def test_hostile_pages_are_contained(browser, name):
    heard = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        html = HOSTILE[name].format(port=server.getsockname()[1])
        (rendering,) = browser.render([Page(html, scripts=name in WITH_SCRIPTS, timeout_s=4)])
        with contextlib.suppress(TimeoutError):
            heard.append(server.accept())
    assert not heard and not any("root:" in box.text for box in rendering.boxes)
    assert browser.render([Page(f"<p>after {name}")])[0].outcome is PageOutcome.OK


def test_nothing_is_left_when_it_is_closed(browser):
    before = _own_containers()
    with Browser(workers=2, launcher=write_docker_launcher) as closed:
        assert [r.outcome for r in closed.render([Page("<p>a"), Page("<p>b")])] == [PageOutcome.OK] * 2
        assert len(_own_containers() - before) == 2
    assert wait_until(lambda: _own_containers() <= before)


def test_nothing_is_left_when_the_bridge_is_killed(browser, descendants):
    before = _own_containers()
    with Browser(workers=1, launcher=write_docker_launcher) as closed:
        mine = set(descendants(os.getpid()))
        closed.render([Page("<p>a")])
        new = set(descendants(os.getpid())) - mine
        bridges = [pid for pid in new if b"sandboxes.pages.container" in _command_line(pid)]
        assert bridges
        for pid in bridges:
            os.kill(pid, signal.SIGKILL)
        assert closed.render([Page("<p>b")])[0].outcome is PageOutcome.OK  # in a new one
    assert wait_until(lambda: _own_containers() <= before)


def test_without_a_daemon_it_is_said_what_to_do(monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "unix:///no/such/socket")
    with (
        make_browser("docker") as browser,
        pytest.raises(SandboxError, match="no Docker daemon answers at .*sandboxes build browser"),
    ):
        browser.render([Page("x")])
    assert resolve("auto", BROWSER_IMAGE)[0] == "embedded"
    with pytest.raises(ValueError, match="`sandbox` must be one of"):
        make_browser("podman")


def _command_line(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
    except OSError:
        return b""
