"""What to say where the hub of data sets cannot be reached."""

from __future__ import annotations

from colbench_gym.errors import TaskError


def not_reached(what: str, error: Exception, instead: str) -> TaskError:
    """The error of a source on the hub.

    Args:
        what: What was asked for.
        error: What the hub's client raised; it has a dozen unrelated types for this.
        instead: What to use without a network, and what else may be amiss.
    """
    reason = f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return TaskError(f"Could not get {what} from the hub ({reason}). Without a network, {instead}")
