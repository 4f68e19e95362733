"""The simulated human: scripted, a model behind an OpenAI-compatible server, a person at the terminal, or a class of your own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sandboxes.browser import Browser

from colbench_gym.simulators.simulator import Simulator
from sandboxes.named import make_named

__all__ = ["DESIGNERS", "SIMULATORS", "Simulator", "make", "make_designer"]
#: Simulated humans of ColBench-Backend by name; a module is imported on use.
SIMULATORS: Mapping[str, str] = {
    "scripted": "colbench_gym.simulators.facts.scripted_human:ScriptedHuman",
    "openai": "colbench_gym.simulators.model.openai:OpenAIHuman",
    "person": "colbench_gym.simulators.person:Person",
}
#: Simulated humans of ColBench-Frontend by name.
DESIGNERS: Mapping[str, str] = {
    "scripted": "colbench_gym.simulators.pages.scripted_designer:ScriptedDesigner",
    "openai": "colbench_gym.simulators.pages.openai_designer:OpenAIDesigner",
    "person": "colbench_gym.simulators.pages.person_designer:PersonDesigner",
}


def make(spec: str | Mapping[str, Any] | Simulator) -> Simulator:
    """Build a simulator from a name or from a mapping with a "name" and its arguments. A `Simulator` is returned unchanged.

    Examples: ``"scripted"``, ``{"name": "scripted", "level": "terse"}``,
    ``{"name": "openai", "model": "meta-llama/Llama-3.1-70B-Instruct", "base_url": "http://127.0.0.1:8000/v1"}``, ``"person"``,
    ``{"name": "my_package.humans:Impatient", "patience": 3}``: a `Simulator` of your own, whose module is imported.

    Raises:
        ValueError: If the name is unknown, the class is no `Simulator`, or an argument is missing or unknown to it.
    """
    return _make(spec, SIMULATORS)


def make_designer(spec: str | Mapping[str, Any] | Simulator, browser: Browser, has_edits: bool) -> Simulator:
    """Build a simulator for ColBench-Frontend: "scripted", "openai" (a vision model) or "person", with their arguments, or a class of your own.

    Args:
        spec: As for `make`. A class of your own gets `browser` and `has_edits` if its constructor takes them.
        browser: Renders the pages. The caller has to close it.
        has_edits: Whether the agent may edit its last page.

    Raises:
        ValueError: If the name is unknown, or an argument is missing or unknown to the simulator.
    """
    return _make(spec, DESIGNERS, browser=browser, has_edits=has_edits)


def _make(spec: str | Mapping[str, Any] | Simulator, known: Mapping[str, str], **given: Any) -> Simulator:
    if isinstance(spec, Simulator):
        return spec
    made: Simulator = make_named(
        "simulator", spec, known, "a `Simulator` of `colbench_gym.simulators`", "reply", Simulator, given
    )
    return made
