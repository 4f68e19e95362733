"""Utterances from what a model generated: the one place where tokens or texts of every engine are parted into thought and speech."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from colbench_gym.reasoning import AUTO, HARMONY, Reasoning
from sweetrl_agent.core.episode import LENGTH, STOP
from sweetrl_agent.core.policy import Utterance

#: Tokens at the end of a prompt in which the opening mark of a thought is looked for.
_TAIL = 16


class Utterances:
    """Makes the utterances of one model.

    Args:
        tokenizer: Its tokenizer.
        reasoning: The setting `reasoning`, see `colbench_gym.reasoning.Reasoning`.
        response_prefix: Text that ends every prompt and starts every message.
        stop_texts: Texts that end a turn, beside tokens: `Chat.stop_texts`.
    """

    def __init__(
        self, tokenizer: Any, reasoning: str = AUTO, response_prefix: str = "", stop_texts: Sequence[str] = ()
    ) -> None:
        self.reasoning, self.response_prefix, self.stop_texts = Reasoning(reasoning), response_prefix, stop_texts
        self._tokenizer = tokenizer
        self._prefix_length = len(tokenizer(response_prefix, add_special_tokens=False)["input_ids"]) if response_prefix else 0
        special = {i: token.content for i, token in tokenizer.added_tokens_decoder.items() if token.special}
        self._special = {*special, *tokenizer.all_special_ids}
        self._marks = {i for i, content in special.items() if self.reasoning.is_mark(content)}
        self._harmony = {i for i in self._marks if special[i] in HARMONY}
        self._channel = {i for i in self._harmony if special[i] == HARMONY[0]}

    def from_tokens(
        self,
        token_ids: Sequence[int],
        log_probs: Sequence[float],
        prompt: str | Sequence[int],
        end_ids: Collection[int | str | None],
        finish_reason: str | None = None,
        usage: tuple[int, int] | None = None,
    ) -> Utterance:
        """The utterance of tokens that were sampled after a prompt: up to the first end token, or the token that completes a stop text.

        Args:
            token_ids: The tokens; what follows the first end token is padding.
            log_probs: Their log-probabilities in nats; empty if the engine returns none.
            prompt: The prompt as text or tokens, with `response_prefix`.
            end_ids: Tokens that end a turn.
            finish_reason: Why the engine stopped; None for `STOP` behind an end token and `LENGTH` elsewhere.
            usage: Tokens that the model read and generated; None to count them if the prompt is tokens.
        """
        length = next((i + 1 for i, token in enumerate(token_ids) if token in end_ids), len(token_ids))
        own = list(token_ids[: self.stop_length(token_ids[:length]) or length])
        is_token, is_text = bool(own) and own[-1] in end_ids, isinstance(prompt, str)
        has_ended, length = is_token or bool(self.stop_length(own)), len(own)
        return self.from_text(
            self.text_of(own[:-1] if is_token else own),
            prompt if isinstance(prompt, str) else self.prompt_end(prompt),
            finish_reason or (STOP if has_ended else LENGTH),
            token_ids=own,
            log_probs=log_probs[:length],
            usage=usage or (None if is_text else (len(prompt), length)),
        )

    def from_text(
        self,
        text: str,
        prompt: str,
        finish_reason: str = STOP,
        thought: str = "",
        token_ids: Sequence[int] = (),
        log_probs: Sequence[float] = (),
        usage: tuple[int, int] | None = None,
    ) -> Utterance:
        """The utterance of a text that was generated after a prompt.

        Args:
            text: The text, with its marks and without `response_prefix`.
            prompt: The prompt, or its end, with `response_prefix`; "" if it is not known.
            finish_reason: Why the engine stopped.
            thought: Thought that the engine returned beside the text.
            token_ids: See `Utterance`.
            log_probs: See `Utterance`.
            usage: See `Utterance`.
        """
        for stop in self.stop_texts:
            text = text.partition(stop)[0]
        opened = "" if thought else self.reasoning.opened_by(prompt.removesuffix(self.response_prefix))
        reply = self.reasoning.split(self.response_prefix + text, opened)
        return Utterance(
            reply.speech, list(token_ids), list(log_probs), usage, thought=thought + reply.thought, finish_reason=finish_reason
        )

    def stop_length(self, token_ids: Sequence[int]) -> int:
        """Number of tokens up to the first of which the text contains a stop text; 0 if none does."""
        if not any(stop in self.text_of(token_ids) for stop in self.stop_texts):
            return 0
        return next(
            n for n in range(1, len(token_ids) + 1) if any(stop in self.text_of(token_ids[:n]) for stop in self.stop_texts)
        )

    def text_of(self, token_ids: Sequence[int]) -> str:
        """The text of tokens without special ones, except for the marks of thoughts."""
        kept = self._marks if not self._channel.isdisjoint(token_ids) else self._marks - self._harmony
        if kept.isdisjoint(token_ids):
            return str(self._tokenizer.decode(token_ids, skip_special_tokens=True))
        own = [i for i in token_ids if i in kept or i not in self._special]
        return str(self._tokenizer.decode(own, skip_special_tokens=False))

    def prompt_end(self, prompt_ids: Sequence[int]) -> str:
        """The end of a prompt as text, with all special tokens."""
        return str(self._tokenizer.decode(prompt_ids[-_TAIL - self._prefix_length :], skip_special_tokens=False))
