"""From dialogues to tokens: turns behind their prompts, as few sequences as possible, and what a template decides."""

from __future__ import annotations

import copy
import random
from types import SimpleNamespace

import pytest

from sweetrl_agent.core.hint import HINT, hint_message
from sweetrl_agent.core.messages import system_message
from sweetrl_agent.data.chat import Chat, numbered_actions

from ..families import FAMILIES, PIECES, build_tokenizer

DIALOGUE = [
    {"role": "user", "content": "I need the total of my prices."},
    {"role": "assistant", "content": "Round the total?"},
    {"role": "user", "content": "To two decimals."},
    {"role": "assistant", "content": "I WANT TO ANSWER:\ndef total(prices): ..."},
]


@pytest.fixture
def chat(tiny_tokenizer):
    return Chat(tiny_tokenizer)


def _with(tokenizer, template, **special):
    other = copy.deepcopy(tokenizer)
    other.chat_template = template
    for name, value in special.items():
        setattr(other, name, value)
    return other


def _turn_text(encoded, turn, tokenizer):
    return tokenizer.decode([token for token, t in zip(encoded.token_ids, encoded.turn_ids, strict=True) if t == turn])


def test_agent_turns_are_numbered_and_hold_their_text_and_end(chat, tiny_tokenizer):
    (encoded,) = chat.sequences(DIALOGUE)
    assert len(encoded.token_ids) == len(encoded.turn_ids)
    assert set(encoded.turn_ids) == {0, 1, 2} and encoded.num_turns == 2
    assert [tiny_tokenizer.decode(turn) for turn in encoded.turns] == [DIALOGUE[i]["content"] + "<|end|>" for i in (1, 3)]
    others = _turn_text(encoded, 0, tiny_tokenizer)
    assert others == (
        f"<|user|>{DIALOGUE[0]['content']}<|end|><|assistant|><|user|>{DIALOGUE[2]['content']}<|end|><|assistant|>"
    )


def test_the_token_behind_a_turn_that_was_cut_is_none_of_its_own(chat, tiny_tokenizer):
    (whole,), (cut,) = chat.sequences(DIALOGUE), chat.sequences([DIALOGUE[0], {**DIALOGUE[1], "cut": True}, *DIALOGUE[2:]])
    assert cut.token_ids == whole.token_ids and cut.turns == [whole.turns[0][:-1], whole.turns[1]]
    assert tiny_tokenizer.decode(cut.turns[0]) == DIALOGUE[1]["content"]
    sampled = [[5, 6], [7, whole.turns[1][-1]]]
    parts = chat.sequences([*DIALOGUE[:3], {**DIALOGUE[3], "cut": True}], sampled)
    assert [turn for part in parts for turn in part.turns] == sampled, "what was sampled is the agent's"
    (empty,) = chat.sequences([DIALOGUE[0], {"role": "assistant", "content": "", "cut": True}])  # a turn has a token
    assert empty.num_turns == 1


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_a_turn_that_was_cut_has_no_end_in_any_template(family):
    chat = Chat(build_tokenizer(family))
    dialogue = [DIALOGUE[0], {**DIALOGUE[1], "cut": True}, *DIALOGUE[2:]]
    for whole, cut in zip(chat.sequences(DIALOGUE), chat.sequences(dialogue), strict=True):
        assert whole.token_ids == cut.token_ids and whole.num_turns == cut.num_turns
    (first, *_), (short, *_) = ([turn for part in chat.sequences(of) for turn in part.turns] for of in (DIALOGUE, dialogue))
    assert short == (first[:-1] if first[-1] in chat.end_ids() else first)
    assert first[-1] in chat.end_ids() or chat.stop_texts


def test_a_turn_stands_behind_its_prompt(chat):
    (encoded,) = chat.sequences(DIALOGUE)
    prompt = chat.prompt(DIALOGUE[:3])
    answer, other = chat.turns(DIALOGUE[:3], [DIALOGUE[3]["content"], "Yes."])
    assert prompt + answer == encoded.token_ids
    assert chat.tokenizer.decode(other) == "Yes.<|end|>" and chat.turn(DIALOGUE[:3], "Yes.") == other
    assert [part.turns for part in chat.sequences(DIALOGUE, history=0)] == [[turn] for turn in encoded.turns]


