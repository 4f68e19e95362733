"""BabyAI in words: Minigrid's levels with text observations and actions, by a wrapper of ours, for language models and for discrete actions.

    pip install minigrid                                   # not a dependency of this project
    python examples/babyai_text.py [--output runs/babyai] [settings of `python -m sweetrl_agent.train`]

SFT trains a tiny model on walks of which one move in three is random. Then the model is the teacher of bi-directional feedback: it proposes moves to PPO,
and PPO's advantages teach it. Any algorithm of this project runs on the same environment, such as `--algorithm grpo`.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

LEVEL = "BabyAI-GoToRedBallNoDists-v0"
MOVES = ("turn left", "turn right", "go forward")
CHARACTERS = "".join(map(chr, range(32, 127))) + "\n"
#: Moves until an episode is cut.
MAX_MOVES = 30
#: Farthest that a thing can be seen, in steps ahead and to a side, by Minigrid's view of 7 x 7 squares.
AHEAD, ASIDE = 6, 3
_NOTHING = ("unseen", "empty", "wall", "floor")


class Moves:
    """The moves of a level, for agents of discrete actions. An observation has where the goal of the mission is, and whether the way is free."""

    count, discount = len(MOVES), 0.95
    observation_size = 1 + (AHEAD + 1) + (2 * ASIDE + 1) + 1 + 4

    def observe(self, messages: Sequence[dict[str, str]]) -> NDArray[np.float32]:
        """See `sweetrl_agent.core.actions.DialogueActions`: read from the last message of the environment alone."""
        text = next(message["content"] for message in reversed(messages) if message["role"] == "user")
        observation = np.zeros(self.observation_size, np.float32)
        place = goal_of(text)
        if place is not None:
            observation[[0, 1 + place[0], 1 + AHEAD + 1 + ASIDE + place[1]]] = 1.0
        observation[-5] = "The way ahead is free." in text
        if len(messages) > 2:  # the last move: out of sight of the goal, turning on in one direction finds it
            observation[
                -4
                + next(
                    (
                        i
                        for i, move in enumerate(MOVES)
                        if move in messages[-2 if messages[-1]["role"] == "user" else -1]["content"]
                    ),
                    3,
                )
            ] = 1.0
        return observation

    def say(self, action: int, messages: Sequence[dict[str, str]]) -> str:
        """The text of a move."""
        return f"I {MOVES[action]}."

    def allowed(self, messages: Sequence[dict[str, str]]) -> NDArray[np.bool_]:
        """All moves."""
        return np.ones(self.count, bool)


def goal_of(text: str) -> tuple[int, int] | None:
    """Steps ahead and to the right of the goal in an observation; None if it is not seen."""
    mission = text.partition("Your mission: go to ")[2].partition(".")[0].split(" ", 1)[-1]
    for line in text.splitlines():
        thing, found, place = line.partition(": ")
        if found and thing.split(" ", 1)[-1] == mission and "ahead" in place:
            words = place.replace(",", "").rstrip(".").split()
            aside = int(words[words.index("ahead") + 1]) if len(words) > 2 else 0
            return int(words[0]), -aside if "left" in words else aside
    return None


class BabyAIText(gym.Env[str, str]):
    """A level of BabyAI as texts: the mission, what is in view and where, and whether the way is free; moves are named in the agent's message.

    ## Observation
    Three sentences or more, such as "Your mission: go to the red ball.", "a red ball: 3 ahead, 1 left.", "The way ahead is free."

    ## Action
    A text that contains "turn left", "turn right" or "go forward"; any other text is a wasted move.

    ## Reward
    1 for the mission, and 0 before; the success of an episode.

    Args:
        level: Id of a level whose missions need no other moves, such as the GoTo levels.
        max_moves: Moves until an episode is truncated.

    Raises:
        ImportError: If Minigrid is missing; says how to install it.
    """

    discrete_actions = Moves()

    def __init__(self, level: str = LEVEL, max_moves: int = MAX_MOVES) -> None:
        try:
            import minigrid  # noqa: F401  # registers the levels
        except ImportError:
            raise ImportError("BabyAI's levels are in Minigrid, which is not installed: `pip install minigrid`.") from None
        self.level: gym.Env[Any, Any] = gym.make(level)
        self.observation_space = self.action_space = gym.spaces.Text(max_length=1000, min_length=0, charset=CHARACTERS)
        self.max_moves, self._moves = max_moves, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start an episode."""
        view, info = self.level.reset(seed=seed, options=options)
        self._moves = 0
        return in_words(view), info

    def step(self, action: str) -> tuple[str, Any, bool, bool, dict[str, Any]]:
        """Make the move that the text names; Minigrid's numbers of the moves are 0, 1 and 2, and 6 does nothing."""
        move = next((number for number, text in enumerate(MOVES) if text in action.lower()), 6)
        view, reward, terminated, truncated, info = self.level.step(move)
        self._moves += 1
        return in_words(view), float(float(reward) > 0), terminated, truncated or self._moves >= self.max_moves, info

    def close(self) -> None:
        """Close the level."""
        self.level.close()


