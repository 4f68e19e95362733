"""What `gpu.py` measures on: shapes of models, sizes of dialogues, and by formula their operations and memory.

The weights are random: speed and memory do not depend on them. Sizes follow the hub's `config.json` of each model.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from types import SimpleNamespace
from typing import Any

from sweetrl_agent.core.work import Lengths, Sampling, reading
from sweetrl_agent.models.shape import SHAPES as _KNOWN
from sweetrl_agent.models.shape import Shape
from sweetrl_agent.trainers.gpu_plan import GIB, part_memory, training_memory

__all__ = ["GIB", "PARTS", "SHAPES", "SMALL", "Part", "Shape", "Sizes"]
#: Rank of the LoRA adapters: the default of `ModelArguments.lora_r`.
LORA_R = 16
#: Dense bfloat16 operations per second with float32 accumulation and their source, for the first name that the GPU's name contains.
PEAKS = {
    "H200": (989e12, "NVIDIA H200 data sheet: 1,979 with sparsity"),
    "H100 PCIe": (756e12, "NVIDIA H100 data sheet, PCIe: 1,513 with sparsity"),
    "H100": (989e12, "NVIDIA H100 data sheet, SXM: 1,979 with sparsity"),
    "A100": (312e12, "NVIDIA A100 data sheet"),
    "4090": (165.2e12, "NVIDIA Ada GPU architecture whitepaper, appendix A"),
}


def peak_of(name: str) -> tuple[float | None, str]:
    """Peak of a GPU and the source of the figure; None for an unknown GPU."""
    return next((peak for part, peak in PEAKS.items() if part in name), (None, "not in PEAKS of benchmarks/gpu_model.py"))


SHAPES = {
    **{name: _KNOWN[name] for name in ("qwen2.5-1.5b", "llama-3.1-8b")},
    "tiny": Shape("llama", 64, 128, 2, 4, 2, 500, False),
}


@dataclass(frozen=True)
class Sizes:
    """Sizes of the measured dialogues and steps.

    Attributes:
        dialogues: Concurrent dialogues of sampling.
        turns: Agent turns of a dialogue.
        request, agent, reply, hidden: Tokens of the task's request, of an agent turn, of a reply of the human and of the hidden information.
        candidates: Candidates of ranking.
        batch, micro_batch: Pairs per optimizer step and per forward pass.
        warm_up, steps: Training steps before measuring, and measured ones.
    """

    dialogues: int = 128
    turns: int = 6
    request: int = 350
    agent: int = 120
    reply: int = 60
    hidden: int = 250
    candidates: int = 16
    batch: int = 8
    micro_batch: int = 1
    warm_up: int = 2
    steps: int = 5

    @property
    def dialogue(self) -> int:
        """Tokens of a whole dialogue, without those of the chat template."""
        return self.request + self.turns * self.agent + (self.turns - 1) * self.reply

    @property
    def prefix(self) -> int:
        """Tokens of a dialogue before its middle turn."""
        return self.request + self.turns // 2 * (self.agent + self.reply)


SMALL = Sizes(4, 6, 24, 6, 4, 12, 4, batch=2, warm_up=1, steps=2)


@dataclass(frozen=True)
class Part:
    """One measurement.

    Attributes:
        what: "sampling", "ranking", "critic" or "actor".
        trained: "lora" or "full" for training.
        engine: "ours" or "vllm" for sampling.
        is_fsdp: Whether it runs under `accelerate launch` with configs/accelerate/fsdp.yaml and one process.
        has_checkpoints: Whether activations are recomputed in the backward pass.
    """

    what: str
    trained: str = ""
    engine: str = ""
    is_fsdp: bool = False
    has_checkpoints: bool = False


PARTS = {
    "sampling": Part("sampling", engine="ours"),
    "sampling_vllm": Part("sampling", engine="vllm"),
    "ranking": Part("ranking"),
    "critic_lora": Part("critic", "lora"),
    "critic_lora_fsdp": Part("critic", "lora", is_fsdp=True),
    "critic_full": Part("critic", "full", has_checkpoints=True),
    "critic_full_fsdp": Part("critic", "full", is_fsdp=True, has_checkpoints=True),
    "actor_lora": Part("actor", "lora"),
    "actor_full": Part("actor", "full", has_checkpoints=True),
}


def forward_operations(shape: Shape, lengths: Iterable[int], scored: int, before: int = 0) -> tuple[float, float]:
    """Operations of a forward pass: of matrices of weights, 2 per weight and token, and of causal attention.

    Args:
        shape: The model.
        lengths: Tokens of each sequence.
        scored: Tokens that the head is applied to.
        before: Tokens in the cache that every sequence attends to.
    """
    lengths = list(lengths)
    attended = sum(n * (n + 1) / 2 + n * before for n in lengths)
    return 2 * (shape.body * sum(lengths) + shape.head * scored), 4 * shape.layers * shape.hidden * attended


def training_operations(shape: Shape, lengths: Iterable[int], scored: int, trained: str) -> float:
    """Operations of forward and backward pass, without those that are computed twice to save memory.

    6 per weight and token for all weights. With LoRA 4, since frozen weights get no gradient, and 6 per parameter of the adapters. Attention has
    no weights: always three times its forward pass.
    """
    lengths = list(lengths)
    weights, attention = forward_operations(shape, lengths, scored)
    if trained == "full":
        return 3 * (weights + attention)
    return 2 * weights + 3 * attention + 6 * shape.adapters(LORA_R) * sum(lengths)


def memory(shape: Shape, part: Part, sizes: Sizes, processes: int = 1) -> dict[str, float]:
    """Estimate of a GPU's peak memory in GiB, as `sweetrl_agent.trainers.gpu_plan.part_memory`."""
    model = SimpleNamespace(
        lora=part.trained != "full",
        lora_r=LORA_R,
        lora_layers=0,
        gradient_checkpointing=part.has_checkpoints,
        engine="transformers",
    )
    if part.what in ("critic", "actor"):
        own = sizes.dialogue + sizes.hidden if part.what == "critic" else sizes.prefix + sizes.agent
        return training_memory(shape, 2 * sizes.micro_batch * own, model, processes, part.is_fsdp)
    if part.what == "sampling":
        lengths = Lengths(sizes.turns, sizes.request, sizes.agent, sizes.reply, sizes.hidden, "")
        return part_memory(shape, Sampling(1, sizes.agent, 0, sizes.prefix, sizes.dialogues), lengths, model)
    said = sizes.candidates * sizes.agent
    passes = reading(1, 1, sizes.prefix + sizes.hidden + said, said)
    return part_memory(shape, passes, Lengths(1, 0, 0, 0, 0, ""), model)


def described(shape: Shape) -> dict[str, Any]:
    """A shape as plain values."""
    return {**asdict(shape), "parameters": shape.parameters, "lora_parameters": shape.adapters(LORA_R)}
