"""Sandboxes for the untrusted programs and pages that agents write. Knows nothing of ColBench, Gymnasium or torch."""

from __future__ import annotations

import logging

from sandboxes.sandbox import CallResult, ExecutionResult, Limits, Outcome, Program, Sandbox, SandboxError

#: Names that `make` knows.
NAMES = ("auto", "embedded", "docker", "unsafe-no-isolation")

__all__ = ["CallResult", "ExecutionResult", "NAMES", "Limits", "Outcome", "Program", "Sandbox", "SandboxError", "make"]

_log = logging.getLogger(__name__)


def make(name: str = "auto", workers: int = 2) -> Sandbox:
    """Build a sandbox by name.

    Args:
        name: "docker" (containers), "embedded" (Linux kernel walls, no daemon), or "auto": Docker where a daemon answers and has
            the image of `python -m sandboxes build`, else embedded. "unsafe-no-isolation" runs programs without walls, with the
            rights of this process: only for programs that you wrote yourself.
        workers: Runners, each of which serves one program at a time.

    Raises:
        ValueError: If the name is unknown.
        SandboxError: If the backend cannot give its guarantees on this machine; says what to do.
    """
    if name not in NAMES:
        raise ValueError(f"`name` must be one of {NAMES}, got {name!r}.")
    if name == "auto":
        name = "docker" if _has_docker() else "embedded"
    sandbox = _make(name, workers)
    _log.info("sandbox %s: %s", name, "; ".join(f"{wall}: {how}" for wall, how in sandbox.guarantees().items()))
    return sandbox


def _make(name: str, workers: int) -> Sandbox:
    if name == "docker":
        try:
            from sandboxes.docker import DockerSandbox
        except ImportError:
            raise SandboxError("The Docker backend needs the docker package: `pip install docker`.") from None
        return DockerSandbox(workers=workers)
    from sandboxes.local import EmbeddedSandbox, UnsafeSandbox

    return UnsafeSandbox(workers=workers) if name == "unsafe-no-isolation" else EmbeddedSandbox(workers=workers)


def _has_docker() -> bool:
    """True where a daemon answers and has the image."""
    try:
        from sandboxes.docker import has_image
    except ImportError:
        return False
    return has_image()
