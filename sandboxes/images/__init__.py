"""Images for the Docker backend, built with or without a registry.

The image for programs has an interpreter as its entry point, the standard library, and packages in `PACKAGES_DIRECTORY`. The image for
pages has a browser. Neither contains code of the project: the host sends the runner's code.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import docker
from docker.errors import APIError, BuildError, ImageNotFound

from sandboxes.images.from_host import BROWSER_CHANGES, PYTHON_CHANGES, browser_root, python_root
from sandboxes.pages.chromium import BROWSER_IMAGE, find_chromium
from sandboxes.sandbox import SandboxError

PACKAGES_DIRECTORY = "/packages"
SOURCES = ("auto", "registry", "host")
_DOCKERFILES = Path(__file__).parent


def default_image() -> str:
    """Tag of the image for this interpreter's version: some of ColBench's references return other floats in other versions."""
    return f"colbench-gym/python:{sys.version_info[0]}.{sys.version_info[1]}"


@dataclass(frozen=True)
class Image:
    """Instructions to build an image.

    Attributes:
        tag: Tag of the image.
        folder: Folder of its Dockerfile.
        arguments: Build arguments of the Dockerfile.
        root: Writes a root file system from files of this machine.
        changes: Settings for `docker import`.
    """

    tag: str
    folder: str
    arguments: dict[str, str]
    root: Callable[[], AbstractContextManager[tuple[IO[bytes], int]]]
    changes: list[str]


def python_image() -> Image:
    """The image that programs run in."""
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    return Image(
        default_image(), "python", {"PYTHON": version}, lambda: python_root(("numpy",), PACKAGES_DIRECTORY), PYTHON_CHANGES
    )


def browser_image() -> Image:
    """The image that pages are rendered in."""
    return Image(BROWSER_IMAGE, "browser", {}, lambda: browser_root(find_chromium()), BROWSER_CHANGES)


def build(
    client: docker.DockerClient, source: str = "auto", say: Callable[[str], None] = print, image: Image | None = None
) -> str:
    """Build an image.

    Args:
        client: A client of the daemon.
        source: "registry" builds the Dockerfile on an official image; "host" copies files of this machine, which needs no
            network; "auto" tries the registry first.
        say: Receives lines of progress.
        image: The image to build; None for the image that programs run in.

    Returns:
        The tag of the image.

    Raises:
        ValueError: If the source is unknown.
        SandboxError: If the image cannot be built. The message says why.
    """
    if source not in SOURCES:
        raise ValueError(f"`source` must be one of {SOURCES}, got {source!r}.")
    image = image or python_image()
    before = _image_id(client, image.tag)
    _build(client, source, image, say)
    if before and before != _image_id(client, image.tag):
        with contextlib.suppress(APIError):  # containers still run on it
            client.images.remove(before)
    return image.tag


def _image_id(client: docker.DockerClient, tag: str) -> str:
    try:
        return str(client.images.get(tag).id)
    except ImageNotFound:
        return ""


def _build(client: docker.DockerClient, source: str, image: Image, say: Callable[[str], None]) -> None:
    if source in ("auto", "registry"):
        try:
            path = str(_DOCKERFILES / image.folder)
            client.images.build(path=path, tag=image.tag, buildargs=image.arguments, rm=True, pull=False)
            return
        except (APIError, BuildError) as error:
            if source == "registry":
                raise SandboxError(
                    f"The build of {image.tag} failed: {error}. Without a registry use `--from host`."
                ) from error
            say(f"No build from a registry ({str(error).strip()[:200]}); taking what this machine has instead.")
    _from_host(client, image, say)


def _from_host(client: docker.DockerClient, image: Image, say: Callable[[str], None]) -> None:
    if not sys.platform.startswith("linux"):
        raise SandboxError(f"An image can be made of what this machine has on Linux only, got {sys.platform!r}.")
    repository, _, version = image.tag.rpartition(":")
    with image.root() as (archive, size):
        say(f"Importing {size / 1e6:.0f} MB.")
        try:
            client.api.import_image_from_data(archive, repository, version, changes=image.changes)
        except APIError as error:
            raise SandboxError(f"Docker cannot import the image: {error}.") from error
