"""Every turn is trained and scored in the context that it is sampled in: token by token, for every family's template, in all that is trained."""

from __future__ import annotations

import sys
import threading
from functools import cache
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sweetrl_agent.bridges.turn_credit import sequences_of
from sweetrl_agent.core.episode import Episode, Turn
from sweetrl_agent.core.hint import HINT
from sweetrl_agent.core.messages import system_message
from sweetrl_agent.critics import advantage
from sweetrl_agent.critics.advantage import AdvantageCritic
from sweetrl_agent.critics.heads import HeadCritic
from sweetrl_agent.data.chat import Chat, encode_hinted
from sweetrl_agent.policies.server import ServerPolicy
from sweetrl_agent.policies.transformers import TransformersPolicy
from sweetrl_agent.policies.utterances import Speaker
from sweetrl_agent.policies.vllm import VLLMPolicy
from sweetrl_agent.trainers.learner import Learner
from sweetrl_agent.trainers.offline import action_tokens
from sweetrl_agent.trainers.sft import sft_dataset
from sweetrl_agent.trainers.trl.precomputed import preference

from ..families import FAMILIES, PIECES, build_tokenizer

PARTS = (*PIECES, "<think>", "USER:", "x")
INSTRUCTIONS = "Ask first, then answer."
texts = st.lists(st.sampled_from(PARTS), max_size=5).map("".join)
thoughts = st.sampled_from(["", "", "<think>\nA fee?\n</think>\n\n", "A fee?\n</think>\n\n"])
dialogues = st.lists(st.tuples(texts, texts, thoughts), min_size=1, max_size=4)
histories = st.sampled_from([-1, 0, 1, 2])
few = settings(
    max_examples=6, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture], database=None
)


@pytest.fixture(params=FAMILIES.values(), ids=str)
def family(request):
    if request.param.template.read() is None:
        pytest.skip(request.param.template.missing)
    return request.param


@cache
def _named(name, reasoning):
    return Chat(build_tokenizer(FAMILIES[name]), reasoning)


def _chat(family, reasoning="auto"):
    return _named(family.name, reasoning)


@cache
def _engine(chat, response_prefix):
    model = SimpleNamespace(generation_config=SimpleNamespace(eos_token_id=None))
    speaker = Speaker(chat.tokenizer, 8, response_prefix=response_prefix, reasoning=chat.template.reasoning.setting)
    return TransformersPolicy(model, speaker)


def _policy(chat, instructions="", history=-1, response_prefix=""):
    policy = _engine(chat, response_prefix)
    policy.speaker.system_prompt, policy.speaker.history = instructions, history
    return policy


def _messages(turns):
    roles = [[{"role": "user", "content": asked}, {"role": "assistant", "content": said}] for asked, said, _ in turns]
    return [message for pair in roles for message in pair]


def _thoughtful(turns):
    messages = _messages(turns)
    for message, (_, _, thought) in zip(messages[1::2], turns, strict=True):
        message |= {"thought": thought} if thought else {}
    return messages


def _sampled_from(policy, messages):
    """What an engine is given before each turn."""
    return [policy.speaker.prompt(messages[:i]) for i, message in enumerate(messages) if message["role"] == "assistant"]


def _contexts(token_ids, marks):
    """What stands before each run of marked tokens."""
    return [list(token_ids[:i]) for i, mark in enumerate(marks) if mark and not (i and marks[i - 1])]


def _episode(turns, token_ids=()):
    ids = token_ids or [[]] * len(turns)
    made = [Turn(said, own, [0.0] * len(own), thought=thought) for (_, said, thought), own in zip(turns, ids, strict=True)]
    return Episode("a", 0, _messages(turns), made, {"outcome": "x"}, 0.0)


@few
@given(turns=dialogues, history=histories, has_system=st.booleans())
def test_sft_and_offline_rows(family, turns, history, has_system):
    chat, instructions = _chat(family), INSTRUCTIONS * has_system
    expected = _sampled_from(_policy(chat, instructions, history), _messages(turns))
    rows = sft_dataset([[*system_message(instructions), *_thoughtful(turns)]], chat, history)
    found = [x for row in rows for x in _contexts(row["input_ids"], [label != -100 for label in row["labels"]])]
    assert found == expected
    (row,) = action_tokens([_episode(turns)], chat, system_message(instructions), history)
    assert [x for pair in zip(row["input_ids"], row["is_action"], strict=True) for x in _contexts(*pair)] == expected
    assert sum(len(set(rewards)) for rewards in row["rewards"]) <= 2 * len(turns)


