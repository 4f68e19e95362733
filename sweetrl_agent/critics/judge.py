"""A language model as judge of which of two candidate turns helps more. Both orders are tried; only consistent verdicts count.

The judge is not trained and sees the hidden information. It compares neighbours in a circle of the candidates: each candidate is
compared twice, and the cost is linear in their number. The score of a candidate is its wins minus its losses.

Source: arXiv:2503.15478, section 5.3 (the wording and the circle are ours).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from colbench_gym.outside_text import quoted
from sweetrl_agent.core.episode import Messages
from sweetrl_agent.data.chat import Chat
from sweetrl_agent.data.padding import is_token, right_padded

QUESTION = """A colleague {work} for a person and may ask them questions first. {hidden}

What was said so far:
{transcript}

The colleague's next message could be one of these two, each in quotes.

A: {first}
B: {second}

Which of the two brings the colleague nearer to handing in exactly the {noun} that the person has in mind? A question helps if it
brings to light something that the colleague does not know yet and that the {noun} depends on. An answer helps only if it is right.
Reply with the letter A or the letter B and nothing else."""
HIDDEN = "The person has this {noun} in mind, and the colleague cannot see it:\n{hidden}"
#: What the colleague does, by the noun of the hidden information.
WORK = {"function": "writes a Python function", "page": "writes a web page"}
_SPEAKERS = {"user": "Person", "assistant": "Colleague"}


class JudgeCritic:
    """Ranks candidates by a chat model's verdicts on pairs of them."""

    def __init__(self, model: Any, chat: Chat, batch_size: int = 16, noun: str = "answer") -> None:
        """Wrap a judge.

        Args:
            model: A causal language model.
            chat: Its tokenizer and template.
            batch_size: Questions per forward pass.
            noun: What the hidden information is, `EnvironmentRecord.hidden_noun`.
        """
        self.model, self.chat, self.batch_size, self.noun = model.eval(), chat, batch_size, noun
        asked = [{"role": "user", "content": "?"}]
        replies = chat.turns(asked, ("A", "B"))
        place = next((i for i, (a, b) in enumerate(zip(*replies, strict=False)) if a != b), 0)
        self.lead, self.letters = replies[0][:place], [reply[place] for reply in replies]
        if self.letters[0] == self.letters[1]:
            raise ValueError("The judge's tokenizer gives the replies 'A' and 'B' the same first token; use another model.")

    def rank(self, messages: Messages, hidden: str, texts: Sequence[str]) -> list[float]:
        """Wins minus losses of each candidate against its two neighbours, in [-2, 2]; see `Critic`."""
        unique = list(dict.fromkeys(texts))
        pairs = [(i, (i + 1) % len(unique)) for i in range(len(unique) if len(unique) > 2 else len(unique) - 1)]
        asked = [question(messages, hidden, unique[a], unique[b], self.noun) for i, j in pairs for a, b in ((i, j), (j, i))]
        prefers_first = self._prefers_first(asked)
        credit = [0.0] * len(unique)
        for (i, j), forward, backward in zip(pairs, prefers_first[::2], prefers_first[1::2], strict=True):
            if forward != backward:  # the same candidate won in both orders
                credit[i] += 1.0 if forward else -1.0
                credit[j] -= 1.0 if forward else -1.0
        by_text = dict(zip(unique, credit, strict=True))
        return [by_text[text] for text in texts]

    def dialogue_advantages(self, messages: Messages, hidden: str) -> list[float]:
        """0 for every turn: a judge of pairs cannot score a single turn."""
        return [0.0 for message in messages if message["role"] == "assistant"]

    @torch.inference_mode()
    def _prefers_first(self, questions: Sequence[str]) -> list[bool]:
        prompts = [self.chat.prompt([{"role": "user", "content": text}]) + self.lead for text in questions]
        verdicts: list[bool] = []
        for start in range(0, len(prompts), self.batch_size):
            part = prompts[start : start + self.batch_size]
            mask = is_token(part, self.model.device)
            logits = self.model(right_padded(part, self.model.device), attention_mask=mask, use_cache=False).logits
            last = logits[torch.arange(len(part)), mask.sum(dim=1) - 1][:, self.letters]
            verdicts += (last[:, 0] > last[:, 1]).tolist()
        return verdicts


def question(messages: Messages, hidden: str, first: str, second: str, noun: str = "answer") -> str:
    """The judge's prompt on two candidates; these are quoted, so that they cannot end their quotes or start a line. `hidden` is "" for none."""
    return QUESTION.format(
        work=WORK.get(noun, f"looks for the {noun}"),
        noun=noun,
        hidden=HIDDEN.format(noun=noun, hidden=hidden) if hidden else "",
        transcript="\n".join(f"{_SPEAKERS[m['role']]}: {quoted(m['content'])}" for m in messages),
        first=quoted(first),
        second=quoted(second),
    )
