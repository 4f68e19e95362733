"""What on-policy algorithms share: play, credit every turn, update on the tokens as they were sampled; again.

An algorithm is a class that says what a turn's advantage is, and where it must how that becomes a loss (`algorithms.grpo`). Our own loop, for
TRL's trainers (`RLOOTrainer`, `GRPOTrainer`) credit whole completions, not turns of a dialogue with somebody else's words between them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from tqdm import tqdm

from sweetrl_agent.chat import EncodedDialogue, encode_as_sampled, system_message
from sweetrl_agent.core.algorithm import START, Algorithm, setting
from sweetrl_agent.models import adapted, load_model, load_tokenizer, policy_on, system_prompt
from sweetrl_agent.padding import is_token, right_padded
from sweetrl_agent.rollouts import Episode, episodes_of, play
from sweetrl_agent.run import Run
from sweetrl_agent.trainers.running import TRAINED_TOKENS, Checkpoint, save_model
from sweetrl_agent.trajectory import Trajectory

#: What an algorithm spends, counted in its metrics from the first iteration on.
SPENT = ("episodes", "environment_turns", "generated_tokens", TRAINED_TOKENS)


@dataclass(frozen=True)
class OnPolicyConfig:
    """How much is played and how far a step goes; a subclass adds what its algorithm has besides."""

    learning_rate: float = setting(1e-4, "AdamW's.")
    iterations: int = setting(30, "Times that episodes are played and learnt from.", least=1)
    tasks: int = setting(15, "Tasks of an iteration; by default as many episodes in all as `collect` plays.", least=1)
    group: int = setting(4, "Episodes of each.", least=1)
    epochs: int = setting(1, "Optimizer steps on the episodes of an iteration, each on all of them.", least=1)
    micro_batch: int = setting(16, "Dialogues in a forward pass.", least=1)


@dataclass(frozen=True)
class ActionTokens:
    """The action tokens of some dialogues in a row, N of them in all; log-probabilities in nats, at the temperature of sampling.

    Attributes:
        log_probs: Under the policy in training, with its gradient. Shape (N,).
        sampled: Under the policy that played. Shape (N,).
        reference: Under the initial policy; equal to `sampled`, and of no use, where the configuration asks for none. Shape (N,).
        advantages: Of the token's turn. Shape (N,).
        dialogue: The token's dialogue, 0 to B - 1. Shape (N,).
    """

    log_probs: Tensor
    sampled: Tensor
    reference: Tensor
    advantages: Tensor
    dialogue: Tensor

    def mean_over_dialogues(self, values: Tensor) -> Tensor:
        """Mean over the tokens of each dialogue, then over dialogues, of values of shape (N,)."""
        counts = torch.bincount(self.dialogue).clamp(min=1)
        means = torch.zeros(len(counts), device=values.device, dtype=values.dtype).index_add(0, self.dialogue, values) / counts
        return means.mean()


class OnPolicyAlgorithm(Algorithm):
    """Trains the initial policy on episodes of its own. A subclass says what turns are worth.

    Attributes:
        config: Its settings.
    """

    Config: ClassVar[type] = OnPolicyConfig
    shared = START

    def __init__(self, config: Any = None) -> None:
        """Take the settings; None for the defaults."""
        self.config = config or self.Config()

    @property
    def uses_reference(self) -> bool:
        """Whether the loss asks for log-probabilities under the initial policy."""
        return False

    def advantages(self, episodes: Sequence[Trajectory]) -> list[list[float]]:
        """One number for every turn of every episode.

        Args:
            episodes: Those of an iteration, void ones left out.
        """
        raise NotImplementedError

    def policy_loss(self, tokens: ActionTokens) -> Tensor:
        """The policy gradient: - A log pi, a mean over action tokens. Source: arXiv:2503.15478, Lemma B.2."""
        return -(tokens.advantages * tokens.log_probs).mean()

    def train(self, run: Run) -> None:
        """Episodes on the training tasks, which take turns -> NAME/agent/. Resumes after the last whole iteration."""
        type(self)(self.settings(run)).learn(run)

    def learn(self, run: Run) -> None:
        """The same, with the settings that it has."""
        config, name = self.config, self.name
        learner = _Learner(run, self)
        checkpoint = Checkpoint(run.path(f"{name}/checkpoint.pt"), learner.model, learner.optimizer)
        done, metrics = checkpoint.load()
        spent = Counter({key: metrics[-1][key] for key in SPENT} if metrics else {})
        env = run.environment(run.tasks, config.tasks * config.group)
        with closing(env), tqdm(total=config.iterations, initial=done, desc=name, unit="step") as bar:
            for iteration in range(done, config.iterations):
                episodes = _episodes(run, config, iteration)
                played = [t for batch in play(learner.policy, env, episodes, run.seed, f"{name} {iteration}") for t in batch]
                valid = [trajectory for trajectory in played if not trajectory.is_void]
                spent += _spent(played)
                spent[TRAINED_TOKENS] += learner.update(valid, self.advantages(valid))
                success = sum(t.reward for t in valid) / max(len(valid), 1)
                metrics.append({"stage": name, "step": iteration + 1, "success": success, **{key: spent[key] for key in SPENT}})
                checkpoint.save(iteration + 1, metrics)
                bar.update()
        run.add_metrics(name, metrics)
        save_model(learner.model, learner.tokenizer, run.path(f"{name}/agent"))
        checkpoint.remove()


@dataclass(frozen=True)
class _Played:
    """A dialogue to learn from.

    Attributes:
        encoded: Its tokens, of which the agent's are as they were sampled.
        sampled: Log-probability of each of these, in order.
        advantages: One number per agent turn.
    """

    encoded: EncodedDialogue
    sampled: list[float]
    advantages: Sequence[float]


class _Learner:
    """A model that plays and learns."""

    def __init__(self, run: Run, algorithm: OnPolicyAlgorithm) -> None:
        arguments = run.config.model
        self.algorithm = algorithm
        self.tokenizer = load_tokenizer(run.start_model, arguments)
        self.model = adapted(load_model(run.start_model, run.start_model, arguments), arguments)
        self.reference = load_model(run.start_model, run.start_model, arguments) if algorithm.uses_reference else None
        weights = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(weights, lr=algorithm.config.learning_rate, betas=(0.9, 0.95), weight_decay=0.0)
        self.policy = policy_on(self.model, self.tokenizer, arguments)
        self.instructions = system_message(system_prompt(arguments))
        self.temperature = arguments.temperature

    def update(self, episodes: Sequence[Trajectory], advantages: Sequence[Sequence[float]]) -> int:
        """The optimizer steps of an iteration; episodes without any advantage are left out. Returns the tokens that went through the model."""
        rows = [
            self._played(trajectory, values) for trajectory, values in zip(episodes, advantages, strict=True) if any(values)
        ]
        for _ in range(self.algorithm.config.epochs):
            self._step(rows)
        return self.algorithm.config.epochs * sum(len(row.encoded.token_ids) for row in rows)

    def _played(self, trajectory: Trajectory, advantages: Sequence[float]) -> _Played:
        turns = [turn.token_ids for turn in trajectory.turns]
        encoded = encode_as_sampled([*self.instructions, *trajectory.messages], turns, self.tokenizer)
        return _Played(encoded, [value for turn in trajectory.turns for value in turn.log_probs], advantages)

    def _step(self, rows: Sequence[_Played]) -> None:
        size = self.algorithm.config.micro_batch
        self.model.train()
        for start in range(0, len(rows), size):
            part = rows[start : start + size]
            loss = self.algorithm.policy_loss(self._action_tokens(part))
            (loss * len(part) / len(rows)).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()

    def _action_tokens(self, rows: Sequence[_Played]) -> ActionTokens:
        device = self.model.device
        dialogues = [row.encoded for row in rows]
        turns = right_padded([dialogue.turn_ids for dialogue in dialogues], device)[:, 1:]
        is_action = turns > 0
        by_turn = torch.zeros(len(rows), int(turns.max()) + 1, device=device)
        for i, row in enumerate(rows):
            by_turn[i, 1 : len(row.advantages) + 1] = torch.tensor(list(row.advantages), device=device)
        sampled = torch.tensor([value for row in rows for value in row.sampled], device=device)
        reference = sampled
        if self.reference is not None:
            with torch.no_grad():
                reference = action_log_probs(self.reference, dialogues, self.temperature)
        return ActionTokens(
            action_log_probs(self.model, dialogues, self.temperature),
            sampled,
            reference,
            by_turn.gather(1, turns)[is_action],
            is_action.nonzero()[:, 0],
        )


def action_log_probs(model: Any, dialogues: Sequence[EncodedDialogue], temperature: float = 1.0) -> Tensor:
    """Log-probabilities of the agent's tokens, dialogue after dialogue, in nats. Shape (N,).

    Args:
        model: A causal language model.
        dialogues: B of them, a leading system message included where the agent has one.
        temperature: At which the turns were sampled; the probabilities are those of the policy that played.
    """
    device, rows = model.device, [dialogue.token_ids for dialogue in dialogues]
    ids, turns = right_padded(rows, device), right_padded([dialogue.turn_ids for dialogue in dialogues], device)[:, 1:]
    logits = model(ids, attention_mask=is_token(rows, device), use_cache=False).logits[:, :-1]
    is_action = turns > 0
    chosen = ids[:, 1:][is_action][:, None]
    return torch.log_softmax(logits[is_action].float() / temperature, dim=-1).gather(1, chosen)[:, 0]


def _episodes(run: Run, config: OnPolicyConfig, iteration: int) -> list[Episode]:
    """The next tasks in their order, from the first again when all had their turn."""
    first = iteration * config.tasks
    return episodes_of([run.tasks[i % len(run.tasks)].id for i in range(first, first + config.tasks)], config.group)


def _spent(trajectories: Sequence[Trajectory]) -> Counter[str]:
    turns = [turn for trajectory in trajectories for turn in trajectory.turns]
    tokens = sum(len(turn.token_ids) for turn in turns)
    return Counter({"episodes": len(trajectories), "environment_turns": len(turns), "generated_tokens": tokens})
