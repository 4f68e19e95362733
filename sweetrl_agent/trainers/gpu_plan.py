"""Hours, memory and cost of a run's stages on named GPUs, by formula: `--dry_run --gpu "8 x H100-80GB"`.

A forward pass takes 2 operations per parameter and token, forward and backward 6 (4 with LoRA: frozen weights have no gradient), without attention: about a
tenth is missing for dialogues of some thousand tokens. Most rates are not measured; `SOURCES` says where each is from. `docs/planning.md` has a plan of
the paper's size, and how to measure the rates on a GPU.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from sweetrl_agent.core.work import Lengths, Part, Passes, Playing, Sampling, Work
from sweetrl_agent.models.shape import Shape
from sweetrl_agent.trainers.gpus import OUR_SAMPLED, VLLM_SAMPLED, GivenGPUs

GIB = 2**30
#: Share of its memory that vLLM takes.
VLLM_SHARE = 0.9
#: What the default rates are projected from.
SOURCES = {
    "peak": "not measured here: data sheet, dense bfloat16",
    "training_share": "not measured here: projected from torchtitan's 33% for Llama 3.1 8B on 8 H100 with FSDP (its benchmarks/llama3_h100_202412), "
    "times 3/4 because all activations are recomputed",
    "reading_share": "measured once on an H100: the reference's pass over 56 pairs of 8B's shape with random weights, one pair of 2,052 tokens at a time, "
    "8.5 pairs a second",
    "sampled": f"not measured here: assumed, {VLLM_SAMPLED:g} for 8B on an H100 with vLLM, below the 5,777 of Red Hat's MLPerf Inference 5.1 entry for "
    f"Llama 3.1 8B (FP8), and {OUR_SAMPLED:g} with our engine; for others by parameters and memory bandwidth",
    "human_sampled": "not measured here: assumed, for 70B on 8 H100",
    "graded": "measured here on two CPU cores: 5,000 answers of ten tests each, while runners were killed at random",
}


@dataclass(frozen=True)
class Rates:
    """The rates of the machines.

    Attributes:
        gpus: GPUs of the agent; those of the simulated human are separate.
        parameters: Parameters of the agent, and of the critic.
        peak: Peak operations per second of one GPU.
        train_operations: Operations per parameter and token of forward and backward pass: 6 for all weights, 4 with LoRA.
        training_share, reading_share: Share of the peak in training, and in prefill and ranking.
        sampled: Tokens per second that one GPU samples for the agent, with many concurrent dialogues.
        human_sampled: Tokens per second of all GPUs of the simulated human's server.
        human_gpus: GPUs of the simulated human's server; 0 without one.
        graded: Answers per second that one core grades, with ten tests each; 0 for nothing to grade.
        cores: Number of grading cores.
    """

    gpus: int
    parameters: float
    peak: float
    train_operations: float
    sampled: float
    training_share: float = 0.25
    reading_share: float = 0.25
    human_sampled: float = 3_000
    human_gpus: int = 0
    graded: float = 0
    cores: int = 16


def rates_of(config: Any, shape: Shape, given: GivenGPUs, has_server: bool, has_sandbox: bool) -> Rates:
    """The rates of named GPUs.

    Args:
        config: All settings.
        shape: The model's shape.
        given: The GPUs.
        has_server: Whether the simulated human is a model server, which is assumed to have eight GPUs of the same kind.
        has_sandbox: Whether answers are run in a sandbox.
    """
    base = OUR_SAMPLED if config.model.engine == "transformers" else VLLM_SAMPLED
    return Rates(
        given.count, shape.parameters, given.gpu.peak, 4 if config.model.lora else 6, given.gpu.sampled(shape.parameters, base),
        human_gpus=8 if has_server else 0, graded=100 if has_sandbox else 0,
    )  # fmt: skip


@dataclass(frozen=True)
class StageTime:
    """Seconds of a stage by resource. The resources work in parallel, so the longest time counts."""

    agent: float = 0.0
    human: float = 0.0
    grading: float = 0.0

    @property
    def seconds(self) -> float:
        """Time of the slowest resource."""
        return max(self.agent, self.human, self.grading)

    @property
    def bottleneck(self) -> str:
        """The slowest resource; "" for a stage that takes no time."""
        return max(("agent", "human", "grading"), key=lambda name: float(getattr(self, name))) if self.seconds else ""


def stage_time(work: Work, lengths: Lengths, rates: Rates) -> StageTime:
    """Time of a stage by its work."""
    training = rates.gpus * rates.peak * rates.training_share / rates.parameters
    reading = rates.gpus * rates.peak * rates.reading_share / (2 * rates.parameters)
    agent = human = grading = 0.0
    for part in work.parts:
        if isinstance(part, Playing):
            human += part.episodes * part.turns * lengths.reply / rates.human_sampled if rates.human_gpus else 0.0
            grading += part.episodes / (rates.graded * rates.cores) if rates.graded else 0.0
        elif isinstance(part, Sampling):
            agent += part.count * (part.tokens / (rates.sampled * rates.gpus) + part.unread / reading)
        else:
            tokens = part.count * part.rows * part.tokens
            agent += tokens * rates.train_operations / training if part.kind == "train" else tokens / reading
    return StageTime(agent, human, grading)


def part_memory(
    shape: Shape, part: Part, lengths: Lengths, model: Any, processes: int = 1, gpu_gib: float = 0.0
) -> dict[str, float]:
    """Estimate of a GPU's peak memory in GiB, by what takes it; "sum" with 1.5 GiB for CUDA, buffers and fragments. {} for what needs none.

    Weights are bfloat16. Training of all weights has gradients and two moments in the weights' type: 8 bytes per parameter. With several processes, all
    weights are trained under FSDP or ZeRO in float32 (accelerate's FSDP 2 casts what is trained): 16 bytes, divided among the processes; before that, every
    GPU holds the whole model. Adapters are float32. Activations are estimated at 20 bytes per hidden and 8 per intermediate unit, token and layer.

    Args:
        shape: The model's shape.
        part: A part of a stage's work.
        lengths: Sizes of an average dialogue.
        model: Settings of the agent's model.
        processes: Processes that train together.
        gpu_gib: Memory of a GPU, of which vLLM takes its share.
    """
    if isinstance(part, Playing):
        return {}
    if isinstance(part, Passes) and part.kind == "train":
        return training_memory(shape, part.rows * part.tokens, model, processes)
    found = {"weights": 2.0 * shape.parameters}
    if isinstance(part, Sampling) and model.engine == "vllm":
        found["cache"] = max(0.0, (VLLM_SHARE * gpu_gib - 1.5) * GIB - found["weights"])
    elif isinstance(part, Sampling):
        tokens = part.at_once * (lengths.dialogue + 64)
        found |= {"cache": 6.0 * tokens * shape.kv_width * shape.layers, "logits": 16.0 * shape.vocab * part.at_once}
    else:  # the critic's pass and the reference's: two models, but with LoRA the reference is the critic without its adapter
        found["weights"] *= 1 if model.lora else 2
        tokens = part.rows * part.tokens
        found |= {"cache": 6.0 * tokens * shape.kv_width * shape.layers, "logits": 16.0 * shape.vocab * part.rows * part.scored}
    return summed(found)


def training_memory(
    shape: Shape, tokens: float, model: Any, processes: int = 1, is_sharded: bool | None = None
) -> dict[str, float]:
    """`part_memory` of a pass of training over so many tokens; `is_sharded` says whether FSDP or ZeRO is used, by default with several processes."""
    is_sharded = processes > 1 if is_sharded is None else is_sharded
    weights = (4.0 if is_sharded and not model.lora else 2.0) * shape.parameters
    state = 16.0 * shape.adapters(model.lora_r, min(model.lora_layers, shape.layers)) if model.lora else 3.0 * weights
    whole = weights
    if is_sharded:
        weights, state = weights / processes, state / processes
    layer = 20 * shape.hidden + 8 * shape.intermediate
    kept = 2.0 * shape.hidden * shape.layers + layer if model.gradient_checkpointing else float(layer * shape.layers)
    found = {"weights": weights, "gradients and moments": state, "activations": tokens * kept}
    if is_sharded:
        found["gathered"] = 4.0 * (shape.head + 2 * sum(a * b for a, b in shape.linear))
    return summed(found, before=whole + weights if is_sharded and processes > 1 else 0.0)


def summed(found: Mapping[str, float], before: float = 0.0) -> dict[str, float]:
    """Bytes as GiB, with their sum; `before` is what is needed before the weights are divided, in bytes."""
    return {name: value / GIB for name, value in found.items()} | {"sum": max(sum(found.values()), before) / GIB + 1.5}


def stage_memory(shape: Shape, work: Work, lengths: Lengths, model: Any, given: GivenGPUs) -> float:
    """The largest estimate of a stage's parts in GiB of each GPU; 0 for a stage that needs no GPU."""
    is_training = any(isinstance(part, Passes) and part.kind == "train" for part in work.parts)
    parts = [part for part in work.parts if not is_training or not isinstance(part, Passes) or part.kind == "train"]
    of_parts = (part_memory(shape, part, lengths, model, given.count, given.gpu.memory_gib) for part in parts)
    return max((found["sum"] for found in of_parts if found), default=0.0)


def plan_lines(
    works: Mapping[str, Work],
    left: Collection[str],
    lengths: Lengths,
    shape: Shape,
    rates: Rates,
    given: GivenGPUs,
    config: Any,
) -> list[str]:
    """The plan as a table for the terminal, its sums and its assumptions.

    Args:
        works: The work of the stages.
        left: Stages that are left to do.
        lengths: Sizes of an average dialogue.
        shape: The model's shape.
        rates: The rates.
        given: The GPUs.
        config: All settings.
    """
    rows = [("stage", "hours", "waits for", "GiB a GPU", f"cost in {given.currency}")]
    total = human = 0.0
    for name in [name for name in works if name in left and (works[name].parts or works[name].not_timed)]:
        if works[name].not_timed:
            rows.append((name, "not timed", "", "", ""))
            continue
        time, needed = stage_time(works[name], lengths, rates), stage_memory(shape, works[name], lengths, config.model, given)
        hours = time.seconds / 3600
        total, human = total + hours, human + (hours if time.human else 0.0)
        fits = (
            f"{needed:.0f}"
            if needed <= given.gpu.memory_gib
            else f"{needed:.0f}, more than the {given.gpu.memory_gib:g} that it has"
        )
        rows.append((name, f"{hours:.2f}", time.bottleneck, fits, f"{hours * given.count * given.price:.2f}"))
    rows.append(("in all", f"{total:.2f}", "", "", f"{total * given.count * given.price:.2f}"))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return [f"gpu        {given.text}", *lines, *_assumptions(rates, given, human, config)]


def _assumptions(rates: Rates, given: GivenGPUs, human: float, config: Any) -> list[str]:
    """What the plan assumes, a line each."""
    trained = "LoRA" if config.model.lora else "all weights, under FSDP or ZeRO" if given.count > 1 else "all weights"
    sampling = f"{rates.sampled:,.0f} tokens a second and GPU sampled, with one engine on each GPU (Ray or servers)"
    shares = f"{rates.training_share:.0%} of the peak in training and {rates.reading_share:.0%} in reading"
    lines = [
        f"assumed    {rates.parameters / 1e9:.2g} billion parameters, {trained}; {shares}; {sampling}; see docs/planning.md"
    ]
    if rates.human_gpus and human:
        cost = f"{human * rates.human_gpus * given.price:.2f} {given.currency}"
        lines.append(
            f"human      its server is assumed to write {rates.human_sampled:,.0f} tokens a second (70B on {rates.human_gpus} GPUs), which costs {cost} more for "
            f"{human:.2f} h"
        )
    return lines
