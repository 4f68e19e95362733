"""Credit per turn in prime-rl: an algorithm that adds the credit of each turn to GRPO's advantage of the trace.

prime-rl has no hook for algorithms of other packages, so this file is copied into its tree (read at 559b447, verifiers 0.4):

1. `src/prime_rl/orchestrator/algo/turn_credit.py` is this file.
2. `packages/prime-rl-configs/src/prime_rl/configs/algorithm.py` gets a class beside `GRPOAlgoConfig`, in the union `AlgoConfig` too:

       class TurnCreditAlgoConfig(GRPOAlgoConfig):
           type: Literal["turn_credit"] = "turn_credit"
           weight: float = 1.0

3. `ALGORITHM_CLASSES` in `orchestrator/algo/__init__.py` gets "turn_credit": TurnCreditAlgorithm.

The environment writes `trace.info["turn_credit"]`, one number per message of the agent or None: for ours, `--env.taskset.credit my_package:NAME`. prime-rl leaves
tokens of advantage 0 out of its loss and of its mean (`filter_zero_advantages`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from prime_rl.orchestrator.algo.base import iter_trainable_traces
from prime_rl.orchestrator.algo.grpo import GRPOAlgorithm
from prime_rl.orchestrator.algo.routing import assign_advantages


class TurnCreditAlgorithm(GRPOAlgorithm):  # type: ignore[misc]
    """GRPO, and the credit of every turn, standardized over all turns of the group."""

    def __init__(self, config: Any, policy_pool: Any) -> None:
        super().__init__(config, policy_pool)
        self.weight = config.weight

    async def score_group(self, episodes: list[Any]) -> None:
        """Advantages of the group's traces, per token: those of GRPO plus weight * (c_t - mean) / std."""
        await super().score_group(episodes)
        traces = [trace for _, trace in iter_trainable_traces(episodes)]
        known = [c for trace in traces for c in trace.info.get("turn_credit", ()) if c is not None]
        mean, spread = (float(np.mean(known)), float(np.std(known, ddof=1)) + 1e-4) if len(known) > 1 else (0.0, 1.0)
        for trace in traces:
            turns = [node for node in trace.nodes if any(node.mask)]
            credit = trace.info.get("turn_credit", ())
            if len(credit) != len(turns):  # a retried or forked turn: the trace keeps GRPO's advantage
                continue
            terms = [0.0 if c is None or len(known) < 2 else self.weight * (c - mean) / spread for c in credit]
            advantages = [a + term for node, term in zip(turns, terms, strict=True) for a in node.advantages]
            assign_advantages(trace, advantages)
