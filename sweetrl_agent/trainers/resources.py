"""Disk and memory that a run needs, against what there is.

Two bounds each: less than the lower one cannot be enough, and the run is refused; below the upper one, it may end with a full disk or without memory,
and that is a warning.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from colbench_gym.errors import ColBenchError
from sweetrl_agent.config.pipeline import stages_of
from sweetrl_agent.core.work import Lengths, Passes, Sampling, Work
from sweetrl_agent.data.machine import available_memory, free_disk
from sweetrl_agent.models.loading import torch_dtype
from sweetrl_agent.models.shape import Shape
from sweetrl_agent.trainers.gpu_plan import part_memory
from sweetrl_agent.trainers.planning import assumed_lengths, find_shape
from sweetrl_agent.trainers.stage_work import num_collected, num_evaluated, works_of

MIB, GIB = 2**20, 2**30
#: Bytes of an episode's row and of a candidate with its scores, and of the libraries in memory.
_EPISODE, _CANDIDATE, _LIBRARIES = 5_000, 400, 700 * MIB
#: Models of a run with all weights that stay: initial policy, critic and policy; and a checkpoint with Adam's moments.
_KEPT, _CHECKPOINT = 3, 3


@dataclass(frozen=True)
class Needed:
    """Bytes that a run needs.

    Attributes:
        least: What it needs in any case.
        most: What it may need.
    """

    least: float
    most: float


def weight_bytes(run: Any) -> float | None:
    """Size of the files of the initial policy's weights; None if nothing is known of the model."""
    folder = Path(run.config.model.model)
    if sizes := [path.stat().st_size for pattern in ("*.safetensors", "*.bin") for path in folder.glob(pattern)]:
        return float(sum(sizes))
    shape, _ = find_shape(run)
    return None if shape is None else (4.0 if run.config.is_tiny else 2.0) * shape.parameters


def disk_needed(run: Any, algorithms: Sequence[Any] = ()) -> Needed:
    """What a run writes into its folder; weights only as far as the model is known.

    Args:
        run: The run.
        algorithms: The algorithms of the policies that are trained in the folder, one for each; empty for the run's own. A comparison has several.
    """
    trained = algorithms or [run.algorithm]
    stages = {name: stage for one in trained for name, stage in stages_of(one).items()}
    works = works_of(run, stages, trained, assumed_lengths(run.config))
    utterances = sum(part.count for part in works.get("candidates", Work()).parts if isinstance(part, Sampling))
    collected = num_collected(run) if "collect" in stages else 0
    rows = (collected + num_evaluated(run) * len(trained)) * _EPISODE + utterances * _CANDIDATE
    weights, kept = weight_bytes(run) or 0.0, _KEPT - 1 + len(trained)
    if run.config.model.lora:  # adapters are small
        kept = int(run.config.has_sft)
    least = rows / 2 + kept * weights
    return Needed(least, 2 * rows + (kept + (0 if run.config.model.lora else _CHECKPOINT)) * weights)


def check_disk(runs: Sequence[Any], algorithms: Sequence[Any] = ()) -> None:
    """Refuse runs that the disk has no room for.

    Args:
        runs: The runs that are left to do, on one disk: one, or the seeds of a comparison, whose files all stay.
        algorithms: As in `disk_needed`.

    Raises:
        ColBenchError: Says what is needed and what is free.
    """
    if not runs:
        return
    each = [_left_of(run, algorithms) for run in runs]
    needed, free = Needed(sum(one.least for one in each), sum(one.most for one in each)), free_disk(runs[0].folder)
    if free < needed.least:
        folder, writes = (
            (runs[0].folder, "and the run writes")
            if len(runs) == 1
            else (runs[0].folder.parent, f"and its {len(runs)} seeds write")
        )
        raise ColBenchError(
            f"The disk of {folder} has {_size(free)} free, {writes} {_size(needed.least)} to {_size(needed.most)}; free some space, or "
            "give an `--output` on another disk."
        )


