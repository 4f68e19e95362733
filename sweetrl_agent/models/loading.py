"""Loads models, tokenizers and policies from folders and from the hub."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from colbench_gym.agents.prompts import PROMPTS
from colbench_gym.errors import ColBenchError
from sweetrl_agent.config.model import TINY, ModelArguments
from sweetrl_agent.core.policy import Policy
from sweetrl_agent.core.processes import return_freed_memory
from sweetrl_agent.data.chat import Chat
from sweetrl_agent.data.distributed import local_rank
from sweetrl_agent.models.folder_check import adapter_base, is_adapter, tokenizer_place
from sweetrl_agent.models.weights_check import check_adapter_weights

#: Where the models of transformers have their layers.
LAYERS = "model.layers"
#: Settings of mixtures of experts: no auxiliary loss, and no outputs for it, with which sampling from padded prompts fails.
_ROUTER = {"output_router_logits": False, "router_aux_loss_coef": 0.0}


def device() -> torch.device:
    """The GPU of this process if there is one, else the CPU.

    Under a launcher each process has its own GPU. accelerate chooses the same one, but only once a trainer exists, after the model is loaded:
    until then "cuda" is the first GPU, and all processes would load their models there.
    """
    return torch.device("cuda", local_rank() % torch.cuda.device_count()) if torch.cuda.is_available() else torch.device("cpu")


def torch_dtype(arguments: ModelArguments, is_trained: bool = True) -> torch.dtype:
    """The dtype of the settings; "auto" is resolved for this machine.

    Args:
        arguments: Settings of the agent's model.
        is_trained: Whether the model is trained, in all weights unless there are adapters. In bfloat16 on a CPU, small steps of all weights
            would be rounded to none.
    """
    if arguments.dtype != "auto":
        return torch.float32 if arguments.dtype == "float32" else torch.bfloat16
    is_rounded = arguments.model != TINY and (arguments.lora or not is_trained)
    has_bfloat16 = torch.cuda.is_available() or (is_rounded and bool(bfloat16_instructions()))
    return torch.bfloat16 if has_bfloat16 else torch.float32


def bfloat16_instructions() -> str:
    """Name of this processor's instructions for products of bfloat16 matrices; "" without any, where such a product is slower than of float32."""
    found = torch.cpu.get_capabilities()
    return next((name for name in ("amx_bf16", "avx512_bf16") if found.get(name)), "")


def dtype_line(arguments: ModelArguments) -> str:
    """The dtype of a pretrained model and why, in one line: on a CPU, the choice halves or doubles the time."""
    dtype = str(torch_dtype(arguments)).removeprefix("torch.")
    if arguments.dtype != "auto":
        return f"{dtype}, as set"
    if torch.cuda.is_available():
        return f"{dtype}: there is a GPU"
    if not (own := bfloat16_instructions()):
        return f"{dtype}: this processor has no instructions for bfloat16"
    reads = dtype if arguments.lora else f"bfloat16 to sample, {dtype} to train all weights"
    return f"{reads}: this processor has instructions for bfloat16 ({own})"


def system_prompt(arguments: ModelArguments) -> str:
    """The system prompt of every dialogue; "" for none."""
    return PROMPTS.get(arguments.system_prompt, arguments.system_prompt)


def load_tokenizer(path: str, arguments: ModelArguments) -> Any:
    """The tokenizer of a model folder or hub name; of an adapter without one, its base model's.

    Raises:
        ColBenchError: If it cannot be loaded.
    """
    place = tokenizer_place(path)
    with _one_sentence("tokenizer", place):
        return AutoTokenizer.from_pretrained(place, revision=arguments.revision, trust_remote_code=False)


def load_chat(path: str, arguments: ModelArguments) -> Chat:
    """The tokenizer of a model folder or hub name, with its template.

    Raises:
        ColBenchError: As `load_tokenizer`.
    """
    return Chat(load_tokenizer(path, arguments), arguments.reasoning)


def load_model(
    path: str, base: str, arguments: ModelArguments, kind: Any = AutoModelForCausalLM, is_trained: bool = True
) -> Any:
    """Load a model onto its device: a full model, or `base` with the LoRA adapter in `path`. First, what an earlier one left goes back to the system.

    A base that is an adapter itself is merged with its own base: the user's `--model` may be one, and later adapters are trained on the two together.

    Args:
        path: Folder or hub name of the model, or folder of an adapter.
        base: Base model of the adapter; `path` again for one that is to be merged.
        arguments: Settings of the agent's model.
        kind: Class of the model.
        is_trained: Whether it is trained, or scored as it was trained; see `torch_dtype`.

    Raises:
        ColBenchError: If it cannot be loaded: its code is never run, and its weights must be safetensors.
    """
    return_freed_memory()
    if path != base and is_adapter(path):
        model = _with_adapter(load_model(base, base, arguments, kind, is_trained), path)
    elif is_adapter(path):
        own_base = adapter_base(Path(path).expanduser())
        model = merged(_with_adapter(load_model(own_base, own_base, arguments, kind, is_trained), path)).requires_grad_(True)
        model.name_or_path = path  # what a later adapter names as its base
    else:
        with _one_sentence("model", path):
            model = kind.from_pretrained(
                path,
                revision=arguments.revision,
                dtype=torch_dtype(arguments, is_trained),
                use_safetensors=True,
                trust_remote_code=False,
            )
    for config in (
        model.config,
        model.config.get_text_config(),
    ):  # TRL would add experts' load balancing to the losses of the papers
        config.update({name: value for name, value in _ROUTER.items() if hasattr(config, name)})
    return model.to(device())


