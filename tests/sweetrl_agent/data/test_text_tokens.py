"""Tokens of growing texts: the same as without a memory, and little of them tokenized again."""

from __future__ import annotations

import copy
import random

from transformers import AddedToken

from sweetrl_agent.data.text_tokens import TextTokens

from ..families import PIECES

PARTS = [*PIECES, "", "<|end|>", "<|user|>"]
SAMPLE = "<|user|>Is there a fee?<|end|><|assistant|>Yes.<|end|>"


def _growing(rng, turns):
    """The prompts of a dialogue, as text."""
    text = ""
    for _ in range(turns):
        text += "".join(["<|user|>", *rng.choices(PARTS, k=rng.randint(0, 6)), "<|end|><|assistant|>"])
        yield text
        text += "".join([*rng.choices(PARTS, k=rng.randint(0, 6)), "<|end|>"])


class Counting:
    """A tokenizer that counts the characters that it is given."""

    def __init__(self, tokenizer):
        self.tokenizer, self.characters = tokenizer, 0

    def __getattr__(self, name):
        return getattr(self.tokenizer, name)

    def __call__(self, texts, **arguments):
        self.characters += sum(map(len, texts))
        return self.tokenizer(texts, **arguments)


def _plain(text, tokenizer):
    return tokenizer(text, add_special_tokens=False)["input_ids"]


def test_tokens_are_those_without_a_memory(tiny_tokenizer):
    rng = random.Random(0)
    dialogues = [list(_growing(rng, rng.randint(1, 8))) for _ in range(30)]
    for capacity in (1024, 5):
        tokens = TextTokens(tiny_tokenizer, SAMPLE, capacity)
        for turn in range(8):  # dialogues side by side, as they are played
            texts = [own[turn] for own in dialogues if turn < len(own)]
            assert tokens(texts) == [_plain(text, tiny_tokenizer) for text in texts]
        assert len(tokens._known) <= capacity


def test_a_turn_is_tokenized_once(tiny_tokenizer):
    counting = Counting(tiny_tokenizer)
    tokens = TextTokens(counting, SAMPLE[:7])
    dialogue = list(_growing(random.Random(1), 40))
    for text in dialogue:
        tokens([text])
    assert counting.characters < 2 * len(dialogue[-1])


def test_remembered_tokens_are_not_changed_by_their_reader(tiny_tokenizer):
    tokens = TextTokens(tiny_tokenizer, SAMPLE)
    tokens([SAMPLE])[0].append(99)
    assert tokens([SAMPLE]) == [_plain(SAMPLE, tiny_tokenizer)]


def test_a_text_is_not_cut_at_a_token_that_takes_white_space_along(tiny_tokenizer):
    other = copy.deepcopy(tiny_tokenizer)
    other.add_special_tokens({"eos_token": AddedToken("<|stop|>", lstrip=True)})
    text = "<|user|>Yes. \n <|stop|><|end|>"
    assert TextTokens(other, SAMPLE)._pieces(text) == ["<|user|>Yes. \n <|stop|>", "<|end|>"]
    assert TextTokens(other, SAMPLE)([text]) == [_plain(text, other)]
