"""Values of whole utterances, by two Q and two V heads on embeddings of the dialogue and of the utterance; the critic of ArCHer (arXiv:2402.19446).

A state o_t is the prompt of the agent's turn t, an action a_t is that turn with its end token. Both are embedded separately, as in the released code, and
e = [mean of the hidden states; hidden state of the last token]. Q_k(o, a) = MLP_k([e(o); e(a)]) and V_k(o) = MLP_k(e(o)), k = 1, 2.

Encoders, by name (`ENCODERS`):
    frozen: The initial policy's body, as it is. Embeddings are computed once (`FrozenEncoder.prepare`), and a target network shares them.
    lora: The same with an adapter that is trained with the heads. A target network has an adapter of its own and shares all other weights.
    small: A bidirectional transformer of two layers, from scratch.
None of them has dropout, so targets are deterministic.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from sweetrl_agent.core.run import Run
from sweetrl_agent.core.settings import require
from sweetrl_agent.core.trainable import Trainable
from sweetrl_agent.data.padding import is_token, right_padded
from sweetrl_agent.models.loading import adapted, device, load_model
from sweetrl_agent.policies.slots import body

#: Sequences of token ids.
Tokens = Sequence[Sequence[int]]
#: Sequences that a frozen encoder reads at once.
READ_TOGETHER = 32
SMALL_LAYERS, SMALL_HEADS = 2, 4
VALUES = "values.safetensors"


def pooled(hidden: Tensor, mask: Tensor) -> Tensor:
    """Mean of the hidden states of a sequence, and the last of them. Shapes (B, L, H) and (B, L) to (B, 2 H), in float32."""
    hidden, weights = hidden.float(), mask.float()[:, :, None]
    mean = (hidden * weights).sum(dim=1) / weights.sum(dim=1)
    return torch.cat([mean, hidden[torch.arange(len(hidden)), mask.sum(dim=1) - 1]], dim=1)


class FrozenEncoder:
    """A body that is not trained, and the embeddings of sequences that it has read. It is no module: checkpoints and target networks do not repeat it.

    Attributes:
        width: Size of an embedding.
        tokens_read: Number of tokens that it has read.
    """

    def __init__(self, body: Any) -> None:
        """Freeze a body."""
        self.body, self.width, self.tokens_read = body.eval().requires_grad_(False), 2 * _hidden_size(body), 0
        self._known: dict[tuple[int, ...], Tensor] = {}

    def __deepcopy__(self, memo: Any) -> Self:
        """A copy of a critic has the same encoder."""
        return self

    @torch.no_grad()
    def prepare(self, rows: Tokens) -> None:
        """Embed these sequences and forget all others.

        Batches depend on these sequences alone, so a resumed run has the same numbers.
        """
        self._known.clear()
        self._read(rows)

    def __call__(self, rows: Tokens) -> Tensor:
        """Embeddings of sequences. Shape (B, width)."""
        self._read(rows)
        return torch.stack([self._known[tuple(row)] for row in rows])

    @torch.no_grad()
    def _read(self, rows: Tokens) -> None:
        unread = sorted({tuple(row) for row in rows} - self._known.keys(), key=lambda row: (len(row), row))
        for start in range(0, len(unread), READ_TOGETHER):
            part = unread[start : start + READ_TOGETHER]
            mask = is_token(part, self.body.device)
            states = self.body(right_padded(part, self.body.device), attention_mask=mask, use_cache=False)
            self._known |= zip(part, pooled(states.last_hidden_state, mask), strict=True)
            self.tokens_read += sum(map(len, part))


class TrainedEncoder(nn.Module):
    """An encoder that is trained. A subclass defines `hidden`.

    Attributes:
        width: Size of an embedding.
        tokens_read: Number of tokens that it and its copies have read.
    """

    def __init__(self, size: int) -> None:
        """Set the width for hidden states of a size."""
        super().__init__()
        self.width, self.tokens_read = 2 * size, 0

    def prepare(self, rows: Tokens) -> None:
        """Does nothing: embeddings change with every step."""

    def hidden(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Hidden states of token ids that are padded on the right. Shapes (B, L) to (B, L, H)."""
        raise NotImplementedError

    def forward(self, rows: Tokens) -> Tensor:
        """Embeddings of sequences, each distinct one read once. Shape (B, width)."""
        place = {row: i for i, row in enumerate(dict.fromkeys(map(tuple, rows)))}
        where = next(self.parameters()).device
        distinct = list(place)
        mask = is_token(distinct, where)
        self.tokens_read += sum(map(len, distinct))
        embedded = pooled(self.hidden(right_padded(distinct, where), mask), mask)
        return embedded[[place[tuple(row)] for row in rows]]


