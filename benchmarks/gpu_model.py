"""What `gpu.py` measures on: shapes of models, sizes of dialogues, and by formula their operations and memory. Needs no torch.

The weights are random: speed and memory do not depend on them. Sizes follow the hub's `config.json` of each model.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

GIB = 2**30
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


@dataclass(frozen=True)
class Shape:
    """Shape of a decoder-only model of the Llama family.

    Attributes:
        kind: Model type of transformers, "llama" or "qwen2" (biases of queries, keys and values).
        hidden, intermediate, layers, heads, kv_heads, vocab: As in `config.json`.
        is_tied: Whether the head shares the embedding's weights.
        rope_theta: Base of the rotary embedding.
    """

    kind: str
    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    vocab: int
    is_tied: bool
    rope_theta: float = 10_000.0

    @property
    def linear(self) -> list[tuple[int, int]]:
        """Inputs and outputs of the linear maps of a layer."""
        h, i, kv = self.hidden, self.intermediate, self.kv_width
        return [(h, h), (h, kv), (h, kv), (h, h), (h, i), (h, i), (i, h)]

    @property
    def kv_width(self) -> int:
        """Width of a layer's keys, and of its values."""
        return self.hidden // self.heads * self.kv_heads

    @property
    def body(self) -> int:
        """Weights of all layers' linear maps."""
        return self.layers * sum(a * b for a, b in self.linear)

    @property
    def head(self) -> int:
        """Weights of the language-model head."""
        return self.hidden * self.vocab

    @property
    def parameters(self) -> int:
        """All parameters."""
        biases = self.layers * (self.hidden + 2 * self.kv_width) if self.kind == "qwen2" else 0
        return self.body + self.head * (1 if self.is_tied else 2) + (2 * self.layers + 1) * self.hidden + biases

    @property
    def adapters(self) -> int:
        """Parameters of LoRA adapters on all linear maps of the layers."""
        return self.layers * LORA_R * sum(a + b for a, b in self.linear)

    def config(self, end_id: int, pad_id: int) -> Any:
        """The configuration of transformers."""
        from transformers import AutoConfig

        return AutoConfig.for_model(
            self.kind, hidden_size=self.hidden, intermediate_size=self.intermediate, num_hidden_layers=self.layers,
            num_attention_heads=self.heads, num_key_value_heads=self.kv_heads, vocab_size=self.vocab,
            tie_word_embeddings=self.is_tied, max_position_embeddings=8192, bos_token_id=None, eos_token_id=end_id,
            pad_token_id=pad_id, rope_parameters={"rope_type": "default", "rope_theta": self.rope_theta},
        )  # fmt: skip


SHAPES = {
    "qwen2.5-1.5b": Shape("qwen2", 1536, 8960, 28, 12, 2, 151_936, True, 1e6),
    "llama-3.1-8b": Shape("llama", 4096, 14_336, 32, 32, 8, 128_256, False, 5e5),
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
    return 2 * weights + 3 * attention + 6 * shape.adapters * sum(lengths)


def memory(shape: Shape, part: Part, sizes: Sizes, processes: int = 1) -> dict[str, float]:
    """Estimate of a GPU's peak memory in GiB, by what takes it; "sum" with 1.5 GiB for CUDA, buffers and fragments.

    Weights are bfloat16. Training of all weights has gradients and two moments in the weights' type: 8 bytes per parameter. FSDP trains in
    float32 (accelerate's FSDP 2 casts what is trained): 16 bytes, divided among the processes; before that, every GPU holds the whole model.
    Adapters are float32. Activations are estimated at 20 bytes per hidden and 8 per intermediate unit, token and layer.
    """
    full = part.trained == "full"
    state = shape.adapters * 16.0 if part.trained == "lora" else 0.0
    weights = shape.parameters * 2.0
    if full:
        weights, state = (
            (4.0 * shape.parameters, 12.0 * shape.parameters) if part.is_fsdp else (weights, 6.0 * shape.parameters)
        )
    if part.is_fsdp:
        weights, state = weights / processes, state / processes
    found = {"weights": weights, "gradients and moments": state}
    layer = 20 * shape.hidden + 8 * shape.intermediate
    if part.what in ("critic", "actor"):
        tokens = (
            2 * sizes.micro_batch * (sizes.dialogue + sizes.hidden if part.what == "critic" else sizes.prefix + sizes.agent)
        )
        found["activations"] = tokens * (
            2.0 * shape.hidden * shape.layers + layer if part.has_checkpoints else layer * shape.layers
        )
        if part.is_fsdp:
            found["gathered"] = 4.0 * (shape.head + 2 * sum(a * b for a, b in shape.linear))
    else:
        rows = sizes.dialogues if part.what == "sampling" else 1
        tokens = rows * (sizes.dialogue + sizes.hidden + 64)
        found["cache"] = 1.5 * tokens * 4.0 * shape.kv_width * shape.layers
        found["logits"] = 16.0 * shape.vocab * (rows if part.what == "sampling" else sizes.candidates * sizes.agent)
    found = {name: value / GIB for name, value in found.items()}
    before_sharding = shape.parameters * (4 if full else 2) / GIB + found["weights"] if part.is_fsdp and processes > 1 else 0.0
    return {**found, "sum": max(sum(found.values()), before_sharding) + 1.5}


def described(shape: Shape) -> dict[str, Any]:
    """A shape as plain values."""
    return {**asdict(shape), "parameters": shape.parameters, "lora_parameters": shape.adapters}
