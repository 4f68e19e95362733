"""Hours, memory and cost of a run's stages on named GPUs, by formula: `--dry_run --gpu "8 x H100-80GB"`.

A forward pass takes 2 operations per parameter and token, forward and backward 6 (4 with LoRA: frozen weights have no gradient), without attention: about a
tenth is missing for dialogues of some thousand tokens. Most rates are not measured: `docs/planning.md` says where each is from, and has
a plan of the paper's size.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch

from sweetrl_agent.config.pipeline import stages_of
from sweetrl_agent.core.work import Lengths, Line, Speeds, Work
from sweetrl_agent.models.shape import Shape, find_shape
from sweetrl_agent.trainers.forecast import table
from sweetrl_agent.trainers.gpus import OUR_SAMPLED, VLLM_SAMPLED, GivenGPUs, parse_gpus
from sweetrl_agent.trainers.lengths import assumed_lengths
from sweetrl_agent.trainers.resources import GIB, memory_of
from sweetrl_agent.trainers.stage_work import planned_run, works_of

#: Share of a GPU's peak in training, and in prefill and ranking.
TRAINING_SHARE, READING_SHARE = 0.25, 0.25
#: Tokens per second of all GPUs of the simulated human's server, and their number; answers per second that all cores grade, with ten tests each.
HUMAN_SAMPLED, HUMAN_GPUS, GRADED = 3_000, 8, 1_600
#: Share of its memory that vLLM takes, and GiB for CUDA, buffers and fragments.
VLLM_SHARE, CUDA_GIB = 0.9, 1.5
#: Tasks where the settings name no number.
TASKS = 1000
HOW_TO_NAME = (
    "gpu        none here; `--gpu '8 x H100-80GB'` plans hours, memory and cost on GPUs that you name (docs/planning.md)"
)


def agent_speeds(shape: Shape, given: GivenGPUs, model: Any) -> Speeds:
    """The speeds of the agent's model on named GPUs.

    Args:
        shape: The model's shape.
        given: The GPUs.
        model: Settings of the model.
    """
    operations = given.count * given.gpu.peak / shape.parameters
    read = Line(token=2 / (READING_SHARE * operations))
    train = Line(token=(4 if model.lora else 6) / (TRAINING_SHARE * operations))
    sampled = given.gpu.sampled(shape.parameters, OUR_SAMPLED if model.engine == "transformers" else VLLM_SAMPLED)
    return Speeds(read, train, Line(token=1 / (given.count * sampled)), prompt=read)


def stage_memory(shape: Shape, work: Work, lengths: Lengths, model: Any, given: GivenGPUs) -> float:
    """Estimate of the peak memory of each GPU in a stage, in GiB; 0 for a stage that needs none.

    Args:
        shape: The model's shape.
        work: The stage's work.
        lengths: Sizes of an average dialogue.
        model: Settings of the model.
        given: The GPUs.
    """
    most = memory_of(shape, work, lengths, model, processes=given.count)[1]
    engine = VLLM_SHARE * given.gpu.memory_gib if work.sampled and model.engine != "transformers" else 0.0
    return max(most / GIB + CUDA_GIB if most else 0.0, engine)


def gpu_lines(run: Any, works: Mapping[str, Work], left: Collection[str], lengths: Lengths) -> list[str]:
    """The plan of a run on the GPUs of the setting `gpu`, a line each; without that setting how to get one, where there is no GPU and the model is not tiny.

    Args:
        run: The run.
        works: The work of its stages.
        left: Stages that are left to do.
        lengths: Sizes of an average dialogue.

    Raises:
        ValueError: As `gpus.parse_gpus`.
    """
    config = run.config
    if not config.run.gpu:
        return [] if config.is_tiny or torch.cuda.is_available() else [HOW_TO_NAME]
    given, (shape, note) = parse_gpus(config.run.gpu), find_shape(config)
    if shape is None:
        return [note]
    planned = {name: work for name, work in works.items() if name in left and (work.has_amounts or work.not_timed)}
    return [f"gpu        {given.text}", *_table(run, planned, lengths, shape, given), *([note] if note else [])]


def _table(run: Any, works: Mapping[str, Work], lengths: Lengths, shape: Shape, given: GivenGPUs) -> list[str]:
    """The stages with their hours, bottleneck, memory and cost; the sums; and what is assumed."""
    model, task, speeds = run.config.model, run.config.task, agent_speeds(shape, given, run.config.model)
    has_server = '"openai"' in task.simulator or task.simulator == "openai"
    rows = [("stage", "hours", "waits for", "GiB a GPU", f"cost in {given.currency}")]
    total = of_human = 0.0
    for name, work in works.items():
        if work.not_timed:
            rows.append((name, "not timed", "", "", ""))
            continue
        seconds = {  # the three work in parallel
            "agent": speeds.seconds(work) or 0.0,
            "human": work.turns * lengths.reply / HUMAN_SAMPLED if has_server else 0.0,
            "grading": work.episodes / GRADED if run.record.has_sandbox else 0.0,
        }
        slowest = max(seconds, key=seconds.__getitem__)
        hours, needed = seconds[slowest] / 3600, stage_memory(shape, work, lengths, model, given)
        total, of_human = total + hours, of_human + (hours if seconds["human"] else 0.0)
        lacks = "" if needed <= given.gpu.memory_gib else f", more than the {given.gpu.memory_gib:g} that it has"
        rows.append((name, f"{hours:.2f}", slowest, f"{needed:.0f}{lacks}", f"{hours * given.count * given.price:.2f}"))
    rows.append(("in all", f"{total:.2f}", "", "", f"{total * given.count * given.price:.2f}"))
    trained = "LoRA" if model.lora else "all weights, under FSDP or ZeRO" if given.count > 1 else "all weights"
    sampled = f"{1 / speeds.sample.token / given.count:,.0f} tokens a second and GPU sampled, with one engine on each GPU (Ray or servers)"
    shares = f"{TRAINING_SHARE:.0%} of the peak in training and {READING_SHARE:.0%} in reading"
    assumed = f"{shape.parameters / 1e9:.2g} billion parameters, {trained}; {shares}; {sampled}; see docs/planning.md"
    lines = [*table(rows), f"assumed    {assumed}"]
    if of_human:
        cost = f"{of_human * HUMAN_GPUS * given.price:.2f} {given.currency} more for {of_human:.2f} h"
        lines.append(
            f"human      its server is assumed to write {HUMAN_SAMPLED:,} tokens a second (70B on {HUMAN_GPUS} GPUs), which costs {cost}"
        )
    return lines


def lines_by_settings(config: Any) -> list[str]:
    """`gpu_lines` where the tasks cannot be loaded: as many as the settings name, of assumed sizes."""
    measured = range(config.evaluation.eval_tasks or TASKS)
    sources = {name: getattr(config.task, f"{name}_tasks") for name in ("test", "unseen", "novel")}
    held_out = {name: measured for name, source in sources.items() if source or name == "test"}
    run = planned_run(config, range(config.collect.num_tasks or TASKS), held_out, Path(config.run.output))
    lengths = assumed_lengths(config)
    works = works_of(run, stages_of(config.algorithm), [config.algorithm], lengths)
    note = f"tasks      not loaded; the plan takes {len(run.tasks):,} to train and {len(measured):,} to test, in dialogues of assumed sizes"
    return [*gpu_lines(run, works, works, lengths), *([note] if config.run.gpu else [])]
