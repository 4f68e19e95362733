"""InfoPO (Kong et al., arXiv:2603.00656) over dialogues: GRPO, and a turn is paid for a reply that changes what the agent does next.

1. In every iteration the current policy plays G episodes of each of P training tasks.
2. The information gain of turn t is I_t = [log pi(a_(t+1) | h_t, a_t, o_t) - log mean_k pi(a_(t+1) | h_t, a_t, o'_k)] / |a_(t+1)|, the gain in the likelihood of
the sampled next action by the real reply o_t over counterfactual ones o'_k, per token, under the current policy and without gradient. The last turn has none.
3. z_t is I_t standardized over the turns of the group that have a gain.
4. Fusion: A_t = A + beta_0 g z_t, where A is GRPO's advantage, and g = sigmoid(-std(r) / tau) of the group's returns r is large where the outcomes say little.
5. GRPO's optimizer steps.

With the paper's placeholder in place of a reply ("No information found."), E[I_t] |a_(t+1)| = MI(a_(t+1); o_t) + KL(E_o pi(. | o) || pi(. | placeholder)): the second term pays for
any reply at all, also for one that is always the same. By default the counterfactuals are therefore the replies to the same turn in the group's other episodes, and
the second term goes to 0 with the size of the group. Step 2 with a single counterfactual is the paper's equation.

The released code (verl's `intrinsic_reward.py` and `core_algos.py`) divides I_t by the length of a_t and standardizes over the tokens of the group that are not 0, so that of two
questions with the same gain the shorter one wins; `per_token` is this rule. Its bound on z, min(1, max(std(A), 1) / std(z)), is always 1, since z is standardized.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sweetrl_agent.algorithms.grpo import GRPO, GRPOConfig, standardized
from sweetrl_agent.core.batch import Batch, Credit
from sweetrl_agent.core.episode import Episode
from sweetrl_agent.core.run import Run
from sweetrl_agent.core.settings import setting
from sweetrl_agent.core.work import Lengths, Work, reading
from sweetrl_agent.critics.gain import last_log_probs, with_reply
from sweetrl_agent.trainers.groups import groups_of

#: Gains of turns by (episode, index of the turn); turns whose gain cannot be measured are left out.
Gains = Mapping[tuple[int, int], float]


def information_gains(batch: Batch, placeholder: str = "") -> Gains:
    """I_t of every turn with a reply, a following turn and a counterfactual reply, in nats per token of the following turn.

    Args:
        batch: The episodes, and how dialogues are scored.
        placeholder: The counterfactual reply; "" for those to the same turn in the other episodes of the task.
    """
    compared = _compared_replies(batch.episodes, placeholder)
    dialogues = [
        with_reply(batch.episodes[i], t + 1, reply)
        for (i, t), (real, others) in compared.items()
        for reply in dict.fromkeys([real, *others])
    ]
    scored, gains = iter(last_log_probs(batch.score, dialogues)), {}
    for place, (real, others) in compared.items():
        after = {reply: next(scored) for reply in dict.fromkeys([real, *others])}
        alternative = _log_mean_exp([sum(after[reply]) for reply in others])
        gains[place] = (sum(after[real]) - alternative) / len(after[real])
    return gains


def _compared_replies(episodes: Sequence[Episode], placeholder: str) -> dict[tuple[int, int], tuple[str, list[str]]]:
    """The real reply to a turn and its counterfactual ones, by (episode, index of the turn), episode after episode."""
    replies: dict[tuple[str, int], dict[int, str]] = defaultdict(dict)
    for i, episode in enumerate(episodes):
        for t in range(len(episode.turns) - 1):
            if reply := episode.prefix(t + 2)[-1]["content"]:
                replies[episode.task_id, t][i] = reply
    compared = {
        (i, t): (real, [placeholder] if placeholder else [reply for j, reply in by_episode.items() if j != i])
        for (_, t), by_episode in replies.items()
        for i, real in by_episode.items()
    }
    return {place: replies_of for place, replies_of in sorted(compared.items()) if replies_of[1]}


def token_standardized(gains: Sequence[float], lengths: Sequence[int]) -> list[float]:
    """The released code's rule: I_t / |a_t| on every token of a_t, standardized over the tokens that are not 0, by the unbiased deviation.

    Args:
        gains: I_t of the turns of a group.
        lengths: Tokens of each turn, |a_t|.
    """
    tokens = [gain / length for gain, length in zip(gains, lengths, strict=True) for _ in range(length) if gain]
    if len(tokens) < 2:
        return [0.0] * len(gains)
    mean, spread = float(np.mean(tokens)), float(np.std(tokens, ddof=1)) + 1e-6
    return [(gain / length - mean) / spread if gain else 0.0 for gain, length in zip(gains, lengths, strict=True)]


def variance_gate(returns: Sequence[float], tau: float) -> float:
    """Gate g = sigmoid(-std(r) / tau) of the returns of a group, with the unbiased deviation: 1/2 where all are equal, near 0 where they differ."""
    return 1 / (1 + math.exp(min(float(np.std(returns, ddof=1)) / tau, 700.0))) if len(returns) > 1 else 0.5


@dataclass(frozen=True)
class InfoPOConfig(GRPOConfig):
    """Settings of InfoPO: GRPO's, and those of the information gain. "Code" is the released script for ColBench."""

    gain_weight: float = setting(
        0.3, "Weight beta_0 of the information gain; 0.3 in the code. With 0 this is GRPO, and nothing is scored."
    )
    tau: float = setting(0.5, "Temperature of the variance gate; 0.5 in the code.", above=0)
    placeholder: str = setting(
        "",
        "Counterfactual reply, 'No information found.' in the code; empty for the replies to the same turn in the task's other episodes.",
    )
    per_token: bool = setting(
        False, "Whether gains are divided by the turn's length and standardized over tokens, as in the code, not over turns."
    )


