"""The work of all stages of a run: of the shared ones, of evaluation, of training on pairs, and what algorithms state of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from colbench_gym.files import count_rows
from sweetrl_agent.core.run import Run
from sweetrl_agent.core.stage import Stage
from sweetrl_agent.core.work import EXPECTED_SHARE, Lengths, Work, episodes, reading, training


def planned_run(config: Any, tasks: Sequence[Any], held_out: Mapping[str, Sequence[Any]], folder: Path) -> Any:
    """A run as far as a plan reads it: nothing is loaded, and nothing need be in its folder.

    Args:
        config: All settings.
        tasks: Its training tasks.
        held_out: Its other tasks, by split.
        folder: Its folder.
    """
    return SimpleNamespace(
        config=config, record=config.record, seed=config.run.seed, tasks=tasks, train=tasks, held_out=held_out, path=folder.joinpath,
        initial_model="",
        artifact=lambda name, file: folder / file if name == "sweet" else folder / name / file,
        environment=partial(config.record.environments, config),
    )  # fmt: skip


def works_of(run: Run, stages: Mapping[str, Stage], algorithms: Sequence[Any], lengths: Lengths) -> dict[str, Work]:
    """The work of stages, by name and in order.

    Args:
        run: The run.
        stages: The stages. One named "evaluate NAME" evaluates one policy.
        algorithms: The algorithms that have stages of their own among them.
        lengths: Sizes of an average dialogue.
    """
    collected, batch = num_collected(run), run.config.model.generation_batch
    works = {
        "sft": _sft(run, lengths),
        "collect": Work(f"{collected:,} episodes of {len(run.tasks):,} tasks") + episodes(collected, lengths, batch),
        "pairs": Work(),
        "evaluate": _evaluate(run, lengths),
        "report": Work(),
    }
    for algorithm in algorithms:
        works |= algorithm.work(run, lengths)
    measured = _num_measured(run)
    unknown = Work(not_timed="its algorithm states no work (`Algorithm.work`)")
    for name in stages:
        if name.startswith("evaluate ") and name not in works:
            compared = run.config.algorithms.get(name.removeprefix("evaluate "))
            played = episodes(measured, lengths, batch, compared is None or compared.has_model)
            works[name] = Work(f"{measured:,} episodes") + played
    return {name: works.get(name) or unknown for name in stages}


def num_collected(run: Run) -> int:
    """Number of episodes that are collected."""
    return len(run.tasks) * int(run.config.collect.trajectories_per_task)


def _num_measured(run: Run) -> int:
    """Episodes of the evaluation of one policy."""
    return sum(len(tasks) for tasks in run.held_out.values()) * int(run.config.evaluation.eval_episodes)


def _num_policies(run: Run) -> int:
    return 1 + int(run.config.evaluation.eval_initial) + int(run.config.has_pretrained)


def num_evaluated(run: Run) -> int:
    """Episodes of a run's evaluation."""
    return _num_measured(run) * _num_policies(run)


def _evaluate(run: Run, lengths: Lengths) -> Work:
    count, given = num_evaluated(run), run.config.evaluation
    models = max(1, len({*run.config.algorithm.policies.values()}))
    played = episodes(count, lengths, run.config.model.generation_batch, run.config.algorithm.has_model)
    work = Work(f"{count:,} episodes", models=models) + played
    if getattr(run.config.algorithm, "critic", ""):  # dialogues that are shown get advantages, by the critic and its reference
        shown = _num_policies(run) * min(given.shown_dialogues, len(run.held_out["test"])) + given.hint_turns
        work += reading(2 * shown, 1, lengths.dialogue + lengths.hidden, lengths.spoken)
    return work


def _sft(run: Run, lengths: Lengths) -> Work:
    config, model = run.config.sft, run.config.model
    if not run.config.has_sft:
        return Work(f"none: {model.model} is the initial policy")
    if run.config.initial_policy == "packaged":
        return Work("none: the initial policy comes with the package")
    count, file, batch = int(config.sft_dialogues), run.config.demonstration_file, config.sft_batch
    if file:
        count = min(count, count_rows(Path(file)))
    text = f"{count:,} dialogues, batches of {batch} turns"
    if model.history < 0:
        text, count = f"{config.sft_epochs * (count // batch):,} steps of {batch} dialogues", count // batch * batch
    micro_batch = batch if run.config.is_tiny else config.sft_micro_batch
    return Work(text) + training(*lengths.rows(count, model.history), batch, micro_batch, config.sft_epochs)


def pair_work(
    run: Run, lengths: Lengths, batch: int, micro_batch: int, epochs: float, reads: int = 1, hidden: float = 0.0
) -> Work:
    """The work of training on the outcome pairs: those of the file, or before it is there the expected share of all possible ones.

    Args:
        run: The run.
        lengths: Sizes of an average dialogue.
        batch: Pairs of an optimizer step.
        micro_batch: Pairs of a pass.
        epochs: Epochs.
        reads: Forward passes over each pair besides: 1 for the reference's.
        hidden: Tokens of hidden information in front of each dialogue.
    """
    known = count_rows(run.path("outcome_pairs.jsonl"))
    most = known or num_collected(run) - len(run.tasks)
    text = f"{'' if known else 'at most '}{most:,} pairs, {epochs:g} epochs"
    rows, tokens, scored = lengths.rows(known or most * EXPECTED_SHARE, run.config.model.history)
    return Work(text) + training(rows, tokens + hidden, scored, batch, micro_batch, epochs, sides=2, reads=reads)
