"""A policy on a transformers model with continuous batching and a key-value cache that is kept across turns."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sweetrl_agent.core.episode import Messages
from sweetrl_agent.core.policy import Utterance
from sweetrl_agent.data.padding import right_padded
from sweetrl_agent.policies.slots import SlotCache, predict, read
from sweetrl_agent.policies.transformers import TransformersPolicy, sample, uniform_numbers

#: Maximum number of prompt tokens per prefill forward pass, including padding. On a CPU fewer: their activations fit its cache (a fifth less
#: time, with 0.5B and two cores).
READ_TOGETHER, READ_TOGETHER_CPU = 8192, 1024
#: From so many tokens on, a prompt that would be padded to more than so many times its length begins another pass.
READ_ENOUGH, PADDED = 256, 1.25


@dataclass
class _Turn:
    """An utterance that is requested or being generated."""

    name: Hashable
    prompt: list[int]
    uniforms: NDArray[np.float64]
    token_ids: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)


class ContinuousTransformersPolicy(TransformersPolicy):
    """Generates one token for every active dialogue per step; a finished turn frees its slot for the next dialogue at once.

    The cache of a dialogue's earlier turns is kept until `forget`. Equal prompts, such as those of a turn's candidates, are
    prefilled once, and so is the system prompt, as long as a dialogue holds it. Results depend on the requests and their order, not
    on when replies arrive in between; another order changes them only by rounding.
    """

    def __init__(self, model: Any, tokenizer: Any, max_new_tokens: int, **settings: Any) -> None:
        """As `TransformersPolicy`; `batch_size` is the number of slots. `can_use_slots` must hold for the model."""
        super().__init__(model, tokenizer, max_new_tokens, **settings)
        self._cache = SlotCache(model.config.get_text_config().num_hidden_layers, self.batch_size)
        self._free = list(range(self.batch_size))
        self._asked: list[_Turn] = []
        self._said: dict[int, _Turn] = {}  # by slot
        self._slots: dict[Hashable, int] = {}
        self._held: list[list[int]] = [[] for _ in range(self.batch_size)]  # tokens in every slot
        requests = (
            [self.prompt_ids([{"role": "user", "content": text}]) for text in ("a", "b")] if self.system_prompt else [[], []]
        )
        self._instructions = _common_prefix(*requests)

    def add(self, name: Hashable, dialogue: Messages, seed: int) -> None:
        """Request the next utterance of a dialogue; see `ContinuousPolicy`."""
        self._asked.append(_Turn(name, self.prompt_ids(dialogue), uniform_numbers(seed, self.max_new_tokens)))

    def forget(self, name: Hashable) -> None:
        """Free the slot of a dialogue."""
        slot = self._slots.pop(name, None)
        if slot is not None:
            self._held[slot] = []
            self._free.append(slot)
            self._free.sort()

    @torch.inference_mode()
    def step(self) -> list[tuple[Hashable, Utterance]]:
        """Generate one token in every active dialogue; see `ContinuousPolicy`."""
        self.model.eval()
        self._read(self._admitted())
        if not self._said:
            return []
        rows = self._rows()
        tokens = [self._next_token(slot) for slot in rows]
        logits = predict(self.model, self._cache, *self._placed([[token] for token in tokens], rows))
        spoken = [i for i, slot in enumerate(rows) if slot in self._said]
        uniforms = [self._said[rows[i]].uniforms[len(self._said[rows[i]].token_ids)] for i in spoken]
        found, log_probs = sample(
            logits if len(spoken) == len(rows) else logits[spoken], torch.tensor(uniforms), self.temperature, self.top_p
        )
        ended = []
        for i, token, log_prob in zip(spoken, found.tolist(), log_probs.tolist(), strict=True):
            slot = rows[i]
            turn = self._said[slot]
            self._held[slot].append(tokens[i])
            turn.token_ids.append(token)
            turn.log_probs.append(log_prob)
            has_ended = token in self.end_ids or self._utterances.stop_length(turn.token_ids)
            if has_ended or len(turn.token_ids) == self.max_new_tokens:
                ended.append(self._said.pop(slot))
        return [(turn.name, self.utterance(turn.token_ids, turn.log_probs, turn.prompt)) for turn in ended]

    def generate(self, dialogues: Sequence[Messages], seeds: Sequence[int]) -> list[Utterance]:
        """Sample the next utterance of every dialogue; see `Policy`."""
        names: list[Hashable] = [("generate", i) for i in range(len(dialogues))]
        for name, dialogue, seed in zip(names, dialogues, seeds, strict=True):
            self.add(name, dialogue, seed)
        said: dict[Hashable, Utterance] = {}
        while len(said) < len(names):
            for name, utterance in self.step():
                said[name] = utterance
                self.forget(name)
        return [said[name] for name in names]

    def _admitted(self) -> list[tuple[int, _Turn]]:
        """Turns that have a slot or get a free one, in the order of their requests."""
        admitted, waiting = [], []
        for turn in self._asked:
            slot = self._slots.get(turn.name)
            if slot is None and self._free:
                slot = self._slots[turn.name] = self._free.pop(0)
            if slot is None:
                waiting.append(turn)
            else:
                self._said[slot] = turn
                admitted.append((slot, turn))
        self._asked = waiting
        return admitted

    def _read(self, admitted: Iterable[tuple[int, _Turn]]) -> None:
        """Prefill prompts into their slots, equal ones once. The last token is left to the next step."""
        new: dict[int, list[int]] = {}
        copies: dict[int, list[int]] = {}
        first: dict[tuple[int, ...], int] = {}
        for slot, turn in admitted:
            prompt = turn.prompt[:-1]
            self._held[slot] = _common_prefix(self._held[slot], prompt)
            if prompt and not self._held[slot]:
                source = first.setdefault(tuple(prompt), slot)
                if source != slot:
                    copies.setdefault(source, []).append(slot)
                    continue
            if len(prompt) > len(self._held[slot]):
                new[slot] = prompt
        self._share_instructions([slot for slot, prompt in new.items() if not self._held[slot] and self._is_instructed(prompt)])
        unread = {slot: prompt[len(self._held[slot]) :] for slot, prompt in new.items()}
        together = READ_TOGETHER_CPU if self.model.device.type == "cpu" else READ_TOGETHER
        for rows in _batches({slot: len(ids) for slot, ids in unread.items()}, together):
            read(self.model, self._cache, *self._placed([unread[slot] for slot in rows], rows))
            for slot in rows:
                self._held[slot] += unread[slot]
        for source, targets in copies.items():
            self._copy(source, targets, len(self._held[source]))

    def _is_instructed(self, prompt: list[int]) -> bool:
        """Whether a prompt begins with the system prompt and goes on."""
        count = len(self._instructions)
        return 0 < count < len(prompt) and prompt[:count] == self._instructions

    def _share_instructions(self, slots: list[int]) -> None:
        """Put the system prompt into empty slots: from one that has it, or prefilled in the first of them."""
        if not slots:
            return
        count = len(self._instructions)
        source = next((slot for slot, held in enumerate(self._held) if held[:count] == self._instructions), slots[0])
        if not self._held[source]:
            read(self.model, self._cache, *self._placed([self._instructions], [source]))
            self._held[source] = list(self._instructions)
        self._copy(source, [slot for slot in slots if slot != source], count)

    def _copy(self, source: int, targets: list[int], count: int) -> None:
        """Copy the first tokens of a slot to other slots."""
        if targets:
            self._cache.copy(source, targets, count)
        for slot in targets:
            self._held[slot] = self._held[source][:count]

    def _rows(self) -> list[int]:
        """Slots of the next forward pass: all up to the last active one, which needs no copy of the cache, unless most of them are idle."""
        under_way = sorted(self._said)
        return list(range(under_way[-1] + 1)) if 2 * len(under_way) > under_way[-1] else under_way

    def _next_token(self, slot: int) -> int:
        """The next input token of a slot; an arbitrary one for an idle slot, since it will be overwritten."""
        turn = self._said.get(slot)
        return 0 if turn is None else (turn.token_ids or turn.prompt)[-1]

    def _placed(self, token_ids: list[list[int]], rows: list[int]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Tokens padded on the right, their slots, and their start positions, which follow the cached tokens of the slots."""
        device = self.model.device
        slots, start = (torch.tensor(values, device=device) for values in (rows, [len(self._held[slot]) for slot in rows]))
        return right_padded(token_ids, device), slots, start


def _common_prefix(a: list[int], b: list[int]) -> list[int]:
    length = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    return a[:length]


def _batches(lengths: dict[int, int], together: int) -> Iterable[list[int]]:
    """Batches of slots of similar length, of at most so many tokens together; ascending within a batch."""
    batch: list[int] = []
    for slot in sorted(lengths, key=lambda slot: (-lengths[slot], slot)):
        longest = lengths[batch[0]] if batch else 0
        is_padding = longest > PADDED * lengths[slot] and len(batch) * longest >= READ_ENOUGH
        if batch and (is_padding or (len(batch) + 1) * longest > together):
            yield sorted(batch)
            batch = []
        batch.append(slot)
    if batch:
        yield sorted(batch)
