"""Loads models, tokenizers and policies from folders and from the hub."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers

from colbench_gym.agents.prompts import PROMPTS
from sweetrl_agent.config.model import TINY, ModelArguments
from sweetrl_agent.core.policy import Policy
from sweetrl_agent.core.processes import return_freed_memory
from sweetrl_agent.core.registry import Registry
from sweetrl_agent.data.chat import Chat
from sweetrl_agent.data.distributed import local_rank
from sweetrl_agent.models.folder_check import adapter_base, is_adapter, tokenizer_place
from sweetrl_agent.models.weights_check import ADAPTER_WEIGHTS, readable_errors, tensors_of
from sweetrl_agent.policies.utterances import Speaker

#: Classes of models in transformers; `from transformers import` of them would take seconds wherever this module is imported.
CAUSAL_LM, IMAGE_TEXT_TO_TEXT = "AutoModelForCausalLM", "AutoModelForImageTextToText"
#: Where the models of transformers have their layers.
LAYERS = "model.layers"
#: Settings of mixtures of experts: no auxiliary loss, and no outputs for it, with which sampling from padded prompts fails.
_ROUTER = {"output_router_logits": False, "router_aux_loss_coef": 0.0}


def device() -> torch.device:
    """The GPU of this process, or the CPU without a GPU.

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
    capabilities = torch.cpu.get_capabilities()
    return next((name for name in ("amx_bf16", "avx512_bf16") if capabilities.get(name)), "")


def dtype_line(arguments: ModelArguments) -> str:
    """The dtype of a pretrained model and why, in one line: on a CPU, the choice halves or doubles the time."""
    dtype = str(torch_dtype(arguments)).removeprefix("torch.")
    if arguments.dtype != "auto":
        return f"{dtype}, as set"
    if torch.cuda.is_available():
        return f"{dtype}: there is a GPU"
    if not (instructions := bfloat16_instructions()):
        return f"{dtype}: this processor has no instructions for bfloat16"
    dtypes = dtype if arguments.lora else f"bfloat16 to sample, {dtype} to train all weights"
    return f"{dtypes}: this processor has instructions for bfloat16 ({instructions})"


def system_prompt(arguments: ModelArguments) -> str:
    """The system prompt of every dialogue; "" for none."""
    return PROMPTS.get(arguments.system_prompt, arguments.system_prompt)


def load_tokenizer(path: str, arguments: ModelArguments) -> Any:
    """The tokenizer of a model folder or hub name. An adapter without a tokenizer has its base model's.

    Raises:
        ColBenchError: If it cannot be loaded.
    """
    source = tokenizer_place(path)
    with readable_errors(f"The tokenizer {source!r} cannot be loaded"):
        return transformers.AutoTokenizer.from_pretrained(source, revision=arguments.revision, trust_remote_code=False)


def load_chat(path: str, arguments: ModelArguments) -> Chat:
    """The tokenizer of a model folder or hub name, with its template.

    Raises:
        ColBenchError: As `load_tokenizer`.
    """
    return Chat(load_tokenizer(path, arguments), arguments.reasoning)


def load_model(path: str, base: str, arguments: ModelArguments, kind: str = CAUSAL_LM, is_trained: bool = True) -> Any:
    """Load a model onto its device: a full model, or `base` with the LoRA adapter in `path`. Memory of earlier models is first returned to the system.

    If `base` is an adapter, as the user's `--model` may be, it is merged with its own base model. Later adapters are trained on the merged model.

    Args:
        path: Folder or hub name of the model, or folder of an adapter.
        base: Base model of the adapter; equal to `path` to merge the adapter.
        arguments: Settings of the agent's model.
        kind: Name of its class in transformers.
        is_trained: Whether it is trained, or scored as it was trained; see `torch_dtype`.

    Raises:
        ColBenchError: If it cannot be loaded: its code is never run, and its weights must be safetensors.
    """
    return_freed_memory()
    if path != base and is_adapter(path):
        model = _with_adapter(load_model(base, base, arguments, kind, is_trained), path)
    elif is_adapter(path):
        adapter_parent = adapter_base(Path(path).expanduser())
        model = merged(
            _with_adapter(load_model(adapter_parent, adapter_parent, arguments, kind, is_trained), path)
        ).requires_grad_(True)
        model.name_or_path = path  # the base of later adapters
    else:
        with readable_errors(f"The model {path!r} cannot be loaded"):
            model = getattr(transformers, kind).from_pretrained(
                path,
                revision=arguments.revision,
                dtype=torch_dtype(arguments, is_trained),
                use_safetensors=True,
                trust_remote_code=False,
            )
    for config in (model.config, model.config.get_text_config()):  # else TRL adds experts' load balancing to the losses
        config.update({name: value for name, value in _ROUTER.items() if hasattr(config, name)})
    return model.to(device())