class InfoPO(GRPO):
    """InfoPO; see the module's docstring."""

    name, title, Config = "infopo", "InfoPO", InfoPOConfig

    def credit(self, batch: Batch) -> Credit:
        """GRPO's advantages, and the gated gains of the turns."""
        config, credit = self.config, super().credit(batch)
        if not config.gain_weight or not batch.episodes:
            return credit
        advantages = [list(of_turns) for of_turns in credit.advantages]
        for (i, t), bonus in self._bonuses(batch.episodes, information_gains(batch, config.placeholder)).items():
            advantages[i][t] += bonus
        return Credit(advantages)

    def _bonuses(self, episodes: Sequence[Episode], gains: Gains) -> dict[tuple[int, int], float]:
        """beta_0 g z of the turns with a gain."""
        config, bonuses = self.config, {}
        for group in groups_of(episodes):
            weight = config.gain_weight * variance_gate([episodes[i].reward for i in group], config.tau)
            places = [(i, t) for i in group for t in range(len(episodes[i].turns)) if (i, t) in gains]
            values = [gains[place] for place in places]
            lengths = [max(len(episodes[i].turns[t].token_ids), 1) for i, t in places]
            scores = token_standardized(values, lengths) if config.per_token else standardized(values) if values else []
            bonuses.update({place: weight * score for place, score in zip(places, scores, strict=True)})
        return bonuses

    def work(self, run: Run, lengths: Lengths) -> Mapping[str, Work]:
        """See `Algorithm`: GRPO's, and the edited dialogues; those of an episode are read behind one prefix."""
        config = self.config
        replies = (lengths.turns - 1) * (2 if config.placeholder else config.group) if config.gain_weight else 0.0
        count, exchange = config.iterations * config.tasks * config.group, lengths.agent + lengths.reply
        scored = reading(count, 1, lengths.dialogue + replies * exchange, replies * lengths.agent) if replies > 0 else Work()
        return {name: work + scored for name, work in super().work(run, lengths).items()}


def _log_mean_exp(values: Sequence[float]) -> float:
    most = max(values)
    return most + math.log(sum(math.exp(value - most) for value in values) / len(values))
