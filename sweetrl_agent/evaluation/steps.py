"""The steps of a comparison on one seed: each algorithm's stages and evaluation, then the further experiments; each is done once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from colbench_gym.digests import module_input, module_of, rows_of
from sweetrl_agent.algorithms.critic_settings import SWEET
from sweetrl_agent.config.evaluation import CompareArguments
from sweetrl_agent.config.pipeline import ADVANTAGES, EVALUATION, STAGES, critic_files, files_needed, policy_files, stages_of
from sweetrl_agent.core.algorithm import Algorithm
from sweetrl_agent.core.stage import Stage
from sweetrl_agent.evaluation import algorithm_credit, best_of_n, credit_accuracy, simulators
from sweetrl_agent.evaluation.held_out import evaluate_agent
from sweetrl_agent.evaluation.main_job import with_work
from sweetrl_agent.evaluation.outcome import score_dialogues
from sweetrl_agent.rollouts.collection import NothingToLearnError
from sweetrl_agent.trainers.run import Run

#: Critics that compare two candidates and cannot score a single turn.
SCORE_PAIRS = ("judge",)
Steps = dict[str, Stage]
#: What a comparison writes for its report into the folder of its first seed, every time.
EXPLANATIONS = Stage("explanations", "explanations of shown episodes", (), STAGES["report"].writes[1:4])
#: What a step that plays held-out tasks reads from elsewhere.
_PLAYS = ("held_out", "model", "env", "human")
#: What a step in which a critic scores dialogues reads from elsewhere.
_SCORES = ("model", "judge_model", "gain_model", "vision_model", "env")


def algorithm_steps(algorithms: Iterable[Algorithm]) -> Steps:
    """The shared stages, then each algorithm's own stages and its evaluation."""
    steps: Steps = {}
    by_name = {algorithm.name: algorithm for algorithm in algorithms}
    for algorithm in by_name.values():
        earlier: list[str] = []
        for stage in with_work(stages_of(algorithm)).values():
            if stage.name in algorithm.shared:
                steps.setdefault(stage.name, stage)
            elif stage.name in algorithm.stages:
                steps[stage.name] = _or_unchanged(stage, algorithm.folders, tuple(earlier))
                earlier.append(stage.name)
        steps[f"evaluate {algorithm.name}"] = evaluation_step(algorithm, by_name)
    return steps


def evaluation_step(algorithm: Algorithm, algorithms: Mapping[str, Algorithm]) -> Stage:
    """The evaluation of an algorithm's policy, which adds its rows to the file of all algorithms; those of the run are given by name."""
    name, reads = algorithm.name, (*(("initial/",) if algorithm.has_model else ()), *files_needed(algorithm, algorithms))
    return Stage(
        f"evaluate {name}", f"{algorithm.title} on held-out tasks", (*reads, *policy_files(algorithm)), (rows_of(EVALUATION, agent=name),),
        partial(_evaluate, algorithm=algorithm), needs=STAGES["evaluate"].needs, inputs=(*_PLAYS, *module_input(algorithm.module)),
    )  # fmt: skip


def _or_unchanged(stage: Stage, folders: tuple[str, ...], earlier: tuple[str, ...]) -> Stage:
    """A step that records if there is no training signal: this must neither end the comparison nor exclude the seed of that algorithm.

    Where one of the algorithm's `earlier` stages has said so, there is nothing to do.
    """

    def work(run: Run) -> None:
        if any(run.is_done(name) and run.records.stages[name].facts.get("unchanged") for name in earlier):
            return
        try:
            stage.run(run)
        except NothingToLearnError as error:
            for folder in folders:
                run.mark_untrained(folder, str(error))

    return replace(stage, work=work)


def _evaluate(run: Run, algorithm: Algorithm) -> None:
    evaluate_agent(run, algorithm.name, algorithm.loader(run), f"evaluate {algorithm.name}")


