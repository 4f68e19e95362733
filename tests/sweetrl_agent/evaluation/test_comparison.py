"""Differences of a metric that is not a share, such as a return."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from colbench_gym.scoring.intervals import wilson
from sweetrl_agent.core.stage import Stage
from sweetrl_agent.evaluation.comparison import _without_tasks, compare_scores, kept_tasks, table
from sweetrl_agent.evaluation.steps import _or_unchanged
from sweetrl_agent.reporting.comparison_scores import paired_part


@pytest.fixture
def evaluations():
    """Rows of three seeds: "better" returns 10 more than "worse" on each task, give or take 1, and "same" as much; all have the same success."""
    rng = np.random.default_rng(0)

    def rows():
        base = rng.normal(-50, 5, 40)
        means = {"worse": base, "same": base + rng.normal(0, 1, 40), "better": base + 10 + rng.normal(0, 1, 40)}
        return [
            {
                "agent": name,
                "split": "test",
                "task_id": str(i),
                "outcome": "ended",
                "success": 1,
                "turns": 1,
                "return": float(value),
            }
            for name, own in means.items()
            for i, value in enumerate(own)
        ]

    return {seed: rows() for seed in range(3)}


def test_differences_of_returns_have_intervals_and_corrected_p_values(evaluations):
    results = compare_scores(evaluations, "return")
    by_pair = {(row["a"], row["b"]): row for row in results["paired"]}
    more = by_pair["better", "worse"]["of_metric"]
    assert more["difference"] == pytest.approx(10, abs=0.5) and more["p_holm"] < 0.001
    for low, high in (more["ci95"], more["ci95_agents"]):
        assert 9 < low < more["difference"] < high < 11
    none = by_pair["same", "worse"]["of_metric"]
    assert none["ci95"][0] < 0 < none["ci95"][1] and none["p_holm"] >= none["p"] > 0.01
    assert by_pair["better", "worse"]["difference"] == 0
    lines = table(results, {"better": "B", "worse": "W"}).splitlines()
    assert any(line.startswith("difference of return") for line in lines)
    assert any(line.startswith("B - W") and f"{more['difference']:+.2f}" in line for line in lines)
    of_success, of_return = paired_part(results, {}).tables
    assert (
        of_return.caption == "test: return"
        and of_return.head[1] == "Return"
        and len(of_return.rows) == len(of_success.rows) == 3
    )


def test_of_many_algorithms_the_screen_has_what_an_interval_separates(evaluations):
    same = [{**row, "agent": name} for name in "xyz" for row in evaluations[0] if row["agent"] == "worse"]
    results = compare_scores({seed: [*rows, *same] for seed, rows in evaluations.items()}, "return")
    assert len(results["paired"]) == 15
    lines = table(results, {}).splitlines()
    shown = [line.split(" test ")[0].strip() for line in lines if " - " in line]
    apart = ["better - worse", "better - same", "x - better", "y - better", "z - better"]
    assert set(apart) <= set(shown) and len(shown) < 2 * 15 and len(shown) == 2 * len(set(shown))
    assert any(f"{15 - len(set(shown))} of 15 differences" in line for line in lines)


def test_equal_shares_are_not_certain_to_be_equal(evaluations):
    """Tasks of another kind may exist; a return that does not vary has no such bound."""
    rows = {seed: [{**row, "success": 0, "return": -6.0} for row in own] for seed, own in evaluations.items()}
    results = compare_scores(rows, "return")
    (low, high), tasks = results["paired"][0]["ci95"], results["algorithms"]["better"]["test"]["n"]
    assert high == -low == pytest.approx(wilson(0.0, tasks)[1], abs=1e-4)
    assert results["paired"][0]["of_metric"]["ci95"] == [0.0, 0.0]
    assert results["algorithms"]["better"]["test"]["ci95"]["return"] == [-6.0, -6.0]


def test_shares_have_one_difference(evaluations):
    rows = {seed: [{**row, "tests_passed": row["success"] / 2} for row in own] for seed, own in evaluations.items()}
    results = compare_scores(rows)
    assert not any("of_metric" in row for row in results["paired"]) and "difference of tests" not in table(results, {})


def test_turns_that_said_nothing_or_were_cut_are_on_the_screen(evaluations):
    rows = {
        seed: [{**row, **({"silent_turns": 2} if row["agent"] == "better" else {})} for row in own]
        for seed, own in evaluations.items()
    }
    results = compare_scores(rows, "return")
    better = results["algorithms"].pop("better")["test"]
    assert better["silent_turns"] == 2 * better["n"] * better["seeds"] and "cut_turns" not in better
    assert all("silent_turns" not in splits["test"] for splits in results["algorithms"].values())
    lines = table({**results, "algorithms": {"better": {"test": better}}}, {"better": "B"}).splitlines()
    assert lines[3].startswith("  B, test: turns that said nothing") and lines[3].endswith(f": {better['silent_turns']}")


def test_what_counts_is_of_the_tasks_that_are_kept_and_a_split_without_any_is_named(evaluations):
    def void(row):
        is_void = row["agent"] == "same" and row["task_id"] in ("0", "1")
        return {**row, "silent_turns": 1, **({"outcome": "void"} if is_void else {})}

    rows = {seed: [void(row) for row in own] for seed, own in evaluations.items()}
    assert kept_tasks(rows, "test") == {str(i) for i in range(2, 40)}
    results = compare_scores(rows, "return")
    assert {splits["test"]["silent_turns"] for splits in results["algorithms"].values()} == {3 * 38}
    assert {splits["test"]["n"] for splits in results["algorithms"].values()} == {38} and not _without_tasks(rows)
    lost = {
        seed: [{**row, "outcome": "void"} if row["agent"] == "same" else row for row in own]
        for seed, own in evaluations.items()
    }
    assert compare_scores(lost, "return")["algorithms"] == {}
    assert _without_tasks(lost) == ["test: no result, since every task is void for an algorithm on a seed."]


def test_a_stage_with_nothing_to_train_on_is_left_out_only_behind_the_one_that_said_so():
    """Files of shared stages are made again even then."""
    told = {
        "rank gain": SimpleNamespace(facts={"unchanged": {"gain/policy": "no pair"}}),
        "candidates": SimpleNamespace(facts={}),
    }
    run, done = SimpleNamespace(is_done=lambda name: name in told, records=SimpleNamespace(stages=told)), []
    for name, earlier in (("candidates", ()), ("rank gain", ("candidates",)), ("actor gain", ("candidates", "rank gain"))):
        _or_unchanged(Stage(name, "", (), (), lambda run, name=name: done.append(name)), ("gain/policy",), earlier).run(run)
    assert done == ["candidates", "rank gain"]
