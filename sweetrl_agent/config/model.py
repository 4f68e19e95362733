"""Settings of the agent's model, of the engine that samples from it, and of SFT."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from colbench_gym.reasoning import AUTO
from sweetrl_agent.core.settings import setting

#: `model` for the tiny Llama.
TINY = "tiny"
#: `gain_model` for `model` as it is before SFT.
PRETRAINED = "pretrained"
#: Defaults with a pretrained model that differ from the tiny model's; a record has further ones (`EnvironmentRecord.pretrained_defaults`).
PRETRAINED_DEFAULTS: Mapping[str, Any] = {
    "sft_dialogues": 400, "sft_epochs": 1, "sft_batch": 8, "sft_learning_rate": 5e-4,
}  # fmt: skip


def pretrained_defaults(record: Any) -> dict[str, Any]:
    """Defaults of settings with a pretrained model, in an environment.

    Args:
        record: Its record (`core.environment.EnvironmentRecord`).
    """
    return {**PRETRAINED_DEFAULTS, **record.pretrained_defaults}


@dataclass
class ModelArguments:
    """The agent's model."""

    model: str = setting(
        TINY,
        "'tiny' (a small Llama: the packaged initial policy, or trained here by SFT), a folder, or a hub name of a chat model.",
    )
    revision: str = setting("main", "Revision of a hub model.")
    dtype: str = setting(
        "auto",
        "'float32', 'bfloat16', or 'auto': bfloat16 on a GPU and, for a pretrained model with `lora` or to sample only, on a CPU with bfloat16 instructions; "
        "float32 elsewhere.",
    )
    engine: str = setting(
        "transformers",
        "Engine that generates: 'transformers', 'vllm' (in this process; needs a GPU or vLLM's CPU build), or 'server' (see server_urls).",
    )
    server_urls: list[str] = setting(
        (),
        "Engine 'server': addresses of vLLM servers with the model, http://HOST:PORT/v1; to evaluate and collect, of any OpenAI-compatible server.",
    )
    lora: bool = setting(False, "Train LoRA adapters instead of all weights.")
    lora_r: int = setting(16, "Rank of the adapters.", least=1)
    lora_alpha: int = setting(32, "Scale of the adapters.", least=1)
    lora_layers: int = setting(
        0,
        "Layers with adapters, counted from the last; 0 for all. The backward pass ends at the first of them: half of the layers save a quarter of the time.",
    )
    system_prompt: str = setting(
        "",
        "System prompt of the agent: 'benchmark' for ours, 'example' for ours with an example dialogue, 'brief' for a model after SFT, 'pages' for ours on pages, or a text; empty for none.",
    )
    history: int = setting(
        -1, "Latest earlier turns of the dialogue that the agent reads with the user's message; -1 for all of them.", least=-1
    )
    reasoning: str = setting(
        AUTO,
        "How the model marks its thoughts, which are not part of the dialogue: 'auto' for all known marks, 'none' for a model whose whole text is "
        "speech, or its own opening and closing mark, such as '<plan> </plan>'.",
    )
    max_new_tokens: int = setting(80, "Maximum number of tokens of an utterance; 1024 in the paper.", least=1)
    temperature: float = setting(0.8, "Sampling temperature; 1.0 in the paper.", least=0.01)
    generation_batch: int = setting(128, "Dialogues per generation batch.", least=1)
    gradient_checkpointing: bool = setting(False, "Recompute activations in the backward pass.")


@dataclass
class SFTArguments:
    """SFT on demonstrations: of all weights of the tiny model; of LoRA adapters, which are then merged, of a pretrained one."""

    initial_policy: str = setting(
        "packaged",
        "'packaged': the initial policy that comes with the package, if its seed and settings of SFT match, SFT otherwise; "
        "'sft': always SFT. `compare` always trains it, for every seed.",
    )
    sft_dialogues: int = setting(
        6000, "Demonstrated dialogues for SFT; 0 for no SFT, for a pretrained model that converses by itself."
    )
    sft_hinted: float = setting(
        -1.0,
        "Share of the demonstrations that are guided by the hidden information, which they begin with: without them the tiny model cannot read a critic's hint. "
        "-1 for the environment's own share: a half in ColBench-Backend (none with a pretrained model), a fifth on pages.",
        least=-1,
        most=1,
    )
    sft_epochs: int = setting(2, "Epochs of SFT.", least=1)
    sft_batch: int = setting(16, "Dialogues per optimizer step.", least=1)
    sft_micro_batch: int = setting(
        2, "Dialogues per forward pass, for a pretrained model; the tiny one takes the whole batch.", least=1
    )
    sft_learning_rate: float = setting(
        5e-3, "Learning rate of AdamW: for embeddings and norms of the tiny model, for adapters."
    )
    sft_muon_learning_rate: float = setting(
        1.5e-2, "Learning rate of Muon, for the matrices inside the layers of the tiny model."
    )
    tiny_vocab_size: int = setting(8192, "Vocabulary size of the tiny model.", least=300)
    tiny_hidden_size: int = setting(192, "Hidden size of the tiny Llama.", least=32)
    tiny_layers: int = setting(3, "Layers of the tiny Llama.", least=1)
