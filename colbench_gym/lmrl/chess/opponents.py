"""Players of chess: at random, by one ply of material, by the search of `expert`, or Stockfish as a program of its own.

A player chooses a move for the side that is to move, so any of them may be the opponent (Black) or the expert (White). python-chess is imported on use.
"""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colbench_gym.errors import ColBenchError

if TYPE_CHECKING:
    import chess
    import chess.engine

#: Value of a piece in pawns, by python-chess's number of its type (pawn, knight, bishop, rook, queen, king).
VALUES: Mapping[int | None, int] = {None: 0, 1: 1, 2: 3, 3: 3, 4: 5, 5: 9, 6: 0}
#: Where Debian's package `stockfish` puts the program.
DEBIAN_STOCKFISH = "/usr/games/stockfish"
#: Seconds that Stockfish may take to start, and beyond the limit of a move.
PATIENCE_S = 20.0


class Player(ABC):
    """Somebody who chooses moves. It remembers nothing between moves, so that a snapshot of the board is a snapshot of the game."""

    @abstractmethod
    def choose(self, board: chess.Board, draw: Callable[[int], int]) -> chess.Move:
        """A legal move for the side to move.

        Args:
            board: The position, in which there is a legal move. It is left as it is.
            draw: `draw(n)` is a number in [0, n) from the game's generator, the only source of chance.
        """

    def close(self) -> None:
        """End what the player runs. A second call does nothing."""


class RandomMover(Player):
    """Draws a legal move uniformly: one draw a move, in python-chess's order of the legal moves, as LMRL-Gym's does."""

    def choose(self, board: chess.Board, draw: Callable[[int], int]) -> chess.Move:
        """See `Player.choose`."""
        moves = list(board.legal_moves)
        return moves[draw(len(moves))]


class OnePly(Player):
    """Mates where it can, else wins the most material that one move wins, recaptures ignored; ties, and all else, at random."""

    def choose(self, board: chess.Board, draw: Callable[[int], int]) -> chess.Move:
        """See `Player.choose`."""
        moves = list(board.legal_moves)
        best = [move for move in moves if is_mate(board, move)]
        if not best:
            gains = [material_gain(board, move) for move in moves]
            best = [move for move, gain in zip(moves, gains, strict=True) if gain == max(gains)]
        return best[draw(len(best))]


class Stockfish(Player):
    """Stockfish through python-chess's engine protocol. Each move is searched as the first of a new game, so that nothing is remembered.

    Neither time-based play nor a limited Elo is deterministic: Stockfish seeds its mistakes by the clock. With `elo=None` and `nodes` it is.
    """

    def __init__(self, path: str | None = None, elo: int | None = 1350, time_s: float = 0.1, nodes: int | None = None) -> None:
        """Start the program.

        Args:
            path: The program; None for Debian's, /usr/games/stockfish.
            elo: Strength within the engine's range (1350 to 2850 in 15.1, which the paper used); None for its full strength.
            time_s: Seconds a move.
            nodes: Positions that are searched a move, in place of `time_s`.

        Raises:
            ValueError: If `elo` is outside of the engine's range, or a limit is not positive.
            ColBenchError: If there is no such program, or it does not start.
        """
        if time_s <= 0 or (nodes is not None and nodes < 1):
            raise ValueError(f"`time_s` and `nodes` must be positive, got {time_s!r} and {nodes!r}.")
        self.path, self.elo, self.time_s, self.nodes = path or DEBIAN_STOCKFISH, elo, time_s, nodes
        self._engine: chess.engine.SimpleEngine | None = None
        if not Path(self.path).is_file():
            raise ColBenchError(f"No Stockfish at {self.path!r}: `apt-get install stockfish`, or give its `path`.")
        self._start()

    def choose(self, board: chess.Board, draw: Callable[[int], int]) -> chess.Move:
        """See `Player.choose`; raises `ColBenchError` if the program fails."""
        import chess.engine

        if self._engine is None:
            raise ColBenchError("Stockfish was closed; make the environment anew.")
        limit = chess.engine.Limit(time=self.time_s) if self.nodes is None else chess.engine.Limit(nodes=self.nodes)
        try:
            move = self._engine.play(board, limit, game=object()).move  # another object is another game: the hash is cleared
        except (chess.engine.EngineError, TimeoutError) as error:
            raise ColBenchError(f"Stockfish at {self.path!r} failed: {error}.") from error
        if move is None:
            raise ColBenchError(f"Stockfish at {self.path!r} gave no move in {board.fen()!r}.")
        return move

    def close(self) -> None:
        """End the program. A second call does nothing."""
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.close()
            self._thread.join()

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy, or what is pickled, starts a program of its own."""
        return type(self), (self.path, self.elo, self.time_s, self.nodes)

    def _start(self) -> None:
        """Start the program in a daemon thread: python-chess's own thread would keep a Python that forgot `close` from ending."""
        import chess.engine

        started = Future[chess.engine.SimpleEngine]()
        self._thread = threading.Thread(target=lambda: asyncio.run(_live(self.path, started)), name="stockfish", daemon=True)
        self._thread.start()
        try:
            self._engine = started.result()
        except (chess.engine.EngineError, OSError, TimeoutError) as error:
            self._thread.join()
            raise ColBenchError(f"Stockfish at {self.path!r} does not start: {error!r}.") from error
        if self.elo is None:
            return
        strength = self._engine.options.get("UCI_Elo")
        lowest, highest = (None, None) if strength is None else (strength.min, strength.max)
        if lowest is None or highest is None or not lowest <= self.elo <= highest:
            self.close()
            raise ValueError(
                f"`elo` must be None or in {lowest} to {highest} for the engine at {self.path!r}, got {self.elo!r}."
            )
        self._engine.configure({"UCI_LimitStrength": True, "UCI_Elo": self.elo})


async def _live(path: str, started: Future[chess.engine.SimpleEngine]) -> None:
    """Start an engine, hand it over, or why it did not start, and serve it until its program ends."""
    import chess.engine

    try:
        transport, protocol = await chess.engine.UciProtocol.popen(path)
    except OSError as error:
        started.set_exception(error)
        return
    engine = chess.engine.SimpleEngine(transport, protocol, timeout=PATIENCE_S)
    try:
        await asyncio.wait_for(protocol.initialize(), PATIENCE_S)
        started.set_result(engine)
        await protocol.returncode
    except (chess.engine.EngineError, TimeoutError) as error:
        started.set_exception(error)
    engine.close()  # from here on a call raises EngineTerminatedError
    await protocol.returncode
    transport.close()


def is_mate(board: chess.Board, move: chess.Move) -> bool:
    """Whether a legal move mates."""
    if not board.gives_check(move):
        return False
    board.push(move)
    mates = board.is_checkmate()
    board.pop()
    return mates


def material_gain(board: chess.Board, move: chess.Move) -> int:
    """Pawns' worth that a legal move wins at once: what it captures, and what a promotion adds."""
    captured = 1 if board.is_en_passant(move) else VALUES[board.piece_type_at(move.to_square)] * board.is_capture(move)
    return captured + (VALUES[move.promotion] - 1 if move.promotion else 0)
