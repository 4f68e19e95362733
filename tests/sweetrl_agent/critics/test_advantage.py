"""The critic at work: cached scoring equals the naive forward, and both entry points agree."""

from __future__ import annotations

import re

import pytest
import torch

from sweetrl_agent.core.hint import HINT, hint_message
from sweetrl_agent.critics.advantage import AdvantageCritic, candidate_log_probs
from sweetrl_agent.data.chat import Chat

HIDDEN = "def total(prices):\n    return round(sum(prices), 2)"
PROMPT = [
    {"role": "user", "content": "I need the total of my prices."},
    {"role": "assistant", "content": "Round the total?"},
    {"role": "user", "content": "To two decimals."},
]
TEXTS = ["What of an empty list?", "ok", "I WANT TO ANSWER:\n```python\ndef total(prices):\n    return 1\n```", "ok", ""]


@pytest.fixture
def make_critic(make_tiny_model, tiny_tokenizer):
    """Function: whether the reference sees the hidden information -> a critic whose model and reference have different random weights."""
    return lambda sees=True: AdvantageCritic(
        make_tiny_model(1), make_tiny_model(2), Chat(tiny_tokenizer), reference_sees_hidden=sees
    )


def _naive(model, prompt, candidate):
    ids = prompt + candidate
    with torch.no_grad():
        log_probs = torch.log_softmax(model(torch.tensor([ids])).logits[0].double(), dim=-1)
    return [float(log_probs[i - 1, ids[i]]) for i in range(len(prompt), len(ids))]


@pytest.mark.parametrize("candidates", [[[7, 8, 9, 1], [5, 1], [9], [11, 12, 13, 14, 15, 16, 1]], [[9], [1]], [[3, 4, 5]]])
def test_candidate_log_probs_equal_the_naive_forward(candidates, make_tiny_model, tiny_tokenizer):
    model, prompt = make_tiny_model(1), Chat(tiny_tokenizer).prompt(PROMPT)
    for got, candidate in zip(candidate_log_probs(model, prompt, candidates), candidates, strict=True):
        assert got.dtype == torch.float32
        assert got.tolist() == pytest.approx(_naive(model, prompt, candidate), abs=1e-5)


@pytest.mark.parametrize("sees", [True, False])
def test_rank_is_the_mean_log_ratio_of_the_turn(sees, make_critic, tiny_tokenizer):
    critic = make_critic(sees)
    got = critic.rank(PROMPT, HIDDEN, TEXTS)
    told = Chat(tiny_tokenizer).prompt([*hint_message(HIDDEN), *PROMPT])
    plain = Chat(tiny_tokenizer).prompt(PROMPT) if not sees else told
    for text, advantage in zip(TEXTS, got, strict=True):
        candidate = tiny_tokenizer(text + "<|end|>")["input_ids"]
        ratios = [
            a - b
            for a, b in zip(_naive(critic.model, told, candidate), _naive(critic.reference, plain, candidate), strict=True)
        ]
        assert advantage == pytest.approx(sum(ratios) / len(ratios), abs=1e-5)


def test_equal_texts_get_equal_scores_whatever_stands_beside_them(make_critic):
    critic = make_critic()
    scores = critic.rank(PROMPT, HIDDEN, TEXTS)
    assert scores[1] == scores[3]
    assert len(set(scores)) == 4
    assert critic.rank(PROMPT, HIDDEN, TEXTS[1:2]) == pytest.approx(scores[1:2], abs=1e-5)


def test_the_hint_changes_the_scores(make_critic):
    critic = make_critic()
    assert critic.rank(PROMPT, HIDDEN, TEXTS) != pytest.approx(critic.rank(PROMPT, "", TEXTS), abs=1e-3)


@pytest.mark.parametrize("hidden", [HIDDEN, ""])
@pytest.mark.parametrize("sees", [True, False])
def test_dialogue_advantages_equal_rank_turn_by_turn(sees, hidden, make_critic, tiny_tokenizer):
    critic = make_critic(sees)
    dialogue = [*PROMPT, {"role": "assistant", "content": TEXTS[2]}]
    first, last = critic.dialogue_advantages(dialogue, hidden)
    assert critic.rank(PROMPT, hidden, TEXTS)[2] == pytest.approx(last, abs=1e-5)
    assert critic.rank(PROMPT[:1], hidden, [PROMPT[1]["content"]])[0] == pytest.approx(first, abs=1e-5)
    assert max(Chat(tiny_tokenizer).sequences(dialogue)[0].turn_ids) == 2


def test_an_untrained_critic_is_indifferent_against_the_papers_reference_only(make_tiny_model, tiny_tokenizer):
    paper, released = (
        AdvantageCritic(make_tiny_model(1), make_tiny_model(1), Chat(tiny_tokenizer), reference_sees_hidden=sees)
        for sees in (True, False)
    )
    assert paper.rank(PROMPT, HIDDEN, TEXTS) == pytest.approx([0.0] * 5, abs=1e-6)
    assert max(map(abs, released.rank(PROMPT, HIDDEN, TEXTS))) > 1e-3


