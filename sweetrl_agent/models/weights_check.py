"""Checks of a model folder's weights without reading them: files, architecture and quantization.

The architecture is made on torch's device `meta`, which has no memory: transformers and peft load a folder without some tensors, and draw the missing ones
at random. Quantized weights (fp8, mxfp4, GPTQ, AWQ, bitsandbytes and others) need a GPU and a package for each kind, and are not trained.
"""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from colbench_gym.errors import ColBenchError

WEIGHTS, ADAPTER_WEIGHTS = "model.safetensors", "adapter_model.safetensors"
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")

#: Dtypes of weights that transformers computes with, or converts, without a quantization.
_COMPUTED = ("F16", "BF16", "F32", "F64")
#: Keys of a configuration that state a quantization.
_QUANTIZATION_KEYS = ("quantization_config", "compression_config")
_WAY_OUT = "give the model in bfloat16 or float32"
#: Dtype (as safetensors spells it) and shape of each tensor, by name.
Tensors = Mapping[str, tuple[str, tuple[int, ...]]]
#: Use of a model's weights: trained in this process, only read in it, or loaded by a separate engine (vLLM, a server).
Use = Literal["trained", "read", "elsewhere"]


@contextmanager
def readable_errors(what: str) -> Iterator[None]:
    """Loading fails with many unrelated errors of the libraries; each becomes one sentence.

    Args:
        what: What has failed; the error's type and text follow in brackets.

    Raises:
        ColBenchError: For every error but a full GPU.
    """
    import torch

    try:
        yield
    except torch.cuda.OutOfMemoryError:
        raise
    except Exception as error:  # of any type
        raise ColBenchError(f"{what} ({type(error).__name__}: {' '.join(str(error).split())[:200]})") from error


def tensors_of(folder: Path, name: str = WEIGHTS) -> Tensors:
    """Dtypes and shapes of the tensors of a model folder, by the headers of its files.

    Args:
        folder: The folder.
        name: File of the weights. If there is none but an index of several files, the tensors of these.

    Raises:
        ColBenchError: If there are no weights, if they are pickles, or if a file is torn; the message names the file.
    """
    from safetensors import safe_open

    index = folder / f"{name}.index.json"
    files = read_json(index).get("weight_map") if index.exists() else {"": name}
    if not isinstance(files, dict) or not all(isinstance(file, str) and Path(file).name == file for file in files.values()):
        raise ColBenchError(f"{index.name} has no `weight_map` of tensors and their files in this folder")
    tensors: dict[str, tuple[str, tuple[int, ...]]] = {}
    for file in sorted({*files.values()}):
        _check_exists(folder / file)
        with readable_errors(f"{file} is torn or no safetensors file"), safe_open(folder / file, "np") as content:
            for key in content.keys():  # noqa: SIM118 (no mapping)
                tensor = content.get_slice(key)
                tensors[key] = tensor.get_dtype(), tuple(tensor.get_shape())
    return tensors


