"""On-policy updates of a model, on the sampled tokens themselves: texts are never tokenized again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import set_seed

from colbench_gym.errors import ColBenchError
from sweetrl_agent.config.model import ModelArguments
from sweetrl_agent.core.episode import Episode
from sweetrl_agent.core.messages import system_message
from sweetrl_agent.core.on_policy import ActionTokens, OnPolicyAlgorithm
from sweetrl_agent.core.policy import Policy
from sweetrl_agent.core.run import Run
from sweetrl_agent.critics.heads import ModelWithHead
from sweetrl_agent.data.chat import Chat, EncodedDialogue
from sweetrl_agent.data.padding import is_token, right_padded
from sweetrl_agent.models.loading import adapted, load_model, load_tokenizer, policy_on, system_prompt
from sweetrl_agent.policies.prefix_tree import prefix_tree
from sweetrl_agent.policies.slots import body, can_use_slots
from sweetrl_agent.trainers.running import save_model
from sweetrl_agent.trainers.trl.cpu_head import has_plain_head


@dataclass(frozen=True)
class _Played:
    """A dialogue of the training batch.

    Attributes:
        encoded: Its sequences; the tokens of the agent are the sampled ones.
        sampled: Log-probability of each of the agent's tokens under the sampling policy, in nats, in order.
        advantages: One value per token of the agent.
        values: Value by the critic before the iteration's updates, one per agent turn or token; empty without a critic.
        returns: Target of each value; empty without a critic.
        reference: Log-probability of each of the agent's tokens under the initial policy, in nats; empty if every step computes it.
    """

    encoded: list[EncodedDialogue]
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


class Learner:
    """A model and its optimizer.

    Attributes:
        trained: All trained modules, for the checkpoint: the model, and the value head if there is one.
        policy: The policy on this model; it always samples from the current weights.
    """

    def __init__(self, run: Run, algorithm: OnPolicyAlgorithm) -> None:
        """Load the initial policy, with a new adapter if the settings request LoRA."""
        arguments, config = run.config.model, algorithm.config
        set_seed(run.seed)  # a new adapter's weights are drawn
        self.algorithm = algorithm
        self.tokenizer = load_tokenizer(run.initial_model, arguments)
        self.model = adapted(load_model(run.initial_model, run.initial_model, arguments), arguments)
        self.reference = self.model if algorithm.uses_reference and arguments.lora else None  # used with its adapter disabled
        if algorithm.uses_reference and not arguments.lora:
            self.reference = load_model(run.initial_model, run.initial_model, arguments)
        self.trained, self.head = self.model, None
        groups: list[dict[str, Any]] = [{"params": [p for p in self.model.parameters() if p.requires_grad]}]
        if algorithm.critic_learning_rate is not None:
            self.trained = ModelWithHead(self.model)
            self.head = self.trained.head
            torch.nn.init.constant_(self.head.bias, algorithm.first_value)
            groups += [{"params": list(self.head.parameters()), "lr": algorithm.critic_learning_rate}]
        self.optimizer = torch.optim.AdamW(groups, lr=config.learning_rate, betas=(0.9, 0.95), weight_decay=0.0)
        self._rates: list[float] = [group["lr"] for group in self.optimizer.param_groups]
        self.policy = self.new_policy(arguments)
        self.chat, self.instructions = Chat(self.tokenizer, arguments.reasoning), system_message(system_prompt(arguments))
        self.temperature, self.history = arguments.temperature, arguments.history

    def new_policy(self, arguments: ModelArguments) -> Policy:
        """A further policy on this model, with a cache of its own."""
        return policy_on(self.model, self.tokenizer, arguments)

    def save(self, folder: Path) -> None:
        """Save the model, or its adapter, and the tokenizer to a folder, atomically."""
        save_model(self.model, self.tokenizer, folder)

    def update(self, episodes: Sequence[Episode], rate: float = 1.0) -> Update:
        """Run the optimizer steps of an iteration.

        Without a critic, episodes with zero advantage in all turns are skipped.

        Args:
            episodes: Episodes of the current policy.
            rate: Share of the learning rates.

        Raises:
            ColBenchError: If the engine returned no tokens.
        """
        for group, own in zip(self.optimizer.param_groups, self._rates, strict=True):
            group["lr"] = rate * own
        rows = [row for row in self._played(episodes) if any(row.advantages) or self.head is not None]
        steps = [self._step(rows) for _ in range(self.algorithm.config.epochs)] if rows else []
        if not steps:
            return Update()
        return Update(
            tokens=len(steps) * sum(len(part.token_ids) for row in rows for part in row.encoded),
            loss=sum(step.loss for step in steps) / len(steps),
            grad_norm=sum(step.grad_norm for step in steps) / len(steps),
            policy_kl=steps[-1].policy_kl,
            reference_kl=steps[-1].reference_kl,
        )

    def _played(self, episodes: Sequence[Episode]) -> list[_Played]:
        encoded = [self._encoded(episode) for episode in episodes]
        values = self._values(encoded)
        reference: list[list[float]] = []
        if self.algorithm.values_per_token:
            reference = self._reference(encoded)
            credit = self.algorithm.token_credit(episodes, values, reference)
            advantages = credit.advantages
        else:
            credit = self.algorithm.credit(episodes, values)
            advantages = [_of_tokens(episode, own) for episode, own in zip(episodes, credit.advantages, strict=True)]
        sampled = [[value for turn in episode.turns for value in turn.log_probs] for episode in episodes]
        columns = (part or [[]] * len(episodes) for part in (values, credit.returns, reference))
        return [_Played(*row) for row in zip(encoded, sampled, advantages, *columns, strict=True)]

    def _encoded(self, episode: Episode) -> list[EncodedDialogue]:
        """The sampled tokens of an episode, each turn behind the prompt that it was sampled from."""
        turns = [turn.token_ids for turn in episode.turns]
        if any(len(turn.token_ids) != len(turn.log_probs) or not turn.token_ids for turn in episode.turns):
            raise ColBenchError(
                f"{self.algorithm.name!r} trains on sampled tokens, and the engine returned no tokens with log-probabilities; use vLLM servers, "
                "or `--engine transformers`."
            )
        return self.chat.sequences([*self.instructions, *episode.messages], turns, self.history)

    @torch.no_grad()
    def _values(self, dialogues: Sequence[list[EncodedDialogue]]) -> list[list[float]]:
        """The critic's value of every turn or action token of every dialogue; empty without a critic."""
        if self.head is None:
            return []
        self.model.eval()
        per_token = self.algorithm.values_per_token
        found: list[list[float]] = []
        for part in self._micro_batches(dialogues):
            _, values = log_probs_and_values(self.model, _flat(part), self.temperature, self.head, per_token, _groups(part))
            counts = [(_num_actions if per_token else _num_turns)(dialogue) for dialogue in part]
            found += [of_dialogue.tolist() for of_dialogue in values.split(counts)]
        return found

    def _reference(self, dialogues: Sequence[list[EncodedDialogue]]) -> list[list[float]]:
        """Log-probabilities of every dialogue's action tokens under the initial policy; empty if the algorithm does not use it."""
        if self.reference is None:
            return []
        self.model.eval()
        found: list[list[float]] = []
        for part in self._micro_batches(dialogues):
            log_probs = self._reference_log_probs(part)
            found += [of_dialogue.tolist() for of_dialogue in log_probs.split([_num_actions(dialogue) for dialogue in part])]
        return found

    @torch.no_grad()
    def _reference_log_probs(self, dialogues: Sequence[list[EncodedDialogue]]) -> Tensor:
        with self.model.disable_adapter() if self.reference is self.model else nullcontext():
            return action_log_probs(self.reference, _flat(dialogues), self.temperature, _groups(dialogues))

    def _micro_batches(self, dialogues: Sequence[list[EncodedDialogue]]) -> Iterator[Sequence[list[EncodedDialogue]]]:
        size = self.algorithm.config.micro_batch
        return (dialogues[start : start + size] for start in range(0, len(dialogues), size))

    def _step(self, rows: Sequence[_Played]) -> Update:
        size = self.algorithm.config.micro_batch
        self.model.train()
        loss_sum, policy_kl, reference_kl = 0.0, 0.0, 0.0
        for start in range(0, len(rows), size):
            part = rows[start : start + size]
            tokens = self._action_tokens(part)
            share = len(part) / len(rows)
            loss = self.algorithm.loss(tokens) * share
            loss.backward()
            loss_sum += float(loss.detach())
            policy_kl += share * float(_divergence(tokens.log_probs.detach() - tokens.sampled))
            if self.reference is not None:
                reference_kl += share * float(tokens.reference_divergence().detach().mean())
        norms = [torch.nn.utils.clip_grad_norm_(group["params"], 1.0) for group in self.optimizer.param_groups]
        self.optimizer.step()
        self.optimizer.zero_grad()
        return Update(0, loss_sum, float(norms[0]), policy_kl, None if self.reference is None else reference_kl)

    def _action_tokens(self, rows: Sequence[_Played]) -> ActionTokens:
        device = self.model.device
        dialogues = [row.encoded for row in rows]
        parts = _flat(dialogues)
        turns = right_padded([part.turn_ids for part in parts], device)
        dialogue = torch.tensor(_groups(dialogues), device=device)
        is_action = turns[:, 1:] > 0
        sampled = _joined([row.sampled for row in rows], device)
        reference = sampled
        if self.reference is not None:
            known = [row.reference for row in rows]
            reference = _joined(known, device) if all(known) else self._reference_log_probs(dialogues)
        log_probs, values = log_probs_and_values(
            self.model, parts, self.temperature, self.head, self.algorithm.values_per_token, _groups(dialogues)
        )
        return ActionTokens(
            log_probs,
            sampled,
            reference,
            _joined([row.advantages for row in rows], device),
            dialogue[is_action.nonzero()[:, 0]],
            (_begins_turn(turns).flatten().cumsum(0) - 1)[is_action.flatten()],
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


def _num_actions(dialogue: Sequence[EncodedDialogue]) -> int:
    return sum(turn > 0 for part in dialogue for turn in part.turn_ids)


def _num_turns(dialogue: Sequence[EncodedDialogue]) -> int:
    return sum(part.num_turns for part in dialogue)


def action_log_probs(
    model: Any, dialogues: Sequence[EncodedDialogue], temperature: float = 1.0, groups: Sequence[int] = ()
) -> Tensor:
    """Log-probabilities of the agent's tokens, dialogue after dialogue, in nats. Shape (N,).

    Args:
        model: A causal language model.
        dialogues: B dialogues, including the agent's system message if it has one.
        temperature: Sampling temperature of the turns, so that the probabilities are those of the sampling distribution.
        groups: Whole dialogue that each one is a sequence of, B numbers: what its sequences have in common is read once. () for none.
    """
    return log_probs_and_values(model, dialogues, temperature, groups=groups)[0]


def log_probs_and_values(
    model: Any,
    dialogues: Sequence[EncodedDialogue],
    temperature: float = 1.0,
    head: torch.nn.Module | None = None,
    per_token: bool = False,
    groups: Sequence[int] = (),
) -> tuple[Tensor, Tensor]:
    """`action_log_probs`, and V(o_t) of every turn from the same forward pass, at the last token of the turn's prompt.

    With `per_token`, V of the state before every action token, at the token before it; for the first of a turn that is V(o_t).

    Args:
        model: As in `action_log_probs`.
        dialogues: As in `action_log_probs`.
        temperature: As in `action_log_probs`.
        head: Maps hidden states of the last layer to values; None for no values.
        per_token: Whether every action token has a value, not every turn.
        groups: As in `action_log_probs`.

    Returns:
        Log-probabilities, shape (N,), and values, shape (K,), or (N,) with `per_token`; (0,) without a head.
    """
    device, sequences = model.device, [one.token_ids for one in dialogues]
    ids, turns = right_padded(sequences, device), right_padded([one.turn_ids for one in dialogues], device)
    is_action = turns[:, 1:] > 0
    has_value = is_action if per_token else _begins_turn(turns)
    can_share = bool(groups) and can_use_slots(model) and has_plain_head(model)
    if can_share and (tree := prefix_tree(sequences, groups, device)):
        states, places = tree.hidden_states(body(model)), tree.places[:, :-1]
        logits, hidden = model.get_output_embeddings()(states[places[is_action]]), states[places[has_value]]
    else:
        logits, hidden = _read(model, sequences, is_action, has_value, head is not None)
    log_probs = torch.log_softmax(logits.float() / temperature, dim=-1).gather(1, ids[:, 1:][is_action][:, None])[:, 0]
    if head is None:
        return log_probs, log_probs.new_empty(0)
    return log_probs, head(hidden.float())[:, 0]


def _read(
    model: Any, sequences: Sequence[Sequence[int]], is_action: Tensor, has_value: Tensor, has_head: bool
) -> tuple[Tensor, Tensor]:
    """Logits and last hidden states at marked places, each of shape (B, L - 1). Equal rows are read once: turns of an agent that reads no history often are."""
    rows = list(dict.fromkeys(map(tuple, sequences)))
    places = {row: place for place, row in enumerate(rows)}
    row_of = torch.tensor([places[tuple(row)] for row in sequences], device=model.device)
    output = model(
        right_padded(rows, model.device),
        attention_mask=is_token(rows, model.device),
        use_cache=False,
        output_hidden_states=has_head,
    )

    def at(states: Tensor, marked: Tensor) -> Tensor:
        dialogue, place = marked.nonzero(as_tuple=True)
        return states[row_of[dialogue], place]

    return at(output.logits, is_action), at(output.hidden_states[-1], has_value) if has_head else output.logits


def _begins_turn(turns: Tensor) -> Tensor:
    """True at the token before each turn, shape (B, L - 1), from turn ids of shape (B, L)."""
    return (turns[:, 1:] > 0) & (turns[:, 1:] != turns[:, :-1])


def _divergence(log_ratios: Tensor) -> Tensor:
    """Mean of exp(x) - x - 1 of x = log pi - log pi_old at tokens of pi_old: D_KL[pi_old || pi], never negative."""
    return (torch.exp(log_ratios) - log_ratios - 1).mean()
