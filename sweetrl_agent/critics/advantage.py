"""Inference with the trained critic: turn-wise advantages of candidates and of whole dialogues.

In the paper, the reference sees the hidden information like the critic (arXiv:2503.15478, equation 3). In the released ranking script it
does not: then even an untrained critic ranks candidates, by the pointwise mutual information log pi(a | o, c) - log pi(a | o).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from sweetrl_agent.core.episode import Messages
from sweetrl_agent.core.hint import hint_message
from sweetrl_agent.core.messages import system_message, without_replies
from sweetrl_agent.critics import packed
from sweetrl_agent.critics.credit import turn_advantages
from sweetrl_agent.data.chat import Chat, EncodedDialogue, numbered_actions
from sweetrl_agent.data.padding import is_token, right_padded
from sweetrl_agent.policies.slots import CACHE, body, can_use_slots


class AdvantageCritic:
    """Scores agent turns by A(o_t, a_t, c): the mean of the log-ratios of the turn's tokens, or their sum."""

    def __init__(
        self,
        model: Any,
        reference: Any | None,
        chat: Chat,
        is_normalised: bool = True,
        reference_sees_hidden: bool = True,
        instructions: str = "",
        noun: str = "answer",
        reads_replies: bool = True,
    ) -> None:
        """Wrap a trained critic.

        Args:
            model: The critic, a causal language model or one with a LoRA adapter.
            reference: The frozen initial model; None if `model` has an adapter, which is then disabled for the reference.
            chat: Tokenizer and template of both.
            is_normalised: Mean over a turn's tokens; False for their sum, the ablation without 1/L.
            reference_sees_hidden: True as in the paper; False as in the released ranking script.
            instructions: System prompt of the agent; the critic and its reference see it too.
            noun: What the hidden information is, `EnvironmentRecord.hidden_noun`.
            reads_replies: False for a critic that was trained on dialogues `without_replies`.
        """
        if reference is None and not hasattr(model, "disable_adapter"):
            raise ValueError("`reference` may be None only if `model` has a LoRA adapter to disable.")
        self.model, self.reference, self.chat = model.eval(), reference, chat
        self.is_normalised, self.reference_sees_hidden, self.instructions = is_normalised, reference_sees_hidden, instructions
        self.noun, self.reads_replies = noun, reads_replies

    @torch.inference_mode()
    def rank(self, messages: Messages, hidden: str, texts: Sequence[str]) -> list[float]:
        """Advantages of candidates for the next agent turn; equal texts are scored once.

        Args:
            messages: The dialogue as the agent sees it.
            hidden: The hidden information; "" for a critic that does not see it.
            texts: The candidates.
        """
        unique, messages = list(dict.fromkeys(texts)), self._read(messages)
        hint = hint_message(hidden, self.instructions, self.noun)
        prompt = self.chat.prompt([*hint, *messages])
        plain = prompt if self.reference_sees_hidden else self.chat.prompt(self._as_agent(messages))
        candidates = self.chat.turns([*hint, *messages], unique)
        critic = candidate_log_probs(self.model, prompt, candidates)
        with self._reference() as reference:
            start = candidate_log_probs(reference, plain, candidates)
        ratios = [a - b for a, b in zip(critic, start, strict=True)]
        credit = [ratio.mean() if self.is_normalised else ratio.sum() for ratio in ratios]
        scores = {text: float(value) for text, value in zip(unique, credit, strict=True)}
        return [scores[text] for text in texts]

    @torch.inference_mode()
    def dialogue_advantages(self, messages: Messages, hidden: str) -> list[float]:
        """Advantage of every agent turn of a dialogue, in order."""
        messages = self._read(messages)
        hinted = self.chat.sequences([*hint_message(hidden, self.instructions, self.noun), *messages])
        plain = hinted
        if not self.reference_sees_hidden:
            plain = self.chat.sequences(self._as_agent(messages), [turn for part in hinted for turn in part.turns])
        critic = _action_log_probs(self.model, hinted)
        with self._reference() as reference:
            ratios = (critic - _action_log_probs(reference, plain)).tolist()
        turn_ids = numbered_actions(hinted)
        means = turn_advantages(ratios, turn_ids)
        return means if self.is_normalised else [mean * turn_ids.count(turn) for turn, mean in enumerate(means, 1)]

    def _read(self, messages: Messages) -> Messages:
        return messages if self.reads_replies else without_replies(messages)

    def _as_agent(self, messages: Messages) -> Messages:
        return [*system_message(self.instructions), *messages]

    @contextlib.contextmanager
    def _reference(self) -> Iterator[Any]:
        if self.reference is not None:
            yield self.reference.eval()
        else:
            with self.model.disable_adapter():
                yield self.model


def candidate_log_probs(model: Any, prompt: list[int], candidates: Sequence[list[int]]) -> list[Tensor]:
    """Log-probabilities of candidates' tokens after a shared prompt, which is encoded once.

    Args:
        model: A causal language model that returns a cache.
        prompt: Token ids of the shared prompt, at least two.
        candidates: Token ids of each candidate, not empty.

    Returns:
        One float32 tensor per candidate, with one value per token.
    """
    if can_use_slots(model):
        return packed.candidate_log_probs(model, prompt, candidates)
    device, count, shared = model.device, len(candidates), prompt[:-1]
    cache = body(model)(torch.tensor([shared], device=device), use_cache=True)[CACHE]
    cache.batch_repeat_interleave(count)
    read = [prompt[-1:] + ids[:-1] for ids in candidates]  # the prompt's last token predicts a candidate's first token
    own = is_token(read, device)
    mask = torch.cat([own.new_ones(count, len(shared)), own], dim=1)
    logits = model(right_padded(read, device), attention_mask=mask, use_cache=True, **{CACHE: cache}).logits
    log_probs = torch.log_softmax(logits.float(), dim=-1)
    return [log_probs[i, range(len(ids)), ids].cpu() for i, ids in enumerate(candidates)]


def _action_log_probs(model: Any, parts: Sequence[EncodedDialogue]) -> Tensor:
    """Log-probability of every token of the agent given the preceding ones, sequence after sequence, shape (N,)."""
    return torch.cat(
        [_token_log_probs(model, part.token_ids)[[i for i, turn in enumerate(part.turn_ids) if turn]] for part in parts]
    )


def _token_log_probs(model: Any, token_ids: list[int]) -> Tensor:
    """Log-probability of every token given the preceding ones, shape (L,); 0 for the first."""
    ids = torch.tensor([token_ids], device=model.device)
    log_probs = torch.log_softmax(model(ids, use_cache=False).logits[0, :-1].float(), dim=-1)
    return torch.cat([log_probs.new_zeros(1), log_probs.gather(1, ids[0, 1:, None])[:, 0]]).cpu()
