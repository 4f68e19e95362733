"""Failures outside the agent's control, each named after the component that failed. A failure is never turned into a score."""

from __future__ import annotations


class ColBenchError(Exception):
    """Base of everything that goes wrong outside the agent's control."""


class TaskError(ColBenchError):
    """A task source is missing or malformed. The message names the file, the line and the field."""


class SimulatorError(ColBenchError):
    """The simulated human could not reply; the episode is void."""


class SandboxError(ColBenchError):
    """The sandbox could not run a program; the episode is void."""


class ScoringError(ColBenchError):
    """A reference cannot be graded, so answers to its task cannot be graded either."""


class AgentError(ColBenchError):
    """The evaluated agent could not speak in one dialogue, since its server failed; the episode is void.

    An agent that cannot speak at all (no server, a refused key) raises `AgentDownError`: the evaluation stops.
    """


class AgentDownError(ColBenchError):
    """The evaluated agent's server cannot be reached or refuses every request: nothing can be evaluated."""
