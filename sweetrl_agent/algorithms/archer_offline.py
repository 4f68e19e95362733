"""Offline ArCHer (Zhou et al., arXiv:2402.19446, section 4.5): implicit Q-learning over utterances, and advantage-weighted regression of the actor.

States, actions, heads and encoders are those of `archer`. The data are episodes of another policy; no action outside of them is ever evaluated.

1. The critic (implicit Q-learning, arXiv:2110.06169, equations 5 and 6, with paired heads as in the released code):
    L = sum over k of  E[(Q_k(o, a) - r - gamma (1 - d) V'_k(o'))^2] + E[|tau - 1[u_k < 0]| u_k^2],   u_k = Q'_k(o, a) - V_k(o).
With tau near 1, V is the largest Q among the data's actions. The targets follow after every step.
2. The actor (AWR, arXiv:1910.00177, equation 3): maximize the mean over actions of min(exp(beta A), weight_clip) log pi(a|o), with
A = min_k Q_k(o, a) - min_k V_k(o). log pi(a|o) is the sum over the action's tokens, its end token included.

Differences from the released code (andreazanette/OfflineArcher): There the actor takes a step with every step of the critic; here it is trained when the critic is,
with fixed weights. There the weights have no bound. Where a limit of turns cuts an episode off, the state after it is not in the data, and its last transition
is left out of Q's loss; there it counts as an end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
import transformers
from torch import Tensor

from colbench_gym.files import Row
from colbench_gym.seeds import derive_seed
from sweetrl_agent.algorithms.ilql import expectile_loss
from sweetrl_agent.core.algorithm import START, Algorithm
from sweetrl_agent.core.dialogues import AGENT
from sweetrl_agent.core.episode import Episode
from sweetrl_agent.core.messages import system_message
from sweetrl_agent.core.progress import progress_bar
from sweetrl_agent.core.run import Run
from sweetrl_agent.core.settings import setting
from sweetrl_agent.core.work import Lengths, Work, reading, training
from sweetrl_agent.critics.utterance_values import SlowlyFollowed, make_values, refuse_encoder
from sweetrl_agent.data.chat import Chat, EncodedDialogue
from sweetrl_agent.models.loading import adapted, load_model, load_tokenizer, system_prompt
from sweetrl_agent.trainers.checkpoint import Checkpoint
from sweetrl_agent.trainers.periodic_evaluation import repeat
from sweetrl_agent.trainers.running import SCORED_TOKENS, trainer_arguments

#: Steps of the critic between two of its checkpoints.
SAVED_EVERY = 100


def iql_loss(
    q: Tensor, v: Tensor, rewards: Tensor, is_last: Tensor, next_v: Tensor, target_q: Tensor, gamma: float, tau: float,
    is_cut: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The critic's loss of step 1, a mean over B transitions.

    Args:
        q: Q_k(o, a), with its gradient. Shape (2, B).
        v: V_k(o), with its gradient. Shape (2, B).
        rewards: Shape (B,).
        is_last: 1.0 where the episode ends with the transition. Shape (B,).
        next_v: V'_k(o') of the target; any finite number after the last turn. Shape (2, B).
        target_q: Q'_k(o, a) of the target. Shape (2, B).
        gamma: Discount per turn.
        tau: Expectile.
        is_cut: 1.0 where the state after the transition is not known; None for nowhere. Shape (B,).
    """
    errors = (q - (rewards + gamma * (1 - is_last) * next_v).detach()).square()
    known = torch.ones_like(rewards) if is_cut is None else 1 - is_cut
    of_q = (errors * known).sum() / known.sum().clamp(min=1)
    return of_q + 2 * expectile_loss(target_q.detach() - v, tau).mean(dim=1).sum()


def awr_weights(advantages: Tensor, beta: float, most: float) -> Tensor:
    """min(exp(beta A), most) of advantages of any shape."""
    return torch.exp(beta * advantages).clamp(max=most)


