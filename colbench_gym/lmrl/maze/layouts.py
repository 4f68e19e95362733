"""The layouts of the mazes: cells, moves, distances to the goal, and the sub-mazes that the data is confined to."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

Cell = tuple[int, int]

#: A command, with its line feed -> rows and columns that it moves by.
MOVES: Mapping[str, Cell] = {"move left\n": (0, -1), "move right\n": (0, 1), "move up\n": (-1, 0), "move down\n": (1, 0)}
_WALL, _GOAL = "#", "G"


@dataclass(frozen=True)
class Part:
    """A sub-maze.

    Attributes:
        cells: Its cells.
        area: Its cells and, unless it contains the goal, the cell that the way to the goal leaves it by.
    """

    cells: frozenset[Cell]
    area: frozenset[Cell]


@dataclass(frozen=True)
class Layout:
    """A maze with one goal, every cell of which is connected to it.

    Attributes:
        rows: Its drawing: "#" is a wall, "G" the goal (in the sub-maze "c"), and another letter names the sub-maze of a free cell. Walls surround it.
    """

    rows: tuple[str, ...]

    @cached_property
    def cells(self) -> list[Cell]:
        """Free cells in row-major order, the goal among them."""
        return [(r, c) for r, row in enumerate(self.rows) for c, sign in enumerate(row) if sign != _WALL]

    @cached_property
    def goal(self) -> Cell:
        """The cell of the goal."""
        return next(cell for cell in self.cells if self._sign(cell) == _GOAL)

    @cached_property
    def starts(self) -> list[Cell]:
        """Cells that an episode may start from, in row-major order."""
        return [cell for cell in self.cells if cell != self.goal]

    def is_wall(self, cell: Cell) -> bool:
        """Whether a cell of the drawing is a wall."""
        return self._sign(cell) == _WALL

    def after(self, cell: Cell, command: str) -> Cell:
        """The cell after a command; the same one if a wall is in the way or the command is not in `MOVES`."""
        down, right = MOVES.get(command, (0, 0))
        target = (cell[0] + down, cell[1] + right)
        return cell if self.is_wall(target) else target

    @cached_property
    def distance(self) -> dict[Cell, int]:
        """Cell -> moves to the goal."""
        distances, waiting = {self.goal: 0}, deque([self.goal])
        while waiting:
            cell = waiting.popleft()
            for command in MOVES:
                # The walls are symmetric, so a move away from the goal has one back.
                near = self.after(cell, command)
                if near not in distances:
                    distances[near] = distances[cell] + 1
                    waiting.append(near)
        return distances

    def best_command(self, cell: Cell) -> str:
        """The first command in `MOVES` of a shortest way to the goal."""
        return min(MOVES, key=lambda command: self.distance[self.after(cell, command)])

    def part(self, cell: Cell) -> Part:
        """The sub-maze of a cell."""
        cells = frozenset(other for other in self.cells if self._letter(other) == self._letter(cell))
        return Part(cells, cells | {self.after(other, self.best_command(other)) for other in cells - {self.goal}})

    def _sign(self, cell: Cell) -> str:
        return self.rows[cell[0]][cell[1]]

    def _letter(self, cell: Cell) -> str:
        return "c" if cell == self.goal else self._sign(cell)


#: The mazes by name. Which cells make a sub-maze is our reading of the paper: the three T's, or the arms and the bar of the U.
LAYOUTS: Mapping[str, Layout] = {
    "umaze": Layout(
        (
            "#####",
            "#bbb#",
            "#a#c#",
            "#a#G#",
            "#####",
        )
    ),
    "double_t": Layout(
        (
            "#############",
            "#aaaaa#bbbbb#",
            "###a#####b###",
            "###a#####b###",
            "###a#####b###",
            "###ccccccc###",
            "######c######",
            "######c######",
            "######G######",
            "#############",
        )
    ),
}


def layout_of(maze: str) -> Layout:
    """The layout of a name.

    Raises:
        ValueError: If there is none.
    """
    if maze not in LAYOUTS:
        raise ValueError(f"`maze` must be one of {', '.join(map(repr, LAYOUTS))}, got {maze!r}.")
    return LAYOUTS[maze]
