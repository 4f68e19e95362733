"""The trial episodes of a run: what its agent may say is said to two copies of its environment (`colbench_gym.evaluation.trial`).

What an agent may say is not known in advance, and nonsense ends many games in their first turn. So one episode is played with the best that
there is: the record's own agent, its demonstrations, or else pieces of what the environment itself has said, which often names its commands.
Another episode is of random texts, which an agent also says.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from typing import Any

import gymnasium as gym
import numpy as np

from colbench_gym.evaluation.trial import Act, Messages, Trial, play_trial
from colbench_gym.generators import preserve_rng_state
from colbench_gym.seeds import derive_seed
from sandboxes.named import where
from sweetrl_agent.core.contract import ContractError
from sweetrl_agent.core.environment import EnvironmentRecord
from sweetrl_agent.core.settings import is_file
from sweetrl_agent.data.distributed import is_first

_log = logging.getLogger(__name__)
#: Trial episodes, each of another task, and demonstrations that messages are taken from.
_EPISODES, _DEMONSTRATIONS = 5, 4
#: Pieces of a message that may be a command: in brackets, quoted, a word or number, a line.
_PIECES = tuple(map(re.compile, (r"\[[^\[\]\n]{1,40}\]", r"[`'\"]([^`'\"\n]{1,40})[`'\"]", r"\w+", r"[^\n]+")))
_NUMBER = re.compile(r"(?<![\w.])-?\d{1,9}(?![\w.]*\d)")
_PLAYED: dict[tuple[Any, ...], Trial] = {}


def trial_of(config: Any, record: EnvironmentRecord) -> Trial:
    """The trial of a run's environment. It is played once in a process, before anything else.

    Args:
        config: All settings.
        record: Record of the environment.

    Raises:
        ValueError: If a step of the environment fails.
    """
    task: Any = config.task
    made_by = getattr(gym.registry.get(task.env), "entry_point", None)  # an id may be registered again
    key = (repr(asdict(task)), type(record), made_by)
    if key not in _PLAYED:
        with preserve_rng_state():
            _PLAYED[key] = _trial(config, record)
    return _PLAYED[key]


def check_trial(config: Any) -> None:
    """Play the trial; where it shows what a run must know, that is logged in a sentence, and in a dry run left to `print_trial`.

    Args:
        config: All settings (`config.job.Config`).

    Raises:
        ValueError: If a step of the environment fails, or `require_reproducible` refuses it.
    """
    trial = trial_of(config, config.record)
    if config.run.require_reproducible:
        trial.require(config.task.env)
    sentence = trial.sentence(config.task.env)
    if sentence and not config.run.dry_run and is_first():
        _log.log(logging.INFO if trial.untried else logging.WARNING, "%s", sentence)


def print_trial(config: Any) -> None:
    """Print the trial as a line of a plan; nothing where none was needed."""
    trial = trial_of(config, config.record)
    sentence = trial.sentence(config.task.env)
    if sentence or trial.num_steps:
        print(f"trial      {sentence or f'two copies of the environment agree in all of {trial.num_steps} steps'}")


def _trial(config: Any, record: EnvironmentRecord) -> Trial:
    if (known := record.known_trial(config)) is not None:
        return known
    tasks = record.load_tasks(config.task.tasks, config.task)[:_EPISODES]
    with closing(record.environments(config, tasks, 2)) as copies:
        acts = _acts(record, config, tasks, copies.envs[0])
        try:
            episodes = [(tasks[i % len(tasks)].id, act) for i, act in enumerate(acts)]
            return play_trial(copies.envs, episodes, has_snapshots="snapshot" in record.capabilities(config))
        except ContractError as error:
            raise ValueError(f"`env` {config.task.env!r} does not keep the contract of environments: {error}") from None
        except Exception as error:  # an external environment may fail in any way
            raise ValueError(f"`env` {config.task.env!r} fails in a trial episode ({where(error)}).") from error


def _acts(record: EnvironmentRecord, config: Any, tasks: Sequence[Any], copy: Any) -> list[Act]:
    """Who speaks in each trial episode: mostly somebody who may know what to say, once one who does not."""
    if agent := record.trial_agent(config):
        return [agent]
    texts = list[list[str]]()
    if record.has_demonstrations(config.task) and not is_file(config.task.demonstrations):
        dialogues = record.demonstrations(tasks, _DEMONSTRATIONS, 0)
        texts = [[message["content"] for message in dialogue if message["role"] == "assistant"] for dialogue in dialogues]
    able = _from_demonstrations(texts) if any(texts) else _from_pieces
    space = getattr(getattr(copy, "env", None), "action_space", None)
    if space is None:
        return [able] * _EPISODES
    space.seed(0)
    return [able, lambda messages, turn: str(space.sample()), *[able] * (_EPISODES - 2)]


def _from_demonstrations(dialogues: Sequence[Sequence[str]]) -> Act:
    """The agent's text at this turn, or at the end, of one of the dialogues."""
    texts = [dialogue for dialogue in dialogues if dialogue]

    def act(messages: Messages, turn: int) -> str:
        chosen = texts[int(_random(messages, turn).integers(len(texts)))]
        return chosen[min(turn, len(chosen)) - 1]

    return act


def _from_pieces(messages: Messages, turn: int) -> str:
    """A piece of what the environment has said first or last, or a number between those that it has named."""
    random = _random(messages, turn)
    heard = "\n".join(messages[place]["content"] for place in ((0, -1) if messages else ()))
    kinds = [pieces for pattern in _PIECES if (pieces := pattern.findall(heard))]
    if numbers := list(map(int, _NUMBER.findall(heard))):
        kinds.append([str(random.integers(min(numbers), max(numbers) + 1))])
    if not kinds:
        return "yes"
    pieces = kinds[int(random.integers(len(kinds)))]
    return str(pieces[int(random.integers(len(pieces)))])


def _random(messages: Messages, turn: int) -> np.random.Generator:
    return np.random.default_rng(derive_seed("trial", turn, *(message["content"] for message in messages[:1])))