@dataclass(frozen=True)
class ArcherOfflineConfig:
    """Settings of offline ArCHer. "Released" is the code of its authors for Twenty Questions, with GPT-2."""

    learning_rate: float = setting(5e-4, "AdamW's, of the actor; released: 1e-4.")
    batch: int = setting(16, "Dialogues per optimizer step of the actor; released: 128 transitions.", least=1)
    epochs: float = setting(3.0, "Epochs of the actor over the data; released: 10.")
    encoder: str = setting("frozen", "As `archer.encoder`; released: RoBERTa, trained.")
    width: int = setting(64, "Size of the critic's hidden layers, and of a small encoder; released: 768.", least=4)
    max_tokens: int = setting(
        512, "Longest sequence that the critic reads; of a longer dialogue, the last tokens. Released: 512.", least=1
    )
    critic_rate: float = setting(1e-3, "AdamW's learning rate of the critic; released: 1e-5 for the whole RoBERTa.")
    critic_steps: int = setting(2000, "Steps of the critic; released: as many as of the actor.", least=1)
    critic_batch: int = setting(256, "Transitions per step of the critic; released: 128.", least=1)
    gamma: float = setting(0.99, "Discount per turn; released: 0.99.", most=1)
    tau: float = setting(0.9, "Expectile of V; released: 0.9.", most=1)
    polyak: float = setting(0.05, "Rate at which the targets follow, per step of the critic; released: 0.05.", above=0, most=1)
    reward_scale: float = setting(
        1.0,
        "Rewards are divided by it, so that values are of the order of 1: choose a usual return. None in the released code.",
        above=0,
    )
    beta: float = setting(1.0, "Inverse temperature of the actor's weights; released: 1.")
    weight_clip: float = setting(20.0, "Largest weight of an action; none in the released code.", above=0)

    def __post_init__(self) -> None:
        """Refuse an unknown encoder, and a small one that its attention heads cannot share."""
        refuse_encoder(self.encoder, self.width)


class UtteranceData(NamedTuple):
    """The transitions of behaviour data, episode after episode: B in all.

    Attributes:
        states: Tokens of o_t.
        actions: Tokens of a_t.
        rewards: Shape (B,).
        is_last: 1.0 for the last of an episode. Shape (B,).
        is_cut: 1.0 for the last of an episode that was cut off. Shape (B,).
    """

    states: list[list[int]]
    actions: list[list[int]]
    rewards: Tensor
    is_last: Tensor
    is_cut: Tensor

    def following(self, index: int) -> list[int]:
        """Tokens of o_{t+1}; of o_t itself after a last turn, where its value has no weight."""
        return self.states[index if self.is_last[index] else index + 1]


def utterance_data(
    episodes: Sequence[Episode], encoded: Sequence[Sequence[EncodedDialogue]], max_tokens: int, reward_scale: float = 1.0
) -> UtteranceData:
    """The transitions of episodes from their sequences (`Chat.sequences`); of sequences longer than `max_tokens` tokens, the last ones."""
    states, actions, lasts = [], [], []
    for parts in encoded:
        for part in parts:
            for number in range(1, part.num_turns + 1):
                states.append(part.token_ids[: part.turn_ids.index(number)][-max_tokens:])
                actions.append(
                    [token for token, turn in zip(part.token_ids, part.turn_ids, strict=True) if turn == number][-max_tokens:]
                )
        lasts.append(len(states) - 1)
    is_last, is_cut = torch.zeros(len(states)), torch.zeros(len(states))
    is_last[lasts] = 1.0
    is_cut[lasts] = torch.tensor([float(not episode.metrics.get("answered", True)) for episode in episodes])
    rewards = torch.tensor([turn.reward / reward_scale for episode in episodes for turn in episode.turns])
    return UtteranceData(states, actions, rewards, is_last, is_cut)


