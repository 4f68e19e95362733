"""Sampling by seed: independent of neighbours, true to the distribution, with honest log-probabilities."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from sweetrl_agent.core.messages import system_message
from sweetrl_agent.data.chat import Chat
from sweetrl_agent.models.tiny import build_model
from sweetrl_agent.policies import transformers
from sweetrl_agent.policies.transformers import SAMPLING_BLOCK, SeededSampling, TransformersPolicy, sample
from sweetrl_agent.policies.utterances import Speaker

DIALOGUES = [[{"role": "user", "content": text}] for text in ("Hi.", "I need the total of my prices.", "def total(prices)?")]
LOGITS = torch.tensor([1.0, -0.5, 0.3, 2.0, -1.0, 0.0])


@pytest.fixture
def make_policy(make_tiny_model, tiny_tokenizer):
    """Function: settings -> a policy on the tiny model."""
    return lambda batch_size=64, **settings: TransformersPolicy(
        make_tiny_model(1), Speaker(tiny_tokenizer, **{"max_new_tokens": 8, **settings}), batch_size=batch_size
    )


def _sample(temperature=1.0, top_p=1.0, count=20000):
    sampling = SeededSampling(range(count), 1, temperature, top_p)
    scores = sampling(torch.zeros(count, 1, dtype=torch.long), LOGITS.repeat(count, 1))
    assert (scores.isfinite().sum(dim=1) == 1).all()
    return scores.argmax(dim=1), sampling.log_probs[0]


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_samples_follow_the_softmax(temperature):
    tokens, log_probs = _sample(temperature)
    expected = torch.log_softmax(LOGITS / temperature, dim=0)
    counts = np.bincount(tokens, minlength=len(LOGITS))
    frequencies = expected.double().exp()
    assert chisquare(counts, (frequencies / frequencies.sum() * len(tokens)).numpy()).pvalue > 0.001
    assert torch.allclose(log_probs, expected[tokens], atol=1e-6)


@pytest.fixture
def sample_in_blocks(monkeypatch):
    """Function: logits, uniforms, temperature -> tokens and log-probabilities, sampled in blocks at any size of the vocabulary."""

    def in_blocks(logits, uniforms, temperature):
        with monkeypatch.context() as patch:
            patch.setattr(transformers, "LARGE_VOCABULARY", 1)
            return sample(logits, uniforms, temperature)

    return in_blocks


def _assert_inverts(tokens, logits, uniforms, temperature):
    """Every token is where the cumulative distribution, in double precision, passes the uniform number."""
    probabilities = torch.softmax(logits.double() / temperature, dim=-1)
    (share,), (end,) = (one.gather(1, tokens[:, None]).T for one in (probabilities, probabilities.cumsum(dim=-1)))
    start = end - share
    assert (share > 0).all(), "a token of probability 0 was drawn"
    assert (start - 1e-6 <= uniforms).all() and (uniforms <= end + 1e-6).all()


@pytest.mark.parametrize("temperature", [0.3, 0.8, 1.0, 3.0])
@pytest.mark.parametrize("vocabulary", [3, SAMPLING_BLOCK - 1, SAMPLING_BLOCK, SAMPLING_BLOCK + 1, 4 * SAMPLING_BLOCK, 2100])
def test_sampling_in_blocks_draws_the_same_tokens(vocabulary, temperature, sample_in_blocks):
    generator = torch.Generator().manual_seed(vocabulary)
    logits = 4 * torch.randn(400, vocabulary, generator=generator)
    uniforms = torch.rand(400, dtype=torch.float64, generator=generator)
    uniforms[:4] = torch.tensor([0.0, 1 - 2**-53, 0.5, 2**-53])
    plain, blocks = (draw(logits, uniforms, temperature) for draw in (sample, sample_in_blocks))
    _assert_inverts(blocks[0], logits, uniforms, temperature)
    differs = plain[0] != blocks[0]
    assert differs[[0, *range(2, 400)]].sum() == 0  # the last number below 1 falls to one of the last tokens: both round
    torch.testing.assert_close(plain[1][~differs], blocks[1][~differs], rtol=1e-5, atol=1e-5)
    assert blocks[1].dtype == plain[1].dtype == torch.float32 and blocks[0].shape == plain[0].shape == (400,)


@pytest.mark.parametrize("possible", [[0], [2047], [511, 512], [5, 1030, 1031], [1023, 1024, 1500]])
def test_sampling_in_blocks_never_draws_what_is_impossible(possible, sample_in_blocks):
    logits = torch.full((2001, 2048), -torch.inf)
    logits[:, possible] = 0.0
    uniforms = torch.linspace(0, 1 - 2**-53, 2001, dtype=torch.float64)
    tokens, log_probs = sample_in_blocks(logits, uniforms, 0.7)
    expected = (uniforms * len(possible)).floor().long().clamp(max=len(possible) - 1)
    assert {*tokens.tolist()} == {*possible}
    wrong = tokens != torch.tensor(possible)[expected]
    assert wrong.sum() == 0
    torch.testing.assert_close(log_probs, torch.full((2001,), -float(np.log(len(possible)))))


def test_sampling_in_blocks_keeps_unlikely_tails(sample_in_blocks):
    """Blocks whose tokens are far below the peak have tiny sums, beside which those of other blocks are rounded."""
    logits = torch.full((1, 2048), -30.0)
    logits[0, 700], logits[0, 2047] = 5.0, -8.0
    ends = torch.softmax(logits.double(), dim=-1).cumsum(dim=-1)[0]
    edges = torch.stack([ends[511], ends[699], ends[700], ends[2046]])
    uniforms = torch.cat([edges * (1 - 1e-9), edges * (1 + 1e-9), torch.tensor([0.0, 1 - 2**-53])]).clamp(max=1 - 2**-53)
    tokens, log_probs = sample_in_blocks(logits.expand(len(uniforms), -1), uniforms, 1.0)
    _assert_inverts(tokens, logits.expand(len(uniforms), -1), uniforms, 1.0)
    torch.testing.assert_close(log_probs, torch.log_softmax(logits, dim=-1)[0, tokens], rtol=1e-5, atol=1e-5)


def test_a_large_vocabulary_is_sampled_in_blocks_and_top_p_is_not(monkeypatch):
    seen = []
    monkeypatch.setattr(transformers, "_sample_in_blocks", lambda logits, *rest: seen.append(len(logits[0])) or (None, None))
    for size, top_p in ((2**15 - 1, 1.0), (2**15, 1.0), (2**15, 0.9)):
        sample(torch.zeros(1, size), torch.tensor([0.5], dtype=torch.float64), 1.0, top_p)
    assert seen == [2**15]


def test_top_p_cuts_the_tail():
    tokens, _ = _sample(top_p=0.7)
    counts = np.bincount(tokens, minlength=len(LOGITS))
    probabilities = torch.softmax(LOGITS, dim=0)
    assert set(np.flatnonzero(counts)) == {0, 3}, f"the two likeliest hold {probabilities[[0, 3]].sum():.2f}"


def test_the_same_seed_says_the_same_whatever_the_neighbours(make_policy):
    policy = make_policy()
    alone = [policy.generate([dialogue], [seed])[0] for dialogue, seed in zip(DIALOGUES, (5, 6, 7), strict=True)]
    together = policy.generate([*DIALOGUES, *reversed(DIALOGUES)], [5, 6, 7, 1, 2, 3])
    assert [u.text for u in together[:3]] == [u.text for u in alone]
    assert [u.token_ids for u in together[:3]] == [u.token_ids for u in alone]
    small = make_policy(batch_size=2).generate([*DIALOGUES, *reversed(DIALOGUES)], [5, 6, 7, 1, 2, 3])
    assert [u.token_ids for u in small] == [u.token_ids for u in together]


def test_other_seeds_say_other_things_and_the_global_stream_is_not_touched(make_policy):
    torch.manual_seed(0)
    state = torch.get_rng_state()
    utterances = make_policy().generate([DIALOGUES[0]] * 8, list(range(8)))
    assert len({u.text for u in utterances}) > 4
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("temperature", [0.7, 1.0])
def test_log_probs_equal_a_recomputation(temperature, make_policy, tiny_tokenizer):
    policy = make_policy(temperature=temperature)
    for dialogue, utterance in zip(DIALOGUES, policy.generate(DIALOGUES, [1, 2, 3]), strict=True):
        prompt = Chat(tiny_tokenizer).prompt(dialogue)
        ids = prompt + utterance.token_ids
        with torch.no_grad():
            log_probs = torch.log_softmax(policy.model(torch.tensor([ids])).logits[0].double() / temperature, dim=-1)
        expected = [float(log_probs[i - 1, ids[i]]) for i in range(len(prompt), len(ids))]
        assert utterance.log_probs == pytest.approx(expected, abs=1e-4)
        assert len(utterance.token_ids) == len(utterance.log_probs) <= 8


def test_an_utterance_ends_with_its_end_token_and_the_text_has_none(make_policy, tiny_tokenizer):
    end = tiny_tokenizer.eos_token_id
    utterances = make_policy(max_new_tokens=400).generate([DIALOGUES[0]] * 8, list(range(8)))
    ended = [u for u in utterances if end in u.token_ids]
    assert ended
    assert all(u.token_ids.index(end) == len(u.token_ids) - 1 for u in ended)
    assert not any("<|end|>" in u.text for u in utterances)


@pytest.mark.parametrize("pad", ["same", "end"])
@pytest.mark.parametrize("model_seed", [1, 2, 3])
@pytest.mark.parametrize("stop", ["e", "t", ". ", "an", "\n"])
def test_a_row_ends_at_a_stop_text_and_says_the_same(stop, model_seed, pad, make_tiny_model, tiny_tokenizer, monkeypatch):
    """The utterances of a model that goes on to the limit and is cut afterwards, in as many steps as the longest row needs."""
    tokenizer = copy.deepcopy(tiny_tokenizer)
    if pad == "end":
        tokenizer.pad_token = tokenizer.eos_token
    policy, steps = TransformersPolicy(make_tiny_model(model_seed), Speaker(tokenizer, 60)), []
    policy.speaker.chat.template.stop_text, policy.speaker.utterances.stop_texts = stop, [stop]
    policy.model.register_forward_pre_hook(lambda *given: steps.append(1))
    stopped, needed = policy.generate(DIALOGUES * 2, range(6)), len(steps)
    with monkeypatch.context() as patch:
        patch.setattr(
            transformers.StopTexts, "__call__", lambda self, ids, scores, **given: torch.zeros(len(ids), dtype=torch.bool)
        )
        assert policy.generate(DIALOGUES * 2, range(6)) == stopped  # texts, tokens, log-probabilities and all
    assert needed == max(len(one.token_ids) for one in stopped)
    assert any(one.finish_reason == "stop" and one.token_ids[-1] != tokenizer.eos_token_id for one in stopped) or needed == 60


def test_a_very_low_temperature_is_greedy(make_policy):
    utterances = make_policy(temperature=0.001).generate([DIALOGUES[1]] * 4, [1, 2, 3, 4])
    assert len({tuple(u.token_ids) for u in utterances}) == 1


def test_the_system_prompt_stands_before_the_dialogue(make_policy):
    said = make_policy(system_prompt="Be brief.").generate(DIALOGUES[:1], [1])
    assert said == make_policy().generate([[*system_message("Be brief."), *DIALOGUES[0]]], [1])


def test_misuse_is_refused(make_policy, tiny_tokenizer):
    with pytest.raises(ValueError, match="^`temperature` must be positive, got 0; use 0.01 for nearly greedy decoding.$"):
        make_policy(temperature=0)
    tokenizer = copy.deepcopy(tiny_tokenizer)
    tokenizer.chat_template = None
    with pytest.raises(ValueError, match="^The tokenizer has no chat template; use an instruction-tuned model, or set"):
        TransformersPolicy(build_model(tokenizer, 32, 1, 0), Speaker(tokenizer, 8))


def test_a_saved_model_says_the_same(tiny_model_folder, make_tiny_model, tiny_tokenizer):
    from sweetrl_agent.config.model import ModelArguments
    from sweetrl_agent.models.loading import load_policy

    arguments = ModelArguments(model=str(tiny_model_folder), max_new_tokens=8, temperature=1.0, dtype="float32")
    loaded = load_policy(str(tiny_model_folder), str(tiny_model_folder), arguments)
    policy = TransformersPolicy(make_tiny_model(), Speaker(tiny_tokenizer, 8))
    assert [u.text for u in loaded.generate(DIALOGUES, [1, 2, 3])] == [u.text for u in policy.generate(DIALOGUES, [1, 2, 3])]


def test_an_agent_that_forgets_reads_the_latest_turns_only(make_policy):
    policy = make_policy(system_prompt="Be brief.", history=1)
    said = [("user", "a"), ("assistant", "b"), ("user", "c"), ("assistant", "d"), ("user", "e")]
    dialogue = [{"role": role, "content": content} for role, content in said]
    expected = make_policy(system_prompt="Be brief.").speaker.prompt(dialogue[2:])
    assert policy.speaker.prompt(dialogue) == expected != make_policy(system_prompt="Be brief.").speaker.prompt(dialogue)


def test_generation_settings_of_the_model_change_no_sample(make_policy):
    plain = make_policy().generate(DIALOGUES, [0, 1, 2])
    policy = make_policy()
    own = {
        "repetition_penalty": 1.7,
        "no_repeat_ngram_size": 2,
        "min_new_tokens": 7,
        "num_beams": 3,
        "suppress_tokens": [5, 6, 7],
    }
    for name, value in own.items():
        setattr(policy.model.generation_config, name, value)
    assert policy.generate(DIALOGUES, [0, 1, 2]) == plain
    assert {name: getattr(policy.model.generation_config, name) for name in own} == own, "they stay the model's"