def in_words(view: dict[str, Any]) -> str:
    """A view of Minigrid as text: the agent stands in the middle of the last row of the 7 x 7 squares and looks up."""
    from minigrid.core.constants import IDX_TO_COLOR, IDX_TO_OBJECT

    image = view["image"]  # [column, row, (object, colour, state)]
    lines = [f"Your mission: {view['mission']}."]
    for row in range(AHEAD, -1, -1):
        for column in range(2 * ASIDE + 1):
            kind, colour = IDX_TO_OBJECT[int(image[column, row, 0])], IDX_TO_COLOR[int(image[column, row, 1])]
            if kind not in (*_NOTHING, "agent"):
                aside = column - ASIDE
                where = f", {abs(aside)} {'left' if aside < 0 else 'right'}" if aside else ""
                lines.append(f"a {colour} {kind}: {AHEAD - row} ahead{where}.")
    ahead = IDX_TO_OBJECT[int(image[ASIDE, AHEAD - 1, 0])]
    return "\n".join([*lines, f"The way ahead is {'free' if ahead == 'empty' else 'blocked'}."])


if "BabyAIText-v0" not in gym.registry:  # run as a script, this file is imported again under its module name
    gym.register("BabyAIText-v0", entry_point=BabyAIText, disable_env_checker=True)


def right_move(text: str) -> int:
    """A move towards the goal: forward until it is at the side, then a turn to that side; without sight of it, forward, and at a wall a turn to the right."""
    place = goal_of(text)
    if place is None:
        return 2 if "The way ahead is free." in text else 1
    ahead, aside = place
    return 2 if ahead else 1 if aside > 0 else 0


def demonstrations(count: int, noise: float = 1 / 3, seed: int = 0) -> list[dict[str, Any]]:
    """Walks towards the goal, of which a share of the moves is random."""
    rng, env = random.Random(seed), BabyAIText()
    rows = []
    for _ in range(count):
        observation, _ = env.reset(seed=rng.randrange(2**31))
        messages, is_over = [{"role": "user", "content": observation}], False
        while not is_over:
            move = rng.randrange(len(MOVES)) if rng.random() < noise else right_move(observation)
            action = f"I {MOVES[move]}."
            observation, _, terminated, truncated, _ = env.step(action)
            is_over = terminated or truncated
            messages += [{"role": "assistant", "content": action}, {"role": "user", "content": observation}]
        rows.append({"messages": messages[:-1]})
    return rows


def main(arguments: list[str]) -> int:
    """Train; returns the exit status."""
    from colbench_gym.files import write_rows
    from sweetrl_agent.train import main as train

    file = Path("runs/babyai.jsonl")
    write_rows(file, demonstrations(300))
    defaults = {
        "env": "examples.babyai_text:BabyAIText-v0", "demonstrations": file, "output": "runs/babyai", "algorithm": "bidirectional",
        "sft_dialogues": 300, "sft_epochs": 4, "tiny_hidden_size": 64, "tiny_layers": 1, "tiny_vocab_size": 400, "max_new_tokens": 12,
        "history": 1, "temperature": 1.0, "bidirectional.rounds": 4, "bidirectional.steps": 4096, "eval_tasks": 100,
    }  # fmt: skip
    return train(arguments, defaults)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    sys.exit(main(sys.argv[1:]))
