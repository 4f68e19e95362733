"""Exact optimal values in the mazes: what critics and algorithms are checked against.

The maze is a deterministic Markov decision process whose states are cells and whose actions are the four commands and, as a fifth, any unknown one.
The limit of turns is ignored: a truncated episode would have continued. Values depend on the cell alone, so they are exact for the fully observed maze;
where the position is hidden they are those of a critic that knows it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colbench_gym.lmrl.maze.layouts import MOVES, Cell, Layout, layout_of
from colbench_gym.lmrl.maze.maze import AT_GOAL, MOVED, UNKNOWN, command_of, read_position, read_start

Array = NDArray[np.float64]
#: Columns of Q: the commands in this order, then an unknown one.
COMMANDS = tuple(MOVES)
UNKNOWN_COLUMN = len(COMMANDS)


@dataclass(frozen=True)
class Values:
    """Exact values of the optimal policy.

    Attributes:
        layout: The maze; `layout.cells` names the rows of the arrays, N of them.
        v: V of the cells, shape (N,); 0 at the goal.
        q: Q of the cells and actions, shape (N, 5); 0 at the goal.
    """

    layout: Layout
    v: Array
    q: Array

    @property
    def advantages(self) -> Array:
        """Q - V, shape (N, 5)."""
        return self.q - self.v[:, None]

    @property
    def mean_return(self) -> float:
        """Mean of V over the starts."""
        return float(np.mean([self.v[self.layout.cells.index(cell)] for cell in self.layout.starts]))


def optimal_values(layout: Layout) -> Values:
    """V* and Q* by value iteration, which ends after as many rounds as the longest way has moves."""
    successors, rewards, goal = _model(layout)
    v = np.zeros(len(layout.cells))
    while True:
        q = rewards + v[successors]
        q[goal] = 0.0
        if np.array_equal(q.max(axis=1), v):
            return Values(layout, v, q)
        v = q.max(axis=1)


def exact_advantages(
    position: Cell | Sequence[int],
    actions: Sequence[str],
    maze: str = "double_t",
    faithful: bool = False,
) -> list[float]:
    """The optimal policy's A(position, action) of messages of the agent.

    Args:
        position: Row and column of a free cell that is not the goal; `maze.read_position` reads it from an observation.
        actions: Texts; those that are no command have the advantage of an unknown one.
        maze: Name of the layout.
        faithful: Whether white space around commands makes them unknown, as in the environment with this argument.

    Raises:
        ValueError: If the position is not such a cell.
    """
    layout, cell = layout_of(maze), (int(position[0]), int(position[1]))
    if cell not in layout.starts:
        raise ValueError(f"`position` must be a free cell of {maze!r} that is not the goal, got {position!r}.")
    row = _optimal(maze).advantages[layout.cells.index(cell)]
    commands = [action if faithful else command_of(action) for action in actions]
    return [float(row[COMMANDS.index(command) if command in MOVES else UNKNOWN_COLUMN]) for command in commands]


def dialogue_advantages(
    messages: Sequence[Mapping[str, str]], hidden: str, actions: Sequence[str], arguments: Mapping[str, Any]
) -> list[float]:
    """The optimal policy's A of candidates for the agent's next message, from a dialogue.

    Args:
        messages: The episode so far, from its first observation on: messages with "role" and "content".
        hidden: The environment's `hidden_information`; "" if it has none.
        actions: Candidates.
        arguments: Keyword arguments of the environment.

    Raises:
        ValueError: If neither the last message nor the hidden information gives the position.
    """
    maze, faithful = arguments.get("maze", "double_t"), bool(arguments.get("faithful", False))
    position = read_position(messages[-1]["content"])
    if position is None:
        position, layout = read_start(hidden), layout_of(maze)
        if position is None:
            raise ValueError(
                "Expected a position in the last message, or a start in `hidden`, got neither; pass the environment's own texts."
            )
        for message in messages:
            if message["role"] == "assistant":
                command = message["content"]
                position = layout.after(position, command if faithful else command_of(command))
    return exact_advantages(position, actions, maze, faithful=faithful)


@cache
def _optimal(maze: str) -> Values:
    return optimal_values(layout_of(maze))


def _model(layout: Layout) -> tuple[NDArray[np.int64], Array, int]:
    """Index of the next cell and reward of every cell and action, both of shape (N, 5), and the index of the goal."""
    index = {cell: row for row, cell in enumerate(layout.cells)}
    successors = np.array([[index[layout.after(cell, command)] for command in (*COMMANDS, "")] for cell in layout.cells])
    rewards = np.where(successors == index[layout.goal], AT_GOAL, MOVED)
    rewards[:, UNKNOWN_COLUMN] = UNKNOWN
    return successors, rewards, index[layout.goal]
