"""What an on-policy algorithm is: it says what a turn's advantage is, and where it must how that becomes a loss.

Playing, updates on the tokens as they were sampled, checkpoints and metrics are `trainers.on_policy`'s, for all of them alike. With a critic, a value
head on the policy's body is trained in the same steps (`algorithms.turn_ppo`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from sweetrl_agent.core.algorithm import START, Algorithm
from sweetrl_agent.core.episode import Episode
from sweetrl_agent.core.settings import setting
from sweetrl_agent.core.stage import function_of

if TYPE_CHECKING:
    from sweetrl_agent.core.run import Run


@dataclass(frozen=True)
class OnPolicyConfig:
    """How much is played and how far a step goes; a subclass adds what its algorithm has besides."""

    learning_rate: float = setting(3e-4, "AdamW's.")
    iterations: int = setting(30, "Times that episodes are played and learnt from.", least=1)
    tasks: int = setting(15, "Tasks of an iteration; by default as many episodes in all as `collect` plays.", least=1)
    group: int = setting(4, "Episodes of each.", least=1)
    epochs: int = setting(1, "Optimizer steps on the episodes of an iteration, each on all of them.", least=1)
    micro_batch: int = setting(16, "Dialogues in a forward pass.", least=1)


@dataclass(frozen=True)
class Credit:
    """What the episodes of an iteration teach: one number for every turn of every episode.

    Attributes:
        advantages: Of the turns, for the policy.
        returns: Targets of the critic's values; empty without a critic.
    """

    advantages: list[list[float]]
    returns: list[list[float]] = field(default_factory=list)


@dataclass(frozen=True)
class ActionTokens:
    """The action tokens of some dialogues in a row, N of them in K turns; log-probabilities in nats, at the temperature of sampling.

    Attributes:
        log_probs: Under the policy in training, with its gradient. Shape (N,).
        sampled: Under the policy that played. Shape (N,).
        reference: Under the initial policy; equal to `sampled`, and of no use, where the configuration asks for none. Shape (N,).
        advantages: Of the token's turn. Shape (N,).
        dialogue: The token's dialogue, 0 to B - 1. Shape (N,).
        turn: The token's turn, 0 to K - 1. Shape (N,).
        values: V(o_t) of every turn, with its gradient; empty without a critic. Shape (K,).
        returns: Their targets; empty without a critic. Shape (K,).
    """

    log_probs: Tensor
    sampled: Tensor
    reference: Tensor
    advantages: Tensor
    dialogue: Tensor
    turn: Tensor = field(default_factory=lambda: torch.empty(0))
    values: Tensor = field(default_factory=lambda: torch.empty(0))
    returns: Tensor = field(default_factory=lambda: torch.empty(0))

    def reference_divergence(self) -> Tensor:
        """Estimate of D_KL[pi || pi_ref] at every token, in nats, never negative. Shape (N,). Source: arXiv:2402.03300, equation 4."""
        to_reference = self.reference - self.log_probs
        return torch.exp(to_reference) - to_reference - 1

    def staleness_weights(self, limit: float) -> Tensor:
        """Truncated importance weights min(pi / pi_old, limit) of tokens that an older policy sampled, without a gradient. Shape (N,).

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
    """Trains the initial policy on episodes of its own. A subclass says what turns are worth.

    Attributes:
        config: Its settings.
        loop: What trains it: a function of a run and the algorithm, as "module:function".
    """

    loop: ClassVar[str] = "sweetrl_agent.trainers.on_policy:learn"
    Config: ClassVar[type] = OnPolicyConfig
    shared = START

    def __init__(self, config: Any = None) -> None:
        """Take the settings; None for the defaults."""
        self.config = config or self.Config()

    @property
    def uses_reference(self) -> bool:
        """Whether the loss asks for log-probabilities under the initial policy."""
        return False

    @property
    def critic_learning_rate(self) -> float | None:
        """AdamW's for a value head on the policy's body; None for an algorithm without a critic."""
        return None

    def advantages(self, episodes: Sequence[Episode]) -> list[list[float]]:
        """One number for every turn of every episode.

        Args:
            episodes: Those of an iteration, void ones left out.
        """
        raise NotImplementedError

    def credit(self, episodes: Sequence[Episode], values: Sequence[Sequence[float]]) -> Credit:
        """Advantages, and the critic's targets; what an algorithm with a critic overrides in place of `advantages`.

        Args:
            episodes: Those of an iteration, void ones left out.
            values: V(o_t) of their turns by the critic as it was when they were played; empty without a critic.
        """
        return Credit(self.advantages(episodes))

    def policy_loss(self, tokens: ActionTokens) -> Tensor:
        """The policy gradient: - A log pi, a mean over action tokens. Source: arXiv:2503.15478, Lemma B.2."""
        return -(tokens.advantages * tokens.log_probs).mean()

    def loss(self, tokens: ActionTokens) -> Tensor:
        """What an optimizer step lowers; an algorithm with a critic adds the error of `tokens.values`."""
        return self.policy_loss(tokens)

    def refuse_engine(self, model: Any) -> None:
        """See `Algorithm`. New weights reach a server as an adapter; nothing else of a model can be given to one.

        Raises:
            ValueError: Says what to do.
        """
        super().refuse_engine(model)
        if model.engine == "server" and not model.lora:
            raise ValueError(
                f"{self.name!r} gives servers its new weights as adapters: add `--lora true`, or sample in this process by "
                "`--engine transformers` or `vllm`."
            )

    def train(self, run: Run) -> None:
        """Episodes on the training tasks, which take turns -> NAME/agent/. Resumes after the last whole iteration."""
        type(self)(self.settings(run)).learn(run)

    def learn(self, run: Run) -> None:
        """The same, with the settings that it has."""
        function_of(self.loop)(run, self)
