"""From dialogues to tokens: spans of agent turns, and what cannot be told apart."""

from __future__ import annotations

import copy
import random
import re

import pytest

from sweetrl_agent.core.messages import HINT, hint_message, system_message
from sweetrl_agent.data.chat import encode_as_sampled, encode_dialogue, encode_dialogues, encode_prompt, encode_turns

DIALOGUE = [
    {"role": "user", "content": "I need the total of my prices."},
    {"role": "assistant", "content": "Round the total?"},
    {"role": "user", "content": "To two decimals."},
    {"role": "assistant", "content": "I WANT TO ANSWER:\ndef total(prices): ..."},
]


def _turn_text(encoded, turn, tokenizer):
    return tokenizer.decode([token for token, t in zip(encoded.token_ids, encoded.turn_ids, strict=True) if t == turn])


def test_agent_turns_are_numbered_and_hold_their_text_and_end(tiny_tokenizer):
    encoded = encode_dialogue(DIALOGUE, tiny_tokenizer)
    assert len(encoded.token_ids) == len(encoded.turn_ids)
    assert set(encoded.turn_ids) == {0, 1, 2}
    assert _turn_text(encoded, 1, tiny_tokenizer) == DIALOGUE[1]["content"] + "<|end|>"
    assert _turn_text(encoded, 2, tiny_tokenizer) == DIALOGUE[3]["content"] + "<|end|>"
    others = _turn_text(encoded, 0, tiny_tokenizer)
    assert others == (
        f"<|user|>{DIALOGUE[0]['content']}<|end|><|assistant|><|user|>{DIALOGUE[2]['content']}<|end|><|assistant|>"
    )


def test_the_prompt_is_what_stands_before_the_turn(tiny_tokenizer):
    encoded = encode_dialogue(DIALOGUE, tiny_tokenizer)
    prompt = encode_prompt(DIALOGUE[:3], tiny_tokenizer)
    assert encoded.token_ids[: len(prompt)] == prompt
    assert encoded.turn_ids.index(2) == len(prompt)


def test_a_turn_behind_its_prompt_is_the_same_as_in_the_dialogue(tiny_tokenizer):
    encoded, prompt = encode_dialogue(DIALOGUE, tiny_tokenizer), encode_prompt(DIALOGUE[:3], tiny_tokenizer)
    answer, other = encode_turns(DIALOGUE[:3], prompt, [DIALOGUE[3]["content"], "Yes."], tiny_tokenizer)
    assert prompt + answer == encoded.token_ids
    assert tiny_tokenizer.decode(other) == "Yes.<|end|>"
    with pytest.raises(ValueError, match="^The chat template renders agent turn 2 differently inside the whole dialogue"):
        encode_turns(DIALOGUE[:3], [*prompt[:-1], 0], ["Yes."], tiny_tokenizer)


def test_a_system_message_is_never_scored(tiny_tokenizer):
    plain = encode_dialogue(DIALOGUE, tiny_tokenizer)
    told = encode_dialogue([*hint_message("def total(prices): return 1"), *DIALOGUE], tiny_tokenizer)
    shift = len(told.token_ids) - len(plain.token_ids)
    assert told.token_ids[shift:] == plain.token_ids
    assert told.turn_ids == [0] * shift + plain.turn_ids


def test_hint_and_system_message():
    assert hint_message("") == [] == system_message("")
    for hidden in ("def f(x): ...", "<h1>x</h1>", "the word", "...def initely not Oslo", "<b>start</b> of maze"):
        assert hint_message(hidden) == [{"role": "system", "content": HINT.format(what="answer", hidden=hidden)}]
        assert hint_message(hidden, noun="city") == [{"role": "system", "content": HINT.format(what="city", hidden=hidden)}]


@pytest.mark.parametrize("messages", [[], DIALOGUE[:1]])
def test_a_dialogue_without_agent_turn_is_refused(messages, tiny_tokenizer):
    with pytest.raises(ValueError, match=r"^Expected a dialogue with at least one agent turn, got none\.$"):
        encode_dialogue(messages, tiny_tokenizer)


