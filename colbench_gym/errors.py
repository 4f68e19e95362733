"""Failures outside the agent's control, each named after the component that failed. A failure is never turned into a score."""

from __future__ import annotations


class ColBenchError(Exception):
    """Base of everything that goes wrong outside the agent's control.

    Attributes:
        reason: What failed, in known words: neither hidden information nor the text of a server or a program, which the message may quote. It stands in the
            row of a void episode.
    """

    reason = "something outside the agent's control failed"

    def __init__(self, message: str = "", reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason or self.reason


def reason_of(error: Exception | None) -> str:
    """Why an error voids an episode, in known words: its `reason`, or the name of its type."""
    return error.reason if isinstance(error, ColBenchError) else f"an error of the environment ({type(error).__name__})"


class TaskError(ColBenchError):
    """A task source is missing or malformed. The message names the file, the line and the field."""


class SimulatorError(ColBenchError):
    """The simulated human could not reply; the episode is void."""

    reason = "the simulated human could not reply"


class SandboxError(ColBenchError):
    """The sandbox could not run a program; the episode is void."""

    reason = "the sandbox could not run a program"


class ScoringError(ColBenchError):
    """A reference cannot be graded, so answers to its task cannot be graded either."""

    reason = "the reference cannot be graded"


class AgentError(ColBenchError):
    """The evaluated agent could not speak in one dialogue, since its server failed; the episode is void.

    An agent that cannot speak at all (no server, a refused key) raises `AgentDownError`: the evaluation stops.
    """

    reason = "the agent could not speak"


class AgentDownError(ColBenchError):
    """The evaluated agent's server cannot be reached or refuses every request: nothing can be evaluated."""
