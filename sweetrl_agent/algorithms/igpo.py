"""IGPO (Wang et al., arXiv:2510.14967) over dialogues: a turn is paid for what its reply adds to the likelihood of the hidden reference.

1. In every iteration the current policy plays G episodes of each of P training tasks.
2. p_t = exp(mean_l log pi(c_l | o_(t+1), marker, c_<l)) is the likelihood per token of the hidden reference c as the agent's answer after t turns and their replies, under the
current policy and without gradient; p_0 is that after the request.
3. The reward of turn t < T is r_t = p_t - p_(t-1), and that of the last turn is the return of the episode. With `gain` "log_prob", r_t = log p_t - log p_(t-1): up to the length of c this is
the belief reward of dBelief-RL (arXiv:2602.12342). Gains telescope: they sum to p_(T-1) - p_0.
4. Rewards are standardized over the group, gains and returns each on their own or all together (`normalisation`).
5. The advantage of a turn is A_t = z_t + gamma A_(t+1).
6. GRPO's optimizer steps.

Differences from the released code: It gives an answer in a wrong format the return -2, and reads a gain of exactly 0 as no turn; neither is done here. Of its two published advantages
this is the later one, over turns; the earlier one subtracts the group's mean at the same position of a token. Its curriculum of weights, off by default, is left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sweetrl_agent.algorithms.grpo import GRPO, GRPOConfig, standardized
from sweetrl_agent.core.batch import Batch, Credit
from sweetrl_agent.core.episode import Turn
from sweetrl_agent.core.run import Run
from sweetrl_agent.core.settings import require, setting
from sweetrl_agent.core.work import Lengths, Work, reading
from sweetrl_agent.critics.gain import ALL, DIFFERING, Targets, last_log_probs
from sweetrl_agent.trainers.groups import discounted, groups_of

PROB, LOG_PROB = "prob", "log_prob"
SEPARATE, JOINT = "separate", "joint"


def reference_log_probs(batch: Batch, targets: Targets) -> list[list[tuple[float, float]]]:
    """Log-likelihoods of every turn's reference before the turn and after the reply to it, in nats per token that counts; after the last turn 0.

    The reference is the one at the turn, also where what is hidden changes: a change of the target is no gain.

    Args:
        batch: The episodes, and how dialogues are scored.
        targets: Makes targets of references.
    """
    states = [
        (episode, at, targets(episode.hidden_at(turn)))
        for episode in batch.episodes
        for turn in range(1, len(episode.turns) + 1)
        for at in (turn, turn + 1)
        if at <= len(episode.turns)
    ]
    scored = last_log_probs(batch.score, [episode.until(at, Turn(goal.text, goal.token_ids)) for episode, at, goal in states])
    means = iter([goal.mean(log_probs) for (*_, goal), log_probs in zip(states, scored, strict=True)])
    return [
        [*((next(means), next(means)) for _ in episode.turns[1:]), *((next(means), 0.0) for _ in episode.turns[:1])]
        for episode in batch.episodes
    ]


def turn_rewards(log_probs: Sequence[tuple[float, float]], outcome: float, gain: str) -> list[float]:
    """Rewards of an episode's turns: the gains of all but the last, whose reward is the outcome.

    Args:
        log_probs: A row of `reference_log_probs`.
        outcome: Return of the episode.
        gain: `PROB` or `LOG_PROB`.
    """
    values = [(math.exp(before), math.exp(after)) if gain == PROB else (before, after) for before, after in log_probs]
    return [*(after - before for before, after in values[:-1]), outcome]


def standardized_rewards(rewards: Sequence[Sequence[float]], normalisation: str, gain_weight: float = 1.0) -> list[list[float]]:
    """Rewards of the episodes of a group, standardized; those of last turns are outcomes.

    Args:
        rewards: Result of `turn_rewards` of each episode.
        normalisation: `SEPARATE` or `JOINT`.
        gain_weight: Weight of gains.
    """
    gains = [value for of_episode in rewards for value in of_episode[:-1]]
    outcomes = [of_episode[-1] for of_episode in rewards]
    together = (
        standardized([*gains, *outcomes])
        if normalisation == JOINT and gain_weight  # gains that do not count must not change the outcomes' deviation
        else [*(standardized(gains) if gains else []), *standardized(outcomes)]
    )
    of_gains, of_outcomes = iter(together[: len(gains)]), iter(together[len(gains) :])
    return [[*(gain_weight * next(of_gains) for _ in of_episode[:-1]), next(of_outcomes)] for of_episode in rewards]


@dataclass(frozen=True)
class IGPOConfig(GRPOConfig):
    """Settings of IGPO: GRPO's, and those of the gains."""

    gain: str = setting(
        LOG_PROB,
        "Difference of what: 'prob', probabilities per token as in the paper, or 'log_prob'. A program's probability is near 0 whatever is known.",
    )
    normalisation: str = setting(
        SEPARATE,
        "Gains and returns are standardized over the group each on their own ('separate') or together ('joint', the code's default).",
    )
    gamma: float = setting(1.0, "Discount per turn; 1 in the code.", most=1)
    gain_weight: float = setting(
        1.0, "Weight of the gains; 1 in the code. With 0 nothing is scored, and with gamma 1 this is GRPO."
    )
    tokens: str = setting(
        ALL,
        "Tokens of the reference that count: 'all', or 'differing', where the programs of the family differ (embedded tasks).",
    )

    def __post_init__(self) -> None:
        """Refuse unknown names."""
        require("gain", self.gain, (PROB, LOG_PROB))
        require("normalisation", self.normalisation, (SEPARATE, JOINT))
        require("tokens", self.tokens, (ALL, DIFFERING))


