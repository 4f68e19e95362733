"""ColBench-Backend-v0 keeps the contract of a Gymnasium environment and the benchmark's protocol."""

from __future__ import annotations

import pickle
import random
import re
import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env, data_equivalence

import colbench_gym
from colbench_gym.errors import TaskError

ID = "ColBench-Backend-v0"
QUESTIONS = ("How do you round?", "OUTPUT: And an empty list?", "Zahlen wie „1“ oder ١?", "", "\x00\ud83d")


def _play(env, actions, **reset):
    steps = [env.reset(**reset)]
    steps += [env.step(action) for action in actions]
    return steps


def test_check_env_without_any_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gym.register_envs(colbench_gym)
        env = gym.make(ID, render_mode="ansi")
        check_env(env.unwrapped)
        env.close()


def test_the_default_environment_is_the_embedded_train_split_with_the_scripted_human():
    env = gym.make(ID)
    observation, info = env.reset(seed=3)
    task = env.unwrapped.task
    assert info["task_id"] == task.public_id and info["task_id"].startswith("embedded/standard/")
    assert not {*task.id.split("/")[2:]} & {*info["task_id"].split("/")}  # the family's topics and the choice
    assert env.reset(options={"task_id": info["task_id"]})[1]["task_id"] == info["task_id"] and env.unwrapped.task == task
    assert env.reset(options={"task_id": task.id})[1]["task_id"] == info["task_id"]
    assert info["turn"] == 0
    assert observation == f"Human: {info['messages'][0]['content']}"
    assert "The signature of the function is: def " in observation
    env.close()
    env.close()


@pytest.mark.parametrize("last", ["answer", "turn limit"])
def test_equal_seeds_and_actions_give_equal_episodes_whatever_ran_before(make_env, answer, last):
    actions = [*QUESTIONS, answer] if last == "answer" else ["How do you round?"] * 10
    one, two = make_env(), make_env()
    _play(two, [*QUESTIONS[:2], answer], seed=99)
    two.reset()
    assert data_equivalence(_play(one, actions, seed=7), _play(two, actions, seed=7))
    assert [one.reset()[1]["task_id"] for _ in range(5)] == [two.reset()[1]["task_id"] for _ in range(5)]


def test_other_seeds_draw_other_tasks(make_env):
    env = make_env()
    assert len({env.reset(seed=seed)[1]["task_id"] for seed in range(40)}) == 5


def test_a_right_answer_ends_the_episode_with_all_tests_passed(make_env, answer):
    env = make_env()
    _, reset_info = env.reset(seed=0)
    observation, reward, terminated, truncated, info = env.step("How do you round?")
    assert (reward, terminated, truncated, info["turn"]) == (0.0, False, False, 1)
    assert "metrics" not in info and "metrics" not in reset_info
    assert observation == (
        "Human: I need the total of my prices.\n\nAgent: How do you round?\n\nHuman: Round the total to two decimals."
    )
    assert info["messages"][1:] == [
        {"role": "assistant", "content": "How do you round?"},
        {"role": "user", "content": "Round the total to two decimals."},
    ]
    _, reward, terminated, truncated, info = env.step(answer)
    assert (reward, terminated, truncated, info["turn"]) == (1.0, True, False, 2)
    assert info["metrics"] == {"success": 1, "tests_passed": 1.0, "outcome": "passed", "answered": 1, "turns": 2}
    assert env.unwrapped.score_answer("def total(p):\n    return None")["tests_passed"] == 0.1


@pytest.mark.parametrize(("reward", "expected"), [("success", 0.0), ("tests_passed", 0.9)])
def test_the_reward_is_success_or_the_fraction_of_tests_passed(make_env, reward, expected):
    env = make_env(reward=reward)
    env.reset(seed=0)
    _, given, _, _, info = env.step("I WANT TO ANSWER: def total(p):\n    return round(sum(p), 2)")
    assert given == expected
    assert info["metrics"]["tests_passed"] == 0.9 and info["metrics"]["success"] == 0


