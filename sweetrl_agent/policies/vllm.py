"""A policy on vLLM in this process, for GPUs or vLLM's CPU build."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sweetrl_agent.core.episode import Messages
from sweetrl_agent.core.policy import Utterance
from sweetrl_agent.policies.utterances import Speaker

#: vLLM's `logprobs_mode` for log-probabilities under the sampling distribution. The default mode ignores the temperature.
SAMPLED_LOG_PROBS = "processed_logprobs"
#: Maximum ranks that vLLM's engine can be started with; an adapter may have any rank up to the maximum.
_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)


class VLLMPolicy:
    """Generates with vLLM's continuous batching and prefix cache; a LoRA folder is loaded on top of its base."""

    def __init__(self, path: str, base: str, speaker: Speaker, **engine: Any) -> None:
        """Start the engine.

        Args:
            path: Model folder, hub name, or folder of a LoRA adapter.
            base: Base model of the adapter.
            speaker: How the model speaks.
            engine: Arguments of `vllm.LLM`, such as dtype or tensor_parallel_size.

        Raises:
            ImportError: If vLLM is not installed.
        """
        try:
            from vllm import LLM
            from vllm.lora.request import LoRARequest
        except ImportError as error:
            raise ImportError(
                "`engine='vllm'` needs vLLM and a GPU; `pip install vllm`, or use `--engine transformers`."
            ) from error
        is_adapter = (Path(path) / "adapter_config.json").exists()
        settings = {"enable_prefix_caching": True, "logprobs_mode": SAMPLED_LOG_PROBS, **engine}
        if is_adapter:
            settings |= {"enable_lora": True, "max_lora_rank": _max_rank(path)}
        self.llm = LLM(model=base if is_adapter else path, **settings)
        self.lora = LoRARequest("actor-1", 1, path) if is_adapter else None
        self.speaker, self.end_ids = speaker, speaker.chat.end_ids()

    def load_weights(self, path: str) -> None:
        """See `RenewablePolicy`. The engine, a process of its own, reads the folder."""
        from vllm.lora.request import LoRARequest

        if self.lora is not None:  # under a new id: vLLM loads the adapter of an id only once
            number = self.lora.lora_int_id + 1
            self.lora = LoRARequest(f"actor-{number}", number, path)
        else:
            self.llm.collective_rpc("reload_weights", kwargs={"weights_path": str(path)})
        self.llm.reset_prefix_cache()

    def generate(self, dialogues: Sequence[Messages], seeds: Sequence[int]) -> list[Utterance]:
        """Sample the next utterance of every dialogue; see `Policy`."""
        from vllm import SamplingParams

        prompts = [{"prompt_token_ids": self.speaker.prompt(dialogue)} for dialogue in dialogues]
        sampling = [
            SamplingParams(
                temperature=self.speaker.temperature,
                max_tokens=self.speaker.max_new_tokens,
                seed=seed % 2**31,
                logprobs=0,
                stop_token_ids=self.end_ids,
                stop=self.speaker.chat.stop_texts,
            )  # fmt: skip
            for seed in seeds
        ]
        outputs = [output.outputs[0] for output in self.llm.generate(prompts, sampling, lora_request=self.lora, use_tqdm=False)]
        return [
            self.speaker.utterances.from_tokens(
                output.token_ids,
                [entry[token].logprob for token, entry in zip(output.token_ids, output.logprobs, strict=True)],
                prompt["prompt_token_ids"],
                {*self.end_ids, output.stop_reason},
                output.finish_reason,
            )
            for output, prompt in zip(outputs, prompts, strict=True)
        ]


def _max_rank(path: str) -> int:
    """Smallest maximum rank of an engine that takes the adapter in a folder."""
    rank = json.loads((Path(path) / "adapter_config.json").read_text("utf-8")).get("r", 8)
    return next((supported for supported in _RANKS if supported >= rank), rank)
