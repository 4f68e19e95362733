"""Failures outside the agent's control, each named after the component that failed. A failure is never turned into a score."""

from __future__ import annotations

from sandboxes.errors import ColBenchError, SandboxError

__all__ = [
    "AgentDownError",
    "AgentError",
    "ColBenchError",
    "CostError",
    "RenderModeError",
    "SandboxError",
    "ScoringError",
    "SimulatorError",
    "TaskError",
    "reason_of",
]


def reason_of(error: Exception | None) -> str:
    """Why an error voids an episode, in known words: its `reason`, or the name of its type."""
    return error.reason if isinstance(error, ColBenchError) else f"an error of the environment ({type(error).__name__})"


class TaskError(ColBenchError):
    """A task source is missing or malformed. The message names the file, the line and the field."""


class SimulatorError(ColBenchError):
    """The simulated human could not reply; the episode is void."""

    reason = "the simulated human could not reply"


class ScoringError(ColBenchError):
    """A reference cannot be graded, so answers to its task cannot be graded either."""

    reason = "the reference cannot be graded"


class CostError(ColBenchError):
    """A request to a model server is not sent, or cannot be counted, because of `--max_cost`. It voids no episode: the command ends, and resumes."""


class RenderModeError(TypeError, ValueError):
    """An environment does not have a render mode. Stable-Baselines3's `make_vec_env` asks for "rgb_array", and after a TypeError goes on without a mode."""


class AgentError(ColBenchError):
    """The evaluated agent could not speak in one dialogue, since its server failed; the episode is void.

    An agent that cannot speak at all (no server, a refused key) raises `AgentDownError`: the evaluation stops.
    """

    reason = "the agent could not speak"


class AgentDownError(ColBenchError):
    """The evaluated agent's server cannot be reached or refuses every request: nothing can be evaluated."""
