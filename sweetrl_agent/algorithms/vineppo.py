"""VinePPO (Kazemnejad et al., arXiv:2410.01679) over the turns of a dialogue: PPO whose values are means of fresh continuations, not a value network's.

A state s_t is what there is before the agent's turn t, t = 1..T; s_1 is the start of the episode (s_0 in the paper). A step of the paper is a line of
reasoning, here it is a turn.

1. In every iteration the current policy plays G episodes of each of P training tasks.
2. Every state of every episode, the first included, is restored from its snapshot and played to the end K times by the same policy, with new random
numbers of policy and environment. V(s_t) is the mean of what these continuations earn from turn t on (equation 5); V is 0 after the last turn. Equal
states are continued once.
3. The advantage of turn t is A_t = r_t + V(s_(t+1)) - V(s_t) (equation 6), for all of its tokens. The sum over the turns is R - V(s_1). Advantages are
whitened over the tokens of the batch.
4. Several optimizer steps on PPO's clipped objective of a token's ratio and on beta D_KL[pi || pi_ref]. The continuations enter values only: none of their
tokens is trained on.

Privileged values: A snapshot keeps what is hidden, so V(s_t) is V(h, c), the value for one who knows the hidden c besides the dialogue h. The gradient is unbiased
either way, since c does not depend on the turn that it credits, but the advantages reward what only c tells. With `redraws` every continuation draws another c
that agrees with the dialogue before it: the mean is V(h), the marginal value.

States without a value (`every`, `most_states`, or a service that failed in all K continuations) are filled from the end as in the released code:
V(s_t) = r_t + V(s_(t+1)). The advantage of all turns up to the next state with a value then stands at the turn of the last state with one, and the turns
between have 0. With `shares` these turns divide it equally; the sum stays.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from sweetrl_agent.core.batch import ActionTokens, Batch, Credit, clipped_gain
from sweetrl_agent.core.episode import Episode
from sweetrl_agent.core.run import Run
from sweetrl_agent.core.settings import setting
from sweetrl_agent.core.work import Lengths, Work, episodes
from sweetrl_agent.trainers.on_policy import OnPolicyAlgorithm, OnPolicyConfig

#: Largest KL divergence of a token that the loss counts, in nats. Source: `kl_penalty_loss_clip_max` of the released configurations.
MOST_KL = 10.0
#: V of the states of an episode; None for those without a value.
Values = list[float | None]


def step_advantages(rewards: Sequence[float], values: Sequence[float | None], shares: bool = False) -> list[float]:
    """One-step advantages of the turns of an episode.

    Args:
        rewards: r_t of every turn, T of them.
        values: V of the state before every turn, None for those without one; the first has one. T of them.
        shares: Whether the turns from a state with a value to the next divide their advantage equally; else the first of them has all of it.

    Returns:
        A_t = r_t + V(s_(t+1)) - V(s_t), with V of the module's docstring where there is none. T of them.
    """
    filled, following = list[float](), 0.0
    for reward, value in zip(reversed(rewards), reversed(values), strict=True):
        following = reward + following if value is None else value
        filled.insert(0, following)
    advantages = [r + after - before for r, before, after in zip(rewards, filled, [*filled[1:], 0.0], strict=True)]
    if not shares:
        return advantages
    step = np.cumsum([value is not None for value in values])
    return (np.bincount(step, advantages) / np.maximum(np.bincount(step), 1))[step].tolist()


def whitened(advantages: Sequence[Sequence[float]], batch: Sequence[Episode]) -> list[list[float]]:
    """Advantages of turns with mean 0 and variance 1 over the tokens of a batch, as in the released code; 0 for all if they are equal."""
    lengths = [len(turn.token_ids) for episode in batch for turn in episode.turns]
    flat = np.array([advantage for of_turns in advantages for advantage in of_turns])
    if not sum(lengths):
        return [list(of_turns) for of_turns in advantages]
    mean = np.average(flat, weights=lengths)
    spread = np.sqrt(np.average((flat - mean) ** 2, weights=lengths))
    scaled = iter(((flat - mean) / spread if spread > 1e-8 else 0.0 * flat).tolist())
    return [[next(scaled) for _ in of_turns] for of_turns in advantages]


@dataclass(frozen=True)
class VinePPOConfig(OnPolicyConfig):
    """Settings of VinePPO. The paper's are those of its runs on MATH, from the released configurations."""

    learning_rate: float = setting(3e-4, "AdamW's; 1e-6 in the paper (1.1B and 7B models).")
    iterations: int = setting(10, "Iterations of rollouts and optimizer steps; 1,000 in the paper, on GSM8K 650.", least=1)
    tasks: int = setting(
        15,
        "Tasks per iteration; 64 in the paper. The defaults play 10,350 turns where a dialogue has 6 (1,800 such dialogues have 10,800).",
        least=1,
    )
    group: int = setting(1, "Episodes per task; 8 in the paper.", least=1)
    epochs: int = setting(2, "Optimizer steps per batch; in the paper two epochs of batches of 64 episodes.", least=1)
    k: int = setting(
        3,
        "Continuations K of every state; 9 in the paper, which also has 1 and 3. They cost K T (T + 1) / 2 turns in a dialogue of T turns.",
        least=1,
    )
    every: int = setting(1, "Values are estimated before every n-th turn, the first included; 1 in the paper.", least=1)
    most_states: int = setting(
        0, "Most states of an episode, from the first on, that get a value; 0 for all. 26 in the paper on GSM8K, all on MATH."
    )
    shares: bool = setting(
        True,
        "Whether turns between two states with a value share their advantage equally. In the paper the first of them has all of it.",
    )
    merge: Literal["dialogue", "state"] = setting(
        "dialogue",
        'States that are continued once. "dialogue": those with the same task, dialogue and hidden information (in the paper: the same text). "state": those with the '
        "same `state_key` of the environment; it is cheaper, and right where the policy reads no more than the key says.",
    )
    redraws: bool = setting(
        False,
        "Whether every continuation draws anew what is hidden: V(h) instead of V(h, c). The environment must be able to (capability `redraw`).",
    )
    whiten: bool = setting(True, "Whether advantages are whitened over the tokens of the batch, as in the paper.")
    clip: float = setting(0.2, "Clip range eps of a token's ratio.")
    most_ratio: float = setting(10.0, "Mean ratio of a pass above which its loss is 0, as in the released code.", above=0)
    beta: float = setting(
        0.0,
        "Weight of the KL divergence to the initial policy, summed over a dialogue's tokens; 1e-4 in the paper. It reads the initial policy once more.",
    )


