"""Families of models as tests use them: their chat templates, special tokens and architectures, with tiny random weights.

The families' own templates are read from installed packages that ship them (TRL does), and never copied here. Where no required package has
one, `chat_templates/` holds a template of our own wording that behaves the same; `also` names optional packages to compare it with.
"""

from __future__ import annotations

import importlib.util
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig, PreTrainedTokenizerFast

OWN_TEMPLATES = Path(__file__).parent / "chat_templates"
TEXTS = (
    "I need the total of my prices. Round the total to two decimals?", "What should happen for an empty list? For an empty list return nothing at all.",
    "I WANT TO ANSWER:\n```python\ndef total(prices):\n    return round(sum(prices), 2) if prices else None\n```",
    "The function that the person has in mind, which the agent cannot see:\n", "You are a helpful assistant. Ask first, then answer.",
)  # fmt: skip
SHAPE = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
EXPERTS = {
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 16,
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "n_group": 2,
    "topk_group": 1,
}

#: Pieces of text at which tokenizers and templates may go wrong.
PIECES = ("total", " of", "my ", "\n", "é", "✓🙂", "return", "  ", "?", "0.5", "<|", "I WANT TO ANSWER:\n")


@dataclass(frozen=True)
class Shipped:
    """A chat template in an installed package.

    Attributes:
        package: Its top-level module, which is looked for and not imported.
        path: File inside of it; of a .json file, the key "chat_template".
        prefix: Jinja in front of it, for arguments that users set (`enable_thinking`).
    """

    package: str
    path: str
    prefix: str = ""

    def read(self) -> str | None:
        """The template; None where the package, or the file in it, is missing."""
        package = importlib.util.find_spec(self.package)
        places = (package.submodule_search_locations or []) if package else []
        file = next((Path(place, self.path) for place in places if Path(place, self.path).exists()), None)
        if file is None:
            return None
        text = file.read_text("utf-8")
        if file.suffix == ".json":
            found = json.loads(text)
            text = (found[0] if isinstance(found, list) else found)["chat_template"]
        return self.prefix + text

    @property
    def missing(self) -> str:
        """The reason of a skip."""
        return f"{self.path} of the package {self.package!r} is missing: `pip install {self.package}` with a version that ships it."


@dataclass(frozen=True)
class Own:
    """A chat template of our own wording, a file of `chat_templates/`."""

    name: str
    missing = ""

    def read(self) -> str:
        """The template."""
        return (OWN_TEMPLATES / f"{self.name}.jinja").read_text("utf-8")


@dataclass(frozen=True)
class Family:
    """What a family's models and tokenizers are like.

    Attributes:
        name: As test ids and the table of the documentation have it.
        template: The chat template.
        model_type: Architecture, as `config.json` names it.
        config: Settings of the architecture, beside `SHAPE`.
        bos: Token that begins a text; "" for none.
        eos: The tokenizer's end token.
        end_of_turn: Text of the token by which the template ends the agent's turn. `gpt-oss` ends a last turn by <|return|>.
        pad: Padding token; "" for none.
        ends: End tokens of generation_config.json; () for `eos` alone.
        special: Further special tokens.
        plain: Further tokens that are not special, as thought marks often are.
        adds_bos: Whether the tokenizer puts `bos` in front of a text on its own.
        pieces: How text is cut: bytes, or as SentencePiece with a blank in front of every text between special tokens ("llama"), in front of the first ("first") or none ("gemma").
        is_tied: Whether embeddings and head share their weights.
        system: Where system text goes: "system" message, "first" or "last" user message, "text" in front without a mark, or "none" (raises).
        alternates: Whether the template raises unless user and assistant take turns.
        thinks: Whether the model thinks before it answers.
        marks: Marks of a thought.
        also: Templates of optional packages that render the same text.
    """

    name: str
    template: Shipped | Own
    model_type: str
    eos: str
    end_of_turn: str
    bos: str = ""
    pad: str = ""
    ends: tuple[str, ...] = ()
    special: tuple[str, ...] = ()
    plain: tuple[str, ...] = ()
    adds_bos: bool = False
    pieces: str = "bytes"
    is_tied: bool = False
    system: str = "system"
    alternates: bool = False
    thinks: bool = False
    marks: tuple[str, str] = ("<think>", "</think>")
    config: tuple[tuple[str, Any], ...] = ()
    also: tuple[Shipped, ...] = ()

    def __str__(self) -> str:
        return self.name


def _trl(name: str, prefix: str = "") -> Shipped:
    return Shipped("trl", f"chat_templates/{name}.jinja", prefix)


