"""The interface of an on-policy algorithm: it defines the advantages of turns and, optionally, the loss.

Rollouts, updates on the sampled tokens, checkpoints and metrics are implemented once, in `trainers.on_policy`. An algorithm with a critic trains a
value head on the policy's body in the same optimizer steps (`algorithms.turn_ppo`). Its values and advantages belong to turns, or with
`values_per_token` to action tokens (`algorithms.token_ppo`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from sweetrl_agent.core.algorithm import START, Algorithm
from sweetrl_agent.core.episode import Episode
from sweetrl_agent.core.settings import setting
from sweetrl_agent.core.stage import function_of
from sweetrl_agent.core.work import Lengths, Part, Work, episodes, reading, training

if TYPE_CHECKING:
    from sweetrl_agent.core.run import Run


@dataclass(frozen=True)
class OnPolicyConfig:
    """Settings of rollouts and optimizer steps; a subclass adds those of its algorithm."""

    learning_rate: float = setting(3e-4, "AdamW's.")
    iterations: int = setting(30, "Iterations of rollouts and optimizer steps.", least=1)
    tasks: int = setting(
        15, "Tasks per iteration; by default the number of episodes in total equals that of `collect`.", least=1
    )
    group: int = setting(4, "Episodes per task.", least=1)
    epochs: int = setting(1, "Optimizer steps per iteration, each on all of its episodes.", least=1)
    micro_batch: int = setting(16, "Dialogues per forward pass.", least=1)
    anneal: bool = setting(
        False,
        "Whether learning rates fall linearly to 0 over the iterations, as those of PPO's paper do on Atari: a policy at its optimum then stays there.",
    )


@dataclass(frozen=True)
class Credit:
    """Advantages and returns of the episodes of an iteration: one number for every turn of every episode.

    With `values_per_token`, one number for every action token of every episode, in the order of its turns.

    Attributes:
        advantages: Advantages, for the policy.
        returns: Targets of the critic's values; empty without a critic.
    """

    advantages: list[list[float]]
    returns: list[list[float]] = field(default_factory=list)


@dataclass(frozen=True)
class ActionTokens:
    """The action tokens of some dialogues, concatenated: N tokens in K turns. Log-probabilities are in nats, at the sampling temperature.

    Attributes:
        log_probs: Under the policy in training, with its gradient. Shape (N,).
        sampled: Under the policy that sampled them. Shape (N,).
        reference: Under the initial policy; meaningless (equal to `sampled`) unless `uses_reference`. Shape (N,).
        advantages: Advantage of the token's turn, or with `values_per_token` of the token. Shape (N,).
        dialogue: Index of the token's dialogue, 0 to B - 1. Shape (N,).
        turn: Index of the token's turn, 0 to K - 1. Shape (N,).
        values: V(o_t) of every turn, with its gradient; empty without a critic. Shape (K,). With `values_per_token`, V of the state before
            every action token. Shape (N,).
        returns: Their targets; empty without a critic. Shape of `values`.
        old_values: The values before the iteration's updates; empty without a critic. Shape of `values`.
    """

    log_probs: Tensor
    sampled: Tensor
    reference: Tensor
    advantages: Tensor
    dialogue: Tensor
    turn: Tensor = field(default_factory=lambda: torch.empty(0))
    values: Tensor = field(default_factory=lambda: torch.empty(0))
    returns: Tensor = field(default_factory=lambda: torch.empty(0))
    old_values: Tensor = field(default_factory=lambda: torch.empty(0))

    def reference_divergence(self) -> Tensor:
        """Estimate of D_KL[pi || pi_ref] at every token, in nats, never negative. Shape (N,). Source: arXiv:2402.03300, equation 4."""
        to_reference = self.reference - self.log_probs
        return torch.exp(to_reference) - to_reference - 1

    def staleness_weights(self, limit: float) -> Tensor:
        """Truncated importance weights min(pi / pi_old, limit) of tokens sampled by an older policy, detached. Shape (N,).

        Source: Espeholt et al., arXiv:1802.01561, section 4.1.
        """
        return torch.exp(self.log_probs.detach() - self.sampled).clamp(max=limit)

    def mean_over_dialogues(self, values: Tensor) -> Tensor:
        """Mean over the tokens of each dialogue, then over dialogues, of values of shape (N,)."""
        counts = torch.bincount(self.dialogue).clamp(min=1)
        means = torch.zeros(len(counts), device=values.device, dtype=values.dtype).index_add(0, self.dialogue, values) / counts
        return means.mean()


def clipped_gain(ratio: Tensor, advantages: Tensor, clip: float) -> Tensor:
    """PPO's objective, min(rho A, clip(rho, 1 - eps, 1 + eps) A), of any shape. Source: arXiv:1707.06347, equation 7."""
    return torch.minimum(ratio * advantages, ratio.clamp(1 - clip, 1 + clip) * advantages)


