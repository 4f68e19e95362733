"""Sandboxes to test: every backend, on the real thing."""

import os
from itertools import chain, repeat

import pytest

from sandboxes import client
from sandboxes.embedded import EmbeddedSandbox, _Launcher
from sandboxes.interpreter import BUBBLEWRAP
from sandboxes.pool import PooledSandbox

#: A kernel that has no Landlock, as gVisor and many of RHEL, Docker Desktop and WSL.
WITHOUT_LANDLOCK = "bubblewrap without Landlock"
EMBEDDED_FORMS = [pytest.param("bubblewrap", marks=pytest.mark.bubblewrap), "kernel walls alone"]


def _need_bubblewrap(is_missing):
    if not os.access(BUBBLEWRAP, os.X_OK):
        is_missing(f"{BUBBLEWRAP} is missing: `apt-get install bubblewrap`.")


@pytest.fixture(scope="session")
def docker_image(is_missing):
    """The image of the Docker backend; skips where no daemon answers or the image was not built."""
    docker_backend = pytest.importorskip("sandboxes.docker", reason="The docker package is missing.")
    if reason := docker_backend.missing():
        is_missing(f"{reason}: start a daemon, then `python -m sandboxes build`.")
    return docker_backend.default_image()


@pytest.fixture(scope="session", params=EMBEDDED_FORMS)
def use_bubblewrap(request, is_missing):
    """Whether to put bubblewrap around the runners."""
    if request.param == "bubblewrap":
        _need_bubblewrap(is_missing)
    return request.param == "bubblewrap"


class WithoutLandlock(PooledSandbox):
    """The embedded backend on a kernel without Landlock."""

    def __init__(self, workers=2, packages=("numpy",)):
        super().__init__(workers, packages, _Launcher(packages, bubblewrap=True, omit_walls=("landlock",)))

    def guarantees(self):
        return {"python": self._ready()["python"]}


BACKENDS = [
    *EMBEDDED_FORMS,
    pytest.param(WITHOUT_LANDLOCK, marks=pytest.mark.bubblewrap),
    pytest.param("docker", marks=pytest.mark.docker),
]


@pytest.fixture(scope="session", params=BACKENDS)
def make_sandbox(request, is_missing):
    """Function: settings -> a sandbox of the backend under test."""
    if request.param == "docker":
        request.getfixturevalue("docker_image")
        from sandboxes.docker import DockerSandbox

        return DockerSandbox
    if request.param != "kernel walls alone":
        _need_bubblewrap(is_missing)
    if request.param == WITHOUT_LANDLOCK:
        return WithoutLandlock
    return lambda **settings: EmbeddedSandbox(**settings, bubblewrap=request.param == "bubblewrap")


@pytest.fixture(scope="session")
def sandbox(make_sandbox):
    """A sandbox with one runner, so that whatever harms the runner harms the next program."""
    with make_sandbox(workers=1) as sandbox:
        yield sandbox


@pytest.fixture
def give_up_first_after(monkeypatch):
    """Function: seconds -> a runner that takes longer over the next program counts as hung; the one in its place has a minute."""

    def give_up(seconds):
        limits = chain([seconds] * 2, repeat(60.0))  # to send the program, and to receive its result
        monkeypatch.setattr(client, "_allowed_s", lambda program: next(limits))

    return give_up


@pytest.fixture(scope="session")
def embedded(use_bubblewrap):
    """An embedded sandbox with one runner."""
    with EmbeddedSandbox(workers=1, bubblewrap=use_bubblewrap) as sandbox:
        yield sandbox
