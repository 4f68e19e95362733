"""A game of two turns in which every text earns something, so that two steps of every algorithm have something to learn from."""

from __future__ import annotations

import gymnasium as gym

from colbench_gym.files import write_rows
from sweetrl_agent.core.episode import Episode, Turn

CHARACTERS = "".join(map(chr, range(32, 127))) + "\n"
ASKED, ASKED_AGAIN = (
    "Say something with many vowels, in one sentence of your own.",
    "And something else, with more of them than before.",
)


class Vowels(gym.Env):
    """The return is the share of vowels, and a little for the length; the hidden vowel is for critics."""

    def __init__(self):
        self.observation_space = self.action_space = gym.spaces.Text(max_length=9999, min_length=0, charset=CHARACTERS)

    @property
    def hidden_information(self):
        return f"The best vowel is {self.vowel!r}."

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.vowel, self.said = "aeiou"[int(self.np_random.integers(5))], []
        return ASKED, {}

    def step(self, action):
        self.said.append(action)
        text = " ".join(self.said)
        earned = sum(letter in "aeiou" for letter in text) / max(len(text), 1) + len(text) / 10_000
        is_over = len(self.said) == 2
        return ASKED_AGAIN, earned if is_over else 0.0, is_over, False, {"metrics": {"tests_passed": earned}} if is_over else {}


gym.register("Vowels-v0", entry_point=Vowels, disable_env_checker=True)


def write_behaviour(file, thought=""):
    """Write eight dialogues with rewards: demonstrations for SFT, and the data of offline algorithms."""
    rows = []
    for number in range(8):
        said = [f"{thought}An idea of a {'very ' * (number % 3)}quiet ocean.", f"{thought}Audio, area, {number} and a queue."]
        messages = [text for one in zip((ASKED, ASKED_AGAIN), said, strict=True) for text in one]
        dialogue = [{"role": role, "content": text} for role, text in zip(["user", "assistant"] * 2, messages, strict=True)]
        turns = [Turn(said[0], reward=0.0), Turn(said[1], reward=number / 8)]
        metrics = {"outcome": "right", "success": True, "turns": 2, "answered": True}
        rows.append(Episode(str(number), 0, dialogue, turns, metrics, number / 8).to_row())
    write_rows(file, rows)
    return file
