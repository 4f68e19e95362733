"""Passes of a language model over dialogues: log-probabilities of the agent's tokens, and values of states by a head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from sweetrl_agent.data.chat import EncodedDialogue
from sweetrl_agent.data.padding import is_token, right_padded
from sweetrl_agent.policies.prefix_tree import prefix_tree, rows_at
from sweetrl_agent.policies.slots import body, can_use_slots, has_plain_head


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
    device, sequences = model.device, [dialogue.token_ids for dialogue in dialogues]
    ids, turns = right_padded(sequences, device), right_padded([dialogue.turn_ids for dialogue in dialogues], device)
    is_action = turns[:, 1:] > 0
    has_value = is_action if per_token else begins_turn(turns)
    can_share = bool(groups) and can_use_slots(model) and has_plain_head(model)
    if can_share and (tree := prefix_tree(sequences, groups, device)):
        states, places = tree.hidden_states(body(model)), tree.places[:, :-1]
        logits, hidden = model.get_output_embeddings()(rows_at(states, places[is_action])), rows_at(states, places[has_value])
    else:
        logits, hidden = _read(model, sequences, is_action, has_value, head is not None)
    log_probs = torch.log_softmax(logits.float() / temperature, dim=-1).gather(1, ids[:, 1:][is_action][:, None])[:, 0]
    if head is None:
        return log_probs, log_probs.new_empty(0)
    return log_probs, head(hidden.float())[:, 0]


def state_values(
    model: Any,
    dialogues: Sequence[EncodedDialogue],
    head: torch.nn.Module,
    per_token: bool = False,
    groups: Sequence[int] = (),
) -> Tensor:
    """The values of `log_probs_and_values` alone, in a pass without logits; arguments as there. Shape (K,), or (N,) with `per_token`."""
    device, sequences = model.device, [dialogue.token_ids for dialogue in dialogues]
    turns = right_padded([dialogue.turn_ids for dialogue in dialogues], device)
    has_value = turns[:, 1:] > 0 if per_token else begins_turn(turns)
    if groups and can_use_slots(model) and (tree := prefix_tree(sequences, groups, device)):
        hidden = rows_at(tree.hidden_states(body(model)), tree.places[:, :-1][has_value])
    else:
        ids, arguments = (
            right_padded(sequences, device),
            {"use_cache": False, "output_hidden_states": True, "logits_to_keep": 1},
        )
        hidden = model(ids, attention_mask=is_token(sequences, device), **arguments).hidden_states[-1][:, :-1][has_value]
    values: Tensor = head(hidden.float())[:, 0]
    return values


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
        return rows_at(states.flatten(0, 1), row_of[dialogue] * states.shape[1] + place)

    return at(output.logits, is_action), at(output.hidden_states[-1], has_value) if has_head else output.logits


def begins_turn(turns: Tensor) -> Tensor:
    """True at the token before each turn, shape (B, L - 1), from turn ids of shape (B, L)."""
    return (turns[:, 1:] > 0) & (turns[:, 1:] != turns[:, :-1])
