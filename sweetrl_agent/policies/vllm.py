"""A policy on vLLM in this process, for GPUs; vLLM's CPU build runs where there is none."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from colbench_gym.reasoning import AUTO
from sweetrl_agent.core.episode import Messages
from sweetrl_agent.core.messages import as_read, system_message
from sweetrl_agent.core.policy import Utterance
from sweetrl_agent.data.chat import Chat
from sweetrl_agent.policies.utterances import Utterances

#: vLLM's `logprobs_mode` in which log-probabilities are those of the distribution that is sampled from. Its default is the model's before the temperature.
SAMPLED_LOG_PROBS = "processed_logprobs"
#: Ranks that its engine can be started for; adapters may have any rank up to that.
_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)


class VLLMPolicy:
    """Generates with vLLM's continuous batching and prefix cache; a LoRA folder is loaded on top of its base."""

    def __init__(
        self,
        path: str,
        base: str,
        max_new_tokens: int,
        temperature: float,
        system_prompt: str = "",
        response_prefix: str = "",
        history: int = -1,
        reasoning: str = AUTO,
        **engine: Any,
    ) -> None:
        """Start the engine.

        Args:
            path: Model folder, hub name, or folder of a LoRA adapter.
            base: Base model of the adapter.
            max_new_tokens: Maximum number of tokens of an utterance.
            temperature: Sampling temperature.
            system_prompt: Instructions before every dialogue.
            response_prefix: Prefix that is added to the prompt and starts every utterance.
            history: Earlier turns that the agent reads, as in `core.messages.as_read`; -1 for all.
            reasoning: How the model marks its thoughts, see `colbench_gym.reasoning.Reasoning`.
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
        tokenizer = self.llm.get_tokenizer()
        self.chat = Chat(tokenizer, reasoning)
        self.max_new_tokens, self.temperature, self.system_prompt = max_new_tokens, temperature, system_prompt
        self.response_prefix, self.history = response_prefix, history
        self._utterances = Utterances(tokenizer, reasoning, response_prefix, self.chat.stop_texts)
        self.prefix_ids, self.end_ids = self.chat.prefix(response_prefix), self.chat.end_ids()

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

        # Token ids, not text: the chat template already contains the BOS token, which vLLM would add again.
        instructions = system_message(self.system_prompt)
        prompts = [
            {"prompt_token_ids": self.chat.prompt([*instructions, *as_read(d, self.history)]) + self.prefix_ids}
            for d in dialogues
        ]
        sampling = [
            SamplingParams(
                temperature=self.temperature,
                max_tokens=self.max_new_tokens,
                seed=seed % 2**31,
                logprobs=0,
                stop_token_ids=self.end_ids,
                stop=self.chat.stop_texts,
            )  # fmt: skip
            for seed in seeds
        ]
        outputs = [output.outputs[0] for output in self.llm.generate(prompts, sampling, lora_request=self.lora, use_tqdm=False)]
        return [
            self._utterances.from_tokens(
                output.token_ids,
                [entry[token].logprob for token, entry in zip(output.token_ids, output.logprobs, strict=True)],
                prompt["prompt_token_ids"],
                {*self.end_ids, output.stop_reason},
                output.finish_reason,
            )
            for output, prompt in zip(outputs, prompts, strict=True)
        ]


def _max_rank(path: str) -> int:
    """The least rank to start an engine for that takes the adapter in a folder."""
    rank = json.loads((Path(path) / "adapter_config.json").read_text("utf-8")).get("r", 8)
    return next((most for most in _RANKS if most >= rank), rank)
