"""The random model of `gpu.py`, its tokenizer and its texts.

The tokenizer has one word for each token of the vocabulary, so that texts have exact numbers of tokens, and what a model with random weights says is read
back as the tokens that it sampled.
"""

from __future__ import annotations

import time
from pathlib import Path
from random import Random
from typing import Any

import torch
from gpu_model import GIB, Shape, Sizes, peak_of
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

Figures = dict[str, Any]
SPECIAL = ("<|pad|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>")
TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|> {{ message['content'] }} <|end|> {% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def word_tokenizer(vocab_size: int) -> PreTrainedTokenizerFast:
    """A tokenizer whose tokens are the words w5, w6, ... after five special tokens."""
    words = [*SPECIAL, *(f"w{i}" for i in range(len(SPECIAL), vocab_size))]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token=SPECIAL[0]))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=SPECIAL[0], eos_token=SPECIAL[1], additional_special_tokens=list(SPECIAL[2:]),
        chat_template=TEMPLATE, clean_up_tokenization_spaces=False,
    )  # fmt: skip


def build(shape: Shape, folder: Path, device: str) -> Figures:
    """Write a model with random weights and its tokenizer to a folder; returns the device and the seconds that it took."""
    begin = time.monotonic()
    tokenizer = word_tokenizer(shape.vocab)
    torch.manual_seed(0)
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(
            shape.config(tokenizer.eos_token_id, tokenizer.pad_token_id), dtype=getattr(torch, dtype_on(device))
        )
    if model.num_parameters() != shape.parameters:
        raise ValueError(f"Expected {shape.parameters} parameters by the formula, got {model.num_parameters()}.")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return {"device": about(device), "seconds": time.monotonic() - begin}


def about(device: str) -> Figures:
    """Name, memory and peak of a device."""
    if device == "cpu":
        return {"name": "CPU", "memory_gib": None, "peak": None, "peak_source": "figures of a CPU only test the code"}
    found = torch.cuda.get_device_properties(0)
    peak, source = peak_of(found.name)
    return {
        "name": found.name, "memory_gib": found.total_memory / GIB, "peak": peak, "peak_source": source,
        "cuda": torch.version.cuda, "capability": f"{found.major}.{found.minor}",
    }  # fmt: skip


def dtype_on(device: str) -> str:
    """Type of the weights."""
    return "float32" if device == "cpu" else "bfloat16"


class Words:
    """Random texts of exact numbers of tokens."""

    def __init__(self, vocab_size: int, seed: int = 0) -> None:
        self.random, self.vocab_size = Random(seed), vocab_size

    def text(self, count: int) -> str:
        return " ".join(f"w{self.random.randrange(len(SPECIAL), self.vocab_size)}" for _ in range(count))

    def message(self, role: str, count: int) -> dict[str, str]:
        return {"role": role, "content": self.text(count)}

    def dialogue(self, request: dict[str, str], turns: int, sizes: Sizes) -> list[dict[str, str]]:
        """A request, and agent turns with replies between them."""
        found = [request]
        for turn in range(turns):
            found += [self.message("user", sizes.reply)] if turn else []
            found.append(self.message("assistant", sizes.agent))
        return found