def _with_adapter(model: Any, path: str) -> Any:
    from peft import PeftModel

    folder = Path(path).expanduser()
    with readable_errors(f"The adapter {path!r} cannot be loaded"):
        tensors_of(folder, ADAPTER_WEIGHTS)  # safetensors: peft would read a pickle too
        return PeftModel.from_pretrained(model, str(folder))


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
    """The model with its LoRA adapter, if it has one, added to the weights: sampling is faster, and the adapter cannot be removed again."""
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
    return ENGINES.find(arguments.engine)(path, base, arguments, response_prefix)


def _on_transformers(path: str, base: str, arguments: ModelArguments, response_prefix: str) -> Policy:
    model = merged(load_model(path, base, arguments, is_trained=False))
    return policy_on(model, load_tokenizer(base, arguments), arguments, response_prefix)


def _on_vllm(path: str, base: str, arguments: ModelArguments, response_prefix: str) -> Policy:
    from sweetrl_agent.policies.vllm import VLLMPolicy

    dtype = str(torch_dtype(arguments, is_trained=False)).removeprefix("torch.")  # vLLM would round float32 weights
    speaker = speaker_of(load_tokenizer(base, arguments), arguments, response_prefix)
    revision = {} if Path(base).is_dir() else {"revision": arguments.revision, "tokenizer_revision": arguments.revision}
    return VLLMPolicy(path, base, speaker, dtype=dtype, **revision)


def _on_servers(path: str, base: str, arguments: ModelArguments, response_prefix: str) -> Policy:
    from sweetrl_agent.policies.server import ServerPolicy

    speaker = speaker_of(load_tokenizer(base, arguments), arguments, response_prefix)
    return ServerPolicy(path, speaker, arguments.server_urls, arguments.generation_batch)


#: What samples from a model, by the name of `engine`.
ENGINES: Registry[Callable[[str, str, ModelArguments, str], Policy]] = Registry(
    "engine", {"transformers": _on_transformers, "vllm": _on_vllm, "server": _on_servers}, others=""
)


def policy_on(model: Any, tokenizer: Any, arguments: ModelArguments, response_prefix: str = "") -> Policy:
    """A policy on a loaded model, which may be trained further."""
    from sweetrl_agent.policies.continuous import ContinuousTransformersPolicy
    from sweetrl_agent.policies.slots import can_use_slots
    from sweetrl_agent.policies.transformers import TransformersPolicy

    kind = ContinuousTransformersPolicy if can_use_slots(model) else TransformersPolicy
    return kind(model, speaker_of(tokenizer, arguments, response_prefix), batch_size=arguments.generation_batch)


def speaker_of(tokenizer: Any, arguments: ModelArguments, response_prefix: str = "") -> Speaker:
    """How the agent's model speaks, by the settings.

    Args:
        tokenizer: Its tokenizer.
        arguments: Settings of the agent's model.
        response_prefix: Text that every message of the agent starts with.
    """
    return Speaker(
        tokenizer,
        arguments.max_new_tokens,
        arguments.temperature,
        system_prompt(arguments),
        response_prefix,
        arguments.history,
        arguments.reasoning,
    )
