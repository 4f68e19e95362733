"""A policy on vLLM in this process, for GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from colbench_gym.reasoning import AUTO
from sweetrl_agent.core.episode import Messages
from sweetrl_agent.core.messages import as_read, system_message
from sweetrl_agent.core.policy import Utterance
from sweetrl_agent.data.chat import Chat
from sweetrl_agent.policies.utterances import Utterances


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
            engine: Arguments of `vllm.LLM`, such as tensor_parallel_size.

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
        self.llm = LLM(model=base if is_adapter else path, enable_prefix_caching=True, enable_lora=is_adapter, **engine)
        self.lora = LoRARequest("actor-1", 1, path) if is_adapter else None
        tokenizer = self.llm.get_tokenizer()
        self.chat = Chat(tokenizer, reasoning)
        self.max_new_tokens, self.temperature, self.system_prompt = max_new_tokens, temperature, system_prompt
        self.response_prefix, self.history = response_prefix, history
        self._utterances = Utterances(tokenizer, reasoning, response_prefix, self.chat.stop_texts)
        self.prefix_ids, self.end_ids = self.chat.prefix(response_prefix), self.chat.end_ids()

    def load_weights(self, path: str) -> None:
        """See `RenewablePolicy`."""
        from safetensors.torch import load_file
        from vllm.lora.request import LoRARequest

        if self.lora is not None:  # under a new id: vLLM loads the adapter of an id only once
            number = self.lora.lora_int_id + 1
            self.lora = LoRARequest(f"actor-{number}", number, path)
        else:
            worker = self.llm.llm_engine.model_executor.driver_worker
            for file in sorted(Path(path).glob("*.safetensors")):
                worker.model_runner.model.load_weights(load_file(file).items())
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
