"""User-defined critics: a class named on the command line, with keyword arguments in JSON. `core.critic` documents the class."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

from colbench_gym.errors import ColBenchError
from sandboxes.named import build, load_class, name_and_arguments, spec_of
from sweetrl_agent.algorithms.critic_settings import critic_folder
from sweetrl_agent.algorithms.critics import CRITICS, CriticKind
from sweetrl_agent.core.critic import Critic
from sweetrl_agent.core.episode import Messages
from sweetrl_agent.core.run import Run

#: What a class must define. A subclass of `Critic` has a default of the second.
METHODS = ("rank", "dialogue_advantages")
#: Names of registered user-defined critics -> the specification by which they were named.
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

    def rank(self, messages: Messages, hidden: str, texts: Sequence[str], *replies: Sequence[str]) -> list[float]:
        """See `Critic`; equal texts, which have equal replies, are scored once.

        Raises:
            ColBenchError: If the critic returns anything but one finite number for each candidate.
        """
        distinct = list(dict.fromkeys(texts))
        rank, more = cast(Any, self.critic.rank), [[values[texts.index(text)] for text in distinct] for values in replies]
        scores = self._checked(rank(messages, hidden, distinct, *more), len(distinct), "rank", "candidate")
        by_text = dict(zip(distinct, scores, strict=True))
        return [by_text[text] for text in texts]

    def dialogue_advantages(self, messages: Messages, hidden: str) -> list[float]:
        """See `Critic`; raises the errors of `rank`."""
        count = sum(message["role"] == "assistant" for message in messages)
        return self._checked(self.critic.dialogue_advantages(messages, hidden), count, "dialogue_advantages", "agent turn")

    def _checked(self, scores: Any, count: int, method: str, what: str) -> list[float]:
        try:
            numbers = [float(score) for score in scores]
        except (TypeError, ValueError):
            numbers = [math.nan]
        if len(numbers) != count or not all(map(math.isfinite, numbers)):
            raise ColBenchError(
                f"`{method}` of the critic {self.name!r} must return one finite number for each {what}, {count} in all, got "
                f"{str(scores)[:200]}."
            )
        return numbers


def register_critic(named: str, setting: str = "critic") -> str:
    """Return the name of a critic of `CRITICS`; a user-defined class is registered first.

    Args:
        named: A name, "package.module:Class", or JSON with such a "name" and keyword arguments.
        setting: Name of the setting, for errors.

    Raises:
        ValueError: If there is no such critic, the class lacks a method, refuses its arguments, or has the name of another critic.
    """
    name, arguments = name_and_arguments(setting, spec_of(setting, named))
    if ":" not in name:
        CRITICS.find(name, setting)
        if arguments:
            raise ValueError(
                f"`{setting}` {name!r} takes no arguments; its settings are flags, such as `--sweet.critic_epochs`."
            )
        return name
    kind = load_class(setting, name, "a `Critic` of `sweetrl_agent`", METHODS)
    registered = str(getattr(kind, "name", "") or _name(kind, arguments))
    if not registered.isidentifier() or (registered in CRITICS and SPECS.get(registered) != named):
        raise ValueError(
            f"The critic {named!r} needs a `name` that is an identifier and that no other critic or algorithm has, got {registered!r}."
        )
    with _made(name, kind, arguments):
        pass
    has_training, uses_hidden = callable(getattr(kind, "train", None)), bool(getattr(kind, "uses_hidden", True))
    CRITICS[registered] = CriticKind(
        str(getattr(kind, "title", "") or registered),
        partial(open_own, named=name, kind=kind, arguments=arguments),
        partial(train_own, named=name, kind=kind, arguments=arguments) if has_training else None,
        uses_hidden,
        frozenset({*getattr(kind, "requires", ()), *({"hidden"} if uses_hidden else ())}),
        kind.__module__,
    )
    SPECS[registered] = named
    return registered


@contextmanager
def open_own(run: Run, name: str, named: str, kind: type, arguments: Mapping[str, Any]) -> Iterator[Critic]:
    """Open a user-defined critic."""
    with _made(named, kind, arguments) as critic:
        if callable(load := getattr(critic, "load", None)):
            load(run, critic_folder(run, name))
        yield CheckedCritic(critic, name)


def train_own(run: Run, name: str, named: str, kind: type, arguments: Mapping[str, Any]) -> None:
    """Train a user-defined critic into its folder, which exists."""
    folder = critic_folder(run, name)
    folder.mkdir(parents=True, exist_ok=True)
    with _made(named, kind, arguments) as critic:
        critic.train(run, folder)


@contextmanager
def _made(named: str, kind: type, arguments: Mapping[str, Any]) -> Iterator[Any]:
    critic = build("critic", named, kind, arguments)
    try:
        yield critic
    finally:
        if callable(close := getattr(critic, "close", None)):
            close()


def _name(kind: type, arguments: Mapping[str, Any]) -> str:
    """A name for files: the class's name in words, then the arguments, such as "own_critic_weight_2"."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind.__name__)
    parts = [words, *(f"{name} {value}" for name, value in arguments.items())]
    return _WORD.sub("_", " ".join(parts).lower()).strip("_")[:80].rstrip("_")
