"""ColBench-AnyTeam-v0: a team writes the answers of any single-agent environment."""

from __future__ import annotations

import json
import warnings

import gymnasium as gym
import pytest
from gymnasium.utils.env_checker import check_env, data_equivalence

from colbench_gym.envs.any_team import AnyTeamEnv

ID = "ColBench-AnyTeam-v0"
MAZE = {"env": "LMRL-Maze-v0"}


class Echo(gym.Env):
    """Says what was said, twice; no snapshots, nothing hidden."""

    observation_space = action_space = gym.spaces.Text(100)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return "Say go.", {"secret": "of the environment"}

    def step(self, action):
        return action * 2, float(action == "go"), action == "go", False, {}

    def step_cut(self, action):
        return f"cut {action}", -1.0, False, False, {}


@pytest.mark.parametrize(
    "arguments", [MAZE, {"roles": "debaters:2x2", **MAZE}, {"roles": "interviewer,coder", "env": "LMRL-Wordle-v0"}]
)
def test_check_env_without_any_warning(arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gym.make(ID, **arguments).unwrapped, skip_render_check=True)


def test_every_message_is_deliberated_and_the_last_role_speaks_to_the_environment():
    env = AnyTeamEnv(Echo())
    observation, info = env.reset(seed=0)
    first, second, third = env.agents
    assert info == {"agent": first, "secret": "of the environment"} and observation.endswith("\n\nSay go.")
    observation, reward, _, _, info = env.step("no")
    assert (reward, info) == (0.0, {"agent": second}) and observation.endswith("Human: Say go.\n\nDraft:\nno")
    assert env.step("wrong")[0].endswith("Draft:\nno\n\nCritique:\nwrong")
    observation, _, terminated, _, info = env.step("stay")
    assert (observation, terminated, info) == ("Sent: stay\n\nstaystay", False, {"agent": first})
    assert env.step("stop")[0] == "Human: Say go.\n\nAgent: stay\n\nHuman: staystay\n\nDraft:\nstop"
    env.step("fine")
    assert env.step("stop")[0] == "stopstop"  # what was sent is the first role's own
    env.step("go")
    env.step("fine")
    assert env.step("<think>hm</think>go")[1:3] == (1.0, True)


def test_a_debate_over_every_message_has_no_interviewer_and_a_plurality():
    env = AnyTeamEnv(Echo(), roles="debaters:3x1")
    env.reset(seed=0)
    assert env.agents == ("coder1_1", "coder2_1", "coder3_1")
    assert [env.step(text)[1] for text in ("stay", "go", "go")] == [0.0, 0.0, 1.0]
    env = AnyTeamEnv(Echo(), roles="debaters:2x1", choose="first")
    env.reset(seed=0)
    env.step("go")
    assert env.step("no")[1] == 1.0


def test_a_cut_message_is_sent_as_one_and_has_no_vote():
    env = AnyTeamEnv(Echo())
    env.reset(seed=0)
    env.step("go")
    env.step("fine")
    assert env.step_cut("g")[0].endswith("cut g")
    env = AnyTeamEnv(Echo(), roles="debaters:2x1")
    env.reset(seed=0)
    env.step_cut("no")
    assert env.step("go")[1] == 1.0


def test_an_environment_with_a_marker_is_answered_by_the_team_alone(sandbox, total_task, answer):
    inner = {"tasks": [total_task()], "sandbox": sandbox}
    env = gym.make(ID, env_kwargs=inner).unwrapped
    env.reset(seed=0)
    observation, _, _, _, info = env.step("How do you round?")
    assert info["agent"] == "generator" and observation == "Round the total to two decimals." and info["turn"] == 1
    for text, agent in ((answer, "verifier"), ("fine", "refiner")):
        assert env.step(text)[4] == {"agent": agent}
    _, reward, terminated, _, info = env.step(answer)
    assert (reward, terminated, info["metrics"]["success"], info["agent"]) == (1.0, True, 1, "generator")
    env.close()
    own = AnyTeamEnv(Echo(), marker="ready")
    own.reset(seed=0)
    assert [own.step(text)[4]["agent"] for text in ("go on", "I am ready: a draft")] == ["generator", "verifier"]


def test_the_limit_of_turns_of_an_environment_is_an_answer_turn(sandbox, total_task, answer):
    env = AnyTeamEnv("ColBench-Backend-v0", {"tasks": [total_task()], "sandbox": sandbox, "max_turns": 2})
    env.reset(seed=0)
    agents = [env.step(text)[4]["agent"] for text in ("How?", "And then?", "fine")]
    assert agents == ["generator", "verifier", "refiner"] and env.step(answer)[1] == 1.0
    env.close()


