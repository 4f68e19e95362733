"""Baseline critics with a linear head: a score computed from the hidden states of a turn.

Two training objectives, both in `trainers.heads`:
    regression: Bradley-Terry on the sum over turns, as for SWEET-RL's own critic (its ablation "w/ regression head", Table 3).
    value: binary cross-entropy of every turn's score with the dialogue's success (the value function of Figure 3a).

Source: arXiv:2503.15478, sections 5.1 and 5.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from sweetrl_agent.core.episode import Messages
from sweetrl_agent.core.hint import hint_message
from sweetrl_agent.data.chat import Chat
from sweetrl_agent.data.padding import is_token, right_padded
from sweetrl_agent.policies.prefix_tree import padded_tree, rows_at
from sweetrl_agent.policies.slots import body

HEAD = "head.safetensors"


class ModelWithHead(nn.Module):
    """A model's body and a linear head on its hidden states. A subclass defines the head's input."""

    def __init__(self, model: Any) -> None:
        """Add a head, initialised to zero, to a model, which is trained with it."""
        super().__init__()
        self.model, self.config = model, model.config
        self.head = nn.Linear(model.config.get_text_config().hidden_size, 1)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)
        self.to(model.device)

    def save(self, folder: Path) -> None:
        """Write the body (or its adapter) and the head."""
        self.model.save_pretrained(folder)
        save_file({name: value.contiguous().cpu() for name, value in self.head.state_dict().items()}, folder / HEAD)

    def load_head(self, folder: Path) -> Self:
        """Load the head that `save` wrote; the caller loads the body."""
        self.head.load_state_dict(load_file(folder / HEAD))
        return self

    def restore(self, folder: Path) -> None:
        """Load body (or adapter) and head that `save` wrote."""
        self.load_head(folder)
        if (folder / "adapter_config.json").exists():
            from peft import load_peft_weights, set_peft_model_state_dict

            set_peft_model_state_dict(self.model, load_peft_weights(str(folder)))
        else:
            dtype = self.model.dtype
            saved = type(self.model).from_pretrained(folder, dtype=dtype, use_safetensors=True, trust_remote_code=False)
            self.model.load_state_dict(saved.state_dict())


class TurnHead(ModelWithHead):
    """A language model's body and a linear head on the mean hidden state of each agent turn."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor, turn_ids: Tensor, groups: Tensor | None = None) -> Tensor:
        """Score of every agent turn.

        Args:
            input_ids: Shape (B, L).
            attention_mask: 1 for tokens, 0 for padding. Shape (B, L).
            turn_ids: Agent turn of each token, 1..T; 0 for other tokens. Shape (B, L).
            groups: What each row is a part of, shape (B,): what the rows of a group have in common is read once. None for nothing.

        Returns:
            Shape (B, T); 0 where a dialogue has fewer turns.
        """
        if tree := padded_tree(self.model, input_ids, attention_mask, groups):
            hidden = rows_at(tree.hidden_states(body(self.model)), tree.places).float()
        else:
            arguments = {"output_hidden_states": True, "use_cache": False, "logits_to_keep": 1}
            output = self.model(input_ids=input_ids, attention_mask=attention_mask, **arguments)
            hidden = output.hidden_states[-1].float()
        in_turn = nn.functional.one_hot(turn_ids)[:, :, 1:].to(hidden.dtype)  # (B, L, T)
        counts = in_turn.sum(dim=1)
        pooled = torch.einsum("blt,blh->bth", in_turn, hidden) / counts.clamp(min=1)[..., None]
        scores: Tensor = self.head(pooled.to(self.head.weight.dtype))[..., 0]
        return scores * (counts > 0)


class HeadCritic:
    """Scores candidate turns with a trained head."""

    def __init__(
        self, scorer: TurnHead, chat: Chat, instructions: str = "", batch_size: int = 32, noun: str = "answer"
    ) -> None:
        """Wrap a trained head.

        Args:
            scorer: Body and head.
            chat: Their tokenizer and template.
            instructions: System prompt of the agent.
            batch_size: Candidates per forward pass.
            noun: What the hidden information is, `EnvironmentRecord.hidden_noun`.
        """
        self.scorer, self.chat, self.instructions, self.batch_size = scorer.eval(), chat, instructions, batch_size
        self.noun = noun

    @torch.inference_mode()
    def rank(self, messages: Messages, hidden: str, texts: Sequence[str]) -> list[float]:
        """Scores of candidates for the next agent turn; see `Critic`."""
        led = [*hint_message(hidden, self.instructions, self.noun), *messages]
        unique = list(dict.fromkeys(texts))
        prompt = self.chat.prompt(led)
        turns = self.chat.turns(led, unique)
        scores: dict[str, float] = {}
        for start in range(0, len(turns), self.batch_size):
            part = turns[start : start + self.batch_size]
            values = self._scores([prompt + ids for ids in part], [[0] * len(prompt) + [1] * len(ids) for ids in part])[
                :, 0
            ].tolist()
            scores |= dict(zip(unique[start:], values, strict=False))
        return [scores[text] for text in texts]

    @torch.inference_mode()
    def dialogue_advantages(self, messages: Messages, hidden: str) -> list[float]:
        """Score of every agent turn of a dialogue, in order."""
        parts = self.chat.sequences([*hint_message(hidden, self.instructions, self.noun), *messages])
        scores = self._scores([part.token_ids for part in parts], [part.turn_ids for part in parts]).tolist()
        return [float(x) for part, of_part in zip(parts, scores, strict=True) for x in of_part[: part.num_turns]]

    def _scores(self, rows: Sequence[list[int]], turn_ids: Sequence[list[int]]) -> Tensor:
        device = self.scorer.head.weight.device
        scores: Tensor = self.scorer(right_padded(rows, device), is_token(rows, device), right_padded(turn_ids, device))
        return scores
