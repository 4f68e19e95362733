"""What an environment must return, checked at every `reset` and `step`: a wrong type becomes a sentence there, and never a score."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np


class ContractError(TypeError):
    """An environment returned what `docs/environments/index.md` does not allow. The message says what it was and what it must be."""


def has(env: Any, attribute: str) -> bool:
    """Whether an environment has an attribute, also one without a value before `reset`, be it a property or that of an inner environment."""
    try:
        return hasattr(type(env), attribute) or hasattr(env, attribute)
    except Exception:  # what a property raises in place of a value
        return True


def started(result: Any) -> tuple[str, Mapping[str, Any]]:
    """Observation and info of a `reset`.

    Raises:
        ContractError: If they are none.
    """
    if not isinstance(result, tuple) or len(result) != 2:
        raise ContractError(f"`reset` must return (observation, info), got {_short(result)}.")
    return text("the observation of `reset`", result[0]), _info("reset", result[1])


def stepped(result: Any) -> tuple[str, float, bool, bool, Mapping[str, Any]]:
    """What a `step` returned.

    Raises:
        ContractError: If it is not that.
    """
    if not isinstance(result, tuple) or len(result) != 5:
        raise ContractError(f"`step` must return (observation, reward, terminated, truncated, info), got {_short(result)}.")
    observation, reward, terminated, truncated, info = result
    for name, value in (("terminated", terminated), ("truncated", truncated)):
        if not isinstance(value, bool | np.bool_):
            raise ContractError(f"`{name}` of `step` must be true or false, got {_short(value)}.")
    return (
        text("the observation of `step`", observation),
        number("the reward of `step`", reward),
        bool(terminated),
        bool(truncated),
        _info("step", info),
    )


def text(what: str, value: Any) -> str:
    """A text.

    Args:
        what: What it is, for the message.
        value: The value.

    Raises:
        ContractError: If it is none.
    """
    if not isinstance(value, str):
        raise ContractError(f"{what} must be a text (str), got {_short(value)}.")
    return value


def number(what: str, value: Any) -> float:
    """A finite number; arguments as `text`.

    Raises:
        ContractError: If it is none.
    """
    if not isinstance(value, Real | np.bool_) or not math.isfinite(value):
        raise ContractError(f"{what} must be a finite number, got {_short(value)}.")
    return float(value)


def _info(method: str, info: Any) -> Mapping[str, Any]:
    if not isinstance(info, Mapping):
        raise ContractError(f"the info of `{method}` must be a mapping, got {_short(info)}.")
    for message in _messages(method, info.get("messages", ())):
        if not isinstance(message, Mapping) or not {"role", "content"} <= {*message}:
            raise ContractError(
                f'a message in `info["messages"]` of `{method}` must have "role" and "content", got {_short(message)}.'
            )
        text(f'"content" of a message in `info["messages"]` of `{method}`', message["content"])
    return info


def _messages(method: str, messages: Any) -> Any:
    if isinstance(messages, str) or not hasattr(messages, "__iter__"):
        raise ContractError(f'`info["messages"]` of `{method}` must be a list of messages, got {_short(messages)}.')
    return messages


def _short(value: Any) -> str:
    shown = repr(value)
    return f"{shown[:80]}{'...' if len(shown) > 80 else ''} ({type(value).__name__})"
