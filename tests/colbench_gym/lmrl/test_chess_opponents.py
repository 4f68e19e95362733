"""Players of chess: each against a slow count of what it should play, Stockfish where it is installed, and errors."""

from __future__ import annotations

import json
import pickle
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import gymnasium as gym
import pytest

chess = pytest.importorskip("chess", reason="needs python-chess: `pip install .[chess]`")

from colbench_gym.errors import ColBenchError  # noqa: E402
from colbench_gym.lmrl.chess.chess_game import Chess, make_player  # noqa: E402
from colbench_gym.lmrl.chess.opponents import DEBIAN_STOCKFISH, VALUES, Stockfish, is_mate, material_gain  # noqa: E402

needs_stockfish = pytest.mark.skipif(
    not Path(DEBIAN_STOCKFISH).is_file(), reason="needs Stockfish: `apt-get install stockfish`"
)
MATE_IN_ONE = "r5k1/8/8/8/8/8/5PPP/R5K1 b - - 0 1"
FIXED = {"name": "stockfish", "elo": None, "nodes": 200}


def _positions(number, seed=0):
    """Positions of random games in which somebody is to move."""
    rng, board = random.Random(seed), chess.Board()
    for _ in range(number):
        yield board.copy()
        board.push(rng.choice(list(board.legal_moves)))
        if board.is_game_over():
            board.reset()


def _material(board, color):
    """Sum of a side's pieces, counted in the text of the board."""
    worth = {"p": 1, "n": 3, "b": 3, "r": 5, "q": 9}
    letters = board.board_fen()
    return sum(worth.get(letter.lower(), 0) for letter in letters if letter.isalpha() and letter.isupper() == color)


def test_values_are_by_python_chess_numbers():
    assert {chess.piece_symbol(kind): value for kind, value in VALUES.items() if kind} == {
        "p": 1, "n": 3, "b": 3, "r": 5, "q": 9, "k": 0,
    }  # fmt: skip


def test_mates_and_gains_are_those_of_the_next_position():
    boards = [*_positions(40), chess.Board("4k3/P6p/8/3pP3/8/8/8/4K3 w - d6 0 2"), chess.Board(MATE_IN_ONE)]
    kinds = Counter()
    for board in boards:
        for move in board.legal_moves:
            after = board.copy(stack=False)
            after.push(move)
            assert is_mate(board, move) == after.is_checkmate()
            us, them = board.turn, not board.turn
            won = _material(after, us) - _material(board, us) + _material(board, them) - _material(after, them)
            assert material_gain(board, move) == won
            kinds += Counter({"mate": after.is_checkmate(), "promotion": bool(move.promotion), "ep": board.is_en_passant(move)})
    assert all(kinds[kind] for kind in ("mate", "promotion", "ep"))


def test_a_random_mover_takes_one_draw_among_the_legal_moves():
    board, asked = chess.Board(), []
    player = make_player("opponent", "random")
    assert player.choose(board, lambda number: asked.append(number) or 7) == list(board.legal_moves)[7] and asked == [20]


def test_one_ply_mates_else_wins_the_most_material_else_plays_at_random():
    player, rng = make_player("opponent", "one_ply"), random.Random(0)
    for board in _positions(60, seed=3):
        moves = list(board.legal_moves)
        mates = [move for move in moves if is_mate(board, move)]
        best = mates or [
            move for move in moves if material_gain(board, move) == max(material_gain(board, one) for one in moves)
        ]
        seen = {player.choose(board, rng.randrange) for _ in range(3)}
        assert seen <= set(best)
    board = chess.Board()
    assert len({player.choose(board, rng.randrange) for _ in range(300)}) == 20
    board = chess.Board(MATE_IN_ONE)  # it mates, and does not take the rook
    assert board.san(player.choose(board, rng.randrange)) == "Rxa1#"


