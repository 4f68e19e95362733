"""The environments served by OpenEnv, played by its own client. `bridges/test.sh` runs it with the package installed."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
import urllib.request

import pytest

pytest.importorskip(
    "openenv.core", reason="openenv is not installed; `bash bridges/test.sh openenv` installs it and runs this."
)

import uvicorn
from openenv.core.generic_client import GenericEnvClient

from colbench_gym.bridges.conversations import conversation_seed
from colbench_gym.bridges.openenv_server import main, make_app


@pytest.fixture
def served():
    """Function: arguments of `make_app` -> address of a server."""
    running = []

    def start(**arguments):
        app = make_app(**{"sandbox": "embedded", **arguments})
        listening = socket.create_server(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        running.append((server, thread, app))
        while not server.started:
            time.sleep(0.05)
        return f"http://127.0.0.1:{listening.getsockname()[1]}"

    yield start
    for server, thread, app in running:
        server.should_exit = True
        thread.join(timeout=30)
        app.state.colbench.close()


async def _play(url, utterances, **reset):
    async with GenericEnvClient(base_url=url) as client:
        results = [await client.reset(**reset)]
        for utterance in utterances:
            results.append(await client.step({"message": utterance}))
        return results, await client.state()


def _read(address):
    with urllib.request.urlopen(address, timeout=30) as answer:
        return json.loads(answer.read())


def test_scores_are_those_of_the_environment_on_the_same_dialogues(recorded, served):
    dialogues = recorded(5, tasks="embedded:test/figures")
    url = served(tasks="embedded:test/figures")

    async def all_at_once():
        return await asyncio.gather(
            *[_play(url, one.utterances, task_id=one.task_id, seed=conversation_seed(0, one.task_id)) for one in dialogues]
        )

    for one, (results, state) in zip(dialogues, asyncio.run(all_at_once()), strict=True):
        last = results[-1]
        assert (last.done, last.reward) == (True, one.reward) and not any(result.done for result in results[:-1])
        assert last.observation["metrics"] == one.metrics and last.observation["messages"] == one.messages
        assert state["step_count"] == len(one.utterances) and state["task_id"] == one.task_id


def test_the_client_without_an_event_loop_plays_too(served):
    url = served(tasks="embedded:test[:2]")
    with GenericEnvClient(base_url=url).sync() as env:
        first = env.reset(index=1).observation["task_id"]
        assert env.step({"message": "I WANT TO ANSWER: nothing"}).done
        assert env.reset(index=0).observation["task_id"] != first


def test_many_dialogues_are_under_way_at_once(served, together):
    with together(8) as human:
        simulator = {"name": "openai", "model": "human", "base_url": human.url, "max_retries": 0}
        url = served(tasks="embedded:test[:8]", simulator=json.dumps(simulator))

        async def all_at_once():
            return await asyncio.gather(*[_play(url, ["Is it so?"], split="embedded:test[:8]", index=i) for i in range(8)])

        played = asyncio.run(all_at_once())
    assert {results[-1].observation["messages"][-1]["content"] for results, _ in played} == {"It is so."}


def test_a_void_episode_is_an_error_and_no_reward(served, serve, canary_rows, canary):
    human = serve(lambda messages: "")
    simulator = {"name": "openai", "model": "human", "base_url": human.url, "max_retries": 0, "backoff_s": 0.0}
    url = served(tasks=canary_rows, simulator=simulator)
    with pytest.raises(RuntimeError, match="SimulatorError: the episode is void") as found:
        asyncio.run(_play(url, ["Is it so?"]))
    assert canary not in str(found.value)


def test_nothing_that_is_served_holds_hidden_information(served, canary_rows, canary, passes):
    url = served(tasks=canary_rows, reward="tests_passed")
    results, state = asyncio.run(_play(url, ["Must I add anything?", passes]))
    assert results[-1].reward == 1.0
    split = _read(f"{url}/colbench/splits")
    seen = [result.observation for result in results], state, split, _read(f"{url}/schema"), _read(f"{url}/openapi.json")
    assert canary not in json.dumps(seen)


async def _say(url, action):
    async with GenericEnvClient(base_url=url) as client:
        await client.reset()
        return (await client.step(action)).observation["metrics"]["outcome"]


@pytest.mark.parametrize(
    ("reason", "outcome"), [("length", "answer_cut"), ("max_tokens", "answer_cut"), (None, "passed"), ("stop", "passed")]
)
def test_an_answer_that_was_cut_is_not_graded(served, canary_rows, passes, reason, outcome):
    assert asyncio.run(_say(served(tasks=canary_rows), {"message": passes, "finish_reason": reason})) == outcome


@pytest.mark.parametrize(("reasoning", "outcome"), [("<plan> </plan>", "exception:NameError"), ("none", "passed")])
def test_thoughts_are_parted_by_the_users_setting(served, canary_rows, passes, reasoning, outcome):
    url = served(tasks=canary_rows, reasoning=reasoning)
    assert asyncio.run(_say(url, {"message": f"<plan>{passes}</plan>I WANT TO ANSWER: nothing"})) == outcome


def test_wrong_requests_are_refused_in_one_sentence(served, capsys):
    url = served(tasks="embedded:test[:2]")
    with pytest.raises(RuntimeError, match="`task_id` must be the id of one of the 2 tasks"):
        asyncio.run(_play(url, [], task_id="none"))
    with pytest.raises(RuntimeError, match=r"`index` must be in \[0, 2\), got 2"):
        asyncio.run(_play(url, [], index=2))
    with pytest.raises(RuntimeError, match="Expected an episode under way"):
        asyncio.run(_play(url, ["I WANT TO ANSWER: nothing", "And now?"], index=0))
    with pytest.raises(SystemExit):
        main(["--env-kwargs", '{"level": 3}'])
    assert "An argument of ColBench-Backend-v0 is unknown" in capsys.readouterr().err
