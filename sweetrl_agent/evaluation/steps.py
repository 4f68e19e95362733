"""The steps of a comparison on one seed: each algorithm's stages and evaluation, then the further experiments; each is done once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

from colbench_gym.digests import module_input, module_of, rows_of
from sweetrl_agent.algorithms.critics import SWEET
from sweetrl_agent.algorithms.registry import ALGORITHMS
from sweetrl_agent.config.evaluation import CompareArguments
from sweetrl_agent.config.pipeline import ADVANTAGES, EVALUATION, STAGES, critic_files, policy_files, stages_of
from sweetrl_agent.core.stage import Stage
from sweetrl_agent.data.run import Run
from sweetrl_agent.evaluation import best_of_n, credit_accuracy, simulators
from sweetrl_agent.evaluation.checks import own_settings
from sweetrl_agent.evaluation.evaluate import evaluate_agent
from sweetrl_agent.evaluation.outcome import score_dialogues
from sweetrl_agent.rollouts.collection import NothingToLearnError

#: Critics that compare two candidates and cannot score a single turn.
SCORE_PAIRS = ("judge",)
Steps = dict[str, Stage]
#: What a comparison writes for its report into the folder of its first seed, every time.
EXPLANATIONS = Stage("explanations", "explanations of shown episodes", (), STAGES["report"].writes[1:4], "")
#: What a step that plays held-out tasks reads from elsewhere.
_PLAYS = ("held_out", "model", "env", "human")
_log = logging.getLogger(__name__)


def refuse_other_settings(run: Run, steps: Mapping[str, Stage]) -> None:
    """Refuse settings of single algorithms (`own_settings`) that differ from those that a stage was begun with.

    Raises:
        ValueError: If a stage was.
    """
    for name, step in steps.items():
        if run.records.is_begun(name):
            before = run.records.stages[name].facts.get("overrides", {})
            if before != dict(step.overrides):
                raise ValueError(
                    f"Stage {name!r} was begun in {run.folder} with `own_settings` {before}, not {dict(step.overrides)}; give the same, or "
                    "another `--output`."
                )


def run_steps(run: Run, steps: Mapping[str, Stage]) -> None:
    """Run the steps that are not done, in order."""
    left = [step for name, step in steps.items() if not run.is_done(name)]
    for i, step in enumerate(left, 1):
        _log.info("seed %d: %s (%d of %d)", run.seed, step.name, i, len(left))
        with run.stage(step):
            step.run(run)
        _log.info("seed %d: %s took %.0f s", run.seed, step.name, run.seconds[step.name])


def algorithm_steps(algorithms: Sequence[str], own: Mapping[str, Mapping[str, Any]] = MappingProxyType({})) -> Steps:
    """The shared stages, then each algorithm's own stages, with its own settings if it has any, and its evaluation."""
    steps: Steps = {}
    for name in algorithms:
        algorithm = ALGORITHMS[name]
        for stage in stages_of(algorithm).values():
            if stage.name in algorithm.shared:
                steps.setdefault(stage.name, stage)
            elif stage.name in algorithm.stages:
                steps[stage.name] = _or_unchanged(_with_settings(stage, own.get(name)), algorithm.policy)
        steps[f"evaluate {name}"] = evaluation_step(name)
    return steps


def evaluation_step(name: str) -> Stage:
    """The evaluation of an algorithm's policy, which adds its rows to the file of all algorithms."""
    algorithm = ALGORITHMS[name]
    reads = () if algorithm.is_discrete else ("initial/",)
    return Stage(
        f"evaluate {name}", f"{algorithm.title} on held-out tasks", (*reads, *policy_files(algorithm)), (rows_of(EVALUATION, agent=name),),
        partial(_evaluate, name=name), inputs=(*_PLAYS, *module_input(algorithm.module)),
    )  # fmt: skip


def _with_settings(stage: Stage, changed: Mapping[str, Any] | None) -> Stage:
    """A step with an algorithm's own settings, if it has any; candidates are shared by all critics, and depend on none of these."""
    return replace(stage, overrides=changed or {}) if stage.name != "candidates" else stage


def _or_unchanged(stage: Stage, policy: str) -> Stage:
    """A step that records if there is no training signal: this must neither end the comparison nor exclude the seed of that algorithm."""

    def work(run: Run) -> None:
        try:
            replace(stage, overrides={}).run(run)
        except NothingToLearnError as error:
            run.leave_unchanged(policy, str(error))

    return replace(stage, work=work)