@pytest.mark.parametrize("sees", [True, False])
def test_critic_and_reference_see_the_instructions_that_the_agent_speaks_under(sees, make_tiny_model, tiny_tokenizer):
    instructions = "Ask one short question at a time."
    critic = AdvantageCritic(
        make_tiny_model(1),
        make_tiny_model(2),
        Chat(tiny_tokenizer),
        reference_sees_hidden=sees,
        instructions=instructions,
        noun="function",
    )
    plain = Chat(tiny_tokenizer).prompt([{"role": "system", "content": instructions}, *PROMPT])
    told = Chat(tiny_tokenizer).prompt(
        [{"role": "system", "content": f"{instructions}\n\n{HINT.format(what='function', hidden=HIDDEN)}"}, *PROMPT]
    )
    candidate = tiny_tokenizer(TEXTS[0] + "<|end|>")["input_ids"]
    model = _naive(critic.model, told, candidate)
    reference = _naive(critic.reference, told if sees else plain, candidate)
    expected = sum(a - b for a, b in zip(model, reference, strict=True)) / len(candidate)
    assert critic.rank(PROMPT, HIDDEN, TEXTS[:1]) == pytest.approx([expected], abs=1e-5)
    dialogue = [*PROMPT, {"role": "assistant", "content": TEXTS[0]}]
    assert critic.dialogue_advantages(dialogue, HIDDEN)[-1] == pytest.approx(expected, abs=1e-5)


def test_an_adapter_is_switched_off_for_the_reference(make_tiny_model, tiny_tokenizer):
    from peft import LoraConfig, get_peft_model

    model = get_peft_model(make_tiny_model(1), LoraConfig(r=4, target_modules="all-linear"))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(generator=torch.Generator().manual_seed(3))
    critic = AdvantageCritic(model, None, Chat(tiny_tokenizer))
    both = AdvantageCritic(model, make_tiny_model(1), Chat(tiny_tokenizer))
    assert critic.rank(PROMPT, HIDDEN, TEXTS) == pytest.approx(both.rank(PROMPT, HIDDEN, TEXTS), abs=1e-5)


def test_misuse_is_refused(make_tiny_model, tiny_tokenizer):
    message = "`reference` may be None only if `model` has a LoRA adapter to disable."
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        AdvantageCritic(make_tiny_model(), None, Chat(tiny_tokenizer))


def test_without_normalisation_a_turn_counts_its_tokens(make_tiny_model, tiny_tokenizer):
    models = make_tiny_model(1), make_tiny_model(2)
    mean, total = (AdvantageCritic(*models, Chat(tiny_tokenizer), is_normalised=is_mean) for is_mean in (True, False))
    lengths = [len(tiny_tokenizer(text + "<|end|>")["input_ids"]) for text in TEXTS]
    expected = [value * length for value, length in zip(mean.rank(PROMPT, HIDDEN, TEXTS), lengths, strict=True)]
    assert total.rank(PROMPT, HIDDEN, TEXTS) == pytest.approx(expected, rel=1e-4)


def test_without_normalisation_the_turns_of_a_dialogue_count_their_tokens_too(make_tiny_model, tiny_tokenizer):
    models = make_tiny_model(1), make_tiny_model(2)
    mean, total = (AdvantageCritic(*models, Chat(tiny_tokenizer), is_normalised=is_mean) for is_mean in (True, False))
    dialogue = [*PROMPT, {"role": "assistant", "content": TEXTS[0]}]
    lengths = [len(tiny_tokenizer(text + "<|end|>")["input_ids"]) for text in (PROMPT[1]["content"], TEXTS[0])]
    expected = [value * length for value, length in zip(mean.dialogue_advantages(dialogue, HIDDEN), lengths, strict=True)]
    assert lengths[0] != lengths[1]
    assert total.dialogue_advantages(dialogue, HIDDEN) == pytest.approx(expected, rel=1e-4)
    assert total.rank(PROMPT, HIDDEN, TEXTS[:1]) == pytest.approx(expected[1:], rel=1e-4)


def test_a_dialogue_is_scored_without_keeping_a_cache(make_critic):
    critic, kept = make_critic(), []
    for model in (critic.model, critic.reference):
        model.register_forward_hook(lambda module, given, output: kept.append(output.past_key_values))
    critic.dialogue_advantages([*PROMPT, {"role": "assistant", "content": TEXTS[0]}], HIDDEN)
    assert kept == [None, None]


def test_a_critic_scores_without_dropout(make_tiny_model, tiny_tokenizer):
    models = make_tiny_model(1).train(), make_tiny_model(2).train()
    critic = AdvantageCritic(*models, Chat(tiny_tokenizer))
    with critic._reference() as reference:
        assert reference is models[1] and not reference.training and not critic.model.training


def test_a_critic_that_reads_no_replies_scores_the_same_whatever_was_replied(make_tiny_model, tiny_tokenizer):
    def made(reads_replies):
        return AdvantageCritic(make_tiny_model(1), make_tiny_model(2), Chat(tiny_tokenizer), reads_replies=reads_replies)

    other = [*PROMPT[:2], {"role": "user", "content": "No preference there."}]
    hidden, plain = made(False), made(True)
    assert hidden.rank(other, HIDDEN, TEXTS[:2]) == hidden.rank(PROMPT, HIDDEN, TEXTS[:2])
    assert plain.rank(other, HIDDEN, TEXTS[:2]) != plain.rank(PROMPT, HIDDEN, TEXTS[:2])
    request = [{"role": "user", "content": "I need a list."}, *PROMPT[1:]]
    assert hidden.rank(request, HIDDEN, TEXTS[:2]) != hidden.rank(PROMPT, HIDDEN, TEXTS[:2])
    said = [*PROMPT, {"role": "assistant", "content": "ok"}]
    assert hidden.dialogue_advantages(said, HIDDEN)[-1] == pytest.approx(hidden.rank(other, HIDDEN, ["ok"])[0], abs=1e-5)