@pytest.mark.parametrize("roles", ["generator,verifier,refiner", "debaters:2x2"])
def test_a_snapshot_at_every_turn_replays_the_future_in_another_environment(roles):
    one, two = (gym.make(ID, roles=roles, **MAZE).unwrapped for _ in range(2))
    states, results = [one.get_state()] if one.reset(seed=5) else [], []
    texts = [f"move {way}\n" for way in ("left", "up", "right", "down", "left", "up", "right", "down", "up")]
    for text in texts:
        results.append(one.step(text))
        states.append(json.loads(json.dumps(one.get_state())))
    two.reset(seed=1)
    for start, state in enumerate(states[:-1]):
        two.set_state(state)
        assert data_equivalence([two.step(text) for text in texts[start:]], results[start:])
    assert two.state_key == one.state_key


def test_a_snapshot_has_the_steps_of_an_inner_limit():
    env = AnyTeamEnv(gym.wrappers.TimeLimit(gym.make("LMRL-Maze-v0"), 3), roles="debaters:1x1")
    env.reset(seed=0)
    env.step("move left\n")
    state = json.loads(json.dumps(env.get_state()))
    for _ in range(2):
        assert [env.step("move left\n")[3] for _ in range(2)] == [False, True]
        env.set_state(state)


def test_a_key_has_what_the_team_has_said():
    env = AnyTeamEnv("LMRL-Maze-v0")
    env.reset(seed=5)
    alone = env.env.unwrapped.state_key
    assert env.state_key == (alone,)
    env.step("move left\n")
    env.step("No.")
    assert env.state_key == (alone, "move left", "No.")


@pytest.mark.parametrize(
    ("reasoning", "thought", "left"),
    [
        ("<plan> </plan>", "<plan>SECRET</plan>", ""),
        ("auto", "<think>SECRET</think>", ""),
        ("auto", "SECRET OUTPUT: ", ""),
        ("none", "<think>KEPT</think>", "<think>KEPT</think>"),
    ],
)
def test_thoughts_are_removed_as_the_environment_removes_them(sandbox, total_task, reasoning, thought, left):
    env = gym.make(ID, env_kwargs={"tasks": [total_task()], "sandbox": sandbox, "reasoning": reasoning}).unwrapped
    env.reset(seed=0)
    assert "SECRET" not in env.step(f"{thought}I WANT TO ANSWER: draft")[0]
    assert env.step(f"{thought}fine")[0].endswith(f"Critique:\n{left}fine")
    env.close()


def test_an_environment_without_texts_or_with_a_team_is_refused():
    with pytest.raises(
        ValueError, match="`env` must be an environment whose actions are texts, and those of 'CartPole-v1' are of Discrete"
    ):
        gym.make(ID, env="CartPole-v1")
    with pytest.raises(ValueError, match="single agent, and 'ColBench-Team-v0' has interviewer, coder"):
        gym.make(ID, env="ColBench-Team-v0")
    assert AnyTeamEnv("ColBench-Split-v0", {"alone": "first"}).reset(seed=0)


@pytest.mark.parametrize(
    ("env", "arguments", "ending"),
    [
        ("LMRL-Wordle-v0", {}, "A colleague checks it."),
        ("LMRL-Wordle-v0", {"roles": "interviewer, coder"}, "and writes the answer."),
        ("ColBench-Backend-v0", {}, "A colleague checks it. End with I WANT TO ANSWER: and the draft."),
        (Echo(), {"marker": "READY"}, "A colleague checks it. End with READY and the draft."),
    ],
)
def test_the_first_instruction_names_the_marker_of_the_environment_alone(env, arguments, ending):
    observation, _ = AnyTeamEnv(env, **arguments).reset(seed=0)
    assert observation.partition("\n\n")[0].endswith(ending)


def test_capabilities_are_those_of_the_environment():
    assert not hasattr(AnyTeamEnv(Echo()), "get_state") and not hasattr(AnyTeamEnv(Echo()), "hidden_information")
    env = AnyTeamEnv("LMRL-Wordle-v0")
    env.reset(seed=0)
    assert env.hidden_information.startswith("secret: ") and callable(env.get_state) and hasattr(env, "redraw_hidden")
    env = AnyTeamEnv()
    env.reset(seed=0)
    assert hasattr(env.env.unwrapped, "discrete_actions") and not hasattr(env, "discrete_actions"), "a single agent's menu"


def test_an_interviewer_that_answers_hands_over_and_is_not_graded_past_the_coder():
    env = gym.make(ID, env="ColBench-Backend-v0", roles="interviewer,coder")
    env.reset(seed=0)
    observation, reward, terminated, _, info = env.step("I WANT TO ANSWER:\nIt wants the largest.")
    assert (reward, terminated, info["agent"]) == (0.0, False, "coder") and observation.endswith("It wants the largest.")
    assert env.step("def f():\n    return 1")[2]
    env.close()


def test_messages_that_were_cut_count_for_the_limit_of_steps():
    env = AnyTeamEnv(gym.wrappers.TimeLimit(Echo(), max_episode_steps=2))
    for step in (env.step, env.step_cut):
        env.reset(seed=0)
        truncated = [step("no")[3] for _ in range(6)]
        assert truncated == [False] * 5 + [True]
