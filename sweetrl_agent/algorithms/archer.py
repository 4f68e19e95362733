"""ArCHer (Zhou et al., arXiv:2402.19446): an off-policy critic of whole utterances, and an on-policy actor of their tokens.

A state o_t is the dialogue that the agent reads before its turn t, an action a_t is that whole turn, its end token included. d is 1 after the last turn.

1. In every iteration the current policy plays episodes, which enter a replay buffer D (section 3.2).
2. The critic has two heads for each of Q and V, with slow targets (equations 3 and 4; paired heads as in the released code, without a minimum):
    L = sum over k of  E[(Q_k(o, a) - r - gamma (1 - d) V'_k(o'))^2] + E[(V_k(o) - Q'_k(o, a~))^2],   (o, a, r, o', d) from D,   a~ ~ pi(.|o).
a~ is a *fresh* action of the current policy: the critic evaluates this policy, though the data are of earlier ones. The targets follow after every step.
3. After `warm_up` iterations the actor learns. In replayed states it takes fresh actions, and their advantage is
    A(o, a~) = min_k Q_k(o, a~) - min_k V_k(o).
4. The actor's step is a policy gradient (equation 5): the gradient of E[A(o, a~) sum over the tokens of a~ of log pi]. With `token_baseline` (section 3.4) a value
head on the policy's body learns A from every token's state, and A - V_tok weights the token.
5. Repeat. The agent is the policy; the critic is needed in training alone.

Differences from the released code: The log-probability of an action includes its end token. Gradients are means, not sums, over micro-batches. Nothing has dropout,
so targets are deterministic. Fresh actions for the critic are sampled once per iteration, for `critic_states` transitions, which its steps then share; the
released code samples one for every transition of every step. Advantages are standardized over a step's actions (`normalize`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import transformers
from torch import Tensor

from colbench_gym.seeds import derive_seed
from sweetrl_agent.algorithms.grpo import standardized
from sweetrl_agent.core.batch import ActionTokens, Batch, Credit
from sweetrl_agent.core.episode import Episode
from sweetrl_agent.core.policy import Utterance
from sweetrl_agent.core.replay import Transition
from sweetrl_agent.core.run import Run
from sweetrl_agent.core.settings import setting
from sweetrl_agent.core.trainable import Trainable
from sweetrl_agent.core.work import Lengths, Work, reading, training
from sweetrl_agent.critics.utterance_reader import UtteranceReader
from sweetrl_agent.critics.utterance_values import SlowlyFollowed, UtteranceValues, make_values, refuse_encoder
from sweetrl_agent.models.loading import load_chat, system_prompt
from sweetrl_agent.trainers.on_policy import OnPolicyAlgorithm, OnPolicyConfig


def critic_loss(
    q: Tensor, v: Tensor, rewards: Tensor, is_last: Tensor, next_v: Tensor, fresh_q: Tensor, gamma: float
) -> Tensor:
    """The critic's loss of step 2, a mean over B transitions.

    Args:
        q: Q_k(o, a), with its gradient. Shape (2, B).
        v: V_k(o), with its gradient. Shape (2, B).
        rewards: Shape (B,).
        is_last: 1.0 where the episode ends with the transition. Shape (B,).
        next_v: V'_k(o') of the target; any finite number after the last turn. Shape (2, B).
        fresh_q: Q'_k(o, a~) of the target at fresh actions. Shape (2, B).
        gamma: Discount per turn.
    """
    targets = rewards + gamma * (1 - is_last) * next_v
    return (q - targets.detach()).square().mean(dim=1).sum() + (v - fresh_q.detach()).square().mean(dim=1).sum()


@dataclass(frozen=True)
class ArcherConfig(OnPolicyConfig):
    """Settings of ArCHer. "Released" is the code of the paper with GPT-2; its values differ between tasks where two are given."""

    learning_rate: float = setting(
        3e-4, "AdamW's, of the actor; released: 1e-5, 1e-6 on Twenty Questions, 2e-6 for Mistral-7B with LoRA."
    )
    tasks: int = setting(60, "Tasks per iteration; released: 128 episodes.", least=1)
    group: int = setting(1, "Episodes per task.", least=1)
    epochs: int = setting(
        1, "Optimizer steps on the same fresh actions; released: 1. More are off-policy, without a correction.", least=1
    )
    replay: int = setting(100_000, "Transitions that the replay buffer keeps; released: 100,000.", least=1)
    warm_up: int = setting(2, "First iterations, in which only the critic learns; released: 20 or 10.")
    encoder: str = setting(
        "frozen",
        "What embeds dialogue and utterance for the critic: `frozen`, the initial policy's body; `lora`, the same with an adapter that is trained; "
        "`small`, a new transformer of two layers. Released: RoBERTa, trained.",
    )
    width: int = setting(64, "Size of the critic's hidden layers, and of a small encoder; released: 768.", least=4)
    max_tokens: int = setting(
        512, "Longest sequence that the critic reads; of a longer dialogue, the last tokens. Released: 512.", least=1
    )
    critic_rate: float = setting(1e-3, "AdamW's learning rate of the critic; released: 2e-5 for the whole RoBERTa.")
    critic_states: int = setting(
        512, "Replayed transitions per iteration, with a fresh action each, for all steps of the critic.", least=1
    )
    critic_steps: int = setting(50, "Steps of the critic per iteration; released: 50.", least=1)
    critic_batch: int = setting(
        128, "Transitions per step of the critic; released: 256, each step with fresh actions of its own.", least=1
    )
    gamma: float = setting(0.95, "Discount per turn; released: 0.95.", most=1)
    polyak: float = setting(0.1, "Rate at which the targets follow, per step of the critic; released: 0.1.", above=0, most=1)
    reward_scale: float = setting(
        1.0, "Rewards are divided by it, so that values are of the order of 1. None in the released code.", above=0
    )
    actor_steps: int = setting(
        3, "Updates of the actor per iteration, each on fresh actions in other states; released: 3.", least=1
    )
    actor_states: int = setting(128, "Replayed states per update of the actor; released: 256.", least=2)
    normalize: bool = setting(True, "Whether the advantages of an update are standardized; not in the released code.")
    token_baseline: bool = setting(
        False, "Whether a value head on the policy is a baseline for every token; written but unused in the released code."
    )
    baseline_learning_rate: float = setting(3e-3, "AdamW's learning rate of that head.")

    def __post_init__(self) -> None:
        """Refuse an unknown encoder, a small one that its attention heads cannot share, and a warm-up that no iteration follows."""
        refuse_encoder(self.encoder, self.width)
        if self.iterations <= self.warm_up:
            raise ValueError(
                f"`iterations` must be above `warm_up`, {self.warm_up}: in these the actor does not learn; got {self.iterations}."
            )


class Archer(OnPolicyAlgorithm):
    """ArCHer; see the module's docstring."""

    name, title, Config, credits_played = "archer", "ArCHer", ArcherConfig, False
    averages_over = "dialogues"
    values: UtteranceValues
    double: SlowlyFollowed
    reader: UtteranceReader

    @property
    def values_per_token(self) -> bool:
        """With the token-level baseline, a value belongs to a token."""
        return bool(self.config.token_baseline)

    @property
    def critic_learning_rate(self) -> float | None:
        """The value head on the policy is the token-level baseline."""
        return self.config.baseline_learning_rate if self.config.token_baseline else None

    def trainables(self, run: Run) -> Sequence[Trainable]:
        """The critic and its target."""
        config, arguments = self.config, run.config.model
        self.reader = UtteranceReader(
            load_chat(run.initial_model, arguments), system_prompt(arguments), arguments.history, config.max_tokens
        )
        transformers.set_seed(run.seed)
        self.values = make_values(run, config.encoder, config.width, config.max_tokens)
        self.double = SlowlyFollowed(self.values, config.critic_rate, config.polyak)
        return self.double.trainables

    def save(self, run: Run) -> None:
        """See `OnPolicyAlgorithm`; also the critic, archer/critic/, for `collab`."""
        super().save(run)
        self.values.save(run.path(f"{self.name}/critic"))

    def update_critic(self, batch: Batch) -> Mapping[str, float]:
        """Step 2, on transitions of the replay that share their fresh actions over the steps."""
        if not len(batch.replay):
            return {}
        config, before = self.config, self.double.tokens_read
        drawn = batch.replay.sample(config.critic_states, self._seed(batch, "critic"))
        fresh = [self.reader.action(utterance) for utterance in self.fresh(batch, drawn, "critic")]
        states, actions, following = self.reader.transitions(drawn)
        self.values.encoder.prepare([*states, *actions, *following, *fresh])
        rng, losses = np.random.default_rng(self._seed(batch, "batches")), []
        for _ in range(config.critic_steps):
            chosen = rng.integers(len(drawn), size=min(config.critic_batch, len(drawn)))
            rows = ([part[i] for i in chosen] for part in (states, actions, following, fresh))
            losses.append(self._critic_step([drawn[i] for i in chosen], *rows))
        self.count_scored(self.double.tokens_read - before)
        return {"critic_loss": float(np.mean(losses))}

    def _critic_step(self, drawn: Sequence[Transition], states: Any, actions: Any, following: Any, fresh: Any) -> float:
        values, target = self.values, self.double.target
        rewards = values.tensor([t.reward / self.config.reward_scale for t in drawn])
        is_last = values.tensor([float(t.following is None) for t in drawn])
        with torch.no_grad():
            next_v = target.v_values(target.embed(following))
            fresh_q = target.q_values(target.embed(states), target.embed(fresh))
        embedded = values.embed(states)
        q, v = values.q_values(embedded, values.embed(actions)), values.v_values(embedded)
        return self.double.step(critic_loss(q, v, rewards, is_last, next_v, fresh_q, self.config.gamma))

    def credits(self, batch: Batch) -> Iterable[Credit]:
        """Step 3 for every update; none while the critic warms up."""
        if batch.iteration >= self.config.warm_up and len(batch.replay):
            yield from (self.credit(batch, step) for step in range(self.config.actor_steps))

    def credit(self, batch: Batch, step: int = 0) -> Credit:
        """Fresh actions in replayed states as the last turns of episodes, and their advantages; all other turns have none."""
        before = self.double.tokens_read
        drawn = batch.replay.sample(self.config.actor_states, self._seed(batch, f"actor {step}"))
        fresh = self.fresh(batch, drawn, f"actor {step}")
        states = [self.reader.state(t.observation) for t in drawn]
        advantages = self.values.advantages(states, [self.reader.action(utterance) for utterance in fresh])
        self.count_scored(self.double.tokens_read - before)
        advantages = standardized(advantages) if self.config.normalize else advantages
        episodes = [self.reader.read_episode(t, utterance) for t, utterance in zip(drawn, fresh, strict=True)]
        credited = [self._credited(*pair) for pair in zip(episodes, advantages, strict=True)]
        return Credit(credited, credited if self.values_per_token else (), episodes)

    def turn_credit(self, batch: Batch, turns: Sequence[int]) -> list[float]:
        """See `OnPolicyAlgorithm`: A(o, a) of the turns by the critic."""
        drawn, before = [Transition(*place) for place in zip(batch.episodes, turns, strict=True)], self.double.tokens_read
        states, actions, _ = self.reader.transitions(drawn)
        advantages = self.values.advantages(states, actions)
        self.count_scored(self.double.tokens_read - before)
        return advantages

    def fresh(self, batch: Batch, drawn: Sequence[Transition], purpose: str) -> list[Utterance]:
        """A fresh action of the current policy in the state of every transition.

        Raises:
            AgentError: If the policy cannot speak.
        """
        seeds = [self._seed(batch, purpose, i) for i in range(len(drawn))]
        utterances = batch.sample([t.observation for t in drawn], seeds)
        for utterance in utterances:
            if utterance.error:
                raise utterance.error
        return utterances

    def policy_loss(self, tokens: ActionTokens) -> Tensor:
        """The policy gradient of step 4, negated: - A log pi(a~|o), the *sum* over the action's tokens, averaged over actions."""
        advantages = tokens.returns - tokens.values.detach() if self.values_per_token else tokens.advantages
        gain = advantages * tokens.log_probs * tokens.in_last_turn()
        return -gain.sum() / (tokens.dialogue.max() + 1)

    def loss(self, tokens: ActionTokens) -> Tensor:
        """The policy's loss and, with the baseline, the squared error of V_tok to A."""
        if not self.values_per_token:
            return self.policy_loss(tokens)
        is_fresh = tokens.in_last_turn()
        error = ((tokens.values - tokens.returns).square() * is_fresh).sum() / is_fresh.sum()
        return self.policy_loss(tokens) + error

    def work(self, run: Run, lengths: Lengths) -> Mapping[str, Work]:
        """See `Algorithm`: episodes, fresh actions, what the critic reads, and the actor's steps."""
        config, most = self.config, self.config.iterations
        acted = most * config.actor_steps * config.actor_states
        fresh, at_once = acted + most * config.critic_states, run.config.model.generation_batch
        sampled = Work(utterances=fresh, sampled=fresh * lengths.agent, prompts=fresh * lengths.prefix, at_once=at_once)
        read = reading(3 * fresh, 32, lengths.prefix, 1)
        tokens = lengths.prefix + lengths.agent
        trained = training(acted, tokens, lengths.agent, config.actor_states, config.micro_batch, config.epochs)
        return {self.name: self.played_work(run, lengths) + sampled + read + trained}

    def _credited(self, episode: Episode, advantage: float) -> list[float]:
        *earlier, last = [len(turn.token_ids) if self.values_per_token else 1 for turn in episode.turns]
        return [0.0] * sum(earlier) + [advantage] * last

    def _seed(self, batch: Batch, purpose: str, number: int = 0) -> int:
        return derive_seed(batch.seed, self.name, purpose, batch.iteration, number)
