"""A model's chat template, probed with sample dialogues: where instructions go, and what ends a turn.

Templates differ: some refuse system messages or drop them, some require that both sides alternate strictly, some name the current date. This module
decides once for each tokenizer, so that every part of the program renders a dialogue in the same way.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any

from colbench_gym.reasoning import AROUND_SPEECH, AUTO, HARMONY, NONE, PAIRS, Reasoning
from sweetrl_agent.core.episode import Messages

#: Texts of the sample dialogues, which no template trims.
_SYSTEM, _USER, _AGENT, _NEXT = "Sampleinstructions", "Samplerequest", "Samplereply", "Samplefollowup"
#: Names of the switch of thoughts in the templates of model families, with its value for no thoughts.
_NO_THOUGHTS: Mapping[str, Any] = {"enable_thinking": False, "thinking": False, "reasoning": False, "thinking_budget": 0}
#: The date for templates that name the current date, so that prompts do not depend on the day of the run. Llama 3 templates name it if they have no clock.
_DATE = datetime(2024, 7, 26)
_CLOCK = re.compile(r"""strftime_now\(\s*(["'])(.*?)\1\s*\)""")
#: Marks that may follow a turn's text and do not end the turn.
_NO_ENDS = frozenset({*AROUND_SPEECH, *(closing for _, closing in PAIRS)})


def _dialogue(*turns: str) -> list[dict[str, str]]:
    """A sample dialogue of these texts, the user's first."""
    return [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(turns)]


class Template:
    """A tokenizer's chat template.

    Attributes:
        has_system: Whether it renders a system message; else the instructions are put in front of the first user message, with an empty line between them.
        switches: Arguments of the template that switch thoughts off, with a setting `reasoning` of "none"; else empty.
        merges: Whether it refuses consecutive messages of one role, which are then merged into one.
        ends_turns: Whether it ends a turn by a token; without one, the tokenizer's `eos_token` ends it.
        end: The token that ends a turn, as text; "" if there is none.
        lead: Text between the header of a turn and its speech, without a thought.
        stop_text: Text that ends a turn of a template without an end token: the text before the other side's message. "" for none.
    """

    def __init__(self, tokenizer: Any, reasoning: Reasoning | None = None) -> None:
        """Render the samples.

        Args:
            tokenizer: The tokenizer.
            reasoning: How the model marks its thoughts. A setting of "none" switches them off where the template has a switch.

        Raises:
            ValueError: If there is no chat template.
        """
        if not tokenizer.chat_template:
            raise ValueError(
                "The tokenizer has no chat template; use an instruction-tuned model, or set `tokenizer.chat_template`."
            )
        self.tokenizer, self.reasoning = tokenizer, reasoning or Reasoning()
        self._source = _CLOCK.sub(lambda call: json.dumps(_DATE.strftime(call[2])), tokenizer.get_chat_template())
        self.switches: Mapping[str, Any] = _NO_THOUGHTS if self.reasoning.setting == NONE else {}
        self.has_system, self.merges = True, False
        repeated = [m for m in _dialogue(_USER, _AGENT, _NEXT) for _ in range(1 + (m["role"] == "user"))]
        self.merges = not self._shows(repeated, _USER, _NEXT)
        instructed = [{"role": "system", "content": _SYSTEM}, *_dialogue(_USER)]
        self.has_system = self._shows(instructed, _SYSTEM, _USER) and self._shows(
            [*instructed, *_dialogue(_USER, _AGENT, _NEXT)[1:]], _SYSTEM, _NEXT
        )
        self._find_end()

    def render(self, messages: Messages, is_prompt: bool = True) -> str:
        """The text of a dialogue; "" for one without messages.

        Args:
            messages: The dialogue, with the instructions in a leading system message.
            is_prompt: Whether the header of the agent's next turn follows.
        """
        return self.render_all([messages], is_prompt)[0]

    def render_all(self, dialogues: Sequence[Messages], is_prompt: bool = True) -> list[str]:
        """`render` of each dialogue; a single call takes half the time."""
        placed = [self.placed(messages) for messages in dialogues]
        nonempty = [messages for messages in placed if messages]
        rendered = iter(self._apply(nonempty, is_prompt) if nonempty else ())
        return [next(rendered) if messages else "" for messages in placed]

    def turn(self, prompt: str, whole: str, text: str, thought: str = "") -> str:
        """The text of an agent's turn behind its prompt, up to and including what ends it.

        Args:
            prompt: The rendered prompt.
            whole: The rendered dialogue that ends with the turn.
            text: Its speech.
            thought: The thought before the speech, with its marks, or without them, as a server returned it apart; "" for none.
        """
        opened = self.reasoning.opened_by(prompt)
        thought = thought and self._marked(thought, opened)
        behind = whole[len(prompt) :] if whole.startswith(prompt) else None
        if thought:
            opening = next((opening for opening, closing in self.reasoning.pairs.items() if closing == opened), "")
            return (thought.lstrip().removeprefix(opening) if opening else thought) + text + self.end
        speech = text.strip()
        start = -1 if behind is None else behind.find(speech, len(self.lead) if behind.startswith(self.lead) else 0)
        if behind is None or start < 0 or (opened and opened not in behind):
            return self.lead_of(prompt) + text + self.end
        start += len(speech)
        end = behind.find(self.end, start) if self.ends_turns else -1
        return behind[: end + len(self.end)] if end >= 0 else behind[:start] + self.end

    def _marked(self, thought: str, opened: str) -> str:
        """A thought with marks: its own, those that the prompt opens, or those of the template; "" if the template has none."""
        pairs = self.reasoning.pairs
        if any(mark in thought for mark in (*pairs, *pairs.values(), *HARMONY)):
            return thought
        if HARMONY[0] in self._source:
            return f"<|channel|>analysis<|message|>{thought.strip()}<|end|><|start|>assistant<|channel|>final<|message|>"
        marks = next((pair for pair in pairs.items() if pair[1] == opened or (not opened and pair[1] in self._source)), None)
        return f"{marks[0]}\n{thought.strip()}\n{marks[1]}\n\n" if marks else ""

    def lead_of(self, prompt: str) -> str:
        """Text between a rendered prompt and a turn without a thought: `lead`, or the end of a thought that the prompt opens."""
        opened = self.reasoning.opened_by(prompt)
        return f"\n{opened}\n\n" if opened else self.lead

    @cached_property
    def is_switched(self) -> bool:
        """Whether the template has a switch for thoughts and they are off."""
        return bool(self.switches) and self.render(_dialogue(_USER)) != Template(self.tokenizer).render(_dialogue(_USER))

    def describe_thoughts(self) -> str:
        """How the model's thoughts are handled, in a few words; "" for a template without thoughts."""
        prompt = self.render(_dialogue(_USER))
        if opened := self.reasoning.opened_by(prompt):
            return f"the prompt opens a thought, which ends at {opened}: it is no part of the message, and counts for `--max_new_tokens`"
        if self.is_switched:
            return "thoughts are switched off"
        if opened := Reasoning().opened_by(prompt):
            return f"the prompt opens a thought up to {opened}, which `--reasoning` {self.reasoning.setting!r} takes for part of the message"
        known_marks = next((" and ".join(pair) for pair in PAIRS if pair[1] in self._source), "")
        own_marks = " and ".join(*self.reasoning.pairs.items()) if self.reasoning.setting not in (AUTO, NONE) else ""
        if own_marks or (known_marks and self.reasoning.setting == AUTO):
            return f"what stands between {own_marks or known_marks} is thought: it is no part of the message, and counts for `--max_new_tokens`"
        return f"thoughts between {known_marks} are part of the message" if known_marks else ""

    def placed(self, messages: Messages) -> list[dict[str, str]]:
        """The messages, with the instructions at the place that the template supports; several leading system messages are one: many templates lose one of two."""
        placed = [{"role": message["role"], "content": message["content"]} for message in messages]
        while len(placed) > 1 and placed[0]["role"] == placed[1]["role"] == "system":
            placed[0]["content"] += f"\n\n{placed.pop(1)['content']}"
        if placed and placed[0]["role"] == "system" and not self.has_system:
            first = {**placed.pop(0), "role": "user"}
            if placed and placed[0]["role"] == "user":
                first["content"] += f"\n\n{placed.pop(0)['content']}"
            placed.insert(0, first)
        if not self.merges:
            return placed
        merged: list[dict[str, str]] = []
        for message in placed:
            if merged and merged[-1]["role"] == message["role"]:
                merged[-1]["content"] += f"\n\n{message['content']}"
            else:
                merged.append(message)
        return merged

    def _apply(self, dialogues: list[list[dict[str, str]]], is_prompt: bool) -> list[str]:
        rendered: list[str] = self.tokenizer.apply_chat_template(
            dialogues, tokenize=False, add_generation_prompt=is_prompt, chat_template=self._source, **self.switches
        )
        return rendered

    def _shows(self, messages: Messages, *texts: str) -> bool:
        """Whether the template renders a dialogue with these texts. It is a program, and may raise anything."""
        try:
            rendered = self.render(messages)
        except MemoryError:
            raise
        except Exception:
            return False
        return all(text in rendered for text in texts)

    def _find_end(self) -> None:
        """Find the texts around a turn: at the end of a dialogue, or if there are none, before the other side's next message."""
        dialogue = _dialogue(_USER, _AGENT)
        prompt, whole = self.render(dialogue[:1]), self.render(dialogue, is_prompt=False)
        opened = self.reasoning.opened_by(prompt)
        lead = whole.removeprefix(prompt).partition(_AGENT)[0]
        self.lead = lead if whole.startswith(prompt) and _AGENT in whole and (not opened or opened in lead) else ""
        behind = whole.partition(_AGENT)[2]
        between = self.render(_dialogue(_USER, _AGENT, _NEXT)).partition(_AGENT)[2].partition(_NEXT)[0]
        end = self._first_token(behind) or self._first_token(between)
        self.ends_turns = bool(end)
        self.end = end or str(self.tokenizer.eos_token or "")
        self.stop_text = "" if end or not between.strip() else between.rstrip()

    def _first_token(self, text: str) -> str:
        """The first added token of a text that can end a turn; "" if there is none."""
        added = {i: token.content for i, token in self.tokenizer.added_tokens_decoder.items() if token.content not in _NO_ENDS}
        token_ids = self.tokenizer(text, add_special_tokens=False)["input_ids"] if text else []
        return next((added[token] for token in token_ids if token in added), "")
