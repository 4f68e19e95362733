"""The simulated human: scripted, a model behind an OpenAI-compatible server, or a person at the terminal."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sandboxes.browser import Browser

from colbench_gym.simulators.simulator import Simulator

__all__ = ["Simulator", "make", "make_designer"]


def make(spec: str | Mapping[str, Any] | Simulator) -> Simulator:
    """Build a simulator from a name or from a mapping with a "name" and its arguments. A `Simulator` is returned unchanged.

    Examples: ``"scripted"``, ``{"name": "scripted", "level": "terse"}``,
    ``{"name": "openai", "model": "meta-llama/Llama-3.1-70B-Instruct", "base_url": "http://127.0.0.1:8000/v1"}``, ``"person"``.

    Raises:
        ValueError: If the name is unknown, or an argument is missing or unknown to the simulator.
    """
    return _make(spec, _kind)


def make_designer(spec: str | Mapping[str, Any] | Simulator, browser: Browser, has_edits: bool) -> Simulator:
    """Build a simulator for ColBench-Frontend: "scripted", "openai" (a vision model) or "person", with their arguments.

    Args:
        spec: As for `make`.
        browser: Renders the pages. The caller has to close it.
        has_edits: Whether the agent may edit its last page.

    Raises:
        ValueError: If the name is unknown, or an argument is missing or unknown to the simulator.
    """
    return _make(spec, _designer_kind, browser=browser, has_edits=has_edits)


def _make(
    spec: str | Mapping[str, Any] | Simulator, kind_of: Callable[[str | None], type[Simulator]], **given: Any
) -> Simulator:
    if isinstance(spec, Simulator):
        return spec
    arguments = {"name": spec} if isinstance(spec, str) else dict(spec)
    name = arguments.pop("name", None)
    kind = kind_of(name)
    parameters = inspect.signature(kind)
    try:
        parameters.bind(**given, **arguments)
    except TypeError as error:
        taken = ", ".join(name for name in parameters.parameters if name not in given)
        raise ValueError(
            f"The {name!r} simulator takes {taken}; got {list(arguments)!r}: {error}. "
            f'Give a mapping (JSON on the command line) such as {{"name": "{name}", ...}}.'
        ) from None
    return kind(**given, **arguments)


def _designer_kind(name: str | None) -> type[Simulator]:
    if name == "scripted":
        from colbench_gym.simulators.scripted_design import ScriptedDesigner

        return ScriptedDesigner
    if name == "openai":
        from colbench_gym.simulators.openai_design import OpenAIDesigner

        return OpenAIDesigner
    if name == "person":
        from colbench_gym.simulators.person_design import PersonDesigner

        return PersonDesigner
    raise ValueError(f"`simulator` must be 'scripted', 'openai' or 'person', got {name!r}.")


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