def _evaluate(run: Run, name: str) -> None:
    evaluate_agent(run, name, ALGORITHMS[name].loader(run), f"evaluate {name}")


def experiment_steps(given: CompareArguments) -> Steps:
    """Further experiments on critics and agents. The name of a step contains its settings, so that other settings make another step."""
    steps: Steps = {}
    own = own_settings(given)
    if given.credit_tasks or given.best_of:
        for critic in given.critics:
            algorithm = ALGORITHMS[critic]
            for stage in stages_of(algorithm).values():
                if stage.name in algorithm.shared or stage.name.startswith("critic"):
                    steps[stage.name] = _with_settings(stage, None if stage.name in algorithm.shared else own.get(critic))
    if count := given.credit_tasks:
        states = credit_accuracy.STATES.format(count)
        steps |= _named(
            f"credit states {count}", ("initial/",), (states,), partial(credit_accuracy.sample_states, num_tasks=count), _PLAYS
        )
        for critic in given.critics:
            scores = _of_critic(critic, credit_accuracy.SCORES.format(count))
            work = partial(credit_accuracy.score, critic=critic, num_tasks=count)
            steps |= _scoring(f"credit {critic} {count}", critic, (states,), (scores,), work, own)
    if given.best_of:
        asked: dict[str, Any] = {"critics": given.critics, "sizes": given.best_of, "num_tasks": given.best_of_tasks}
        rows = tuple(
            rows_of(best_of_n.ROWS, agent=critic, candidates=size, tasks=given.best_of_tasks)
            for critic in given.critics
            for size in given.best_of
        )
        reads = ("initial/", *(file for critic in given.critics for file in critic_files(critic)))
        inputs = (*_PLAYS, *(name for critic in given.critics for name in module_input(ALGORITHMS[critic].module)))
        steps |= _named(f"best of n ({_said(asked)})", reads, rows, partial(best_of_n.best_of_n, **asked, own=own), inputs)
    if given.simulators:
        asked = {"algorithms": given.algorithms, "simulators": given.simulators, "num_tasks": given.simulator_tasks}
        rows = tuple(
            rows_of(simulators.ROWS, simulator=human, agent=name, tasks=given.simulator_tasks)
            for human in given.simulators
            for name in given.algorithms
        )
        reads = ("initial/", *(file for name in given.algorithms for file in policy_files(ALGORITHMS[name])))
        inputs = (*_PLAYS, *(name for human in given.simulators for name in module_of(simulators.parsed(human))))
        steps |= _named(
            f"simulators ({_said(asked)})", reads, rows, partial(simulators.evaluate_with_simulators, **asked), inputs
        )
    for critic in scoring_critics(given):
        name = "advantages" if critic == SWEET else f"advantages of {critic}"
        played = tuple(rows_of(EVALUATION, agent=agent) for agent in given.algorithms)
        scored = tuple(rows_of(_of_critic(critic, ADVANTAGES), agent=agent) for agent in given.algorithms)
        work = partial(score_dialogues, critic=critic)
        steps |= _scoring(f"{name} ({', '.join(given.algorithms)})", critic, played, scored, work, own)
    return steps


def _named(name: str, reads: Sequence[str], writes: Sequence[str], work: Callable[[Run], None], inputs: Sequence[str]) -> Steps:
    return {name: Stage(name, name, tuple(reads), tuple(writes), work, inputs=tuple(inputs))}


def _scoring(
    name: str,
    critic: str,
    reads: Sequence[str],
    writes: Sequence[str],
    work: Callable[[Run], None],
    own: Mapping[str, Mapping[str, Any]],
) -> Steps:
    """A step in which a critic scores what is in files."""
    read = (*reads, "initial/", *critic_files(critic))
    inputs = ("model", "judge_model", "vision_model", "env", *module_input(ALGORITHMS[critic].module))
    return {name: replace(_named(name, read, writes, work, inputs)[name], overrides=own.get(critic, {}))}


def _of_critic(critic: str, file: str) -> str:
    return file if critic == SWEET else f"{critic}/{file}"


def scoring_critics(given: CompareArguments) -> list[str]:
    """The critics of a comparison that score the dialogues of its report: those of its algorithms, and those that are compared."""
    own = [ALGORITHMS[name].critic for name in given.algorithms]
    compared = given.critics if given.credit_tasks or given.best_of else []
    return [critic for critic in dict.fromkeys([*own, *compared]) if critic and critic not in SCORE_PAIRS]


def _said(asked: dict[str, Any]) -> str:
    return "; ".join(" ".join(map(str, value)) if isinstance(value, list) else str(value) for value in asked.values())
