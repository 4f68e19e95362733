"""ColBench-Frontend-v0 with a real browser: the contract, the score, the person, and what is hidden."""

from __future__ import annotations

import io
import pickle

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("playwright")

import colbench_gym  # noqa: F401  (registers the environment)
from colbench_gym.errors import ColBenchError
from colbench_gym.tasks import load_tasks
from colbench_gym.tasks.designs.design import plain_design
from colbench_gym.tasks.designs.embedded import design_of
from sandboxes import SandboxError
from sandboxes.browser import Browser

pytestmark = pytest.mark.browser
TASKS = load_tasks("embedded:train[:6]", kind="page")
DRAFT = {task.id: plain_design(design_of(task).topic).html() for task in TASKS}


@pytest.fixture(scope="module")
def browser(needs_browser):
    with Browser(workers=2) as browser:
        yield browser


@pytest.fixture
def make(browser):
    return lambda **arguments: gym.make("ColBench-Frontend-v0", **{"tasks": TASKS, "sandbox": browser, **arguments})


def test_a_person_says_what_differs_and_the_last_page_is_scored(make):
    env = make()
    observation, info = env.reset(seed=0, options={"task_id": TASKS[0].id})
    assert observation == f"Human: {TASKS[0].description}" and info["turn"] == 0
    observation, reward, terminated, truncated, info = env.step(f"Like this?\n{DRAFT[TASKS[0].id]}")
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert info["messages"][-1]["role"] == "user" and " should " in info["messages"][-1]["content"]
    _, reward, terminated, truncated, info = env.step("I WANT TO ANSWER:")
    assert terminated and not truncated and 0 < reward < 1
    assert info["metrics"] == {"success": 0, "similarity": reward, "outcome": "rendered", "answered": 1, "turns": 2}


def test_the_page_in_mind_scores_one_and_pleases_the_person(make):
    env = make()
    env.reset(options={"task_id": TASKS[1].id})
    assert env.step(TASKS[1].hidden.reference)[4]["messages"][-1]["content"] == "That looks right to me."
    _, reward, _, _, info = env.step("I WANT TO ANSWER:")
    assert reward == pytest.approx(1.0, abs=1e-6) and info["metrics"]["success"] == 1


def test_no_page_is_an_outcome_and_so_is_one_that_breaks(make):
    env = make()
    env.reset(options={"task_id": TASKS[0].id})
    assert env.step("What do you like?")[4]["messages"][-1]["content"].startswith("I see no page yet. ")
    metrics = env.step("I WANT TO ANSWER: nothing")[4]["metrics"]
    assert metrics["outcome"] == "no_page" and metrics["similarity"] < 0.25
    env.reset(options={"task_id": TASKS[0].id})
    assert env.step("I WANT TO ANSWER:\n<p>" + "x" * 1_000_001 + "</p>")[4]["metrics"]["outcome"] == "too_large"


def test_the_turn_limit_hands_in_the_last_page(make):
    env = make(max_turns=2)
    env.reset(options={"task_id": TASKS[1].id})
    env.step(TASKS[1].hidden.reference)
    _, reward, terminated, _, info = env.step("Do you like it?")
    assert terminated and reward == pytest.approx(1.0) and info["metrics"]["answered"] == 0


def test_edits_change_the_last_page(make):
    reference = TASKS[1].hidden.reference
    title = design_of(TASKS[1]).topic.name
    wrong = reference.replace(f">{title}</h1>", "></h1>", 1)
    edit = f"<<<<<<< SEARCH\n></h1>\n=======\n>{title}</h1>\n>>>>>>> REPLACE"
    env = make(edits=True)
    env.reset(options={"task_id": TASKS[1].id})
    assert "missing" in env.step(wrong)[4]["messages"][-1]["content"]
    assert env.step(edit)[4]["messages"][-1]["content"] == "That looks right to me."
    assert env.step("I WANT TO ANSWER:")[1] == pytest.approx(1.0)
    env.reset(options={"task_id": TASKS[1].id})
    env.step(wrong)
    assert env.step(f"I WANT TO ANSWER:\n{edit}")[1] == pytest.approx(1.0)  # in the last message too, and once


def test_a_candidate_can_be_scored_without_ending_the_episode(make):
    env = make()
    env.reset(options={"task_id": TASKS[1].id})
    score = env.get_wrapper_attr("score_answer")
    assert score(TASKS[1].hidden.reference)["success"] == 1 and score("words")["outcome"] == "no_page"
    assert env.step("hello")[2] is False


def test_the_same_seed_and_actions_give_the_same_dialogue(make, browser):
    dialogues = []
    for _ in range(2):
        env = make()
        env.reset(seed=7)
        info = env.step(DRAFT[env.unwrapped.task.id])[4]
        dialogues.append((info["messages"], env.step("I WANT TO ANSWER:")[1]))
    assert dialogues[0] == dialogues[1]


def test_a_snapshot_is_gone_back_to(make):
    env = make()
    env.reset(seed=1, options={"task_id": TASKS[1].id})
    env.step(DRAFT[TASKS[1].id])
    state = env.get_wrapper_attr("get_state")()
    assert TASKS[1].hidden.reference not in str(state)
    first = env.step("I WANT TO ANSWER:")[1]
    other = make().unwrapped
    other.set_state(state)
    assert other.step("I WANT TO ANSWER:")[1] == first