def _left_of(run: Any, algorithms: Sequence[Any] = ()) -> Needed:
    """What is needed besides what the folder has already."""
    needed = disk_needed(run, algorithms)
    there = sum(path.stat().st_size for path in run.folder.rglob("*") if path.is_file() and not path.is_symlink())
    return Needed(max(0.0, needed.least - there), max(0.0, needed.most - there))


def memory_needed(run: Any, left: Collection[str], works: Mapping[str, Work], lengths: Lengths) -> Needed | None:
    """Memory that the stages need on a CPU: weights, gradients and Adam's moments at least, and activations; None if the model is unknown.

    Args:
        run: The run.
        left: Stages that are left to do.
        works: Their work.
        lengths: Sizes of an average dialogue.
    """
    shape, _ = find_shape(run)
    if shape is None:
        return None
    parts = [part for name in left if name in works for part in works[name].parts]
    needs = [_part_on_cpu(run.config, shape, part, lengths) for part in parts if isinstance(part, Passes | Sampling)]
    if not needs:
        return Needed(0.0, 0.0)
    return Needed(max(need.least for need in needs) + _LIBRARIES, max(need.most for need in needs) + _LIBRARIES)


def _part_on_cpu(config: Any, shape: Shape, part: Passes | Sampling, lengths: Lengths) -> Needed:
    model, is_trained = config.model, isinstance(part, Passes) and part.kind == "train"
    if isinstance(part, Sampling) and model.engine != "transformers":
        return Needed(0.0, 0.0)
    each = torch_dtype(model, is_trained or isinstance(part, Passes)).itemsize
    weights = each * shape.parameters
    state = 0.0
    if is_trained:
        state = 16.0 * shape.adapters(model.lora_r, min(model.lora_layers, shape.layers)) if model.lora else 3.0 * weights
    estimate = part_memory(shape, part, lengths, model)
    others = sum(value for name, value in estimate.items() if name in ("activations", "cache", "logits")) * GIB
    scored = 3 * 4.0 * shape.vocab * part.rows * part.scored if isinstance(part, Passes) and is_trained else 0.0
    return Needed(weights + state, weights + state + others * each / 2 + scored)


def check_memory(run: Any, left: Collection[str]) -> None:
    """Refuse a run whose weights, gradients and moments do not fit into memory.

    Raises:
        ColBenchError: Says what is needed and what is there.
    """
    available = None if torch.cuda.is_available() else available_memory()
    lengths = assumed_lengths(run.config)
    needed = memory_needed(run, left, works_of(run, run.stages, [run.algorithm], lengths), lengths)
    if available is not None and needed is not None and available < needed.least:
        raise ColBenchError(
            f"This machine has {_size(available)} of memory available, and the run needs at least {_size(needed.least)} for weights, gradients and the "
            "optimizer; train adapters (`--lora true`), or take a smaller `--model` or a larger machine."
        )


def warnings(run: Any, left: Collection[str], works: Mapping[str, Work], lengths: Lengths) -> list[str]:
    """Sentences on disk and memory that may not suffice; [] if they do."""
    found, disk, free = [], _left_of(run), free_disk(run.folder)
    if left and free < disk.most:
        found.append(
            f"The disk of {run.folder} has {_size(free)} free, and the run may write up to {_size(disk.most)}; free some space, or give an `--output` on "
            "another disk."
        )
    available = None if torch.cuda.is_available() else available_memory()
    needed = memory_needed(run, left, works, lengths)
    if available is not None and needed is not None and needed.least <= available < needed.most:
        found.append(
            f"This machine has {_size(available)} of memory available, and the run may need {_size(needed.most)}; smaller micro-batches, a smaller "
            "`--generation_batch` and `--gradient_checkpointing true` take less."
        )
    return found


def disk_line(run: Any) -> str:
    """The disk that a run needs, for its plan."""
    weights = weight_bytes(run)
    beside = "" if weights is not None else ", and the weights of the model"
    return f"disk       up to {_size(disk_needed(run).most)}{beside}; {_size(free_disk(run.folder))} are free"


def _size(count: float) -> str:
    return f"{count / GIB:,.1f} GiB" if count >= GIB else f"{count / MIB:,.0f} MiB"
