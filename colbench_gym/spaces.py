"""A Gymnasium space of arbitrary Unicode text, the characters of plain ones, and of an environment its name and the counts of wrappers that limit steps."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import Env, Space, Wrapper
from gymnasium.wrappers import TimeLimit

#: Characters of texts in games: printable ASCII and the line feed.
ASCII = "".join(map(chr, range(32, 127))) + "\n"
_SAMPLE_CHARS = np.array(list(string.ascii_letters + string.digits + " ?.,"))


def env_name(env: Env[Any, Any]) -> str:
    """Id of an environment, or the name of its class if it was made without one."""
    return env.spec.id if env.spec else type(env.unwrapped).__name__


def elapsed_steps(env: Env[Any, Any]) -> list[int]:
    """The steps that Gymnasium's wrappers of an environment have counted: a part of a snapshot that the environment does not know."""
    return [limit._elapsed_steps for limit in _time_limits(env)]


def set_elapsed_steps(env: Env[Any, Any], steps: Sequence[int]) -> None:
    """Return the counts of an environment's wrappers to a result of `elapsed_steps`."""
    for limit, count in zip(_time_limits(env), steps, strict=True):
        limit._elapsed_steps = count


def step_cut(env: Env[Any, Any], action: str) -> Any:
    """`step` with a message that the limit of tokens cut: by the environment's own `step_cut`, whose step counts for Gymnasium's limits like any other."""
    cut = getattr(env.unwrapped, "step_cut", None)
    if cut is None:
        return env.step(action)
    result, is_over = cut(action), False
    for limit in _time_limits(env):
        limit._elapsed_steps += 1
        is_over = is_over or limit._elapsed_steps >= limit._max_episode_steps
    return (*result[:3], True, *result[4:]) if is_over else result


def _time_limits(env: Env[Any, Any]) -> list[Any]:
    limits = []
    while isinstance(env, Wrapper):
        limits += [env] if isinstance(env, TimeLimit) else []
        env = env.env
    return limits


class UnicodeText(Space[str]):
    """Any string of at most `max_length` characters (not tokens), including the empty string.

    It does not subclass `gymnasium.spaces.Text`. That space enumerates its characters, so it does not contain natural text, and
    with the shared memory of `AsyncVectorEnv` it silently returns zeros. With this space use
    ``AsyncVectorEnv(..., shared_memory=False)``; with shared memory Gymnasium raises an error.
    """

    def __init__(self, max_length: int = 1_000_000, sample_length: int = 40, seed: int | None = None) -> None:
        """Create the space; `sample_length` bounds the characters of a random sample."""
        if max_length < 1 or sample_length < 1:
            raise ValueError(f"`max_length` and `sample_length` must be positive, got {max_length!r} and {sample_length!r}.")
        self.max_length = max_length
        self.sample_length = min(sample_length, max_length)
        super().__init__(dtype=str, seed=seed)

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> str:
        """Draw a short printable string."""
        if mask is not None or probability is not None:
            raise ValueError("UnicodeText has no masks; call `sample()` without arguments.")
        length = int(self.np_random.integers(1, self.sample_length + 1))
        return "".join(self.np_random.choice(_SAMPLE_CHARS, size=length))

    def contains(self, x: Any) -> bool:
        """True for a string that is not too long."""
        return isinstance(x, str) and len(x) <= self.max_length

    @property
    def is_np_flattenable(self) -> bool:
        """Text has no flat array form."""
        return False

    def __repr__(self) -> str:
        return f"UnicodeText({self.max_length})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UnicodeText) and self.max_length == other.max_length