def _with_adapter(model: Any, path: str) -> Any:
    from peft import PeftModel

    with _one_sentence("adapter", path):
        check_adapter_weights(Path(path).expanduser())
        return PeftModel.from_pretrained(model, str(Path(path).expanduser()))


@contextmanager
def _one_sentence(what: str, path: str) -> Iterator[None]:
    """Loading fails with many unrelated errors of the libraries; each becomes one sentence."""
    try:
        yield
    except torch.cuda.OutOfMemoryError:
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        raise ColBenchError(f"The {what} {path!r} cannot be loaded ({reason}).") from error


def lora_config(arguments: ModelArguments, model: Any) -> Any:
    """Configuration of a LoRA adapter on all linear layers of a model's body, or of its last layers.

    Args:
        arguments: Settings of the agent's model.
        model: The model, for its number of layers.

    Raises:
        ValueError: If `lora_layers` is set and the model has its layers elsewhere, as models with pictures do.
    """
    from peft import LoraConfig

    shape = {"r": arguments.lora_r, "lora_alpha": arguments.lora_alpha, "task_type": "CAUSAL_LM"}
    count = model.config.get_text_config().num_hidden_layers
    if not 0 < arguments.lora_layers < count:
        return LoraConfig(target_modules="all-linear", **shape)
    try:
        layers = model.get_submodule(LAYERS)
    except AttributeError:
        raise ValueError(
            f"`lora_layers` needs a model whose layers are in {LAYERS!r}, got a {type(model).__name__}; give 0, for adapters in all layers."
        ) from None
    linear = {name.rpartition(".")[2] for name, module in layers.named_modules() if isinstance(module, torch.nn.Linear)}
    chosen = list(range(count - arguments.lora_layers, count))
    return LoraConfig(target_modules=sorted(linear), layers_to_transform=chosen, layers_pattern="layers", **shape)


def merged(model: Any) -> Any:
    """The model with its LoRA adapter, if it has one, added to the weights: faster to sample from, and without a way back."""
    return model.merge_and_unload() if hasattr(model, "merge_and_unload") else model


def adapted(model: Any, arguments: ModelArguments) -> Any:
    """The model with a new LoRA adapter; unchanged for full fine-tuning."""
    if not arguments.lora:
        return model
    from peft import get_peft_model

    return get_peft_model(model, lora_config(arguments, model))


def initial_model(start: str, arguments: ModelArguments) -> dict[str, Any]:
    """Arguments of TRL's trainers: the initial model, which is also the reference, and with LoRA the adapter's configuration."""
    model = load_model(start, start, arguments)
    return {"model": model, "peft_config": lora_config(arguments, model) if arguments.lora else None}


def load_policy(path: str, base: str, arguments: ModelArguments, response_prefix: str = "") -> Policy:
    """A policy on a model folder, with the engine and the sampling settings of the arguments.

    Args:
        path: Folder or hub name of its model, or folder of its adapter.
        base: Base model of the adapter; its tokenizer is used.
        arguments: Settings of the agent's model.
        response_prefix: Text that every message of the agent starts with.
    """
    if arguments.engine == "vllm":
        from sweetrl_agent.policies.vllm import VLLMPolicy

        return VLLMPolicy(
            path,
            base,
            arguments.max_new_tokens,
            arguments.temperature,
            system_prompt=system_prompt(arguments),
            response_prefix=response_prefix,
            history=arguments.history,
            reasoning=arguments.reasoning,
            dtype=str(torch_dtype(arguments, is_trained=False)).removeprefix("torch."),  # vLLM would round float32 weights
        )
    if arguments.engine == "server":
        from sweetrl_agent.policies.server import ServerPolicy

        return ServerPolicy(
            path, load_tokenizer(base, arguments), arguments.server_urls, arguments.max_new_tokens, arguments.temperature,
            arguments.generation_batch, system_prompt=system_prompt(arguments), response_prefix=response_prefix,
            history=arguments.history, reasoning=arguments.reasoning,
        )  # fmt: skip
    model = merged(load_model(path, base, arguments, is_trained=False))
    return policy_on(model, load_tokenizer(base, arguments), arguments, response_prefix)


def policy_on(model: Any, tokenizer: Any, arguments: ModelArguments, response_prefix: str = "") -> Policy:
    """A policy on a loaded model, which may be trained further."""
    from sweetrl_agent.policies.continuous import ContinuousTransformersPolicy
    from sweetrl_agent.policies.slots import can_use_slots
    from sweetrl_agent.policies.transformers import TransformersPolicy

    kind = ContinuousTransformersPolicy if can_use_slots(model) else TransformersPolicy
    return kind(
        model,
        tokenizer,
        max_new_tokens=arguments.max_new_tokens,
        temperature=arguments.temperature,
        batch_size=arguments.generation_batch,
        system_prompt=system_prompt(arguments),
        response_prefix=response_prefix,
        history=arguments.history,
        reasoning=arguments.reasoning,
    )