def test_a_template_that_drops_earlier_turns_is_refused(tiny_tokenizer):
    tokenizer = copy.deepcopy(tiny_tokenizer)
    tokenizer.chat_template = (
        "{% for message in messages %}<|{{ message['role'] }}|>"
        "{% if message['role'] == 'user' or loop.last %}{{ message['content'] }}{% endif %}<|end|>{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )
    message = (
        "The chat template renders agent turn 1 differently inside the whole dialogue, so its tokens cannot be identified; use a "
        "template that keeps every turn unchanged (for a reasoning model, its non-reasoning template)."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        encode_dialogue(DIALOGUE, tokenizer)
    assert encode_dialogue(DIALOGUE[:2], tokenizer).turn_ids.count(1) > 1


def test_turns_as_sampled_stand_where_the_rendered_ones_would(tiny_tokenizer):
    rendered = encode_dialogue(DIALOGUE, tiny_tokenizer)
    end = tiny_tokenizer.eos_token_id
    turns = [[i for i, own in zip(rendered.token_ids, rendered.turn_ids, strict=True) if own == turn] for turn in (1, 2)]
    turns = [turn[: turn.index(end) + 1] for turn in turns]
    found = encode_as_sampled(DIALOGUE, turns, tiny_tokenizer)
    assert found.token_ids == rendered.token_ids
    assert [[i for i, own in zip(found.token_ids, found.turn_ids, strict=True) if own == turn] for turn in (1, 2)] == turns
    others = [[5, 6, 7, end], [8]]  # the same words in other tokens; the second was cut before its end
    found = encode_as_sampled(DIALOGUE, others, tiny_tokenizer)
    assert [[i for i, own in zip(found.token_ids, found.turn_ids, strict=True) if own == turn] for turn in (1, 2)] == others
    between = [i for i, own in zip(rendered.token_ids, rendered.turn_ids, strict=True) if not own]
    kept = [i for i, own in zip(found.token_ids, found.turn_ids, strict=True) if not own]
    assert [i for i in kept if i != end] == [i for i in between if i != end] and kept.count(end) == between.count(end) + 1


def _by_prefixes(messages, tokenizer):
    """A slow way: a turn's tokens are those that it adds to the tokens of the dialogue before it."""
    whole = tokenizer.apply_chat_template(messages, tokenize=True, return_dict=True)["input_ids"]
    turn_ids, turn = [0] * len(whole), 0
    for i, message in enumerate(messages):
        if message["role"] == "assistant":
            turn += 1
            start, end = (
                tokenizer.apply_chat_template(part, tokenize=True, return_dict=True, add_generation_prompt=is_prompt)[
                    "input_ids"
                ]
                if part
                else []
                for part, is_prompt in ((messages[:i], True), (messages[: i + 1], False))
            )
            assert whole[: len(start)] == start and whole[: len(end)] == end
            turn_ids[len(start) : len(end)] = [turn] * (len(end) - len(start))
    return whole, turn_ids


def test_turns_are_those_of_the_slow_way(tiny_tokenizer):
    rng = random.Random(0)
    parts = ["total", " of", "my ", "\n", "é", "✓🙂", "", "return", "  ", "?", "0.5", "<|", "\t", "I WANT TO ANSWER:\n"]
    dialogues = [
        [
            {"role": role, "content": "".join(rng.choices(parts, k=rng.randint(0, 6)))}
            for role in (
                *(["system"] if rng.random() < 0.3 else []),
                *["user", "assistant"] * rng.randint(1, 5),
                *(["user"] * (i % 2)),
            )
        ]
        for i in range(60)
    ]
    for messages, encoded in zip(dialogues, encode_dialogues(dialogues, tiny_tokenizer), strict=True):
        assert (encoded.token_ids, encoded.turn_ids) == _by_prefixes(messages, tiny_tokenizer)


def test_a_header_that_shares_a_token_with_the_turn_is_refused(tiny_tokenizer):
    blank = copy.deepcopy(tiny_tokenizer)
    blank.chat_template = (
        "{% for m in messages %}{{ m['role'] + ': ' + m['content'] + eos_token }}{% endfor %}"
        "{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}"
    )
    words = ["return", "the", "two", "of", "my", "total", "prices"]
    dialogues = [[{"role": "user", "content": "Total?"}, {"role": "assistant", "content": word}] for word in words]
    shares = [messages for messages in dialogues if not _has_tokens_of_its_own(messages, blank)]
    assert shares and len(shares) < len(words)
    for messages in dialogues:
        if messages in shares:
            with pytest.raises(ValueError, match="renders agent turn 1 differently"):
                encode_dialogue(messages, blank)
        else:
            encoded = encode_dialogue(messages, blank)
            assert (encoded.token_ids, encoded.turn_ids) == _by_prefixes(messages, blank)


def _has_tokens_of_its_own(messages, tokenizer):
    try:
        return bool(_by_prefixes(messages, tokenizer))
    except AssertionError:
        return False