def test_names_and_arguments_are_checked():
    with pytest.raises(ValueError) as error:
        Chess(opponent="stockfsh")
    assert str(error.value) == (
        "`opponent` must be one of ('random', 'one_ply', 'search', 'stockfish'), or 'package.module:Class', "
        "got 'stockfsh'. Did you mean 'stockfish'?"
    )
    with pytest.raises(ValueError, match="^The 'one_ply' expert takes no arguments; got \\['depth'\\]"):
        Chess(expert={"name": "one_ply", "depth": 2})
    with pytest.raises(
        ValueError, match="^`opponent` must name a `Player` of `colbench_gym.lmrl.chess.opponents`, got 'json:JSONDecoder'"
    ):
        Chess(opponent="json:JSONDecoder")
    for limit in ({"time_s": 0}, {"nodes": 0}):
        with pytest.raises(ValueError, match="^`time_s` and `nodes` must be positive, got "):
            Stockfish(**limit)
    with pytest.raises(ColBenchError) as failure:
        Chess(opponent={"name": "stockfish", "path": "/nowhere/stockfish"})
    assert str(failure.value) == "No Stockfish at '/nowhere/stockfish': `apt-get install stockfish`, or give its `path`."


@pytest.mark.parametrize("path", ["/bin/true", sys.executable, __file__])
def test_a_program_that_is_no_engine_does_not_start(path, monkeypatch):
    monkeypatch.setattr("colbench_gym.lmrl.chess.opponents.PATIENCE_S", 0.5)
    with pytest.raises(ColBenchError, match=f"^Stockfish at {path!r} does not start: "):
        Stockfish(path=path)


@needs_stockfish
def test_stockfish_mates_and_is_deterministic_at_full_strength_with_nodes():
    board = chess.Board(MATE_IN_ONE)
    player = make_player("opponent", FIXED)
    assert board.san(player.choose(board, None)) == "Rxa1#"
    player.close()
    player.close()
    with pytest.raises(ColBenchError, match="^Stockfish was closed; make the environment anew.$"):
        player.choose(board, None)
    env, games = Chess(opponent=FIXED, expert="one_ply"), []
    for _ in range(2):
        env.reset(seed=0)
        games.append([env.step(env.expert_action()) for _ in range(8)])
        state = json.loads(json.dumps(env.get_state()))
        env.step(env.expert_action())
        env.set_state(state)
        games[-1].append(env.step(env.expert_action()))
    assert games[0] == games[1]
    env.close()


@needs_stockfish
def test_stockfishs_strength_is_set_and_the_papers_is_out_of_its_range():
    with pytest.raises(ValueError) as error:
        Stockfish(elo=200)
    assert str(error.value).startswith("`elo` must be None or in 13") and str(error.value).endswith(
        f"for the engine at {DEBIAN_STOCKFISH!r}, got 200."
    )
    player = Stockfish(time_s=0.02)
    assert (
        player._engine.options["UCI_Elo"].min <= player.elo and player.choose(chess.Board(), None) in chess.Board().legal_moves
    )
    copied = pickle.loads(pickle.dumps(player))
    assert (copied.elo, copied.time_s, copied.nodes) == (1350, 0.02, None) and copied._engine is not player._engine
    player.close()
    copied.close()


@needs_stockfish
def test_many_environments_have_a_stockfish_each():
    envs = gym.make_vec("LMRL-Chess-v0", num_envs=2, opponent=FIXED, expert=FIXED)
    envs.reset(seed=[1, 2])
    assert list(envs.step(["e4", "z"])[1]) == [0.0, -1.0]
    envs.close()


@needs_stockfish
def test_a_program_that_dies_is_an_error_and_no_move():
    player = Stockfish(elo=None, nodes=10)
    player._engine.transport.kill()
    with pytest.raises(ColBenchError, match=f"^Stockfish at {DEBIAN_STOCKFISH!r} failed: "):
        player.choose(chess.Board(), None)
    player.close()


@needs_stockfish
def test_python_ends_though_close_was_forgotten():
    code = "from colbench_gym.lmrl.chess.chess_game import Chess\nenv = Chess(opponent='stockfish')\nenv.reset(seed=0)\nenv.step('e4')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=900, check=False)
    assert (done.returncode, done.stderr) == (0, "")
