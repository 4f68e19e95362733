"""LMRL-Chess-v0 and LMRL-Endgames-v0: a game of chess as White, or the mating of a lone king, in spaced FEN and SAN.

python-chess, the package `chess`, is under the GPL and an extra: it is imported when an environment is made.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from colbench_gym.lmrl.chess.opponents import Player
from colbench_gym.lmrl.game import GameText, Outcome, TextGame
from sandboxes.arguments import typed
from sandboxes.extras import pip_install
from sandboxes.named import Spec, make_named

if TYPE_CHECKING:
    import chess

#: The pieces of the endgames, White's in capitals.
PIECES = ("kQK", "kRK", "kQRK", "kRRK")
#: Players by name; a module is imported on use.
PLAYERS: Mapping[str, str] = {
    "random": "colbench_gym.lmrl.chess.opponents:RandomMover",
    "one_ply": "colbench_gym.lmrl.chess.opponents:OnePly",
    "search": "colbench_gym.lmrl.chess.expert:Search",
    "stockfish": "colbench_gym.lmrl.chess.opponents:Stockfish",
}


def make_player(setting: str, spec: Spec) -> Player:
    """Build a player from a name of `PLAYERS`, "package.module:Class" or a mapping with such a "name" and arguments; `setting` is named in errors."""
    made: Player = make_named(setting, spec, PLAYERS, "a `Player` of `colbench_gym.lmrl.chess.opponents`", "choose", Player)
    return made


class Chess(TextGame):
    """Play a game of chess as White; every message is a move.

    ## Description
    A full game from the usual position. Nothing is hidden, so there is no `hidden_information`. Source: LMRL-Gym, arXiv:2311.18232, task Chess.
    Needs python-chess (GPL-3), which the extra `chess` brings.

    ## Observation
    The position in FEN with a blank between all characters, so that a blank of the FEN becomes three: `... / R N B Q K B N R   w   K Q k q   -   0   1`.
    White is to move in it, unless White's move ended the game. It replaces the history: the agent reads the last position alone.

    With `position="squares"` it names each piece with its square, White's first, such as `Kc1 Qe8 / kc3`. Castling rights and a square for capture en passant
    follow where there are any: `... / KQkq / d6`. The counters of the FEN are left out.

    ## Action
    A move in SAN, such as `N f 3` and a line feed; blanks are ignored. Also read: UCI (`g1f3`), castling with zeros or small letters (`0-0`, `o-o`),
    marks (`Nf3!`), and a promotion without a piece, which gives a queen.

    ## Reward
    A legal move gives 0, a win +1, a loss -1, a draw 0. What is no legal move, the null move included, gives -1 and changes nothing; it does not
    end the episode.

    ## Episode end
    *Terminated* by checkmate, stalemate, insufficient material, 75 moves without a capture or a pawn's move, or a position that occurs for the fifth
    time. *Truncated* after `max_turns` messages, illegal ones included.

    ## Info
    At the end "success" (whether White won) and "metrics": "outcome" ("ended" or "cut"), "success" (0/1), "return", "turns".

    ## Arguments
    * `max_turns`: messages of the agent after which an episode is truncated. 400, as in the paper.
    * `opponent`: Black. "one_ply" mates or captures where it can; "random"; "search", the expert below; {"name": "stockfish", "path": None, "elo": 1350,
      "time_s": 0.1, "nodes": None}, see `colbench_gym.lmrl.chess.opponents`; or "package.module:Class", a `Player` of your own.
    * `expert`: who gives `expert_action`: "search", or another player as for `opponent`; its ties go to the first move.
    * `position`: "fen", as in the original, or "squares". A tiny model then need not count the empty squares of a FEN.
    * `faithful`: see below. It needs `position="fen"`.
    * `render_mode`: None, or "ansi": `render` draws the board.

    `reset(options={"fen": ...})` starts from another position in which White is to move.

    ## Policies
    `expert_action` of "search" weighs each move by material after Black's best reply, sees mates in one for both sides, and mates a lone king by
    technique; it is not optimal. `behaviour` plays a random legal move with a probability that is drawn uniformly from [0, 0.5] per game, and the
    expert's move otherwise; the paper's data are games of Stockfish at several strengths.

    `state_key` is the FEN and the number of messages. It leaves out how often a position occurred before, on which only a draw by repetition depends.

    ## Faithful
    The original's opponent is Stockfish with an Elo of 1200, which Stockfish 15.1 does not offer (it starts at 1350): ours refuses it. Its null move is
    meant to lose the game, but a `finally` overrules that: it is an illegal move, in both our modes. Its `copy()`, which its batches use, loses
    `random_opponent`, so that Stockfish plays; we reproduce this in neither mode. With `faithful=True`:

    * the episode ends with message `max_turns` + 1, so that the least return is -401;
    * moves are read by python-chess alone after blanks are dropped; what "Also read" lists beyond that (`Nf3!`, `o-o`, `e8` for `e8=Q`) is illegal;
    * chance is NumPy's old generator, seeded with the first 32 bits of `random.Random(seed)`, as a run of the original that starts with `numpy.random.seed`.
    """

    reset_options = ("fen",)

    #: Bounds of the probability of a random move in a game of the behaviour policy.
    randomness: ClassVar[tuple[float, float]] = (0.0, 0.5)

    @typed
    def __init__(
        self,
        max_turns: int = 400,
        opponent: Spec = "one_ply",
        expert: Spec = "search",
        position: str = "fen",
        faithful: bool = False,
        render_mode: str | None = None,
    ) -> None:
        """Set up the game. The class documents the arguments.

        Raises:
            ImportError: If python-chess is not installed.
            ValueError: If `position` is unknown, or not the original's where `faithful` is set.
        """
        if position not in POSITIONS:
            raise ValueError(f"`position` must be one of {tuple(POSITIONS)}, got {position!r}.")
        if faithful and position != "fen":
            raise ValueError(f"`faithful=True` needs `position='fen'`, got {position!r}.")
        super().__init__(max_turns, faithful, render_mode)
        self._text = POSITIONS[position]
        try:
            import chess
        except ImportError:
            raise ImportError(f"LMRL-Chess-v0 and LMRL-Endgames-v0 need python-chess: `{pip_install('[chess]')}`.") from None
        self.max_turns += faithful
        self._board = chess.Board()
        self._numpy: np.random.RandomState | None = None
        self._expert, self._opponent = make_player("expert", expert), make_player("opponent", opponent)

    def legal_moves(self) -> list[str]:
        """Every legal message of the current position, in SAN with blanks and a line feed."""
        return [self._say(move) for move in self._board.legal_moves]

    def expert_action(self) -> str:
        """See the class."""
        return self._say(self._expert.choose(self._board, lambda _: 0))

    def behaviour(self, rng: random.Random) -> Callable[[], str]:
        """See the class."""
        share = rng.uniform(*self.randomness)

        def act() -> str:
            if rng.random() < share:
                return self._say(rng.choice(list(self._board.legal_moves)))
            return self.expert_action()

        return act

    @property
    def state_key(self) -> Hashable:
        """The FEN and the number of messages."""
        return self._board.fen(), self.turn

    def render(self) -> str | None:
        """The board, White below; None without a render mode."""
        return None if self.render_mode is None else str(self._board)

    def close(self) -> None:
        """End the programs of the opponent and the expert. A second call does nothing."""
        self._opponent.close()
        self._expert.close()
        super().close()

    def _begin(self, options: Mapping[str, Any]) -> str:
        self._numpy = np.random.RandomState(self.rng.getrandbits(32)) if self.faithful else None
        self._board = self._start() if options.get("fen") is None else _given(options["fen"])
        return self._text(self._board)

    def _start(self) -> chess.Board:
        """The position in which an episode starts."""
        import chess

        return chess.Board()

    def _play(self, action: str) -> Outcome:
        board = self._board
        move = read_move(board, action, self.faithful)
        if move is None:
            return Outcome(self._text(board), -1.0)
        board.push(move)
        if not board.is_game_over():
            board.push(self._opponent.choose(board, self._draw))
        end = board.outcome()
        reward = 0.0 if end is None or end.winner is None else 1.0 if end.winner else -1.0
        return Outcome(self._text(board), reward, end is not None, reward > 0)

    def _remember(self, message: GameText, outcome: Outcome | None = None) -> None:
        """A position replaces all before it, as in the original."""
        if message.is_action:
            self.history.append(message)
        else:
            self.history = [message]

    def _draw(self, number: int) -> int:
        """A number below `number`; in faithful mode the index that `numpy.random.choice` of a list takes."""
        return self.rng.randrange(number) if self._numpy is None else int(self._numpy.choice(number, 1)[0])

    def _say(self, move: chess.Move) -> str:
        return spaced(self._board.san(move)) + "\n"

    def _get(self) -> dict[str, Any]:
        numbers = None
        if self._numpy is not None:
            _, key, position, *_ = self._numpy.get_state(legacy=True)
            numbers = [np.asarray(key).tolist(), int(position)]
        return {"start": self._board.root().fen(), "moves": [move.uci() for move in self._board.move_stack], "numpy": numbers}

    def _set(self, state: Mapping[str, Any]) -> None:
        import chess

        self._board = chess.Board(state["start"])
        for move in state["moves"]:
            self._board.push_uci(move)
        self._numpy = None
        if state["numpy"] is not None:
            key, position = state["numpy"]
            self._numpy = np.random.RandomState()
            self._numpy.set_state(("MT19937", np.array(key, dtype=np.uint32), position, 0, 0.0))


class Endgames(Chess):
    """Mate a lone king as White; every message is a move.

    ## Description
    As Chess, from a random position: Black has the king alone, White a queen, a rook, a queen and a rook, or two rooks. Nothing is hidden.
    Source: LMRL-Gym, arXiv:2311.18232, task Chess Endgames. Needs python-chess (GPL-3), which the extra `chess` brings.

    Observation, action, reward, episode end and info are those of `Chess`. A draw (stalemate, or the last piece lost) gives 0.

    ## Arguments
    * `pieces`: sets of pieces, one of which is drawn for each episode; some of "kQK", "kRK", "kQRK", "kRRK". All are placed on random squares until the
      position is legal and nobody is in check. White is to move.
    * `max_turns`, `opponent`, `expert`, `position`, `faithful`, `render_mode`: as in `Chess`.

    `reset(options={"fen": ...})` starts from a position of your own. The paper's 645 positions of evaluation are not in its repository.

    ## Policies
    `expert_action` of "search" mates by technique. `behaviour` plays a random legal move with a probability that is drawn uniformly from [0, 1] per game,
    and the expert's move otherwise, as the paper describes its data.

    ## Faithful
    As in Chess; positions are drawn from NumPy's generator, too, before the opponent's moves, in the original's order.
    """

    randomness = (0.0, 1.0)

    @typed
    def __init__(
        self,
        pieces: Sequence[str] = PIECES,
        max_turns: int = 400,
        opponent: Spec = "one_ply",
        expert: Spec = "search",
        position: str = "fen",
        faithful: bool = False,
        render_mode: str | None = None,
    ) -> None:
        """Set up the game. The class documents the arguments."""
        if not pieces or not set(pieces) <= set(PIECES):
            raise ValueError(f"`pieces` must be a list with some of {PIECES}, got {pieces!r}.")
        super().__init__(max_turns, opponent, expert, position, faithful, render_mode)
        self.pieces = tuple(pieces)

    def _start(self) -> chess.Board:
        import chess

        symbols = self.rng.choice(self.pieces)
        while True:
            board, free = chess.Board(None), list(chess.SQUARES)
            for symbol in symbols:
                board.set_piece_at(free.pop(self._draw(len(free))), chess.Piece.from_symbol(symbol))
            if board.is_valid() and not board.is_check():
                return board


def spaced(text: str) -> str:
    """A blank between all characters."""
    return " ".join(text)


def squares(board: chess.Board) -> str:
    """A position as its pieces with their squares; the manual of `Chess` has the format."""
    import chess

    sides = (
        " ".join(
            chess.Piece(kind, color).symbol() + chess.square_name(square)
            for kind in reversed(chess.PIECE_TYPES)
            for square in board.pieces(kind, color)
        )
        for color in (chess.WHITE, chess.BLACK)
    )
    rights, en_passant = board.fen().split()[2:4]
    return " / ".join([*sides, *(part for part in (rights, en_passant) if part != "-")])


#: Texts of a position, by the values of `position`.
POSITIONS: Mapping[str, Callable[[chess.Board], str]] = {"fen": lambda board: spaced(board.fen()), "squares": squares}


def read_move(board: chess.Board, text: str, is_strict: bool = False) -> chess.Move | None:
    """The legal move that a message means, None if it means none.

    Args:
        board: The position.
        text: The message; blanks are dropped.
        is_strict: Whether python-chess alone reads it, without the repairs that the manual of `Chess` lists.
    """
    san = text.replace(" ", "").strip()
    readings = [san]
    if not is_strict:
        san = "".join(text.split()).rstrip("!?.")
        is_castling = san[:1] in ("0", "O", "o")
        readings = [san.upper().replace("0", "O")] if is_castling else [san, san.rstrip("+#") + "=Q"]
    for reading in readings:
        try:
            return board.parse_san(reading) or None  # a null move is false
        except ValueError:
            continue
    return None


def _given(fen: str) -> chess.Board:
    """The position of `reset(options={"fen": ...})`."""
    import chess

    try:
        board = chess.Board(fen)
    except ValueError:
        board = chess.Board(None)
    if not board.is_valid() or not board.turn or board.is_game_over():
        raise ValueError(f"`fen` must be a legal position in which White is to move, got {fen!r}.")
    return board
