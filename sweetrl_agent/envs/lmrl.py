"""Records of LMRL-Gym's games: behaviour data as demonstrations, defaults of a tiny model, exact advantages where they are known.

A task is the episode that a seed starts, with the arguments of the environment. Dialogues are the whole history: observations are the user's messages.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar

from colbench_gym.evaluation.trial import Trial
from colbench_gym.lmrl.data import episodes
from sandboxes.named import load_named, name_and_arguments
from sweetrl_agent.core.critic import Critic
from sweetrl_agent.core.environment import EnvironmentRecord
from sweetrl_agent.core.episode import Episode, Messages

#: First seed of behaviour data, larger than the seeds of tasks.
FIRST_SEED = 100_000_000


@dataclass(frozen=True)
class GameTask:
    """An episode of a game.

    Attributes:
        seed: Seed of `reset`.
        env: Id of the environment.
        arguments: Its keyword arguments, as JSON.
    """

    seed: int
    env: str
    arguments: str

    @property
    def id(self) -> str:
        """The seed as decimal digits."""
        return str(self.seed)


class GameRecord(EnvironmentRecord):
    """A game of LMRL-Gym. The metric is the raw return. A sentence of either side is a token, as far as the vocabulary goes."""

    defaults: ClassVar[Mapping[str, Any]] = {
        "sft_dialogues": 3_000, "sft_epochs": 4, "sft_batch": 32, "sft_learning_rate": 3e-3, "sft_muon_learning_rate": 1e-2,
        "tiny_hidden_size": 96, "tiny_layers": 2, "tiny_vocab_size": 4_096, "temperature": 1.0, "max_new_tokens": 12,
        "num_tasks": 250, "tasks": "seeds:0-9999", "test_tasks": "seeds:1000000-1000199",
        "filtered_bc.fraction": 0.2, "filtered_bc.batch": 32, "filtered_bc.epochs": 4.0,
        "mc.batch": 64, "mc.epochs": 3.0, "mc.learning_rate": 3e-3, "mc.muon_learning_rate": 5e-3, "mc.cql": 0.1, "mc.beta": 8.0,
        "grpo.tasks": 8, "grpo.group": 8, "grpo.iterations": 30, "grpo.learning_rate": 1e-3, "grpo.anneal": True,
    }  # fmt: skip
    uses_global_generators: ClassVar[bool] = False
    pieces: ClassVar[str] = r"[^.?!\n]*[.?!\n]|[^.?!\n]+"
    max_token_length: ClassVar[int] = 96
    success_means: ClassVar[str] = "the game is won"

    def load_tasks(self, source: str, given: Any) -> tuple[GameTask, ...]:
        """See `EnvironmentRecord`; a task also has the arguments of its environment, which demonstrations depend on."""
        arguments = json.dumps(given.keyword_arguments(), sort_keys=True)
        return tuple(GameTask(task.seed, given.env, arguments) for task in super().load_tasks(source, given))

    def behaviour_episodes(self, tasks: Sequence[GameTask], count: int, seed: int) -> list[Episode]:
        """Episodes of the paper's behaviour policies (`colbench_gym.lmrl.data`).

        Their seeds differ from the seeds of tasks. Another seed of the run gives another data set.
        """
        rows = episodes(tasks[0].env, count, FIRST_SEED * (seed + 1), json.loads(tasks[0].arguments))
        return [Episode.from_row(row) for row in rows]

    def has_demonstrations(self, given: Any) -> bool:
        """See `EnvironmentRecord`; all tasks have them."""
        return given.tasks.startswith("seeds:")

    def known_trial(self, config: Any) -> Trial | None:
        """See `EnvironmentRecord`; no trial where a model server plays the other side."""
        names = [
            name_and_arguments(name, value)[0] for name, value in config.task.keyword_arguments().items() if _is_spec(value)
        ]
        return Trial(untried="its other side is a model server") if "openai" in names else None

    def scripted_policy(self, name: str, config: Any) -> None:
        """See `EnvironmentRecord`; None, since a game's expert sees the game instead of a dialogue.

        Raises:
            ValueError: If `name` is "oracle".
        """
        if name == "oracle":
            raise ValueError(
                f"The expert of {config.task.env} sees the game and not the dialogue, so it is no policy: "
                f"`python -m colbench_gym.lmrl.data {config.task.env} --policy expert --episodes 200` plays it and prints its return."
            )


def _is_spec(argument: Any) -> bool:
    """Whether an argument of a game names an object, such as its oracle."""
    return isinstance(argument, str) or (isinstance(argument, Mapping) and isinstance(argument.get("name"), str))


class GuessingRecord(GameRecord):
    """Twenty questions, and guess my city: a question costs 1."""

    defaults: ClassVar[Mapping[str, Any]] = {
        **GameRecord.defaults, "sft_dialogues": 12_000, "sft_epochs": 1, "filtered_bc.epochs": 1.0, "mc.epochs": 1.0, "mc.reward_scale": 10.0,
    }  # fmt: skip


class CarDealerRecord(GameRecord):
    """The car dealer. Words are tokens, since an offer repeats words of the buyer."""

    defaults: ClassVar[Mapping[str, Any]] = {
        **GameRecord.defaults, "max_new_tokens": 40, "sft_dialogues": 12_000, "sft_epochs": 2, "filtered_bc.epochs": 1.0, "mc.epochs": 1.0,
    }  # fmt: skip
    pieces: ClassVar[str] = r" ?\$?[A-Za-z'-]+| ?\$?\d+|[^\sA-Za-z\d]|\s"
    max_token_length: ClassVar[int] = 24


class ChessRecord(GameRecord):
    """Chess, and its endgames. A move is a token. So is a character of a FEN, or a piece with its square (`position="squares"`).

    Only the position counts, so the agent reads no earlier position.
    """

    defaults: ClassVar[Mapping[str, Any]] = {
        **GameRecord.defaults, "history": 0, "sft_dialogues": 4_000, "sft_epochs": 2, "sft_batch": 256, "tiny_vocab_size": 2_048, "test_tasks": "seeds:1000000-1000099",
        "filtered_bc.batch": 256, "filtered_bc.epochs": 2.0, "mc.batch": 16, "mc.reward_scale": 10.0, "grpo.tasks": 2, "grpo.iterations": 20,
        "turn_ppo.tasks": 16, "turn_ppo.iterations": 10, "turn_ppo.learning_rate": 1e-3, "turn_ppo.anneal": True, "turn_ppo.first_value": -100.0,
        "turn_ppo.value_weight": 1e-6,
    }  # fmt: skip
    pieces: ClassVar[str] = r"\A[^/]+\Z| ?[KQRBNPkqrbnp][a-h][1-8]| ?\S|\s"


class EndgamesRecord(ChessRecord):
    """Endgames of chess, which are shorter."""

    defaults: ClassVar[Mapping[str, Any]] = {
        **ChessRecord.defaults, "sft_dialogues": 12_000, "grpo.tasks": 8, "grpo.iterations": 30, "turn_ppo.tasks": 64, "turn_ppo.iterations": 30,
        "turn_ppo.first_value": -8.0, "turn_ppo.value_weight": 1e-4,
    }  # fmt: skip


class ExactRecord(GameRecord):
    """A game whose exact advantages are known: credit accuracy and the critic "exact" are available.

    Attributes:
        advantages: Exact advantages of messages, as "module:function" of `colbench_gym.lmrl`: a function of the dialogue, the hidden information, the
            messages and the arguments of the environment.
    """

    advantages: ClassVar[str]

    def oracles(self, config: Any) -> tuple[str]:
        """See `EnvironmentRecord`."""
        return ("exact",)

    def open_oracle(self, name: str, config: Any, tasks: Sequence[GameTask]) -> AbstractContextManager[Critic]:
        """See `EnvironmentRecord`."""
        return nullcontext(
            ExactAdvantages(load_named("advantages", f"colbench_gym.lmrl.{self.advantages}"), config.task.keyword_arguments())
        )


class ExactAdvantages(Critic):
    """The exact advantage of a game as a `Critic`.

    Args:
        advantages: Function of the dialogue, the hidden information, candidate messages and the arguments of the environment.
        arguments: Keyword arguments of the environment.
    """

    def __init__(self, advantages: Callable[..., list[float]], arguments: Mapping[str, Any]) -> None:
        self.advantages, self.arguments = advantages, arguments

    def rank(self, messages: Messages, hidden: str, texts: Sequence[str]) -> list[float]:
        """See `Critic`."""
        return self.advantages(messages, hidden, texts, self.arguments)


class MazeRecord(ExactRecord):
    """The maze. A sentence of an observation, and a command, are a token each.

    The behaviour data have 24,000 turns, as the paper's, in fewer episodes, since ours are not cut off early. If the position is observed, the
    agent reads only the last observation, as in the paper. If it is hidden, the agent reads the whole dialogue.
    """

    defaults: ClassVar[Mapping[str, Any]] = {
        **GameRecord.defaults, "history": 0, "tiny_vocab_size": 512, "sft_dialogues": 300, "sft_batch": 512, "sft_epochs": 4,
        "sft_learning_rate": 5e-3, "sft_muon_learning_rate": 1.5e-2, "test_tasks": "seeds:1000000-1000099",
        "filtered_bc.fraction": 0.1, "filtered_bc.batch": 8, "filtered_bc.epochs": 4.0,
        "mc.batch": 32, "mc.epochs": 60.0, "mc.learning_rate": 3e-3, "mc.muon_learning_rate": 5e-3, "mc.gamma": 0.95, "mc.reward_scale": 3.0,
        "mc.cql": 0.1, "mc.beta": 8.0,
        "ilql.batch": 32, "ilql.epochs": 180.0, "ilql.learning_rate": 3e-3, "ilql.muon_learning_rate": 5e-3, "ilql.tau": 0.9,
        "ilql.reward_scale": 5.0, "ilql.cql": 0.01, "ilql.polyak": 0.1, "ilql.beta": 16.0,
        "token_ppo.tasks": 32, "token_ppo.iterations": 40, "token_ppo.epochs": 8, "token_ppo.learning_rate": 1e-3,
        "token_ppo.critic_learning_rate": 0.03, "token_ppo.first_value": -35.0, "token_ppo.value_weight": 0.005, "token_ppo.value_clip": 0.0,
        "token_ppo.anneal": True, "grpo.anneal": True,
        "grpo.tasks": 8, "grpo.group": 4, "grpo.iterations": 40, "grpo.epochs": 4, "grpo.learning_rate": 1e-3, "turn_ppo.tasks": 32, "online_filtered_bc.tasks": 32,
    }  # fmt: skip
    #: Other defaults for an agent that reads the whole dialogue.
    defaults_of_whole_dialogues: ClassVar[Mapping[str, Any]] = {
        "history": -1, "sft_batch": 8, "mc.batch": 8, "mc.epochs": 4.0, "ilql.batch": 8, "ilql.epochs": 16.0,
        "token_ppo.epochs": 4, "token_ppo.learning_rate": 2e-4, "token_ppo.first_value": 0.0, "token_ppo.value_weight": 0.001,
        "grpo.epochs": 2, "grpo.learning_rate": 5e-4,
    }  # fmt: skip
    pieces: ClassVar[str] = r"[^.\n]*[.\n]|[^.\n]+"
    advantages = "maze.maze_values:dialogue_advantages"

    def all_defaults(self, arguments: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """See `EnvironmentRecord`; if the position is hidden, the agent reads the whole dialogue."""
        is_observed = (arguments or {}).get("observed", "fully") == "fully"
        return {**super().all_defaults(arguments), **({} if is_observed else self.defaults_of_whole_dialogues)}


class WordleRecord(ExactRecord):
    """Wordle. A guess is a token. So is a color, with its letter if `reply="letters"`."""

    defaults: ClassVar[Mapping[str, Any]] = {
        **GameRecord.defaults, "sft_dialogues": 48_000, "sft_epochs": 3, "sft_batch": 64, "tiny_vocab_size": 2_048, "test_tasks": "seeds:1000000-1000299",
        "mc.epochs": 1.0, "mc.reward_scale": 3.0,
        "ilql.batch": 64, "ilql.epochs": 1.0, "ilql.learning_rate": 3e-3, "ilql.muon_learning_rate": 5e-3, "ilql.tau": 0.8, "ilql.reward_scale": 3.0,
        "ilql.cql": 0.1, "ilql.polyak": 0.1, "ilql.beta": 8.0,
        "filtered_bc.fraction": 0.3, "filtered_bc.epochs": 1.0, "filtered_bc.batch": 64,
        "token_ppo.tasks": 128, "token_ppo.iterations": 40, "token_ppo.learning_rate": 5e-4, "token_ppo.critic_learning_rate": 0.03,
        "token_ppo.first_value": -5.0, "token_ppo.value_weight": 0.05,
        "token_ppo.value_clip": 0.0, "token_ppo.anneal": True, "grpo.tasks": 32, "grpo.iterations": 40,
    }  # fmt: skip
    pieces: ClassVar[str] = r"[a-z](?: [a-z]){4}(?!\n)| ?[a-z]:[byg]| ?\S|\s"
    advantages = "wordle.wordle_values:dialogue_advantages"
