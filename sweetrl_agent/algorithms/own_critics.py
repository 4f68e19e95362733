"""Critics of somebody else's: a class named on the command line, with keyword arguments in JSON. `core.critic` documents the class."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from colbench_gym.errors import ColBenchError
from sandboxes.named import build, load_class, name_and_arguments, spec_of, unknown
from sweetrl_agent.algorithms.critics import CRITICS, CriticKind, critic_folder
from sweetrl_agent.core.critic import Critic
from sweetrl_agent.core.episode import Messages
from sweetrl_agent.core.run import Run

#: What a class must define. A subclass of `Critic` has a default of the second.
METHODS = ("rank", "dialogue_advantages")
#: Names of registered critics of somebody else's -> the specification by which they were named.
SPECS: dict[str, str] = {}
_WORD = re.compile(r"[^a-z0-9]+")


class CheckedCritic:
    """A critic whose scores are checked: one finite number for each candidate, equal for equal texts.

    Args:
        critic: The critic.
        name: Its name, for errors.
    """

    def __init__(self, critic: Critic, name: str) -> None:
        self.critic, self.name = critic, name

    def rank(self, messages: Messages, hidden: str, texts: Sequence[str]) -> list[float]:
        """See `Critic`; equal texts are scored once.

        Raises:
            ColBenchError: If the critic returns anything but one finite number for each candidate.
        """
        distinct = list(dict.fromkeys(texts))
        scores = self._checked(self.critic.rank(messages, hidden, distinct), len(distinct), "rank", "candidate")
        by_text = dict(zip(distinct, scores, strict=True))
        return [by_text[text] for text in texts]

    def dialogue_advantages(self, messages: Messages, hidden: str) -> list[float]:
        """See `Critic`; raises the errors of `rank`."""
        count = sum(message["role"] == "assistant" for message in messages)
        return self._checked(self.critic.dialogue_advantages(messages, hidden), count, "dialogue_advantages", "agent turn")

    def _checked(self, scores: Any, count: int, method: str, what: str) -> list[float]:
        try:
            found = [float(score) for score in scores]
        except (TypeError, ValueError):
            found = [math.nan]
        if len(found) != count or not all(map(math.isfinite, found)):
            raise ColBenchError(
                f"`{method}` of the critic {self.name!r} must return one finite number for each {what}, {count} in all, got "
                f"{str(scores)[:200]}."
            )
        return found


def register_critic(named: str, setting: str = "critic") -> str:
    """Return the name of a critic of `CRITICS`; a class of somebody else's is registered first.

    Args:
        named: A name, "package.module:Class", or JSON with such a "name" and keyword arguments.
        setting: Name of the setting, for errors.

    Raises:
        ValueError: If there is no such critic, the class lacks a method, refuses its arguments, or has the name of another critic.
    """
    name, arguments = name_and_arguments(setting, spec_of(setting, named))
    if ":" not in name:
        if name not in CRITICS:
            raise unknown(setting, name, CRITICS)
        if arguments:
            raise ValueError(f"`{setting}` {name!r} takes no arguments; its settings are flags, such as `--critic_epochs`.")
        return name
    found = load_class(setting, name, "a `Critic` of `sweetrl_agent`", METHODS)
    own = str(getattr(found, "name", "") or _name(found, arguments))
    if not own.isidentifier() or (own in CRITICS and SPECS.get(own) != named):
        raise ValueError(
            f"The critic {named!r} needs a `name` that is an identifier and that no other critic or algorithm has, got {own!r}."
        )
    with _made(name, found, arguments):
        pass
    has_training, uses_hidden = callable(getattr(found, "train", None)), bool(getattr(found, "uses_hidden", True))
    CRITICS[own] = CriticKind(
        str(getattr(found, "title", "") or own),
        partial(open_own, named=name, found=found, arguments=arguments),
        partial(train_own, named=name, found=found, arguments=arguments) if has_training else None,
        uses_hidden,
        frozenset({*getattr(found, "requires", ()), *({"hidden"} if uses_hidden else ())}),
        found.__module__,
    )
    SPECS[own] = named
    return own


@contextmanager
def open_own(run: Run, name: str, named: str, found: type, arguments: Mapping[str, Any]) -> Iterator[Critic]:
    """Open a critic of somebody else's."""
    with _made(named, found, arguments) as critic:
        if callable(load := getattr(critic, "load", None)):
            load(run, critic_folder(run, name))
        yield CheckedCritic(critic, name)


def train_own(run: Run, name: str, named: str, found: type, arguments: Mapping[str, Any]) -> None:
    """Train a critic of somebody else's into its folder, which exists."""
    folder = critic_folder(run, name)
    folder.mkdir(parents=True, exist_ok=True)
    with _made(named, found, arguments) as critic:
        critic.train(run, folder)


@contextmanager
def _made(named: str, found: type, arguments: Mapping[str, Any]) -> Iterator[Any]:
    critic = build("critic", named, found, arguments)
    try:
        yield critic
    finally:
        if callable(close := getattr(critic, "close", None)):
            close()


def _name(found: type, arguments: Mapping[str, Any]) -> str:
    """A name for files: the class's name in words, then the arguments, such as "own_critic_weight_2"."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", found.__name__)
    said = [words, *(f"{name} {value}" for name, value in arguments.items())]
    return _WORD.sub("_", " ".join(said).lower()).strip("_")[:80].rstrip("_")
