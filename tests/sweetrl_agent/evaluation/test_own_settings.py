"""Settings that single algorithms of a comparison have for themselves: what is refused, and that they reach their own stages alone."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import partial

import pytest

from sweetrl_agent import compare
from sweetrl_agent.algorithms.registry import ALGORITHMS
from sweetrl_agent.algorithms.sweet import SweetConfig
from sweetrl_agent.config.evaluation import CompareArguments
from sweetrl_agent.config.job import Config
from sweetrl_agent.config.pipeline import STAGES
from sweetrl_agent.evaluation import best_of_n, credit_accuracy, steps
from sweetrl_agent.evaluation.checks import own_settings

ALLOWED = sorted({setting.name for setting in fields(SweetConfig)} - {"num_states", "final_share", "num_candidates", "critic"})
COMPARED = ["rft", "sweet", "no_hidden"]


@pytest.mark.parametrize(
    ("own", "message"),
    [
        (
            "{no",
            "`own_settings` must be JSON, got '{no': Expecting property name enclosed in double quotes: line 1 column 2 (char 1).",
        ),
        ("[1]", "`own_settings` must map algorithms to settings, got '[1]'."),
        ('{"sweet": 3}', "`own_settings` must map algorithms to settings, got '{\"sweet\": 3}'."),
        ('{"judge": {}}', f"`own_settings` must name algorithms that are compared, {COMPARED}, got 'judge'."),
        (
            '{"rft": {"critic_epochs": 2}}',
            "`own_settings` must name algorithms that train an actor with a critic, got 'rft'.",
        ),
        (
            '{"sweet": {"num_states": 3, "seed": 1, "critic_epochs": 2}}',
            f"`own_settings` of 'sweet' may contain {ALLOWED}, got ['num_states', 'seed'].",
        ),
        ('{"sweet": {"critic_epochs": "2"}}', "`own_settings` of 'sweet': `critic_epochs` must be of type float, got '2'."),
        (
            '{"sweet": {"reference_hidden": "no"}}',
            "`own_settings` of 'sweet': `reference_hidden` must be of type bool, got 'no'.",
        ),
        ('{"sweet": {"actor_batch": 8.0}}', "`own_settings` of 'sweet': `actor_batch` must be of type int, got 8.0."),
        ('{"sweet": {"actor_epochs": true}}', "`own_settings` of 'sweet': `actor_epochs` must be of type float, got True."),
        ('{"sweet": {"critic_batch": 3}}', "`critic_batch` must be a multiple of `critic_micro_batch`, got 3 and 8."),
        ('{"sweet": {"pair_quantile": 0.6}}', "`pair_quantile` must be at most 0.5, got 0.6."),
    ],
)
def test_what_cannot_be_an_own_setting_is_refused_before_anything_runs(own, message, tmp_path, capsys):
    folder = tmp_path / "run"
    asked = ["--algorithms", *COMPARED, "--own_settings", own, "--output", str(folder)]
    assert compare.main(asked) == 2
    assert capsys.readouterr().err == f"error: {message}\n"
    assert not folder.exists()


def test_a_whole_number_is_a_float_too_and_nothing_given_is_nothing():
    given = CompareArguments(algorithms=COMPARED, own_settings='{"no_hidden": {"critic_epochs": 2}}')
    compare.check(given, Config())
    assert own_settings(given) == {"no_hidden": {"critic_epochs": 2}}
    assert own_settings(CompareArguments(algorithms=COMPARED)) == {}


@pytest.fixture
def seen(monkeypatch):
    """List of (step, critic_epochs) in place of all work of a comparison."""
    rows = []
    monkeypatch.setattr("sweetrl_agent.data.run.forget_peak_memory", lambda: None)  # of what is not done

    def saw(name, run, **_):
        rows.append((name, run.config.algorithms.critic_epochs))

    for name in ALGORITHMS:
        recorded = {stage: partial(saw, stage) for stage in ALGORITHMS[name].stages}
        monkeypatch.setattr(ALGORITHMS[name], "recorded", recorded, raising=False)
    for kind in {type(ALGORITHMS[name]) for name in COMPARED}:
        monkeypatch.setattr(kind, "stages", property(lambda own: own.recorded))
    for name in ("sft", "collect", "pairs"):
        monkeypatch.setitem(STAGES, name, replace(STAGES[name], work=partial(saw, "shared")))
    monkeypatch.setattr(steps, "_evaluate", lambda run, name: saw(f"evaluate {name}", run))
    monkeypatch.setattr(credit_accuracy, "sample_states", lambda run, num_tasks: saw("credit states", run))
    monkeypatch.setattr(credit_accuracy, "score", lambda run, critic, num_tasks: saw(f"credit {critic}", run))
    monkeypatch.setattr(steps, "score_dialogues", lambda run, critic: saw(f"advantages of {critic}", run))

    @contextmanager
    def opened(run, critic):
        saw(f"best of n by {critic}", run)
        yield None

    monkeypatch.setattr(best_of_n, "open_critic", opened)
    monkeypatch.setattr(best_of_n, "record", lambda *_, **__: None)
    return rows


@pytest.mark.parametrize("algorithms", [COMPARED, ["no_hidden", "sweet", "rft"]])
def test_own_settings_reach_the_stages_and_measures_of_their_critic_alone(algorithms, make_run, seen):
    given = CompareArguments(
        algorithms=algorithms, critics=["sweet", "no_hidden", "untrained"], credit_tasks=2, best_of=[2],
        own_settings='{"no_hidden": {"critic_epochs": 4}, "sweet": {"critic_epochs": 2}}',
    )  # fmt: skip
    own = own_settings(given)
    run = make_run()
    steps.run_steps(run, {**steps.algorithm_steps(algorithms, own), **steps.experiment_steps(given)})
    by_step = dict(seen)
    assert {name: epochs for name, epochs in by_step.items() if epochs != 1} == {
        "critic": 2, "rank": 2, "actor": 2, "credit sweet": 2, "best of n by sweet": 2, "advantages of sweet": 2,
        "critic no_hidden": 4, "rank no_hidden": 4, "actor no_hidden": 4, "credit no_hidden": 4, "best of n by no_hidden": 4,
        "advantages of no_hidden": 4,
    }  # fmt: skip
    assert {name for name, epochs in by_step.items() if epochs == 1} == {
        "shared", "candidates", "rft", "credit states", "credit untrained", "best of n by untrained", "advantages of untrained", *(f"evaluate {name}" for name in COMPARED),
    }  # fmt: skip
    assert run.config.algorithms.critic_epochs == 1


def test_a_plan_with_own_settings_is_that_without(tmp_path, capsys):
    asked = ["--algorithms", *COMPARED, "--seeds", "1", "--dry_run", "true", "--output", str(tmp_path / "run")]
    assert compare.main(asked) == 0
    plan = capsys.readouterr().out
    assert compare.main([*asked, "--own_settings", json.dumps({"sweet": {"reference_hidden": True}})]) == 0
    assert capsys.readouterr().out == plan