def test_what_is_hidden_stays_hidden(make):
    env = make()
    for task in TASKS:
        observation, info = env.reset(options={"task_id": task.id})
        observation, _, _, _, info = env.step(DRAFT[task.id])
        assert task.hidden.reference not in observation and task.hidden.reference not in str(info)
        assert env.get_wrapper_attr("hidden_information") == task.hidden.reference


def test_the_picture_of_the_last_page_is_rendered(make):
    env = make(render_mode="rgb_array")
    env.reset(options={"task_id": TASKS[0].id})
    blank = env.render()
    assert blank.shape == (720, 1280, 3) and (blank == 255).all()
    env.step('<body style="margin:0;background:rgb(1,2,3)">')
    assert tuple(env.render()[700, 1000]) == (1, 2, 3) and env.render().dtype == np.uint8
    env.step("<body>" + "<div>x</div>" * 200_000 + "</body>")  # does not come up
    assert env.render().shape == (720, 1280, 3) and not env.render().any()


def test_a_vector_of_dialogues_gives_what_each_gives_alone(browser):
    with_ids = {"task_id": [task.id for task in TASKS]}
    envs = gym.make_vec("ColBench-Frontend-v0", num_envs=6, tasks=TASKS, sandbox=browser, autoreset_mode="disabled")
    envs.reset(seed=list(range(6)), options=with_ids)
    envs.step([DRAFT[task.id] for task in TASKS])
    _, rewards, terminated, _, infos = envs.step(["I WANT TO ANSWER:"] * 6)
    assert terminated.all() and infos["metrics"]["similarity"].tolist() == rewards.tolist()
    alone = gym.make("ColBench-Frontend-v0", tasks=TASKS, sandbox=browser)
    for task, reward in zip(TASKS, rewards, strict=True):
        alone.reset(options={"task_id": task.id})
        alone.step(DRAFT[task.id])
        assert alone.step("I WANT TO ANSWER:")[1] == reward
    assert len({id(env.simulator) for env in envs.envs}) == 1
    envs.close()


def test_the_environment_can_be_copied(make):
    env = make(sandbox="embedded").unwrapped
    copy = pickle.loads(pickle.dumps(env))
    copy.reset(options={"task_id": TASKS[1].id})
    assert copy.step(f"I WANT TO ANSWER:\n{TASKS[1].hidden.reference}")[1] == pytest.approx(1.0)
    copy.close()


def test_the_person_follows_the_level(make):
    said = {}
    for level in ("terse", "normal", "chatty"):
        env = make(simulator={"name": "scripted", "level": level})
        env.reset(options={"task_id": TASKS[0].id})
        said[level] = env.step(DRAFT[TASKS[0].id])[4]["messages"][-1]["content"]
    assert said["normal"].startswith(said["terse"]) and said["chatty"].startswith(said["normal"])
    assert len(said["terse"]) < len(said["normal"]) < len(said["chatty"]) <= 1000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"reward": "tests_passed"}, "`reward` must be"),
        ({"success_at": 0}, "`success_at` must be"),
        ({"sandbox": "none"}, "`sandbox` must be one of"),
        ({"similarity": "eyes"}, "`similarity` must be"),
        (
            {"simulator": "openai"},
            "The 'openai' simulator takes model, settings; got \\[\\]: missing a required argument: 'model'",
        ),
        ({"simulator": "robot"}, "`simulator` must be one of .*, got 'robot'"),
        ({"simulator": {"name": "scripted", "level": "mute"}}, "`level` must be"),
    ],
)
def test_wrong_arguments_are_refused(make, arguments, message):
    with pytest.raises(ValueError, match=message):
        make(**arguments)


def test_without_a_browser_the_episode_is_void_or_an_error(tmp_path):
    def nothing(folder):
        raise SandboxError("No browser here; install one.")

    def make_env(**arguments):
        return gym.make("ColBench-Frontend-v0", tasks=TASKS, sandbox=Browser(launcher=nothing), **arguments)

    env = make_env()
    env.reset(seed=0)
    _, _, terminated, truncated, info = env.step("<p>x</p>")
    assert truncated and not terminated and info["metrics"]["outcome"] == "void"
    assert "No browser here" in str(env.get_wrapper_attr("world_error"))
    env = make_env(on_world_error="raise")
    env.reset(seed=0)
    with pytest.raises(ColBenchError, match="No browser here"):
        env.step("I WANT TO ANSWER:\n<p>x</p>")


def test_a_person_can_be_the_agent(browser, capsys, monkeypatch):
    from colbench_gym import play

    monkeypatch.setattr("sys.stdin", io.StringIO("Like this?\n<h1>Crumb</h1>\n\nI WANT TO ANSWER:\n\n"))
    assert play.main(["--env", "ColBench-Frontend-v0", "--sandbox", "embedded", "--seed", "1"]) == 0
    said = capsys.readouterr().out
    assert "put the page in a ``` fence" in said and "Similarity: " in said and "Outcome: rendered, after 2 turns." in said


@pytest.mark.parametrize(
    ("arguments", "pictures"),
    [
        ({}, False),
        ({"render_mode": "rgb_array"}, True),
        ({"similarity": "encoder"}, True),
        ({"simulator": {"name": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1"}}, True),
        ({"simulator": {"name": "scripted", "level": "terse"}}, False),
    ],
)
def test_pictures_are_made_where_somebody_looks_at_them(arguments, pictures):
    env = gym.make("ColBench-Frontend-v0", tasks=TASKS, sandbox="embedded", **arguments).unwrapped
    assert env.browser.pictures == pictures
    env.close()
