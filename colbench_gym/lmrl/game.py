"""What the games share: spaces, seeds, the turn limit, the history of texts, snapshots, and the figures of a finished episode.

A game subclasses `TextGame`. It says how an episode begins and what a message of the agent does; it also knows an expert, and the behaviour policies
that the paper's data sets come from. A game with something hidden has an attribute `hidden_information`; one without has none, so that algorithms
that need it are refused.
"""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import gymnasium as gym

from colbench_gym.errors import RenderModeError
from colbench_gym.reasoning import Reasoning
from colbench_gym.spaces import ASCII
from sandboxes.arguments import typed

#: How an episode ended: by a rule of the game, or at its limit of turns.
ENDED, CUT = "ended", "cut"


@dataclass(frozen=True)
class Outcome:
    """What a message of the agent did.

    Attributes:
        text: The next observation.
        reward: Reward of the turn.
        is_over: Whether a rule of the game ends the episode.
        is_success: Whether the episode, if it ends now, is a success.
    """

    text: str
    reward: float
    is_over: bool = False
    is_success: bool = False


@dataclass(frozen=True)
class GameText:
    """A text of the history, as LMRL-Gym's agents read it: texts are concatenated.

    Attributes:
        text: The text.
        is_action: Whether the agent said it.
    """

    text: str
    is_action: bool


