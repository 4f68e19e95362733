"""Records of teams: demonstrations in the view of every role, explanations of an episode as one dialogue, and whole runs."""

from __future__ import annotations

import json
import re

import pytest

import sandboxes
from colbench_gym.agents.agent import Said
from colbench_gym.envs.split import COLLEAGUE, SplitEnv, half_of
from colbench_gym.envs.team import TeamEnv
from colbench_gym.envs.team_roles import HAND_OVER, make_team
from colbench_gym.files import read_rows
from colbench_gym.scoring.answer import ANSWER_MARKER
from colbench_gym.tasks import load_tasks
from colbench_gym.tasks.embedded import family_of, reference_knowing
from sweetrl_agent.core.agents import AgentPolicy
from sweetrl_agent.core.episode import EpisodeKey
from sweetrl_agent.envs.registry import find_record
from sweetrl_agent.envs.team_demonstrations import NOTHING_MISSING, VARIED, demonstrations
from sweetrl_agent.evaluate import main as evaluate
from sweetrl_agent.rollouts.play import play
from sweetrl_agent.train import main as train
from tests.words import words

TASKS = load_tasks("embedded:train[:30]")
SPLIT_TASKS = SplitEnv.load_tasks("embedded:train[:40]")
EPISODES = 40
TEAM, SPLIT = "ColBench-Team-v0", "ColBench-Split-v0"


@pytest.fixture(scope="module")
def sandbox():
    """The embedded sandbox."""
    with sandboxes.make("embedded") as sandbox:
        yield sandbox


def _episodes(env_class, arguments, tasks, demonstrator=None):
    """Demonstrated episodes: the task, and the dialogue of every agent by its name."""
    env = env_class(tasks=tasks, **arguments)
    size = len(env.agents)
    dialogues = demonstrations(env_class, arguments, tasks, EPISODES * size, 0, *([demonstrator] if demonstrator else []))
    return [
        (tasks[i % len(tasks)], dict(zip(env.agents, dialogues[i * size : (i + 1) * size], strict=True)))
        for i in range(EPISODES)
    ]


def _heard(task, *dialogues):
    """The wishes that the human stated in dialogues."""
    replies = [message["content"] for dialogue in dialogues for message in dialogue[2::2]]
    return [fact for fact in task.hidden.facts if fact.is_special and fact.sentence in replies]


def _knows(task, program, wishes):
    return program == reference_knowing(task, {fact.topic for fact in wishes})


def _last(dialogue):
    return dialogue[-1]["content"]


