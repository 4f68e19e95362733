"""Behaviour data of the number game of `examples.own_environment`, with rewards: what tests of offline algorithms learn from."""

from __future__ import annotations

import random

from examples.own_environment import Guess
from sweetrl_agent.core.episode import Episode, Turn


def guesses(count):
    """Episodes of a guesser that stays within the known range but does not halve it."""
    rng, env = random.Random(0), Guess()
    return [_guessed(rng, env, number) for number in range(count)]


def _guessed(rng, env, number):
    observation, _ = env.reset(seed=10_000_000 + number)
    messages, turns, low, high, is_over = [{"role": "user", "content": observation}], [], 1, env.most, False
    while not is_over:
        guess = rng.randint(low, high)
        said = f"Is it {guess}?"
        reply, reward, terminated, truncated, _ = env.step(said)
        low, high = (guess + 1, high) if reply == "Higher." else (low, guess - 1)
        is_over = terminated or truncated
        turns.append(Turn(said, reward=reward))
        messages += [{"role": "assistant", "content": said}, {"role": "user", "content": reply}]
    score = sum(turn.reward for turn in turns)
    metrics = {"outcome": "right" if score else "wrong", "success": bool(score), "turns": len(turns)}
    return Episode(str(10_000_000 + number), 0, messages[:-1], turns, metrics, score)
