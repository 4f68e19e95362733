"""``python -m sandboxes``: build the image of the Docker backend, and print the guarantees of the sandboxes on this machine."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Sequence

from sandboxes import NAMES, NEEDS_DOCKER, SandboxError, make, resolve
from sandboxes.logs import add_log_level, shown_logs
from sandboxes.named import spec_of
from sandboxes.prerequisites import require_system

_SOURCES = ("auto", "registry", "host")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m sandboxes", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build", help="build the image in which the Docker backend runs programs or renders pages")
    build.add_argument("what", nargs="?", choices=("python", "browser"), default="python", help="for programs, or for pages")
    build.add_argument(
        "--from", dest="source", choices=_SOURCES, default="auto",
        help="'registry': an official image; 'host': files of this machine, without a network; 'auto': the first that works",
    )  # fmt: skip
    check = commands.add_parser("check", help="start a sandbox, test its isolation, and print its guarantees")
    check.add_argument("name", nargs="?", default="auto", help=f"one of {', '.join(NAMES)}, 'package.module:Class', or JSON")
    for command in (build, check):
        add_log_level(command)
    options = parser.parse_args(arguments)
    try:
        with shown_logs(options.log_level, "stderr"):
            return _build(options.source, options.what) if options.command == "build" else _check(options.name)
    except (SandboxError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _build(source: str, what: str) -> int:
    require_system("docker")
    try:
        from sandboxes.containers import DAEMON_ERRORS, connect
        from sandboxes.docker import explain
        from sandboxes.images import browser_image, build, python_image
    except ImportError:
        raise SandboxError(NEEDS_DOCKER) from None

    try:
        client = connect()
    except DAEMON_ERRORS as error:
        raise explain(error) from error
    with contextlib.closing(client):
        image = python_image() if what == "python" else browser_image()
        print(f"Built {build(client, source, image=image)}.")
    return 0


def _check(asked: str) -> int:
    spec = spec_of("sandbox", asked)
    name, reason = resolve(spec)
    with make(name if isinstance(spec, str) else spec, workers=1) as sandbox:
        print(f"{name} ({reason}):")
        for wall, how in sandbox.guarantees().items():
            print(f"  {wall:13} {how}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