@pytest.mark.parametrize(
    ("program", "outcome"),
    [
        ("def total(p):\n    while True: pass", "timeout"),
        ("def total(p:", "exception:SyntaxError"),
        ("raise SystemExit", "exception:SystemExit"),
        ("def total(p):\n    import socket\n    return socket.socket()", "forbidden"),
        ("def total(p):\n    return [0] * 10**12", "memory"),
        ("", "no_answer"),
    ],
)
def test_a_failing_program_is_data(make_env, total_task, program, outcome):
    env = make_env(tasks=[total_task(calls=("total([1])", "total([2, 3])"))])
    env.reset(seed=0)
    fenced = f"```python\n{program}\n```" if program else ""
    _, reward, terminated, truncated, info = env.step(f"I WANT TO ANSWER:{fenced}")
    assert (reward, terminated, truncated, info["metrics"]["outcome"]) == (0.0, True, False, outcome)


def test_the_last_message_is_graded_as_it_stands(make_env, answer):
    env = make_env(max_turns=2)
    env.reset(seed=0)
    env.step("How do you round?")
    _, reward, terminated, _, info = env.step(answer.removeprefix("I WANT TO ANSWER:"))
    assert (reward, terminated, info["metrics"]["answered"], info["metrics"]["success"]) == (1.0, True, 0, 1)


def test_ten_turns_by_default(make_env):
    env = make_env()
    env.reset(seed=0)
    ends = [env.step("How do you round?")[2] for _ in range(10)]
    assert ends == [False] * 9 + [True]


def test_thoughts_reach_neither_the_human_nor_the_observation(make_env, humans):
    env = make_env(simulator=humans.Slow(0))
    env.reset(seed=0)
    observation, _, _, _, info = env.step("SECRET plan\nOUTPUT: What about rounding?")
    assert "SECRET" not in observation + str(info)
    assert info["messages"][1]["content"] == "What about rounding?"


def test_replies_are_cut_at_400_characters(make_env, humans):
    env = make_env(simulator=humans.Slow(0))
    env.reset(seed=0)
    assert len(env.step("x" * 1000)[4]["messages"][-1]["content"]) == 400
    short = make_env(simulator=humans.Slow(0), max_reply_chars=7)
    short.reset(seed=0)
    assert short.step("hello")[4]["messages"][-1]["content"] == "total/" + short.unwrapped.task.id[-1]


def test_unicode_passes_unharmed(make_env, humans):
    env = make_env(simulator=humans.Slow(0))
    env.reset(seed=0)
    for text in ("Grüße – “ok” 日本\n", "👩‍👩‍👧", "\u202eabc\u0000"):
        observation = env.step(text)[0]
        assert text.strip() in observation and env.observation_space.contains(observation)


def test_numpy_strings_become_plain_ones(make_env):
    env = make_env()
    env.reset(seed=0)
    info = env.step(np.array(["How do you round?"])[0])[4]
    assert type(info["messages"][1]["content"]) is str


def test_the_spec_makes_a_json_round_trip_to_an_equal_environment():
    arguments = {"tasks": "embedded:test[:9]", "simulator": {"name": "scripted", "level": "terse"}, "max_turns": 4}
    spec = EnvSpec.from_json(gym.make(ID, **arguments).spec.to_json())
    assert pickle.loads(pickle.dumps(spec)) == spec
    one, two = gym.make(spec), gym.make(ID, **arguments)
    assert data_equivalence(_play(one, QUESTIONS[:3], seed=1), _play(two, QUESTIONS[:3], seed=1))
    assert one.unwrapped.max_turns == 4 and len(one.unwrapped.tasks) == 9


def test_a_pickled_environment_goes_on_alike(answer):
    env = gym.make(ID, tasks="embedded:test", sandbox="embedded")
    env.reset(seed=5)
    env.unwrapped.score_answer("def f(): pass")  # starts the sandbox, which does not travel
    env.step("How do you round?")
    copy = pickle.loads(pickle.dumps(env))
    rest = ["What about empty input?", answer]
    assert data_equivalence([env.step(action) for action in rest], [copy.step(action) for action in rest])
    env.close()
    copy.close()


def test_the_global_generators_are_neither_used_nor_moved(make_env, answer):
    def episode(global_seed):
        random.seed(global_seed)
        np.random.seed(global_seed)
        before = random.getstate(), np.random.get_state()[1].tolist()
        steps = _play(make_env(), [*QUESTIONS, answer], seed=3)
        assert (random.getstate(), np.random.get_state()[1].tolist()) == before
        return steps

    assert data_equivalence(episode(1), episode(2))


