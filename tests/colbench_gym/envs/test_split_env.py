"""ColBench-Split-v0: what one agent can achieve alone, exactly; and that two of them can do what one cannot."""

from __future__ import annotations

import itertools
import json
import re
import warnings
from functools import partial
from pathlib import Path

import gymnasium as gym
import pytest
from gymnasium.utils.env_checker import check_env, data_equivalence

from colbench_gym.envs.split import COLLEAGUE, HALVES, SplitEnv, ceiling, half_of, is_split, known_to
from colbench_gym.errors import TaskError
from colbench_gym.tasks import load_tasks
from colbench_gym.tasks.embedded import dial_of, family_of, make_task
from sandboxes.values import fingerprint_of
from tests.colbench_gym.envs.team_tools import played

ID = "ColBench-Split-v0"
TASKS = SplitEnv.load_tasks("embedded:test[:60]")


@pytest.fixture
def make_split(sandbox):
    """Function: arguments -> the environment through `gym.make`, on embedded tasks in the shared sandbox."""
    made = []

    def make(**arguments):
        made.append(gym.make(ID, **{"tasks": TASKS, "sandbox": sandbox, **arguments}))
        return made[-1].unwrapped

    yield make
    for env in made:
        env.close()


def _asks(task, half):
    """Questions about the topics of a half that can have a wish."""
    family, _ = family_of(task)
    return [family.topics[i].asks[0] for i in sorted(half_of(family, half) & {*family.relevant})]


def _choice(task, replies):
    """For each topic the option that was stated; None for one that was not."""
    family, _ = family_of(task)
    heard = "\n".join(replies)
    return [next((i for i, option in enumerate(topic.options) if option.says in heard), None) for topic in family.topics]


def _program(task, replies):
    """The program of a programmer who has heard these replies, and the plain choice where nothing was heard."""
    family, _ = family_of(task)
    return f"I WANT TO ANSWER:\n{family.reference(tuple(option or 0 for option in _choice(task, replies)))}"


def _ideal_pair(env, task_id):
    """Each agent asks about its half; the first hands over what it heard."""
    env.reset(options={"task_id": task_id})
    for question in _asks(env.task, "first"):
        env.step(question)
    env.step(f"HAND OVER: {' '.join(env.replies)}")
    for question in _asks(env.task, "second"):
        env.step(question)
    seen = [message["content"] for message in env.messages]  # with the note
    return env.step(_program(env.task, seen))[1]


def _best_alone(env, task_id, half, guess):
    """One agent asks about its half, and guesses the wishes of the other as `guess` says."""
    env.reset(options={"task_id": task_id})
    for question in _asks(env.task, half):
        env.step(question)
    return env.step(f"I WANT TO ANSWER:\n{guess(env.task, half, _choice(env.task, env.replies))}")[1]


@pytest.fixture(scope="module")
def specifications():
    """Function: task -> all specifications of its family with a wish in both halves, as tasks."""

    def every(task):
        (family, _), dial = family_of(task), dial_of(task)
        tasks = [make_task(family, choice, dial) for choice in family.choices(dial.wishes)]
        return [task for task in tasks if is_split(task.id)]

    return every


def _guess(specifications, task, half, heard):
    """The program of the first specification of the family that agrees with what was heard."""
    agreeing = [
        other.hidden.reference
        for other in specifications(task)
        if all(option in (None, chosen) for option, chosen in zip(heard, family_of(other)[1], strict=True))
    ]
    return agreeing[0]


def test_check_env_without_any_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for alone in ("", "first"):
            env = gym.make(ID, alone=alone, tasks="embedded:test[:40]", sandbox="embedded", render_mode="ansi")
            check_env(env.unwrapped)
            env.close()


def test_halves_share_out_the_topics_and_those_that_can_have_a_wish():
    for task in load_tasks("embedded:train[:60]"):
        family, choice = family_of(task)
        first, second = (half_of(family, half) for half in HALVES)
        assert not first & second and first | second == {*range(12)} and len(first) == len(second) == 6
        assert [len(half & {*family.relevant}) for half in (first, second)] == [2, 1]
        assert is_split(task.id) == all(any(choice[i] for i in half) for half in (first, second))
    assert 0 < len(TASKS) < 60 and all(is_split(task.id) for task in TASKS)


@pytest.mark.parametrize("half", HALVES)
def test_the_human_tells_an_agent_its_half_alone(make_split, half):
    env = make_split(alone=half, max_turns=13)
    for task in TASKS[:5]:
        env.reset(options={"task_id": task.id})
        family, _ = family_of(task)
        for i, (topic, fact) in enumerate(zip(family.topics, task.hidden.facts, strict=True)):
            reply = env.step(topic.asks[0])[4]["messages"][-1]["content"]
            assert reply == (fact.sentence if i in half_of(family, half) else COLLEAGUE)
        other = [
            fact.sentence for i, fact in enumerate(task.hidden.facts) if i not in half_of(family, half) and fact.is_special
        ]
        assert other and not any(sentence in env.messages[-1]["content"] for sentence in other)
        known = known_to(task, half).hidden
        assert known.calls == task.hidden.calls and not any(sentence in repr(known.facts) for sentence in other)
        assert known.reference != task.hidden.reference


def test_a_chatty_human_volunteers_no_wish_of_the_other_half(make_split):
    for half in HALVES:
        env = make_split(alone=half, simulator={"name": "scripted", "level": "chatty"})
        for task in TASKS[:10]:
            env.reset(options={"task_id": task.id})
            env.step("What is the example call?")
            own = half_of(family_of(task)[0], half)
            assert {i for i, fact in enumerate(task.hidden.facts) if fact.sentence in env.replies[0]} <= own


