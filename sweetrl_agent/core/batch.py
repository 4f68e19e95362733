"""What passes between an on-policy algorithm and its trainer: an iteration's `Batch`, its `Credit`, and the `ActionTokens` of a loss."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from sweetrl_agent.core.episode import Episode
from sweetrl_agent.core.policy import Utterance
from sweetrl_agent.core.replay import Replay


def _absent(*arguments: Any) -> Any:
    raise NotImplementedError("This batch has episodes and values alone; the trainer's also score, branch, sample and verify.")


@dataclass(frozen=True)
class Batch:
    """What an on-policy algorithm sees of an iteration.

    Attributes:
        episodes: The episodes of the current policy, void ones excluded.
        values: V(o_t) of every turn of every episode, by the value head before the iteration's updates; with `values_per_token`, V of the state
            before every action token, in the order of the turns. Empty without a value head.
        replay: The latest transitions, those of this iteration included, as many as the field `replay` of the algorithm's `Config` says.
        score: Log-probabilities of dialogues' sampled tokens under the current policy, in nats, without gradient: for each episode, for each turn,
            one number per token. The dialogues may be edited episodes (`dataclasses.replace`). A turn without tokens is tokenized. With a second
            argument of true, the last turn of each dialogue alone is scored, and the others have no numbers. What dialogues of the same episode
            have in common is read once if they follow each other.
        branch: Fresh continuations from the snapshots before some turns: (episode, turn counted from 1) of each, and how many of each. They
            are whole episodes that differ from turn `turn` on; environment and policy are reseeded. For algorithms that require "snapshot". With
            True as third argument, what is hidden is drawn anew too, from what agrees with the dialogue before the turn; for those that require "redraw".
        sample: Utterances of the current policy in some dialogues, with a seed for each; of the only agent, or of the one named as third argument.
        reference: Log-probability of every action token of every episode under the initial policy, in nats; for algorithms with `uses_reference`.
        verify: The verifier's score, in [0, 1], of what was said in some turns, (episode, turn counted from 1) of each: the environment, in its state before
            the turn, scores the text as an answer. The scores are counted as a cost. For algorithms that require "verifier" and "snapshot".
        iteration: Number of the iteration, from 0, such as for seeds.
        seed: Seed of the run.
    """

    episodes: Sequence[Episode]
    values: Sequence[Sequence[float]] = ()
    replay: Replay = field(default_factory=Replay)
    score: Callable[..., list[list[list[float]]]] = _absent
    branch: Callable[..., list[list[Episode]]] = _absent
    sample: Callable[..., list[Utterance]] = _absent
    reference: Callable[[], Sequence[Sequence[float]]] = _absent
    verify: Callable[[Sequence[tuple[Episode, int]]], list[float]] = _absent
    iteration: int = 0
    seed: int = 0


@dataclass(frozen=True)
class Credit:
    """Advantages and returns: one number for every turn of every episode.

    With `values_per_token`, one number for every action token of every episode, in the order of its turns.

    Attributes:
        advantages: Advantages, for the policy. Without a value head, episodes with zero advantage in all turns are skipped.
        returns: Targets of the value head; empty without one.
        episodes: What the policy is trained on in place of the batch's episodes, such as fresh actions in replayed states; None for these. Of several agents, those
            that spoke before the last turn and have no advantage do not count.
        metrics: Numbers of the iteration that the loop logs, such as the share of turns with a group of their own.
        agents: Agents whose turns are trained on; None for all that have a policy in training.
    """

    advantages: Sequence[Sequence[float]]
    returns: Sequence[Sequence[float]] = ()
    episodes: Sequence[Episode] | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    agents: Collection[str] | None = None


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

    def in_last_turn(self) -> Tensor:
        """1.0 for the tokens of the last turn of each dialogue, else 0.0. Shape (N,)."""
        last = self.turn.new_zeros(int(self.dialogue.max()) + 1).scatter_reduce(0, self.dialogue, self.turn, "amax")
        return (self.turn == last[self.dialogue]).float()

    def mean_over_dialogues(self, values: Tensor, weights: Tensor | None = None) -> Tensor:
        """Mean over the tokens of each dialogue, by their weights if these are given, then over dialogues. Both have shape (N,)."""
        counts = torch.bincount(self.dialogue, weights).clamp(min=1)
        weighted = values if weights is None else values * weights
        return (values.new_zeros(len(counts)).index_add(0, self.dialogue, weighted) / counts).mean()


def clipped_gain(ratio: Tensor, advantages: Tensor, clip: float) -> Tensor:
    """PPO's objective, min(rho A, clip(rho, 1 - eps, 1 + eps) A), of any shape. Source: arXiv:1707.06347, equation 7."""
    return torch.minimum(ratio * advantages, ratio.clamp(1 - clip, 1 + clip) * advantages)