class VinePPO(OnPolicyAlgorithm):
    """VinePPO; see the module's docstring."""

    name, title, Config = "vineppo", "VinePPO", VinePPOConfig

    @property
    def requires(self) -> frozenset[str]:  # type: ignore[override]
        """Snapshots, and what `merge` and `redraws` need."""
        more = {"anchor": self.config.merge == "state", "redraw": self.config.redraws}
        return frozenset({"snapshot", *(capability for capability, is_needed in more.items() if is_needed)})

    def credit(self, batch: Batch) -> Credit:
        """One-step advantages by the values of fresh continuations (equation 6); reports what the continuations cost."""
        values, costs = self.values(batch)
        advantages = [
            step_advantages([turn.reward for turn in episode.turns], of_episode, self.config.shares)
            for episode, of_episode in zip(batch.episodes, values, strict=True)
        ]
        return Credit(whitened(advantages, batch.episodes) if self.config.whiten else advantages, metrics=costs)

    def values(self, batch: Batch) -> tuple[list[Values], Mapping[str, float]]:
        """V of the states of all episodes, and the number of states, and the turns and tokens of their continuations."""
        last = self.config.most_states or max((len(episode.turns) for episode in batch.episodes), default=0)
        values, costs = self.values_of(
            batch,
            [
                (row, turn)
                for row, episode in enumerate(batch.episodes)
                for turn in range(1, min(len(episode.turns), last) + 1, self.config.every)
            ],
        )
        of_episodes = [[values.get((row, turn)) for turn in range(1, len(e.turns) + 1)] for row, e in enumerate(batch.episodes)]
        return of_episodes, costs

    def turn_credit(self, batch: Batch, turns: Sequence[int]) -> list[float]:
        """See `OnPolicyAlgorithm`: the one-step advantage, with the values of the states before and after the turn alone; 0 if one is not known."""
        pairs = list(zip(batch.episodes, turns, strict=True))
        places = [(row, turn + n) for row, (e, turn) in enumerate(pairs) for n in (0, 1) if turn + n <= len(e.turns)]
        values, _ = self.values_of(batch, places)

        def advantage(row: int, episode: Episode, turn: int) -> float:
            before, after = values[row, turn], values.get((row, turn + 1), 0.0)
            return 0.0 if before is None or after is None else episode.turns[turn - 1].reward + after - before

        return [advantage(row, *pair) for row, pair in enumerate(pairs)]

    def values_of(
        self, batch: Batch, places: Sequence[tuple[int, int]]
    ) -> tuple[dict[tuple[int, int], float | None], Mapping[str, float]]:
        """V of states, (episode, turn counted from 1), by K continuations (equation 5), None where all failed; and their costs."""
        config = self.config
        states = {(row, turn): self.key(batch.episodes[row], turn) for row, turn in places}
        first = dict[Hashable, tuple[int, int]]()  # equal states are continued from the first of them
        for place, key in states.items():
            first.setdefault(key, place)
        continued = batch.branch([(batch.episodes[row], turn) for row, turn in first.values()], config.k, config.redraws)
        value_of, costs = dict[Hashable, float | None](), {"states": float(len(states)), "states_continued": float(len(first))}
        new_turns = list[int]()
        for (key, (_, turn)), played in zip(first.items(), continued, strict=True):
            valid = [sum(t.reward for t in episode.turns[turn - 1 :]) for episode in played if not episode.is_void]
            value_of[key] = sum(valid) / len(valid) if valid else None
            new_turns += [len(t.token_ids) for episode in played for t in episode.turns[turn - 1 :]]
        costs |= {"continuation_turns": float(len(new_turns)), "continuation_tokens": float(sum(new_turns))}
        return {place: value_of[key] for place, key in states.items()}, costs

    def key(self, episode: Episode, turn: int) -> Hashable:
        """Key of the state before a turn, counted from 1; states with equal keys have the same value."""
        agent = episode.turns[turn - 1].agent
        if self.config.merge == "state":
            return agent, episode.keys[turn - 1]
        before = [i for i, message in enumerate(episode.messages) if message["role"] == "assistant"][turn - 1]
        dialogue = tuple(tuple(sorted(message.items())) for message in episode.messages[:before])
        hidden = (
            () if self.config.redraws else (episode.task_id, episode.hidden_at(turn))
        )  # V(h) is the same for all tasks with the dialogue h
        return agent, dialogue, hidden

    def policy_loss(self, tokens: ActionTokens) -> Tensor:
        """PPO's clipped objective (arXiv:1707.06347, equation 7), negated, averaged over tokens, and the KL divergence summed over each dialogue."""
        ratio = torch.exp(tokens.log_probs - tokens.sampled)
        loss = -clipped_gain(ratio, tokens.advantages, self.config.clip).mean()
        if self.uses_reference:
            divergence = tokens.reference_divergence().clamp(max=MOST_KL).sum() / len(tokens.dialogue.unique())
            loss = loss + self.config.beta * divergence
        return 0.0 * tokens.log_probs.sum() if float(ratio.detach().mean()) > self.config.most_ratio else loss

    def work(self, run: Run, lengths: Lengths) -> Mapping[str, Work]:
        """See `Algorithm`; with the continuations, half as long on average as the dialogues, if no states are equal."""
        config = self.config
        states = ceil(min(lengths.turns, config.most_states or lengths.turns) / config.every)
        count = config.iterations * config.tasks * config.group * states * config.k
        halves = replace(lengths, turns=(lengths.turns + 1) / 2)
        return {self.name: super().work(run, lengths)[self.name] + episodes(count, halves, config.tasks * config.group)}
