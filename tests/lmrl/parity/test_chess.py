"""Chess and Endgames against the original with its random opponent: observation, reward and end of every step.

Differences by design are listed in docs/environments/lmrl_chess.md.
"""

from __future__ import annotations

import random
import sys
import types

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("chess", reason="needs python-chess: `pip install .[chess]`")

from colbench_gym.lmrl.chess.chess_game import PIECES
from colbench_gym.lmrl.chess.opponents import OnePly

#: What no move is, or the null move. The last is legal SAN in a form of its own.
NO_MOVES = ("", "\n", "- -\n", "Z 0", "0000", "@@@@", "e 9\n", "N f 3 !\n", "o - o\n", "K e 1 x e 8", "resign", "e\t4", "é")
#: White's king alone against two queens: White is mated, stalemated, or takes one.
LOSING = "8/8/8/8/8/q7/1q6/4K2k w - - 0 1"


class _Stockfish:
    """What the original asks of its engine, which with a random opponent never moves."""

    def __init__(self, path, parameters):
        pass

    def set_fen_position(self, fen):
        pass

    def make_moves_from_current_position(self, moves):
        pass


@pytest.fixture(name="original")
def _original(import_original, monkeypatch):
    """The original's module, with the old generator of NumPy restored afterwards."""
    stockfish, utils = types.ModuleType("stockfish"), types.ModuleType("LLM_RL.utils")
    stockfish.Stockfish, utils.convert_path = _Stockfish, str
    monkeypatch.setitem(sys.modules, "stockfish", stockfish)
    monkeypatch.setitem(sys.modules, "LLM_RL.utils", utils)
    before = np.random.get_state()
    yield import_original("llm_rl_scripts.chess.env.env")
    np.random.set_state(before)


class _Both:
    """The two games, played side by side."""

    def __init__(self, module, name, max_moves=400):
        self.module, self.max_moves = module, max_moves
        self.ours = gym.make(f"LMRL-{name}-v0", faithful=True, opponent="random", max_turns=max_moves).unwrapped
        self.steps, self.ends = 0, []

    def reset(self, seed, fen=None):
        """Start an episode of both. The generator is seeded as the manual says."""
        first, _ = self.ours.reset(seed=seed, options={"fen": fen})
        draws = random.Random(seed)
        np.random.seed(draws.getrandbits(32))
        if fen is None and hasattr(self.ours, "pieces"):
            fen = self.module.large_piece_random_endgame(draws.choice(PIECES))
        self.theirs = self.module.FenChessHistoryEnv(self.max_moves, fen, random_opponent=True)
        (text,) = self.theirs.reset()
        assert (first, False) == (text.text, text.is_action)

    def step(self, action):
        """A step of both; returns whether the episode is over."""
        (text,), reward, is_done = self.theirs.step((self.module.Text(action, True),))
        observation, our_reward, terminated, truncated, _ = self.ours.step(action)
        assert (observation, our_reward, terminated or truncated) == (text.text, reward, bool(is_done))
        assert [said.text for said in self.ours.history] == [text.text]
        self.steps += 1
        if is_done:
            self.ends.append((reward, truncated))
        return bool(is_done)

    def play(self, seed, act, fen=None):
        """An episode of both."""
        self.reset(seed, fen)
        while not self.step(act(self.ours)):
            pass


def _policy(seed):
    """Messages of which a tenth are no moves, and the others those of a one-ply player, at random where nothing can be won."""
    rng, player = random.Random(seed), OnePly()

    def act(env):
        if rng.random() < 0.1:
            return rng.choice(NO_MOVES)
        if rng.random() < 0.2:
            return rng.choice(env.legal_moves())
        return env._say(player.choose(env._board, rng.randrange))

    return act


def test_full_games_are_equal(original):
    both = _Both(original, "Chess", max_moves=60)
    for seed in range(22):
        both.play(seed, _policy(seed))
    assert both.steps >= 1000
    assert (1, False) in both.ends and any(is_cut for _, is_cut in both.ends)


def test_endgames_are_equal(original):
    both = _Both(original, "Endgames")
    for seed in range(30):
        both.play(seed, _policy(seed))
    assert both.steps >= 1000
    assert {(1, False), (0, False)} <= set(both.ends)


def test_lost_games_are_equal(original):
    both = _Both(original, "Chess")
    for seed in range(20):
        both.play(seed, _policy(seed), LOSING)
    assert {(-1, False), (0, False)} <= set(both.ends)


def test_only_illegal_messages_reach_the_least_return(original):
    both = _Both(original, "Endgames", max_moves=400)
    both.play(0, lambda env: "- -\n")
    assert both.steps == 401 and both.ends == [(-1, True)] and both.ours._return == -401


def test_the_originals_copy_loses_its_random_opponent(original):
    made = original.FenChessHistoryEnv(random_opponent=True)
    assert made.chess_env.random_opponent and not made.copy().chess_env.random_opponent
