"""The expert of chess: its terms against slow counts, and that it takes a mate, keeps its pieces and avoids draws."""

from __future__ import annotations

import random

import pytest

chess = pytest.importorskip("chess", reason="needs python-chess: `pip install .[chess]`")

from colbench_gym.lmrl.chess.expert import Search, _is_mated_next, region  # noqa: E402


def _first(number):
    return 0


def _endgame(rng, pieces):
    """A random legal position with these pieces, White to move."""
    while True:
        board = chess.Board(None)
        for square, symbol in zip(rng.sample(range(64), len(pieces)), pieces, strict=True):
            board.set_piece_at(square, chess.Piece.from_symbol(symbol))
        if board.is_valid() and not board.is_check():
            return board


def _slow_region(board, us):
    """Squares that the other king reaches, by asking python-chess square after square."""
    bare, king = board.copy(), board.king(not us)
    bare.remove_piece_at(king)
    waiting, seen = [king], {king}
    while waiting:
        for square in chess.SQUARES:
            if chess.square_distance(square, waiting[-1]) == 1 and square not in seen and not bare.is_attacked_by(us, square):
                seen.add(square)
                waiting.insert(0, square)
        waiting.pop()
    return len(seen)


def test_the_region_is_what_a_slow_count_finds():
    rng = random.Random(0)
    sizes = set()
    for pieces in ("kQK", "kRK", "kRRK", "Kqk"):
        for _ in range(10):
            board = _endgame(rng, pieces)
            us = pieces != "Kqk"
            assert region(board, us) == _slow_region(board, us)
            sizes.add(region(board, us))
    assert len(sizes) > 5


def test_a_mate_in_one_is_always_taken():
    rng, found = random.Random(1), 0
    for _ in range(150):
        board = _endgame(rng, "kQRK")
        mates = [move for move in board.legal_moves if (board.push(move), board.is_checkmate(), board.pop())[1]]
        if mates:
            found += 1
            assert Search().choose(board, _first) in mates
    assert found > 10


def test_a_mate_in_two_is_seen():
    board = chess.Board("1k6/8/1K6/8/8/8/8/7R b - - 0 1")  # after Ka8 by Rh8, after Kc8 not at once
    assert not _is_mated_next(board)
    board = chess.Board("k7/8/1K6/8/8/8/8/7R b - - 0 1")  # Kb8 alone, and then Rh8
    assert _is_mated_next(board)


@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize(
    ("fen", "good"),
    [
        pytest.param("k7/8/8/8/8/8/1r5R/K7 w - - 0 1", {"Rxb2", "Kxb2"}, id="takes what hangs"),
        pytest.param("4k3/8/2p5/3p4/8/8/3Q4/4K3 w - - 0 1", None, id="leaves a pawn that is defended"),
        pytest.param("6k1/5ppp/8/8/8/8/8/R5K1 w - - 0 1", {"Ra8#"}, id="mates"),
        pytest.param("k7/8/1K6/8/8/8/8/3Q4 w - - 0 1", {"Qd8#", "Qh1#", "Qf3#"}, id="no stalemate"),
    ],
)
def test_moves_that_it_must_find(fen, good, mirrored):
    board = chess.Board(fen)
    move = Search().choose(board.mirror() if mirrored else board, _first)
    if mirrored:
        move = chess.Move(chess.square_mirror(move.from_square), chess.square_mirror(move.to_square), move.promotion)
    san = board.san(move)
    assert san in good if good else san != "Qxd5"


def test_it_does_not_repeat_a_position_when_it_is_ahead():
    board = chess.Board("8/8/3k4/8/8/8/8/R3K3 w - - 0 1")
    seen = [board.epd()]
    rng = random.Random(2)
    while not board.is_game_over():
        board.push(Search().choose(board, _first))
        assert board.epd() not in seen
        seen.append(board.epd())
        if not board.is_game_over():
            board.push(rng.choice(list(board.legal_moves)))
    assert board.is_checkmate() and len(seen) < 60


def test_it_leaves_the_board_as_it_was():
    board = chess.Board()
    before = board.copy()
    Search().choose(board, _first)
    assert board == before and board.move_stack == before.move_stack
