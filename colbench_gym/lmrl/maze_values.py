"""Exact values of policies in the mazes: what critics and algorithms are checked against.

The maze is a deterministic Markov decision process whose states are cells and whose actions are the four commands and, as a fifth, any unknown one.
The limit of turns is ignored: a truncated episode would have gone on. Values depend on the cell alone, so they are exact for the fully observed maze;
where the position is hidden they are those of a critic that knows it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colbench_gym.lmrl.maze import AT_GOAL, MOVED, UNKNOWN, command_of, read_position, read_start
from colbench_gym.lmrl.mazes import MOVES, Cell, Layout, layout_of

Array = NDArray[np.float64]
#: Columns of policies and of Q: the commands in this order, then an unknown one.
COMMANDS = tuple(MOVES)
UNKNOWN_COLUMN = len(COMMANDS)
NUM_ACTIONS = len(COMMANDS) + 1


@dataclass(frozen=True)
class Values:
    """Exact values of a policy.

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


def optimal_values(layout: Layout, discount: float = 1.0) -> Values:
    """V* and Q* by value iteration, which ends after as many rounds as the longest way has moves."""
    successors, rewards, goal = _model(layout)
    v = np.zeros(len(layout.cells))
    while True:
        q = rewards + discount * v[successors]
        q[goal] = 0.0
        if np.array_equal(q.max(axis=1), v):
            return Values(layout, v, q)
        v = q.max(axis=1)


def policy_values(layout: Layout, policy: Array, discount: float = 1.0) -> Values:
    """V and Q of a stationary policy: the solution of V = r + discount P V.

    Args:
        layout: The maze.
        policy: Probabilities of actions, shape (N, 5), the columns being `COMMANDS` and an unknown one; the goal's row is ignored.
        discount: Discount factor in [0, 1].

    Raises:
        ValueError: If the policy has another shape or its rows do not sum to 1, or if `discount` is 1 and the policy never reaches the goal from some cell.
    """
    successors, rewards, goal = _model(layout)
    n = len(layout.cells)
    others = np.arange(n) != goal
    if policy.shape != (n, NUM_ACTIONS) or (policy < 0).any() or not np.allclose(policy[others].sum(axis=1), 1):
        raise ValueError(
            f"`policy` must have the shape {(n, NUM_ACTIONS)} and probabilities that sum to 1 in each row, got the shape {policy.shape}."
        )
    transitions = np.zeros((n, n))
    np.add.at(transitions, (np.arange(n)[:, None], successors), policy)
    transitions[goal] = 0.0
    if discount == 1 and not _reaches(transitions, goal):
        raise ValueError(
            "`policy` must reach the goal from every cell, or its values are infinite; choose a `discount` below 1."
        )
    expected = (policy * rewards).sum(axis=1)
    expected[goal] = 0.0
    v = np.linalg.solve(np.eye(n) - discount * transitions, expected)
    q = rewards + discount * v[successors]
    q[goal] = 0.0
    return Values(layout, v, q)


def optimal_policy(layout: Layout) -> Array:
    """The policy of `expert_action`, shape (N, 5)."""
    policy = np.zeros((len(layout.cells), NUM_ACTIONS))
    for row, cell in enumerate(layout.cells):
        policy[row, COMMANDS.index(layout.best_command(cell))] = 1.0
    return policy


def uniform_policy(layout: Layout) -> Array:
    """The four commands with equal probability, shape (N, 5)."""
    policy = np.zeros((len(layout.cells), NUM_ACTIONS))
    policy[:, :UNKNOWN_COLUMN] = 1 / UNKNOWN_COLUMN
    return policy


def exact_advantages(
    position: Cell | Sequence[int],
    actions: Sequence[str],
    maze: str = "double_t",
    policy: Array | None = None,
    discount: float = 1.0,
    faithful: bool = False,
) -> list[float]:
    """A(position, action) of messages of the agent.

    Args:
        position: Row and column of a free cell that is not the goal; `maze.read_position` reads it from an observation.
        actions: Texts; those that are no command have the advantage of an unknown one.
        maze: Name of the layout.
        policy: The policy whose advantage it is, as in `policy_values`; None for the optimal one.
        discount: Discount factor.
        faithful: Whether white space around commands makes them unknown, as in the environment with this argument.

    Raises:
        ValueError: If the position is not such a cell.
    """
    layout, cell = layout_of(maze), (int(position[0]), int(position[1]))
    if cell not in layout.starts:
        raise ValueError(f"`position` must be a free cell of {maze!r} that is not the goal, got {position!r}.")
    values = _optimal(maze, discount) if policy is None else policy_values(layout, policy, discount)
    row = values.advantages[layout.cells.index(cell)]
    return [float(row[_column(action if faithful else command_of(action))]) for action in actions]


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
                said = message["content"]
                position = layout.after(position, said if faithful else command_of(said))
    return exact_advantages(position, actions, maze, faithful=faithful)


@lru_cache(maxsize=16)
def _optimal(maze: str, discount: float) -> Values:
    return optimal_values(layout_of(maze), discount)


def _column(command: str) -> int:
    """The column of a command, or of an unknown one."""
    return COMMANDS.index(command) if command in MOVES else UNKNOWN_COLUMN


def _model(layout: Layout) -> tuple[NDArray[np.int64], Array, int]:
    """Index of the next cell and reward of every cell and action, both of shape (N, 5), and the index of the goal."""
    index = {cell: row for row, cell in enumerate(layout.cells)}
    successors = np.array([[index[layout.after(cell, command)] for command in (*COMMANDS, "")] for cell in layout.cells])
    rewards = np.where(successors == index[layout.goal], AT_GOAL, MOVED)
    rewards[:, UNKNOWN_COLUMN] = UNKNOWN
    return successors, rewards, index[layout.goal]


def _reaches(transitions: Array, goal: int) -> bool:
    """Whether the goal can be reached from every state."""
    reached = np.arange(len(transitions)) == goal
    for _ in transitions:
        reached = reached | ((transitions > 0) @ reached)
    return bool(reached.all())
