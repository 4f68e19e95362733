"""The optimum of the partially observed maze: of an agent that knows the map and remembers all, but sees walls alone.

What such an agent can know is a belief: the starts that its walk is consistent with, moved along. Moves are deterministic, so there are few of them
(44 in the double T), and value iteration over them is exact.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from colbench_gym.lmrl.maze import AT_GOAL, MOVED
from colbench_gym.lmrl.mazes import MOVES, Cell, Layout

#: Cells with the number of starts that lead there.
Belief = frozenset[tuple[Cell, int]]


def optimal_walls_return(layout: Layout) -> float:
    """Mean return over the starts of the best agent that sees walls alone: -7.24 in the double T, -2.833 in the U.

    The paper's normalisation takes -25.75 for it; knowing the position the optimum is -6.84 in the double T.
    """
    first = _told_apart(layout, ((cell, 1) for cell in layout.starts))
    after: dict[Belief, list[list[Belief]]] = {}
    waiting = list(first)
    while waiting:
        belief = waiting.pop()
        if belief not in after:
            after[belief] = [
                _told_apart(layout, ((layout.after(cell, command), number) for cell, number in belief)) for command in MOVES
            ]
            waiting += [one for beliefs in after[belief] for one in beliefs]
    # Returns summed over the starts of a belief are whole numbers: no rounding.
    totals = dict.fromkeys(after, 0.0)
    while True:
        improved = {
            belief: max(_reward(belief, step) + sum(totals[one] for one in step) for step in steps)
            for belief, steps in after.items()
        }
        if improved == totals:
            return sum(totals[belief] for belief in first) / len(layout.starts)
        totals = improved


def _told_apart(layout: Layout, cells: Iterable[tuple[Cell, int]]) -> list[Belief]:
    """The beliefs that the next observation leaves; starts that have arrived at the goal are left out."""
    by_walls: dict[tuple[bool, ...], Counter[Cell]] = {}
    for cell, number in cells:
        if cell != layout.goal:
            walls = tuple(layout.after(cell, command) == cell for command in MOVES)
            by_walls.setdefault(walls, Counter())[cell] += number
    return [frozenset(counts.items()) for counts in by_walls.values()]


def _reward(belief: Belief, after: list[Belief]) -> float:
    """Reward of a turn, summed over the starts of a belief."""
    staying = sum(number for one in after for _, number in one)
    return MOVED * staying + AT_GOAL * (sum(number for _, number in belief) - staying)
