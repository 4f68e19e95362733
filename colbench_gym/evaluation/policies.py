"""Policies by name, for `python -m colbench_gym.evaluate`."""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from colbench_gym.agents import chat
from colbench_gym.agents.agent import Agent
from colbench_gym.agents.person import PersonAgent
from colbench_gym.agents.prompts import PROMPT_OF
from colbench_gym.agents.scripted import MenuAgent, OracleAgent, menu_of, own_agent, random_agent, uniform
from colbench_gym.evaluation.folder import labelled, unique_names

SCRIPTED = ("random", "random_actions", "oracle", "person")
_OBJECT = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


@dataclass(frozen=True)
class PolicySpec:
    """A policy as it was named.

    Attributes:
        name: Its name in the results.
        text: What it is: a scripted policy, "openai:MODEL@URL", or "module:NAME".
    """

    name: str
    text: str

    @property
    def is_chat(self) -> bool:
        """Whether it is a model behind a chat server."""
        return self.text.startswith(chat.PREFIX)

    @property
    def model(self) -> str:
        """Name of its model in a file of prices."""
        return chat.split_name(self.text)[0] if self.is_chat else self.name

    def settings(self, sampling: chat.Sampling) -> dict[str, Any]:
        """What its rows depend on, for `settings.json`."""
        if not self.is_chat:
            return {"policy": self.text}
        asked = {"system_prompt": sampling.system_prompt, "temperature": sampling.temperature, "reasoning": sampling.reasoning}
        return {"policy": self.text, "model": self.model, **asked, "max_new_tokens": sampling.max_new_tokens}

    def make(self, env_id: str, source: str, max_turns: int, sampling: chat.Sampling) -> Agent:
        """Make the agent for a source of tasks.

        Raises:
            ValueError: If it cannot be made.
            ImportError: If a package is missing.
        """
        if self.is_chat:
            return chat.chat_agent(self.text, sampling)
        if self.text == "random":
            return random_agent(env_id, source, max_turns)
        if self.text == "random_actions":
            menu = menu_of(env_id, source)
            if menu is None:
                raise ValueError(
                    f"'random_actions' needs a menu of actions, which only the embedded tasks have, got {source!r}."
                )
            return MenuAgent(menu, uniform)
        if self.text == "oracle":
            return OracleAgent()
        return PersonAgent() if self.text == "person" else own_agent(load_object(self.text), env_id, source)


def default_prompt(env_id: str) -> str:
    """Name of the system prompt for a chat model in an environment; "" for none."""
    return PROMPT_OF.get(env_id, "")


def find_policies(texts: Sequence[str]) -> list[PolicySpec]:
    """The policies of the command line, each with a name of its own.

    Raises:
        ValueError: If one of them is unknown, or two have the same name.
    """
    given = [labelled(text) for text in texts]
    for _, text in given:
        if text.startswith(chat.PREFIX):
            chat.split_name(text)
        elif text not in SCRIPTED and not _OBJECT.fullmatch(text):
            raise ValueError(
                f"A policy must be one of {SCRIPTED}, openai:MODEL@http://HOST:PORT/v1 or module:NAME, got {text[:100]!r}; "
                "`python -m sweetrl_agent.evaluate` also takes run folders, model folders and hub names."
            )
    names = unique_names([name or text for name, text in given], [name or chat.short_name(text) for name, text in given])
    return [PolicySpec(name, text) for name, (_, text) in zip(names, given, strict=True)]


def load_object(text: str) -> Any:
    """The object that "module:NAME" names; the module may be in the current folder.

    Raises:
        ValueError: If there is no such module or object, or the module fails.
    """
    module, _, name = text.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        return getattr(importlib.import_module(module), name)
    except Exception as error:  # an external module may fail in any way
        raise ValueError(f"The policy {text!r} cannot be imported ({type(error).__name__}: {error}).") from error
