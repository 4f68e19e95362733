"""The plan of a run on named GPUs, from its settings alone: neither tasks nor weights are needed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from sweetrl_agent.config.pipeline import stages_of
from sweetrl_agent.core.work import Lengths
from sweetrl_agent.models.shape import Shape, shape_by_name, shape_of
from sweetrl_agent.trainers.gpu_plan import plan_lines, rates_of
from sweetrl_agent.trainers.gpus import parse_gpus
from sweetrl_agent.trainers.lengths import ASSUMED, ASSUMED_REPLY, ASSUMED_TURN, ASSUMED_TURNS
from sweetrl_agent.trainers.machine import model_config
from sweetrl_agent.trainers.stage_work import works_of

#: Assumed tokens of the request and of the hidden information, as of dialogues on ColBench's rows, and tasks where the settings name no number.
REQUEST, HIDDEN, TASKS = 350, 250, 1000
HOW_TO_NAME = (
    "gpu        none here; `--gpu '8 x H100-80GB'` plans hours, memory and cost on GPUs that you name (docs/planning.md)"
)


def assumed_lengths(config: Any) -> Lengths:
    """Sizes of a dialogue where nothing of the run's tasks is known."""
    return Lengths(ASSUMED_TURNS, REQUEST, min(ASSUMED_TURN, config.model.max_new_tokens), ASSUMED_REPLY, HIDDEN, ASSUMED)


def run_by_settings(config: Any) -> Any:
    """A run as far as its settings give it: as many tasks as they name, none of them loaded."""
    folder = Path(config.run.output)
    count, splits = config.collect.num_tasks or TASKS, ("test_tasks", "unseen_tasks", "novel_tasks")
    measured = config.evaluation.eval_tasks or TASKS
    named = {split: getattr(config.task, split) for split in splits}
    held_out = {
        split.removesuffix("_tasks"): range(measured) for split, source in named.items() if source or split == "test_tasks"
    }
    return SimpleNamespace(
        config=config, record=config.record, seed=config.run.seed, tasks=range(count), train=range(count), held_out=held_out,
        algorithm=config.algorithm, stages=stages_of(config.algorithm), path=lambda name: folder / name,
        artifact=lambda name, file: folder / file if name == "sweet" else folder / name / file,
        with_settings=lambda changed: run_by_settings(config.with_settings(changed)),
    )  # fmt: skip


def find_shape(run: Any) -> tuple[Shape | None, str]:
    """The shape of the run's model and a note where it is assumed; None if nothing is known of it."""
    try:
        return shape_of(model_config(run)), ""
    except Exception:  # libraries raise any type for what is missing or broken; the checks name it
        name = run.config.model.model
    if found := shape_by_name(name):
        return found[
            1
        ], f"shape      that of {found[0]}, by the size in its name: the configuration of {name!r} cannot be read here"
    return None, f"shape      unknown: the configuration of {name!r} cannot be read here"


def gpu_lines(run: Any, stages: Mapping[str, Any], left: Collection[str], lengths: Lengths) -> list[str]:
    """The plan of a run on the GPUs of the setting `gpu`, a line each; without that setting how to get one, where there is no GPU and the model is not tiny.

    Args:
        run: The run.
        stages: Its stages by name.
        left: Stages that are left to do.
        lengths: Sizes of an average dialogue.

    Raises:
        ValueError: As `gpus.parse_gpus`.
    """
    config = run.config
    if not config.run.gpu:
        return [] if config.is_tiny or torch.cuda.is_available() else [HOW_TO_NAME]
    given = parse_gpus(config.run.gpu)
    shape, note = find_shape(run)
    if shape is None:
        return [note]
    has_server = '"openai"' in config.task.simulator or config.task.simulator == "openai"
    rates = rates_of(config, shape, given, has_server, run.record.has_sandbox)
    works = works_of(run, stages, [run.algorithm], lengths)
    return [*plan_lines(works, left, lengths, shape, rates, given, config), *([note] if note else [])]


def lines_by_settings(config: Any) -> list[str]:
    """`gpu_lines` where the tasks cannot be loaded: as many as the settings name, of assumed sizes."""
    run, lengths = run_by_settings(config), assumed_lengths(config)
    lines = gpu_lines(run, run.stages, [*run.stages], lengths)
    note = f"tasks      not loaded; the plan takes {len(run.tasks):,} to train and {len(run.held_out['test']):,} to test, in dialogues of assumed sizes"
    return [*lines, note] if config.run.gpu else lines
