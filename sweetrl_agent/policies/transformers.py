"""A policy on a transformers model in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import (
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
    StoppingCriteria,
    StoppingCriteriaList,
    TopPLogitsWarper,
)

from sweetrl_agent.core.episode import Messages
from sweetrl_agent.core.policy import Utterance
from sweetrl_agent.policies.utterances import Speaker, Utterances

#: In vocabularies of at least this size, a token is sampled in two steps: a block of `SAMPLING_BLOCK` tokens, and a token in it.
LARGE_VOCABULARY, SAMPLING_BLOCK = 2**15, 512


@contextmanager
def without_own_settings(model: Any) -> Iterator[None]:
    """While a model generates, its generation settings are those of no model: a penalty or a beam of its own would change what is sampled, and not what is recorded."""
    parts = (model, getattr(model, "policy", None), model.get_base_model() if hasattr(model, "get_base_model") else None)
    owners: list[Any] = [part for part in parts if getattr(part, "generation_config", None) is not None]
    before = [owner.generation_config for owner in owners]
    for owner in owners:
        owner.generation_config = GenerationConfig()
    try:
        yield
    finally:
        for owner, settings in zip(owners, before, strict=True):
            owner.generation_config = settings


def uniform_numbers(seed: int, count: int) -> NDArray[np.float64]:
    """The uniform numbers that determine an utterance's tokens, one per token."""
    return np.random.Generator(np.random.Philox(seed)).random(count)


def sample(logits: Tensor, uniforms: Tensor, temperature: float, top_p: float = 1.0) -> tuple[Tensor, Tensor]:
    """Sample one token per row by inverting the cumulative distribution at the row's uniform number.

    Args:
        logits: Shape (B, vocabulary).
        uniforms: In [0, 1), shape (B,), float64.
        temperature: Divides the logits.
        top_p: Probability mass of the nucleus (top-p sampling).

    Returns:
        Tokens and their log-probabilities before top-p truncation, in nats, both of shape (B,).
    """
    if top_p >= 1 and logits.shape[1] >= LARGE_VOCABULARY:
        return _sample_in_blocks(logits, uniforms, temperature)
    log_probs = torch.log_softmax(logits.float() / temperature, dim=-1)
    truncated = log_probs if top_p >= 1 else TopPLogitsWarper(top_p)(None, log_probs)
    cumulative = truncated.exp().cumsum(dim=-1, dtype=torch.float64)
    target = uniforms[:, None].to(logits.device) * cumulative[:, -1:]
    token = torch.searchsorted(cumulative, target, right=True).clamp(max=logits.shape[1] - 1)
    return token[:, 0], log_probs.gather(1, token)[:, 0]


