"""Behaviour cloning: the policy that SFT on the behaviour data makes, which is the initial policy of every run.

It has no stage of its own, and hence no settings but those of SFT (`sft_*`). Beside `initial`, which is the same policy, it refuses a run without
SFT, where the initial policy is a pretrained model that has seen no behaviour data.

Source: arXiv:2311.18232 (BC).
"""

from __future__ import annotations

from sweetrl_agent.core.algorithm import START, Algorithm
from sweetrl_agent.core.policy import Policies
from sweetrl_agent.core.run import Run


class BehaviourCloning(Algorithm):
    """Behaviour cloning; see the module's docstring."""

    name, title, shared, policies, stages = "bc", "Behaviour cloning", START, {}, {}

    def load(self, run: Run) -> Policies:
        """Load the initial policy.

        Raises:
            ValueError: If the run has no SFT.
        """
        if not run.config.has_sft:
            raise ValueError(
                "'bc' is the policy that SFT on behaviour data makes, and this run has no SFT: give `--sft_dialogues` and, where the environment "
                "has no demonstrations, `--demonstrations FILE`."
            )
        return super().load(run)
