"""Sandboxes to test: every backend, on the real thing."""

import os
from pathlib import Path

import pytest

from sandboxes.interpreter import BUBBLEWRAP
from sandboxes.local import EmbeddedSandbox

#: Set where everything must be there, as in `.ci/run`: a missing backend is then a failure.
MUST_HAVE_ALL = os.environ.get("COLBENCH_REQUIRE_BACKENDS") == "1"

EMBEDDED_FORMS = [pytest.param("bubblewrap", marks=pytest.mark.bubblewrap), "kernel walls alone"]


def _is_missing(reason):
    if MUST_HAVE_ALL:
        pytest.fail(reason)
    pytest.skip(reason)


def _need_bubblewrap():
    if not os.access(BUBBLEWRAP, os.X_OK):
        _is_missing(f"{BUBBLEWRAP} is missing: `apt-get install bubblewrap`.")


def _descendants(pid):
    children = [int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()]
    return children + [descendant for child in children for descendant in _descendants(child)]


@pytest.fixture(scope="session")
def descendants():
    """Function: process id -> ids of all processes below it."""
    return _descendants


@pytest.fixture(scope="session")
def is_missing():
    """Function: reason -> skips the test, or fails it where everything must be there."""
    return _is_missing


@pytest.fixture(scope="session")
def docker_image():
    """The image of the Docker backend; skips where no daemon answers or the image was not built."""
    docker_backend = pytest.importorskip("sandboxes.docker", reason="The docker package is missing.")
    if reason := docker_backend.missing():
        _is_missing(f"{reason}: start a daemon, then `python -m sandboxes build`.")
    return docker_backend.default_image()


@pytest.fixture(scope="session", params=EMBEDDED_FORMS)
def use_bubblewrap(request):
    """Whether to put bubblewrap around the runners."""
    if request.param == "bubblewrap":
        _need_bubblewrap()
    return request.param == "bubblewrap"


@pytest.fixture(scope="session", params=[*EMBEDDED_FORMS, pytest.param("docker", marks=pytest.mark.docker)])
def make_sandbox(request):
    """Function: settings -> a sandbox of the backend under test."""
    if request.param == "docker":
        request.getfixturevalue("docker_image")
        from sandboxes.docker import DockerSandbox

        return DockerSandbox
    if request.param == "bubblewrap":
        _need_bubblewrap()
    return lambda **settings: EmbeddedSandbox(**settings, bubblewrap=request.param == "bubblewrap")


@pytest.fixture(scope="session")
def sandbox(make_sandbox):
    """A sandbox with one runner, so that whatever harms the runner harms the next program."""
    with make_sandbox(workers=1) as sandbox:
        yield sandbox


@pytest.fixture(scope="session")
def embedded(use_bubblewrap):
    """An embedded sandbox with one runner."""
    with EmbeddedSandbox(workers=1, bubblewrap=use_bubblewrap) as sandbox:
        yield sandbox
