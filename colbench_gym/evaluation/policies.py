"""Policies by name. What a text may name is open: `find_policies` takes parsers of kinds of policies, and `sweetrl_agent` has further ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from colbench_gym.agents.chat import PREFIX, short_name, split_name
from colbench_gym.evaluation.names import labelled, unique_names

SCRIPTED = ("random", "random_actions", "oracle", "person")
_OBJECT = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


@dataclass(frozen=True)
class PolicySpec:
    """A policy as it was named.

    Attributes:
        name: Its name in the results.
        text: What it is, without the name.
        kind: "scripted", "chat", "own", or a kind of a plug-in.
    """

    name: str
    text: str
    kind: str

    @property
    def is_sequential(self) -> bool:
        """Whether it holds one dialogue at a time."""
        return self.text == "person"

    @property
    def model(self) -> str:
        """Name of its model in a file of prices."""
        return split_name(self.text)[0] if self.kind == "chat" else self.name


#: Parses the text of a policy; None if the text names none of its kind.
Kind = Callable[[str], PolicySpec | None]


def chat_policy(text: str) -> PolicySpec | None:
    """A model behind a chat server: "openai:MODEL@URL".

    Raises:
        ValueError: If the model or the address is wrong.
    """
    if not text.startswith(PREFIX):
        return None
    split_name(text)
    return PolicySpec(short_name(text), text, "chat")


def scripted_policy(text: str) -> PolicySpec | None:
    """One of `SCRIPTED`."""
    return PolicySpec(text, text, "scripted") if text in SCRIPTED else None


def own_policy(text: str) -> PolicySpec | None:
    """An object of the user's own: "module:NAME"."""
    return PolicySpec(short_name(text), text, "own") if _OBJECT.fullmatch(text) else None


def find_policies(texts: Sequence[str], kinds: Sequence[Kind] = (chat_policy, scripted_policy, own_policy)) -> list[PolicySpec]:
    """The policies of a command line, each with a name of its own.

    Args:
        texts: "POLICY" or "NAME=POLICY".
        kinds: The kinds of policies that there are; the first that knows a text parses it.

    Raises:
        ValueError: If a text names no policy, or two have the same name.
    """
    if not texts:
        raise ValueError("Name a policy first, such as random, a run folder, or openai:MODEL@http://HOST:PORT/v1.")
    given = [("", text) if Path(text).exists() else labelled(text) for text in texts]
    specs = [_parsed(text, kinds) for _, text in given]
    full = [name or spec.text for (name, _), spec in zip(given, specs, strict=True)]
    names = unique_names(full, [name or spec.name for (name, _), spec in zip(given, specs, strict=True)])
    return [replace(spec, name=name) for spec, name in zip(specs, names, strict=True)]


def _parsed(text: str, kinds: Sequence[Kind]) -> PolicySpec:
    for kind in kinds:
        if (spec := kind(text)) is not None:
            return spec
    raise ValueError(
        f"A policy must be one of {SCRIPTED}, openai:MODEL@http://HOST:PORT/v1 or module:NAME, got {text[:100]!r}; "
        "`python -m sweetrl_agent.evaluate` also takes run folders, model folders and hub names."
    )


def sampled_with(spec: PolicySpec, sampling: Any, names: Sequence[str]) -> dict[str, Any]:
    """What the rows of a policy depend on, for `settings.json`.

    Args:
        spec: The policy.
        sampling: An object with the settings of sampling as attributes.
        names: Those that matter to a policy that has a model.
    """
    model = (
        {} if spec.kind in ("scripted", "own") else {"model": spec.model, **{name: getattr(sampling, name) for name in names}}
    )
    return {"policy": spec.text, **model}
