"""Token ids of prompts of growing dialogues: what was tokenized in an earlier turn is not tokenized again.

A dialogue of T turns is a prompt T times, and tokenizing all of it each time costs O(T^2). A tokenizer splits texts at special tokens before anything else,
so the tokens in front of the end token of a turn do not depend on what follows.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from sweetrl_agent.core.episode import Messages
from sweetrl_agent.data.chat import encode_prompt, render_prompt

#: Places where a text may go on, from its end; a user's message adds one end token and the agent's another.
_TRIED = 4


class PromptTokens:
    """`encode_prompt` with a memory; the result is the same.

    Args:
        tokenizer: Tokenizer with the chat template.
        capacity: Number of prompts that are remembered; the one that was not used for the longest time is forgotten.
    """

    def __init__(self, tokenizer: Any, capacity: int = 1024) -> None:
        self.tokenizer, self.capacity = tokenizer, capacity
        self._known: OrderedDict[str, list[int]] = OrderedDict()
        end = tokenizer.added_tokens_decoder.get(tokenizer.eos_token_id)
        is_plain = end is not None and end.special and not (end.lstrip or end.rstrip or end.single_word or end.normalized)
        self._end = end.content if is_plain else ""

    def encode(self, messages: Messages) -> list[int]:
        """Token ids of a dialogue, including the header of the agent's next turn."""
        if not self._end or not messages:
            return encode_prompt(messages, self.tokenizer)
        text = render_prompt(messages, self.tokenizer)
        start, ids = self._longest_known(text)
        cut = text.rfind(self._end, start)
        if cut > start:
            ids = ids + self._tokens(text[start:cut])
            start = cut
            self._remember(text[:cut], ids)
        return ids + self._tokens(text[start:])

    def _longest_known(self, text: str) -> tuple[int, list[int]]:
        """The length of the longest remembered beginning of a text, and its tokens."""
        place = len(text)
        for _ in range(_TRIED):
            place = text.rfind(self._end, 0, place)
            if place <= 0:
                break
            if (ids := self._known.get(text[:place])) is not None:
                self._known.move_to_end(text[:place])
                return place, ids
        return 0, []

    def _remember(self, text: str, ids: list[int]) -> None:
        self._known[text] = ids
        if len(self._known) > self.capacity:
            self._known.popitem(last=False)

    def _tokens(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])
