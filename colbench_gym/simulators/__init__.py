"""The simulated human: scripted, a model behind an OpenAI-compatible server, or a person at the terminal."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sandboxes.browser import Browser

from colbench_gym.simulators.simulator import Simulator

__all__ = ["Simulator", "make", "make_designer"]


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


def make_designer(spec: str | Mapping[str, Any] | Simulator, browser: Browser, has_edits: bool) -> Simulator:
    """The same for ColBench-Frontend: "scripted", or a mapping with "name" and a "level"; the browser is the environment's.

    Raises:
        ValueError: If the name is unknown, or an argument is unknown to the simulator.
    """
    from colbench_gym.simulators.scripted_design import ScriptedDesigner

    if isinstance(spec, Simulator):
        return spec
    arguments = {"name": spec} if isinstance(spec, str) else dict(spec)
    if (name := arguments.pop("name", None)) != "scripted" or set(arguments) - {"level"}:
        raise ValueError(f"The human of ColBench-Frontend is 'scripted', with a 'level'; got {name!r} with {arguments}.")
    return ScriptedDesigner(browser=browser, has_edits=has_edits, **arguments)


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
