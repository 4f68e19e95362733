"""Shapes of decoder-only models: numbers of parameters and sizes of activations."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from sweetrl_agent.config.packaged import FOLDER

#: Billions of parameters in a model's name, such as "Llama-3.1-8B-Instruct".
_BILLIONS = re.compile(r"(?<![\w.])(\d{1,4}(?:\.\d{1,3})?)b(?![a-z0-9])", re.I)


@dataclass(frozen=True)
class Shape:
    """Shape of a decoder-only model of the Llama family.

    Attributes:
        kind: Model type of transformers, "llama" or "qwen2" (biases of queries, keys and values).
        hidden, intermediate, layers, heads, kv_heads, vocab: As in `config.json`.
        is_tied: Whether the head shares the embedding's weights.
    """

    kind: str
    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    vocab: int
    is_tied: bool

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

    def adapters(self, rank: int = 16, layers: int = 0) -> int:
        """Parameters of LoRA adapters on all linear maps of the last layers.

        Args:
            rank: Their rank.
            layers: Number of layers with adapters; 0 for all.
        """
        return (layers or self.layers) * rank * sum(a + b for a, b in self.linear)


#: Assumed shapes of models whose configuration cannot be read and whose name gives a size, from the hub's `config.json`.
SHAPES = {
    "qwen2.5-0.5b": Shape("qwen2", 896, 4864, 24, 14, 2, 151_936, True),
    "qwen2.5-1.5b": Shape("qwen2", 1536, 8960, 28, 12, 2, 151_936, True),
    "llama-3.2-3b": Shape("llama", 3072, 8192, 28, 24, 8, 128_256, True),
    "llama-3.1-8b": Shape("llama", 4096, 14_336, 32, 32, 8, 128_256, False),
    "qwen2.5-14b": Shape("qwen2", 5120, 13_824, 48, 40, 8, 152_064, False),
    "qwen2.5-32b": Shape("qwen2", 5120, 27_648, 64, 40, 8, 152_064, False),
    "llama-3.1-70b": Shape("llama", 8192, 28_672, 80, 64, 8, 128_256, False),
}


def model_config(config: Any, tokenizer: Any = None) -> Any:
    """The configuration of transformers of a run's model.

    Args:
        config: All settings of the run.
        tokenizer: The tokenizer, for the size of a tiny model that SFT makes.
    """
    from transformers import AutoConfig

    from sweetrl_agent.models.tiny import tiny_config

    if not config.is_tiny:
        return AutoConfig.from_pretrained(config.model.model, revision=config.model.revision, trust_remote_code=False)
    if config.initial_policy == "packaged":
        return AutoConfig.from_pretrained(FOLDER)
    size = max(config.sft.tiny_vocab_size, len(tokenizer) if tokenizer is not None else 0)
    return tiny_config(size, config.sft.tiny_hidden_size, config.sft.tiny_layers)


def find_shape(config: Any) -> tuple[Shape | None, str]:
    """The shape of a run's model and a note where it is assumed; None if nothing is known of it."""
    try:
        return shape_of(model_config(config)), ""
    except Exception:  # libraries raise any type for what is missing or broken; the checks name it
        name = config.model.model
    unread = f"the configuration of {name!r} cannot be read here"
    if known := shape_by_name(name):
        return known[1], f"shape      that of {known[0]}, by the size in its name: {unread}"
    return None, f"shape      unknown: {unread}"


def shape_of(config: Any) -> Shape:
    """The shape of a configuration of transformers, without what only its family has.

    Args:
        config: The configuration.
    """
    text = config.get_text_config()
    heads = int(text.num_attention_heads)
    kv_heads = getattr(text, "num_key_value_heads", None) or heads
    intermediate = getattr(text, "intermediate_size", None) or 4 * text.hidden_size
    kind = "qwen2" if text.model_type == "qwen2" else "llama"
    sizes = text.hidden_size, intermediate, text.num_hidden_layers, heads, kv_heads, text.vocab_size
    return Shape(kind, *map(int, sizes), bool(getattr(text, "tie_word_embeddings", False)))


def shape_by_name(name: str) -> tuple[str, Shape] | None:
    """The known shape that is nearest in size to the billions of parameters that a model's name gives; None if it gives none.

    Args:
        name: Folder or hub name of the model.
    """
    billions = _BILLIONS.findall(name.rpartition("/")[2].replace("_", "-").replace("-", " "))
    if not billions:
        return None
    wanted = float(billions[-1]) * 1e9
    return min(SHAPES.items(), key=lambda item: abs(item[1].parameters - wanted))
