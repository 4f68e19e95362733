"""A tiny Llama with its own tokenizer, for the embedded tasks.

It replaces a pretrained model where none is available: it has a few million parameters and learns to converse by SFT on
demonstrations (`sweetrl_agent.envs.backend_demonstrations`) before reinforcement learning starts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
import transformers
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from sweetrl_agent.core.environment import PIECES

END, PAD = "<|end|>", "<|pad|>"
ROLES = ("<|system|>", "<|user|>", "<|assistant|>")
CHAT_TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def build_tokenizer(
    texts: Iterable[str], vocab_size: int, max_token_length: int = 24, pieces: str = PIECES
) -> transformers.PreTrainedTokenizerFast:
    """Train a byte-level BPE tokenizer with a chat template.

    Args:
        texts: Training texts.
        vocab_size: Vocabulary size, including special tokens.
        max_token_length: Longest token in bytes; longer tokens need fewer steps and generalise less.
        pieces: Regular expression of the text that one token may span.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(pieces), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[PAD, END, *ROLES],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        max_token_length=max_token_length,
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
    )


def build_model(tokenizer: Any, hidden_size: int, num_layers: int, seed: int) -> transformers.LlamaForCausalLM:
    """A Llama with random weights drawn from `seed`, tied embeddings and heads of dimension 32."""
    config = tiny_config(len(tokenizer), hidden_size, num_layers, tokenizer.pad_token_id, tokenizer.eos_token_id)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return transformers.LlamaForCausalLM(config)


def tiny_config(
    vocab_size: int, hidden_size: int, num_layers: int, pad_id: int = 0, end_id: int = 1
) -> transformers.LlamaConfig:
    """The configuration of `build_model`.

    Args:
        vocab_size: Number of tokens.
        hidden_size: Hidden size.
        num_layers: Number of layers.
        pad_id: Token that fills rows up.
        end_id: Token that ends a message.
    """
    return transformers.LlamaConfig(
        vocab_size=vocab_size,
        hidden_size=hidden_size,
        intermediate_size=hidden_size * 3,
        num_hidden_layers=num_layers,
        num_attention_heads=hidden_size // 32,
        num_key_value_heads=hidden_size // 32,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        attention_dropout=0.0,
        pad_token_id=pad_id,
        bos_token_id=None,
        eos_token_id=end_id,
    )
