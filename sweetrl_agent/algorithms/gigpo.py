"""GiGPO (Feng et al., arXiv:2505.10978), on-policy: GRPO with a second group of turns that were taken in the same state of the same task.

1. In every iteration the current policy plays G episodes of each of P training tasks.
2. Episodes of a task form a group: A^E_i = R_i - mean(R) (equation 3), as in GRPO.
3. Turns of a task whose states have the same key form a group, its anchor state (equation 6). D_t = sum over u >= t of gamma^(u - t) r_u is the
discounted return of a turn (equation 5), and A^S_t = D_t - mean(D) over its group (equation 7). A turn that is alone in its state has A^S = 0.
4. A_t = A^E_i + w A^S_t (equation 8), in the loss of GRPO.

With every state equal to itself alone, A^S is left at the request, where all episodes of a task meet: gamma^(T - 1) R - mean, which prefers short dialogues.

The key of a state is the environment's `state_key`. On ColBench it holds the turn and *which wishes the human has stated*, so it uses what only the
simulator knows: the credit is privileged, the policy is not. The keys of the games hold what the agent can know. `--gigpo.anchor dialogue` compares the
texts of the dialogues, without privilege.

Differences from the released code (`gigpo/core_gigpo.py`): A division by the standard deviation (`norm std`) is GRPO's of this project, with the biased
deviation and 0 for ties. An episode without others of its task has A^E = 0; there its return. Its anchor of texts is the last observation; here it is the
whole dialogue before the turn, and the invalid-action penalty of its scripts is left to environments.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from sweetrl_agent.algorithms.grpo import GRPO, GRPOConfig, standardized
from sweetrl_agent.core.batch import Batch, Credit
from sweetrl_agent.core.episode import Episode
from sweetrl_agent.core.settings import require, setting
from sweetrl_agent.trainers.groups import discounted, in_groups

#: The environment's key of a state, or the dialogue before the turn.
ANCHORS = ("state", "dialogue")


def centred(returns: Sequence[float]) -> list[float]:
    """Each return minus their mean."""
    mean = sum(returns) / len(returns)
    return [value - mean for value in returns]


#: How returns are compared within a group, of episodes and of turns.
NORMS = {"mean": centred, "std": standardized}


def discounted_returns(episode: Episode, gamma: float) -> list[float]:
    """D_t of every turn: the rewards from it on, discounted by gamma per turn (equation 5)."""
    return discounted([turn.reward for turn in episode.turns], gamma)


def state_groups(
    episodes: Sequence[Episode], keys: Sequence[Sequence[Hashable]], similarity: float = 1.0
) -> list[list[tuple[int, int]]]:
    """Turns in the same state of the same task, by the same agent: (episode, turn counted from 0) of each, group after group.

    Args:
        episodes: Episodes in any order.
        keys: Key of the state before every turn.
        similarity: Below 1, keys are texts, and a turn joins the first group whose first key is at least this similar, by
            `difflib.SequenceMatcher.ratio`.
    """
    groups: dict[tuple[str, str], list[tuple[Hashable, list[tuple[int, int]]]]] = {}
    exact: dict[Hashable, list[tuple[int, int]]] = {}
    for i, (episode, of_episode) in enumerate(zip(episodes, keys, strict=True)):
        for t, (turn, key) in enumerate(zip(episode.turns, of_episode, strict=True)):
            within = episode.task_id, turn.agent
            members = exact.get((within, key)) if similarity == 1 else _similar(key, groups.get(within, []), similarity)
            if members is None:
                members = exact.setdefault((within, key), [])
                groups.setdefault(within, []).append((key, members))
            members.append((i, t))
    return [members for of_task in groups.values() for _, members in of_task]


def _similar(
    key: Hashable, groups: Sequence[tuple[Hashable, list[tuple[int, int]]]], similarity: float
) -> list[tuple[int, int]] | None:
    text = str(key)
    return next((members for first, members in groups if SequenceMatcher(None, text, str(first)).ratio() >= similarity), None)


@dataclass(frozen=True)
class GiGPOConfig(GRPOConfig):
    """Settings of GiGPO. "Scripts" are those that its authors released."""

    learning_rate: float = setting(3e-4, "AdamW's; 1e-6 in the scripts.")
    group: int = setting(4, "Episodes per task; 8 in the scripts, of 16 tasks.", least=2)
    epochs: int = setting(2, "Optimizer steps per batch.", least=1)
    beta: float = setting(0.0, "Weight of the KL divergence to the initial policy; 0.01 in the paper.")
    weight: float = setting(1.0, "Weight w of the advantage within a state; 1 in the paper, 0 for GRPO.")
    gamma: float = setting(
        0.95, "Discount per turn of the returns that are compared within a state; 0.95 in the scripts.", most=1
    )
    norm: str = setting(
        "mean", "'mean' (returns minus their mean, as in the scripts) or 'std' (also divided by their deviation)."
    )
    anchor: str = setting(
        "state",
        "What makes states equal: 'state', the environment's `state_key` (on ColBench the turn and the wishes heard, which the simulator knows), or "
        "'dialogue', the text of the dialogue.",
    )
    similarity: float = setting(
        1.0, "With `anchor dialogue`, the similarity from which on two dialogues are one state; 1 for equal ones, 0.95 or 0.9 in the paper.", above=0, most=1
    )  # fmt: skip

    def __post_init__(self) -> None:
        """Refuse an unknown norm or anchor, and a similarity of keys that are no texts."""
        require("norm", self.norm, (*NORMS,))
        require("anchor", self.anchor, ANCHORS)
        if self.similarity < 1 and self.anchor != "dialogue":
            raise ValueError(f"`similarity` below 1 compares texts: take `anchor` 'dialogue', got {self.anchor!r}.")


class GiGPO(GRPO):
    """GiGPO; see the module's docstring."""

    name, title, Config = "gigpo", "GiGPO", GiGPOConfig

    @property
    def requires(self) -> frozenset[str]:  # type: ignore[override]
        """Keys of states, unless dialogues are compared."""
        return frozenset({"anchor"} if self.config.anchor == "state" else ())

    def credit(self, batch: Batch) -> Credit:
        """A^E + w A^S of every turn; logs the share of turns that meet another one in their state."""
        episodes, compare = batch.episodes, NORMS[self.config.norm]
        advantages = [list(of_turns) for of_turns in in_groups(episodes, compare)]
        groups = state_groups(episodes, [self._keys(episode) for episode in episodes], self.config.similarity)
        for group, values in zip(groups, self._within_states(episodes, groups, compare), strict=True):
            for (i, t), value in zip(group, values, strict=True):
                advantages[i][t] += self.config.weight * value
        shared, turns = (sum(len(group) for group in groups if len(group) >= least) for least in (2, 1))
        return Credit(advantages, metrics={"shared_states": shared / max(turns, 1)})

    def _within_states(
        self,
        episodes: Sequence[Episode],
        groups: Sequence[Sequence[tuple[int, int]]],
        compare: Callable[[Sequence[float]], list[float]],
    ) -> list[list[float]]:
        """A^S of the turns of every group (equation 7)."""
        returns = [discounted_returns(episode, self.config.gamma) for episode in episodes]
        return [compare([returns[i][t] for i, t in group]) for group in groups]

    def _keys(self, episode: Episode) -> Sequence[Hashable]:
        if self.config.anchor == "state":
            return episode.keys
        prefixes = (episode.prefix(turn) for turn in range(1, len(episode.turns) + 1))
        return ["\n".join(f"{message['role']}: {message['content']}" for message in prefix) for prefix in prefixes]
