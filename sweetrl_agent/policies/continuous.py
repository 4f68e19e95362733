"""A policy on a transformers model with continuous batching and a key-value cache that is kept across turns."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from os.path import commonprefix
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sweetrl_agent.core.episode import Messages
from sweetrl_agent.core.policy import Utterance
from sweetrl_agent.data.padding import right_padded
from sweetrl_agent.policies.slots import SlotCache, predict, read
from sweetrl_agent.policies.transformers import TransformersPolicy, sample, uniform_numbers
from sweetrl_agent.policies.utterances import Speaker

#: Maximum number of prompt tokens per prefill forward pass, including padding. On a CPU the activations of 1,024 tokens fit its cache, which saves a
#: fifth of the time (0.5B, two cores).
PREFILL_TOKENS, PREFILL_TOKENS_CPU = 8192, 1024
#: A batch of at least `ENOUGH_TOKENS` tokens ends before a prompt that would be padded to more than `PADDED` times its length.
ENOUGH_TOKENS, PADDED = 256, 1.25


@dataclass
class _Turn:
    """A requested utterance."""

    name: Hashable
    prompt: list[int]
    uniforms: NDArray[np.float64]
    token_ids: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)


class ContinuousTransformersPolicy(TransformersPolicy):
    """Generates one token for every active dialogue per step; a finished turn frees its slot for the next dialogue at once.

    The cache of a dialogue's earlier turns is kept until `forget`. Equal prompts, such as those of a turn's candidates, are prefilled
    once. So is the system prompt, as long as a dialogue holds it. Results do not depend on the times of replies. The order of the
    requests changes them only by rounding.
    """

    def __init__(self, model: Any, speaker: Speaker, top_p: float = 1.0, batch_size: int = 64) -> None:
        """As `TransformersPolicy`; `batch_size` is the number of slots. `can_use_slots` must hold for the model."""
        super().__init__(model, speaker, top_p, batch_size)
        self._cache = SlotCache(model.config.get_text_config().num_hidden_layers, self.batch_size)
        self._free = list(range(self.batch_size))
        self._requested: list[_Turn] = []
        self._generating: dict[int, _Turn] = {}  # by slot
        self._slots: dict[Hashable, int] = {}
        self._slot_ids: list[list[int]] = [[] for _ in range(self.batch_size)]  # tokens in every slot
        requests = (
            [speaker.prompt([{"role": "user", "content": text}]) for text in ("a", "b")] if speaker.system_prompt else [[], []]
        )
        self._instructions = list(commonprefix(requests))

    def add(self, name: Hashable, dialogue: Messages, seed: int) -> None:
        """Request the next utterance of a dialogue; see `ContinuousPolicy`."""
        self._requested.append(_Turn(name, self.speaker.prompt(dialogue), uniform_numbers(seed, self.speaker.max_new_tokens)))

    def forget(self, name: Hashable) -> None:
        """Free the slot of a dialogue."""
        slot = self._slots.pop(name, None)
        if slot is not None:
            self._slot_ids[slot] = []
            self._free.append(slot)
            self._free.sort()

    @torch.inference_mode()
    def step(self) -> list[tuple[Hashable, Utterance]]:
        """Generate one token in every active dialogue; see `ContinuousPolicy`."""
        self.model.eval()
        self._prefill(self._admitted())
        if not self._generating:
            return []
        rows = self._rows()
        tokens = [self._next_token(slot) for slot in rows]
        logits = predict(self.model, self._cache, *self._positioned([[token] for token in tokens], rows))
        active = [i for i, slot in enumerate(rows) if slot in self._generating]
        uniforms = [self._generating[rows[i]].uniforms[len(self._generating[rows[i]].token_ids)] for i in active]
        sampled, log_probs = sample(
            logits if len(active) == len(rows) else logits[active], torch.tensor(uniforms), self.speaker.temperature, self.top_p
        )
        finished = []
        for i, token, log_prob in zip(active, sampled.tolist(), log_probs.tolist(), strict=True):
            slot = rows[i]
            turn = self._generating[slot]
            self._slot_ids[slot].append(tokens[i])
            turn.token_ids.append(token)
            turn.log_probs.append(log_prob)
            has_ended = token in self.end_ids or self.speaker.utterances.stop_length(turn.token_ids)
            if has_ended or len(turn.token_ids) == self.speaker.max_new_tokens:
                finished.append(self._generating.pop(slot))
        return [(turn.name, self.utterance(turn.token_ids, turn.log_probs, turn.prompt)) for turn in finished]

    def generate(self, dialogues: Sequence[Messages], seeds: Sequence[int]) -> list[Utterance]:
        """Sample the next utterance of every dialogue; see `Policy`."""
        names: list[Hashable] = [("generate", i) for i in range(len(dialogues))]
        for name, dialogue, seed in zip(names, dialogues, seeds, strict=True):
            self.add(name, dialogue, seed)
        utterances: dict[Hashable, Utterance] = {}
        while len(utterances) < len(names):
            for name, utterance in self.step():
                utterances[name] = utterance
                self.forget(name)
        return [utterances[name] for name in names]

    def _admitted(self) -> list[tuple[int, _Turn]]:
        """Turns that have a slot or get a free one, in the order of their requests."""
        admitted, waiting = [], []
        for turn in self._requested:
            slot = self._slots.get(turn.name)
            if slot is None and self._free:
                slot = self._slots[turn.name] = self._free.pop(0)
            if slot is None:
                waiting.append(turn)
            else:
                self._generating[slot] = turn
                admitted.append((slot, turn))
        self._requested = waiting
        return admitted

    def _prefill(self, admitted: Iterable[tuple[int, _Turn]]) -> None:
        """Prefill prompts into their slots, equal ones once. The last token is left to the next step."""
        new: dict[int, list[int]] = {}
        copies: dict[int, list[int]] = {}
        first: dict[tuple[int, ...], int] = {}
        for slot, turn in admitted:
            prompt = turn.prompt[:-1]
            self._slot_ids[slot] = list(commonprefix([self._slot_ids[slot], prompt]))
            if prompt and not self._slot_ids[slot]:
                source = first.setdefault(tuple(prompt), slot)
                if source != slot:
                    copies.setdefault(source, []).append(slot)
                    continue
            if len(prompt) > len(self._slot_ids[slot]):
                new[slot] = prompt
        self._share_instructions(
            [slot for slot, prompt in new.items() if not self._slot_ids[slot] and self._is_instructed(prompt)]
        )
        unread = {slot: prompt[len(self._slot_ids[slot]) :] for slot, prompt in new.items()}
        max_tokens = PREFILL_TOKENS_CPU if self.model.device.type == "cpu" else PREFILL_TOKENS
        for rows in _batches({slot: len(ids) for slot, ids in unread.items()}, max_tokens):
            read(self.model, self._cache, *self._positioned([unread[slot] for slot in rows], rows))
            for slot in rows:
                self._slot_ids[slot] += unread[slot]
        for source, targets in copies.items():
            self._copy(source, targets, len(self._slot_ids[source]))

    def _is_instructed(self, prompt: list[int]) -> bool:
        """Whether a prompt is longer than the system prompt and begins with it."""
        count = len(self._instructions)
        return 0 < count < len(prompt) and prompt[:count] == self._instructions

    def _share_instructions(self, slots: list[int]) -> None:
        """Put the system prompt into empty slots: copied from a slot that has it, or prefilled in the first empty slot."""
        if not slots:
            return
        count = len(self._instructions)
        source = next(
            (slot for slot, token_ids in enumerate(self._slot_ids) if token_ids[:count] == self._instructions), slots[0]
        )
        if not self._slot_ids[source]:
            read(self.model, self._cache, *self._positioned([self._instructions], [source]))
            self._slot_ids[source] = list(self._instructions)
        self._copy(source, [slot for slot in slots if slot != source], count)

    def _copy(self, source: int, targets: list[int], count: int) -> None:
        """Copy the first tokens of a slot to other slots."""
        if targets:
            self._cache.copy(source, targets, count)
        for slot in targets:
            self._slot_ids[slot] = self._slot_ids[source][:count]

    def _rows(self) -> list[int]:
        """Slots of the next forward pass: all up to the last active one, which needs no copy of the cache. If most are idle, only the active ones."""
        active = sorted(self._generating)
        return list(range(active[-1] + 1)) if 2 * len(active) > active[-1] else active

    def _next_token(self, slot: int) -> int:
        """The next input token of a slot; an arbitrary one for an idle slot, since it will be overwritten."""
        turn = self._generating.get(slot)
        return 0 if turn is None else (turn.token_ids or turn.prompt)[-1]

    def _positioned(self, token_ids: list[list[int]], rows: list[int]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Tokens padded on the right, their slots, and their start positions, which follow the cached tokens of the slots."""
        device = self.model.device
        slots, start = (torch.tensor(values, device=device) for values in (rows, [len(self._slot_ids[slot]) for slot in rows]))
        return right_padded(token_ids, device), slots, start


def _batches(lengths: dict[int, int], max_tokens: int) -> Iterable[list[int]]:
    """Batches of slots of similar length with at most `max_tokens` tokens, padding included; slots ascend within a batch."""
    batch: list[int] = []
    for slot in sorted(lengths, key=lambda slot: (-lengths[slot], slot)):
        longest = lengths[batch[0]] if batch else 0
        is_padding = longest > PADDED * lengths[slot] and len(batch) * longest >= ENOUGH_TOKENS
        if batch and (is_padding or (len(batch) + 1) * longest > max_tokens):
            yield sorted(batch)
            batch = []
        batch.append(slot)
    if batch:
        yield sorted(batch)
