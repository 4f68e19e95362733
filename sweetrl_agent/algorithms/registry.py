"""The algorithms that can be compared: what each needs of the environment, the stages that are its own, and where its agent is.

All of them share the start, the collected trajectories and their pairs. To add one, write a file whose `train(run)` reads files of
the run folder and writes a model's folder, and add a line here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from sweetrl_agent.algorithms import mtdpo, rft, sweet
from sweetrl_agent.run import Run

Stage = Callable[[Run], None]
#: Capability that an algorithm may need -> attribute of an environment that has it.
CAPABILITIES = {
    "hidden": "hidden_information", "snapshot": "get_state", "anchor": "state_key", "verifier": "score_answer", "acts": "action_masks",
}  # fmt: skip


@dataclass(frozen=True)
class Algorithm:
    """An algorithm of the comparison.

    Attributes:
        title: Its name for people.
        stages: What it does beyond what is shared, in order, by names that are unique in a run folder.
        policy: Folder of its agent in the run folder; "" for the start itself.
        needs: Capabilities of the environment, of `CAPABILITIES`.
    """

    title: str
    stages: dict[str, Stage] = field(default_factory=dict)
    policy: str = ""
    needs: frozenset[str] = frozenset()

    def agent(self, run: Run) -> str:
        """Folder or hub name of its agent's model."""
        return str(run.path(self.policy)) if self.policy else run.start_model


ALGORITHMS: dict[str, Algorithm] = {
    "zero_shot": Algorithm("Zero-shot"),
    "rft": Algorithm("Rejection fine-tuning", {"rft": rft.train}, rft.POLICY),
    "mtdpo": Algorithm("Multi-turn DPO", {"mtdpo": mtdpo.train}, mtdpo.POLICY),
    "sweet": Algorithm(
        "SWEET-RL",
        {"critic": sweet.train_critic, "candidates": sweet.sample_candidates, "rank": sweet.rank, "actor": sweet.train_actor},
        "policy",
        frozenset({"hidden"}),
    ),
}


def missing_capabilities(name: str, environment: type) -> list[str]:
    """What an algorithm needs and a class of environments does not have."""
    return sorted(need for need in ALGORITHMS[name].needs if not hasattr(environment, CAPABILITIES[need]))
