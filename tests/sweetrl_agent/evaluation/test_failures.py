"""Counts and shares of kinds of failure, and which episodes are explained."""

from __future__ import annotations

import json

import pytest

from colbench_gym.files import read_rows
from colbench_gym.scoring.intervals import mean_interval, wilson
from sandboxes import SandboxError
from sweetrl_agent.core.environment import EnvironmentRecord
from sweetrl_agent.core.explanation import PASSED, VOID, FailureKind
from sweetrl_agent.envs.colbench_backend import BackendRecord
from sweetrl_agent.evaluation.failures import explain_shown, failures_of, summarize_failures

DEAF = FailureKind("deaf", "did not listen", "It did not listen.")


def _failure(task, kind, agent="initial", wishes=("cap", "tax"), unheard=()):
    return {
        "agent": agent, "split": "test", "task_id": task, "episode": 0, "kind": kind, "wishes": wishes, "unheard": unheard, "about": (),
    }  # fmt: skip


def test_shares_are_of_scored_episodes_and_add_up():
    rows = [_failure("a", "passed"), _failure("b", "deaf", unheard=("tax",)), _failure("c", "deaf"), _failure("d", "void")]
    found = summarize_failures((PASSED, DEAF, VOID), [*rows, _failure("a", "passed", "trained")])
    initial = {row["kind"]: row for row in found["rows"] if row["agent"] == "initial"}
    assert {name: (row["count"], row["n"]) for name, row in initial.items()} == {
        "passed": (1, 3),
        "deaf": (2, 3),
        "void": (1, 4),
    }
    assert initial["deaf"]["share"] == 0.6667 and initial["deaf"]["ci95"] == [round(x, 4) for x in wilson(2 / 3, 3)]
    assert initial["passed"]["share"] + initial["deaf"]["share"] == pytest.approx(1)
    assert [row["agent"] for row in found["rows"]] == ["initial"] * 3 + ["trained"] * 3
    assert found["wishes"][:2] == [
        {"agent": "initial", "split": "test", "topic": "cap", "unheard": 0, "n": 3},
        {"agent": "initial", "split": "test", "topic": "tax", "unheard": 1, "n": 3},
    ]
    assert found["kinds"][1] == {"name": "deaf", "title": "did not listen", "means": "It did not listen."}


def test_repeated_tasks_are_no_independent_evidence():
    rows = [_failure(task, kind) for task, kind in (("a", "deaf"), ("a", "deaf"), ("b", "passed"), ("b", "passed"))]
    deaf = next(row for row in summarize_failures((PASSED, DEAF), rows)["rows"] if row["kind"] == "deaf")
    assert deaf["ci95"] == [round(x, 4) for x in mean_interval([1.0, 1.0, 0.0, 0.0], ["a", "a", "b", "b"])]


def _row(run, task, agent="initial", outcome="wrong"):
    messages = [{"role": "user", "content": task.description}, {"role": "assistant", "content": "I WANT TO ANSWER:\nx = 1"}]
    return {
        "agent": agent, "split": "test", "task_id": task.id, "episode": 0, "outcome": outcome, "success": None if outcome == "void" else 0,
        "answered": 1, "turns": 1, "hidden_information": "", "dialogue_history": messages,
    }  # fmt: skip


def test_shown_episodes_are_explained_void_ones_are_not(make_run):
    run = make_run()
    rows = [_row(run, run.test[0]), _row(run, run.test[1], outcome="void"), _row(run, run.test[2], "trained")]
    failures = failures_of(run, rows)
    assert [row["kind"] for row in failures] == ["answered_early", "void", "answered_early"]
    explain_shown(run, rows, failures)
    assert read_rows(run.path("failures.jsonl")) == json.loads(json.dumps(failures))
    explained = read_rows(run.path("explanations.jsonl"))
    assert [(row["agent"], row["task_id"]) for row in explained] == [("initial", run.test[0].id), ("trained", run.test[2].id)]
    assert all(len(row["tests"]) == 10 and row["reference"] for row in explained)


def test_rows_of_tasks_that_are_gone_are_left_out(make_run):
    run = make_run()
    assert failures_of(run, [{**_row(run, run.test[0]), "task_id": "gone"}]) == []


def test_without_a_sandbox_there_are_kinds_but_no_explanations(make_run, monkeypatch, capsys):
    def fail(*arguments):
        raise SandboxError("no sandbox here")

    run = make_run()
    monkeypatch.setattr(BackendRecord, "explain", fail)
    explain_shown(run, [_row(run, run.test[0])], failures_of(run, [_row(run, run.test[0])]))
    assert "The report does not explain single answers: no sandbox here" in capsys.readouterr().out
    assert len(read_rows(run.path("failures.jsonl"))) == 1 and read_rows(run.path("explanations.jsonl")) == []


def test_an_environment_without_kinds_has_no_files(make_run):
    run = make_run()
    run.record = EnvironmentRecord()
    assert failures_of(run, [_row(run, run.test[0])]) == []
    explain_shown(run, [_row(run, run.test[0])], [])
    assert not run.path("failures.jsonl").exists() and not run.path("explanations.jsonl").exists()
