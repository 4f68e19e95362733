"""The work of all stages of a run: of the shared ones, of evaluation, and what algorithms state of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sweetrl_agent.core.run import Run
from sweetrl_agent.core.stage import Stage
from sweetrl_agent.core.work import Lengths, Part, Passes, Work, episodes, training
from sweetrl_agent.data.files import count_rows


def works_of(run: Run, stages: Mapping[str, Stage], algorithms: Sequence[Any], lengths: Lengths) -> dict[str, Work]:
    """The work of stages, by name and in order.

    Args:
        run: The run.
        stages: The stages. One named "evaluate NAME" evaluates one policy.
        algorithms: The algorithms that have stages of their own among them.
        lengths: Sizes of an average dialogue.
    """
    shared = {
        "sft": _sft(run, lengths),
        "collect": _collect(run, lengths),
        "pairs": Work(),
        "evaluate": _evaluate(run, lengths),
        "report": Work(),
    }
    owned: dict[str, Work] = {}
    for algorithm in algorithms:
        own = [name for name in stages if name in algorithm.stages]
        overrides = next((stages[name].overrides for name in own if stages[name].overrides), {})
        settled: Any = run
        owned |= algorithm.work(settled.with_settings(overrides) if overrides else run, lengths)
    one = _episodes_of_one(run)
    of_one = Work(f"{one:,} episodes", episodes(one, lengths, run.config.model.generation_batch))
    return {
        name: shared.get(name)
        or owned.get(name)
        or (of_one if name.startswith("evaluate ") else Work(not_timed="its algorithm states no work (`Algorithm.work`)"))
        for name in stages
    }


def num_collected(run: Run) -> int:
    """Number of episodes that are collected."""
    return len(run.tasks) * int(run.config.collect.trajectories_per_task)


def _collect(run: Run, lengths: Lengths) -> Work:
    count = num_collected(run)
    text = f"{count:,} episodes of {len(run.tasks):,} tasks"
    return Work(text, episodes(count, lengths, run.config.model.generation_batch))


def _episodes_of_one(run: Run) -> int:
    """Episodes of the evaluation of one policy."""
    return sum(len(tasks) for tasks in run.held_out.values()) * int(run.config.evaluation.eval_episodes)


def num_policies(run: Run) -> int:
    """Number of policies that a run evaluates."""
    return 1 + int(run.config.evaluation.eval_initial) + int(run.config.has_pretrained)


def num_evaluated(run: Run) -> int:
    """Episodes of a run's evaluation."""
    return _episodes_of_one(run) * num_policies(run)


def _evaluate(run: Run, lengths: Lengths) -> Work:
    count, given = num_evaluated(run), run.config.evaluation
    parts: list[Part] = [*episodes(count, lengths, run.config.model.generation_batch)]
    if getattr(run.config.algorithm, "critic", ""):  # dialogues that are shown get advantages, by the critic and its reference
        shown = num_policies(run) * min(given.shown_dialogues, len(run.held_out["test"])) + given.hint_turns
        parts.append(Passes("read", 2 * shown, 1, lengths.dialogue + lengths.hidden, lengths.spoken))
    return Work(f"{count:,} episodes", tuple(parts))


def _sft(run: Run, lengths: Lengths) -> Work:
    config, model = run.config.sft, run.config.model
    if not run.config.has_sft:
        return Work(f"none: {model.model} is the initial policy")
    if run.config.initial_policy == "packaged":
        return Work("none: the initial policy comes with the package")
    count, row = num_demonstrations(run), lengths.as_trained(model.history)
    micro = config.sft_batch if run.config.is_tiny else min(config.sft_micro_batch, config.sft_batch)
    if model.history >= 0:
        text, rows = f"{count:,} dialogues, batches of {config.sft_batch} turns", count * lengths.turns
    else:
        steps = config.sft_epochs * (count // config.sft_batch)
        text, rows = f"{steps:,} steps of {config.sft_batch} dialogues", count // config.sft_batch * config.sft_batch
    row = replace(row, hidden=0.0)
    return Work(text, (training(rows, config.sft_batch, micro, config.sft_epochs, row.dialogue, row.spoken),))


def num_demonstrations(run: Run) -> int:
    """Number of demonstrations: at most those of the file, if one is given."""
    wanted, file = int(run.config.sft.sft_dialogues), run.config.task.demonstrations
    return min(wanted, count_rows(Path(file))) if file and not run.config.demonstrates_source else wanted