@few
@given(turns=dialogues, history=histories, has_system=st.booleans(), data=st.data())
def test_on_policy_rows_and_the_bridge(family, turns, history, has_system, data):
    """The tokens are any that a model may sample, and the texts what they say."""
    chat, instructions = _chat(family), INSTRUCTIONS * has_system
    policy = _policy(chat, instructions, history)
    plain = [i for i in range(3, 300) if i not in chat.tokenizer.added_tokens_decoder]
    tokens = st.lists(st.sampled_from(plain), min_size=1, max_size=6)
    is_cut = st.booleans()
    sampled = [[*data.draw(tokens), *([] if data.draw(is_cut) else policy.end_ids[-1:])] for _ in turns]
    said = [policy.speaker.utterances.from_tokens(own, [0.0] * len(own), [0], policy.end_ids) for own in sampled]
    turns = [(asked, one.text, one.thought) for (asked, _, _), one in zip(turns, said, strict=True)]
    episode = _episode(turns, sampled)
    expected = list(zip(_sampled_from(policy, episode.messages), sampled, strict=True))
    learner = SimpleNamespace(chat=chat, instructions=system_message(instructions), history=history, _encodings={})
    parts = Learner._encoded(learner, episode)
    found = [(x, turn) for part in parts for x, turn in zip(_contexts(part.token_ids, part.turn_ids), part.turns, strict=True)]
    assert found == expected
    if history < 0:
        rows = list(sequences_of(episode, instructions, chat))
        found = [
            x for row in rows for x in _contexts(row.prompt_ids + row.completion_ids, [0] * len(row.prompt_ids) + row.mask)
        ]
        assert found == [context for context, _ in expected]
        assert all(len(row.logprobs) == len(row.turn_ids) == len(row.mask) for row in rows)
        assert [turn for row in rows for turn in dict.fromkeys(row.turn_ids) if turn] == [*range(1, len(turns) + 1)]


@few
@given(turns=dialogues, hidden=st.booleans(), has_system=st.booleans())
def test_critics_are_trained_in_the_context_that_they_rank_in(family, turns, hidden, has_system):
    chat, instructions, messages = _chat(family), INSTRUCTIONS * has_system, _messages(turns)
    secret = "def total(prices): ..." * hidden
    policy = _policy(chat, "\n\n".join(filter(None, [instructions, HINT.format(what="answer", hidden=secret) * hidden])))
    expected = _sampled_from(policy, messages)
    trained = encode_hinted(messages, [secret], instructions, "answer", chat)
    assert [x for part in trained for x in _contexts(part.token_ids, part.turn_ids)] == expected
    redrawn = encode_hinted(messages, [secret] * len(turns), instructions, "answer", chat) if len(turns) > 1 else trained
    assert [x for part in redrawn for x in _contexts(part.token_ids, part.turn_ids)] == expected
    own = [turn for part in trained for turn in part.turns]
    assert own == [turn for part in redrawn for turn in part.turns]
    agents = encode_hinted(_thoughtful(turns), [secret], instructions, "answer", chat)  # multi-turn DPO, with thoughts
    assert [x for part in agents for x in _contexts(part.token_ids, part.turn_ids)] == expected
    head = _Head(chat, instructions)
    for number, (_, said, _) in enumerate(turns):
        before = messages[: 2 * number + 1]
        assert _ranked(chat, instructions, before, secret, [said, "Yes."])[:2] == (expected[number], own[number])
        head.rank(before, secret, [said, "Yes."])
        assert head.seen[0] == (expected[number] + own[number], [0] * len(expected[number]) + [1] * len(own[number]))


class _Head(HeadCritic):
    """A head that remembers what it is given."""

    def __init__(self, chat, instructions):
        super().__init__(SimpleNamespace(eval=lambda: None), chat, instructions)

    def _scores(self, rows, turn_ids):
        import torch

        self.seen = list(zip(rows, turn_ids, strict=True))
        return torch.zeros(len(rows), 1)


def _ranked(chat, instructions, before, secret, texts):
    """The prompt, and the first candidate, that a critic scores."""
    import torch

    seen = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            advantage,
            "candidate_log_probs",
            lambda model, prompt, candidates: seen.append((prompt, *candidates)) or [torch.zeros(1)] * len(candidates),
        )
        model = SimpleNamespace(eval=lambda: None)
        AdvantageCritic(model, model, chat, instructions=instructions).rank(before, secret, texts)
    assert seen[0] == seen[1]
    return seen[0]


@few
@given(turns=dialogues, history=histories, has_system=st.booleans(), worse=texts)
def test_preferences_of_the_actor(family, turns, history, has_system, worse):
    chat, instructions = _chat(family), INSTRUCTIONS * has_system
    *before, last = _messages(turns)
    model = SimpleNamespace(system_prompt=instructions, history=history)
    row = {"prompt": before, "chosen": last["content"], "chosen_thought": turns[-1][2], "rejected": worse}
    found = preference(row, chat, model)
    assert found["prompt_ids"] == _policy(chat, instructions, history).speaker.prompt(before)
    end = chat.tokenizer.convert_tokens_to_ids(chat.template.end)
    for side in ("chosen", "rejected"):
        assert found[f"{side}_ids"][-1] == end and end not in found[f"{side}_ids"][:-1]


