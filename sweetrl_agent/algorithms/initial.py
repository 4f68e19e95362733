"""The initial policy without further training, and the same policy without questions: what all algorithms are compared with."""

from __future__ import annotations

from sweetrl_agent.core.algorithm import START, Algorithm
from sweetrl_agent.core.run import Run


class InitialPolicy(Algorithm):
    """The initial policy without further training."""

    name, title, shared, policies, stages = "initial", "Initial policy", START, {}, {}


class SingleTurn(InitialPolicy):
    """The initial policy, forced to answer in its first turn by the environment's answer prefix as response prefix."""

    name, title, requires = "single_turn", "Single turn (no questions)", frozenset({"answer_prefix"})

    def response_prefix(self, run: Run) -> str:
        """See `Algorithm`."""
        return run.record.answer_prefix
