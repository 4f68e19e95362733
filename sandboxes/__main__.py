"""``python -m sandboxes``: build the image of the Docker backend, and say what the sandboxes of this machine guarantee."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from sandboxes import NAMES, NEEDS_DOCKER, SandboxError, make, resolve

_SOURCES = ("auto", "registry", "host")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m sandboxes", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build", help="build the image that the Docker backend runs programs in, or renders pages in")
    build.add_argument("what", nargs="?", choices=("python", "browser"), default="python", help="for programs, or for pages")
    build.add_argument(
        "--from", dest="source", choices=_SOURCES, default="auto",
        help="'registry': an official image; 'host': what this machine has itself, without a network; 'auto': the first that works",
    )  # fmt: skip
    check = commands.add_parser("check", help="start a sandbox, run into all its walls, and say what it guarantees")
    check.add_argument("name", nargs="?", choices=NAMES, default="auto")
    options = parser.parse_args(arguments)
    try:
        return _build(options.source, options.what) if options.command == "build" else _check(options.name)
    except SandboxError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _build(source: str, what: str) -> int:
    try:
        from sandboxes.docker import client_or_error
        from sandboxes.images import browser_image, build, python_image
    except ImportError:
        raise SandboxError(NEEDS_DOCKER) from None

    client = client_or_error()
    try:
        image = python_image() if what == "python" else browser_image()
        print(f"Built {build(client, source, image=image)}.")
    finally:
        client.close()
    return 0


def _check(name: str) -> int:
    name, reason = resolve(name)
    with make(name, workers=1) as sandbox:
        print(f"{name} ({reason}):")
        for wall, how in sandbox.guarantees().items():
            print(f"  {wall:13} {how}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
