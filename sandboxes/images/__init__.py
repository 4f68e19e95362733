"""Images for the Docker backend, and how they are made with and without a registry.

Either way an image holds an interpreter as its entry point, the standard library, and packages in `PACKAGES_DIRECTORY`; nothing of
the project: the host sends the runner's code itself.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from pathlib import Path

import docker
from docker.errors import APIError, BuildError, ImageNotFound

from sandboxes.images.from_host import CHANGES, write_root
from sandboxes.sandbox import SandboxError

PACKAGES_DIRECTORY = "/packages"
SOURCES = ("auto", "registry", "host")
_DOCKERFILES = Path(__file__).parent / "python"


def default_image() -> str:
    """Tag of the image for this interpreter's version: some of ColBench's references give other floats on another one."""
    return f"colbench-gym/python:{sys.version_info[0]}.{sys.version_info[1]}"


def build(client: docker.DockerClient, source: str = "auto", say: Callable[[str], None] = print) -> str:
    """Build the image that programs run in.

    Args:
        client: A client of the daemon.
        source: "registry" builds `images/python/Dockerfile` on an official slim Python; "host" copies this machine's own
            interpreter, which needs no network; "auto" tries the registry first.
        say: Takes lines of progress.

    Returns:
        The image's tag.

    Raises:
        ValueError: If the source is unknown.
        SandboxError: If the image cannot be built; says why.
    """
    if source not in SOURCES:
        raise ValueError(f"`source` must be one of {SOURCES}, got {source!r}.")
    tag = default_image()
    before = _image_id(client, tag)
    _build(client, source, tag, say)
    if before and before != _image_id(client, tag):
        with contextlib.suppress(APIError):  # containers still run on it
            client.images.remove(before)
    return tag


def _image_id(client: docker.DockerClient, tag: str) -> str:
    try:
        return str(client.images.get(tag).id)
    except ImageNotFound:
        return ""


def _build(client: docker.DockerClient, source: str, tag: str, say: Callable[[str], None]) -> None:
    if source in ("auto", "registry"):
        try:
            return _from_registry(client, tag)
        except (APIError, BuildError) as error:
            if source == "registry":
                raise SandboxError(f"The build of {tag} failed: {error}. Without a registry use `--from host`.") from error
            say(f"No build from a registry ({str(error).strip()[:200]}); taking this machine's own Python instead.")
    _from_host(client, tag, say)


def _from_registry(client: docker.DockerClient, tag: str) -> None:
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    client.images.build(path=str(_DOCKERFILES), tag=tag, buildargs={"PYTHON": version}, rm=True, pull=False)


def _from_host(client: docker.DockerClient, tag: str, say: Callable[[str], None]) -> None:
    if not sys.platform.startswith("linux"):
        raise SandboxError(f"An image can be made of this machine's Python on Linux only, got {sys.platform!r}.")
    repository, _, version = tag.rpartition(":")
    with write_root(("numpy",), PACKAGES_DIRECTORY) as (archive, size):
        say(f"Importing {size / 1e6:.0f} MB.")
        try:
            client.api.import_image_from_data(archive, repository, version, changes=CHANGES)
        except APIError as error:
            raise SandboxError(f"Docker cannot import the image: {error}.") from error
