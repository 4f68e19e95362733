"""Sandboxes for the untrusted programs and pages that agents write. Knows nothing of ColBench, Gymnasium or torch."""

from sandboxes.sandbox import CallResult, ExecutionResult, Limits, Outcome, Program, Sandbox, SandboxError

#: Names that `make` knows.
NAMES = ("auto", "embedded", "docker")

__all__ = ["CallResult", "ExecutionResult", "NAMES", "Limits", "Outcome", "Program", "Sandbox", "SandboxError", "make"]


def make(name: str = "auto", workers: int = 2) -> Sandbox:
    """Build a sandbox by name.

    Args:
        name: "auto" (the strongest that works here), "embedded" (Linux kernel walls, no daemon).
        workers: Runner processes, each of which serves one program at a time.

    Raises:
        ValueError: If the name is unknown.
        SandboxError: If the backend cannot give its guarantees on this machine; says what to do.
    """
    from sandboxes.local import EmbeddedSandbox

    if name in ("auto", "embedded"):
        return EmbeddedSandbox(workers=workers)
    if name == "docker":
        raise SandboxError("The Docker backend is not part of this version yet; use sandbox='embedded' on Linux.")
    raise ValueError(f"`name` must be one of {NAMES}, got {name!r}.")
