"""The simulated human: scripted, a model behind an OpenAI-compatible server, or a person at the terminal."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from colbench_gym.simulators.simulator import Simulator

__all__ = ["Simulator", "make"]


def make(spec: str | Mapping[str, Any] | Simulator) -> Simulator:
    """Build a simulator from a name, a mapping with a "name" and its arguments, or pass a ready one through.

    Examples: ``"scripted"``, ``{"name": "scripted", "level": "terse"}``,
    ``{"name": "openai", "model": "meta-llama/Llama-3.1-70B-Instruct", "base_url": "http://127.0.0.1:8000/v1"}``, ``"person"``.

    Raises:
        ValueError: If the name is unknown, or an argument is missing or unknown to the simulator.
    """
    if isinstance(spec, Simulator):
        return spec
    arguments = {"name": spec} if isinstance(spec, str) else dict(spec)
    name = arguments.pop("name", None)
    kind = _kind(name)
    parameters = inspect.signature(kind)
    try:
        parameters.bind(**arguments)
    except TypeError as error:
        raise ValueError(
            f"The {name!r} simulator takes {', '.join(parameters.parameters)}; got {arguments}: {error}. "
            f'Give a mapping (JSON on the command line) such as {{"name": "{name}", ...}}.'
        ) from None
    return kind(**arguments)


def _kind(name: str | None) -> type[Simulator]:
    if name == "scripted":
        from colbench_gym.simulators.scripted import ScriptedHuman

        return ScriptedHuman
    if name == "openai":
        from colbench_gym.simulators.openai import OpenAIHuman

        return OpenAIHuman
    if name == "person":
        from colbench_gym.simulators.person import Person

        return Person
    raise ValueError(f"`simulator` must be 'scripted', 'openai' or 'person', got {name!r}.")
