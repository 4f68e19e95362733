"""Continuous batching says what rounds say: whatever the slots, the order and the neighbours, with and without a kept cache."""

from __future__ import annotations

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import MistralConfig, MistralForCausalLM

from sweetrl_agent.core.policy import ContinuousPolicy
from sweetrl_agent.critics.advantage import candidate_log_probs
from sweetrl_agent.policies import continuous, slots
from sweetrl_agent.policies.continuous import ContinuousTransformersPolicy
from sweetrl_agent.policies.slots import BLOCK, SlotCache, can_use_slots
from sweetrl_agent.policies.transformers import TransformersPolicy
from sweetrl_agent.policies.utterances import Speaker

TEXTS = ("Hi.", "I need the total of my prices, without those of last year.", "def total(prices)?", "What about empty lists?")
DIALOGUES = [[{"role": "user", "content": text}] for text in TEXTS]


@pytest.fixture
def make_policy(make_tiny_model, tiny_tokenizer):
    """Function: settings -> a continuous policy on the tiny model."""
    return lambda batch_size=64, **settings: ContinuousTransformersPolicy(
        make_tiny_model(1), Speaker(tiny_tokenizer, 12, **settings), batch_size=batch_size
    )


@pytest.fixture
def in_rounds(make_tiny_model, tiny_tokenizer):
    """Function: dialogues, seeds -> what `model.generate` makes of them one by one."""
    policy = TransformersPolicy(make_tiny_model(1), Speaker(tiny_tokenizer, 12))
    return lambda dialogues, seeds: [policy.generate([d], [s])[0] for d, s in zip(dialogues, seeds, strict=True)]


@pytest.fixture
def read(monkeypatch):
    """Lists the shape (rows, tokens) of every forward pass."""
    shapes = []

    def counting(plain):
        def counted(model, cache, token_ids, rows, start):
            shapes.append(tuple(token_ids.shape))
            return plain(model, cache, token_ids, rows, start)

        return counted

    for name in ("read", "predict"):
        monkeypatch.setattr(continuous, name, counting(getattr(continuous, name)))
    return shapes


def _run(policy, until=None):
    said = {}
    while len(said) < (until or 1):
        said.update(policy.step())
    return said


def _equal(own, expected):
    assert [u.token_ids for u in own] == [u.token_ids for u in expected]
    assert [u.text for u in own] == [u.text for u in expected]
    for a, b in zip(own, expected, strict=True):
        assert a.log_probs == pytest.approx(b.log_probs, abs=1e-4)


@pytest.mark.parametrize("slots", [1, 2, 3, 64])
@pytest.mark.parametrize("settings", [{}, {"temperature": 0.6, "response_prefix": "I WANT"}], ids=["plain", "begun"])
def test_any_number_of_slots_says_the_same(slots, settings, make_policy, make_tiny_model, tiny_tokenizer):
    dialogues, seeds = DIALOGUES * 3, list(range(12))
    plain = TransformersPolicy(make_tiny_model(1), Speaker(tiny_tokenizer, 12, **settings))
    expected = [plain.generate([d], [s])[0] for d, s in zip(dialogues, seeds, strict=True)]
    _equal(make_policy(batch_size=slots, **settings).generate(dialogues, seeds), expected)
    assert len({u.text for u in expected}) > 8


def test_dialogues_may_come_while_others_are_under_way(make_policy, in_rounds):
    policy = make_policy(batch_size=2)
    policy.add("a", DIALOGUES[1], 1)
    said = dict(policy.step())
    policy.add("b", DIALOGUES[0], 2)
    policy.add("c", DIALOGUES[2], 3)
    while len(said) < 3:
        for name, utterance in policy.step():
            said[name] = utterance
            policy.forget(name)
    _equal([said[name] for name in "abc"], in_rounds([DIALOGUES[1], DIALOGUES[0], DIALOGUES[2]], [1, 2, 3]))
    assert policy.step() == []


def test_a_second_turn_reads_only_what_is_new(make_policy, in_rounds, read, tiny_tokenizer):
    policy = make_policy()
    policy.add("a", DIALOGUES[1], 5)
    first = _run(policy)["a"]
    longer = [*DIALOGUES[1], {"role": "assistant", "content": first.text}, {"role": "user", "content": "Yes, please."}]
    before = len(policy.speaker.prompt(longer))
    read.clear()
    policy.add("a", longer, 6)
    second = _run(policy)["a"]
    _equal([second], in_rounds([longer], [6]))
    assert read[0][1] < before - len(policy.speaker.prompt(DIALOGUES[1])) + 2, "the first turn's tokens are in the cache"


