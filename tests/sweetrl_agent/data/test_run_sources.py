"""Which tasks a run is about: every held-out split that is named, the dial in full, and one budget of turns for everything."""

from __future__ import annotations

from contextlib import closing

import pytest

from colbench_gym.files import read_rows
from colbench_gym.simulators import make
from colbench_gym.tasks import load_tasks
from colbench_gym.tasks.embedded import with_dial
from colbench_gym.tasks.task import BUDGET
from sweetrl_agent.algorithms.critics import open_critic
from sweetrl_agent.core.policy import Utterance
from sweetrl_agent.envs.backend_demonstrations import Demonstrator
from sweetrl_agent.evaluation.held_out import evaluate_agent
from sweetrl_agent.train import main

STANDARD = "topics=12&relevant=3&wishes=2&turns=6&points=1"
HARD = "topics=16&relevant=3&wishes=2&turns=7&points=1"
QUESTION = "Any rounding?"


class Asker:
    """A policy that never answers."""

    def generate(self, dialogues, seeds):
        return [Utterance(QUESTION) for _ in dialogues]


@pytest.mark.parametrize(
    ("given", "full"),
    [
        ("embedded:train", f"embedded:train?{STANDARD}"),
        ("embedded:train?preset=hard[:50]", f"embedded:train?{HARD}[:50]"),
        ("embedded:test/figures?turns=8[2:]", "embedded:test/figures?topics=12&relevant=3&wishes=2&turns=8&points=1[2:]"),
        ("rows.jsonl[:5]", "rows.jsonl[:5]"),
        ("hub:owner/data", "hub:owner/data"),
    ],
)
def test_the_full_name_of_a_source_has_the_whole_dial_and_the_same_tasks(given, full):
    assert with_dial(given) == full == with_dial(full)
    if given.endswith("[:50]"):
        assert load_tasks(full) == load_tasks(given)


def test_a_run_names_every_split_that_is_measured(make_run):
    run = make_run(
        tasks="embedded:train?preset=hard[:10]", unseen_tasks="embedded:unseen[:2]", novel_tasks="embedded:novel[:2]"
    )
    assert run.sources == {
        "train": f"embedded:train?{HARD}[:10]",
        "test": f"embedded:test?{STANDARD}[:3]",
        "unseen": f"embedded:unseen?{STANDARD}[:2]",
        "novel": f"embedded:novel?{STANDARD}[:2]",
    }
    assert list(run.sources) == ["train", *run.held_out]


def test_the_last_fifth_is_named_with_its_dial_too(make_run):
    sources = make_run(test_tasks="").sources
    assert sources["test"] == f"the last fifth of embedded:train?{STANDARD}[:10]"
    assert list(sources) == ["train", "test"]


def test_tasks_of_novel_are_measured_where_asked_for(make_run):
    run = make_run(unseen_tasks="embedded:unseen[:2]", novel_tasks="embedded:novel[:5]", eval_tasks=2, max_turns=1)
    assert {split: len(tasks) for split, tasks in run.held_out.items()} == {"test": 2, "unseen": 2, "novel": 2}
    evaluate_agent(run, "initial", Asker)
    rows = read_rows(run.path("evaluation.jsonl"))
    assert [(row["split"], row["task_id"]) for row in rows] == [
        (split, task.id) for split in ("test", "unseen", "novel") for task in load_tasks(f"embedded:{split}[:2]")
    ]


def test_training_on_tasks_of_novel_that_are_measured_is_refused(make_run):
    with pytest.raises(ValueError, match=r"^2 tasks are both in `tasks` and held out, e\.g\. 'embedded/standard/"):
        make_run(tasks="embedded:novel[:10]", novel_tasks="embedded:novel[:2]")


@pytest.mark.parametrize(("max_turns", "turns"), [(3, 3), (0, 6)])
def test_one_budget_reaches_requests_environment_oracle_and_demonstrator(max_turns, turns, make_run):
    run = make_run(max_turns=max_turns, novel_tasks="embedded:novel[:2]")
    task = run.train[0]
    every = [task for tasks in (run.train, *run.held_out.values()) for task in tasks]
    assert all(task.turns == turns and BUDGET.format(turns) in task.description for task in every)
    assert _turns_played(run, task) == turns
    with run.record.action_environments(run.config, run.train, 1) as (env,):
        assert env.unwrapped.max_turns == (max_turns or None)
    talk = [{"role": "user", "content": task.description}]
    talk += [{"role": "assistant", "content": QUESTION}, {"role": "user", "content": "I have no preference."}] * 2
    with open_critic(run, "exact") as exact:
        (answer,) = exact.rank(talk, task.hidden.reference, [task.hidden.reference])
    assert (answer == 1.0) == (turns == 3)  # without the marker it is graded on the last turn only
    demonstrated = Demonstrator(exercise_fraction=0.0, hinted_fraction=0.0).demonstrate(task, make("scripted"), 0)
    assert sum(message["role"] == "assistant" for message in demonstrated) == turns


def _turns_played(run, task):
    from sweetrl_agent.rollouts.play import episodes_of, play

    with closing(run.environment([task], 1)) as env:
        ((episode,),) = play(Asker(), env, episodes_of([task.id], 1), 0, "test")
    assert episode.messages[0]["content"] == task.description
    return len(episode.turns)


@pytest.mark.parametrize(("given", "turns"), [([], 30), (["--max_turns", "3"], 18)])
def test_a_dry_run_names_tasks_with_the_whole_dial_and_counts_their_turns(tmp_path, capsys, given, turns):
    sources = {
        "tasks": "embedded:train?turns=5[:3]",
        "test_tasks": "embedded:test[:2]",
        "unseen_tasks": "",
        "novel_tasks": "embedded:novel[:1]",
    }
    asked = [word for name, source in sources.items() for word in (f"--{name}", source)]
    asked += ["--trajectories_per_task", "2", "--output", str(tmp_path / "run"), "--dry_run", "true"]
    assert main([*asked, *given]) == 0
    said = capsys.readouterr().out
    assert (
        "tasks      3 of 3 train (embedded:train?topics=12&relevant=3&wishes=2&turns=5&points=1[:3]), "
        f"2 test (embedded:test?{STANDARD}[:2]), 1 novel (embedded:novel?{STANDARD}[:1]); human: scripted\n"
    ) in said
    assert f"collect    6 trajectories, at most {turns} turns of 80 tokens\n" in said
