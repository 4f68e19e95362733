"""Wordle against the original, step by step, on its own list."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from colbench_gym.lmrl.wordle.wordle import Wordle

MIN_STEPS = 1_600
INVALID = [
    "",
    "\n",
    " ",
    "slate\nx",
    "zzzzz",
    "SLATE",
    "Slate",
    "slat",
    "slates",
    "sl4te",
    "s\tlate",
    "sl-te",
    "élate",
    "s l a t",
    "aahed",
]


def _said(word, rng):
    """A word as agents may write it."""
    return rng.choice([word, " ".join(word), " ".join(word) + "\n", f"  {word} \n", word[:2] + "  " + word[2:]])


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # the original leaves its list open
@pytest.mark.parametrize("bad_word_reward", [-1.0, -10.0])
def test_equal_to_the_original_step_by_step(import_original, bad_word_reward):
    original = import_original("llm_rl_scripts.wordle.env.env")
    path = Path(os.environ["COLBENCH_LMRL"]) / "llm_rl_scripts/wordle/vocab/wordle_official_400.txt"
    vocabulary = original.Vocabulary.from_file(str(path))
    theirs = original.ReformatWordleEnvironment(original.WordleEnvironment(vocabulary, bad_word_reward=bad_word_reward))
    ours = Wordle(str(path), invalid_reward=bad_word_reward, faithful=True)
    assert ours.rules.words == tuple(vocabulary.all_vocab)
    first_seed = seed = round(-1000 * bad_word_reward)  # other episodes for each reward
    rng, steps, solved, invalid = random.Random(seed), 0, 0, 0
    while steps < MIN_STEPS:
        history = theirs.reset(seed=seed)
        observation, _ = ours.reset(seed=seed)
        assert [(said.text, said.is_action) for said in ours.history] == [(text.text, text.is_action) for text in history]
        act, done = ours.behaviour(rng), False
        while not done:
            is_invalid = rng.random() < 0.2
            action = rng.choice(INVALID) if is_invalid else _said(act().strip().replace(" ", ""), rng)
            history, expected, done = theirs.step((*history, original.Text(action, True)))
            observation, reward, terminated, truncated, info = ours.step(action)
            assert (observation, reward, terminated or truncated) == (history[-1].text, expected, done), (seed, action)
            assert [(said.text, said.is_action) for said in ours.history] == [(text.text, text.is_action) for text in history]
            assert [ours.rules.words[word] for word in ours.known] == theirs.env.state.vocab.filtered_vocab
            steps, invalid = steps + 1, invalid + is_invalid
        solved += info["success"]
        seed += 1
    print(
        f"Wordle, bad words {bad_word_reward:g}: {steps} steps, {seed - first_seed} episodes, {solved} solved, {invalid} invalid guesses, 0 mismatches"
    )
    assert solved > 100 and invalid > 200
