"""Token ids of rendered dialogues. Text of earlier turns is not tokenized again.

A dialogue of T turns is a prompt T times, and tokenizing all of it each time costs O(T^2). A tokenizer splits a text at its special tokens before anything
else, so the tokens between two special tokens do not depend on the text around them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any


class TextTokens:
    """Tokenizes texts with special tokens, with a cache of their pieces. The result equals the tokenizer's.

    Args:
        tokenizer: The tokenizer.
        sample: A rendered dialogue. If its pieces have other tokens than the whole, every text is tokenized as a whole.
        capacity: Size of the cache, in pieces; the oldest piece leaves it first.
    """

    def __init__(self, tokenizer: Any, sample: str, capacity: int = 1 << 14) -> None:
        self.tokenizer, self.capacity = tokenizer, capacity
        self._known: dict[str, list[int]] = {}
        special = [token.content for token in tokenizer.added_tokens_decoder.values() if token.special and _is_plain(token)]
        parts = map(re.escape, sorted(filter(None, special), key=len, reverse=True))
        self._special = re.compile("|".join(parts)) if special else None
        if self._special and self([sample])[0] != list(tokenizer(sample, add_special_tokens=False)["input_ids"]):
            self._special = None

    def __call__(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each text."""
        pieces_of_texts = [self._pieces(text) for text in texts]
        new = [
            piece
            for piece in dict.fromkeys(piece for pieces in pieces_of_texts for piece in pieces)
            if piece not in self._known
        ]
        if new:
            self._known.update(zip(new, self.tokenizer(new, add_special_tokens=False)["input_ids"], strict=True))
        token_ids = [[token for piece in pieces for token in self._known[piece]] for pieces in pieces_of_texts]
        for piece in list(self._known)[: max(len(self._known) - self.capacity, 0)]:
            del self._known[piece]
        return token_ids

    def _pieces(self, text: str) -> list[str]:
        """The text, cut in front of every special token."""
        starts = [0, *(match.start() for match in self._special.finditer(text) if match.start())] if self._special else [0]
        return [text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=True) if start < end]


def _is_plain(token: Any) -> bool:
    """Whether a token matches anywhere in a text, and matches no characters around it."""
    return not (token.lstrip or token.rstrip or token.single_word or token.normalized)
