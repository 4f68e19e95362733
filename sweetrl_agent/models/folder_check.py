"""Checks that a model folder, or a model of the hub, can be used, before its weights are loaded.

A folder is data: nothing in it runs but its chat template, in a limited process. Weights are safetensors. Every fault is one sentence.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from colbench_gym.errors import ColBenchError
from sweetrl_agent.models.quantization_check import Use, check_quantization, quantization_of
from sweetrl_agent.models.structure_check import check_adapter_structure, check_structure
from sweetrl_agent.models.template_check import SAMPLE, check_template
from sweetrl_agent.models.weights_check import check_adapter_weights, check_weights, read_json

CONFIG, ADAPTER, GENERATION, TOKENIZER = "config.json", "adapter_config.json", "generation_config.json", "tokenizer_config.json"
_MAX_SIZE = 1 << 24


def check_model_files(
    path: str,
    revision: str,
    instructions: str = "",
    has_pictures: bool = False,
    base: str = "",
    reasoning: str = "auto",
    use: Use = "read",
) -> str:
    """Check a model's configuration, tokenizer, chat template and, in a folder, the headers of its weights.

    Args:
        path: Folder or hub name of a model, or folder of an adapter.
        revision: Revision of a model of the hub.
        instructions: The agent's system prompt; "" for none.
        has_pictures: Whether it is a vision-language model, which has a processor instead of a tokenizer.
        base: Base model of an adapter; "" for the one that its configuration names.
        reasoning: The setting `reasoning`.
        use: What is done with the weights, which decides whether they may be quantized.

    Returns:
        What was decided about its chat template, in one line; "" for a model with pictures.

    Raises:
        ColBenchError: If it cannot be used; says why.
    """
    config = _checked_config(path, revision, base, use)
    if has_pictures:
        return ""
    tokenizer, vocab_size = _tokenizer(tokenizer_place(base or path), revision), _whole(config.get_text_config(), "vocab_size")
    _check_tokens(tokenizer, vocab_size)
    return check_template(tokenizer, instructions, reasoning, vocab_size)


def _checked_config(path: str, revision: str, base: str = "", use: Use = "read") -> Any:
    """The configuration of a model, or of the base model of an adapter, after the checks of all files but the tokenizer's."""
    folder = Path(path).expanduser()
    if _is_place(path, folder):
        _check_folder(folder)
        if is_adapter(path):
            check_adapter_weights(folder)
            config = _checked_config(adapter_base(folder) if base in ("", path) else base, revision, use=use)
            check_adapter_structure(config, folder)
            return config
        _check_config_file(folder)
        check_quantization(read_json(folder / CONFIG), use)
    config = _config(path, revision)
    check_quantization(config, use)
    text = config.get_text_config()
    vocab_size = _whole(text, "vocab_size")
    if folder.is_dir() and quantization_of(config) is None:  # quantized tensors have shapes of their own
        check_structure(config, check_weights(folder, vocab_size, getattr(text, "num_hidden_layers", None) or 0))
    return config


def context_size(path: str, revision: str, base: str = "") -> int | None:
    """Number of positions of a model that `check_model_files` has passed; None if its configuration states none.

    Args:
        path: As in `check_model_files`.
        revision: As in `check_model_files`.
        base: As in `check_model_files`.
    """
    while is_adapter(path):
        path, base = (adapter_base(Path(path).expanduser()) if base in ("", path) else base), ""
    config = _config(path, revision).get_text_config()
    stretched = getattr(config, "rope_parameters", None) or {}
    sizes = [getattr(config, "max_position_embeddings", None)]
    if type(stretched.get("factor")) in (int, float) and stretched.get("original_max_position_embeddings"):
        sizes.append(int(stretched["factor"] * stretched["original_max_position_embeddings"]))
    return max((size for size in sizes if type(size) is int and size > 0), default=None)


def _is_place(path: str, folder: Path) -> bool:
    """Whether a path names a place on this machine; a hub name is NAME or OWNER/NAME."""
    return folder.exists() or folder.is_symlink() or path.startswith(("/", ".", "~")) or path.count("/") > 1


def _check_folder(folder: Path) -> None:
    if folder.is_symlink() and not folder.exists():
        raise ColBenchError("it is a link to a folder that does not exist")
    if not folder.exists():
        raise ColBenchError("there is no such folder")
    if not folder.is_dir():
        raise ColBenchError("it is a file; name the folder that it is in")
    if not os.access(folder, os.R_OK | os.X_OK):
        raise ColBenchError("the folder may not be read (permission denied)")
    names = {file.name for file in folder.iterdir()}
    if not names:
        raise ColBenchError("the folder is empty")
    if not names & {CONFIG, ADAPTER}:
        raise ColBenchError(f"the folder has no {CONFIG}; name the folder that `save_pretrained` wrote")


def is_adapter(path: str) -> bool:
    """Whether a path names the folder of an adapter."""
    return (Path(path).expanduser() / ADAPTER).exists()


def tokenizer_place(path: str) -> str:
    """The folder or hub name that a model's tokenizer is in: an adapter's may be in its own folder, or in its base model's."""
    folder = Path(path).expanduser()
    return adapter_base(folder) if is_adapter(path) and not (folder / TOKENIZER).exists() else path


