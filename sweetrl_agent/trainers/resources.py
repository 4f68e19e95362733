"""Disk and memory that a run needs, against what there is.

Two bounds each: less than the lower one cannot be enough, and the run is refused; below the upper one, it may end with a full disk or without memory,
and that is a warning.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from colbench_gym.errors import ColBenchError
from sweetrl_agent.config.pipeline import stages_of
from sweetrl_agent.core.work import Lengths, Work
from sweetrl_agent.data.machine import available_memory, free_disk
from sweetrl_agent.models.loading import torch_dtype
from sweetrl_agent.models.shape import Shape, find_shape
from sweetrl_agent.trainers.lengths import assumed_lengths
from sweetrl_agent.trainers.stage_work import num_collected, num_evaluated, works_of

MIB, GIB = 2**20, 2**30
#: Bytes of an episode's row and of a candidate with its scores, and of the libraries in memory.
_EPISODE, _CANDIDATE, _LIBRARIES = 5_000, 400, 700 * MIB
#: Models of a run with all weights that stay: initial policy, critic and policy; and a checkpoint with Adam's moments.
_KEPT, _CHECKPOINT = 3, 3


def memory_of(
    shape: Shape, work: Work, lengths: Lengths, model: Any, weight: float = 2.0, processes: int = 1
) -> tuple[float, float]:
    """Bytes that a stage needs at least, and an estimate of its peak, of each process; 0 without a model.

    Training of all weights has gradients and two moments in the weights' type. With several processes, all weights are trained under FSDP or ZeRO in float32
    (accelerate's FSDP 2 casts what is trained), divided among the processes; before that, every process holds the whole model. Adapters are float32.

    Args:
        shape: The model's shape.
        work: The stage's work.
        lengths: Sizes of an average dialogue.
        model: Settings of the agent's model; memory of other engines is not counted.
        weight: Bytes of a weight and of an activation.
        processes: Processes that train together.
    """
    weights, others = weight * shape.parameters, work.models - 1

    def forward(tokens: float, scored: float) -> float:
        return weight * (3.0 * tokens * shape.kv_width * shape.layers + 8.0 * shape.vocab * scored)

    needs = [(0.0, 0.0)]
    if work.trained:
        least, most = _training(shape, work.pass_tokens, model, weight, processes)
        needs.append((work.models * least, others * least + most))
    elif (
        work.read
    ):  # the critic's pass and the reference's: two models, but with LoRA the reference is the critic without its adapter
        models = 1 if model.lora else 2
        needs.append((weights, models * weights + forward(work.pass_tokens, work.pass_scored)))
    if work.sampled and model.engine == "transformers":
        spoken = work.models * weights
        needs.append((spoken, spoken + forward(work.at_once * (lengths.dialogue + 64), work.at_once)))
    return max(least for least, _ in needs), max(most for _, most in needs)


def _training(shape: Shape, tokens: float, model: Any, weight: float, processes: int) -> tuple[float, float]:
    """`memory_of` passes of training. Activations are estimated at 10 weights per hidden and 4 per intermediate unit, token and layer."""
    is_sharded = processes > 1
    whole = (4.0 if is_sharded and not model.lora else weight) * shape.parameters
    state = 16.0 * shape.adapters(model.lora_r, min(model.lora_layers, shape.layers)) if model.lora else 3.0 * whole
    least = (whole + state) / processes
    layer = 10.0 * shape.hidden + 4.0 * shape.intermediate
    kept = shape.hidden * shape.layers + layer if model.gradient_checkpointing else layer * shape.layers
    most = least + weight * tokens * kept
    if is_sharded:
        gathered = 4.0 * (shape.head + 2 * sum(a * b for a, b in shape.linear))
        most = max(most + gathered, whole + whole / processes)
    return least, most


def weight_bytes(run: Any) -> float | None:
    """Size of the files of the initial policy's weights; None if nothing is known of the model."""
    folder = Path(run.config.model.model)
    if sizes := [path.stat().st_size for pattern in ("*.safetensors", "*.bin") for path in folder.glob(pattern)]:
        return float(sum(sizes))
    shape, _ = find_shape(run.config)
    return None if shape is None else (4.0 if run.config.is_tiny else 2.0) * shape.parameters


def disk_needed(run: Any, algorithms: Sequence[Any] = ()) -> tuple[float, float]:
    """The least and the most bytes that a run writes into its folder besides what that has already; weights only as far as the model is known.

    Args:
        run: The run.
        algorithms: The algorithms of the policies that are trained in the folder, one for each; empty for the run's own. A comparison has several.
    """
    trained = algorithms or [run.algorithm]
    stages = {name: stage for algorithm in trained for name, stage in stages_of(algorithm).items()}
    utterances = works_of(run, stages, trained, assumed_lengths(run.config)).get("candidates", Work()).utterances
    collected = num_collected(run) if "collect" in stages else 0
    rows = (collected + num_evaluated(run) * len(trained)) * _EPISODE + utterances * _CANDIDATE
    policies = sum(max(1, len(algorithm.folders)) for algorithm in trained)  # a team has several
    weights, kept, checkpoint = weight_bytes(run) or 0.0, _KEPT - 1 + policies, _CHECKPOINT
    if run.config.model.lora:  # adapters are small
        kept, checkpoint = int(run.config.has_sft), 0
    there = sum(path.stat().st_size for path in run.folder.rglob("*") if path.is_file() and not path.is_symlink())
    return max(0.0, rows / 2 + kept * weights - there), max(0.0, 2 * rows + (kept + checkpoint) * weights - there)


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
    least, most = map(sum, zip(*(disk_needed(run, algorithms) for run in runs), strict=True))
    free = free_disk(runs[0].folder)
    if free < least:
        folder, writes = runs[0].folder, "the run writes"
        if len(runs) > 1:
            folder, writes = folder.parent, f"its {len(runs)} seeds write"
        raise ColBenchError(
            f"The disk of {folder} has {_size(free)} free, and {writes} {_size(least)} to {_size(most)}; free some space, or "
            "give an `--output` on another disk."
        )


def memory_needed(run: Any, left: Collection[str], works: Mapping[str, Work], lengths: Lengths) -> tuple[float, float]:
    """The least memory that the stages need on a CPU, and what they may need, in bytes; 0 if the model is unknown.

    Args:
        run: The run.
        left: Stages that are left to do.
        works: Their work.
        lengths: Sizes of an average dialogue.
    """
    shape, _ = find_shape(run.config)
    model, needs = run.config.model, [(0.0, 0.0)]
    for work in [] if shape is None else [works[name] for name in left if name in works]:
        weight = torch_dtype(model, bool(work.trained or work.read)).itemsize
        least, most = memory_of(shape, work, lengths, model, weight)
        logits = 3 * 4.0 * shape.vocab * work.pass_scored if work.trained else 0.0
        needs.append((least + _LIBRARIES, most + logits + _LIBRARIES) if most else (0.0, 0.0))
    return max(least for least, _ in needs), max(most for _, most in needs)


def _available() -> float:
    """Memory for the models, in bytes; infinite where they are on a GPU, or it is not known."""
    available = None if torch.cuda.is_available() else available_memory()
    return math.inf if available is None else available


def check_memory(run: Any, left: Collection[str]) -> None:
    """Refuse a run whose weights, gradients and moments do not fit into memory.

    Raises:
        ColBenchError: Says what is needed and what is there.
    """
    lengths = assumed_lengths(run.config)
    least, _ = memory_needed(run, left, works_of(run, run.stages, [run.algorithm], lengths), lengths)
    if (available := _available()) < least:
        raise ColBenchError(
            f"This machine has {_size(available)} of memory available, and the run needs at least {_size(least)} for weights, gradients and the "
            "optimizer; train adapters (`--lora true`), or take a smaller `--model` or a larger machine."
        )


def warnings(run: Any, left: Collection[str], works: Mapping[str, Work], lengths: Lengths) -> list[str]:
    """Sentences on disk and memory that may not suffice; [] if they do."""
    sentences, most, free = [], disk_needed(run)[1], free_disk(run.folder)
    if left and free < most:
        sentences.append(
            f"The disk of {run.folder} has {_size(free)} free, and the run may write up to {_size(most)}; free some space, or give an `--output` on "
            "another disk."
        )
    least, most = memory_needed(run, left, works, lengths)
    if least <= (available := _available()) < most:
        sentences.append(
            f"This machine has {_size(available)} of memory available, and the run may need {_size(most)}; smaller micro-batches, a smaller "
            "`--generation_batch` and `--gradient_checkpointing true` take less."
        )
    return sentences


def disk_line(run: Any) -> str:
    """The disk that a run needs, for its plan."""
    weights = weight_bytes(run)
    beside = "" if weights is not None else ", and the weights of the model"
    return f"disk       up to {_size(disk_needed(run)[1])}{beside}; {_size(free_disk(run.folder))} are free"


def _size(count: float) -> str:
    return f"{count / GIB:,.1f} GiB" if count >= GIB else f"{count / MIB:,.0f} MiB"
