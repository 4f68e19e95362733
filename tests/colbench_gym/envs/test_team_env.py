"""ColBench-Team-v0 keeps the contract of ColBench-Backend-v0, and each agent sees what its role may see."""

from __future__ import annotations

import json
import pickle
import re
import warnings

import gymnasium as gym
import pytest
from gymnasium.utils.env_checker import check_env, data_equivalence

from colbench_gym.envs.team_roles import make_team
from colbench_gym.tasks.embedded import embedded_tasks
from tests.colbench_gym.envs.team_tools import TEAMS, played

ID = "ColBench-Team-v0"
WRONG = "def total(prices):\n    return sum(prices)"


@pytest.fixture
def make_team_env(sandbox, total_task):
    """Function: roles and arguments -> the environment through `gym.make`, on tasks about totals in the shared sandbox."""
    made = []

    def make(roles="interviewer,coder", **arguments):
        defaults = {"tasks": [total_task(f"total/{i}") for i in range(5)], "sandbox": sandbox}
        made.append(gym.make(ID, roles=roles, **{**defaults, **arguments}))
        return made[-1]

    yield make
    for env in made:
        env.close()


@pytest.fixture
def code(answer):
    """The right answer without its marker."""
    return answer.partition("\n")[2]


@pytest.mark.parametrize("roles", TEAMS)
def test_check_env_without_any_warning(roles):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = gym.make(ID, roles=roles, tasks="embedded:test[:40]", sandbox="embedded", render_mode="ansi")
        check_env(env.unwrapped)
        env.close()


@pytest.mark.parametrize(("roles", "agents"), TEAMS.items())
def test_every_role_speaks_in_its_turn_and_the_outcome_is_the_teams(make_team_env, code, roles, agents):
    env = make_team_env(roles)
    steps = played(env, code)
    assert [step.agent for step in steps] == [agents[0], *agents] and env.unwrapped.agents == agents
    assert [step.reward for step in steps] == [0.0] * len(agents) + [1.0]
    info = steps[-1].result[4]
    assert (
        info["metrics"].items() >= {"success": 1, "answered": 1, "turns": len(agents) + 1}.items()
        and info["turn"] == len(agents) + 1
    )
    chosen = {"debaters:2x2": "coder1_2", "generator,verifier,refiner:2": "refiner"}
    assert info["metrics"].get("chosen") == chosen.get(roles)
    told = {role.name: role.whole_instruction for role in make_team(roles).roles}
    for step in steps:
        assert step.info["messages"][0]["content"].startswith(f"{told[step.agent]}\n\n") and told[step.agent]
        assert step.observation.endswith(f"Human: {step.info['messages'][-1]['content']}") and "metrics" not in step.info
    every = env.unwrapped.all_messages
    assert [message["agent"] for message in every] == [agents[0]] * 4 + [agent for agent in agents[1:] for _ in range(2)]
    assert env.unwrapped.messages == [{"role": m["role"], "content": m["content"]} for m in every[-2:]]


def test_the_coder_reads_the_request_and_the_note_alone(make_team_env, code):
    steps = played(make_team_env(note_chars=6), code, "abcdefgh", "SECRET question")
    (told,) = steps[-1].info["messages"]
    assert told["content"].endswith("\n\nI need the total of my prices.\n\nNote of your colleague:\nabcdef")
    assert "SECRET" not in steps[-1].observation + repr(steps[-1].result)


def test_verifier_and_refiner_read_the_dialogue_and_the_draft_and_the_refiner_the_critique(make_team_env, code):
    steps = played(make_team_env("generator,verifier,refiner"), code, WRONG, verifier="It misses the empty list.")
    dialogue = "Human: I need the total of my prices.\n\nAgent: How do you round?\n\nHuman: Round the total to two decimals."
    first, second = (step.info["messages"][0]["content"].partition("\n\n")[2] for step in steps[2:])
    assert first == f"{dialogue}\n\nDraft:\n{WRONG}" and second == f"{first}\n\nCritique:\nIt misses the empty list."


def test_a_debater_reads_the_answers_of_the_round_before_its_own_first_and_nobody_the_interviewers(make_team_env):
    says = {f"coder{coder}_{turn}": f"answer of coder{coder}_{turn}." for coder in (1, 2, 3) for turn in (1, 2, 3)}
    told = {step.agent: step.observation for step in played(make_team_env("debaters:3x3"), "", "dropped", **says)}
    assert not any("dropped" in told[agent] for agent in says)
    for coder in (1, 2, 3):
        assert not re.findall(r"answer of \w+", told[f"coder{coder}_1"])
        others = [other for other in (1, 2, 3) if other != coder]
        assert re.findall(r"answer of \w+", told[f"coder{coder}_3"]) == [f"answer of coder{a}_2" for a in (coder, *others)]


