"""Many dialogues at once: Gymnasium's vector environments, and ours."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode

import sandboxes
from colbench_gym.errors import SimulatorError

ID = "ColBench-Backend-v0"
MODES = ("next_step", "same_step", "disabled")


@pytest.fixture
def make_vec(sandbox, total_task):
    """Function: keyword arguments -> vector environment over five tasks about totals, in the shared sandbox."""
    made = []

    def make(num_envs=3, **arguments):
        defaults = {"tasks": [total_task(f"total/{i}") for i in range(5)], "sandbox": sandbox}
        made.append(gym.make_vec(ID, num_envs=num_envs, **{**defaults, **arguments}))
        return made[-1]

    yield make
    for envs in made:
        envs.close()


def _actions(answer, num_envs=3):
    """Sub-environment i answers in step i + 1 and asks in the others."""
    return [
        [answer if turn == i else f"How do you round in turn {turn}?" for i in range(num_envs)] for turn in range(num_envs + 2)
    ]


def _play(envs, answer, num_envs=3):
    return [envs.reset(seed=5), *(envs.step(actions) for actions in _actions(answer, num_envs))]


@pytest.mark.parametrize("mode", MODES)
def test_ours_equals_gymnasiums_synchronous_one(make_vec, answer, mode):
    ours = make_vec(autoreset_mode=mode)
    theirs = make_vec(vectorization_mode="sync", vector_kwargs={"autoreset_mode": AutoresetMode[mode.upper()]})
    assert ours.metadata["autoreset_mode"] == theirs.metadata["autoreset_mode"]
    assert ours.single_observation_space == theirs.single_observation_space
    if mode == "disabled":  # Gymnasium's refuses to step a finished environment
        mine, yours = (envs.reset(seed=5) for envs in (ours, theirs))
        assert data_equivalence(mine, yours)
        assert data_equivalence(ours.step([answer] * 3), theirs.step([answer] * 3))
        return
    for mine, yours in zip(_play(ours, answer), _play(theirs, answer), strict=True):
        assert data_equivalence(mine, yours)


def test_memory_of_a_task_is_needed_once_for_all(make_vec):
    envs = make_vec()
    envs.reset(options={"task_id": ["total/4", "total/0", "total/2"]})
    assert [env.unwrapped.task.id for env in envs.envs] == ["total/4", "total/0", "total/2"]
    for name in ("tasks", "_index"):
        assert len({id(getattr(env.unwrapped, name)) for env in envs.envs}) == 1, name


def test_the_asynchronous_one_gives_the_same(make_vec, answer):
    tasks = "embedded:test"
    kinds = ({"vectorization_mode": "async", "vector_kwargs": {"shared_memory": False}}, {"vectorization_mode": "sync"})
    runs = []
    for kind in kinds:
        envs = make_vec(2, tasks=tasks, sandbox="embedded", **kind)
        runs.append([*_play(envs, answer, 2), envs.call("hidden_information")])
        envs.close()
    assert data_equivalence(*runs)


def test_shared_memory_is_refused_rather_than_wrong(make_vec):
    with pytest.raises(ValueError, match="shared_memory"):
        make_vec(2, tasks="embedded:test", sandbox="embedded", vectorization_mode="async")


def test_next_step_shows_the_last_observation_and_ignores_the_next_action(make_vec, answer):
    envs = make_vec(2, autoreset_mode="next_step")
    envs.reset(seed=0)
    observations, rewards, terminated, _, infos = envs.step([answer, "How do you round?"])
    assert observations[0].endswith("```") and rewards.tolist() == [1.0, 0.0] and terminated.tolist() == [True, False]
    assert infos["metrics"]["success"][0] == 1 and infos["metrics"]["_success"].tolist() == [True, False]
    observations, rewards, terminated, _, infos = envs.step(["ignored", answer])
    assert "ignored" not in observations[0] and infos["turn"].tolist() == [0, 2]
    assert rewards.tolist() == [0.0, 1.0] and terminated.tolist() == [False, True]


def test_same_step_keeps_the_last_observation_and_info(make_vec, answer):
    envs = make_vec(2, autoreset_mode="same_step")
    envs.reset(seed=0)
    observations, rewards, terminated, _, infos = envs.step([answer, "How do you round?"])
    assert rewards.tolist() == [1.0, 0.0] and terminated.tolist() == [True, False]
    assert infos["final_obs"][0].endswith("```") and infos["final_obs"][1] is None
    assert infos["final_info"]["metrics"]["tests_passed"][0] == 1.0 and infos["_final_info"].tolist() == [True, False]
    assert observations[0] == "Human: I need the total of my prices." and infos["turn"].tolist() == [0, 1]


def test_disabled_waits_for_a_reset_by_mask(make_vec, answer):
    envs = make_vec(2, autoreset_mode="disabled")
    envs.reset(seed=0)
    first = envs.step([answer, "How do you round?"])
    second = envs.step(["ignored", "And an empty list?"])
    assert second[0][0] == first[0][0] and second[1].tolist() == [0.0, 0.0] and not second[2].any()
    assert second[4]["_turn"].tolist() == [False, True]
    observations, infos = envs.reset(options={"reset_mask": np.array([True, False]), "task_id": ["total/4", None]})
    assert observations[0] == "Human: I need the total of my prices." and observations[1] == second[0][1]
    assert infos["task_id"][0] == "total/4" and infos["_task_id"].tolist() == [True, False]
    assert envs.step([answer, answer])[1].tolist() == [1.0, 1.0]


def test_results_do_not_depend_on_the_number_of_threads(make_vec, humans, answer):
    runs = [_play(make_vec(8, max_workers=n, simulator=humans.Slow(0.001)), answer, 8) for n in (1, 3, 8)]
    assert data_equivalence(runs[0], runs[1]) and data_equivalence(runs[0], runs[2])


def test_one_dialogue_goes_on_while_the_others_stand(make_vec, answer):
    envs = make_vec()
    envs.reset(seed=5)
    asked = envs.submit(0, "How do you round?")
    _, reward, terminated, _, _ = envs.submit(1, answer).result()
    assert (reward, terminated) == (1.0, True)
    assert not asked.result()[2]
    assert [len(env.messages) for env in envs.envs] == [3, 2, 1]


def test_slow_humans_reply_at_the_same_time(make_vec, humans):
    envs = make_vec(32, simulator=humans.Together(32))
    envs.reset(seed=0)
    envs.step(["How do you round?"] * 32)  # returns only where all are asked before the first replies


def test_answers_to_one_task_run_its_reference_once(make_vec, humans, sandbox, answer, total_task):
    counting = humans.Counting(sandbox)
    task = total_task()
    envs = make_vec(8, sandbox=counting, tasks=[task])
    envs.reset(seed=0)
    assert envs.step([answer.replace("python\n", "python\nONE = 1\n")] * 8)[1].tolist() == [1.0] * 8
    assert [program.source for program in counting.programs].count(task.hidden.reference) == 1
    assert len(counting.programs) <= 1 + 8


@pytest.mark.parametrize("mode", MODES)
def test_one_failing_dialogue_does_not_stop_the_others(make_vec, humans, answer, mode):
    envs = make_vec(3, simulator=humans.Mute(always=False), autoreset_mode=mode)
    envs.reset(seed=0)
    _, rewards, terminated, truncated, infos = envs.step(["hello", "boom", answer])
    assert (rewards.tolist(), terminated.tolist(), truncated.tolist()) == (
        [0, 0, 1],
        [False, False, True],
        [False, True, False],
    )
    metrics = infos["final_info"]["metrics"] if mode == "same_step" else infos["metrics"]
    assert metrics["outcome"].tolist() == [None, "void", "passed"] and metrics["_success"].tolist() == [False, False, True]
    _, rewards, _, _, _ = envs.step([answer] * 3)
    assert rewards.tolist() == {"next_step": [1, 0, 0], "same_step": [1, 1, 1], "disabled": [1, 0, 0]}[mode]
    assert isinstance(envs.call("world_error")[1], SimulatorError)


def test_an_error_is_raised_when_all_dialogues_have_come_to_rest(make_vec, humans):
    class Half(humans.Slow):
        num_replies = 0

        def reply(self, task, dialogue, seed):
            if "boom" in dialogue.messages[-1].content:
                raise SimulatorError("boom")
            super().reply(task, dialogue, seed)
            self.num_replies += 1
            return "Okay."

    human = Half(0.1)
    envs = make_vec(3, simulator=human, on_world_error="raise")
    envs.reset(seed=0)
    with pytest.raises(SimulatorError, match="^boom$"):
        envs.step(["boom", "hello", "hello"])
    assert human.num_replies == 2


def test_the_sandbox_starts_with_the_first_step_and_ends_with_close(answer, monkeypatch):
    made = []
    make = sandboxes.make
    monkeypatch.setattr(sandboxes, "make", lambda name, workers: made.append(make(name, workers)) or made[-1])
    envs = gym.make_vec(ID, num_envs=2, tasks="embedded:test", sandbox="embedded")
    envs.reset(seed=0)
    assert not made
    envs.step(["hello", answer])
    assert len(made) == 1
    envs.close()
    envs.close()
    with pytest.raises(sandboxes.SandboxError, match="closed"):
        made[0].run([sandboxes.Program("", ("1",))])


def test_seeds_are_counted_up_or_given_one_by_one(make_vec):
    envs = make_vec(4)
    first = envs.reset(seed=np.int64(3))[1]["task_id"].tolist()
    assert envs.reset(seed=[3, 4, 5, 6])[1]["task_id"].tolist() == first
    assert envs.reset(seed=np.array([3, 4, 5, 6]))[1]["task_id"].tolist() == first
    assert envs.reset(seed=3)[1]["task_id"].tolist() == first


@pytest.mark.parametrize(
    ("act", "kind", "text"),
    [
        (lambda envs: envs.reset(seed=[1]), ValueError, r"`seed` needs 3 entries or one integer, got 1 entries\."),
        (
            lambda envs: envs.reset(options={"task_id": ["a"]}),
            ValueError,
            r"`reset_mask` and `task_id` need 3 entries, got \(3,\) and 1\.",
        ),
        (lambda envs: envs.step(["a"]), ValueError, r"`actions` needs 3 entries, got 1\."),
        (
            lambda envs: envs.step(["a"] * 3),
            gym.error.ResetNeeded,
            r"Expected episodes under way; call `reset` before `step`\.",
        ),
    ],
)
def test_wrong_calls_are_refused(make_vec, act, kind, text):
    with pytest.raises(kind, match=f"^{text}$"):
        act(make_vec(3))


def test_actions_that_are_no_text_are_refused(make_vec):
    envs = make_vec(2)
    envs.reset(seed=0)
    with pytest.raises(TypeError, match="^`action` must be a string, got int"):
        envs.step(["a", 1])


def test_wrong_arguments_are_refused():
    text = r"^`num_envs`, `sandbox_workers` and `max_workers` must be positive, got 2, 2 and 0\.$"
    with pytest.raises(ValueError, match=text):
        gym.make_vec(ID, num_envs=2, max_workers=0)
    with pytest.raises(
        ValueError, match=r"^`autoreset_mode` must be one of \['disabled', 'next_step', 'same_step'\], got 'never'\.$"
    ):
        gym.make_vec(ID, num_envs=2, autoreset_mode="never")


def test_rendering_gives_all_transcripts(make_vec):
    envs = make_vec(2, render_mode="ansi")
    observations, _ = envs.reset(seed=0)
    assert envs.render() == observations
    assert make_vec(2).render() is None
