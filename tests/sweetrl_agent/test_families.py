"""What the table of families states, on the templates and tokenizers themselves."""

from __future__ import annotations

import jinja2
import pytest
import torch

from .families import FAMILIES, build_model, build_tokenizer

ASKED, SAID = "I need the total.", "For an empty list?"
DIALOGUE = [
    {"role": "user", "content": ASKED}, {"role": "assistant", "content": SAID}, {"role": "user", "content": " Return nothing.\n"},
    {"role": "assistant", "content": "\nI WANT TO ANSWER: x "}, {"role": "user", "content": "Round."},
]  # fmt: skip
SYSTEM = {"role": "system", "content": "Ask first."}


@pytest.fixture(params=FAMILIES.values(), ids=str)
def family(request):
    if request.param.template.read() is None:
        pytest.skip(request.param.template.missing)
    return request.param


def _text(tokenizer, messages, **given):
    return tokenizer.apply_chat_template(messages, tokenize=False, **given)


def test_the_turn_ends_as_stated(family):
    tokenizer = build_tokenizer(family)
    assert _text(tokenizer, DIALOGUE).partition(SAID)[2].strip().startswith(family.end_of_turn)


def test_system_text_stands_where_stated(family):
    tokenizer = build_tokenizer(family)
    if family.system == "none":
        with pytest.raises(jinja2.TemplateError):
            _text(tokenizer, [SYSTEM, *DIALOGUE])
        return
    text = _text(tokenizer, [SYSTEM, *DIALOGUE])
    assert text.count("Ask first.") == 1
    is_late = text.index("Ask first.") > text.index(SAID)
    is_apart = "Ask first.\n\n" + ASKED not in text and "Ask first.\n<</SYS>>\n\n" + ASKED not in text
    assert (is_late, is_apart) == {"last": (True, True), "first": (False, False)}.get(family.system, (False, True))


def test_alternation_is_demanded_as_stated(family):
    tokenizer = build_tokenizer(family)
    if family.alternates:
        with pytest.raises(jinja2.TemplateError):
            _text(tokenizer, [DIALOGUE[0], *DIALOGUE])
    else:
        _text(tokenizer, [DIALOGUE[0], *DIALOGUE])


def test_special_tokens_are_whole_and_texts_survive(family):
    tokenizer = build_tokenizer(family)
    for name in filter(
        None, (family.bos, family.eos, family.end_of_turn, family.pad, *family.ends, *family.special, *family.plain)
    ):
        assert tokenizer(name, add_special_tokens=False)["input_ids"] == [tokenizer.convert_tokens_to_ids(name)]
    ids = tokenizer("def f(x):\n    return x  # é ∑", add_special_tokens=False)["input_ids"]
    assert tokenizer.decode(ids) == "def f(x):\n    return x  # é ∑"
    assert (tokenizer("a")["input_ids"][0] == tokenizer.bos_token_id) == family.adds_bos


def test_the_model_reads_a_dialogue(family):
    tokenizer = build_tokenizer(family)
    model = build_model(family, tokenizer)
    ids = tokenizer(_text(tokenizer, DIALOGUE), add_special_tokens=False)["input_ids"]
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits
    assert torch.isfinite(logits).all() and logits.std() > 0.1
    embeddings, head = model.get_input_embeddings().weight, model.get_output_embeddings().weight
    assert (embeddings is head) == family.is_tied


@pytest.mark.parametrize("family, shipped", [(one, other) for one in FAMILIES.values() for other in one.also], ids=str)
def test_our_own_wording_renders_what_the_family_ships(family, shipped):
    if shipped.read() is None:
        pytest.skip(shipped.missing)
    ours = build_tokenizer(family)
    theirs = build_tokenizer(family)
    theirs.chat_template = shipped.read()
    for system in ([], [SYSTEM]):
        for length in range(1, len(DIALOGUE) + 1):
            for is_prompt in (False, True):
                messages = [*system, *DIALOGUE[:length]]
                assert _text(ours, messages, add_generation_prompt=is_prompt) == _text(
                    theirs, messages, add_generation_prompt=is_prompt
                )