def _check_exists(path: Path) -> None:
    """Refuse a file of weights that does not exist, or has pickles in its place."""
    if path.is_file():
        return
    pickles = sorted(
        file.name for pattern in _PICKLES for file in path.parent.glob(pattern) if file.name != "training_args.bin"
    )
    if pickles:
        raise ColBenchError(
            f"its weights are a pickle ({pickles[0]}), which can run code when it is read: load it where you trust it, and save it with "
            "`save_pretrained(folder, safe_serialization=True)`"
        )
    raise ColBenchError(f"it has no weights ({path.name})")


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file.

    Raises:
        ColBenchError: If the file has no JSON object; the message names the file.
    """
    if not path.is_file():
        raise ColBenchError(f"{path.name} must be a file, got a folder, a pipe or a device")
    try:
        value = json.loads(path.read_bytes().decode("utf-8"))  # `json.loads` would take UTF-16 too, which transformers does not
    except (OSError, ValueError, RecursionError) as error:
        raise ColBenchError(f"{path.name} is not JSON ({type(error).__name__}: {str(error)[:100]})") from None
    if not isinstance(value, dict):
        raise ColBenchError(f"{path.name} must hold an object, got {type(value).__name__}")
    return value


def _refuse_missing(names: Collection[str], where: str) -> None:
    """Refuse weights that lack tensors of their architecture.

    Raises:
        ColBenchError: Names the first one.
    """
    if names:
        raise ColBenchError(f"{where} lacks {len(names)} tensors of its architecture, such as {min(names)[:100]!r}")


def check_structure(config: Any, tensors: Tensors) -> None:
    """Check that the tensors of a folder fill the model of its configuration.

    Args:
        config: The configuration, of a model that generates text.
        tensors: Dtype and shape of each tensor, by name.

    Raises:
        ColBenchError: If the model cannot be made, or if a tensor is missing or has another shape.
    """
    import torch
    from safetensors.torch import _TYPES

    for name, (dtype, _) in tensors.items():
        if dtype not in _TYPES or (name.endswith(".weight") and dtype not in _COMPUTED):
            raise ColBenchError(f"the tensor {name[:100]!r} has the dtype {dtype!r}, and config.json states no quantization")
    empty = {name: torch.empty(shape, dtype=_TYPES[dtype], device="meta") for name, (dtype, shape) in tensors.items()}
    with _silence(), readable_errors("the weights do not fit config.json"):
        _, report = class_of(config).from_pretrained(
            None, config=config, state_dict=empty, device_map="meta", ignore_mismatched_sizes=True, output_loading_info=True
        )
    if report["mismatched_keys"]:
        name, actual, expected = min(report["mismatched_keys"])
        raise ColBenchError(f"the tensor {name[:100]!r} has the shape {tuple(actual)}, and by config.json {tuple(expected)}")
    _refuse_missing(report["missing_keys"], "it")


def check_adapter_structure(config: Any, folder: Path) -> None:
    """Check that an adapter's tensors fill the adapter of its configuration on a base model, and that it can be merged.

    Args:
        config: Configuration of the base model.
        folder: Folder of the adapter.

    Raises:
        ColBenchError: If it does not fit, or is of a kind that cannot be merged.
    """
    import torch
    from peft import PeftModel, get_peft_model_state_dict

    names = tensors_of(folder, ADAPTER_WEIGHTS).keys()
    with _silence(), readable_errors("its adapter does not fit its base model"):
        with torch.device("meta"):
            model = class_of(config)(config)
        adapted = PeftModel.from_pretrained(model, str(folder), torch_device="cpu")
        expected = get_peft_model_state_dict(adapted)
    peft_type = adapted.peft_config["default"].peft_type
    if not hasattr(adapted.base_model, "merge_and_unload"):
        raise ColBenchError(
            f"its adapter is of the type {getattr(peft_type, 'value', peft_type)}, which cannot be merged; take LoRA"
        )
    _refuse_missing(expected.keys() - names, ADAPTER_WEIGHTS)


def class_of(config: Any) -> Any:
    """Class of the model of a configuration.

    Raises:
        ColBenchError: If it is none that generates text.
    """
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

    mappings = (kind._model_mapping for kind in (AutoModelForCausalLM, AutoModelForImageTextToText))
    model_class = next((kind[type(config)] for kind in mappings if type(config) in kind), None)
    if model_class is None:
        raise ColBenchError(f"it is no language model that generates text, but a {config.model_type!r}")
    return model_class[0] if isinstance(model_class, tuple) else model_class


@contextmanager
def _silence() -> Iterator[None]:
    """Show no logs, warnings and progress bars of the libraries."""
    from transformers.utils import logging as library

    before, has_bars = logging.root.manager.disable, library.is_progress_bar_enabled()
    library.disable_progress_bar()
    logging.disable()
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        logging.disable(before)
        if has_bars:
            library.enable_progress_bar()


def quantization_of(config: Any) -> Any:
    """The quantization that a configuration, or the one of the language model in it, states; None for none.

    Args:
        config: A configuration of transformers, or the content of config.json.
    """
    parts = [part for part in (config, _part(config, "text_config")) if part is not None]
    stated = (_part(part, key) for part in parts for key in _QUANTIZATION_KEYS)
    return next((value for value in stated if value is not None), None)


def _part(config: Any, name: str) -> Any:
    return config.get(name) if isinstance(config, Mapping) else getattr(config, name, None)


def check_quantization(config: Any, use: Use) -> None:
    """Refuse quantized weights that cannot be used here.

    Args:
        config: As in `quantization_of`.
        use: What is done with the weights.

    Raises:
        ColBenchError: Names the kind of quantization and the way out.
    """
    import torch

    stated = quantization_of(config)
    if stated is None or use == "elsewhere":
        return
    method = _part(stated, "quant_method")
    kind = f"its weights are quantized ({str(getattr(method, 'value', method) or 'of an unnamed kind')[:40]!r})"
    if use == "trained":
        raise ColBenchError(f"{kind}, and quantized weights are not trained; {_WAY_OUT}")
    elsewhere = f"{_WAY_OUT}, or evaluate this one by `--engine vllm` on a GPU or `--engine server`"
    if not torch.cuda.is_available():
        raise ColBenchError(f"{kind}, which are computed with on a GPU only, and this machine has none; {elsewhere}")
    from transformers.quantizers.auto import AutoHfQuantizer

    # Each kind raises its own error, for a package or a GPU that it lacks.
    with readable_errors(f"{kind}, which cannot be computed with here; {elsewhere}"):
        AutoHfQuantizer.from_config(stated, pre_quantized=True).validate_environment(device_map={"": 0})
