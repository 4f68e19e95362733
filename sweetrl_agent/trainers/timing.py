"""Times passes, optimizer steps and sampling of a model of the run's shape on this machine, before anything runs.

The weights are random and nothing is loaded. Of a deep model only the first layers are made: its time is that of one layer, of the others (from the difference
of three layers and one) and of the head for each scored token. A pass takes as many tokens as fit into a fraction of a second, and longer ones are scaled.
So it takes seconds for the tiny model and some tens of seconds for billions of parameters. The global random generators are as they were afterwards.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import torch
from torch import nn

from colbench_gym.generators import preserve_rng_state
from sweetrl_agent.config.model import ModelArguments
from sweetrl_agent.models.loading import LAYERS as LAYERS_OF
from sweetrl_agent.models.loading import adapted, device, policy_on, torch_dtype
from sweetrl_agent.policies.slots import body

#: Seconds from which on a pass is long enough to tell the speed, and layers that a deep model is timed with.
ENOUGH_S, LAYERS = 0.2, (1, 3)
#: Tokens of the first pass of a kind, which warms up, and the most of a pass; dialogues that a token is sampled in first.
FIRST_TOKENS, MOST_TOKENS, FIRST_ROWS = 32, 4096, 4
#: Tokens of a sequence and of those the scored ones, in passes of a deep model.
DEEP_TOKENS = 256
#: Tokens of the utterances that are sampled to time one token: of a small model, and of a deep one.
SAMPLED, SAMPLED_DEEP = 9, 3
Timer = Callable[[], float]


@dataclass(frozen=True)
class Timed:
    """Something that takes time.

    Attributes:
        kind: "read" and "train" are passes, "step" is an optimizer step, "sample" is one token in each of some dialogues.
        rows: Sequences of a pass, or dialogues.
        tokens: Tokens of each sequence, or before the token.
        scored: Tokens of each sequence with logits.
    """

    kind: Literal["read", "train", "step", "sample"]
    rows: int = 1
    tokens: int = 1
    scored: int = 1


class TimedModel:
    """A model of a shape with random weights.

    Args:
        config: Its configuration, of transformers.
        tokenizer: Its tokenizer.
        arguments: Settings of the agent's model.
        timer: A clock, in seconds.
    """

    def __init__(self, config: Any, tokenizer: Any, arguments: ModelArguments, timer: Timer = time.perf_counter) -> None:
        self.config, self.tokenizer, self.arguments, self.timer = config.get_text_config(), tokenizer, arguments, timer
        self.num_layers = int(self.config.num_hidden_layers)

    @property
    def is_deep(self) -> bool:
        """Whether only some of its layers are made."""
        return self.num_layers > max(LAYERS)

    def seconds(self, wanted: Collection[Timed]) -> dict[Timed, float]:
        """Seconds of each, measured now."""
        found: dict[Timed, float] = {}
        with preserve_rng_state():
            for is_trained in (False, True):
                own = [one for one in wanted if (one.kind in ("train", "step")) == is_trained]
                if own:
                    model = self._made(is_trained)
                    found |= self._of_deep(model, own) if self.is_deep else {one: self._measured(model, one) for one in own}
                    del model  # before the next one is made
        return {one: found[one] for one in wanted}

    def _of_deep(self, model: Any, wanted: Collection[Timed]) -> dict[Timed, float]:
        """Times of all layers, from those of a few."""
        kinds: dict[str, list[Timed]] = {}
        for one in wanted:
            kinds.setdefault(one.kind, []).append(one)
        probes = {
            one
            for kind, own in kinds.items()
            for one in (own if kind in ("sample", "step") else [_probe(own[0], 1), _probe(own[0], DEEP_TOKENS // 2)])
        }
        many = {one: self._measured(model, one) for one in probes if one.scored <= 1}
        _cut(model, LAYERS[0])
        few = {one: self._measured(model, one) for one in probes}
        whole = {
            one: few[one] + (self.num_layers - LAYERS[0]) * max(many[one] - few[one], 0.0) / (LAYERS[1] - LAYERS[0])
            for one in many
        }
        found = {one: whole[one] for one in wanted if one in whole}
        for one in wanted:
            if one not in found:  # a pass
                bare, scored = _probe(one, 1), _probe(one, DEEP_TOKENS // 2)
                of_head = max(few[scored] - few[bare], 0.0) / (scored.scored - 1)
                found[one] = one.rows * (one.tokens * whole[bare] / DEEP_TOKENS + one.scored * of_head)
        return found

    def _made(self, is_trained: bool) -> Any:
        """The model with its first layers."""
        from transformers import AutoModelForCausalLM

        config = copy.deepcopy(self.config)
        config.num_hidden_layers = min(self.num_layers, max(LAYERS))
        if getattr(config, "layer_types", None):
            config.layer_types = list(config.layer_types)[: config.num_hidden_layers]
        dtype = torch_dtype(self.arguments, is_trained)
        model = AutoModelForCausalLM.from_config(config, dtype=dtype, trust_remote_code=False).to(device())
        if is_trained:
            model = adapted(model, replace(self.arguments, lora_layers=0))
            if self.arguments.gradient_checkpointing:
                model.gradient_checkpointing_enable({"use_reentrant": False})
        return model.train(is_trained)

    def _measured(self, model: Any, one: Timed) -> float:
        measure = {"step": self._step, "sample": self._sample}.get(one.kind, self._pass)
        return measure(model, one)

    def _timed(self, work: Callable[[], object]) -> float:
        """Seconds of one call."""
        start = self.timer()
        work()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        return self.timer() - start

    def _pass(self, model: Any, one: Timed) -> float:
        """Passes of more and more tokens, until one is long enough or whole, and once more; the fastest of that size is scaled."""
        whole, size, best = one.rows * one.tokens, FIRST_TOKENS, 0.0
        while True:
            size = min(size, whole, MOST_TOKENS)
            length = min(one.tokens, size)
            rows = max(1, size // length)
            scored = max(1, min(length - 1, round(one.scored * length / one.tokens)))
            is_last = size == min(whole, MOST_TOKENS) or best >= ENOUGH_S
            work = partial(_pass, model, one.kind, rows, length, scored)
            best = min(self._timed(work) for _ in range(2 if is_last else 1))
            model.zero_grad(set_to_none=True)
            if is_last:
                return best * whole / (rows * length)
            if best < ENOUGH_S:
                size *= max(2, min(8, int(ENOUGH_S / max(best, 1e-6))))

    def _step(self, model: Any, one: Timed) -> float:
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        for parameter in trained:
            parameter.grad = torch.zeros_like(parameter)
        optimizer = torch.optim.AdamW(trained, lr=0.0)
        seconds = [
            self._timed(lambda: (nn.utils.clip_grad_norm_(trained, 1.0), optimizer.step())) for _ in range(2)
        ]  # the first makes its state
        model.zero_grad(set_to_none=True)
        return seconds[1]

    def _sample(self, model: Any, one: Timed) -> float:
        """Seconds of a token, from a short and a longer utterance; the prompts are equal, so that they are read once."""
        rows, first = min(FIRST_ROWS, one.rows), 0.0
        while True:
            first = self._generate(model, one, rows, 1)
            if rows == one.rows or first >= 2 * ENOUGH_S:
                break
            rows = min(one.rows, rows * 8)
        count = SAMPLED_DEEP if self.is_deep else SAMPLED
        repeats = 1 if self.is_deep else 2  # the fastest, since other processes disturb short calls
        first = min([first, *(self._generate(model, one, rows, 1) for _ in range(repeats - 1))])
        whole = min(self._generate(model, one, rows, count) for _ in range(repeats))
        least = whole / count / 4  # where the first one was disturbed
        return max((whole - first) / (count - 1), least) * one.rows / rows

    def _generate(self, model: Any, one: Timed, rows: int, count: int) -> float:
        dialogue = [{"role": "user", "content": " ".join(["a"] * max(1, one.tokens // 2))}]
        policy: Any = policy_on(model, self.tokenizer, replace(self.arguments, max_new_tokens=count, generation_batch=rows))
        policy.end_ids = [-1]  # nothing ends before its time
        return self._timed(lambda: policy.generate([dialogue] * rows, range(rows)))


def _probe(one: Timed, scored: int) -> Timed:
    """The pass of a deep model that the time of a pass is derived from."""
    return Timed(one.kind, 1, DEEP_TOKENS, scored)


def _cut(model: Any, count: int) -> None:
    """Remove all but the first layers of a model."""
    parent, _, name = LAYERS_OF.rpartition(".")
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    owner = base.get_submodule(parent)
    setattr(owner, name, getattr(owner, name)[:count])
    base.config.num_hidden_layers = count


def _pass(model: Any, kind: str, rows: int, tokens: int, scored: int) -> None:
    """One pass over arbitrary tokens, with logits of the last ones."""
    ids = torch.arange(rows * tokens, device=model.device).view(rows, tokens) % 64
    with torch.set_grad_enabled(kind == "train"):
        hidden = body(model)(input_ids=ids, use_cache=False).last_hidden_state[:, -scored - 1 : -1]
        head = (model.get_base_model() if hasattr(model, "get_base_model") else model).get_output_embeddings()
        loss = nn.functional.cross_entropy(head(hidden).float().flatten(0, 1), ids[:, -scored:].flatten())
    if kind == "train":
        loss.backward()
