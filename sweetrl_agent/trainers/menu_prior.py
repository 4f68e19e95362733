"""The language model as a prior over a menu of utterances: the likelihood of each action's text after a dialogue."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from sweetrl_agent.config.model import ModelArguments
from sweetrl_agent.core.actions import DialogueActions
from sweetrl_agent.core.episode import Messages
from sweetrl_agent.core.messages import as_read, system_message
from sweetrl_agent.data.chat import Chat, EncodedDialogue
from sweetrl_agent.models.loading import load_chat, load_model, merged, system_prompt
from sweetrl_agent.policies.prefix_tree import tokens_read
from sweetrl_agent.trainers.token_passes import action_log_probs

#: Probabilities of actions, shape (count,).
Probabilities = NDArray[np.float64]
#: A dialogue, a note that follows the instructions in the system message, and the texts of a menu.
Menu = tuple[Messages, str, Sequence[str]]
#: Menus per forward pass.
_PER_PASS = 16
#: log 0, for a learner that multiplies it.
_LEAST_LOG = -690.0


class Proposer(Protocol):
    """Proposes actions of a menu."""

    @property
    def scored_tokens(self) -> int:
        """Tokens that its model has read so far."""
        ...

    def log_probs(self, dialogues: Sequence[Messages]) -> NDArray[np.float64]:
        """Log-probability of every action in every dialogue, in nats, shape (N, count)."""
        ...


def state_name(messages: Messages) -> str:
    """A short name of a dialogue, the same on every machine."""
    return hashlib.sha256(json.dumps([[m["role"], m["content"]] for m in messages]).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Scorer:
    """A language model that scores the texts of menus.

    Attributes:
        model: A causal language model, on its device.
        chat: Its tokenizer and template.
        instructions: The agent's system prompt; "" for none.
        history: Earlier turns that it reads, as in `core.messages.as_read`.
        per_token: Mean over a text's tokens, its end token included; False for their sum, its likelihood. Texts of a menu may differ in length by
            a factor of hundred, as a question and a program do.
    """

    model: Any
    chat: Chat
    instructions: str = ""
    history: int = -1
    per_token: bool = True

    @classmethod
    def load(cls, path: str, base: str, arguments: ModelArguments, per_token: bool) -> Scorer:
        """That of a model.

        Args:
            path: Folder or hub name of the model, or folder of its adapter.
            base: Base model of the adapter; its tokenizer is used.
            arguments: Settings of the agent's model.
            per_token: See the class.
        """
        model = merged(load_model(path, base, arguments, is_trained=False)).eval()
        return cls(model, load_chat(base, arguments), system_prompt(arguments), arguments.history, per_token)

    @torch.inference_mode()
    def scores(self, menus: Sequence[Menu]) -> Iterator[tuple[list[float], int]]:
        """Log-probability of each text as the agent's next turn, in nats, and the number of tokens read, for every menu.

        What the texts of a menu have in common is read once; equal texts are scored once.
        """
        for start in range(0, len(menus), _PER_PASS):
            encoded = [self._encoded(*menu) for menu in menus[start : start + _PER_PASS]]
            rows, groups = (
                [row for of_menu in encoded for row in of_menu.values()],
                [i for i, of in enumerate(encoded) for _ in of],
            )
            log_probs = action_log_probs(self.model, rows, groups=groups).double().cpu()
            each = iter(log_probs.split([len(row.turns[0]) for row in rows]))
            for (*_, texts), of_menu in zip(menus[start:], encoded, strict=False):
                parts = {text: next(each) for text in of_menu}
                of_text = {text: float(part.mean() if self.per_token else part.sum()) for text, part in parts.items()}
                read = tokens_read([row.token_ids for row in of_menu.values()], [0] * len(of_menu))
                yield [of_text[text] for text in texts], read

    def _encoded(self, messages: Messages, note: str, texts: Sequence[str]) -> dict[str, EncodedDialogue]:
        """The different texts, each as the only turn of a dialogue."""
        read = [*system_message(self.instructions, note), *as_read(list(messages), self.history)]
        prompt, unique = self.chat.prompt(read), list(dict.fromkeys(texts))
        return {
            text: EncodedDialogue(prompt + turn, [0] * len(prompt) + [1] * len(turn))
            for text, turn in zip(unique, self.chat.turns(read, unique), strict=True)
        }


class MenuPrior:
    """p(a | s): the softmax of the scores of the allowed actions' texts, mixed with the uniform distribution over them.

    Args:
        actions: The menu.
        scorer: Scores texts; None for the uniform distribution alone.
        temperature: T of the softmax of scores / T.
        weight: Weight of the language model, in [0, 1]; the rest is uniform.

    Attributes:
        scored_tokens: Tokens that the model has read so far. Each dialogue is scored once.
    """

    def __init__(self, actions: DialogueActions, scorer: Scorer | None, temperature: float = 1.0, weight: float = 1.0) -> None:
        self.actions, self.scorer, self.temperature, self.weight = actions, scorer, temperature, weight
        self.scored_tokens = 0
        self._known: dict[tuple[str, str], Probabilities] = {}

    def __call__(self, messages: Messages) -> Probabilities:
        """Probabilities of all actions after a dialogue; 0 for those that are not allowed."""
        row: Probabilities = self.probabilities([messages])[0]
        return row

    def probabilities(self, dialogues: Sequence[Messages], notes: Sequence[str] = ()) -> NDArray[np.float64]:
        """Probabilities of all actions after every dialogue, shape (N, count); 0 for those that are not allowed.

        Args:
            dialogues: N dialogues; the last message of each is the user's.
            notes: A text for each dialogue that follows the instructions in the system message; () for none.
        """
        names = [(state_name(dialogue), note) for dialogue, note in zip(dialogues, notes or [""] * len(dialogues), strict=True)]
        new = {name: dialogue for name, dialogue in zip(names, dialogues, strict=True) if name not in self._known}
        self._known |= dict(zip(new, self._mixed(new), strict=True))
        return np.stack([self._known[name] for name in names])

    def log_probs(self, dialogues: Sequence[Messages], notes: Sequence[str] = ()) -> NDArray[np.float64]:
        """The logarithms of `probabilities`, in nats; -690 for 0."""
        with np.errstate(divide="ignore"):
            logs: NDArray[np.float64] = np.maximum(np.log(self.probabilities(dialogues, notes)), _LEAST_LOG)
        return logs

    def remember(self, name: str, probabilities: Probabilities) -> None:
        """Take over the probabilities after a dialogue, by its `state_name`, from a run that is resumed."""
        self._known[name, ""] = probabilities

    def _mixed(self, states: dict[tuple[str, str], Messages]) -> list[Probabilities]:
        masks = [self.actions.allowed(messages) for messages in states.values()]
        if self.scorer is None or not self.weight:
            return [mask / mask.sum() for mask in masks]
        menus: list[Menu] = [
            (messages, note, [self.actions.say(int(action), messages) for action in np.flatnonzero(mask)])
            for ((_, note), messages), mask in zip(states.items(), masks, strict=True)
        ]
        rows = []
        for mask, (scores, num_tokens) in zip(masks, self.scorer.scores(menus), strict=True):
            self.scored_tokens += num_tokens
            logits = np.array(scores) / self.temperature
            likelihood = np.exp(logits - logits.max())
            rows.append((1 - self.weight) * mask / mask.sum())
            rows[-1][mask] += self.weight * likelihood / likelihood.sum()
        return rows