class TextGame(gym.Env[str, str]):
    """Base class of the games.

    Attributes:
        rng: The only source of chance in an episode; seeded by `reset(seed=...)`.
        reset_options: Keys that `reset(options=...)` takes; the manual of the game explains them.
        turn: Number of messages of the agent so far.
        history: Texts so far, both sides, the latest last.
    """

    reset_options: ClassVar[tuple[str, ...]] = ()
    metadata = {"render_modes": ["ansi"], "render_fps": 1}

    @typed
    def __init__(self, max_turns: int, faithful: bool = False, render_mode: str | None = None) -> None:
        """Set up a game.

        Args:
            max_turns: Messages of the agent after which an episode is truncated.
            faithful: Whether the original's behaviour is reproduced where it is broken; the manual of each game lists what that changes.
            render_mode: None, or "ansi": `render` returns the history.
        """
        if max_turns < 1:
            raise ValueError(f"`max_turns` must be positive, got {max_turns!r}.")
        if render_mode not in (None, "ansi"):
            raise RenderModeError(f"`render_mode` must be None or 'ansi', got {render_mode!r}.")
        self.observation_space = gym.spaces.Text(max_length=100_000, min_length=0, charset=ASCII)
        self.action_space = gym.spaces.Text(max_length=1_000, min_length=0, charset=ASCII)
        self.max_turns, self.faithful, self.render_mode = max_turns, faithful, render_mode
        self.rng = random.Random()
        self.turn, self.history = 0, list[GameText]()
        self._return, self._is_over, self._is_begun, self._info = 0.0, False, False, dict[str, Any]()

    # ---- what a game defines ---------------------------------------------------------------------------------------------

    @abstractmethod
    def _begin(self, options: Mapping[str, Any]) -> str:
        """Start an episode with `rng`; returns the first observation.

        Args:
            options: What `reset` was given; the manual of the game lists the keys.
        """

    @abstractmethod
    def _play(self, action: str) -> Outcome:
        """The effect of a message of the agent; `turn` counts it already."""

    @abstractmethod
    def _get(self) -> dict[str, Any]:
        """The game's own state, JSON-serializable."""

    @abstractmethod
    def _set(self, state: Mapping[str, Any]) -> None:
        """Return to a state of `_get`."""

    @property
    @abstractmethod
    def state_key(self) -> Hashable:
        """A key of all that the agent can know of the state, the turn included where it matters (capability *anchor*)."""

    @abstractmethod
    def expert_action(self) -> str:
        """The message of an expert in the current state. The manual of the game says whether it is optimal and whether it sees what is hidden."""

    @abstractmethod
    def behaviour(self, rng: random.Random) -> Callable[[], str]:
        """The policy of an episode of the paper's data set.

        Args:
            rng: Draws the kind of policy and its messages; independent of the game's own.

        Returns:
            A function that gives the message for the current state.
        """

    def _remember(self, message: GameText, outcome: Outcome | None = None) -> None:
        """Append a text to the history. A game with a shorter memory overrides this.

        Args:
            message: The text.
            outcome: What the agent's message did, if this is the reply to it.
        """
        self.history.append(message)

    # ---- Gymnasium ---------------------------------------------------------------------------------------------------------

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start an episode. The same seed and options give the same episode; without a seed, the next of a sequence.

        Raises:
            ValueError: If an option is unknown or wrong.
        """
        if strange := set(options or {}) - set(self.reset_options):
            raise ValueError(f"`options` of {type(self).__name__} may have {self.reset_options}, got {sorted(strange)[0]!r}.")
        super().reset(seed=seed)
        self.rng.seed(int(self.np_random.integers(2**63)) if seed is None else seed)
        self._is_begun = False  # until it has begun: what follows may refuse an option
        self.turn, self.history, self._return, self._is_over, self._info = 0, [], 0.0, False, {}
        observation = self._begin(options or {})
        self._is_begun = True
        self._remember(GameText(observation, False))
        return observation, {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Send a message of the agent. What its model thought between marks is left out (`colbench_gym.reasoning`), except in faithful mode.

        A message that the limit of tokens cut is played as far as it goes: a move is whole or no move.

        Raises:
            ResetNeeded: If no episode is under way.
            TypeError: If the action is not a text.
        """
        if not self._is_begun or self._is_over:
            raise gym.error.ResetNeeded("Expected an episode under way; call `reset` before `step`.")
        if not isinstance(action, str):
            raise TypeError(f"`action` must be a text, got {type(action).__name__}.")
        action = action if self.faithful else Reasoning().speech(action)
        self.turn += 1
        self._remember(GameText(action, True))
        outcome = self._play(action)
        self._remember(GameText(outcome.text, False), outcome)
        self._return += outcome.reward
        is_cut = not outcome.is_over and self.turn >= self.max_turns
        self._is_over = outcome.is_over or is_cut
        if self._is_over:
            metrics = {
                "outcome": CUT if is_cut else ENDED,
                "success": int(outcome.is_success),
                "return": self._return,
                "turns": self.turn,
            }
            self._info = {"success": outcome.is_success, "metrics": metrics}
        return outcome.text, float(outcome.reward), outcome.is_over, is_cut, dict(self._info)

    def render(self) -> str | None:
        """The history as one text, the agent's messages behind "> "; None without a render mode."""
        if self.render_mode is None:
            return None
        return "\n".join(f"{'> ' if message.is_action else ''}{message.text.rstrip()}" for message in self.history)

    # ---- snapshots ---------------------------------------------------------------------------------------------------------

    def get_state(self) -> dict[str, Any]:
        """A JSON-serializable snapshot (capability *snapshot*). It contains what is hidden: never show it to an agent."""
        version, numbers, gauss = self.rng.getstate()
        return {
            "game": self._get(),
            "turn": self.turn,
            "history": [[message.text, message.is_action] for message in self.history],
            "return": self._return,
            "info": self._info,
            "is_over": self._is_over,
            "rng": [version, list(numbers), gauss],
        }

    def set_state(self, state: Mapping[str, Any], reseed: int | None = None) -> tuple[str, dict[str, Any]]:
        """Return to a snapshot.

        Args:
            state: A value of `get_state`, of this environment or of another one with the same arguments.
            reseed: None replays the future exactly; a seed keeps the past and samples a new future.

        Returns:
            Observation and info of the restored state.
        """
        version, numbers, gauss = state["rng"]
        self.rng.setstate((version, tuple(numbers), gauss))
        if reseed is not None:
            self.rng.seed(reseed)
        self.turn, self._return = int(state["turn"]), float(state["return"])
        self.history = [GameText(text, is_action) for text, is_action in state["history"]]
        self._is_over, self._is_begun, self._info = bool(state["is_over"]), True, dict(state["info"])
        self._set(state["game"])
        return self.history[-1].text, dict(self._info)