@pytest.mark.parametrize(("choose", "chosen"), [("vote", "coder2_1"), ("first", "coder1_1")])
def test_the_last_round_is_decided_by_vote_or_by_the_first_coder(make_team_env, choose, chosen):
    task = embedded_tasks("train")[0]
    same = f"```python\n# the same\n{task.hidden.reference}\n```"
    env = make_team_env("debaters:3x1", choose=choose, tasks=[task])
    metrics = played(env, same, coder1_1=task.hidden.plain, coder2_1=task.hidden.reference)[-1].result[4]["metrics"]
    assert metrics["chosen"] == chosen and metrics["success"] == (choose == "vote")


@pytest.mark.parametrize(("choose", "chosen"), [("vote", "refiner#2"), ("first", "refiner")])
def test_of_several_refinements_most_agree_or_the_first_counts(make_team_env, choose, chosen):
    task = embedded_tasks("train")[0]
    says = {
        "refiner": task.hidden.plain,
        "refiner#2": task.hidden.reference,
        "refiner#3": f"# the same\n{task.hidden.reference}",
    }
    env = make_team_env("generator,verifier,refiner:3", choose=choose, tasks=[task])
    metrics = played(env, "Nothing is missing.", WRONG, **says)[-1].result[4]["metrics"]
    assert metrics["chosen"] == chosen and metrics["success"] == (choose == "vote")


def test_at_the_limit_of_turns_the_last_message_is_the_note(make_team_env, code):
    steps = played(make_team_env(max_turns=2), code, interviewer="Really?")
    assert [step.agent for step in steps] == ["interviewer", "interviewer", "coder"]
    assert steps[-1].observation.endswith("Note of your colleague:\nReally?") and steps[-1].reward == 1.0


def test_an_answer_marker_of_an_interviewer_hands_nothing_over(make_team_env, answer):
    env = make_team_env().unwrapped
    env.reset(seed=0)
    assert env.step(answer)[4]["agent"] == "interviewer" and env.step("HAND OVER:")[4]["agent"] == "coder"


def test_a_cut_answer_is_not_graded_and_has_no_vote_but_a_cut_note_is_handed_over(make_team_env, code):
    env = make_team_env().unwrapped
    env.reset(seed=0)
    assert env.step_cut("HAND OVER: half a no")[0].endswith("half a no")
    _, reward, terminated, _, info = env.step_cut(code)
    assert (reward, terminated, info["metrics"]["outcome"], info["metrics"]["answer_cut"]) == (0.0, True, "answer_cut", 1)
    for cut, outcome in (("coder1_1", "passed"), ("coder2_1", "passed"), ("both", "answer_cut")):
        env = make_team_env("debaters:2x1", choose="first").unwrapped
        env.reset(seed=0)
        env.step("I WANT TO ANSWER:")
        for agent in ("coder1_1", "coder2_1"):
            info = (env.step_cut if cut in (agent, "both") else env.step)(code)[4]
        assert info["metrics"]["outcome"] == outcome
        assert info["metrics"]["chosen"] == ("coder2_1" if cut == "coder1_1" else "coder1_1")


def test_thoughts_reach_no_colleague(make_team_env, code):
    env = make_team_env("generator,verifier,refiner")
    thought = "<think>SECRET plan</think>"
    steps = played(env, thought + code, f"{thought}{WRONG}", f"{thought}How do you round?", verifier=f"{thought}Fine.")
    assert "SECRET" not in repr([(step.observation, step.info, step.result) for step in steps]) + repr(
        env.unwrapped.all_messages
    )
    assert steps[-1].reward == 1.0 and [step.text.count("SECRET") for step in steps] == [1] * 4


@pytest.mark.parametrize("roles", TEAMS)
def test_equal_seeds_and_actions_give_equal_episodes_whatever_ran_before(make_team_env, code, roles):
    one, two = make_team_env(roles), make_team_env(roles)
    played(two, "other", seed=99)
    two.reset()
    assert played(one, code, seed=7) == played(two, code, seed=7)