class _Asked(Exception):
    """What an engine was asked."""


def _refuse(*asked, **_):
    raise _Asked(*asked)


def _given_to(engine, chat, instructions, history, dialogue, response_prefix):
    """Token ids that another engine is given for the next turn."""
    policy = object.__new__(engine)
    policy.speaker = _policy(chat, instructions, history, response_prefix).speaker
    policy.name, policy.lora, policy.end_ids = "m", None, []
    policy.llm = SimpleNamespace(generate=_refuse)
    policy._threads = SimpleNamespace(submit=lambda answer: answer())
    policy._is_closed = threading.Event()
    server = SimpleNamespace(is_vllm=True, sampling={"top_p": 1.0}, complete=_refuse, url="")
    policy._servers = iter([server])
    with pytest.raises(_Asked) as asked:
        policy.generate([dialogue], [0])
    (request, *_) = asked.value.args
    return request[0]["prompt_token_ids"] if engine is VLLMPolicy else request["prompt"]


@pytest.mark.parametrize("engine", [VLLMPolicy, ServerPolicy])
@few
@given(
    turns=dialogues, history=histories, has_system=st.booleans(), response_prefix=st.sampled_from(["", "I WANT TO ANSWER:\n"])
)
def test_every_engine_is_given_the_same(family, engine, turns, history, has_system, response_prefix):
    chat, instructions = _chat(family), INSTRUCTIONS * has_system
    *before, _ = _messages(turns)
    expected = _policy(chat, instructions, history, response_prefix).speaker.prompt(before)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "vllm", SimpleNamespace(SamplingParams=SimpleNamespace))
        assert _given_to(engine, chat, instructions, history, before, response_prefix) == expected


@pytest.mark.parametrize("reasoning", ["auto", "none"])
@few
@given(turns=dialogues, has_system=st.booleans())
def test_prompts_are_those_of_the_template(family, reasoning, turns, has_system):
    """Also with a memory of pieces; the template's own rendering, with the instructions where the family takes them."""
    chat = _chat(family, reasoning)
    *messages, _ = _messages(turns)
    led = messages
    if has_system and family.system == "none":
        led = [{"role": "user", "content": f"{INSTRUCTIONS}\n\n{messages[0]['content']}"}, *messages[1:]]
    elif has_system:
        led = [{"role": "system", "content": INSTRUCTIONS}, *messages]
    given = {"enable_thinking": False} if reasoning == "none" else {}
    plain = chat.tokenizer.apply_chat_template(
        led, add_generation_prompt=True, tokenize=True, return_dict=True, date_string="26 Jul 2024", **given
    )["input_ids"]
    found = chat.prompt([*system_message(INSTRUCTIONS * has_system), *messages])
    if "strftime_now" not in chat.tokenizer.chat_template or "date_string" in chat.tokenizer.chat_template:
        assert found == plain
    for text in INSTRUCTIONS, *(message["content"].strip() for message in messages if message["role"] == "user"):
        if text and "<think>" not in text and (has_system or text != INSTRUCTIONS):
            assert text in chat.template.render([*system_message(INSTRUCTIONS * has_system), *messages])


def test_what_ends_a_turn(family):
    chat = _chat(family)
    end = "<|return|>" if family.name == "gpt-oss" else family.end_of_turn
    assert chat.template.end == end
    ends = chat.end_ids(SimpleNamespace(eos_token_id=[chat.tokenizer.eos_token_id]))
    assert {chat.tokenizer.convert_tokens_to_ids(token) for token in (end, family.eos)} == {*ends}
    assert family.name != "gpt-oss" or chat.tokenizer.convert_tokens_to_ids("<|end|>") not in ends


def test_a_response_prefix_is_speech(family):
    """Behind a prompt that opens a thought, or that wants a channel, it stands where the text of a turn does."""
    chat = _chat(family)
    messages = [{"role": "user", "content": "Is there a fee?"}]
    prompt = _policy(chat, response_prefix="I WANT TO ANSWER:\n").speaker.prompt(messages)
    turn = chat.turn(messages, "I WANT TO ANSWER:\nx")
    assert (chat.prompt(messages) + turn)[: len(prompt)] == prompt or family.pieces != "bytes"
    said = chat.template.reasoning.split(chat.tokenizer.decode(prompt[len(chat.prompt(messages)) :]), "")
    assert "WANT TO ANSWER:" in said.speech
