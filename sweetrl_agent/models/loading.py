"""Loading models, tokenizers and policies from folders and from the hub."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from sweetrl_agent.config.model import ModelArguments
from sweetrl_agent.core.policy import Policy

#: Instructions for pretrained chat models, by name: to write functions, and to design pages. Our own words; the markers are the benchmark's.
PROMPTS = {
    "benchmark": "You help a colleague to get a Python function written. They ask for it vaguely and know more than they say. "
    "In each turn either ask one short question about what the function should do, without writing code, or hand in your answer. "
    "To hand in, begin your message with 'I WANT TO ANSWER:' and give the complete function, with the name and arguments that "
    "were asked for, in one ```python block. You have at most ten turns, or as many as the request names, and only one answer: hand it in when you know enough.",
    "pages": "You design a web page with a person who has a certain page in mind and describes it vaguely. "
    "In each turn show the whole page as it is so far, in one ```html block; they look at its picture, not at its code, and say what should be "
    'different. Style it with the classes of Tailwind 2, which <link rel="stylesheet" '
    'href="https://cdn.jsdelivr.net/npm/tailwindcss@2.2.19/dist/tailwind.min.css"> brings; scripts do not run. '
    "To hand in, begin your message with 'I WANT TO ANSWER:' and give the final page. You have at most ten turns, and only one answer.",
}


def device() -> torch.device:
    """The GPU where there is one, else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def torch_dtype(arguments: ModelArguments) -> torch.dtype:
    """The dtype that "auto" stands for on this machine, or the one named."""
    if arguments.dtype == "auto":
        return torch.bfloat16 if torch.cuda.is_available() else torch.float32
    return torch.float32 if arguments.dtype == "float32" else torch.bfloat16


def system_prompt(arguments: ModelArguments) -> str:
    """The instructions that stand before every dialogue; "" for none."""
    return PROMPTS.get(arguments.system_prompt, arguments.system_prompt)


def load_tokenizer(path: str, arguments: ModelArguments) -> Any:
    """The tokenizer of a model folder or hub name."""
    return AutoTokenizer.from_pretrained(path, revision=arguments.revision)


def load_model(path: str, base: str, arguments: ModelArguments, kind: Any = AutoModelForCausalLM) -> Any:
    """A model on its device: a whole one, or `base` with the LoRA adapter that `path` holds; a causal language model unless `kind` is another."""
    adapter = Path(path) / "adapter_config.json"
    model = kind.from_pretrained(base if adapter.exists() else path, revision=arguments.revision, dtype=torch_dtype(arguments))
    if adapter.exists():
        from peft import PeftModel

        model = PeftModel.from_pretrained(model, path)
    return model.to(device())


def lora_config(model: ModelArguments) -> Any:
    """The adapter's configuration, or None for full fine-tuning."""
    if not model.lora:
        return None
    from peft import LoraConfig

    return LoraConfig(r=model.lora_r, lora_alpha=model.lora_alpha, target_modules="all-linear", task_type="CAUSAL_LM")


def adapted(model: Any, arguments: ModelArguments) -> Any:
    """The model with a new LoRA adapter, or as it is for full fine-tuning."""
    config = lora_config(arguments)
    if config is None:
        return model
    from peft import get_peft_model

    return get_peft_model(model, config)


def initial_model(start: str, model: ModelArguments) -> dict[str, Any]:
    """What preference trainers start from, and with LoRA its adapter; before the first step it is the reference."""
    return {"model": load_model(start, start, model), "peft_config": lora_config(model)}


def load_policy(path: str, base: str, arguments: ModelArguments, response_prefix: str = "") -> Policy:
    """The agent on a model folder, with the engine and the sampling of the arguments.

    Args:
        path: Folder or hub name of its model, or folder of its adapter.
        base: Model that the adapter belongs to; has the tokenizer.
        arguments: The agent's model.
        response_prefix: What its every message begins with.
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
    """The agent on a model that is loaded, and may go on learning."""
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
