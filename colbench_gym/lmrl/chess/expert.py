"""An expert of chess in plain Python: material after the best recapture, and a mating technique against a king that is alone.

The technique is the textbook's: shrink the region that the lone king can reach, bring the own king closer, never leave a piece to it, never stalemate;
once the region is small, look for a mate in two.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from colbench_gym.lmrl.chess.opponents import VALUES, Player, is_mate, material_gain

if TYPE_CHECKING:
    import chess

#: Values in pawns. A mate is worth more than any material.
MATE = 1000.0
#: A mate in two is looked for once the lone king's region has at most this many squares.
SMALL_REGION = 6
_NOT_A_FILE, _NOT_H_FILE, _ALL = 0xFEFE_FEFE_FEFE_FEFE, 0x7F7F_7F7F_7F7F_7F7F, 0xFFFF_FFFF_FFFF_FFFF


class Search(Player):
    """The move after which the position is worth most; ties by `draw`."""

    def choose(self, board: chess.Board, draw: Callable[[int], int]) -> chess.Move:
        """See `Player.choose`."""
        moves = list(board.legal_moves)
        mates = [move for move in moves if is_mate(board, move)]
        if mates:
            return mates[0]
        board = board.copy()
        values = [_value(board, move) for move in moves]
        best = [move for move, value in zip(moves, values, strict=True) if value == max(values)]
        return best[draw(len(best))]


def _value(board: chess.Board, move: chess.Move) -> float:
    """Worth of a move that does not mate, for the side that makes it, in pawns."""
    us = board.turn
    board.push(move)
    if board.is_stalemate() or board.is_insufficient_material() or board.is_repetition(2) or board.halfmove_clock >= 150:
        value = 0.0
    else:
        balance = sum(VALUES[piece.piece_type] * (1 if piece.color == us else -1) for piece in board.piece_map().values())
        is_lone = board.occupied_co[not us].bit_count() == 1
        value = balance - _danger(board, us) + (_confinement(board, us) if is_lone else _activity(board, us))
    board.pop()
    return value


def _danger(board: chess.Board, us: chess.Color) -> float:
    """What the opponent's best reply wins: a mate, or a piece minus what it costs to take it."""
    worst = 0.0
    for reply in list(board.legal_moves):
        gain: float = material_gain(board, reply)
        if gain:
            if board.is_attacked_by(us, reply.to_square):
                gain -= VALUES[board.piece_type_at(reply.from_square)]
        elif is_mate(board, reply):
            gain = MATE
        worst = max(worst, gain)
    return worst


def _activity(board: chess.Board, us: chess.Color) -> float:
    """A fraction of a pawn for what leads to gains: attacked pieces that nobody defends, advanced pawns, pieces near the other king."""
    import chess

    target, value = board.king(not us), 0.0
    for square, piece in board.piece_map().items():
        if piece.color != us:
            if board.is_attacked_by(us, square) and not board.is_attacked_by(not us, square):
                value += 0.05 * VALUES[piece.piece_type]
        elif piece.piece_type == chess.PAWN:
            rank = chess.square_rank(square)
            value += 0.02 * (rank if us else 7 - rank)
        elif piece.piece_type != chess.KING and target is not None:
            value -= 0.01 * chess.square_distance(square, target)
    return value


def _confinement(board: chess.Board, us: chess.Color) -> float:
    """How close a lone king is to being mated; it is to move."""
    import chess

    ours, theirs = board.king(us), board.king(not us)
    assert ours is not None and theirs is not None, "both kings stand on a legal board"
    area = region(board, us)
    if area <= SMALL_REGION and _is_mated_next(board):
        return MATE / 2
    return -0.1 * area - 0.05 * chess.square_distance(ours, theirs) - 0.01 * chess.square_manhattan_distance(ours, theirs)


def _is_mated_next(board: chess.Board) -> bool:
    """Whether each reply can be answered by a mate."""
    for reply in list(board.legal_moves):
        board.push(reply)
        mates = any(is_mate(board, move) for move in board.legal_moves)
        board.pop()
        if not mates:
            return False
    return True


def region(board: chess.Board, us: chess.Color) -> int:
    """Number of squares that the opponent's king could reach if `us` did not move, its own included."""
    bare = board.copy(stack=False)
    king = bare.king(not us)
    assert king is not None, "both kings stand on a legal board"
    bare.remove_piece_at(king)  # a line continues behind it
    guarded = 0
    for square in bare.piece_map():
        if bare.color_at(square) == us:
            guarded |= bare.attacks_mask(square)
    free = _ALL & ~guarded
    reached, grown = 0, 1 << king
    while grown != reached:
        reached = grown
        sides = reached | (reached & _NOT_H_FILE) << 1 | (reached & _NOT_A_FILE) >> 1
        grown = reached | (sides | sides << 8 | sides >> 8) & free
    return reached.bit_count()
