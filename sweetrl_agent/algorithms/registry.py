"""The algorithms that can be compared: what each needs of the environment, the stages that are its own, and how its agent is loaded.

All of them share the start, the collected trajectories and their pairs. To add one, write a file whose `train(run)` reads files of
the run folder and writes a model's folder, and add a line here (CONTRIBUTING has an example).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from colbench_gym.scoring.answer import ANSWER_MARKER
from sweetrl_agent.algorithms import acts, grpo, mtdpo, reinforce, rft, sweet, turn_ppo
from sweetrl_agent.algorithms.critics import CRITICS, SWEET, stage_name
from sweetrl_agent.models import load_policy
from sweetrl_agent.policies.policy import Policy
from sweetrl_agent.run import Run

Stage = Callable[[Run], None]
#: Capability that an algorithm may need -> attribute of an environment that has it.
CAPABILITIES = {
    "hidden": "hidden_information", "snapshot": "get_state", "anchor": "state_key", "verifier": "score_answer",
    "pages": "page",
}  # fmt: skip
#: Stages that come before an algorithm's own: those of every language model, and of those that learn from collected dialogues.
START, COLLECTED = ("imitate",), ("imitate", "collect", "pairs")


@dataclass(frozen=True)
class Algorithm:
    """An algorithm of the comparison.

    Attributes:
        title: Its name for people.
        stages: What it does beyond what is shared, in order, by names that are unique in a run folder.
        policy: Folder of its agent in the run folder; "" for the start itself.
        needs: Capabilities of the environment, of `CAPABILITIES`.
        shared: Stages before its own: `START` or `COLLECTED`.
        begins: What its agent's every message begins with; it goes on from there.
        critic: The critic that it trains its agent by, of `critics.CRITICS`; "" for none.
        loads: Loads its agent where that is no language model; None for `policy`.
    """

    title: str
    stages: dict[str, Stage] = field(default_factory=dict)
    policy: str = ""
    needs: frozenset[str] = frozenset()
    shared: tuple[str, ...] = COLLECTED
    begins: str = ""
    critic: str = ""
    loads: Callable[[Run], Policy] | None = None

    def load(self, run: Run) -> Policy:
        """Its agent, which is the start where it has learnt nothing."""
        if self.loads is not None:
            return self.loads(run)
        path = str(run.path(self.policy)) if self.policy and self.policy not in run.unchanged else run.start_model
        return load_policy(path, run.start_model, run.config.model, self.begins)

    def loader(self, run: Run) -> Callable[[], Policy]:
        """A function that loads its agent, for `evaluation.record`."""
        return partial(self.load, run)


def _by_critic(name: str) -> Algorithm:
    """SWEET-RL with this critic: the stages that do not depend on the critic are shared with SWEET-RL."""
    kind = CRITICS[name]
    stages: dict[str, Stage] = {stage_name("critic", name): partial(sweet.train_critic, critic=name)} if kind.train else {}
    stages |= {"candidates": sweet.sample_candidates, stage_name("rank", name): partial(sweet.rank, critic=name)}
    stages |= {stage_name("actor", name): partial(sweet.train_actor, critic=name)}
    needs = {*kind.needs, *({"hidden"} if kind.is_told else ())}
    title = kind.title if name == SWEET else f"SWEET-RL, {kind.title}"
    return Algorithm(title, stages, "policy" if name == SWEET else f"{name}/policy", frozenset(needs), critic=name)


def _by_acts(name: str, title: str) -> Algorithm:
    """An agent of Stable-Baselines3: it neither learns from collected dialogues nor begins with the start."""
    stages: dict[str, Stage] = {name: partial(acts.train, name=name)}
    return Algorithm(title, stages, shared=(), loads=partial(acts.load, name=name))


#: What is to be said of agents over acts wherever they stand beside others.
ON_ACTS = (
    "Agents over acts are no language models: they choose from a list of acts that was written for the embedded tasks (questions and a "
    "programmer who writes what was heard; slots of a page), and so say what choosing well is worth, not how well a model writes."
)
ALGORITHMS: dict[str, Algorithm] = {
    "single_turn": Algorithm("Single turn (no questions)", shared=START, begins=f"{ANSWER_MARKER}\n"),
    "zero_shot": Algorithm("Zero-shot", shared=START),
    "rft": Algorithm("Rejection fine-tuning", {"rft": rft.train}, "rft/agent"),
    "mtdpo": Algorithm("Multi-turn DPO", {"mtdpo": mtdpo.train}, "mtdpo/agent"),
    "reinforce": Algorithm("REINFORCE, leave-one-out", {"reinforce": reinforce.train}, "reinforce/agent", shared=START),
    "grpo": Algorithm("GRPO", {"grpo": grpo.train}, "grpo/agent", shared=START),
    "turn_ppo": Algorithm("Turn-PPO", {"turn_ppo": turn_ppo.train}, "turn_ppo/agent", shared=START),
    "random_acts": Algorithm("Random acts", shared=(), loads=acts.load_random),
    "ppo": _by_acts("ppo", "PPO over acts"),
    "dqn": _by_acts("dqn", "DQN over acts"),
    SWEET: _by_critic(SWEET),
    **{name: _by_critic(name) for name in CRITICS if name != SWEET},
}


def titles() -> dict[str, str]:
    """Names of the algorithms for people."""
    return {name: algorithm.title for name, algorithm in ALGORITHMS.items()}


def scaled(algorithms: Sequence[str]) -> list[str]:
    """Those of the algorithms that learn from collected trajectories, and so can learn from fewer."""
    return [name for name in algorithms if "collect" in ALGORITHMS[name].shared]


def missing_capabilities(name: str, environment: type) -> list[str]:
    """What an algorithm needs and a class of environments does not have."""
    return sorted(need for need in ALGORITHMS[name].needs if not hasattr(environment, CAPABILITIES[need]))
