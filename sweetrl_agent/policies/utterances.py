"""How a model speaks as the agent on every engine: the prompts of its dialogues, and the utterances of its tokens or texts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from colbench_gym.reasoning import AUTO, HARMONY, Reasoning
from sweetrl_agent.core.episode import LENGTH, STOP, Messages
from sweetrl_agent.core.messages import as_read, system_message
from sweetrl_agent.core.policy import Utterance
from sweetrl_agent.data.chat import Chat

#: Tokens at the end of a prompt in which the opening mark of a thought is looked for.
_TAIL = 16


class Utterances:
    """Makes the utterances of one model.

    Args:
        tokenizer: Its tokenizer.
        reasoning: The setting `reasoning`, see `colbench_gym.reasoning.Reasoning`.
        response_prefix: Text that ends every prompt and starts every message.
        stop_texts: Texts that end a turn, as tokens do: `Chat.stop_texts`.
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
        kept_ids = list(token_ids[: self.stop_length(token_ids[:length]) or length])
        has_end_token, is_text = bool(kept_ids) and kept_ids[-1] in end_ids, isinstance(prompt, str)
        has_ended, length = has_end_token or bool(self.stop_length(kept_ids)), len(kept_ids)
        return self.from_text(
            self.text_of(kept_ids[:-1] if has_end_token else kept_ids),
            prompt if isinstance(prompt, str) else self.prompt_end(prompt),
            finish_reason or (STOP if has_ended else LENGTH),
            token_ids=kept_ids,
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
            thought: Thought that the engine returned apart from the text.
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
        """Number of tokens up to the end of the first stop text; 0 if there is none."""
        if not any(stop in self.text_of(token_ids) for stop in self.stop_texts):
            return 0
        return next(
            n for n in range(1, len(token_ids) + 1) if any(stop in self.text_of(token_ids[:n]) for stop in self.stop_texts)
        )

    def text_of(self, token_ids: Sequence[int]) -> str:
        """The text of tokens without special ones, except for the marks of thoughts."""
        kept_marks = self._marks if not self._channel.isdisjoint(token_ids) else self._marks - self._harmony
        if kept_marks.isdisjoint(token_ids):
            return str(self._tokenizer.decode(token_ids, skip_special_tokens=True))
        kept_ids = [i for i in token_ids if i in kept_marks or i not in self._special]
        return str(self._tokenizer.decode(kept_ids, skip_special_tokens=False))

    def prompt_end(self, prompt_ids: Sequence[int]) -> str:
        """The end of a prompt as text, with all special tokens."""
        return str(self._tokenizer.decode(prompt_ids[-_TAIL - self._prefix_length :], skip_special_tokens=False))


@dataclass
class Speaker:
    """How a model speaks as the agent: what it reads, how it is sampled, and what its tokens say. Every engine's policy has one.

    Attributes:
        tokenizer: Its tokenizer, with a chat template.
        max_new_tokens: Maximum number of tokens of an utterance; 1024 in the paper.
        temperature: Sampling temperature; 1.0 in the paper.
        system_prompt: Instructions before every dialogue; "" for none.
        response_prefix: Prefix that is added to the prompt and starts every utterance; "" for none.
        history: Earlier turns that the agent reads, as in `core.messages.as_read`; -1 for all.
        reasoning: How the model marks its thoughts, see `colbench_gym.reasoning.Reasoning`.
    """

    tokenizer: Any
    max_new_tokens: int
    temperature: float = 1.0
    system_prompt: str = ""
    response_prefix: str = ""
    history: int = -1
    reasoning: str = AUTO

    def __post_init__(self) -> None:
        self.chat = Chat(self.tokenizer, self.reasoning)
        self.utterances = Utterances(self.tokenizer, self.reasoning, self.response_prefix, self.chat.stop_texts)
        self._prefix_ids = self.chat.prefix(self.response_prefix)

    def read(self, dialogue: Messages) -> Messages:
        """The messages of a dialogue that the model reads."""
        return [*system_message(self.system_prompt), *as_read(dialogue, self.history)]

    def prompt(self, dialogue: Messages) -> list[int]:
        """Token ids of the prompt of the next utterance. The chat template has put the BOS token there, which text would get again."""
        return self.chat.prompt(self.read(dialogue)) + self._prefix_ids