def test_another_past_under_the_same_name_is_read_anew(make_policy, in_rounds):
    policy = make_policy()
    for dialogue, seed in zip(DIALOGUES, (1, 2, 3, 4), strict=True):
        policy.add("a", dialogue, seed)
        _equal([_run(policy)["a"]], in_rounds([dialogue], [seed]))


def test_a_prompt_of_many_candidates_is_read_once(make_policy, in_rounds, read):
    dialogues, seeds = [DIALOGUES[1]] * 6 + [DIALOGUES[0]] * 2, list(range(8))
    _equal(make_policy().generate(dialogues, seeds), in_rounds(dialogues, seeds))
    assert read[0][0] == 2, "two prompts, not eight"
    assert all(length == 1 for _, length in read[1:])


INSTRUCTIONS = "Ask one question in each message. " * 5


@pytest.mark.parametrize("slots", [1, 2, 64])
def test_instructions_change_nothing_but_the_time(slots, make_policy, make_tiny_model, tiny_tokenizer):
    dialogues, seeds = [*DIALOGUES, DIALOGUES[1], *DIALOGUES], list(range(9))
    plain = TransformersPolicy(make_tiny_model(1), Speaker(tiny_tokenizer, 12, system_prompt=INSTRUCTIONS))
    policy = make_policy(batch_size=slots, system_prompt=INSTRUCTIONS)
    _equal(policy.generate(dialogues, seeds), [plain.generate([d], [s])[0] for d, s in zip(dialogues, seeds, strict=True)])


def test_instructions_are_read_once_while_a_dialogue_holds_them(make_policy, read):
    policy, own = make_policy(system_prompt=INSTRUCTIONS), [make_policy().speaker.prompt(dialogue) for dialogue in DIALOGUES]
    rest = [len(policy.speaker.prompt(dialogue)) - len(policy._instructions) for dialogue in DIALOGUES]
    for i in (0, 1):
        policy.add(i, DIALOGUES[i], i)
    policy.step()
    assert read[:2] == [(1, len(policy._instructions)), (2, max(rest[:2]) - 1)], "the last token is left to the step"
    assert max(rest) <= max(map(len, own)) + 1, "nothing of the instructions is left"
    _run(policy, 2)
    read.clear()
    policy.forget(0)
    policy.add(2, DIALOGUES[2], 2)
    policy.step()
    assert read[0] == (1, rest[2] - 1), "from the slot of the dialogue that is kept"
    for i in (1, 2):
        policy.forget(i)
    read.clear()
    policy.add(3, DIALOGUES[3], 3)
    policy.step()
    assert read[0] == (1, len(policy._instructions)), "weights may be others by now"


def test_a_kept_dialogue_holds_its_slot_until_it_is_forgotten(make_policy, in_rounds):
    policy = make_policy(batch_size=1)
    policy.add("a", DIALOGUES[0], 1)
    _run(policy)
    policy.add("b", DIALOGUES[1], 2)
    assert policy.step() == policy.step() == []
    policy.forget("a")
    policy.forget("never seen")
    _equal([_run(policy)["b"]], in_rounds([DIALOGUES[1]], [2]))


LENGTHS = {0: 300, 1: 20, 2: 280, 3: 300, 4: 25, 5: 24, 6: 900}


@pytest.mark.parametrize(
    ("together", "batches"),
    [(8192, [[6], [0, 2, 3], [1, 4, 5]]), (600, [[6], [0, 3], [2], [1, 4, 5]]), (10, [[6], [0], [3], [2], [4], [5], [1]])],
)
def test_prompts_of_similar_length_are_read_together(together, batches):
    assert list(continuous._batches(LENGTHS, together)) == batches


def test_short_prompts_are_read_together_whatever_their_padding():
    assert list(continuous._batches({0: 9, 1: 1, 2: 100}, 8192)) == [[0, 1, 2]]