def test_an_ideal_pair_solves_every_task(make_split):
    env = make_split()
    assert [_ideal_pair(env, task.id) for task in TASKS[:25]] == [1.0] * 25


@pytest.mark.parametrize(("half", "most"), [("first", 0.39), ("second", 0.20)])
def test_the_best_agent_alone_has_exactly_the_ceiling(make_split, specifications, half, most):
    """Over all specifications of a family, not over the tasks of a split: which of them are in it is not known to the agent."""
    env, tasks = make_split(alone=half), TASKS[:40:8]
    every = {task.id: specifications(task) for task in tasks}
    env.tasks = tuple(itertools.chain.from_iterable(every.values()))
    env._index = {task.id: i for i, task in enumerate(env.tasks)}
    for task in tasks:
        successes = [_best_alone(env, other.id, half, partial(_guess, specifications)) for other in every[task.id]]
        assert sum(successes) / len(successes) == pytest.approx(ceiling([task], half))
    assert ceiling(TASKS, half) == pytest.approx(most, abs=0.02)


def _slow_ceiling(task, half, questions):
    """The best of all adaptive orders of questions, each followed by the best guess, by brute force over decision trees."""
    (family, _), dial = family_of(task), dial_of(task)
    left = [choice for choice in family.choices(dial.wishes) if is_split(make_task(family, choice, dial).id)]
    values = {choice: tuple(map(fingerprint_of, family.values(choice))) for choice in left}

    def best(left, open_topics, questions):
        guesses = max(sum(values[other] == values[guess] for other in left) for guess in left)
        asked = [
            sum(best([c for c in left if c[i] == option], open_topics - {i}, questions - 1) for option in {c[i] for c in left})
            for i in open_topics
            if questions
        ]
        return max([guesses, *asked])

    return best(left, half_of(family, half), questions) / len(left)


@pytest.mark.parametrize(("max_turns", "questions"), [(1, 0), (2, 1), (3, 2), (0, 5)])
def test_the_ceiling_is_that_of_all_ways_to_ask(max_turns, questions):
    task = TASKS[0]
    for half in HALVES:
        expected = _slow_ceiling(task, half, min(questions, 2))  # a half has at most two topics that matter
        assert ceiling([task], half, max_turns) == pytest.approx(expected)
    assert ceiling([task], "first", 1) < ceiling([task], "first", 2) < ceiling([task], "first", 3)


def test_whoever_knows_the_split_by_heart_guesses_better():
    for half in HALVES:
        assert ceiling(TASKS[:20], half) < ceiling(TASKS[:20], half, knows_split=True) <= 1


def test_the_page_has_the_ceilings():
    page = (Path(__file__).parents[3] / "docs" / "environments" / "split.md").read_text()
    tasks = SplitEnv.load_tasks("embedded:unseen")
    for half in HALVES:
        assert re.search(rf"`{half}` alone, ceiling .*\| {ceiling(tasks, half):.1%} \|", page)
        assert f"{ceiling(tasks, half, knows_split=True):.1%}" in page.partition("What the ceiling assumes.")[2]


def test_a_snapshot_at_every_turn_replays_the_future_in_another_environment(make_split):
    one, two = make_split(), make_split()
    steps = played(one, "", "x + 1", "Do I add tax?")
    assert [step.agent for step in steps] == ["first"] * 2 + ["second"] * 2 and "x + 1" in steps[2].observation
    two.reset(seed=3)
    for start, step in enumerate(steps):
        assert two.set_state(json.loads(json.dumps(step.state))) == (step.observation, step.info)
        assert data_equivalence([two.step(later.text) for later in steps[start:]], [later.result for later in steps[start:]])


def test_new_draws_agree_with_what_both_were_told(make_split):
    env = make_split(tasks=TASKS)
    task = TASKS[0]
    env.reset(options={"task_id": task.id})
    env.step(_asks(task, "first")[0])
    env.step("HAND OVER: nothing")
    env.step(_asks(task, "second")[0])
    heard = _choice(task, env.replies)
    drawn = set()
    for seed in range(30):
        env.redraw_hidden(seed)
        drawn.add(env.task.id)
        assert is_split(env.task.id) and env.agent == "second"
        assert all(option in (None, chosen) for option, chosen in zip(heard, family_of(env.task)[1], strict=True))
    assert task.id in drawn and len(drawn) > 1


def test_one_agent_alone_is_a_single_agent(make_split):
    env = make_split(alone="second")
    observation, info = env.reset(seed=0)
    assert "agent" not in info and observation == f"Human: {env.task.description}" and env.agents == ("agent",)
    assert not any("agent" in message for message in env.all_messages)


def test_many_pairs_at_once(sandbox):
    envs = gym.make_vec(ID, num_envs=2, tasks=TASKS, sandbox=sandbox)
    assert envs.reset(seed=0)[1]["agent"].tolist() == ["first", "first"]
    assert envs.step(["HAND OVER: x", "a question?"])[4]["agent"].tolist() == ["second", "first"]
    envs.close()


def test_what_cannot_be_split_is_refused(humans):
    with pytest.raises(ValueError, match=r"^`alone` must be 'first', 'second' or '', got 'third'\.$"):
        SplitEnv(alone="third")
    with pytest.raises(TaskError, match=r"^None of the tasks has a wish in both halves; take a dial with two relevant topics"):
        SplitEnv(tasks="embedded:train?relevant=1&wishes=1")
    with pytest.raises(
        ValueError, match=r"^`simulator` must be the scripted human, got the model 'm', which would know both halves\.$"
    ):
        SplitEnv(simulator={"name": "openai", "model": "m", "base_url": "http://127.0.0.1:1/v1"})