def _axolotl(name: str) -> Shipped:
    return Shipped("axolotl", f"utils/chat_templates/templates/{name}.jinja")


def _xinference(name: str) -> Shipped:
    return Shipped("xinference", f"model/llm/models/{name}.json")


def _settings(**config: Any) -> tuple[tuple[str, Any], ...]:
    return tuple(config.items())


_NO_THOUGHTS = "{%- set enable_thinking = false -%}"
_WINDOWED = ["sliding_attention", "full_attention"]
_LLAMA_2 = {"bos": "<s>", "eos": "</s>", "end_of_turn": "</s>", "special": ("<unk>",), "adds_bos": True, "pieces": "llama"}
_LLAMA_3 = {
    "model_type": "llama", "bos": "<|begin_of_text|>", "eos": "<|eot_id|>", "end_of_turn": "<|eot_id|>", "ends": ("<|end_of_text|>", "<|eom_id|>", "<|eot_id|>"),
    "special": ("<|start_header_id|>", "<|end_header_id|>", "<|end_of_text|>", "<|eom_id|>", "<|finetune_right_pad_id|>", "<|python_tag|>"), "adds_bos": True,
}  # fmt: skip
_CHATML = {"eos": "<|im_end|>", "end_of_turn": "<|im_end|>", "special": ("<|im_start|>",)}
_QWEN = {**_CHATML, "pad": "<|endoftext|>", "ends": ("<|im_end|>", "<|endoftext|>"), "is_tied": True}
_QWEN_3 = {**_QWEN, "model_type": "qwen3", "plain": ("<think>", "</think>"), "config": _settings(head_dim=8)}
_GEMMA = {
    "bos": "<bos>", "eos": "<eos>", "end_of_turn": "<end_of_turn>", "pad": "<pad>", "ends": ("<eos>", "<end_of_turn>"), "special": ("<unk>", "<start_of_turn>"), "adds_bos": True,
    "pieces": "gemma", "is_tied": True, "alternates": True,
}  # fmt: skip
_MISTRAL = {
    **_LLAMA_2,
    "model_type": "mistral",
    "special": ("<unk>", "[INST]", "[/INST]"),
    "alternates": True,
    "system": "last",
}
_DEEPSEEK = {
    "bos": "<｜begin▁of▁sentence｜>", "eos": "<｜end▁of▁sentence｜>", "end_of_turn": "<｜end▁of▁sentence｜>", "adds_bos": True,
    "plain": ("<｜User｜>", "<｜Assistant｜>", "<think>", "</think>"), "system": "text",
}  # fmt: skip
_GLM = {"eos": "<|endoftext|>", "end_of_turn": "<|user|>", "pad": "<|endoftext|>", "ends": ("<|endoftext|>", "<|user|>", "<|observation|>"),
        "special": ("[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>")}  # fmt: skip
_MLA = _settings(
    **EXPERTS,
    first_k_dense_replace=1,
    q_lora_rank=16,
    kv_lora_rank=16,
    qk_rope_head_dim=8,
    qk_nope_head_dim=8,
    v_head_dim=8,
    num_key_value_heads=4,
)

