"""Quantized weights (fp8, mxfp4, GPTQ, AWQ, bitsandbytes and others): where they can be used, and one sentence where not.

transformers computes with them on GPUs, each kind with a package of its own, and trains none of them. On a CPU it would load some in another precision, with
several times the memory that the files have, and others not at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from colbench_gym.errors import ColBenchError

#: What is done with a model's weights: trained in this process, only read in it, or loaded by an engine of its own (vLLM, a server).
Use = Literal["trained", "read", "elsewhere"]
#: Keys of a configuration that state a quantization.
_KEYS = ("quantization_config", "compression_config")
_WAY_OUT = "give the model in bfloat16 or float32"


def quantization_of(config: Any) -> Any:
    """What a configuration states of quantization, that of the language model in it included; None if nothing.

    Args:
        config: A configuration of transformers, or the content of config.json.
    """
    for part in (config, _part(config, "text_config")):
        for key in _KEYS:
            if (stated := _part(part, key)) is not None:
                return stated
    return None


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

    try:
        AutoHfQuantizer.from_config(stated, pre_quantized=True).validate_environment(device_map={"": 0})
    except Exception as error:  # each kind raises its own, for a package or a GPU that it lacks
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        raise ColBenchError(f"{kind}, which cannot be computed with here ({reason}); {elsewhere}") from None
