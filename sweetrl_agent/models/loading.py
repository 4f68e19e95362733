"""Loads models, tokenizers and policies from folders and from the hub."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from colbench_gym.prompts import PROMPTS
from sweetrl_agent.config.model import ModelArguments
from sweetrl_agent.core.policy import Policy


def device() -> torch.device:
    """The GPU if there is one, else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def torch_dtype(arguments: ModelArguments) -> torch.dtype:
    """The dtype of the settings; "auto" is resolved for this machine."""
    if arguments.dtype == "auto":
        return torch.bfloat16 if torch.cuda.is_available() else torch.float32
    return torch.float32 if arguments.dtype == "float32" else torch.bfloat16


def system_prompt(arguments: ModelArguments) -> str:
    """The system prompt of every dialogue; "" for none."""
    return PROMPTS.get(arguments.system_prompt, arguments.system_prompt)


def load_tokenizer(path: str, arguments: ModelArguments) -> Any:
    """The tokenizer of a model folder or hub name."""
    return AutoTokenizer.from_pretrained(path, revision=arguments.revision)


def load_model(path: str, base: str, arguments: ModelArguments, kind: Any = AutoModelForCausalLM) -> Any:
    """Load a model onto its device: a full model, or `base` with the LoRA adapter in `path`. `kind` is the model class, by default causal."""
    adapter = Path(path) / "adapter_config.json"
    model = kind.from_pretrained(base if adapter.exists() else path, revision=arguments.revision, dtype=torch_dtype(arguments))
    if adapter.exists():
        from peft import PeftModel

        model = PeftModel.from_pretrained(model, path)
    return model.to(device())


def lora_config(model: ModelArguments) -> Any:
    """Configuration of the LoRA adapter; None for full fine-tuning."""
    if not model.lora:
        return None
    from peft import LoraConfig

    return LoraConfig(r=model.lora_r, lora_alpha=model.lora_alpha, target_modules="all-linear", task_type="CAUSAL_LM")


def adapted(model: Any, arguments: ModelArguments) -> Any:
    """The model with a new LoRA adapter; unchanged for full fine-tuning."""
    config = lora_config(arguments)
    if config is None:
        return model
    from peft import get_peft_model

    return get_peft_model(model, config)


def initial_model(start: str, model: ModelArguments) -> dict[str, Any]:
    """Arguments of preference trainers: the initial model, which is also the reference, and with LoRA the adapter's configuration."""
    return {"model": load_model(start, start, model), "peft_config": lora_config(model)}


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
        )
    if arguments.engine == "server":
        from sweetrl_agent.policies.server import ServerPolicy

        return ServerPolicy(
            path, load_tokenizer(base, arguments), arguments.server_urls, arguments.max_new_tokens, arguments.temperature,
            arguments.generation_batch, system_prompt=system_prompt(arguments), response_prefix=response_prefix,
        )  # fmt: skip
    return policy_on(load_model(path, base, arguments), load_tokenizer(base, arguments), arguments, response_prefix)


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
    )