def experiment_steps(given: CompareArguments, algorithms: Mapping[str, Algorithm]) -> Steps:
    """Further experiments on critics and agents. The name of a step contains its settings, so that other settings make another step.

    Args:
        given: Settings of the comparison.
        algorithms: The algorithms that are compared, and SWEET-RL with each of the critics, by name.
    """
    steps: Steps = {}
    compared, agents = given.critics, given.algorithms

    def add(
        name: str,
        purpose: str,
        writes: Sequence[str],
        work: Callable[[Run], None],
        reads: Sequence[str] = (),
        critics: Sequence[str] = (),
        inputs: Sequence[str] = _PLAYS,
        rules: Sequence[str] = (),
    ) -> None:
        files = (*reads, "initial/", *(file for critic in critics for file in critic_files(critic)))
        scoring = (*critics, *rules)
        modules = [module for algorithm in scoring for module in module_input(algorithms[algorithm].module)]
        steps[name] = Stage(name, purpose, files, tuple(writes), work, inputs=(*inputs, *modules), algorithms=scoring)

    for critic in compared if given.credit_tasks or given.best_of else ():
        algorithm = algorithms[critic]
        for stage in with_work(stages_of(algorithm)).values():
            if stage.name in algorithm.shared or stage.name.startswith("critic"):
                steps[stage.name] = stage
    if count := given.credit_tasks:
        states, candidates = credit_accuracy.STATES.format(count), algorithms[compared[0]].config.num_candidates
        sample = partial(credit_accuracy.sample_states, num_tasks=count, num_candidates=candidates)
        add(f"credit states {count}", "candidates with a known exact advantage", [states], sample)
        for critic in compared:
            scores = _of_critic(critic, credit_accuracy.SCORES.format(count))
            score = partial(credit_accuracy.score, critic=critic, num_tasks=count)
            add(f"credit {critic} {count}", "their scores by the critic", [scores], score, [states], [critic], _SCORES)
        for name in given.credit_algorithms:
            scores = f"credit/{name}/{credit_accuracy.SCORES.format(count)}"
            score = partial(algorithm_credit.score, name=name, num_tasks=count)
            about, inputs = "their scores by its rule for turns", (*_PLAYS, "tasks")
            add(f"credit of {name} {count}", about, [scores], score, [states], inputs=inputs, rules=[name])
    if given.best_of:
        asked: dict[str, Any] = {"critics": compared, "sizes": given.best_of, "num_tasks": given.best_of_tasks}
        label = partial(rows_of, best_of_n.ROWS, tasks=given.best_of_tasks)
        rows = [label(agent=critic, candidates=size) for critic in compared for size in given.best_of]
        choose = partial(best_of_n.best_of_n, **asked)
        add(f"best of n ({_in_words(asked)})", "best-of-N per turn by critics", rows, choose, critics=compared)
    if given.simulators:
        asked = {"algorithms": agents, "simulators": given.simulators, "num_tasks": given.simulator_tasks}
        label = partial(rows_of, simulators.ROWS, tasks=given.simulator_tasks)
        rows = [label(simulator=human, agent=name) for human in given.simulators for name in agents]
        files = [file for name in agents for file in policy_files(algorithms[name])]
        modules = [name for human in given.simulators for name in module_of(simulators.parsed(human))]
        play = partial(simulators.evaluate_with_simulators, **asked)
        add(f"simulators ({_in_words(asked)})", "episodes with other simulators", rows, play, files, inputs=(*_PLAYS, *modules))
    for critic in scoring_critics(given, algorithms):
        name = f"{'advantages' if critic == SWEET else f'advantages of {critic}'} ({', '.join(agents)})"
        played = [rows_of(EVALUATION, agent=agent) for agent in agents]
        scored = [rows_of(_of_critic(critic, ADVANTAGES), agent=agent) for agent in agents]
        add(
            name,
            "advantages of the dialogues that are shown",
            scored,
            partial(score_dialogues, critic=critic),
            played,
            [critic],
            _SCORES,
        )
    return steps


def _of_critic(critic: str, file: str) -> str:
    return file if critic == SWEET else f"{critic}/{file}"


def scoring_critics(given: CompareArguments, algorithms: Mapping[str, Algorithm]) -> list[str]:
    """The critics of a comparison that score the dialogues of its report: those of its algorithms, and those that are compared."""
    trained_with = [algorithms[name].critic for name in given.algorithms]
    compared = given.critics if given.credit_tasks or given.best_of else []
    return [critic for critic in dict.fromkeys([*trained_with, *compared]) if critic and critic not in SCORE_PAIRS]


def _in_words(asked: dict[str, Any]) -> str:
    return "; ".join(" ".join(map(str, value)) if isinstance(value, list) else str(value) for value in asked.values())
