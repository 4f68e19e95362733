"""The steps of a comparison on one seed: each algorithm's stages and evaluation, then the further experiments; each is done once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

from sweetrl_agent.algorithms.critics import SWEET
from sweetrl_agent.algorithms.registry import ALGORITHMS
from sweetrl_agent.config.evaluation import CompareArguments
from sweetrl_agent.config.pipeline import STAGES
from sweetrl_agent.data.files import read_object, write_json
from sweetrl_agent.data.run import Run
from sweetrl_agent.evaluation import best_of_n, credit_accuracy, simulators
from sweetrl_agent.evaluation.checks import own_settings
from sweetrl_agent.evaluation.evaluate import evaluate_agent
from sweetrl_agent.evaluation.outcome import score_dialogues
from sweetrl_agent.rollouts.collection import NothingToLearnError

#: Critics that compare two candidates and cannot score a single turn.
SCORE_PAIRS = ("judge",)
Step = tuple[str, Callable[[Run], None]]
_log = logging.getLogger(__name__)


def keep_own_settings(run: Run, algorithms: Sequence[str], own: Mapping[str, Mapping[str, Any]]) -> None:
    """Record the settings of single algorithms in own_settings.json.

    Raises:
        ValueError: If one of the algorithms was started with other settings.
    """
    path = run.path("own_settings.json")
    before = read_object(path)
    for name in algorithms:
        has_begun = run.artifact(name, "scores.jsonl").exists() or any(run.is_done(stage) for stage in ALGORITHMS[name].stages)
        if has_begun and before.get(name, {}) != own.get(name, {}):
            raise ValueError(
                f"{name!r} was started in {run.folder} with `own_settings` {before.get(name, {})}, not {own.get(name, {})}; give the same, or "
                "another `--output`."
            )
    if (after := {**before, **own}) != before:
        write_json(path, after)


def run_steps(run: Run, steps: Sequence[Step]) -> None:
    """Run the steps that are not done, in order."""
    left = [(name, function) for name, function in dict(steps).items() if not run.is_done(name)]
    for i, (name, function) in enumerate(left, 1):
        with run.stage(name):
            function(run)
        _log.info("seed %d: %s, %.0f s (%d of %d)", run.seed, name, run.seconds[name], i, len(left))


def algorithm_steps(algorithms: Sequence[str], own: Mapping[str, Mapping[str, Any]] = MappingProxyType({})) -> list[Step]:
    """The shared stages, then each algorithm's own stages, with its own settings if it has any, and its evaluation."""
    steps: list[Step] = []
    for name in algorithms:
        algorithm = ALGORITHMS[name]
        steps += [(stage, STAGES[stage].run) for stage in algorithm.shared]
        steps += [
            (stage, _or_unchanged(_with_settings(function, own.get(name)), algorithm.policy))
            for stage, function in algorithm.stages.items()
        ]
        steps.append((f"evaluate {name}", partial(_evaluate, name=name)))
    return steps


def _with_settings(function: Callable[[Run], None], changed: Mapping[str, Any] | None) -> Callable[[Run], None]:
    """A step with an algorithm's own settings, if it has any."""
    return (lambda run: function(run.with_settings(changed))) if changed else function


def _or_unchanged(function: Callable[[Run], None], policy: str) -> Callable[[Run], None]:
    """A step that records if there is no training signal: this must neither end the comparison nor exclude the seed of that algorithm."""

    def step(run: Run) -> None:
        try:
            function(run)
        except NothingToLearnError as error:
            run.leave_unchanged(policy, str(error))

    return step


def _evaluate(run: Run, name: str) -> None:
    evaluate_agent(run, name, ALGORITHMS[name].loader(run), f"evaluate {name}")


def experiment_steps(given: CompareArguments) -> list[Step]:
    """Further experiments on critics and agents. The name of a step contains its settings, so that other settings make another step."""
    steps: list[Step] = []
    own = own_settings(given)
    asked: dict[str, Any]
    if given.credit_tasks or given.best_of:
        for critic in given.critics:
            steps += [(stage, STAGES[stage].run) for stage in ALGORITHMS[critic].shared]
            trained = [item for item in ALGORITHMS[critic].stages.items() if item[0].startswith("critic")]
            steps += [(stage, _with_settings(function, own.get(critic))) for stage, function in trained]
    if count := given.credit_tasks:
        steps.append((f"credit states {count}", partial(credit_accuracy.sample_states, num_tasks=count)))
        steps += [
            (
                f"credit {critic} {count}",
                _with_settings(partial(credit_accuracy.score, critic=critic, num_tasks=count), own.get(critic)),
            )
            for critic in given.critics
        ]
    if given.best_of:
        asked = {"critics": given.critics, "sizes": given.best_of, "num_tasks": given.best_of_tasks}
        steps.append((f"best of n ({_said(asked)})", partial(best_of_n.best_of_n, **asked, own=own)))
    if given.simulators:
        asked = {"algorithms": given.algorithms, "simulators": given.simulators, "num_tasks": given.simulator_tasks}
        steps.append((f"simulators ({_said(asked)})", partial(simulators.evaluate_with_simulators, **asked)))
    for critic in scoring_critics(given):
        name = "advantages" if critic == SWEET else f"advantages of {critic}"
        function = _with_settings(partial(score_dialogues, critic=critic), own.get(critic))
        steps.append((f"{name} ({', '.join(given.algorithms)})", function))
    return steps


def scoring_critics(given: CompareArguments) -> list[str]:
    """The critics of a comparison that score the dialogues of its report: those of its algorithms, and those that are compared."""
    own = [ALGORITHMS[name].critic for name in given.algorithms]
    compared = given.critics if given.credit_tasks or given.best_of else []
    return [critic for critic in dict.fromkeys([*own, *compared]) if critic and critic not in SCORE_PAIRS]


def _said(asked: dict[str, Any]) -> str:
    return "; ".join(" ".join(map(str, value)) if isinstance(value, list) else str(value) for value in asked.values())
