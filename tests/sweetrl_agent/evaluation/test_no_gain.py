"""Why training shows no gain: each cause is named where its number is unusual, and none where training shows a gain."""

from __future__ import annotations

import html
import json

import pytest

from sweetrl_agent.evaluation.no_gain import no_gain
from sweetrl_agent.evaluation.outcome import run_table
from sweetrl_agent.reporting.run_report import report_page
from sweetrl_agent.trainers.running import TRAINED_TOKENS
from tests.sweetrl_agent.reporting.made_up import scores

COLLECTED = {"trajectories": 450, "void": 0, "success": 0.1, "turns": 5.0, "tasks_with_a_success": 40, "outcome_pairs": 120}


def _change(low, high, tasks=300):
    return {"difference": (low + high) / 2, "ci95": [low, high], "p": 0.5, "p_holm": 0.5, "n": tasks}


def _results(low=-0.02, high=0.03, metric="tests_passed", metric_bounds=None, tasks=300, **trained):
    """Results of a run on tests with intervals of success and of the metric, and fields of the trained policy's scores."""
    of = {"answered": 0.95, "turns": 5.0, "n": 300, "void": 0}
    pair = {"split": "test", "from": "initial", "to": "trained", "n": tasks, "tasks": tasks, "success": _change(low, high)}
    pair[metric] = _change(*(metric_bounds or (low, high)))
    return {
        "metric": metric,
        "initial": {"test": scores(0.1) | of},
        "trained": {"test": scores(0.1) | of | trained},
        "differences": [pair],
    }


def _rows(returns, success=0.2):
    return [
        {"step": i, "return": value, "success": success, "loss": 0.1, TRAINED_TOKENS: 100 * i}
        for i, value in enumerate(returns, 1)
    ]


def test_a_gain_in_success_or_in_the_metric_needs_no_explanation():
    assert no_gain(_results(low=0.01, high=0.05), "grpo", [], {}) == []
    assert no_gain(_results(metric_bounds=(0.001, 0.05)), "grpo", [], {}) == []
    assert no_gain({**_results(), "differences": []}, "grpo", [], {}) == []  # without an initial policy


def test_a_run_that_looks_as_others_is_said_to():
    lead, rest = no_gain(_results(), "grpo", _rows([0.2] * 20), COLLECTED)
    assert lead == "Training shows no gain on test: success +0.5 (-2.0 to +3.0); tests passed +0.5 (-2.0 to +3.0)."
    assert rest.startswith("None of the usual causes is seen")
    lead, _ = no_gain(_results(metric="return", metric_bounds=(-8.0, 3.0)), "grpo", [], {})
    assert lead == "Training shows no gain on test: success +0.5 (-2.0 to +3.0); return -2.5 (-8 to +3)."


CAUSES = {
    "rare": ({}, [], COLLECTED | {"success": 0.02}, "2.0% of the 450 collected dialogues succeeded"),
    "pairs": ({}, [], COLLECTED | {"outcome_pairs": 7}, "The 450 collected dialogues have 7 pairs of different outcomes"),
    "iterations": ({}, _rows([0.2] * 3), {}, "trained in 3 of 3 iterations, which are few: `--grpo.iterations`"),
    "warm-up": ({}, [row | {TRAINED_TOKENS: max(0, row["step"] - 12)} for row in _rows([0.2] * 20)], {}, "trained in 8 of 20 iterations"),
    "step": ({}, [{"step": 1, "loss": 0.7}], {}, "trained for 1 optimizer step, which is few"),
    "steps": ({}, [{"step": 4, "loss": 0.7}], {}, "trained for 4 optimizer steps, which are few"),
    "fails": ({}, _rows([0.0] * 20, success=0.01), {}, "1.0% of the episodes that it played in training succeeded"),
    "falls": ({}, _rows([0.3] * 8 + [0.1] * 8), {}, "fell in training, from 0.3 (mean of the first 5 iterations) to 0.1 (the last 5)"),
    "answers": ({"answered": 0.4}, [], {}, "ends 40% of its dialogues before the limit of turns, the initial one 95%"),
    "cut": ({"cut_turns": 600}, [], {}, "40% of the trained policy's turns were cut by the limit of tokens: `--max_new_tokens`"),
    "silent": ({"silent_turns": 300}, [], {}, "20% of the trained policy's turns said nothing"),
    "few": ({"low": -0.12, "high": 0.08, "tasks": 20}, [], {}, "20 tasks cannot show a small gain: the interval is 10 points to either side"),
}  # fmt: skip


@pytest.mark.parametrize(
    "rows",
    [[{"step": 1, "success": 0.2, TRAINED_TOKENS: 900}], [{"step": i, "return": 0.2, TRAINED_TOKENS: 9} for i in (1, 2)]],
)
def test_trees_and_rounds_are_no_steps(rows):
    _, *causes = no_gain(_results(), "malt", rows, {})
    assert len(causes) == 1 and causes[0].startswith("None of the usual causes")


@pytest.mark.parametrize(("results", "rows", "collected", "sentence"), CAUSES.values(), ids=CAUSES)
def test_a_cause_is_named_with_its_number(results, rows, collected, sentence):
    _, *causes = no_gain(_results(**results), "grpo", rows, collected)
    assert len(causes) == 1 and sentence in causes[0]


def test_success_does_not_matter_where_the_metric_is_no_share():
    """In the maze, an episode that fails has a return that differs from others."""
    results = _results(metric="return", metric_bounds=(-8.0, 3.0))
    _, *causes = no_gain(results, "grpo", _rows([-80.0] * 20, success=0.0), COLLECTED | {"success": 0.0})
    assert len(causes) == 1 and causes[0].startswith("None of the usual causes")


def test_a_run_says_it_on_the_screen_and_in_its_report(small_run):
    """A tiny run of a few steps, on a single task, shows no gain."""
    results = json.loads((small_run / "results.json").read_text())
    lead, *causes = results["no_gain"]
    assert lead.startswith("Training shows no gain on test: ") and any(
        "trained for 2 optimizer steps" in cause for cause in causes
    )
    assert "\n".join(results["no_gain"]) in run_table(results)
    assert html.escape(lead) in report_page(small_run)