def _sample_in_blocks(logits: Tensor, uniforms: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """As `sample`, without a cumulative distribution of the whole vocabulary: it samples a block, then a token in it.

    With 151,936 tokens on two cores, this takes half of the time for 128 rows, and four fifths for 32.
    """
    scaled = logits.float() / temperature
    peak = scaled.amax(dim=-1, keepdim=True)
    weights = torch.nn.functional.pad(scaled.sub_(peak).exp_(), (0, -scaled.shape[1] % SAMPLING_BLOCK))
    blocks = weights.view(len(weights), -1, SAMPLING_BLOCK)
    ends = blocks.sum(dim=-1).double().cumsum(dim=-1)
    total, target = ends[:, -1:], uniforms[:, None].to(logits.device) * ends[:, -1:]
    block = torch.searchsorted(ends, target, right=True).clamp(max=ends.shape[1] - 1)
    start = torch.where(block > 0, ends.gather(1, (block - 1).clamp(min=0)), 0.0)
    inside = blocks[torch.arange(len(blocks), device=logits.device), block[:, 0]].double().cumsum(dim=-1)
    # The sums of blocks are rounded: a target just behind the last token of its block is moved to that token.
    inner_target = (target - start).minimum(inside[:, -1:] * (1 - 1e-12))
    token = block * SAMPLING_BLOCK + torch.searchsorted(inside, inner_target, right=True).clamp(max=SAMPLING_BLOCK - 1)
    return token[:, 0], (logits.gather(1, token).float() / temperature - peak - total.log()).float()[:, 0]


class SeededSampling(LogitsProcessor):
    """Samples every row with its own seed, by inverting the cumulative distribution.

    `generate` draws from one global random stream, so a row's sample depends on its neighbours. Here token n of a row is determined
    by the row's n-th uniform number; all other tokens get probability 0, and greedy decoding picks the remaining one.
    """

    def __init__(self, seeds: Sequence[int], max_new_tokens: int, temperature: float, top_p: float = 1.0) -> None:
        """Draw the uniform numbers of every row."""
        self.uniforms = torch.tensor(np.stack([uniform_numbers(seed, max_new_tokens) for seed in seeds]))
        self.temperature, self.top_p = temperature, top_p
        self.log_probs: list[Tensor] = []

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Mask all but the sampled token of every row; stores its log-probability."""
        token, log_probs = sample(scores, self.uniforms[:, len(self.log_probs)], self.temperature, self.top_p)
        self.log_probs.append(log_probs.cpu())
        return torch.full_like(scores, -torch.inf).scatter_(1, token[:, None], 0.0)


class StopTexts(StoppingCriteria):
    """Ends a row with the token that completes a stop text. `Utterances.from_tokens` would drop the tokens after it.

    Args:
        utterances: Has the stop texts.
        width: Tokens of the padded prompts.
    """

    def __init__(self, utterances: Utterances, width: int) -> None:
        self.utterances, self.width = utterances, width
        self.has_ended: list[bool] = []

    def __call__(self, input_ids: Tensor, scores: Tensor, **settings: Any) -> Tensor:
        """Whether each row has ended, shape (B,)."""
        rows = input_ids[:, self.width :].tolist()
        before = self.has_ended or [False] * len(rows)
        self.has_ended = [ended or self.utterances.stop_length(row) > 0 for ended, row in zip(before, rows, strict=True)]
        return torch.tensor(self.has_ended, device=input_ids.device)


class TransformersPolicy:
    """Generates with `model.generate`, in batches of similar length, each row with its own seed."""

    def __init__(self, model: Any, speaker: Speaker, top_p: float = 1.0, batch_size: int = 64) -> None:
        """Wrap a causal language model.

        Args:
            model: A transformers causal language model, on its device.
            speaker: How it speaks.
            top_p: Probability mass of the nucleus; 1.0 samples from the whole distribution.
            batch_size: Dialogues decoded together.
        """
        if speaker.temperature <= 0:
            raise ValueError(
                f"`temperature` must be positive, got {speaker.temperature!r}; use 0.01 for nearly greedy decoding."
            )
        self.model, self.speaker, self.top_p, self.batch_size = model, speaker, top_p, batch_size
        self.end_ids = speaker.chat.end_ids(model.generation_config)
        pad_id = speaker.tokenizer.pad_token_id
        self.pad_id = self.end_ids[0] if pad_id is None else pad_id

    def generate(self, dialogues: Sequence[Messages], seeds: Sequence[int]) -> list[Utterance]:
        """Sample the next utterance of every dialogue; see `Policy`."""
        prompts = [self.speaker.prompt(dialogue) for dialogue in dialogues]
        sampled = self.sample(prompts, seeds, self.speaker.max_new_tokens)
        return [self.utterance(ids, values, prompt) for (ids, values), prompt in zip(sampled, prompts, strict=True)]

    def sample(
        self, prompts: Sequence[list[int]], seeds: Sequence[int], max_new_tokens: int
    ) -> list[tuple[list[int], list[float]]]:
        """Sample tokens after prompts, each with its own seed, in batches of similar length.

        Args:
            prompts: Token ids, as many as `seeds`.
            seeds: One per prompt.
            max_new_tokens: Most tokens after a prompt.

        Returns:
            Tokens and their log-probabilities; what follows the first end token is padding.
        """
        order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
        sampled: dict[int, tuple[list[int], list[float]]] = {}
        for start in range(0, len(order), self.batch_size):
            rows = order[start : start + self.batch_size]
            batch = self._sample([prompts[i] for i in rows], [seeds[i] for i in rows], max_new_tokens)
            sampled |= zip(rows, batch, strict=True)
        return [sampled[i] for i in range(len(prompts))]

    @torch.inference_mode()
    def _sample(self, prompts: list[list[int]], seeds: list[int], max_new_tokens: int) -> list[tuple[list[int], list[float]]]:
        width = max(map(len, prompts))
        input_ids = torch.tensor([[self.pad_id] * (width - len(p)) + p for p in prompts], device=self.model.device)
        mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts], device=self.model.device)
        sampling = SeededSampling(seeds, max_new_tokens, self.speaker.temperature, self.top_p)
        self.model.eval()
        stops = [StopTexts(self.speaker.utterances, width)] if self.speaker.chat.stop_texts else []
        with without_own_settings(self.model):
            output = self.model.generate(
                input_ids=input_ids,
                attention_mask=mask,
                max_new_tokens=max_new_tokens,
                do_sample=False,
                logits_processor=LogitsProcessorList([sampling]),
                stopping_criteria=StoppingCriteriaList(stops),
                eos_token_id=self.end_ids,
                pad_token_id=self.pad_id,
            )
        log_probs = torch.stack(sampling.log_probs, dim=1).tolist()
        return list(zip(output[:, width:].tolist(), log_probs, strict=True))

    def utterance(self, token_ids: list[int], log_probs: list[float], prompt_ids: list[int]) -> Utterance:
        """The utterance of tokens sampled after a prompt: up to the first end token."""
        return self.speaker.utterances.from_tokens(token_ids, log_probs, prompt_ids, self.end_ids)
