"""Episodes as actions."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

import colbench_gym  # noqa: F401  (registers the environments)
from colbench_gym.dialogue import Dialogue
from colbench_gym.envs.backend import BackendEnv
from colbench_gym.tasks import load_tasks
from colbench_gym.tasks.designs.design import SLOTS
from colbench_gym.tasks.designs.embedded import design_of
from colbench_gym.tasks.dial import PRESETS, parse_dial
from colbench_gym.tasks.embedded import family_of
from colbench_gym.wrappers import DiscreteActions, QuestionActions
from colbench_gym.wrappers.discrete_actions import hashed_words
from colbench_gym.wrappers.slot_actions import SlotActions, design_so_far, page_of

QUESTIONS, SLOT_ACTIONS = QuestionActions(), SlotActions()
EASY = PRESETS["easy"]
PAGE_TASK = load_tasks("embedded:train[:1]", kind="page")[0]


@pytest.fixture
def asking(sandbox):
    env = DiscreteActions(BackendEnv("embedded:train[:20]", sandbox=sandbox, max_turns=QUESTIONS.topics + 1), QUESTIONS)
    yield env
    env.close()


def _design_env(browser=None, **arguments):
    pytest.importorskip("playwright")
    return DiscreteActions(
        gym.make("ColBench-Frontend-v0", tasks=[PAGE_TASK], disable_env_checker=True, sandbox=browser, **arguments),
        SLOT_ACTIONS,
    )


@pytest.fixture(scope="module")
def layouts(needs_browser):
    pytest.importorskip("playwright")
    from sandboxes.browser import LayoutBrowser

    with LayoutBrowser(workers=1) as browser:
        yield browser


def test_asking_about_every_topic_and_answering_succeeds_on_every_task(asking):
    for task in asking.unwrapped.tasks:
        asking.reset(options={"task_id": task.id})
        for topic in range(QUESTIONS.topics):
            *_, ended, _, _ = asking.step(topic)
            assert not ended
        _, reward, ended, _, info = asking.step(QUESTIONS.topics)
        assert (reward, ended) == (1.0, True), (task.id, info["messages"])


@pytest.mark.parametrize("query", ["preset=easy", "preset=standard", "preset=hard", "topics=8&relevant=4&wishes=1-4"])
def test_asking_about_what_can_matter_succeeds_within_the_tasks_own_turns(sandbox, query):
    actions = QuestionActions(parse_dial(query))
    env = DiscreteActions(BackendEnv(f"embedded:train?{query}[:20]", sandbox=sandbox), actions)
    for task in env.unwrapped.tasks:
        env.reset(options={"task_id": task.id})
        for topic in family_of(task)[0].relevant:
            env.step(topic)
        assert env.step(actions.topics)[1] == 1.0, task.id
    env.close()


def test_the_list_is_longer_than_the_dialogue(sandbox):
    env = DiscreteActions(BackendEnv("embedded:train[:20]", sandbox=sandbox), QUESTIONS)
    env.reset(seed=3)
    assert [env.step(topic)[2] for topic in range(6)] == [False] * 5 + [True] and QUESTIONS.topics == 12
    env.close()


def test_the_acts_are_those_of_their_dial():
    assert (QUESTIONS.count, QuestionActions(EASY).count, QuestionActions(PRESETS["hard"]).count) == (13, 6, 17)
    task = load_tasks("embedded:test?preset=easy[:1]")[0]
    messages = Dialogue().add("user", task.description).to_dicts()
    assert QuestionActions(EASY).allowed(messages).tolist() == [True] * 6
    with pytest.raises(
        ValueError, match="only support embedded tasks .* with the dial 'standard'; give `QuestionActions` the dial of your"
    ):
        QUESTIONS.say(0, messages)


def test_acts_know_the_family_whatever_turns_the_request_says():
    task = load_tasks("embedded:test[:1]")[0]
    for turns in (2, 6, 50):
        messages = Dialogue().add("user", task.with_turns(turns).description).to_dicts()
        assert QUESTIONS.say(3, messages) == family_of(task)[0].topics[3].asks[0]


def test_an_answer_without_questions_is_the_plain_one_and_fails(asking):
    rewards = []
    for task in asking.unwrapped.tasks:
        asking.reset(options={"task_id": task.id})
        rewards.append(asking.step(QUESTIONS.topics)[1])
    assert set(rewards) == {0.0}


def test_what_was_asked_and_heard_is_seen_and_masked(asking):
    observation, _ = asking.reset(seed=3)
    assert observation[: 2 * QUESTIONS.topics + 1].tolist() == [0.0] * (2 * QUESTIONS.topics + 1)
    assert asking.action_masks().all()
    observation, *_ = asking.step(1)
    asked, heard = np.split(observation[: 2 * QUESTIONS.topics], 2)
    second = [0, 1, *[0] * (QUESTIONS.topics - 2)]
    assert asked.tolist() == second and heard.tolist() == second
    assert asking.action_masks().tolist() == [True, False, *[True] * (QUESTIONS.topics - 1)]


def test_the_second_time_a_question_is_put_in_other_words(asking):
    asking.reset(seed=3)
    asking.step(1)
    asking.step(1)
    said = [message["content"] for message in asking.unwrapped.messages if message["role"] == "assistant"]
    assert len(set(said)) == 2


def test_acts_are_for_embedded_tasks():
    messages = Dialogue().add("user", "Please write me something.").to_dicts()
    for actions in (QUESTIONS, SLOT_ACTIONS):
        with pytest.raises(ValueError, match="embedded"):
            actions.say(0, messages)
    with pytest.raises(TypeError, match="ColBench"):
        DiscreteActions(gym.make("CartPole-v1"), QUESTIONS)


def test_a_slot_is_set_by_its_act_and_stays_set():
    messages = Dialogue().add("user", PAGE_TASK.description).to_dicts()
    choices = [(slot, option) for slot, options in SLOTS.items() for option in options]
    for slot, option in (("tone", "green"), ("layout", "form"), ("tone", "pink")):
        action = choices.index((slot, option))
        messages = [
            *messages,
            {"role": "assistant", "content": SLOT_ACTIONS.say(action, messages)},
            {"role": "user", "content": "?"},
        ]
        assert design_so_far(messages)[slot] == option
        assert not SLOT_ACTIONS.allowed(messages)[action]
    assert design_so_far(messages)["layout"] == "form"
    assert len(choices) == SLOT_ACTIONS.count


def test_the_agent_sees_what_the_person_quotes_and_never_the_page_in_mind():
    design = design_of(PAGE_TASK)
    first = Dialogue().add("user", PAGE_TASK.description).to_dicts()
    shown = [*first, {"role": "assistant", "content": SLOT_ACTIONS.say(0, first)}]
    heard = [*shown, {"role": "user", "content": f'It should say "{design.topic.headlines[1]}" where it says something else.'}]
    quoted = SLOT_ACTIONS.observe(heard)[sum(map(len, SLOTS.values())) :][:5]
    assert quoted.tolist() == [0, 1, 0, 0, 0]
    assert SLOT_ACTIONS.observe(heard).shape == (SLOT_ACTIONS.observation_size,)


def test_words_are_hashed_alike_everywhere():
    assert np.flatnonzero(hashed_words("The bar, the BAR!", 8)).tolist() == np.flatnonzero(hashed_words("bar the", 8)).tolist()
    assert hashed_words("", 8).sum() == 0


@pytest.mark.browser
def test_rewards_of_a_design_are_the_changes_of_its_similarity(layouts):
    env = _design_env(layouts)
    wanted = design_of(PAGE_TASK)
    choices = [(slot, option) for slot, options in SLOTS.items() for option in options]
    env.reset(seed=0)
    before = SLOT_ACTIONS.potential(env.unwrapped)
    slots = ("layout", "tone", "shade", "ground", "links", "headline", "photo", "footer", "cards", "card")
    total, ends = 0.0, []
    for slot in slots:
        _, reward, ended, _, info = env.step(choices.index((slot, wanted[slot])))
        total, ends = total + reward, [*ends, ended]
    assert ends == [False] * 9 + [True]
    assert total == pytest.approx(info["metrics"]["similarity"] - before) and total > 0.2


@pytest.mark.browser
def test_the_wanted_design_is_the_page_in_mind(layouts):
    env = _design_env(layouts)
    env.reset(seed=0)
    *_, info = env.env.step(f"I WANT TO ANSWER:\n{page_of(design_of(PAGE_TASK))}")
    assert info["metrics"]["similarity"] == pytest.approx(1.0, abs=1e-6)


@pytest.mark.browser
def test_stable_baselines_accepts_both(asking, layouts):
    check_env = pytest.importorskip("stable_baselines3.common.env_checker").check_env
    check_env(asking, warn=True)
    check_env(_design_env(layouts), warn=True)