class LoraEncoder(TrainedEncoder):
    """A body with an adapter."""

    def __init__(self, body: Any) -> None:
        """Wrap a body whose trainable parameters are those of its adapter."""
        super().__init__(_hidden_size(body))
        self.body = body

    def hidden(self, ids: Tensor, mask: Tensor) -> Tensor:
        """See `TrainedEncoder`."""
        states: Tensor = self.body(ids, attention_mask=mask, use_cache=False).last_hidden_state
        return states


class SmallEncoder(TrainedEncoder):
    """A small bidirectional transformer with learnt positions."""

    def __init__(self, vocabulary: int, size: int, max_tokens: int) -> None:
        """Draw its weights.

        Args:
            vocabulary: Number of tokens.
            size: Size of its hidden states, a multiple of `SMALL_HEADS`.
            max_tokens: Longest sequence.
        """
        super().__init__(size)
        self.tokens, self.positions = nn.Embedding(vocabulary, size), nn.Embedding(max_tokens, size)
        layer = nn.TransformerEncoderLayer(size, SMALL_HEADS, 4 * size, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, SMALL_LAYERS, nn.LayerNorm(size), enable_nested_tensor=False)

    def hidden(self, ids: Tensor, mask: Tensor) -> Tensor:
        """See `TrainedEncoder`."""
        states: Tensor = self.layers(
            self.tokens(ids) + self.positions.weight[: ids.shape[1]], src_key_padding_mask=~mask.bool()
        )
        return states


def _frozen(run: Run, size: int, max_tokens: int) -> FrozenEncoder:
    model = load_model(run.initial_model, run.initial_model, run.config.model, is_trained=False)
    return FrozenEncoder(body(model))


def _lora(run: Run, size: int, max_tokens: int) -> LoraEncoder:
    arguments = replace(run.config.model, lora=True)
    return LoraEncoder(body(adapted(load_model(run.initial_model, run.initial_model, arguments), arguments).eval()))


def _small(run: Run, size: int, max_tokens: int) -> SmallEncoder:
    model = load_model(run.initial_model, run.initial_model, run.config.model)
    return SmallEncoder(model.get_input_embeddings().weight.shape[0], size, max_tokens).to(device())


#: Functions that make an encoder from a run, the size of a small one's hidden states, and the longest sequence.
ENCODERS: dict[str, Callable[[Run, int, int], Any]] = {"frozen": _frozen, "lora": _lora, "small": _small}


def refuse_encoder(encoder: str, width: int) -> None:
    """Refuse an unknown encoder, and the width of a small one that its attention heads cannot share."""
    require("encoder", encoder, tuple(ENCODERS))
    if encoder == "small" and width % 4:
        raise ValueError(f"`width` of a small encoder must be a multiple of 4, its attention heads, got {width}.")