def test_waiting_neighbours_change_nothing(make_policy, in_rounds):
    policy = make_policy(batch_size=8)
    for i in range(6):  # kept, and most of the slots before the one that speaks
        policy.add(i, DIALOGUES[i % 4], i)
    said = _run(policy, 6)
    policy.add("last", DIALOGUES[3], 9)
    _equal([_run(policy)["last"]], in_rounds([DIALOGUES[3]], [9]))
    again = [*DIALOGUES[2], {"role": "assistant", "content": said[2].text}, {"role": "user", "content": "No."}]
    policy.add(2, again, 7)
    _equal([_run(policy)[2]], in_rounds([again], [7]))


def test_a_long_prompt_grows_the_cache(make_policy, in_rounds):
    long = [{"role": "user", "content": "word " * 400}]
    policy = make_policy(batch_size=3)
    _equal(
        policy.generate([DIALOGUES[0], long, DIALOGUES[1]], [1, 2, 3]), in_rounds([DIALOGUES[0], long, DIALOGUES[1]], [1, 2, 3])
    )
    _equal(policy.generate([DIALOGUES[0]], [4]), in_rounds([DIALOGUES[0]], [4]))


def test_a_lora_adapter_speaks_too(make_tiny_model, tiny_tokenizer):
    from peft import LoraConfig, get_peft_model

    model = get_peft_model(make_tiny_model(1), LoraConfig(target_modules="all-linear", init_lora_weights=False))
    assert can_use_slots(model)
    plain = TransformersPolicy(model, Speaker(tiny_tokenizer, 12)).generate(DIALOGUES, [1, 2, 3, 4])
    _equal(ContinuousTransformersPolicy(model, Speaker(tiny_tokenizer, 12)).generate(DIALOGUES, [1, 2, 3, 4]), plain)


def test_models_that_forget_are_left_to_the_library(make_tiny_model):
    assert can_use_slots(make_tiny_model())
    small = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 1}
    config = MistralConfig(vocab_size=300, num_key_value_heads=1, **small)
    assert not can_use_slots(MistralForCausalLM(MistralConfig(**{**config.to_dict(), "sliding_window": 16})))
    eager = MistralForCausalLM._from_config(
        MistralConfig(**{**config.to_dict(), "sliding_window": None}), attn_implementation="eager"
    )
    assert not can_use_slots(eager)


def test_the_protocol_tells_it_from_others(make_policy, make_tiny_model, tiny_tokenizer):
    assert isinstance(make_policy(), ContinuousPolicy)
    assert not isinstance(TransformersPolicy(make_tiny_model(1), Speaker(tiny_tokenizer, 2)), ContinuousPolicy)


def test_nothing_touches_the_global_stream(make_policy):
    state = torch.get_rng_state()
    make_policy().generate(DIALOGUES, [1, 2, 3, 4])
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("length", [BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK])
def test_a_prompt_as_long_as_the_cache_is_shared_too(make_tiny_model, length):
    model, cache = make_tiny_model(1), SlotCache(1, 3)
    tokens = torch.arange(5, 5 + length)[None] % 300
    one, next_token = torch.zeros(1, dtype=torch.long), torch.tensor([[9]])
    slots.read(model, cache, tokens, one, one)
    cache.copy(0, [1, 2], length)
    expected = slots.predict(model, cache, next_token, one, one + length)
    for slot in (1, 2):
        assert torch.equal(slots.predict(model, cache, next_token, one + slot, one + length), expected)


def test_reading_asks_no_head_and_predicting_shows_it_one_contiguous_token_a_row(make_tiny_model):
    """With an adapter, too. A frozen bfloat16 head copies its weight for every row of a strided block, 250 MiB each for 0.5B."""
    model = get_peft_model(make_tiny_model(1), LoraConfig(r=2, target_modules="all-linear", task_type="CAUSAL_LM"))
    seen = []
    head = model.get_base_model().lm_head
    head.register_forward_pre_hook(lambda _, inputs: seen.append((tuple(inputs[0].shape[:2]), inputs[0].is_contiguous())))
    cache, rows = SlotCache(1, 2), torch.arange(2)
    slots.read(model, cache, torch.tensor([[5, 6, 7], [8, 9, 10]]), rows, torch.zeros(2, dtype=torch.long))
    assert seen == []
    slots.predict(model, cache, torch.tensor([[7], [10]]), rows, torch.full((2,), 3))
    assert seen == [((2, 1), True)]
    seen.clear()
    candidate_log_probs(model, [5, 6, 7], [[8, 9], [10]])
    assert [is_contiguous for _, is_contiguous in seen] == [True]