FAMILIES = {
    family.name: family
    for family in (
        Family("llama-2", Own("llama_2"), "llama", **_LLAMA_2, alternates=True, system="first", also=(_xinference("llama-2-chat"),)),
        Family("llama-3", _trl("llama3"), **_LLAMA_3),
        Family("llama-3.1", _trl("llama3_1"), **_LLAMA_3),
        Family("llama-3.2", _trl("llama3_2"), **_LLAMA_3, is_tied=True),  # says today's date
        Family("qwen-2.5", _trl("qwen2_5"), "qwen2", **_QWEN),
        Family("qwen-3", _trl("qwen3"), **_QWEN_3, thinks=True),
        Family("qwen-3-no-thinking", _trl("qwen3", _NO_THOUGHTS), **_QWEN_3),
        Family("gemma-1", _trl("gemma"), "gemma", **_GEMMA, system="none", config=_settings(head_dim=8)),
        Family("gemma-2", _trl("gemma"), "gemma2", **_GEMMA, system="none", config=_settings(
            head_dim=8, query_pre_attn_scalar=8, sliding_window=64, attn_logit_softcapping=50.0, final_logit_softcapping=30.0)),
        Family("gemma-3", _trl("gemma3"), "gemma3_text", **_GEMMA, system="first", config=_settings(
            head_dim=8, query_pre_attn_scalar=8, sliding_window=64, layer_types=_WINDOWED)),
        Family("mistral-v1", Own("mistral_v1"), **{**_MISTRAL, "special": ("<unk>",), "system": "first"}, config=_settings(sliding_window=64),
               also=(_axolotl("mistral_v1"), _xinference("mistral-instruct-v0.1"))),
        Family("mistral-v3", Own("mistral_v3"), **{**_MISTRAL, "pieces": "first"}, config=_settings(sliding_window=None),
               also=(_axolotl("mistral_v2v3"), _xinference("mistral-instruct-v0.3"))),
        Family("mistral-tekken", Own("mistral_tekken"), **{**_MISTRAL, "pieces": "bytes", "pad": "<pad>"}, config=_settings(sliding_window=None, head_dim=16),
               also=(_axolotl("mistral_v3_tekken"), _xinference("mistral-nemo-instruct"))),
        Family("phi-3", _trl("phi3"), "phi3", **{**_LLAMA_2, "eos": "<|endoftext|>", "end_of_turn": "<|end|>", "adds_bos": False}, pad="<|endoftext|>",
               ends=("<|endoftext|>", "<|assistant|>", "<|end|>"), plain=("<|assistant|>", "<|end|>", "<|user|>", "<|system|>"), config=_settings(sliding_window=64)),
        Family("phi-4", Own("phi_4"), "phi3", "<|im_end|>", "<|im_end|>", bos="<|endoftext|>", pad="<|dummy|>", special=("<|im_start|>", "<|im_sep|>"),
               ends=("<|endoftext|>", "<|im_end|>"), config=_settings(sliding_window=None)),
        Family("deepseek-v3", _trl("deepseekv3"), "deepseek_v3", **_DEEPSEEK, thinks=True, pad="<｜▁pad▁｜>", config=_MLA),
        Family("deepseek-r1-distill", _trl("deepseek_r1_distill"), "qwen2", **_DEEPSEEK, thinks=True, pad="<｜end▁of▁sentence｜>"),
        Family("smollm2", Own("smollm2"), "llama", **{**_CHATML, "special": ("<|endoftext|>",)}, bos="<|im_start|>", pad="<|im_end|>", is_tied=True),
        Family("smollm3", Own("smollm3"), "smollm3", **_CHATML, pad="<|im_end|>", plain=("<think>", "</think>"), is_tied=True, thinks=True,
               config=_settings(no_rope_layer_interval=2)),
        Family("glm-4", Own("glm_4"), "glm4", **_GLM, config=_settings(head_dim=8), also=(_xinference("glm4-0414"),)),
        Family("glm-4.5", _trl("glm4moe"), "glm4_moe", **_GLM, plain=("<think>", "</think>", "/nothink"), thinks=True,
               config=_settings(**EXPERTS, head_dim=8, first_k_dense_replace=1)),
        Family("gpt-oss", _trl("gptoss"), "gpt_oss", "<|return|>", "<|end|>", bos="<|startoftext|>", pad="<|endoftext|>", ends=("<|return|>", "<|endoftext|>", "<|call|>"),
               special=("<|start|>", "<|message|>", "<|channel|>", "<|end|>", "<|call|>", "<|constrain|>"), thinks=True, marks=("<|channel|>analysis<|message|>", "<|end|>"),
               config=_settings(head_dim=8, num_local_experts=4, num_experts_per_tok=2, sliding_window=64, layer_types=_WINDOWED)),
        Family("command-r", _trl("cohere"), "cohere", "<|END_OF_TURN_TOKEN|>", "<|END_OF_TURN_TOKEN|>", bos="<BOS_TOKEN>", pad="<PAD>", adds_bos=True, is_tied=True, alternates=True,
               special=("<|START_OF_TURN_TOKEN|>", "<|USER_TOKEN|>", "<|CHATBOT_TOKEN|>", "<|SYSTEM_TOKEN|>"), config=_settings(logit_scale=1.0)),
        Family("olmo-2", Own("olmo_2"), "olmo2", "<|endoftext|>", "<|endoftext|>", bos="<|endoftext|>", pad="<|pad|>"),
        Family("vicuna", Own("vicuna"), "llama", **_LLAMA_2, pad="<unk>", system="text"),
        Family("vicuna-blank", Own("vicuna_blank"), "llama", **_LLAMA_2, pad="<unk>", system="text"),
        Family("chatml-base", Own("chatml"), "qwen2", "<|endoftext|>", "<|im_end|>", pad="<|endoftext|>", special=("<|im_start|>", "<|im_end|>"), is_tied=True),
    )
}  # fmt: skip


