"""The error message for a dataset hub that cannot be reached."""

from __future__ import annotations

from colbench_gym.errors import TaskError


def not_reached(what: str, error: Exception, instead: str) -> TaskError:
    """The error for a source on the hub that cannot be loaded.

    Args:
        what: The requested source.
        error: Exception of the hub's client, which uses a dozen unrelated types.
        instead: Alternatives without a network, and other possible causes.
    """
    reason = f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return TaskError(f"Could not get {what} from the hub ({reason}). Without a network, {instead}")
