"""Embedded sandboxes to test, with and without bubblewrap around them."""

import os
from pathlib import Path

import pytest

from sandboxes.interpreter import BUBBLEWRAP
from sandboxes.local import EmbeddedSandbox


def _has_bubblewrap():
    return os.access(BUBBLEWRAP, os.X_OK)


def _descendants(pid):
    children = [int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()]
    return children + [descendant for child in children for descendant in _descendants(child)]


@pytest.fixture(scope="session")
def descendants():
    """Function: process id -> ids of all processes below it."""
    return _descendants


@pytest.fixture(scope="session", params=["bubblewrap", "kernel walls alone"])
def use_bubblewrap(request):
    """Whether to put bubblewrap around the runners."""
    if request.param == "bubblewrap" and not _has_bubblewrap():
        pytest.skip(f"{BUBBLEWRAP} is missing: `apt-get install bubblewrap`.")
    return request.param == "bubblewrap"


@pytest.fixture(scope="session")
def sandbox(use_bubblewrap):
    """A sandbox with one runner, so that whatever harms the runner harms the next program."""
    with EmbeddedSandbox(workers=1, bubblewrap=use_bubblewrap) as sandbox:
        yield sandbox