@pytest.mark.parametrize("roles", TEAMS)
def test_a_snapshot_at_every_turn_is_json_and_replays_the_future_in_another_environment(make_team_env, humans, code, roles):
    one, two = (make_team_env(roles, simulator=humans.Slow(0)) for _ in range(2))
    steps = played(one, code)
    two.reset(seed=11)
    keys = []
    for start, step in enumerate(steps):
        state = json.loads(json.dumps(step.state))
        assert two.unwrapped.set_state(state) == (step.observation, step.info)
        keys.append(two.unwrapped.state_key)
        assert data_equivalence([two.step(later.text) for later in steps[start:]], [later.result for later in steps[start:]])
        assert two.unwrapped.all_messages == one.unwrapped.all_messages
    assert len({*keys}) == len(steps)


def test_a_fork_draws_another_future(make_team_env, humans):
    env = make_team_env(simulator=humans.Slow(0)).unwrapped
    env.reset(seed=4)
    state = env.get_state()
    replies = []
    for reseed in (1, 2, 1):
        env.set_state(state, reseed=reseed)
        replies.append(env.step("What then?")[0])
    assert replies[0] == replies[2] != replies[1]


def test_a_pickled_environment_goes_on_alike(code):
    env = gym.make(ID, roles="generator,verifier,refiner", tasks="embedded:test[:5]", sandbox="embedded")
    env.reset(seed=5)
    env.step("I WANT TO ANSWER: x")
    copy = pickle.loads(pickle.dumps(env))
    assert data_equivalence([env.step("fine"), env.step(code)], [copy.step("fine"), copy.step(code)])
    env.close()
    copy.close()


@pytest.mark.parametrize("failing", ["simulator", "sandbox", "vote"])
def test_a_service_that_fails_voids_the_episode_or_leaves_it_as_it_was(make_team_env, humans, code, failing):
    arguments = {"simulator": humans.Mute(always=False)} if failing == "simulator" else {"sandbox": humans.BrokenSandbox()}
    roles = "debaters:2x1" if failing == "vote" else "interviewer,coder"
    if failing == "vote":
        arguments["tasks"] = embedded_tasks("train")[:1]
    for on_world_error in ("void", "raise"):
        env = make_team_env(roles, on_world_error=on_world_error, **arguments).unwrapped
        env.reset(seed=0)
        texts = ["boom"] if failing == "simulator" else ["HAND OVER: I WANT TO ANSWER:", *([WRONG] * (failing == "vote")), code]
        for text in texts[:-1]:
            env.step(text)
        state = env.get_state()
        if on_world_error == "raise":
            with pytest.raises(Exception, match="echoed|died"):
                env.step(texts[-1])
            assert env.get_state() == state
            continue
        _, reward, terminated, truncated, info = env.step(texts[-1])
        assert (reward, terminated, truncated, info["metrics"]["outcome"]) == (0.0, False, True, "void")
        assert info["metrics"]["turns"] == len(texts) and "success" not in info["metrics"]


def test_new_draws_of_what_is_hidden_agree_with_what_the_human_said(make_team_env):
    (task, *_) = tasks = embedded_tasks("train")[:1]
    wish = next(fact for fact in task.hidden.facts if fact.is_special)
    env = make_team_env(tasks=tasks).unwrapped
    env.reset(seed=0)
    env.step(wish.phrases[0])
    env.step("HAND OVER: a note")
    drawn = set()
    for seed in range(40):
        env.redraw_hidden(seed)
        drawn.add(env.task.id)
        assert wish.sentence in {fact.sentence for fact in env.task.hidden.facts} and env.agent == "coder"
    assert len(drawn) > 1


def test_many_teams_at_once(sandbox, total_task, code):
    envs = gym.make_vec(ID, num_envs=3, roles="interviewer,coder", tasks=[total_task()], sandbox=sandbox)
    _, infos = envs.reset(seed=5)
    assert infos["agent"].tolist() == ["interviewer"] * 3
    _, _, _, _, infos = envs.step(["HAND OVER: x", "a question?", "HAND OVER: y"])
    assert infos["agent"].tolist() == ["coder", "interviewer", "coder"]
    _, rewards, terminated, _, _ = envs.step([code, "HAND OVER: z", "wrong"])
    assert rewards.tolist() == [1.0, 0.0, 0.0] and terminated.tolist() == [True, False, True]
    envs.close()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            {"roles": "debaters:0x3"},
            "`roles` must be one of ('interviewer,coder', 'generator,verifier,refiner', 'generator,verifier,refiner:K', 'debaters:AxT') with numbers for K, A and T, "
            "such as 'debaters:2x3', got 'debaters:0x3'.",
        ),
        ({"note_chars": 0}, "`note_chars` must be positive, got 0."),
        ({"choose": "best"}, "`choose` must be 'vote' or 'first', got 'best'."),
    ],
)
def test_wrong_arguments_are_refused_at_construction(make_team_env, arguments, text):
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        make_team_env(**arguments)