def test_a_task_is_chosen_by_its_id(make_env):
    env = make_env()
    assert env.reset(seed=0, options={"task_id": "total/3"})[1]["task_id"] == "total/3"
    with pytest.raises(ValueError, match=r"^`task_id` must be the id of one of the 5 tasks, got 'total/9'\.$"):
        env.reset(options={"task_id": "total/9"})
    with pytest.raises(ValueError, match=r"^`options` may hold 'task_id', got \['tasks'\]\.$"):
        env.reset(options={"tasks": 1})


def test_steps_out_of_turn_are_refused(make_env, answer):
    env = make_env()
    with pytest.raises(gym.error.ResetNeeded):
        env.step("hello")
    expected = r"^Expected an episode under way; call `reset` before `step`\.$"
    with pytest.raises(RuntimeError, match=expected):
        env.unwrapped.step("hello")
    with pytest.raises(RuntimeError, match=r"^Expected an episode; call `reset` first\.$"):
        env.unwrapped.task  # noqa: B018
    env.reset(seed=0)
    env.step(answer)
    with pytest.raises(RuntimeError, match=expected):
        env.unwrapped.step("hello")
    with pytest.raises(TypeError, match=r"^`action` must be a string, got int; the action is the agent's utterance\.$"):
        env.unwrapped.step(3)


@pytest.mark.parametrize(
    ("arguments", "kind", "text"),
    [
        ({"reward": "best"}, ValueError, "`reward` must be 'success' or 'tests_passed', got 'best'."),
        ({"semantics": "mine"}, ValueError, "`semantics` must be 'module' or 'released', got 'mine'."),
        (
            {"sandbox": "none"},
            ValueError,
            "`sandbox` must be one of ('auto', 'embedded', 'docker', 'unsafe-no-isolation'), or 'package.module:Class', got 'none'.",
        ),
        ({"max_turns": 0}, ValueError, "`max_turns` must be positive, or None for the task's own budget, got 0."),
        ({"max_reply_chars": -1}, ValueError, "`max_reply_chars` must be positive, got -1."),
        ({"on_world_error": "zero"}, ValueError, "`on_world_error` must be 'void' or 'raise', got 'zero'."),
        (
            {"simulator": "scriped"},
            ValueError,
            "`simulator` must be one of ('scripted', 'openai', 'person'), or 'package.module:Class', got 'scriped'. Did you mean 'scripted'?",
        ),
        ({"tasks": []}, TaskError, "Expected at least one task, got an empty sequence."),
        ({"render_mode": "human"}, ValueError, "`render_mode` must be None or one of ['ansi'], got 'human'."),
    ],
)
def test_wrong_arguments_are_refused_at_construction(arguments, kind, text):
    from colbench_gym.envs import BackendEnv

    with pytest.raises(kind, match=f"^{re.escape(text)}$"):
        BackendEnv(**{"tasks": "embedded:test", **arguments})


def test_rendering_is_the_transcript():
    env = gym.make(ID, tasks="embedded:test", render_mode="ansi")
    observation, _ = env.reset(seed=0)
    assert env.render() == observation
    silent = gym.make(ID, tasks="embedded:test").unwrapped
    silent.reset(seed=0)
    assert silent.render() is None


def test_the_state_key_tells_what_was_heard(make_env, total_task):
    env = make_env(tasks=[total_task()]).unwrapped
    env.reset(seed=0)
    assert env.state_key == ("total/0", 0, ())
    env.step("How do you round?")
    assert env.state_key == ("total/0", 1, (0,))
    env.step("And an empty list?")
    assert env.state_key == ("total/0", 2, (0, 1))
    hash(env.state_key)


def test_a_simulator_made_by_name_is_closed_and_a_given_one_is_not(make_env, humans):
    given = humans.Slow(0)
    env = make_env(simulator=given)
    env.close()
    assert not given.is_closed
    made = gym.make(ID, tasks="embedded:test").unwrapped
    made.simulator = given
    made.close()
    made.close()
    assert given.is_closed
