"""New draws of what is hidden: other tasks of the family that agree with the dialogue."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from colbench_gym.dialogue import Dialogue
from colbench_gym.envs.backend import BackendEnv
from colbench_gym.simulators.facts.scripted_human import ScriptedHuman
from colbench_gym.tasks import embedded
from colbench_gym.tasks.embedded import SPLITS, alternatives, embedded_tasks, family_of, task_of


@pytest.fixture
def begun(make_env):
    """Function: arguments -> an environment in an episode of its first task, the questions about the special wishes, and a snapshot after some of them."""

    def begin(questions=0, split="train", **arguments):
        (task, *_) = tasks = embedded_tasks(split)[:1]
        env: BackendEnv = make_env(tasks=tasks, **arguments).unwrapped
        env.reset(options={"task_id": task.id})
        for fact in [fact for fact in task.hidden.facts if fact.is_special][:questions]:
            env.step(fact.phrases[0])
        return env, json.loads(json.dumps(env.get_state()))

    return begin


def _drawn(env, state, count=400):
    ids = []
    for seed in range(count):
        env.set_state(state, reseed=seed)
        env.redraw_hidden(seed)
        ids.append(env.task.id)
    return Counter(ids)


@pytest.mark.parametrize("questions", [0, 1, 2])
def test_each_task_that_agrees_with_the_dialogue_is_drawn_equally_often(begun, questions):
    env, state = begun(questions)
    first, human = env.task, ScriptedHuman()
    family, _ = family_of(first)
    prefixes = [Dialogue.from_dicts(env.messages[:i]) for i in range(2, len(env.messages), 2)]
    agreeing = [
        task
        for task in (task_of(f"{first.id.rpartition('/')[0]}/{''.join(map(str, choice))}") for choice in alternatives(first))
        if [human.reply(task, dialogue, 0) for dialogue in prefixes] == [message["content"] for message in env.messages[2::2]]
    ]
    drawn, share = _drawn(env, state), 400 / len(agreeing)
    assert {*drawn} == {task.id for task in agreeing} and len(agreeing) > (questions < 2)
    assert all(abs(count - share) <= 4 * share**0.5 for count in drawn.values())
    assert {task_of(name).description for name in drawn} == {first.description} and family_of(task_of(first.id))[0] is family


def test_the_episode_goes_on_with_the_drawn_task(begun):
    env, state = begun(1)
    messages, hidden = env.messages, env.hidden_information
    while env.hidden_information == hidden:
        env.redraw_hidden(len(hidden) + env.np_random.integers(1000))
    assert env.messages == messages and env.turn_limit == 6
    reference, snapshot = env.reference, env.get_state()
    assert snapshot["redrawn"] and "redrawn" not in state
    env.reset()
    env.set_state(snapshot)
    assert env.reference == env.hidden_information == reference and env.messages == messages
    assert env.step(f"I WANT TO ANSWER:\n```python\n{reference}\n```")[1] == 1.0
    env.set_state(state)
    assert env.hidden_information == hidden
    assert env.step(f"I WANT TO ANSWER:\n```python\n{reference}\n```")[1] == 0.0


def test_equal_seeds_draw_equal_tasks_and_leave_the_future_as_it_was(begun):
    env, state = begun(0)
    env.set_state(state, reseed=1)
    before = env.get_state()["rng"]
    env.redraw_hidden(3)
    assert env.get_state()["rng"] == before
    first = env.task
    env.set_state(state, reseed=2)
    env.redraw_hidden(3)
    assert env.task == first


def test_a_limit_of_turns_stays(begun):
    env, state = begun(0, max_turns=3)
    env.redraw_hidden(1)
    assert env.turn_limit == 3 and "3" in env.task.description and env.task.description == env.messages[0]["content"]
    env.set_state(env.get_state())
    assert env.turn_limit == 3 and state["task_id"].split("/")[:3] == env.task.id.split("/")[:3]


def test_a_human_whose_replies_cannot_be_repeated_is_compared_by_its_facts(begun):
    class Moody(ScriptedHuman):
        is_deterministic = False

    env, state = begun(1, simulator=Moody())
    special = next(i for i, fact in enumerate(env.task.hidden.facts) if fact.is_special)
    option = family_of(env.task)[1][special]
    assert len(drawn := _drawn(env, state, 60)) > 1 and all(family_of(task_of(name))[1][special] == option for name in drawn)


@pytest.mark.parametrize("split", SPLITS)
def test_alternatives_are_of_the_tasks_own_split(split):
    for task in embedded_tasks(split)[:20]:
        family, choice = family_of(task)
        others = alternatives(task)
        assert choice in others and len({*others}) == len(others)
        if split != "novel":
            assert {embedded._split_of(family.reference(other)) for other in others} == {
                embedded._split_of(family.reference(choice))
            }


def test_a_task_without_a_family_is_refused(make_env):
    env = make_env().unwrapped
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"^Expected an embedded task, got 'total/\d'; only those know their family\.$"):
        env.redraw_hidden(0)