class ArcherOffline(Algorithm):
    """Offline ArCHer; see the module's docstring."""

    name, title, Config = "archer_offline", "ArCHer, offline", ArcherOfflineConfig
    shared, requires = START, frozenset({"behaviour"})

    def train(self, run: Run) -> None:
        """Train the critic and then the actor on the run's behaviour data; writes archer_offline/critic/ and archer_offline/agent/.

        Raises:
            ColBenchError: As `offline_episodes`.
        """
        from sweetrl_agent.trainers.offline import offline_episodes

        arguments, config = run.config.model, self.config
        tokenizer, episodes = load_tokenizer(run.initial_model, arguments), offline_episodes(run)
        instructions = system_message(system_prompt(arguments))
        encoded = Chat(tokenizer, arguments.reasoning).all_sequences(
            [[*instructions, *episode.messages_to_imitate] for episode in episodes], history=arguments.history
        )
        transformers.set_seed(run.seed)
        data = utterance_data(episodes, encoded, config.max_tokens, config.reward_scale)
        values = make_values(run, config.encoder, config.width, config.max_tokens)
        double = SlowlyFollowed(values, config.critic_rate, config.polyak)
        of_critic = self.train_critic(run, double, data)
        before = double.tokens_read
        weights = awr_weights(torch.tensor(values.advantages(data.states, data.actions)), config.beta, config.weight_clip)
        read = of_critic[-1][SCORED_TOKENS] + double.tokens_read - before
        rows = self.train_actor(run, tokenizer, encoded, weights.tolist())
        rows[-1] |= {SCORED_TOKENS: read, "mean_weight": float(weights.mean())}
        run.add_metrics(self.name, [*of_critic, *rows])
        run.path(f"{self.name}/critic/checkpoint.pt").unlink()

    def train_critic(self, run: Run, double: SlowlyFollowed, data: UtteranceData) -> list[Row]:
        """Step 1; resumes after its last checkpoint. Returns metrics."""
        config, folder = self.config, run.path(f"{self.name}/critic")
        double.values.encoder.prepare([*data.states, *data.actions])
        checkpoint = Checkpoint(folder / "checkpoint.pt", double.trainables)
        rows = checkpoint.load()
        continues = repeat(run, self.name, rows)
        done, before = (int(rows[-1]["step"]) if rows else 0), double.tokens_read
        read = rows[-1][SCORED_TOKENS] if rows else before
        losses: list[float] = []
        with progress_bar(total=config.critic_steps, initial=done, desc=f"{self.name} critic", unit="step") as bar:
            for step in range(done, config.critic_steps) if continues else ():
                rng = np.random.default_rng(derive_seed(run.seed, self.name, step))
                losses.append(self._critic_step(double, data, rng.integers(len(data.states), size=config.critic_batch)))
                bar.update()
                if (step + 1) % SAVED_EVERY == 0 or step + 1 == config.critic_steps:
                    row = {"stage": self.name, "step": step + 1, "critic_loss": float(np.mean(losses))}
                    rows.append({**row, SCORED_TOKENS: read + double.tokens_read - before})
                    losses.clear()
                    checkpoint.save(rows)
                    if not run.callbacks.tell("on_log", self.name, step + 1, rows[-1]):
                        break
        double.values.save(folder)
        return rows

    def train_actor(
        self, run: Run, tokenizer: Any, encoded: Sequence[Sequence[EncodedDialogue]], weights: Sequence[float]
    ) -> list[Row]:
        """Step 2, with a weight for every turn of the data. Returns metrics."""
        from sweetrl_agent.trainers.stage_training import train_stage
        from sweetrl_agent.trainers.weighted import WeightedTrainer, weighted_rows

        config, arguments, folder = self.config, run.config.model, run.path(self.policies[AGENT])
        transformers.set_seed(run.seed)
        given = trainer_arguments(folder, run.seed, arguments, config.batch, config.batch, config.learning_rate, config.epochs)
        trainer = WeightedTrainer(
            model=adapted(load_model(run.initial_model, run.initial_model, arguments), arguments),
            args=transformers.TrainingArguments(**given, remove_unused_columns=False),
            train_dataset=weighted_rows(encoded, weights),
        )
        return train_stage(trainer, tokenizer, folder, self.name, run.callbacks, steps_before=config.critic_steps)

    def work(self, run: Run, lengths: Lengths) -> Mapping[str, Work]:
        """See `Algorithm`: what the critic reads, and the actor's steps."""
        config, count = self.config, run.config.sft.sft_dialogues
        rows = lengths.rows(count, run.config.model.history)
        read = (
            1 if config.encoder == "frozen" else max(1, 3 * config.critic_steps * config.critic_batch / (count * lengths.turns))
        )
        work = Work(f"{count:,} episodes, {config.epochs:g} epochs")
        return {
            self.name: work
            + reading(read * count * lengths.turns, 32, lengths.prefix + lengths.agent, 1)
            + training(*rows, config.batch, config.batch, config.epochs)
        }

    def _critic_step(self, double: SlowlyFollowed, data: UtteranceData, chosen: Any) -> float:
        values, target = double.values, double.target
        states, actions = ([part[i] for i in chosen] for part in (data.states, data.actions))
        rewards, is_last, is_cut = (values.tensor(part[chosen].tolist()) for part in (data.rewards, data.is_last, data.is_cut))
        with torch.no_grad():
            next_v = target.v_values(target.embed([data.following(i) for i in chosen]))
            target_q = target.q_values(target.embed(states), target.embed(actions))
        embedded = values.embed(states)
        q, v = values.q_values(embedded, values.embed(actions)), values.v_values(embedded)
        return double.step(iql_loss(q, v, rewards, is_last, next_v, target_q, self.config.gamma, self.config.tau, is_cut))
