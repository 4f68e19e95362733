"""What on-policy algorithms share: play, credit every turn, update on the tokens as they were sampled; again.

An algorithm is a class that says what a turn's advantage is, and where it must how that becomes a loss (`algorithms.grpo`). With a critic, a value
head on the policy's body is trained in the same steps (`algorithms.turn_ppo`). Our own loop, for TRL's trainers (`RLOOTrainer`, `GRPOTrainer`) credit
whole completions, not turns of a dialogue with somebody else's words between them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor
from tqdm import tqdm

from sweetrl_agent.core.algorithm import START, Algorithm
from sweetrl_agent.core.episode import Episode, EpisodeKey
from sweetrl_agent.core.messages import system_message
from sweetrl_agent.core.settings import setting
from sweetrl_agent.critics.heads import ModelWithHead
from sweetrl_agent.data.chat import EncodedDialogue, encode_as_sampled
from sweetrl_agent.data.padding import is_token, right_padded
from sweetrl_agent.data.run import Run
from sweetrl_agent.models.loading import adapted, load_model, load_tokenizer, policy_on, system_prompt
from sweetrl_agent.rollouts.play import episodes_of, play
from sweetrl_agent.trainers.running import TRAINED_TOKENS, Checkpoint, save_model

#: What an algorithm spends, counted in its metrics from the first iteration on.
SPENT = ("episodes", "environment_turns", "generated_tokens", TRAINED_TOKENS)


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
    """

    Config: ClassVar[type] = OnPolicyConfig
    shared = START
    engines = ("transformers",)  # the model in training samples itself

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

    def train(self, run: Run) -> None:
        """Episodes on the training tasks, which take turns -> NAME/agent/. Resumes after the last whole iteration."""
        type(self)(self.settings(run)).learn(run)

    def learn(self, run: Run) -> None:
        """The same, with the settings that it has."""
        config, name = self.config, self.name
        learner = _Learner(run, self)
        checkpoint = Checkpoint(run.path(f"{name}/checkpoint.pt"), learner.trained, learner.optimizer)
        done, metrics = checkpoint.load()
        spent = Counter({key: metrics[-1][key] for key in SPENT} if metrics else {})
        env = run.environment(run.tasks, config.tasks * config.group)
        with closing(env), tqdm(total=config.iterations, initial=done, desc=name, unit="step") as bar:
            for iteration in range(done, config.iterations):
                episodes = _episodes(run, config, iteration)
                played = [t for batch in play(learner.policy, env, episodes, run.seed, f"{name} {iteration}") for t in batch]
                valid = [episode for episode in played if not episode.is_void]
                spent += _spent(played)
                spent[TRAINED_TOKENS] += learner.update(valid)
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
        returns: One number per agent turn; empty without a critic.
    """

    encoded: EncodedDialogue
    sampled: list[float]
    advantages: Sequence[float]
    returns: Sequence[float]


class _Learner:
    """A model that plays and learns.

    Attributes:
        trained: All that is trained, for the checkpoint: the model, and the value head where there is one.
    """

    def __init__(self, run: Run, algorithm: OnPolicyAlgorithm) -> None:
        arguments, config = run.config.model, algorithm.config
        self.algorithm = algorithm
        self.tokenizer = load_tokenizer(run.start_model, arguments)
        self.model = adapted(load_model(run.start_model, run.start_model, arguments), arguments)
        self.reference = load_model(run.start_model, run.start_model, arguments) if algorithm.uses_reference else None
        self.trained, self.head = self.model, None
        groups: list[dict[str, Any]] = [{"params": [p for p in self.model.parameters() if p.requires_grad]}]
        if algorithm.critic_learning_rate is not None:
            self.trained = ModelWithHead(self.model)
            self.head = self.trained.head
            groups += [{"params": list(self.head.parameters()), "lr": algorithm.critic_learning_rate}]
        self.optimizer = torch.optim.AdamW(groups, lr=config.learning_rate, betas=(0.9, 0.95), weight_decay=0.0)
        self.policy = policy_on(self.model, self.tokenizer, arguments)
        self.instructions = system_message(system_prompt(arguments))
        self.temperature = arguments.temperature

    def update(self, episodes: Sequence[Episode]) -> int:
        """The optimizer steps of an iteration. Returns the tokens that went through the model in them.

        Without a critic, episodes whose advantages are all zero teach nothing and are left out.
        """
        encoded = [self._encoded(episode) for episode in episodes]
        credit = self.algorithm.credit(episodes, self._values(encoded))
        returns = credit.returns or [[]] * len(episodes)
        rows = [
            _Played(dialogue, [value for turn in episode.turns for value in turn.log_probs], advantages, targets)
            for episode, dialogue, advantages, targets in zip(episodes, encoded, credit.advantages, returns, strict=True)
            if any(advantages) or self.head is not None
        ]
        for _ in range(self.algorithm.config.epochs):
            self._step(rows)
        return self.algorithm.config.epochs * sum(len(row.encoded.token_ids) for row in rows)

    def _encoded(self, episode: Episode) -> EncodedDialogue:
        turns = [turn.token_ids for turn in episode.turns]
        return encode_as_sampled([*self.instructions, *episode.messages], turns, self.tokenizer)

    @torch.no_grad()
    def _values(self, dialogues: Sequence[EncodedDialogue]) -> list[list[float]]:
        """The critic's value of every turn of every dialogue; empty without a critic."""
        if self.head is None:
            return []
        self.model.eval()
        found: list[list[float]] = []
        size = self.algorithm.config.micro_batch
        for start in range(0, len(dialogues), size):
            part = dialogues[start : start + size]
            _, values = log_probs_and_values(self.model, part, self.temperature, self.head)
            found += [of_dialogue.tolist() for of_dialogue in values.split([max(dialogue.turn_ids) for dialogue in part])]
        return found

    def _step(self, rows: Sequence[_Played]) -> None:
        size = self.algorithm.config.micro_batch
        self.model.train()
        for start in range(0, len(rows), size):
            part = rows[start : start + size]
            loss = self.algorithm.loss(self._action_tokens(part))
            (loss * len(part) / len(rows)).backward()
        for group in self.optimizer.param_groups:
            torch.nn.utils.clip_grad_norm_(group["params"], 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()

    def _action_tokens(self, rows: Sequence[_Played]) -> ActionTokens:
        device = self.model.device
        dialogues = [row.encoded for row in rows]
        turns = right_padded([dialogue.turn_ids for dialogue in dialogues], device)
        is_action = turns[:, 1:] > 0
        by_turn = torch.zeros(len(rows), int(turns.max()) + 1, device=device)
        for i, row in enumerate(rows):
            by_turn[i, 1 : len(row.advantages) + 1] = torch.tensor(list(row.advantages), device=device)
        sampled = torch.tensor([value for row in rows for value in row.sampled], device=device)
        reference = sampled
        if self.reference is not None:
            with torch.no_grad():
                reference = action_log_probs(self.reference, dialogues, self.temperature)
        log_probs, values = log_probs_and_values(self.model, dialogues, self.temperature, self.head)
        return ActionTokens(
            log_probs,
            sampled,
            reference,
            by_turn.gather(1, turns[:, 1:])[is_action],
            is_action.nonzero()[:, 0],
            (_begins_turn(turns).flatten().cumsum(0) - 1)[is_action.flatten()],
            values,
            torch.tensor([value for row in rows for value in row.returns], device=device),
        )


def action_log_probs(model: Any, dialogues: Sequence[EncodedDialogue], temperature: float = 1.0) -> Tensor:
    """Log-probabilities of the agent's tokens, dialogue after dialogue, in nats. Shape (N,).

    Args:
        model: A causal language model.
        dialogues: B of them, a leading system message included where the agent has one.
        temperature: At which the turns were sampled; the probabilities are those of the policy that played.
    """
    return log_probs_and_values(model, dialogues, temperature)[0]


def log_probs_and_values(
    model: Any, dialogues: Sequence[EncodedDialogue], temperature: float = 1.0, head: torch.nn.Module | None = None
) -> tuple[Tensor, Tensor]:
    """`action_log_probs`, and V(o_t) of every turn in the same pass: read off the token before the turn, the last of its prompt.

    Args:
        model: As there, like the next two.
        dialogues: As there.
        temperature: As there.
        head: From hidden states of the model's last layer to values; None gives no values.

    Returns:
        Shapes (N,) and (K,); K is 0 without a head.
    """
    device, rows = model.device, [dialogue.token_ids for dialogue in dialogues]
    ids, turns = right_padded(rows, device), right_padded([dialogue.turn_ids for dialogue in dialogues], device)
    output = model(ids, attention_mask=is_token(rows, device), use_cache=False, output_hidden_states=head is not None)
    is_action = turns[:, 1:] > 0
    chosen = ids[:, 1:][is_action][:, None]
    log_probs = torch.log_softmax(output.logits[:, :-1][is_action].float() / temperature, dim=-1).gather(1, chosen)[:, 0]
    if head is None:
        return log_probs, log_probs.new_empty(0)
    return log_probs, head(output.hidden_states[-1][:, :-1][_begins_turn(turns)].float())[:, 0]


def _begins_turn(turns: Tensor) -> Tensor:
    """True at the token before each turn, of turn numbers of shape (B, L). Shape (B, L - 1)."""
    return (turns[:, 1:] > 0) & (turns[:, 1:] != turns[:, :-1])


def _episodes(run: Run, config: OnPolicyConfig, iteration: int) -> list[EpisodeKey]:
    """The next tasks in their order, from the first again when all had their turn."""
    first = iteration * config.tasks
    return episodes_of([run.tasks[i % len(run.tasks)].id for i in range(first, first + config.tasks)], config.group)


def _spent(trajectories: Sequence[Episode]) -> Counter[str]:
    turns = [turn for episode in trajectories for turn in episode.turns]
    tokens = sum(len(turn.token_ids) for turn in turns)
    return Counter({"episodes": len(trajectories), "environment_turns": len(turns), "generated_tokens": tokens})