class OnPolicyAlgorithm(Algorithm):
    """Trains the initial policy on its own episodes. A subclass defines the advantages of turns.

    Attributes:
        config: Its settings.
        loop: What trains it: a function of a run and the algorithm, as "module:function".
        values_per_token: Values and advantages belong to action tokens, not to turns; it overrides `token_credit` instead of `credit`.
    """

    loop: ClassVar[str] = "sweetrl_agent.trainers.on_policy:learn"
    Config: ClassVar[type] = OnPolicyConfig
    values_per_token: ClassVar[bool] = False
    shared = START

    def __init__(self, config: Any = None) -> None:
        """Store the settings; None for the defaults."""
        self.config = config or self.Config()

    @property
    def uses_reference(self) -> bool:
        """Whether the loss uses log-probabilities under the initial policy."""
        return False

    @property
    def critic_learning_rate(self) -> float | None:
        """Learning rate of AdamW for a value head on the policy's body; None for an algorithm without a critic."""
        return None

    @property
    def first_value(self) -> float:
        """Value of every state that a new value head gives."""
        return 0.0

    def advantages(self, episodes: Sequence[Episode]) -> list[list[float]]:
        """Advantage of every turn of every episode.

        Args:
            episodes: Episodes of an iteration, void ones excluded.
        """
        raise NotImplementedError

    def credit(self, episodes: Sequence[Episode], values: Sequence[Sequence[float]]) -> Credit:
        """Advantages and the critic's targets. An algorithm with a critic overrides this instead of `advantages`.

        Args:
            episodes: Episodes of an iteration, void ones excluded.
            values: V(o_t) of their turns by the critic before the iteration's updates; empty without a critic.
        """
        return Credit(self.advantages(episodes))

    def token_credit(
        self, episodes: Sequence[Episode], values: Sequence[Sequence[float]], reference: Sequence[Sequence[float]]
    ) -> Credit:
        """Advantages and the critic's targets of action tokens, for an algorithm with `values_per_token`.

        Args:
            episodes: Episodes of an iteration, void ones excluded.
            values: V of the state before every action token, by the critic before the iteration's updates; empty without a critic.
            reference: Log-probability of every action token under the initial policy, in nats; empty unless `uses_reference`.
        """
        raise NotImplementedError

    def policy_loss(self, tokens: ActionTokens) -> Tensor:
        """Policy-gradient loss: the mean of - A log pi over action tokens. Source: arXiv:2503.15478, Lemma B.2."""
        return -(tokens.advantages * tokens.log_probs).mean()

    def loss(self, tokens: ActionTokens) -> Tensor:
        """The loss of an optimizer step. An algorithm with a critic adds the error of `tokens.values`."""
        return self.policy_loss(tokens)

    def work(self, run: Run, lengths: Lengths) -> Mapping[str, Work]:
        """See `Algorithm`: episodes of all iterations, and passes over each of them."""
        own, given = type(self)(self.settings(run)), run.config.evaluation
        config, of_test = own.config, 0
        count = config.iterations * config.tasks * config.group
        if given.eval_every:
            of_test = config.iterations // given.eval_every * min(given.eval_every_tasks, len(run.held_out["test"]))
        row = lengths.as_trained(run.config.model.history)
        rows = count * lengths.turns / row.turns
        batch = max(1, round(rows / config.iterations))
        sizes = row.dialogue, row.spoken
        parts: list[Part] = [*episodes(count + of_test, lengths, config.tasks * config.group)]
        parts += [training(rows, batch, config.micro_batch, config.epochs, *sizes)]
        if own.critic_learning_rate is not None:
            parts.append(reading(rows, config.micro_batch, *sizes))
        if own.uses_reference:
            parts.append(reading(rows * (1 if own.values_per_token else config.epochs), config.micro_batch, *sizes))
        return {self.name: Work(f"{count:,} episodes in {config.iterations} iterations", tuple(parts))}

    def refuse_model(self, model: Any) -> None:
        """See `Algorithm`. A server can load new weights only as a LoRA adapter.

        Raises:
            ValueError: If the engine is a server and LoRA is off; says what to set.
        """
        super().refuse_model(model)
        if model.engine == "server" and not model.lora:
            raise ValueError(
                f"{self.name!r} sends its new weights to servers as LoRA adapters: add `--lora true`, or sample in this process with "
                "`--engine transformers` or `vllm`."
            )

    def train(self, run: Run) -> None:
        """Plays episodes on the training tasks in rotation, writes NAME/agent/. Resumes after the last complete iteration."""
        type(self)(self.settings(run)).learn(run)

    def learn(self, run: Run) -> None:
        """`train` with the settings in `config`."""
        function_of(self.loop)(run, self)
