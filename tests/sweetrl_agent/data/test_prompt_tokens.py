"""Prompts of growing dialogues: the same tokens as without a memory, and few of them tokenized again."""

from __future__ import annotations

import copy
import random

from sweetrl_agent.data.chat import encode_prompt
from sweetrl_agent.data.prompt_tokens import PromptTokens

PARTS = ["total", " of", "my ", "\n", "é", "✓🙂", "", "return", "  ", "?", "0.5", "<|", "\t", "I WANT TO ANSWER:\n"]


def _growing(rng, turns):
    """The prompts of a dialogue."""
    messages = [{"role": "system", "content": "Ask."}] if rng.random() < 0.5 else []
    for _ in range(turns):
        messages.append({"role": "user", "content": "".join(rng.choices(PARTS, k=rng.randint(0, 6)))})
        yield list(messages)
        messages.append({"role": "assistant", "content": "".join(rng.choices(PARTS, k=rng.randint(0, 6)))})


class Counting:
    """A tokenizer that counts the characters that it is given."""

    def __init__(self, tokenizer):
        self.tokenizer, self.characters = tokenizer, 0

    def __getattr__(self, name):
        return getattr(self.tokenizer, name)

    def __call__(self, text, **arguments):
        self.characters += len(text)
        return self.tokenizer(text, **arguments)


def test_tokens_are_those_without_a_memory(tiny_tokenizer):
    rng = random.Random(0)
    dialogues = [list(_growing(rng, rng.randint(1, 8))) for _ in range(30)]
    for capacity in (1024, 5):
        prompts = PromptTokens(tiny_tokenizer, capacity)
        for turn in range(8):  # dialogues side by side, as they are played
            for prompt in (own[turn] for own in dialogues if turn < len(own)):
                assert prompts.encode(prompt) == encode_prompt(prompt, tiny_tokenizer)
        assert len(prompts._known) <= capacity


def test_a_turn_is_tokenized_once(tiny_tokenizer):
    counting = Counting(tiny_tokenizer)
    prompts = PromptTokens(counting)
    dialogue = list(_growing(random.Random(1), 40))
    for prompt in dialogue:
        prompts.encode(prompt)
    assert counting.characters < 3 * len(tiny_tokenizer.apply_chat_template(dialogue[-1], tokenize=False))


def test_a_remembered_prompt_is_not_changed_by_its_reader(tiny_tokenizer):
    prompts = PromptTokens(tiny_tokenizer)
    dialogue = list(_growing(random.Random(2), 2))
    prompts.encode(dialogue[0]).append(99)
    assert prompts.encode(dialogue[1]) == encode_prompt(dialogue[1], tiny_tokenizer)


def test_an_end_token_that_takes_white_space_along_is_not_cut_at(tiny_tokenizer, tmp_path):
    other = copy.deepcopy(tiny_tokenizer)
    other.add_special_tokens({"eos_token": type(other.added_tokens_decoder[other.eos_token_id])("<|stop|>", lstrip=True)})
    prompts = PromptTokens(other)
    assert prompts._end == "" and PromptTokens(tiny_tokenizer)._end == tiny_tokenizer.eos_token
    prompt = list(_growing(random.Random(3), 3))[-1]
    assert prompts.encode(prompt) == encode_prompt(prompt, other)