class IGPO(GRPO):
    """IGPO; see the module's docstring."""

    name, title, Config = "igpo", "IGPO", IGPOConfig
    targets: Targets

    @property
    def requires(self) -> frozenset[str]:  # type: ignore[override]
        """Hidden information, and what else it could have been where only the tokens count that differ."""
        return frozenset({"hidden", *(["alternatives"] if self.config.tokens == DIFFERING else [])})

    def begin(self, run: Run) -> None:
        """See `OnPolicyAlgorithm`; references are tokenized by the policy's tokenizer."""
        super().begin(run)
        (learner,) = self.learners.values()
        alternatives = (
            (lambda hidden: run.record.alternatives(hidden, self.run.tasks)) if self.config.tokens == DIFFERING else None
        )
        self.targets = Targets(learner.chat, run.record.answer_prefix, alternatives)

    def credit(self, batch: Batch) -> Credit:
        """Discounted sums of standardized gains and returns; the episodes of a task form a group."""
        config, episodes = self.config, batch.episodes
        log_probs = [[(0.0, 0.0)] * len(episode.turns) for episode in episodes]
        if config.gain_weight:
            log_probs = reference_log_probs(batch, self.targets)
        rewards = [turn_rewards(row, episode.reward, config.gain) for row, episode in zip(log_probs, episodes, strict=True)]
        advantages: list[list[float]] = [[] for _ in episodes]
        for group in groups_of(episodes):
            scores = standardized_rewards([rewards[i] for i in group], config.normalisation, config.gain_weight)
            for i, of_turns in zip(group, scores, strict=True):
                advantages[i] = discounted(of_turns, config.gamma)
        return Credit(advantages)

    def work(self, run: Run, lengths: Lengths) -> Mapping[str, Work]:
        """See `Algorithm`: GRPO's, and the reference after every turn, behind one prefix."""
        config = self.config
        count, scored = config.iterations * config.tasks * config.group, lengths.turns * lengths.hidden
        gains = reading(count, 1, lengths.dialogue + scored, scored) if config.gain_weight else Work()
        return {name: work + gains for name, work in super().work(run, lengths).items()}
