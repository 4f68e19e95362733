"""A policy in training: updates of a language model on the sampled tokens themselves; texts are never tokenized again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor

from colbench_gym.errors import ColBenchError
from sweetrl_agent.config.model import ModelArguments
from sweetrl_agent.core.batch import ActionTokens, Credit
from sweetrl_agent.core.episode import Episode
from sweetrl_agent.core.messages import as_read, system_message
from sweetrl_agent.core.policy import Policy
from sweetrl_agent.core.run import Run
from sweetrl_agent.core.trainable import Trainable, constant, linear_to_zero
from sweetrl_agent.critics.heads import ModelWithHead
from sweetrl_agent.data.chat import Chat, EncodedDialogue, encode_hinted
from sweetrl_agent.data.padding import right_padded
from sweetrl_agent.models.loading import adapted, load_model, load_tokenizer, policy_on, system_prompt
from sweetrl_agent.policies.prefix_tree import tokens_read
from sweetrl_agent.trainers.running import save_model
from sweetrl_agent.trainers.token_passes import action_log_probs, begins_turn, log_probs_and_values, state_values


@dataclass(frozen=True)
class TrainingSample:
    """A dialogue of the training batch.

    Attributes:
        encoded: Its sequences; the tokens of the agent are the sampled ones.
        hinted: Its sequences behind the hidden information, for an asymmetric value head; [] without one.
        sampled: Log-probability of each of the agent's tokens under the sampling policy, in nats, in order.
        advantages: One value per token of the agent.
        values: Value by the value head before the iteration's updates, one per agent turn or token; empty without a value head.
        returns: Target of each value; empty without a value head.
        reference: Log-probability of each of the agent's tokens under the initial policy, in nats; empty if every step computes it.
    """

    encoded: list[EncodedDialogue]
    hinted: list[EncodedDialogue]
    sampled: list[float]
    advantages: list[float]
    values: Sequence[float]
    returns: Sequence[float]
    reference: Sequence[float]


@dataclass(frozen=True)
class Update:
    """Statistics of the optimizer steps of an iteration; means over the steps unless stated otherwise.

    Attributes:
        tokens: Total number of tokens processed by the model in all steps.
        tokens_by_episode: Those of each episode.
        loss: The algorithm's loss.
        grad_norm: Norm of the gradient before clipping.
        policy_kl: Estimate of D_KL[pi_old || pi] on the sampled tokens, in nats, at the last step: the size of the update.
        reference_kl: Estimate of D_KL[pi || pi_ref], in nats; None if the loss uses no reference.
    """

    tokens: int = 0
    loss: float = 0.0
    grad_norm: float = 0.0
    policy_kl: float = 0.0
    reference_kl: float | None = None
    tokens_by_episode: Sequence[int] = ()


class Learner:
    """A language model in training, with a value head on its body where the algorithm has one.

    An asymmetric value head reads the hidden information before the dialogue, as a critic does (`core.hint`), in a pass of its own.

    Attributes:
        trainable: The model, and the value head, with their optimizer.
        policy: The policy on this model; it always samples from the current weights.
        dialogues_read: Dialogues read so far in passes without gradient: for values, scores and the reference.
        scored_tokens: Tokens read so far in these passes.
    """

    dialogues_read: int = 0
    scored_tokens: int = 0

    def __init__(self, run: Run, algorithm: Any, name: str = "policy") -> None:
        """Load the initial policy, with a new adapter if the settings request LoRA.

        Args:
            run: The run.
            algorithm: The `trainers.on_policy.OnPolicyAlgorithm` whose `loss` is minimized.
            name: Name of the trainable.
        """
        arguments, config = run.config.model, algorithm.config
        transformers.set_seed(run.seed)  # a new adapter's weights are drawn
        self.algorithm = algorithm
        self.tokenizer = load_tokenizer(run.initial_model, arguments)
        self.model = adapted(load_model(run.initial_model, run.initial_model, arguments), arguments)
        self._initial = self.model if algorithm.uses_reference and arguments.lora else None  # used with its adapter disabled
        if algorithm.uses_reference and not arguments.lora:
            self._initial = load_model(run.initial_model, run.initial_model, arguments)
        _switch_off_dropout(self.model)
        if arguments.gradient_checkpointing:
            self.model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        module, self.head = self.model, None
        groups: list[dict[str, Any]] = [{"params": [p for p in self.model.parameters() if p.requires_grad]}]
        if algorithm.critic_learning_rate is not None:
            module = ModelWithHead(self.model)
            self.head = module.head
            torch.nn.init.constant_(self.head.bias, getattr(config, "first_value", 0.0))
            groups += [{"params": list(self.head.parameters()), "lr": algorithm.critic_learning_rate}]
        optimizer = torch.optim.AdamW(groups, lr=config.learning_rate, betas=(0.9, 0.95), weight_decay=0.0)
        self.trainable = Trainable(name, module, optimizer, linear_to_zero if config.anneal else constant)
        self.policy = self.new_policy(arguments)
        self.chat, self.instructions = Chat(self.tokenizer, arguments.reasoning), system_message(system_prompt(arguments))
        self.temperature, self.history = arguments.temperature, arguments.history
        self._encodings: dict[int, tuple[Episode, list[EncodedDialogue]]] = {}
        self._is_asymmetric = algorithm.is_asymmetric and self.head is not None
        self._hint = system_prompt(arguments), run.record.hidden_noun

    def new_policy(self, arguments: ModelArguments) -> Policy:
        """A further policy on this model, with a cache of its own."""
        return policy_on(self.model, self.tokenizer, arguments)

    def save(self, folder: Path) -> None:
        """Save the model, or its adapter, and the tokenizer to a folder, atomically."""
        save_model(self.model, self.tokenizer, folder)

    def update(
        self,
        episodes: Sequence[Episode],
        credit: Credit,
        values: Sequence[Sequence[float]] = (),
        reference: Sequence[Sequence[float]] = (),
    ) -> Update:
        """Run the optimizer steps of an iteration.

        Without a value head and a divergence from the initial policy, episodes with zero advantage in all turns have no gradient and are skipped.
        They count in the mean of the loss if the algorithm `counts_skipped`.

        Args:
            episodes: Episodes of one agent.
            credit: Their advantages and returns.
            values: Result of `values`; () without a value head.
            reference: Result of `reference`; () to compute it in every step, if the loss uses it.

        Raises:
            ColBenchError: If the engine returned no tokens.
        """
        samples = self._samples(episodes, credit, values, reference)
        trains_all = self.head is not None or self.algorithm.uses_reference
        trained = [trains_all or any(row.advantages) for row in samples]
        rows = [row for row, is_trained in zip(samples, trained, strict=True) if is_trained]
        count = len(samples) if self.algorithm.counts_skipped else len(rows)
        steps = [self._step(rows, count) for _ in range(self.algorithm.config.epochs)] if rows else []
        if not steps:
            return Update()
        tokens = [
            is_trained * len(steps) * sum(len(part.token_ids) for part in (*row.encoded, *row.hinted))
            for row, is_trained in zip(samples, trained, strict=True)
        ]
        return Update(
            tokens=sum(tokens),
            tokens_by_episode=tokens,
            loss=sum(step.loss for step in steps) / len(steps),
            grad_norm=sum(step.grad_norm for step in steps) / len(steps),
            policy_kl=steps[-1].policy_kl,
            reference_kl=steps[-1].reference_kl,
        )

    def values(self, episodes: Sequence[Episode]) -> list[list[float]]:
        """The value head's value of every turn of every episode, or of every action token; [] without a value head."""
        if self.head is None:
            return []
        per_token, by_episode = self.algorithm.values_per_token, list[list[float]]()
        for part in self._read(episodes, self._hinted if self._is_asymmetric else self._encoded):
            self._count(part)
            with torch.no_grad():
                if self._is_asymmetric:
                    values = state_values(self.model, _flat(part), self.head, per_token, _groups(part))
                else:
                    _, values = log_probs_and_values(
                        self.model, _flat(part), self.temperature, self.head, per_token, _groups(part)
                    )
            counts = [(_num_actions if per_token else _num_turns)(dialogue) for dialogue in part]
            by_episode += [of_dialogue.tolist() for of_dialogue in values.split(counts)]
        return by_episode

    def reference(self, episodes: Sequence[Episode]) -> list[list[float]]:
        """Log-probabilities of every episode's action tokens under the initial policy, in nats; [] if the algorithm does not use them."""
        if self._initial is None:
            return []
        by_episode: list[list[float]] = []
        for part in self._read(episodes):
            self._count(part)
            log_probs = self._reference_log_probs(part)
            by_episode += [
                of_dialogue.tolist() for of_dialogue in log_probs.split([_num_actions(dialogue) for dialogue in part])
            ]
        return by_episode

    def score(self, episodes: Sequence[Episode], last_only: bool = False) -> list[list[list[float]]]:
        """Log-probabilities of the tokens of turns of every episode under the current policy, in nats; see `Batch.score`.

        Dialogues of the same episode in a micro-batch share what they have in common.
        """
        by_episode: list[list[list[float]]] = []
        size = self.algorithm.config.micro_batch
        for start in range(0, len(episodes), size):
            keys = [(episode.task_id, episode.index) for episode in episodes[start : start + size]]
            (dialogues,) = self._read(episodes[start : start + size])
            part = [_last_turn(dialogue) if last_only else dialogue for dialogue in dialogues]
            groups = [keys.index(key) for key, dialogue in zip(keys, part, strict=True) for _ in dialogue]
            self.scored_tokens += tokens_read([encoded.token_ids for encoded in _flat(part)], groups)
            with torch.no_grad():
                log_probs = action_log_probs(self.model, _flat(part), self.temperature, groups)
            lengths = [[len(turn) for encoded in dialogue for turn in encoded.turns] for dialogue in part]
            of_turns = iter(log_probs.split([length for of_dialogue in lengths for length in of_dialogue]))
            scored = [[next(of_turns).tolist() for _ in of_dialogue] for of_dialogue in lengths]
            by_episode += [
                [[] for _ in range(_num_turns(dialogue) - 1)] + of_dialogue if last_only else of_dialogue
                for dialogue, of_dialogue in zip(dialogues, scored, strict=True)
            ]
        self._encodings.clear()  # edited dialogues are not met again
        return by_episode

    def _samples(
        self,
        episodes: Sequence[Episode],
        credit: Credit,
        values: Sequence[Sequence[float]],
        reference: Sequence[Sequence[float]],
    ) -> list[TrainingSample]:
        self._refuse_unsampled(episodes)
        encoded = [self._encoded(episode) for episode in episodes]
        hinted = [self._hinted(episode) if self._is_asymmetric else [] for episode in episodes]
        self._encodings.clear()
        advantages = credit.advantages
        if not self.algorithm.values_per_token:
            advantages = [_of_tokens(episode, of_turns) for episode, of_turns in zip(episodes, advantages, strict=True)]
        sampled = [[value for turn in episode.turns for value in turn.log_probs] for episode in episodes]
        columns = (part or [[]] * len(episodes) for part in (values, credit.returns, reference))
        return [TrainingSample(*row) for row in zip(encoded, hinted, sampled, advantages, *columns, strict=True)]

    def _refuse_unsampled(self, episodes: Sequence[Episode]) -> None:
        turns = [turn for episode in episodes for turn in episode.turns]
        if any(len(turn.token_ids) != len(turn.log_probs) or not turn.token_ids for turn in turns):
            raise ColBenchError(
                f"{self.algorithm.name!r} trains on sampled tokens, and the engine returned no tokens with log-probabilities; use vLLM servers, "
                "or `--engine transformers`."
            )

    def _encoded(self, episode: Episode) -> list[EncodedDialogue]:
        """The sampled tokens of an episode, each turn behind the prompt that it was sampled from; remembered until the next update."""
        if id(episode) in self._encodings:
            return self._encodings[id(episode)][1]
        messages = [*self.instructions, *episode.messages]
        turns = [turn.token_ids for turn in episode.turns]
        if not all(turns):
            spoken = [i for i, message in enumerate(messages) if message["role"] == "assistant"]
            turns = [
                turn.token_ids or self.chat.turn(as_read(messages[:i], self.history), turn.text, turn.thought)
                for i, turn in zip(spoken, episode.turns, strict=True)
            ]
        encoded = self.chat.sequences(messages, turns, self.history)
        self._encodings[id(episode)] = episode, encoded
        return encoded

    def _hinted(self, episode: Episode) -> list[EncodedDialogue]:
        """`_encoded` behind the hidden information: what an asymmetric value head reads."""
        hidden = [episode.hidden] if isinstance(episode.hidden, str) else episode.hidden
        turns = [turn for part in self._encoded(episode) for turn in part.turns]
        return encode_hinted(episode.messages, hidden, *self._hint, self.chat, turns, self.history)

    def _read(
        self, episodes: Sequence[Episode], encode: Callable[[Episode], list[EncodedDialogue]] | None = None
    ) -> Iterator[Sequence[list[EncodedDialogue]]]:
        """Micro-batches of encoded episodes, for passes without gradient."""
        self.model.eval()
        self.dialogues_read += len(episodes)
        size = self.algorithm.config.micro_batch
        encoded = [(encode or self._encoded)(episode) for episode in episodes]
        return (encoded[start : start + size] for start in range(0, len(encoded), size))

    def _count(self, dialogues: Sequence[list[EncodedDialogue]]) -> None:
        self.scored_tokens += tokens_read([part.token_ids for part in _flat(dialogues)], _groups(dialogues))

    @torch.no_grad()
    def _reference_log_probs(self, dialogues: Sequence[list[EncodedDialogue]]) -> Tensor:
        with self.model.disable_adapter() if self._initial is self.model else nullcontext():
            return action_log_probs(self._initial, _flat(dialogues), self.temperature, _groups(dialogues))

    def _step(self, rows: Sequence[TrainingSample], count: int) -> Update:
        size = self.algorithm.config.micro_batch
        self.model.train()
        loss_sum, policy_kl, reference_kl = 0.0, 0.0, 0.0
        units = [self._units(row) for row in rows]
        for start in range(0, len(rows), size):
            part = rows[start : start + size]
            tokens = self._action_tokens(part)
            share = sum(units[start : start + size]) / sum(units)
            loss = self.algorithm.loss(tokens) * (share * len(rows) / count)
            loss.backward()
            loss_sum += float(loss.detach())
            policy_kl += share * float(_divergence(tokens.log_probs.detach() - tokens.sampled))
            if self._initial is not None:
                reference_kl += share * float(tokens.reference_divergence().detach().mean())
        return Update(0, loss_sum, self.trainable.step(), policy_kl, None if self._initial is None else reference_kl)

    def _units(self, row: TrainingSample) -> int:
        """How many of those that the loss is a mean over: so it is the mean of the whole batch, whatever a micro-batch holds."""
        counts = {"tokens": len(row.sampled), "turns": _num_turns(row.encoded), "dialogues": 1}
        return counts[self.algorithm.averages_over]

    def _action_tokens(self, rows: Sequence[TrainingSample]) -> ActionTokens:
        device = self.model.device
        dialogues = [row.encoded for row in rows]
        parts = _flat(dialogues)
        turns = right_padded([part.turn_ids for part in parts], device)
        dialogue = torch.tensor(_groups(dialogues), device=device)
        is_action = turns[:, 1:] > 0
        sampled = _joined([row.sampled for row in rows], device)
        reference = sampled
        if self._initial is not None:
            known = [row.reference for row in rows]
            if all(known):
                reference = _joined(known, device)
            else:
                self._count(dialogues)
                reference = self._reference_log_probs(dialogues)
        per_token, head = self.algorithm.values_per_token, None if self._is_asymmetric else self.head
        log_probs, values = log_probs_and_values(self.model, parts, self.temperature, head, per_token, _groups(dialogues))
        if self._is_asymmetric:
            hinted = [row.hinted for row in rows]
            values = state_values(self.model, _flat(hinted), self.head, per_token, _groups(hinted))
        return ActionTokens(
            log_probs,
            sampled,
            reference,
            _joined([row.advantages for row in rows], device),
            dialogue[is_action.nonzero()[:, 0]],
            (begins_turn(turns).flatten().cumsum(0) - 1)[is_action.flatten()],
            values,
            _joined([row.returns for row in rows], device),
            _joined([row.values for row in rows], device),
        )


