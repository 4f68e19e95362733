"""Utterances: what a model generated, parted into thought and speech where marks are special tokens, plain text, or in the prompt."""

from __future__ import annotations

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from sweetrl_agent.algorithms.settings import make_config
from sweetrl_agent.core.episode import LENGTH, STOP
from sweetrl_agent.core.policy import Utterance
from sweetrl_agent.evaluation.policy_loading import own_policy
from sweetrl_agent.policies.utterances import Utterances

MARKS = ["<think>", "</think>", "<|channel|>", "<|message|>", "<|start|>", "<|end|>"]


@pytest.fixture(scope="module", params=[True, False], ids=["special", "plain"])
def tokenizer(request):
    """Bytes, an end token, another special token, and marks that are special tokens or plain ones."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    inner = Tokenizer(models.BPE({token: i for i, token in enumerate(alphabet)}, []))
    inner.pre_tokenizer, inner.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False), decoders.ByteLevel()
    made = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<eos>", clean_up_tokenization_spaces=False)
    made.add_special_tokens({"additional_special_tokens": ["<|user|>", *(MARKS if request.param else [])]})
    return made


def ids(tokenizer, text):
    return tokenizer(text, add_special_tokens=False)["input_ids"]


def said(tokenizer, text, prompt="<|user|>Hi", **settings):
    utterances = Utterances(tokenizer, **settings)
    token_ids = ids(tokenizer, text)
    found = utterances.from_tokens(token_ids, [-0.5] * len(token_ids), ids(tokenizer, prompt), {tokenizer.eos_token_id})
    assert len(found.log_probs) == len(found.token_ids) == found.usage[1]
    return found


def test_a_thought_is_beside_the_text_with_its_tokens(tokenizer):
    found = said(tokenizer, "<think>a</think>\n\nIs there a fee?<eos>padding")
    assert (found.text, found.thought, found.finish_reason) == ("Is there a fee?", "<think>a</think>\n\n", STOP)
    assert found.token_ids == ids(tokenizer, "<think>a</think>\n\nIs there a fee?<eos>")


def test_a_prompt_that_opens_the_thought(tokenizer):
    found = said(tokenizer, "a</think>Is<|user|> it?<eos>", prompt="<|user|>Hi<think>\n")
    assert (found.text, found.thought) == ("Is it?", "a</think>")
    cut = said(tokenizer, "a, and so on", prompt="<|user|>Hi<think>\n")
    assert (cut.text, cut.thought, cut.finish_reason) == ("", "a, and so on", LENGTH)


def test_the_harmony_format(tokenizer):
    found = said(tokenizer, "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>Is it?<eos>")
    assert found.text == "Is it?" and "analysis" in found.thought


def test_other_special_tokens_are_left_out_as_before(tokenizer):
    assert said(tokenizer, "<|user|>Hi<eos>").text == "Hi"


def test_a_response_prefix_and_the_setting(tokenizer):
    assert said(tokenizer, " a fee?<eos>", prompt="<|user|>Hi:Is there", response_prefix="Is there").text == "Is there a fee?"
    none = said(tokenizer, "<plan>a</plan>b<eos>", reasoning="<plan> </plan>")
    assert (none.text, none.thought) == ("b", "<plan>a</plan>")


def test_a_thought_from_a_field_of_its_own(tokenizer):
    found = Utterances(tokenizer).from_text("Is it?", "<think>\n", LENGTH, thought="a")
    assert (found.text, found.thought, found.finish_reason) == ("Is it?", "a", LENGTH)


def test_a_policy_of_the_users_own_may_think():
    class Own:
        def generate(self, dialogues, seeds):
            return [Utterance("<think>a</think>b") for _ in dialogues]

    (found,) = own_policy(Own, make_config()).generate([[]], [0])
    assert (found.text, found.thought) == ("b", "<think>a</think>")
    (found,) = own_policy(Own, make_config({"reasoning": "none"})).generate([[]], [0])
    assert found.text == "<think>a</think>b"
