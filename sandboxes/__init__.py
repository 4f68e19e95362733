"""Sandboxes for the untrusted programs and pages that agents write. Knows nothing of ColBench, Gymnasium or torch."""

from __future__ import annotations

import logging

from sandboxes.daemon import address, knock
from sandboxes.sandbox import CallResult, ExecutionResult, Limits, Outcome, Program, Sandbox, SandboxError

#: Names that `make` knows.
NAMES = ("auto", "embedded", "docker", "unsafe-no-isolation")
#: What to do where the docker package is missing.
NEEDS_DOCKER = "The Docker backend needs the docker package: `pip install docker`."

__all__ = [
    "CallResult", "ExecutionResult", "NAMES", "Limits", "Outcome", "Program", "Sandbox", "SandboxError", "make", "resolve",
]  # fmt: skip

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
    name, _ = resolve(name)
    sandbox = _make(name, workers)
    if _log.isEnabledFor(logging.INFO):  # to ask starts a runner with all packages
        _log.info("sandbox %s: %s", name, "; ".join(f"{wall}: {how}" for wall, how in sandbox.guarantees().items()))
    return sandbox


def resolve(name: str = "auto") -> tuple[str, str]:
    """The backend that a name stands for on this machine, and why.

    Raises:
        ValueError: If the name is unknown.
    """
    if name not in NAMES:
        raise ValueError(f"`name` must be one of {NAMES}, got {name!r}.")
    if name != "auto":
        return name, "as asked for"
    try:
        knock()
    except OSError:
        return "embedded", f"no Docker daemon answers at {address()}"
    try:
        from sandboxes.docker import missing
    except ImportError:
        return "embedded", "the docker package is not installed"
    reason = missing()
    return ("embedded", reason) if reason else ("docker", "a daemon answers and has the image")


def _make(name: str, workers: int) -> Sandbox:
    if name == "docker":
        try:
            from sandboxes.docker import DockerSandbox
        except ImportError:
            raise SandboxError(NEEDS_DOCKER) from None
        return DockerSandbox(workers=workers)
    from sandboxes.local import EmbeddedSandbox, UnsafeSandbox

    return UnsafeSandbox(workers=workers) if name == "unsafe-no-isolation" else EmbeddedSandbox(workers=workers)