def _joined(rows: Sequence[Sequence[float]], device: Any) -> Tensor:
    return torch.tensor([value for row in rows for value in row], device=device, dtype=torch.float32)


def _of_tokens(episode: Episode, of_turns: Sequence[float]) -> list[float]:
    """Numbers of an episode's turns, repeated for each of their tokens."""
    return [value for turn, value in zip(episode.turns, of_turns, strict=True) for _ in turn.token_ids]


def _flat(dialogues: Sequence[list[EncodedDialogue]]) -> list[EncodedDialogue]:
    return [part for dialogue in dialogues for part in dialogue]


def _groups(dialogues: Sequence[list[EncodedDialogue]]) -> list[int]:
    """The dialogue of each of `_flat`."""
    return [i for i, dialogue in enumerate(dialogues) for _ in dialogue]


def _last_turn(dialogue: Sequence[EncodedDialogue]) -> list[EncodedDialogue]:
    """The sequence of the last turn, with this turn as its only one."""
    last = dialogue[-1]
    return [EncodedDialogue(last.token_ids, [int(turn == last.num_turns) for turn in last.turn_ids])]


def _num_actions(dialogue: Sequence[EncodedDialogue]) -> int:
    return sum(turn > 0 for part in dialogue for turn in part.turn_ids)


def _num_turns(dialogue: Sequence[EncodedDialogue]) -> int:
    return sum(part.num_turns for part in dialogue)


def _switch_off_dropout(model: Any) -> None:
    """The log-probabilities of training are then those of sampling, and no random number is drawn that a checkpoint would have to keep."""
    from trl.trainer.utils import disable_dropout_in_model

    disable_dropout_in_model(model)
    for module in model.modules():
        if isinstance(getattr(module, "attention_dropout", None), float):
            module.attention_dropout = 0.0


def _divergence(log_ratios: Tensor) -> Tensor:
    """Mean of exp(x) - x - 1 of x = log pi - log pi_old at tokens of pi_old: D_KL[pi_old || pi], never negative."""
    return (torch.exp(log_ratios) - log_ratios - 1).mean()
