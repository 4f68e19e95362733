"""What the training of each agent of a team has cost, as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sweetrl_agent.reporting.numbers import NOTHING
from sweetrl_agent.reporting.parts import Part, Table, clip

AGENT_HEAD = ("Agent", "Dialogues", "Turns", "Generated tokens", "Trained tokens")
_COSTS = ("dialogues", "environment_turns", "generated_tokens", "trained_tokens")
NOTE = (
    "In training, without evaluation and SFT of the tiny model. Dialogues: episodes and continuations in which the agent spoke. Trained tokens: those that a "
    f"model processes in training steps on the agent's turns, its prompts included; {NOTHING} for an agent that is not trained, and where MALT trains one policy for all."
)


def costs_part(results: Mapping[str, Any]) -> Part | None:
    """The costs of a run by agent; None for a single agent."""
    costs = results.get("costs", {})
    rows = agent_rows([costs])
    return (
        Part("costs", "Costs by agent", [Table(AGENT_HEAD, [*rows, ("all", *_cells([costs]))])], notes=[NOTE]) if rows else None
    )


def agent_rows(seeds: Sequence[Mapping[str, Any]], *title: str) -> list[tuple[str, ...]]:
    """Rows of the costs of each agent, means over seeds; none for a single agent.

    Args:
        seeds: Costs of an algorithm on each seed, with "agents".
        title: First cells of every row.
    """
    by_seed = [costs.get("agents", {}) for costs in seeds]
    agents = dict.fromkeys(agent for of_seed in by_seed for agent in of_seed)
    return [(*title, clip(agent), *_cells([of_seed.get(agent, {}) for of_seed in by_seed])) for agent in agents]


def _cells(costs: Sequence[Mapping[str, float]]) -> list[str]:
    return [
        f"{sum(of[name] for of in costs) / len(costs):,.0f}" if all(name in of for of in costs) else NOTHING for name in _COSTS
    ]
