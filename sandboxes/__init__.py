"""Sandboxes for untrusted programs and pages that agents write. Independent of ColBench, Gymnasium and torch."""

from __future__ import annotations

import logging

from sandboxes.daemon import address, knock
from sandboxes.sandbox import CallResult, ExecutionResult, Limits, Outcome, Program, Sandbox, SandboxError

#: Names that `make` accepts.
NAMES = ("auto", "embedded", "docker", "unsafe-no-isolation")
#: Error message for a missing docker package.
NEEDS_DOCKER = "The Docker backend needs the docker package: `pip install docker`."

__all__ = [
    "CallResult", "ExecutionResult", "NAMES", "Limits", "Outcome", "Program", "Sandbox", "SandboxError", "make", "resolve",
]  # fmt: skip

_log = logging.getLogger(__name__)
_log.addHandler(logging.NullHandler())


def make(name: str = "auto", workers: int = 2) -> Sandbox:
    """Build a sandbox by name.

    Args:
        name: "docker" (containers), "embedded" (isolation by the Linux kernel, no daemon), or "auto": Docker if a daemon answers and
            has the image of `python -m sandboxes build`, else embedded. "unsafe-no-isolation" runs programs without isolation, with
            the rights of this process: only for programs that you wrote yourself.
        workers: Number of runners, each of which runs one program at a time.

    Raises:
        ValueError: If the name is unknown.
        SandboxError: If the backend cannot give its guarantees on this machine. The message says what to do.
    """
    name, _ = resolve(name)
    sandbox = _make(name, workers)
    if _log.isEnabledFor(logging.DEBUG):  # `guarantees` starts a runner with all packages
        _log.debug("sandbox %s: %s", name, "; ".join(f"{wall}: {how}" for wall, how in sandbox.guarantees().items()))
    return sandbox


def resolve(name: str = "auto", image: str | None = None) -> tuple[str, str]:
    """The backend for a name on this machine, and the reason. `image` is the image that Docker needs; None for that of programs.

    Raises:
        ValueError: If the name is unknown.
    """
    if name not in NAMES:
        raise ValueError(f"`name` must be one of {NAMES}, got {name!r}.")
    if name != "auto":
        return name, "as asked for"
    reason = docker_lacks(image)
    return ("embedded", reason) if reason else ("docker", "a daemon answers and has the image")


def docker_lacks(image: str | None = None) -> str:
    """What the Docker backend lacks here: a daemon, its package, an image (None: that of programs); "" if nothing is missing."""
    try:
        knock()
    except OSError:
        return f"no Docker daemon answers at {address()}"
    try:
        from sandboxes.docker import missing
    except ImportError:
        return "the docker package is not installed"
    return missing(image)


def _make(name: str, workers: int) -> Sandbox:
    if name == "docker":
        try:
            from sandboxes.docker import DockerSandbox
        except ImportError:
            raise SandboxError(NEEDS_DOCKER) from None
        return DockerSandbox(workers=workers)
    from sandboxes.local import EmbeddedSandbox, UnsafeSandbox

    return UnsafeSandbox(workers=workers) if name == "unsafe-no-isolation" else EmbeddedSandbox(workers=workers)