@pytest.mark.parametrize(
    ("env_class", "arguments", "tasks"),
    [(TeamEnv, {"roles": roles}, TASKS) for roles in ("interviewer,coder", "generator,verifier,refiner", "debaters:2x2")]
    + [(SplitEnv, {}, SPLIT_TASKS), (SplitEnv, {"alone": "second"}, SPLIT_TASKS)],
)
def test_demonstrations_are_what_the_agents_see_and_say_in_an_episode(env_class, arguments, tasks, sandbox):
    for task, dialogues in _episodes(env_class, arguments, tasks)[:10]:
        env = env_class(tasks=tasks, sandbox=sandbox, **arguments)
        env.reset(options={"task_id": task.id})
        for agent, dialogue in dialogues.items():
            assert [message["role"] for message in dialogue] == ["user", "assistant"] * (len(dialogue) // 2)
            for i in range(0, len(dialogue), 2):
                assert env.agent == agent and env.messages == dialogue[: i + 1]
                result = env.step(dialogue[i + 1]["content"])
        assert result[2] and "success" in result[4]["metrics"]
    assert demonstrations(env_class, arguments, tasks, 7, 1) == demonstrations(env_class, arguments, tasks, 7, 1)


def test_an_interviewer_asks_and_its_note_states_what_it_heard_and_coders_sometimes_err():
    right = all_heard = 0
    for task, dialogues in _episodes(TeamEnv, {}, TASKS):
        talk, coder = dialogues["interviewer"], dialogues["coder"]
        stated = [message["content"] for message in talk[2::2]]
        assert len(stated) == 5 and _last(talk).startswith(HAND_OVER) and all(text in _last(talk) for text in stated)
        wishes = _heard(task, talk)
        all_heard += len(wishes) == 2
        knows = _knows(task, _last(coder), wishes)
        assert knows or any(_knows(task, _last(coder), [w for w in wishes if w is not left]) for left in wishes)
        right += knows
    assert EPISODES / 3 < all_heard < EPISODES * 0.9 and EPISODES / 2 < right < EPISODES * 0.95


def test_a_critique_names_what_the_draft_leaves_out_and_the_refiner_adds_it():
    missing = 0
    for task, dialogues in _episodes(TeamEnv, {"roles": "generator,verifier,refiner"}, TASKS):
        draft = _last(dialogues["generator"]).removeprefix(f"{ANSWER_MARKER}\n")
        wishes, critique = _heard(task, dialogues["generator"]), _last(dialogues["verifier"])
        named = [fact for fact in wishes if fact.sentence in critique]
        assert _knows(task, draft, [fact for fact in wishes if fact not in named])
        assert (critique == NOTHING_MISSING) == (not named) and _knows(task, _last(dialogues["refiner"]), wishes)
        missing += bool(named)
    assert EPISODES / 8 < missing < EPISODES / 2


def test_a_debater_takes_over_a_better_answer():
    mended = 0
    for task, dialogues in _episodes(TeamEnv, {"roles": "debaters:2x2"}, TASKS):
        wishes = _heard(task, dialogues["interviewer"])
        first, second = ([_knows(task, _last(dialogues[f"coder{a}_{t}"]), wishes) for a in (1, 2)] for t in (1, 2))
        assert second == ([True] * 2 if any(first) else [False] * 2)
        mended += first != second
    assert mended > EPISODES / 10


def test_a_pair_joins_its_halves_and_one_alone_guesses_the_other_half():
    for task, dialogues in _episodes(SplitEnv, {}, SPLIT_TASKS):
        first, second = dialogues.values()
        assert COLLEAGUE in [message["content"] for message in [*first[2::2], *second[2::2]]]
        assert _knows(task, _last(second).removeprefix(f"{ANSWER_MARKER}\n"), _heard(task, first, second))
    right = 0
    for task, dialogues in _episodes(SplitEnv, {"alone": "first"}, SPLIT_TASKS):
        family, choice = family_of(task)
        program = _last(dialogues["agent"]).removeprefix(f"{ANSWER_MARKER}\n")
        heard = {fact.topic for fact in _heard(task, dialogues["agent"])}
        mine = [option if topic.name in heard else 0 for topic, option in zip(family.topics, choice, strict=True)]
        (guessed,) = half_of(family, "second") & {*family.relevant}
        guesses = [family.reference((*mine[:guessed], option, *mine[guessed + 1 :])) for option in (1, 2, 3)]
        assert program in guesses
        right += program == task.hidden.reference
    assert 0 < right < EPISODES / 2


@pytest.mark.parametrize(("env_class", "tasks"), [(TeamEnv, TASKS), (SplitEnv, SPLIT_TASKS)])
@pytest.mark.parametrize("note_chars", [60, 400])
def test_a_coder_knows_of_a_note_what_fits_into_the_channel(env_class, tasks, note_chars):
    writes, errs = ("second", False) if env_class is SplitEnv else ("coder", True)
    programs = 0
    for task, dialogues in _episodes(env_class, {"note_chars": note_chars}, tasks):
        read = " ".join(message["content"] for message in dialogues[writes] if message["role"] == "user")
        wishes = [fact for fact in task.hidden.facts if fact.is_special and fact.sentence in read]
        program = _last(dialogues[writes]).removeprefix(f"{ANSWER_MARKER}\n")
        variants = [_knows(task, program, [fact for fact in wishes if fact is not left_out]) for left_out in (None, *wishes)]
        assert any(variants if errs else variants[:1])
        programs += bool(wishes)
    assert programs > EPISODES / 10


def test_a_pretrained_model_sees_varied_questions_and_code_blocks():
    for _, dialogues in _episodes(TeamEnv, {}, TASKS, VARIED)[:5]:
        assert _last(dialogues["coder"]).startswith("```python\n") and _last(dialogues["coder"]).endswith("```")


@pytest.mark.parametrize(("env", "arguments", "count"), [
    (TEAM, {}, 12_000), (TEAM, {"roles": "generator,verifier,refiner"}, 9_000), (TEAM, {"roles": "generator,verifier,refiner:3"}, 14_000),
    (TEAM, {"roles": "debaters:2x3"}, 14_000), (SPLIT, {}, 12_000), (SPLIT, {"alone": "second"}, 6_000),
])  # fmt: skip
def test_a_team_learns_from_as_many_programs_as_a_single_agent_and_more_roles_from_more_dialogues(env, arguments, count):
    assert find_record(env).all_defaults(arguments)["sft_dialogues"] == count


class Scripted:
    """Says the next of some texts, whoever it speaks for."""

    def __init__(self, texts):
        self.texts = iter(texts)

    def say(self, messages, seed, hidden=""):
        return Said(next(self.texts))


def _played(record, config, task, texts):
    envs = record.environments(config, [task], 1)
    ((episode,),) = play(AgentPolicy(Scripted(texts)), envs, [EpisodeKey(task.id)], 0, "x")
    envs.close()
    return episode


@pytest.mark.parametrize("roles", ["interviewer,coder", "generator,verifier,refiner", "debaters:2x1"])
def test_an_episode_is_explained_as_one_dialogue_with_the_graded_answer(make_run, roles):
    run = make_run(env=TEAM, env_kwargs=json.dumps({"roles": roles}), sft_dialogues=32, algorithm="reinforce")
    record, config, task = run.record, run.config, run.test[0]
    first, second = (fact for fact in task.hidden.facts if fact.is_special)
    half = reference_knowing(task, {first.topic})
    marker = HAND_OVER if roles == "interviewer,coder" else ANSWER_MARKER
    rest = {
        "interviewer,coder": [half],
        "generator,verifier,refiner": ["fine", half],
        "debaters:2x1": [half, task.hidden.plain],
    }
    episode = _played(record, config, task, [first.phrases[0], f"{marker} {second.sentence}", *rest[roles]])
    assert episode.agents == tuple(role.name for role in make_team(roles).roles) and not episode.reward
    measures = record.measures(episode, task)
    assert measures["wishes_heard"] == 0.5 and measures["reply_chars"] == len(first.sentence)  # a note is no reply
    assert measures.get("chosen") == ("coder1_1" if roles == "debaters:2x1" else None)
    row = {**measures, "dialogue_history": episode.messages, **episode.metrics}
    assert record.failure(row, task, config).kind == "answered_early"
    assert record.failure(row, task, config).unheard == (second.topic,)
    (counts,) = record.wish_counts([(row, task)], config)
    assert (counts.questions, counts.wishes, counts.heard, counts.written) == (1, 2, 1, 1)
    (explained,) = record.explain([(row, task)], config)
    assert explained["answer"].strip() == half.strip() and "advantages" not in explained
    assert [wish["heard"] for wish in explained["wishes"] if wish["is_special"]] == [
        1 if fact is first else None for fact in task.hidden.facts if fact.is_special
    ]


def test_turns_of_an_explanation_are_counted_over_all_agents(make_run):
    run = make_run(
        env=SPLIT,
        env_kwargs="",
        tasks="embedded:train[:40]",
        test_tasks="embedded:test[:10]",
        sft_dialogues=32,
        algorithm="reinforce",
    )
    task = run.test[0]
    family = family_of(task)[0]
    phrases = {
        half: next(fact for i, fact in enumerate(task.hidden.facts) if fact.is_special and i in half_of(family, half)).phrases[
            0
        ]
        for half in ("first", "second")
    }
    texts = ["What is it?", phrases["first"], f"{HAND_OVER} x", phrases["second"], f"{ANSWER_MARKER}\n{task.hidden.plain}"]
    episode = _played(run.record, run.config, task, texts)
    assert [turn.agent for turn in episode.turns] == ["first"] * 3 + ["second"] * 2
    (explained,) = run.record.explain([({**episode.metrics, "dialogue_history": episode.messages}, task)], run.config)
    heard = {wish["heard"] for wish in explained["wishes"] if wish["is_special"]}
    assert {2, 4} <= heard, "the note is the third turn"


def test_wrong_roles_are_refused_before_anything_runs(tmp_path, capsys):
    given = {"env": TEAM, "algorithm": "reinforce", "output": tmp_path / "run"}
    for arguments, text in (
        ({"roles": "coder"}, "`roles` must be one of"),
        ({"note_chars": 0}, "`note_chars` must be positive"),
        ({"role": "x"}, "may contain"),
    ):
        assert train([*words({**given, "env_kwargs": json.dumps(arguments)}), "--dry_run"]) != 0
        assert text in capsys.readouterr().err and not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("env", "arguments", "algorithm"),
    [(TEAM, {"roles": "debaters:2x1"}, "grpo"), (SPLIT, {}, "reinforce"), (SPLIT, {"alone": "first"}, "reinforce")],
)
def test_a_run_from_scratch_trains_one_policy_for_all_agents(tmp_path, capsys, env, arguments, algorithm):
    folder = tmp_path / "run"
    settings = {
        "env": env, "env_kwargs": json.dumps(arguments), "algorithm": algorithm, "output": folder, "tasks": "embedded:train[:20]",
        "test_tasks": "embedded:test[:6]", "unseen_tasks": "", "sft_dialogues": 48, "sft_epochs": 1, "tiny_hidden_size": 32, "tiny_layers": 1,
        "tiny_vocab_size": 600, "max_new_tokens": 12, "max_turns": 3, "sandbox": "embedded", "threads": 1, "generation_batch": 4,
        f"{algorithm}.iterations": 1, f"{algorithm}.tasks": 2, f"{algorithm}.group": 2,
    }  # fmt: skip
    assert train(words(settings)) == 0
    row = next(row for row in read_rows(folder / "metrics.jsonl") if row["stage"] == algorithm)
    agents = 1 if "alone" in arguments else 3 if env == TEAM else 2
    assert row["episodes"] == 4 and row["environment_turns"] >= 4 * agents
    costs, page = json.loads((folder / "results.json").read_text())["costs"], (folder / "report.html").read_text()
    of_agents = costs.pop("agents", {})
    assert costs["environment_turns"] == row["environment_turns"] and costs["dialogues"] == 4 and "seconds" not in costs
    talks = 1 if env == TEAM or agents == 1 else 2
    assert costs["simulator_calls"] == costs["environment_turns"] - 4 * agents <= talks * 4 * 2, (
        "whoever says one message gets no reply"
    )
    assert len(of_agents) == agents - (agents == 1) and ("Costs by agent" in page) == bool(of_agents)
    for cost in ("environment_turns", "generated_tokens", "trained_tokens") if of_agents else ():
        assert sum(of.get(cost, 0) for of in of_agents.values()) == costs[cost]
    rows = read_rows(folder / "evaluation.jsonl")
    named = {message.get("agent", "agent") for message in rows[0]["dialogue_history"]}
    assert len(named) == agents and all(("chosen" in row) == (env == TEAM) for row in rows)
    assert re.search(r"trained +test", capsys.readouterr().out) and (folder / "report.html").exists()
    assert evaluate(words({"policies": str(folder), "num_tasks": 3, "output": tmp_path / "evaluation", "threads": 1})) == 0


@pytest.mark.parametrize(
    ("env_class", "arguments"),
    [
        (TeamEnv, {"roles": "interviewer,coder"}),
        (TeamEnv, {"roles": "generator,verifier,refiner"}),
        (TeamEnv, {"roles": "debaters:2x2"}),
        (SplitEnv, {}),
        (SplitEnv, {"alone": "first"}),
    ],
)
@pytest.mark.parametrize("turns", [1, 2, 3])
@pytest.mark.parametrize("preset", ["easy", "standard", "hard"])
def test_with_few_turns_every_role_still_speaks_for_itself(env_class, arguments, turns, preset):
    tasks = [task.with_turns(turns) for task in env_class.load_tasks(f"embedded:train?preset={preset}[:20]")]
    for _, by_agent in _episodes(env_class, {"max_turns": turns, **arguments}, tasks):
        for role, dialogue in zip(env_class(tasks=tasks, **arguments).team.roles, by_agent.values(), strict=True):
            assert [message["role"] for message in dialogue] == ["user", "assistant"] * (len(dialogue) // 2)
            assert len(dialogue) // 2 <= (turns if role.talks else 1)
            assert (HAND_OVER in dialogue[-1]["content"]) == (role.writes == "note")
