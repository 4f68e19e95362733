"""LMRL-Maze-v0: walk to the goal of a maze by text commands."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Hashable, Mapping
from typing import Any

from colbench_gym.lmrl.game import GameText, Outcome, TextGame
from colbench_gym.lmrl.maze.layouts import MOVES, Cell, Layout, layout_of
from sandboxes.arguments import typed

#: Rewards of a turn: at the goal, elsewhere, and elsewhere after a message that is not a command.
AT_GOAL, MOVED, UNKNOWN = 0.0, -1.0, -4.0
SUCCESS, FAILURE = "Success\n", "Failure\n"
#: The parts of an observation, by the argument `observed`.
OBSERVED: Mapping[str, tuple[str, ...]] = {
    "fully": ("goal", "position", "walls"),
    "goal_and_walls": ("goal", "walls"),
    "partially": ("walls",),
}
#: Probability that an episode of the data is the solver's.
SOLVER_SHARE = 0.15
_SIDES = {"to your right": (0, 1), "to your left": (0, -1), "above you": (-1, 0), "below you": (1, 0)}
_POSITION = re.compile(r"current position is at position ((?:\d ?)+), ((?:\d ?)+)\.")
_START = re.compile(r"started at row (\d+), column (\d+)\.")


class Maze(TextGame):
    """Walk to the goal of a maze in the fewest turns; the position is said in every observation.

    ## Description
    A maze with walls around it, one fixed goal and a random start. "double_t" has two T-shaped dead ends above a T that leads down to the goal
    (26 cells, 25 starts); "umaze" is a U (7 cells, 6 starts). Source: LMRL-Gym, arXiv:2311.18232, task Maze; rules checked against its code (commit 911d726).

    The optimal return is 1 - d from d moves away: -6.84 on average over the starts of "double_t", -2.5 over those of "umaze". `maze_values` has the exact
    values of the optimal policy.

    ## Observation
    Text: where the goal and the agent are, as row and column with a space between digits, and on which sides there are walls:
    ``The goal is at position 8, 6. Your current position is at position 1, 1. There are walls to your left, above you, below you.`` and a line feed;
    at the goal ``Success``. `history` has the last texts of both sides.

    ## Action
    Text: "move left", "move right", "move up" or "move down". White space around it and capitals are ignored; any other text is an unknown command. A wall, or an
    unknown command, leaves the agent where it is.

    ## Reward
    0 for the turn that reaches the goal; -1 for any other turn, -4 if its command is unknown.

    ## Episode end
    *Terminated* at the goal. *Truncated* after `max_turns` turns.

    ## Info
    At the end "success" (whether the goal was reached) and "metrics": "outcome" ("ended", or "cut" by the limit), "success" (0/1), "return", "turns".

    ## Arguments
    Of the function `make`, which is the entry point of the id:

    * `maze`: "double_t" or "umaze".
    * `observed`: "fully"; "partially", for the walls alone; "goal_and_walls", for all but the position (the text that the original's PPO scripts use).
      The latter two have hidden information, see `PartiallyObservedMaze`.
    * `history_length`: number of texts that `history` keeps. The original's class keeps 40; its scripts keep 1 when fully observed.
    * `max_turns`: turns of an episode.
    * `faithful`: see below.
    * `render_mode`: "ansi": `render` returns `history`.

    `reset(options={"position": [row, column]})` sets the start.

    ## Faithful
    Where the original surprises, and what `faithful=True` reproduces:

    * Its commands end in a line feed, and anything else, such as "move left" without it, is unknown. By default white space and capitals are ignored.
    * An unknown command makes its history collapse to the new observation. By default the history continues. The last text of an episode stands
      alone there, too.
    * It does not truncate: after `max_turns` turns one more call, whatever it says, answers ``Failure``, costs 1 and terminates without moving. By
      default the episode is truncated at `max_turns`, so the lowest return without unknown commands is -100 (there -101).

    A seed gives the original's start in both.

    ## Expert and data
    `expert_action` is optimal; it knows the position, also where that is hidden. `behaviour` is our reading of the paper's data: each episode stays in the
    sub-maze that it starts in (a T of the double T; `layouts` draws them), so that no episode but those of the goal's sub-maze shows a way to the
    goal; 15 % follow the solver to the end of the sub-maze, the others draw among the commands that do not leave it.
    """

    reset_options = ("position",)

    def __init__(
        self,
        layout: Layout,
        observed: str = "fully",
        history_length: int = 40,
        max_turns: int = 100,
        faithful: bool = False,
        render_mode: str | None = None,
    ) -> None:
        """Build the environment; `make` checks and documents the arguments."""
        super().__init__(max_turns, faithful, render_mode)
        # The original's last call comes after its limit, and must not be truncated.
        self.max_turns += faithful
        if history_length < 1:
            raise ValueError(f"`history_length` must be positive, got {history_length!r}.")
        self.layout, self.observed, self.history_length = layout, observed, history_length
        self.position = self.start = layout.starts[0]

    def _begin(self, options: Mapping[str, Any]) -> str:
        self.rng.choice([self.layout.goal])  # The original draws the goal first: it uses up random bits.
        self.position = self.start = (
            self._start_of(options["position"]) if "position" in options else self.rng.choice(self.layout.starts)
        )
        return self._describe()

    def _start_of(self, position: Any) -> Cell:
        """The start that `reset` was asked for."""
        cell = tuple(position) if isinstance(position, list | tuple) else position
        if cell not in self.layout.starts:
            raise ValueError(
                f"`options['position']` must be [row, column] of a free cell that is not the goal, got {position!r}; "
                f"free are {', '.join(map(str, self.layout.starts))}."
            )
        return self.layout.starts[self.layout.starts.index(cell)]

    def _play(self, action: str) -> Outcome:
        if self.faithful and self.turn == self.max_turns:
            return Outcome(FAILURE, MOVED, is_over=True)
        command = action if self.faithful else command_of(action)
        self.position = self.layout.after(self.position, command)
        if self.position == self.layout.goal:
            return Outcome(SUCCESS, AT_GOAL, is_over=True, is_success=True)
        return Outcome(self._describe(), MOVED if command in MOVES else UNKNOWN)

    def _remember(self, message: GameText, outcome: Outcome | None = None) -> None:
        if self.faithful and outcome is not None and (outcome.is_over or self.history[-1].text not in MOVES):
            self.history.clear()
        super()._remember(message, outcome)
        if not message.is_action:
            del self.history[: -self.history_length]

    def _describe(self) -> str:
        """The observation."""
        (r, c), walls = self.position, list[str]()
        for side, (down, right) in _SIDES.items():
            if self.layout.is_wall((r + down, c + right)):
                walls.append(side)
        if len(walls) == 1:
            text = f"There is a wall {walls[0]}."
        else:
            text = f"There are walls {', '.join(walls)}." if walls else "There are no walls near you."
        parts = {
            "goal": f"The goal is at position {_spelled(self.layout.goal)}.",
            "position": f"Your current position is at position {_spelled(self.position)}.",
            "walls": text,
        }
        return " ".join(parts[part] for part in OBSERVED[self.observed]) + "\n"

    def _get(self) -> dict[str, Any]:
        return {"position": list(self.position), "start": list(self.start)}

    def _set(self, state: Mapping[str, Any]) -> None:
        (r, c), (first_r, first_c) = state["position"], state["start"]
        self.position, self.start = (r, c), (first_r, first_c)

    @property
    def state_key(self) -> Hashable:
        """The position."""
        return self.position

    def expert_action(self) -> str:
        """The command of a shortest way to the goal."""
        return self.layout.best_command(self.position)

    def behaviour(self, rng: random.Random) -> Callable[[], str]:
        """An episode of the data, see the manual."""
        is_solver, part = rng.random() < SOLVER_SHARE, self.layout.part(self.position)

        def act() -> str:
            if is_solver and self.position in part.cells:
                return self.expert_action()
            return rng.choice([command for command in MOVES if self.layout.after(self.position, command) in part.area])

        return act


class PartiallyObservedMaze(Maze):
    """`Maze` in which observations do not say the position, and perhaps not the goal.

    `hidden_information` says where the episode started, where the goal is, and the map. It is the same in every turn: the moves
    that the dialogue shows give the position.
    """

    @property
    def hidden_information(self) -> str:
        """The start, the goal and the map, in plain words."""
        drawing = "\n".join(
            "".join("#" if self.layout.is_wall((r, c)) else "G" if (r, c) == self.layout.goal else "." for c in range(len(row)))
            for r, row in enumerate(self.layout.rows)
        )
        return (
            f"The agent started at row {self.start[0]}, column {self.start[1]}. "
            f"The goal is at row {self.layout.goal[0]}, column {self.layout.goal[1]}.\n"
            f'Map (row 0 on top, "#" wall, "." free, "G" goal):\n{drawing}'
        )

    @property
    def state_key(self) -> Hashable:
        """The texts that the agent remembers."""
        return tuple(message.text for message in self.history)


@typed
def make(
    maze: str = "double_t",
    observed: str = "fully",
    history_length: int = 40,
    max_turns: int = 100,
    faithful: bool = False,
    render_mode: str | None = None,
) -> Maze:
    """Build the environment of the id LMRL-Maze-v0; the manual of `Maze` has the arguments.

    Returns:
        A `Maze`, which hides nothing, or a `PartiallyObservedMaze`.

    Raises:
        ValueError: If an argument is wrong.
    """
    layout = layout_of(maze)
    if observed not in OBSERVED:
        raise ValueError(f"`observed` must be one of {', '.join(map(repr, OBSERVED))}, got {observed!r}.")
    kind = Maze if observed == "fully" else PartiallyObservedMaze
    return kind(layout, observed, history_length, max_turns, faithful, render_mode)


def command_of(action: str) -> str:
    """The command of `MOVES` that an action is but for white space around it and capitals; else the stripped action."""
    stripped = action.strip().lower()
    return next((command for command in MOVES if command.strip() == stripped), stripped)


def read_position(observation: str) -> Cell | None:
    """The position that an observation of the fully observed maze says; None if it says none."""
    match = _POSITION.search(observation)
    return (int(match[1].replace(" ", "")), int(match[2].replace(" ", ""))) if match else None


def read_start(hidden: str) -> Cell | None:
    """The start that a `hidden_information` says; None if it says none."""
    match = _START.search(hidden)
    return (int(match[1]), int(match[2])) if match else None


def _spelled(cell: Cell) -> str:
    """A cell as observations say it: a space between digits."""
    return ", ".join(" ".join(str(number)) for number in cell)