def test_a_system_message_is_never_scored(chat):
    (plain,), (told,) = chat.all_sequences([DIALOGUE, [*hint_message("def total(prices): return 1"), *DIALOGUE]])
    shift = len(told.token_ids) - len(plain.token_ids)
    assert told.token_ids[shift:] == plain.token_ids
    assert told.turn_ids == [0] * shift + plain.turn_ids


def test_hint_and_system_message():
    assert hint_message("") == [] == system_message("")
    for hidden in ("def f(x): ...", "<h1>x</h1>", "the word", "...def initely not Oslo", "<b>start</b> of maze"):
        assert hint_message(hidden) == [{"role": "system", "content": HINT.format(what="answer", hidden=hidden)}]
        assert hint_message(hidden, noun="city") == [{"role": "system", "content": HINT.format(what="city", hidden=hidden)}]


@pytest.mark.parametrize("messages", [[], DIALOGUE[:1]])
def test_a_dialogue_without_agent_turn_is_refused(messages, chat):
    with pytest.raises(ValueError, match=r"^Expected a dialogue with at least one agent turn, got none\.$"):
        chat.sequences(messages)


def test_a_template_that_drops_earlier_turns_has_a_sequence_for_each(tiny_tokenizer):
    template = (
        "{% for message in messages %}<|{{ message['role'] }}|>"
        "{% if message['role'] == 'user' or loop.last %}{{ message['content'] }}{% endif %}<|end|>{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )
    chat = Chat(_with(tiny_tokenizer, template))
    parts = chat.sequences(DIALOGUE)
    assert not chat.is_append_only and len(parts) == 2
    assert [tiny_tokenizer.decode(part.turns[0]) for part in parts] == [DIALOGUE[i]["content"] + "<|end|>" for i in (1, 3)]
    assert "Round" not in tiny_tokenizer.decode(parts[1].token_ids)
    assert numbered_actions(parts) == [1] * len(parts[0].turns[0]) + [2] * len(parts[1].turns[0])


def test_sampled_tokens_are_kept_and_a_sequence_ends_where_the_text_has_others(chat, tiny_tokenizer):
    (rendered,) = chat.sequences(DIALOGUE)
    first, second = rendered.turns
    assert chat.sequences(DIALOGUE, [first, second]) == [rendered]
    cut = chat.sequences(DIALOGUE, [first[:-1], second])  # cut by the limit of tokens: its end token is context
    assert [part.token_ids for part in cut] == [rendered.token_ids]
    assert cut[0].turns == [first[:-1], second]
    letters = [token for letter in "Round the total?" for token in tiny_tokenizer(letter)["input_ids"]] + first[-1:]
    parts = chat.sequences(DIALOGUE, [letters, second])
    assert [part.turns for part in parts] == [[letters], [second]]
    assert parts[0].token_ids == chat.prompt(DIALOGUE[:1]) + letters
    assert parts[1].token_ids == chat.prompt(DIALOGUE[:3]) + second


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


def test_turns_are_those_of_the_slow_way(chat, tiny_tokenizer):
    rng = random.Random(0)
    parts = [*PIECES, "", "\t", "<|end|>"]
    dialogues = [
        [
            {"role": role, "content": "".join(rng.choices(parts, k=rng.randint(0, 6)))}
            for role in (*(["system"] if rng.random() < 0.3 else []), *["user", "assistant"] * rng.randint(1, 5))
        ]
        for _ in range(60)
    ]
    for messages, (encoded,) in zip(dialogues, chat.all_sequences(dialogues), strict=True):
        assert (encoded.token_ids, encoded.turn_ids) == _by_prefixes(messages, tiny_tokenizer)


def test_a_header_that_shares_a_token_with_the_turn_is_a_context_of_its_own(tiny_tokenizer):
    blank = _with(
        tiny_tokenizer,
        "{% for m in messages %}{{ m['role'] + ': ' + m['content'] + eos_token }}{% endfor %}"
        "{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}",
    )
    chat = Chat(blank)
    for word in ("return", "the", "two", "of", "my", "total", "prices"):
        messages = [{"role": "user", "content": "Total?"}, {"role": "assistant", "content": word}]
        (part,) = chat.sequences(messages)
        prompt = blank.apply_chat_template(messages[:1], tokenize=True, return_dict=True, add_generation_prompt=True)[
            "input_ids"
        ]
        assert part.token_ids[: len(prompt)] == prompt
        assert blank.decode(part.turns[0]) == f"{word}<|end|>"


SIMPLE = "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}%END{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"


@pytest.mark.parametrize(
    "template, end, stop_text",
    [
        (SIMPLE.replace("%END", "<|end|>\n"), "<|end|>", ""),
        (SIMPLE.replace("%END", "\n"), "<|user|>", ""),  # as GLM-4: the other side's header
        (SIMPLE.replace("%END", " {{ eos_token }}"), "<|end|>", ""),  # as Llama 2
        ("{% for m in messages %}{{ m['role'].upper() }}: {{ m['content'] }}\n{% endfor %}ASSISTANT:", "<|end|>", "\nUSER:"),
        ("{% for m in messages %}[{{ m['role'] }}] {{ m['content'] }}</s>{% endfor %}[assistant]", "<|end|>", "</s>[user]"),
    ],
)  # fmt: skip
def test_what_ends_a_turn_is_found_in_the_template(template, end, stop_text, tiny_tokenizer):
    chat = Chat(_with(tiny_tokenizer, template))
    assert (chat.template.end, chat.stop_texts) == (end, [stop_text] if stop_text else [])
    for text in ("Yes.", " a fee \n", ""):
        turn = chat.turn(DIALOGUE[:1], text)
        assert tiny_tokenizer.decode(turn).strip().startswith(text.strip())
        assert tiny_tokenizer.decode(turn[-1:]) == end and turn.count(turn[-1]) == 1


def test_a_base_model_stops_at_the_end_of_a_turn():
    family = FAMILIES["chatml-base"]
    chat = Chat(build_tokenizer(family))
    names = chat.tokenizer.convert_ids_to_tokens(chat.end_ids(SimpleNamespace(eos_token_id=None)))
    assert names == ["<|endoftext|>", "<|im_end|>"]


def test_the_same_side_speaking_twice_is_merged_only_where_it_must(tiny_tokenizer, chat):
    twice = [{"role": "user", "content": "One."}, {"role": "user", "content": "Two."}]
    assert chat.template.render(twice) == "<|user|>One.<|end|><|user|>Two.<|end|><|assistant|>"
    strict = "{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('no') }}{% endif %}{% endfor %}"
    other = Chat(_with(tiny_tokenizer, strict + tiny_tokenizer.chat_template))
    assert other.template.render(twice) == "<|user|>One.\n\nTwo.<|end|><|assistant|>"
    led = [{"role": "system", "content": "Ask."}, *twice]
    assert other.template.render(led) == "<|user|>Ask.\n\nOne.\n\nTwo.<|end|><|assistant|>"


def test_instructions_that_a_template_drops_go_to_the_first_user(tiny_tokenizer):
    silent = "{% for m in messages if m['role'] != 'system' %}<|{{ m['role'] }}|>{{ m['content'] }}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
    chat = Chat(_with(tiny_tokenizer, silent))
    led = [{"role": "system", "content": "Ask."}, *DIALOGUE[:3]]
    assert chat.template.render(led).startswith(f"<|user|>Ask.\n\n{DIALOGUE[0]['content']}<|end|><|assistant|>")
    assert chat.describe() == (
        "instructions in the first user message; turns end at <|end|>; a dialogue is one sequence in training"
    )


OPENS = "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'].split('</think>')[-1] }}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|><think>\n{% endif %}"
SWITCH = OPENS.replace(
    "<think>\n", "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% endif %}"
)


@pytest.mark.parametrize(
    ("template", "reasoning", "said"),
    [
        (OPENS, "auto", "the prompt opens a thought, which ends at </think>: it is no part of the message, and counts for `--max_new_tokens`"),
        (OPENS, "none", "the prompt opens a thought up to </think>, which `--reasoning` 'none' takes for part of the message"),
        (OPENS, "<plan> </plan>", "the prompt opens a thought up to </think>, which `--reasoning` '<plan> </plan>' takes for part of the message"),
        (SWITCH, "auto", "what stands between <think> and </think> is thought: it is no part of the message, and counts for `--max_new_tokens`"),
        (SWITCH, "none", "thoughts are switched off"),
        (SWITCH.replace("enable_thinking", "other"), "none", "thoughts between <think> and </think> are part of the message"),
        ("", "<plan> </plan>", "what stands between <plan> and </plan> is thought: it is no part of the message, and counts for `--max_new_tokens`"),
        ("", "auto", ""),
        ("", "none", ""),
    ],
)  # fmt: skip
def test_the_description_says_what_is_done_with_thoughts(tiny_tokenizer, template, reasoning, said):
    chat = Chat(_with(tiny_tokenizer, template or tiny_tokenizer.chat_template), reasoning)
    assert chat.template.describe_thoughts() == said
    assert f"; {said}; " in chat.describe() if said else "thought" not in chat.describe()


def test_prompts_do_not_name_the_day_of_the_run(tiny_tokenizer):
    dated = "{{ strftime_now('%Y-%m-%d') }}{% set d = strftime_now( \"%d %b %Y\" ) %}{{ d }}" + tiny_tokenizer.chat_template
    assert Chat(_with(tiny_tokenizer, dated)).template.render(DIALOGUE[:1]).startswith("2024-07-2626 Jul 2024<|user|>")


def test_a_tokenizer_without_a_template_is_refused(tiny_tokenizer):
    with pytest.raises(ValueError, match="^The tokenizer has no chat template; use an instruction-tuned model, or set"):
        Chat(_with(tiny_tokenizer, None))


@pytest.mark.parametrize(
    "opens, thought, expected",
    [
        (False, "", "Yes.<|end|>"),
        (False, "<think>\nA fee?\n</think>\n\n", "<think>\nA fee?\n</think>\n\nYes.<|end|>"),
        (True, "", "\n</think>\n\nYes.<|end|>"),
        (True, "A fee?\n</think>\n\n", "A fee?\n</think>\n\nYes.<|end|>"),
        (True, "<think>A fee?\n</think>\n\n", "A fee?\n</think>\n\nYes.<|end|>"),
    ],
)
def test_a_thought_stands_before_what_is_said(opens, thought, expected, tiny_tokenizer):
    template = tiny_tokenizer.chat_template.replace(
        "<|assistant|>{% endif", "<|assistant|><think>\n{% endif" if opens else "<|assistant|>{% endif"
    )
    chat = Chat(_with(tiny_tokenizer, template))
    assert tiny_tokenizer.decode(chat.turn(DIALOGUE[:1], "Yes.", thought)) == expected
    assert tiny_tokenizer.decode(chat.prefix("Yes.")) == ("\n</think>\n\nYes." if opens else "Yes.")
    assert chat.prefix("") == []


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_no_template_loses_one_of_two_system_messages(family):
    tokenizer = build_tokenizer(family)
    if tokenizer is None:
        pytest.skip("its template is in no installed package")
    messages = [*({"role": "system", "content": text} for text in ("First.", "Second.")), DIALOGUE[0]]
    text = Chat(tokenizer).template.render(messages)
    assert 0 <= text.find("First.") < text.find("Second.") < text.find(DIALOGUE[0]["content"])


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_a_thought_that_a_server_gave_apart_is_trained_as_a_thought_or_not_at_all(family):
    tokenizer = build_tokenizer(family)
    if tokenizer is None:
        pytest.skip("its template is in no installed package")
    chat = Chat(tokenizer)
    said = {"role": "assistant", "content": "Is there a fee?", "thought": "The person wants a total."}
    text = tokenizer.decode(chat.turn([DIALOGUE[0]], said["content"], said["thought"]))
    reasoning = chat.template.reasoning
    reply = reasoning.split(text, reasoning.opened_by(chat.template.render([DIALOGUE[0]])))
    assert reply.speech.startswith("Is there a fee?") and not reply.is_unfinished
    knows = "<|channel|>" in tokenizer.chat_template or "</think>" in tokenizer.chat_template
    assert ("The person wants a total." in reply.thought) == ("The person wants a total." in text) == knows
    if "</think>" not in tokenizer.chat_template:
        return
    marked = "<think>\nThe person wants a total.\n</think>\n\n"
    assert chat.turn([DIALOGUE[0]], said["content"], marked) == chat.turn([DIALOGUE[0]], said["content"], said["thought"])
