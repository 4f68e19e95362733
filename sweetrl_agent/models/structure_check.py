"""Checks that the tensors of a model folder are those of its architecture, by shape, on torch's device `meta`, which has no memory.

transformers loads a folder that lacks tensors, or has them under other names, and draws what is missing at random; so does peft.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from colbench_gym.errors import ColBenchError
from sweetrl_agent.models.weights_check import ADAPTER_WEIGHTS, Tensors, header

#: Dtypes of weights that transformers computes with, or in another precision, without a quantization.
_COMPUTED = ("F16", "BF16", "F32", "F64")


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
        if dtype not in _TYPES:
            raise ColBenchError(f"the tensor {name[:100]!r} has the dtype {dtype[:50]!r}, which torch does not have")
        if name.endswith(".weight") and dtype not in _COMPUTED:
            raise ColBenchError(f"the tensor {name[:100]!r} has the dtype {dtype!r}, and config.json states no quantization")
    empty = {name: torch.empty(shape, dtype=_TYPES[dtype], device="meta") for name, (dtype, shape) in tensors.items()}
    with _one_sentence("the weights do not fit config.json"):
        _, found = _class(config).from_pretrained(
            None, config=config, state_dict=empty, device_map="meta", ignore_mismatched_sizes=True, output_loading_info=True
        )
    if found["mismatched_keys"]:
        name, here, wanted = min(found["mismatched_keys"])
        raise ColBenchError(f"the tensor {name[:100]!r} has the shape {tuple(here)}, and by config.json {tuple(wanted)}")
    _refuse_missing(found["missing_keys"], "it")


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

    with _one_sentence("its adapter does not fit its base model"):
        with torch.device("meta"):
            model = _class(config)(config)
        adapted = PeftModel.from_pretrained(model, str(folder), torch_device="cpu")
        wanted = get_peft_model_state_dict(adapted)
    kind = adapted.peft_config["default"].peft_type
    if not hasattr(adapted.base_model, "merge_and_unload"):
        raise ColBenchError(f"its adapter is of the type {getattr(kind, 'value', kind)}, which cannot be merged; take LoRA")
    _refuse_missing(wanted.keys() - header(folder / ADAPTER_WEIGHTS).keys(), ADAPTER_WEIGHTS)


def _class(config: Any) -> Any:
    """The class of a configuration's model."""
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

    kinds = (kind._model_mapping for kind in (AutoModelForCausalLM, AutoModelForImageTextToText))
    found = next(kind[type(config)] for kind in kinds if type(config) in kind)
    return found[0] if isinstance(found, tuple) else found


@contextmanager
def _one_sentence(what: str) -> Iterator[None]:
    """The libraries fail with many unrelated errors, and log what a sentence says better."""
    from transformers.utils import logging as library

    loggers = [logging.getLogger("transformers"), logging.getLogger("peft")]
    before, has_bars = [logger.level for logger in loggers], library.is_progress_bar_enabled()
    library.disable_progress_bar()
    try:
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)
        with warnings.catch_warnings(action="ignore"):
            yield
    except Exception as error:  # any type, by what is wrong
        raise ColBenchError(f"{what} ({type(error).__name__}: {' '.join(str(error).split())[:200]})") from None
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
        if has_bars:
            library.enable_progress_bar()