def adapter_base(folder: Path) -> str:
    """The base model that an adapter names.

    Raises:
        ColBenchError: If it names none, or another adapter.
    """
    base = read_json(folder / ADAPTER).get("base_model_name_or_path")
    if not isinstance(base, str) or not base:
        raise ColBenchError(f"{ADAPTER} names no base model (`base_model_name_or_path`)")
    if (Path(base).expanduser() / ADAPTER).exists():
        raise ColBenchError(f"the base model of its adapter, {base!r}, is an adapter too; merge that one first")
    return base


def _check_config_file(folder: Path) -> None:
    """Check what transformers would not report in a sentence, or would ask about."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    found = read_json(folder / CONFIG)
    kind = found.get("model_type")
    codes = {CONFIG: found}
    codes |= {name: read_json(folder / name) for name in (TOKENIZER, GENERATION) if (folder / name).exists()}
    for name, content in codes.items():
        if not isinstance(content.get("auto_map", {}), dict):
            raise ColBenchError(f"`auto_map` in {name} must be an object, got {type(content['auto_map']).__name__}")
    if not isinstance(kind, str) or kind not in CONFIG_MAPPING:
        own = "it needs code of its own (`auto_map`), which is not run; " if found.get("auto_map") else ""
        raise ColBenchError(f"{own}{CONFIG} must name a `model_type` that the installed transformers has, got {kind!r}")
    for name in ("vocab_size", "num_hidden_layers", "hidden_size"):
        size = found.get(name, 1)
        if type(size) is not int or not 0 < size <= _MAX_SIZE:
            raise ColBenchError(f"`{name}` in {CONFIG} must be a whole number from 1 to {_MAX_SIZE}, got {str(size)[:50]}")
    for name in ("dtype", "torch_dtype"):
        _check_dtype(found.get(name))
    if GENERATION in codes:
        _check_generation(codes[GENERATION])


def _check_dtype(name: Any) -> None:
    import torch

    if name is not None and not (
        isinstance(name, str) and isinstance(getattr(torch, name.removeprefix("torch."), None), torch.dtype)
    ):
        raise ColBenchError(f"`dtype` in {CONFIG} must be a dtype of torch, such as bfloat16, got {name!r}")


def _check_generation(found: dict[str, Any]) -> None:
    from transformers import GenerationConfig

    try:
        GenerationConfig.from_dict(found).validate()
    except Exception as error:  # any type, by what is wrong
        raise _broken(GENERATION, error) from None
    ends = found.get("eos_token_id")
    if not all(type(end) is int for end in (ends if isinstance(ends, list) else [ends or 0])):
        raise ColBenchError(f"`eos_token_id` in {GENERATION} must be a whole number or a list of them, got {str(ends)[:50]}")


def _config(path: str, revision: str) -> Any:
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText

    try:
        config = AutoConfig.from_pretrained(path, revision=revision, trust_remote_code=False)
    except Exception as error:  # transformers and the hub raise many unrelated types for missing or broken files
        raise _broken(CONFIG, error) from None
    if not any(type(config) in kind._model_mapping for kind in (AutoModelForCausalLM, AutoModelForImageTextToText)):
        raise ColBenchError(f"it is no language model that generates text, but a {config.model_type!r}")
    return config


def _tokenizer(path: str, revision: str) -> Any:
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(path, revision=revision, trust_remote_code=False)
    except Exception as error:  # as above; a broken tokenizer.json even raises `Exception` itself
        raise _broken("its tokenizer", error) from None


def _check_tokens(tokenizer: Any, vocab_size: int) -> None:
    """Check the tokens that occur. A tokenizer may have more, which the model does not know."""
    try:
        found = tokenizer("".join(message["content"] for message in SAMPLE))["input_ids"]
    except Exception as error:  # as in `_tokenizer`
        raise _broken("its tokenizer", error) from None
    largest = max(
        [*found, *(token for token in (tokenizer.eos_token_id, tokenizer.pad_token_id) if token is not None)], default=0
    )
    if largest >= vocab_size:
        raise ColBenchError(
            f"its tokenizer gives token {largest}, and its model has the {vocab_size} tokens from 0 on (`vocab_size`)"
        )


def _whole(config: Any, name: str) -> int:
    size = getattr(config, name, None)
    if type(size) is not int or not 0 < size <= _MAX_SIZE:
        raise ColBenchError(
            f"its configuration must state `{name}`, a whole number from 1 to {_MAX_SIZE}, got {str(size)[:50]}"
        )
    return size


def _broken(what: str, error: Exception) -> ColBenchError:
    """The fault in one line; that of a hub that cannot be reached is named."""
    text = " ".join(str(error).split())
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "TRUE", "YES", "ON") and isinstance(error, OSError):
        return ColBenchError(
            "there is no folder of this name and no copy from the hub here, and HF_HUB_OFFLINE forbids to ask the hub"
        )
    if "connect" in text.lower() and isinstance(error, OSError):
        return ColBenchError("there is no folder of this name and no copy from the hub here, and the hub cannot be reached")
    return ColBenchError(f"{what} cannot be read ({type(error).__name__}: {text[:200]})")
