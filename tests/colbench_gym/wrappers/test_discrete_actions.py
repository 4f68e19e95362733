"""Episodes as actions."""

from __future__ import annotations

from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

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


class Numbers:
    """A menu of the user's own, without a potential."""

    count, observation_size = 3, 2

    def observe(self, messages):
        return np.array([len(messages) / 10, messages[-1]["content"] == "Higher."], np.float32)

    def say(self, action, messages):
        return f"Is it {action}?"

    def allowed(self, messages):
        return np.ones(3, bool)


class Guess(gym.Env):
    """Its number is 2; its infos have no messages."""

    observation_space = action_space = gym.spaces.Text(100)
    discrete_actions = Numbers()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return "Guess.", {}

    def step(self, action):
        is_right = "2" in action
        return "Right." if is_right else "Higher.", float(is_right), is_right, False, {}


@pytest.mark.filterwarnings("ignore:.*different from the unwrapped version")
def test_any_text_environment_takes_a_menu():
    for env in (DiscreteActions(Guess()), DiscreteActions(Guess(), Numbers())):
        check_env(env, skip_render_check=True)
        assert env.reset(seed=0)[0].tolist() == [np.float32(0.1), 0.0]
        observation, reward, ended, _, _ = env.step(1)
        assert observation.tolist() == [np.float32(0.3), 1.0] and (reward, ended) == (0.0, False)
        assert env.step(np.int64(2))[1:3] == (1.0, True)
        assert [message["content"] for message in env.messages] == ["Guess.", "Is it 1?", "Higher.", "Is it 2?", "Right."]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: DiscreteActions(gym.make("CartPole-v1"), QUESTIONS), "`env` must be a text environment, got CartPoleEnv"),
        (
            lambda: DiscreteActions(Guess(), QuestionActions),
            "`actions` must be an object with count, .* such as QuestionActions",
        ),
        (lambda: DiscreteActions(Guess(), 3), "`actions` must be an object"),
    ],
)
def test_what_is_no_text_environment_and_no_menu_is_refused(make, says):
    with pytest.raises(TypeError, match=says):
        make()


@pytest.mark.parametrize("action", [13, 99, -1, 1.5, "0", None, np.array([3])])
def test_an_action_that_is_none_is_refused_and_changes_nothing(asking, action):
    asking.reset(seed=0)
    with pytest.raises(ValueError, match=r"^`action` must be an integer from 0 to 12, got "):
        asking.step(action)
    assert len(asking.messages) == 1


def test_a_step_before_a_reset_is_refused(asking):
    for act in (lambda: asking.step(0), asking.action_masks):
        with pytest.raises(RuntimeError, match="call `reset` first"):
            act()


@pytest.mark.parametrize(("source", "count"), [("embedded:train", 13), ("embedded:test?preset=easy[:5]", 6)])
def test_the_environment_has_the_menu_of_its_tasks(sandbox, source, count):
    env = DiscreteActions(BackendEnv(source, sandbox=sandbox))
    env.reset(seed=0)
    assert env.action_space.n == count and env.step(0)[2] is False


def test_tasks_without_a_menu_have_none(sandbox):
    mixed = [*load_tasks("embedded:test[:1]"), *load_tasks("embedded:test?preset=easy[:1]")]
    row = [replace(mixed[0], id="rows/1")]
    for tasks in (mixed, row):
        env = BackendEnv(tasks, sandbox=sandbox)
        assert not hasattr(env, "discrete_actions")
        with pytest.raises(TypeError, match="made for embedded tasks of one dial"):
            DiscreteActions(env)
    assert not hasattr(gym.make("ColBench-Team-v0", disable_env_checker=True).unwrapped, "discrete_actions")


def test_a_restored_snapshot_is_the_dialogue_of_the_next_action(asking):
    asking.reset(seed=0)
    before, allowed = asking.unwrapped.get_state(), asking.action_masks().tolist()
    asking.step(0)
    assert asking.action_masks().tolist() != allowed
    asking.unwrapped.set_state(before)
    assert asking.action_masks().tolist() == allowed and len(asking.messages) == 1


def test_a_dial_may_be_a_text():
    assert QuestionActions("preset=hard").count == 17
    with pytest.raises(ValueError, match="A dial may set"):
        QuestionActions("hard")


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
    check = pytest.importorskip("stable_baselines3.common.env_checker").check_env
    check(asking, warn=True)
    check(_design_env(layouts), warn=True)


@pytest.mark.parametrize(
    ("name", "arguments", "says"),
    [
        ("LMRL-Maze-v0", {}, "Maze has no `discrete_actions`; give a menu as the second argument"),
        ("ColBench-Split-v0", {"alone": "first"}, "single agent.*; give a menu as the second argument"),
    ],
)
def test_an_environment_without_a_menu_is_refused(name, arguments, says):
    with pytest.raises(TypeError, match=says):
        DiscreteActions(gym.make(name, **arguments))


@pytest.mark.filterwarnings("ignore:.*render_mode='rgb_array'")
def test_sb3_makes_vector_environments():
    from stable_baselines3.common.env_util import make_vec_env

    envs = make_vec_env(
        "ColBench-Backend-v0", 2, wrapper_class=DiscreteActions
    )  # asks for "rgb_array" first, and expects a TypeError
    assert envs.reset().shape == (2, envs.observation_space.shape[0]) and envs.get_attr("render_mode") == [None, None]
    envs.close()
    with pytest.raises(TypeError, match="`render_mode` must be None or 'ansi', got 'rgb_array'"):
        gym.make("LMRL-Maze-v0", render_mode="rgb_array")