@cache
def _trained(is_bytes: bool) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Vocabulary and merges of a BPE trained on `TEXTS`, over bytes, or over characters with the bytes of unknown ones."""
    tokenizer = Tokenizer(models.BPE())
    cut = pre_tokenizers.ByteLevel(add_prefix_space=False) if is_bytes else pre_tokenizers.Metaspace()
    tokenizer.pre_tokenizer = cut
    alphabet = pre_tokenizers.ByteLevel.alphabet() if is_bytes else list("▁\n`")
    tokenizer.train_from_iterator(
        TEXTS, trainers.BpeTrainer(vocab_size=len(alphabet) + 150, initial_alphabet=alphabet, show_progress=False)
    )
    found = json.loads(tokenizer.to_str())["model"]
    names = [*([] if is_bytes else [f"<0x{byte:02X}>" for byte in range(256)]), *found["vocab"]]
    return {name: place for place, name in enumerate(names)}, [tuple(pair) for pair in found["merges"]]


_BLANKS = normalizers.Replace(" ", "▁")


def _backend(pieces: str) -> Tokenizer:
    """The tokenizer without special tokens; see `Family.pieces`."""
    vocabulary, merges = _trained(pieces == "bytes")
    if pieces == "bytes":
        tokenizer = Tokenizer(models.BPE(vocabulary, merges))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        return tokenizer
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, byte_fallback=True, fuse_unk=True))
    if pieces == "first":
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    else:
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), _BLANKS]) if pieces == "llama" else _BLANKS
    if pieces == "gemma":
        tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(" "), "merged_with_previous")
    stripped = [] if pieces == "gemma" else [decoders.Strip(" ", 1, 0)]
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), *stripped])
    return tokenizer


def build_tokenizer(family: Family, pad: str | None = None) -> PreTrainedTokenizerFast:
    """A fast tokenizer of a few hundred tokens with the family's template and special tokens.

    Args:
        family: One of `FAMILIES`.
        pad: Another padding token than the family's; "" for none.

    Raises:
        LookupError: If the package of its template is missing; the text is the reason of a skip.
    """
    template = family.template.read()
    if template is None:
        raise LookupError(family.template.missing)
    tokenizer = _backend(family.pieces)
    pad = family.pad if pad is None else pad
    ends = [family.eos, *family.ends, family.end_of_turn]
    special = dict.fromkeys(name for name in (family.bos, *ends, pad, *family.special) if name and name not in family.plain)
    tokenizer.add_special_tokens([AddedToken(name, normalized=False, special=True) for name in special])
    tokenizer.add_tokens([AddedToken(name, normalized=False, special=False) for name in family.plain])
    if family.adds_bos:
        tokenizer.post_processor = processors.TemplateProcessing(
            f"{family.bos} $A", f"{family.bos} $A $B", [(family.bos, tokenizer.token_to_id(family.bos))]
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=family.bos or None, eos_token=family.eos, pad_token=pad or None, chat_template=template,
        clean_up_tokenization_spaces=False,
    )  # fmt: skip


def build_model(family: Family, tokenizer: PreTrainedTokenizerFast, seed: int = 0, scale: float = 4.0, **changes: Any) -> Any:
    """A random model of the family's architecture with two layers of width 32.

    Args:
        family: One of `FAMILIES`.
        tokenizer: From `build_tokenizer`.
        seed: Of the weights.
        scale: Factor on all matrices; a large one makes predictions far from uniform.
        changes: Settings of the configuration, such as `vocab_size`, `tie_word_embeddings` or `max_position_embeddings`.
    """
    ids = {name: getattr(tokenizer, name) for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    settings = {
        "vocab_size": len(tokenizer), "max_position_embeddings": 4096, "tie_word_embeddings": family.is_tied, **SHAPE, **ids, **dict(family.config), **changes,
    }  # fmt: skip
    config = AutoConfig.for_model(family.model_type, **settings)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim >= 2:
                parameter.mul_(scale)
    ends = tokenizer.convert_tokens_to_ids(list(family.ends or (family.eos,)))
    model.generation_config = GenerationConfig(**{**ids, "eos_token_id": ends if len(ends) > 1 else ends[0]})
    return model


def write_model(family: Family, folder: Path, pad: str | None = None, max_shard_size: str = "50GB", **changes: Any) -> Path:
    """Write a folder as `save_pretrained` does: configuration, generation settings, safetensors, tokenizer and chat template.

    Args:
        family: One of `FAMILIES`.
        folder: Where to.
        pad: As in `build_tokenizer`.
        max_shard_size: Size of a file of weights; "20KB" gives several.
        changes: As in `build_model`, also `seed` and `scale`.

    Returns:
        The folder.
    """
    tokenizer = build_tokenizer(family, pad)
    build_model(family, tokenizer, **changes).save_pretrained(folder, max_shard_size=max_shard_size)
    tokenizer.save_pretrained(folder)
    return folder