class UtteranceValues(nn.Module):
    """Two Q and two V heads on an encoder.

    Attributes:
        encoder: Maps sequences of token ids to embeddings; one of `ENCODERS`, or any callable with a `width`.
    """

    def __init__(self, encoder: Any, size: int) -> None:
        """Draw new heads: two hidden layers of `size` and ReLU, as in the released code."""
        super().__init__()
        self.encoder = encoder
        self.q = nn.ModuleList(_head(2 * encoder.width, size) for _ in range(2))
        self.v = nn.ModuleList(_head(encoder.width, size) for _ in range(2))

    def tensor(self, numbers: Sequence[float]) -> Tensor:
        """Numbers on the device of the heads. Shape (B,)."""
        return torch.tensor(numbers, device=next(self.q.parameters()).device)

    def embed(self, rows: Tokens) -> Tensor:
        """Embeddings of sequences. Shape (B, width)."""
        embedded: Tensor = self.encoder(rows)
        return embedded

    def q_values(self, states: Tensor, actions: Tensor) -> Tensor:
        """Q of embedded states and actions, of both heads. Shapes (B, width) to (2, B)."""
        both = torch.cat([states, actions], dim=1)
        return torch.stack([head(both)[:, 0] for head in self.q])

    def v_values(self, states: Tensor) -> Tensor:
        """V of embedded states, of both heads. Shape (B, width) to (2, B)."""
        return torch.stack([head(states)[:, 0] for head in self.v])

    @torch.no_grad()
    def advantages(self, states: Tokens, actions: Tokens, batch: int = 256) -> list[float]:
        """A(o, a) = min_k Q_k(o, a) - min_k V_k(o) of each pair of a state and an action."""
        advantages: list[float] = []
        for start in range(0, len(states), batch):
            embedded, spoken = self.embed(states[start : start + batch]), self.embed(actions[start : start + batch])
            least_q, least_v = self.q_values(embedded, spoken).amin(dim=0), self.v_values(embedded).amin(dim=0)
            advantages += (least_q - least_v).tolist()
        return advantages

    def target(self) -> Self:
        """A copy for a target network. It shares everything that is not trained."""
        shared: dict[int, Any] = {id(parameter): parameter for parameter in self.parameters() if not parameter.requires_grad}
        return copy.deepcopy(self, shared).requires_grad_(False)

    @property
    def trained(self) -> list[nn.Parameter]:
        """The parameters in training."""
        return [parameter for parameter in self.parameters() if parameter.requires_grad]

    def save(self, folder: Path) -> None:
        """Write the trained parameters to a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        values = {name: value.detach().contiguous().cpu() for name, value in self.named_parameters() if value.requires_grad}
        save_file(values, folder / VALUES)

    def restore(self, folder: Path) -> Self:
        """Load the file of `save`."""
        self.load_state_dict(load_file(folder / VALUES), strict=False)
        return self


class SlowlyFollowed:
    """Values in training, and a target network that follows them.

    Attributes:
        values: The values.
        target: Their target.
        trainables: Both, for a checkpoint.
    """

    def __init__(self, values: UtteranceValues, learning_rate: float, polyak: float) -> None:
        """Set up the training of values.

        Args:
            values: The values.
            learning_rate: AdamW's.
            polyak: Rate at which the target follows after every step.
        """
        self.values, self.target, self.polyak = values, values.target(), polyak
        self._trained = Trainable("critic", values, torch.optim.AdamW(values.trained, lr=learning_rate, weight_decay=0.0))
        self._followed = Trainable("critic_target", self.target)
        self.trainables = (self._trained, self._followed)

    def step(self, loss: Tensor) -> float:
        """Take an optimizer step on a loss, and let the target follow; returns the loss."""
        loss.backward()
        self._trained.step()
        self._followed.follow(self.values, self.polyak)
        return float(loss.detach())

    @property
    def tokens_read(self) -> int:
        """Tokens that the encoders of both have read."""
        encoders = {id(values.encoder): values.encoder for values in (self.values, self.target)}
        return sum(encoder.tokens_read for encoder in encoders.values())


def make_values(run: Run, encoder: str, size: int, max_tokens: int) -> UtteranceValues:
    """New values on an encoder of a run, on the device of its models.

    Args:
        run: The run.
        encoder: Name of the encoder, from `ENCODERS`.
        size: Size of the heads' hidden layers, and of the hidden states of a small encoder.
        max_tokens: Longest sequence.
    """
    return UtteranceValues(ENCODERS[encoder](run, size, max_tokens), size).to(device())


def _head(inputs: int, size: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, size), nn.ReLU(), nn.Linear(size, size), nn.ReLU(), nn.Linear(size, 1))


def _hidden_size(body: Any) -> int:
    size: int = body.config.get_text_config().hidden_size
    return size
