"""Sandboxes for untrusted programs and pages that agents write. Independent of ColBench, Gymnasium and torch."""

from __future__ import annotations

import sandboxes.startup  # noqa: F401  # first: an interrupt or a closed stream is handled from here on

# isort: split
import logging
from typing import Any

from sandboxes.named import Spec, build, load_class, load_named, name_and_arguments, unknown
from sandboxes.prerequisites import address, knock, require_system, unsupported
from sandboxes.sandbox import CallResult, ExecutionResult, Limits, Outcome, Program, Sandbox, SandboxError

#: Names that `make` accepts, and what they are.
DESCRIPTIONS = {
    "auto": "`docker` where a daemon answers and has the image of `python -m sandboxes build`, else `embedded`",
    "embedded": "isolation by the Linux kernel, without a daemon",
    "docker": "containers",
    "unsafe-no-isolation": "no isolation: only for programs that you wrote yourself",
}
NAMES = tuple(DESCRIPTIONS)
#: Methods that a sandbox of your own defines.
METHODS = ("run", "guarantees", "close")
#: Error message for a missing docker package.
NEEDS_DOCKER = "The Docker backend needs the docker package: `pip install docker`."

__all__ = [
    "CallResult", "ExecutionResult", "NAMES", "Limits", "Outcome", "Program", "Sandbox", "SandboxError", "check_name", "make", "resolve",
]  # fmt: skip

_log = logging.getLogger(__name__)
_log.addHandler(logging.NullHandler())


def make(name: Spec = "auto", workers: int = 2) -> Sandbox:
    """Build a sandbox by name.

    Args:
        name: "docker" (containers), "embedded" (isolation by the Linux kernel, no daemon), or "auto": Docker if a daemon answers and
            has the image of `python -m sandboxes build`, else embedded. "unsafe-no-isolation" runs programs without isolation, with
            the rights of this process: only for programs that you wrote yourself. "package.module:Class" is a `Sandbox` of your own.
            A mapping has such a name under "name", and keyword arguments: ``{"name": "docker", "memory_mib": 2048}``.
        workers: Number of runners, each of which runs one program at a time. A class of your own gets it if its constructor takes it.

    Raises:
        ValueError: If the name is unknown, the class is no `Sandbox`, or an argument is unknown to it.
        SandboxError: If the backend cannot give its guarantees on this machine. The message says what to do.
    """
    backend, arguments = name_and_arguments("sandbox", name)
    resolved, _ = resolve(backend)
    sandbox = _make(resolved, arguments, workers)
    if _log.isEnabledFor(logging.DEBUG):  # `guarantees` starts a runner with all packages
        _log.debug("sandbox %s: %s", resolved, "; ".join(f"{wall}: {how}" for wall, how in sandbox.guarantees().items()))
    return sandbox


def check_name(spec: Spec, base: type | None = None, methods: tuple[str, ...] = METHODS) -> None:
    """Refuse a specification of a sandbox that `make` would refuse by its name; a module that it names is imported.

    Args:
        spec: As for `make`.
        base: Class that a user-defined one must be derived from; None for `Sandbox`.
        methods: Methods that it must define.

    Raises:
        ValueError: If the name is unknown, or the class is of a wrong type.
    """
    name, _ = name_and_arguments("sandbox", spec)
    if ":" in name:
        kind = base or Sandbox
        load_class("sandbox", name, f"a `{kind.__name__}` of `{kind.__module__.removesuffix('.sandbox')}`", methods, kind)
    elif name not in NAMES:
        raise unknown("sandbox", name, NAMES)


def resolve(name: Spec = "auto", image: str | None = None) -> tuple[str, str]:
    """The backend for a name on this machine, and the reason. `image` is the image that Docker needs; None for that of programs.

    Raises:
        ValueError: If the name is unknown.
    """
    name, _ = name_and_arguments("sandbox", name)
    if ":" in name:
        return name, "a class of your own: it gives its own guarantees"
    if name not in NAMES:
        raise unknown("sandbox", name, NAMES)
    if name != "auto":
        return name, "as asked for"
    reason = docker_lacks(image)
    return ("embedded", reason) if reason else ("docker", "a daemon answers and has the image")


def system_lacks(name: Spec = "auto") -> str:
    """Why this operating system cannot run a sandbox, in one sentence; "" if it can, and for a class of your own.

    Raises:
        ValueError: If the name is unknown.
    """
    resolved, _ = resolve(name)
    return "" if ":" in resolved else unsupported(resolved)


def docker_lacks(image: str | None = None) -> str:
    """What the Docker backend lacks here: a daemon, its package, an image (None: that of programs); "" if nothing is missing."""
    if why := unsupported("docker"):
        return why
    try:
        knock()
    except OSError:
        return f"no Docker daemon answers at {address()}"
    try:
        from sandboxes.docker import missing
    except ImportError:
        return "the docker package is not installed"
    return missing(image)


def _make(name: str, arguments: dict[str, Any], workers: int) -> Sandbox:
    if ":" in name:
        check_name(name)
        made_by_user: Sandbox = build("sandbox", name, load_named("sandbox", name), arguments, {"workers": workers})
        return made_by_user
    require_system(name)
    if name == "docker":
        try:
            from sandboxes.docker import DockerSandbox
        except ImportError:
            raise SandboxError(NEEDS_DOCKER) from None
        kind: type[Sandbox] = DockerSandbox
    else:
        from sandboxes.embedded import EmbeddedSandbox, UnsafeSandbox

        kind = UnsafeSandbox if name == "unsafe-no-isolation" else EmbeddedSandbox
    made: Sandbox = build("sandbox", name, kind, {"workers": workers, **arguments})
    return made
