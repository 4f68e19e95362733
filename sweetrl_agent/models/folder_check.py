"""Checks that a model folder, or a model of the hub, can be used, before its weights are loaded.

A folder is data: nothing in it runs but its chat template, in a limited process. Weights are safetensors. Every fault is one sentence.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from colbench_gym.errors import ColBenchError
from sweetrl_agent.models.template_check import check_template
from sweetrl_agent.models.weights_check import (
    Use,
    check_adapter_structure,
    check_quantization,
    check_structure,
    class_of,
    quantization_of,
    read_json,
    readable_errors,
    tensors_of,
)

CONFIG, ADAPTER, GENERATION, TOKENIZER = "config.json", "adapter_config.json", "generation_config.json", "tokenizer_config.json"
#: Largest vocabulary and number of layers: the configuration and the model without memory take time and memory for each layer.
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
        base: Base model of an adapter; "" for the name in its configuration.
        reasoning: The setting `reasoning`.
        use: What is done with the weights, which decides whether they may be quantized.

    Returns:
        How its chat template is used, in one line; "" for a model with pictures.

    Raises:
        ColBenchError: If it cannot be used; says why.
    """
    config = _checked_config(path, revision, base, use)
    if has_pictures:
        return ""
    from transformers import AutoTokenizer

    tokenizer = _read("its tokenizer", AutoTokenizer, tokenizer_place(base or path), revision)
    return check_template(tokenizer, instructions, reasoning, getattr(config.get_text_config(), "vocab_size", None))


def _checked_config(path: str, revision: str, base: str = "", use: Use = "read") -> Any:
    """The configuration of a model, or of the base model of an adapter, after the checks of all files but the tokenizer's."""
    folder = Path(path).expanduser()
    if is_adapter(path):
        config = _checked_config(adapter_base(folder) if base in ("", path) else base, revision, use=use)
        check_adapter_structure(config, folder)
        return config
    if _is_local(path, folder):
        _check_folder(folder, use)
    config = _config(path, revision)
    class_of(config)  # refuses what generates no text
    check_quantization(config, use)
    if folder.is_dir() and quantization_of(config) is None:  # quantized tensors have shapes of their own
        check_structure(config, tensors_of(folder))
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
    rope = getattr(config, "rope_parameters", None) or {}
    sizes = [getattr(config, "max_position_embeddings", None)]
    if type(rope.get("factor")) in (int, float) and rope.get("original_max_position_embeddings"):
        sizes.append(int(rope["factor"] * rope["original_max_position_embeddings"]))
    return max((size for size in sizes if type(size) is int and size > 0), default=None)


def _is_local(path: str, folder: Path) -> bool:
    """Whether a path is on this machine; a hub name is NAME or OWNER/NAME."""
    return folder.exists() or folder.is_symlink() or path.startswith(("/", ".", "~")) or path.count("/") > 1


def _check_folder(folder: Path, use: Use) -> None:
    """Check what transformers would wait for, or would report unclearly."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    if not folder.is_dir():
        raise ColBenchError("there is no such folder")
    if not os.path.exists(folder / CONFIG):  # False too if the folder may not be read
        raise ColBenchError(f"the folder has no {CONFIG}; name the folder that `save_pretrained` wrote")
    contents = {name: read_json(folder / name) for name in (CONFIG, TOKENIZER, GENERATION) if (folder / name).exists()}
    config = contents[CONFIG]
    if config.get("auto_map") and config.get("model_type") not in [*CONFIG_MAPPING]:
        raise ColBenchError("it needs code of its own (`auto_map`), which is not run")
    for part in (config, config.get("text_config")):
        for name in ("vocab_size", "num_hidden_layers") if isinstance(part, dict) else ():
            size = part.get(name, 1)
            if type(size) is not int or not 0 < size <= _MAX_SIZE:
                raise ColBenchError(f"`{name}` in {CONFIG} must be a whole number from 1 to {_MAX_SIZE}, got {str(size)[:50]}")
    check_quantization(config, use)
    if GENERATION in contents:
        _check_generation(contents[GENERATION])


def _check_generation(content: dict[str, Any]) -> None:
    import torch
    from transformers import GenerationConfig

    with readable_errors(f"{GENERATION} cannot be read"):
        generation = GenerationConfig.from_dict(content)
        generation.validate()
        torch.tensor(generation.eos_token_id or 0)  # as `generate` does


def is_adapter(path: str) -> bool:
    """Whether a path names the folder of an adapter."""
    return (Path(path).expanduser() / ADAPTER).exists()


def tokenizer_place(path: str) -> str:
    """Folder or hub name of a model's tokenizer. An adapter has its own, or takes its base model's."""
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


def _config(path: str, revision: str) -> Any:
    from transformers import AutoConfig

    return _read(CONFIG, AutoConfig, path, revision)


def _read(what: str, kind: Any, path: str, revision: str) -> Any:
    """A configuration or a tokenizer. An unreachable hub has a message of its own."""
    with readable_errors(f"{what} cannot be read"):
        try:
            return kind.from_pretrained(path, revision=revision, trust_remote_code=False)
        except OSError as error:
            if Path(path).expanduser().exists() or "connect" not in str(error):
                raise
    raise ColBenchError(
        "there is no folder of this name and no copy from the hub here, and the hub cannot be asked (no connection, or HF_HUB_OFFLINE is set)"
    )
