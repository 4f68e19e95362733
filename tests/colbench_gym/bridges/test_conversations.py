"""What the bridges share, without any other framework."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import sys
import threading
import traceback

import pytest

import colbench_gym
from colbench_gym.agents.prompts import PROMPTS, instructions
from colbench_gym.bridges.conversations import Conversations, VoidEpisodeError, conversation_seed, parsed


@pytest.fixture
def make(sandbox):
    """Function: arguments -> conversations in the shared sandbox, closed at the end."""
    made = []

    def conversations(*env, **arguments):
        made.append(Conversations(*env, **{"sandbox": sandbox, **arguments}))
        return made[-1]

    yield conversations
    for one in made:
        one.close()


async def _play(conversations, task_id, seed, utterances):
    conversation = await conversations.open(task_id, seed)
    for utterance in utterances:
        is_last = conversation.is_last(utterance)
        assert (await conversation.say(utterance) is None) == is_last
    return conversation


@pytest.mark.parametrize("reward", ["success", "tests_passed"])
def test_dialogues_are_those_of_the_environment(make, recorded, reward):
    dialogues = recorded(10, tasks="embedded:test/figures", reward=reward)
    conversations = make(tasks="embedded:test/figures", reward=reward)

    async def all_at_once():
        return await asyncio.gather(
            *[_play(conversations, one.task_id, conversation_seed(0, one.task_id), one.utterances) for one in dialogues]
        )

    for one, conversation in zip(dialogues, asyncio.run(all_at_once()), strict=True):
        assert conversation.metrics == one.metrics and conversation.reward == one.reward
        assert conversation.messages == one.messages and conversation.is_over and conversation.task_id == one.task_id


def test_a_dialogue_is_graded_from_its_messages_alone(make, recorded):
    dialogues = recorded(5, tasks="embedded:test/figures")
    conversations = make(tasks="embedded:test/figures")
    for one in dialogues:

        async def grade(one=one):
            conversation = await conversations.resume(one.task_id, one.messages[:-1])
            await conversation.say(one.utterances[-1])
            return conversation.metrics

        assert asyncio.run(grade()) == one.metrics


def test_a_model_gets_its_own_words_back_without_its_thoughts(make):
    conversations = make(tasks="embedded:test[:1]")

    async def play():
        conversation = await conversations.open(conversations.tasks[0].id, 0)
        await conversation.say(" Is it so?\n")
        await conversation.say("A secret.\nOUTPUT: Or so?")
        return conversation

    conversation = asyncio.run(play())
    assert [one["content"] for one in conversation.prompt if one["role"] == "assistant"] == [" Is it so?\n", "Or so?"]
    assert [one["content"] for one in conversation.messages if one["role"] == "assistant"] == ["Is it so?", "Or so?"]


@pytest.mark.parametrize("finish_reason", ["length", "stop"])
def test_an_answer_that_was_cut_is_not_graded(make, total_task, answer, finish_reason):
    async def play():
        conversation = await make(tasks=[total_task()]).open("total/0", 0)
        assert await conversation.say("Is it so", finish_reason) is not None
        await conversation.say(answer, finish_reason)
        return conversation

    conversation = asyncio.run(play())
    is_whole = finish_reason == "stop"
    assert (conversation.reward, conversation.metrics["outcome"]) == ((1.0, "passed") if is_whole else (0.0, "answer_cut"))


@pytest.mark.parametrize(
    ("reasoning", "heard"),
    [("auto", "<plan>P</plan>Is it so?"), ("<plan> </plan>", "<think>T</think>Is it so?"), ("none", None)],
)
def test_thoughts_are_parted_by_the_users_setting(make, total_task, reasoning, heard):
    said = "<think>T</think><plan>P</plan>Is it so?"

    async def play():
        conversations = make(tasks=[total_task()], reasoning=reasoning)
        conversation = await conversations.open("total/0", 0)
        await conversation.say(said)
        resumed = await conversations.resume("total/0", [conversation.messages[0], {"role": "assistant", "content": said}])
        return conversation.messages[1]["content"], resumed.messages[1]["content"]

    assert asyncio.run(play()) == (heard or said,) * 2


def test_the_answer_in_a_message_is_that_of_the_environment(make):
    text = "<plan>I WANT TO ANSWER: a draft</plan>I WANT TO ANSWER: x"
    for reasoning, answer in (("<plan> </plan>", "x"), ("none", "a draft</plan>I WANT TO ANSWER: x")):
        conversations = make(tasks="embedded:test[:1]", reasoning=reasoning)
        conversation = asyncio.run(conversations.open(conversations.tasks[0].id, 0))
        assert conversation.answer(text) == answer


def test_a_dialogue_without_an_end_is_unfinished(make):
    conversations = make(tasks="embedded:test[:1]")
    conversation = asyncio.run(_play(conversations, conversations.tasks[0].id, 0, ["Is it so?"]))
    assert conversation.metrics == {"success": 0, "tests_passed": 0.0, "outcome": "unfinished", "answered": 0, "turns": 1}
    assert not conversation.is_over and conversation.reward == 0.0


@pytest.mark.parametrize("details", [False, True])
def test_the_error_of_a_void_episode_hides_what_is_hidden(make, humans, total_task, details, caplog):
    caplog.set_level(logging.DEBUG)
    conversations = make(tasks=[total_task()], simulator=humans.Mute(), error_details=details)
    with pytest.raises(VoidEpisodeError, match="^SimulatorError: the episode is void, it has no score") as found:
        asyncio.run(_play(conversations, "total/0", 0, ["Is it so?"]))
    seen = "".join(traceback.format_exception(found.value)) + caplog.text
    assert ("round(sum(prices), 2)" in seen) == details
    assert found.value.__cause__ is None and found.value.__context__ is None


def test_a_message_that_failed_may_be_said_again(make, humans, total_task):
    conversations = make(tasks=[total_task()], simulator=humans.Mute(always=False))

    async def play():
        conversation = await conversations.open("total/0", 0)
        for text in ("boom ", "Is it so? "):
            with contextlib.suppress(VoidEpisodeError):
                await conversation.say(text)
        return conversation

    assert [one["content"] for one in asyncio.run(play()).prompt][1:2] == ["Is it so? "]


def test_a_dead_sandbox_is_an_error_too(make, humans, total_task):
    conversations = make(tasks=[total_task()], sandbox=humans.BrokenSandbox())
    with pytest.raises(VoidEpisodeError, match="^SandboxError"):
        asyncio.run(_play(conversations, "total/0", 0, ["I WANT TO ANSWER: nothing"]))


def test_waiting_dialogues_block_neither_each_other_nor_the_loop(make, humans, total_task):
    conversations = make(tasks=[total_task()], simulator=humans.Together(16), threads=16)
    ticks = []

    async def tick():
        while len(ticks) < 3:
            ticks.append(await asyncio.sleep(0))

    async def all_at_once():
        await asyncio.gather(tick(), *[_play(conversations, "total/0", i, ["Is it so?"]) for i in range(16)])

    asyncio.run(all_at_once())
    assert len(ticks) == 3


def test_dialogues_share_tasks_human_and_sandbox(make, humans):
    human = humans.Slow(0.0)
    conversations = make(tasks="embedded:test[:3]", simulator=human)

    async def two():
        return [(await conversations.open(None, seed))._env for seed in (0, 0)]

    one, other = asyncio.run(two())
    assert one.tasks is other.tasks and one.simulator is other.simulator is human and one._grader is other._grader
    assert one.task.id == other.task.id  # drawn with the seed
    conversations.close()
    assert not human.is_closed  # its caller's


def test_threads_end_with_the_last_reference(sandbox):
    others = {*threading.enumerate()}
    conversations = Conversations(tasks="embedded:test[:1]", sandbox=sandbox)
    asyncio.run(_play(conversations, conversations.tasks[0].id, 0, ["Is it so?"]))
    mine = [thread for thread in threading.enumerate() if thread.name.startswith("colbench") and thread not in others]
    assert mine
    del conversations
    gc.collect()
    _wait_for(mine)


def test_the_last_reference_may_be_one_of_a_thread_of_theirs(sandbox):
    conversations = Conversations(tasks="embedded:test[:1]", sandbox=sandbox)
    conversations._threads.submit(conversations._end).result(timeout=900)
    _wait_for(conversations._threads._threads)
    assert not conversations._end.alive


def _wait_for(threads):
    for thread in threads:
        thread.join(timeout=900)
    assert not any(thread.is_alive() for thread in threads)


def test_tasks_are_public_and_state_their_budget(make):
    tasks = make(tasks="embedded:test[:2]", max_turns=9).tasks
    assert not any(hasattr(task, "hidden") for task in tasks)
    assert all("You have 9 messages" in task.description for task in tasks)


def test_pages_are_played_too(needs_browser, make):
    for package in ("playwright", "tinycss2"):
        pytest.importorskip(package, reason=f"{package} is not installed: `pip install .[frontend]`.")
    conversations = make(
        "ColBench-Frontend-v0", tasks="embedded:test[:1]", sandbox="auto", reward="similarity", sandbox_workers=1
    )
    page = "<body class='bg-gray-800'><h1>Harbour House</h1></body>"

    async def two():
        task_id = conversations.tasks[0].id
        played = await _play(conversations, task_id, 0, [f"Like this?\n{page}", "I WANT TO ANSWER:"])
        again = await conversations.resume(task_id, played.messages[:-1])
        await again.say("I WANT TO ANSWER:")
        return played, again

    played, again = asyncio.run(two())
    assert played.metrics == again.metrics and played.metrics["outcome"] == "rendered"
    assert played.reward == again.reward == played.metrics["similarity"] > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"env": "CartPole-v1"}, "`env` must be one of"),
        ({"level": 3}, "An argument of ColBench-Backend-v0 is unknown or of a wrong type"),
        ({"threads": 0}, "`threads` and `sandbox_workers` must be positive, got 0 and 2"),
        ({"simulator": '{"name": "openai", "api_key": "secret'}, "`simulator` must be a name or valid JSON"),
    ],
)
def test_wrong_arguments_are_refused_in_one_sentence(arguments, message):
    with pytest.raises(ValueError, match=message) as found:
        Conversations(**arguments)
    assert "secret" not in str(found.value)


def test_an_argument_of_a_command_line_is_parsed():
    assert parsed('{"name": "scripted"}') == {"name": "scripted"} and parsed("scripted") == "scripted" and parsed(None) is None


def test_seeds_of_episodes_are_fixed():
    assert conversation_seed(0, "total/0") == 1750458330
    assert len({conversation_seed(0, "total/0", i) for i in range(100)}) == 100


def test_instructions_are_by_name_or_text():
    assert instructions("ColBench-Frontend-v0") == PROMPTS["pages"] and instructions("ColBench-Backend-v0", "") == ""
    assert instructions("ColBench-Backend-v0", "Be brief.") == "Be brief."


@pytest.mark.parametrize(
    ("module", "package", "command"),
    [
        ("verifiers_taskset", "verifiers", r"pip install 'verifiers>=0\.4,<0\.5'"),
        ("inspect_task", "inspect_ai", r"pip install 'inspect-ai>="),
        ("openenv_server", "openenv", r"pip install 'openenv>=0\.10,<0\.11'"),
    ],
)
def test_a_missing_package_is_named_with_its_command(monkeypatch, module, package, command):
    for name in [package, *(name for name in sys.modules if name.startswith(f"{package}."))]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, f"colbench_gym.bridges.{module}", raising=False)
    with pytest.raises(ImportError, match=command):
        __import__(f"colbench_gym.bridges.{module}")


def test_the_package_has_no_names_of_verifiers_without_it(monkeypatch):
    monkeypatch.delitem(sys.modules, "verifiers", raising=False)
    assert not hasattr(colbench_gym, "__all__")
