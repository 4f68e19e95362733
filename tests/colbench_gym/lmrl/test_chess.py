"""Chess and Endgames: the rules of the game around python-chess, repairs and faithful mode, positions, policies, snapshots, and errors."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter

import gymnasium as gym
import pytest

from sandboxes.extras import pip_install

chess = pytest.importorskip("chess", reason="needs python-chess: `pip install .[chess]`")

from colbench_gym.lmrl.chess.chess_game import PIECES, Chess, Endgames, read_move, spaced  # noqa: E402

START = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"
MATE_IN_ONE = "6k1/5ppp/8/8/8/8/8/R5K1 w - - 0 1"
PROMOTION = "8/4P1k1/8/8/8/8/8/4K2R w K - 0 1"
#: A player that moves a knight to and fro.
SHUFFLER = """
import chess
from colbench_gym.lmrl.chess.opponents import Player

class Shuffler(Player):
    def choose(self, board, draw):
        return board.parse_san("Nf6" if board.piece_at(chess.G8) else "Ng8")
"""


def _after(env, *messages, fen=None):
    """The last result of `step` after these messages."""
    env.reset(seed=0, options={"fen": fen})
    return [env.step(message) for message in messages][-1]


def test_observations_are_fen_with_a_blank_between_all_characters():
    env = Chess()
    observation, info = env.reset(seed=0)
    assert observation == " ".join(START) and observation.endswith("R N B Q K B N R   w   K Q k q   -   0   1") and not info
    observation, reward, terminated, truncated, info = env.step("e 4\n")
    assert (reward, terminated, truncated, info) == (0.0, False, False, {})
    board = chess.Board(observation[::2])
    assert board.turn == chess.WHITE and board.piece_at(chess.E4) == chess.Piece.from_symbol("P") and board.fullmove_number == 2
    assert [said.text for said in env.history] == [observation]


CASTLING = "r3k2r/8/8/8/8/8/8/R3K2R w Kq - 3 9"
EN_PASSANT = "4k3/8/8/3pP3/8/8/8/4K3 w - d6 0 1"
NO_EN_PASSANT = "4k3/8/8/3p4/8/8/8/4K3 w - d6 0 1"


@pytest.mark.parametrize(
    ("fen", "text"),
    [
        ("8/8/3k4/8/8/8/1R6/K6Q w - - 12 40", "Ka1 Qh1 Rb2 / kd6"),
        (CASTLING, "Ke1 Ra1 Rh1 / ke8 ra8 rh8 / Kq"),
        (EN_PASSANT, "Ke1 Pe5 / ke8 pd5 / d6"),
        (NO_EN_PASSANT, "Ke1 / ke8 pd5"),
        ("1n2k3/8/8/1b6/4N3/8/6B1/4K3 w - - 0 1", "Ke1 Bg2 Ne4 / ke8 bb5 nb8"),
    ],
)
def test_a_position_may_be_named_by_squares(fen, text):
    assert Endgames(position="squares").reset(options={"fen": fen})[0] == text


def test_the_same_game_is_played_in_both_texts_of_a_position():
    envs = [Chess(position=name) for name in ("fen", "squares")]
    for env in envs:
        env.reset(seed=3)
    for _ in range(12):
        move = envs[0].expert_action()
        (_, *others), (text, *same) = (env.step(move) for env in envs)
        board = chess.Board(envs[0].state_key[0])
        assert others == same and envs[1].state_key == envs[0].state_key
        white, black, *_ = text.split(" / ")
        assert Counter([*white.split(), *black.split()]) == Counter(
            piece.symbol() + chess.square_name(square) for square, piece in board.piece_map().items()
        )


def test_a_text_of_a_position_that_is_not_one_is_refused():
    with pytest.raises(ValueError, match="`position` must be one of \\('fen', 'squares'\\), got 'board'"):
        Chess(position="board")
    with pytest.raises(ValueError, match="`faithful=True` needs `position='fen'`"):
        Endgames(position="squares", faithful=True)


@pytest.mark.parametrize("faithful", [False, True])
@pytest.mark.parametrize("message", ["e 5\n", "", "--", "Z0", "0000", "@@@@", "Qh5", "e7e5", "K e 2", "O-O", "hello"])
def test_what_is_no_legal_move_costs_one_and_changes_nothing(message, faithful):
    env = Chess(faithful=faithful)
    first, _ = env.reset(seed=0)
    assert env.step(message) == (first, -1.0, False, False, {})
    assert env.state_key == (START, 1)
    assert env.step("e4")[1] == 0.0


@pytest.mark.parametrize(
    ("fen", "text", "uci", "is_read_by_both"),
    [
        (START, "e 4\n", "e2e4", True),
        (START, "e4", "e2e4", True),
        (START, "e2e4", "e2e4", True),
        (START, "N f 3", "g1f3", True),
        (START, "g1f3", "g1f3", True),
        (START, "Nf3!?", "g1f3", False),
        (START, "e\n4", "e2e4", False),
        (MATE_IN_ONE, "Ra8#", "a1a8", True),
        (MATE_IN_ONE, "Ra8", "a1a8", True),
        (PROMOTION, "O-O", "e1g1", True),
        (PROMOTION, "0 - 0\n", "e1g1", True),
        (PROMOTION, "e1g1", "e1g1", True),
        (PROMOTION, "o-o", "e1g1", False),
        (PROMOTION, "e 8 = N", "e7e8n", True),
        (PROMOTION, "e8R", "e7e8r", True),
        (PROMOTION, "e7e8q", "e7e8q", True),
        (PROMOTION, "e8", "e7e8q", False),
        (PROMOTION, "e7e8", "e7e8q", False),
        (PROMOTION, "0-0-0", None, True),
        (START, "e4=Q", "e2e4=q", None),
    ],
)
def test_moves_are_read(fen, text, uci, is_read_by_both):
    board = chess.Board(fen)
    if is_read_by_both is None:
        assert read_move(board, text) is None and read_move(board, text, is_strict=True) is None
        return
    move = None if uci is None else chess.Move.from_uci(uci)
    assert read_move(board, text) == move
    assert read_move(board, text, is_strict=True) == (move if is_read_by_both else None)


def test_every_legal_move_is_read_in_all_notations():
    rng, board = random.Random(1), chess.Board()
    for _ in range(120):
        for move in board.legal_moves:
            for text in (board.san(move), spaced(board.san(move)) + "\n", move.uci(), board.lan(move)):
                assert read_move(board, text) == move
        board.push(rng.choice(list(board.legal_moves)))
        if board.is_game_over():
            board.reset()


@pytest.mark.parametrize(
    ("fen", "message", "reward"),
    [
        pytest.param(MATE_IN_ONE, "R a 8 #", 1.0, id="win"),
        pytest.param("k7/8/1K6/8/8/8/8/2Q5 w - - 0 1", "Qc7", 0.0, id="stalemate"),
        pytest.param("8/8/8/8/8/5k2/1p6/K7 w - - 0 1", "Kxb2", 0.0, id="White takes the last piece"),
        pytest.param("8/8/8/8/3k4/8/8/K3Q3 w - - 0 1", "Qe3", 0.0, id="Black takes the last piece"),
        pytest.param("4r1k1/8/8/8/8/8/5PPP/R5K1 w - - 0 1", "Ra2", -1.0, id="loss"),
        pytest.param("8/8/8/3k4/8/8/8/QK6 w - - 148 100", "Qa2", 0.0, id="75 moves"),
    ],
)
def test_games_end_with_their_result(fen, message, reward):
    _, *result, info = _after(Chess(), message, fen=fen)
    assert result == [reward, True, False]
    assert info["success"] == (reward == 1.0)
    assert info["metrics"] == {"outcome": "ended", "success": int(reward == 1.0), "return": reward, "turns": 1}


def test_the_limit_counts_illegal_messages_and_is_one_later_in_the_original():
    for faithful, last in ((False, 3), (True, 4)):
        env = Chess(max_turns=3, faithful=faithful)
        env.reset(seed=0)
        ends = [env.step("?")[2:4] for _ in range(last)]
        assert ends == [(False, False)] * (last - 1) + [(False, True)]


def test_a_position_that_occurs_five_times_is_a_draw_also_after_a_snapshot(tmp_path, monkeypatch):
    (tmp_path / "shufflers.py").write_text(SHUFFLER)
    monkeypatch.syspath_prepend(tmp_path)
    env, other = (Chess(opponent="shufflers:Shuffler") for _ in range(2))
    env.reset(seed=0)
    for turn in range(1, 9):
        if turn == 5:
            state = json.loads(json.dumps(env.get_state()))
            other.reset(seed=3)
            other.set_state(state)
            env = other
        result = env.step("Nf3" if turn % 2 else "Ng1")
        assert result[2] == (turn == 8), turn
    assert result[1] == 0.0


def test_a_snapshot_in_faithful_mode_keeps_numpys_generator():
    env = Endgames(faithful=True, opponent="random")
    env.reset(seed=4)
    state = json.loads(json.dumps(env.get_state()))
    moves = []
    expected = []
    for _ in range(4):
        moves.append(env.expert_action())
        expected.append(env.step(moves[-1]))
    other = Endgames(faithful=True, opponent="random")
    other.set_state(state)
    assert [other.step(move) for move in moves] == expected


def test_endgames_start_legally_with_their_pieces():
    env, seen = Endgames(), Counter()
    for seed in range(100):
        observation, _ = env.reset(seed=seed)
        board = chess.Board(observation[::2])
        assert board.is_valid() and not board.is_check() and board.turn == chess.WHITE and not board.is_game_over()
        seen["".join(sorted(piece.symbol() for piece in board.piece_map().values()))] += 1
    assert set(seen) == {"".join(sorted(pieces)) for pieces in PIECES} and min(seen.values()) > 10
    only = Endgames(pieces=["kRK"])
    assert {len(chess.Board(only.reset(seed=seed)[0][::2]).pieces(chess.ROOK, chess.WHITE)) for seed in range(10)} == {1}


@pytest.mark.parametrize("opponent", ["random", "one_ply"])
def test_the_expert_mates_in_every_endgame(opponent):
    env = Endgames(opponent=opponent)
    for seed in range(8):
        env.reset(seed=seed)
        while not env._is_over:
            info = env.step(env.expert_action())[4]
        assert info["success"] and info["metrics"]["return"] == 1.0 and info["metrics"]["turns"] < 80


def test_the_expert_changes_nothing_and_draws_nothing():
    env = Endgames()
    env.reset(seed=1)
    before = env.get_state()
    assert env.expert_action() == env.expert_action() and env.get_state() == before


def test_the_behaviour_policy_mixes_the_expert_and_random_moves():
    class Expert(Endgames):
        randomness = (0.0, 0.0)

    class Random(Endgames):
        randomness = (1.0, 1.0)

    env = Expert()
    env.reset(seed=0)
    assert env.behaviour(random.Random(0))() == env.expert_action()
    env = Random()
    env.reset(seed=0)
    act = env.behaviour(random.Random(0))
    drawn = Counter(act() for _ in range(100 * len(env.legal_moves())))
    assert set(drawn) == set(env.legal_moves()) and 60 < min(drawn.values()) <= max(drawn.values()) < 150
    assert (Endgames.randomness, Chess.randomness) == ((0.0, 1.0), (0.0, 0.5))


def test_nothing_is_hidden():
    assert not hasattr(Chess(), "hidden_information") and not hasattr(Endgames(), "hidden_information")


def test_render_draws_the_board():
    env = Chess(render_mode="ansi")
    env.reset(seed=0)
    assert env.render().splitlines()[-1] == "R N B Q K B N R"
    assert Chess().render() is None


@pytest.mark.parametrize(
    "fen", ["x", START.replace(" w ", " b "), "8/8/8/8/3k4/8/8/K7 w - - 0 1", "8/8/8/8/3k4/8/8/8 w - - 0 1"]
)
def test_wrong_positions_are_refused(fen):
    with pytest.raises(ValueError) as error:
        Chess().reset(seed=0, options={"fen": fen})
    assert str(error.value) == f"`fen` must be a legal position in which White is to move, got {fen!r}."


@pytest.mark.parametrize("pieces", [[], ["kK"], ["kQK", "KQk"]])
def test_wrong_pieces_are_refused(pieces):
    with pytest.raises(ValueError) as error:
        Endgames(pieces=pieces)
    assert str(error.value) == f"`pieces` must be a list with some of ('kQK', 'kRK', 'kQRK', 'kRRK'), got {pieces!r}."


def test_pieces_that_are_one_text_are_refused():
    with pytest.raises(ValueError, match="^`pieces` must be a sequence of str, got 'kQK'.$"):
        Endgames(pieces="kQK")


@pytest.mark.parametrize("name", ["Chess", "Endgames"])
def test_without_python_chess_one_sentence_says_how_to_get_it(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "chess", None)
    with pytest.raises(ImportError) as error:
        gym.make(f"LMRL-{name}-v0")
    assert str(error.value) == f"LMRL-Chess-v0 and LMRL-Endgames-v0 need python-chess: `{pip_install('[chess]')}`."


def test_python_chess_is_not_imported_with_the_modules():
    code = (
        "import sys, colbench_gym.lmrl.chess.chess_game, colbench_gym.lmrl.chess.expert, colbench_gym.lmrl.chess.opponents\n"
        "assert 'chess' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
