"""The trial episodes of a run: what its agent may say is said to two copies of its environment (`colbench_gym.evaluation.trial`).

What an agent may say is not known in advance, and nonsense ends many games in their first turn. So one episode is played with the best that
there is: the record's own agent, the environment's menu of actions, demonstrations, or else pieces of what the environment itself has said,
which often names its commands. Another episode is of random texts, which an agent also says.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from colbench_gym.evaluation.trial import Act, Messages, Trial, play_trial
from colbench_gym.generators import preserve_rng_state
from colbench_gym.user_file import parse_row, row_texts
from sandboxes.named import where
from sweetrl_agent.core.environment import EnvironmentRecord, Settings
from sweetrl_agent.core.seeds import derive_seed
from sweetrl_agent.core.settings import is_file
from sweetrl_agent.data.distributed import is_first

_log = logging.getLogger(__name__)
#: Trial episodes, each of another task, and demonstrations that messages are taken from.
_EPISODES, _DEMONSTRATIONS = 5, 4
#: Pieces of a message that may be a command: in brackets, quoted, a word or number, a line.
_PIECES = tuple(map(re.compile, (r"\[[^\[\]\n]{1,40}\]", r"[`'\"]([^`'\"\n]{1,40})[`'\"]", r"\w+", r"[^\n]+")))
_NUMBER = re.compile(r"(?<![\w.])-?\d{1,9}(?![\w.]*\d)")
_PLAYED: dict[str, Trial] = {}


def trial_of(config: Settings, record: EnvironmentRecord) -> Trial:
    """The trial of a run's environment. It is played once in a process, before anything else.

    Args:
        config: All settings.
        record: Record of the environment.

    Raises:
        ValueError: If a step of the environment fails.
    """
    task: Any = config.task
    key = repr(asdict(task))
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


def _trial(config: Settings, record: EnvironmentRecord) -> Trial:
    if (known := record.known_trial(config)) is not None:
        return known
    tasks = record.load_tasks(config.task.tasks, config.task)[:_EPISODES]
    with closing(record.environments(config, tasks, 2)) as copies:
        acts = _acts(record, config, tasks, copies.envs[0])
        try:
            return play_trial(copies.envs, [(tasks[i % len(tasks)].id, act) for i, act in enumerate(acts)])
        except Exception as error:  # an external environment may fail in any way
            raise ValueError(f"`env` {config.task.env!r} fails in a trial episode ({where(error)}).") from error


def _acts(record: EnvironmentRecord, config: Settings, tasks: Sequence[Any], copy: Any) -> list[Act]:
    """Who speaks in each trial episode: mostly somebody who may know what to say, once one who does not."""
    if agent := record.trial_agent(config):
        return [agent]
    env = getattr(copy, "env", None)
    actions, told = getattr(getattr(env, "unwrapped", env), "discrete_actions", None), _demonstrated(record, config, tasks)
    able = _from_menu(actions) if actions is not None else _from_demonstrations(told) if told else _from_pieces
    space = getattr(env, "action_space", None)
    if space is None:
        return [able] * _EPISODES
    space.seed(0)
    return [able, lambda messages, turn: str(space.sample()), *[able] * (_EPISODES - 2)]


def _from_menu(actions: Any) -> Act:
    def act(messages: Messages, turn: int) -> str:
        allowed = np.flatnonzero(actions.allowed(messages))
        return str(actions.say(int(_random(messages, turn).choice(allowed)), messages))

    return act


def _from_demonstrations(dialogues: Sequence[Messages]) -> Act:
    """What is said at this turn, or at the end, of one of the dialogues."""
    texts = [[said["content"] for said in dialogue if said["role"] == "assistant"] for dialogue in dialogues]

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
    return np.random.default_rng(derive_seed("trial", turn, *(said["content"] for said in messages[:1])))


def _demonstrated(record: EnvironmentRecord, config: Settings, tasks: Sequence[Any]) -> list[Messages]:
    """A few demonstrations; [] if there are none. What is wrong with them is said where they are used."""
    file = config.task.demonstrations
    try:
        if is_file(file):
            rows = [parse_row(text)[0] or {} for _, text in islice(row_texts(Path(file)), _DEMONSTRATIONS)]
            found = [row.get("messages") or row.get("dialogue_history") or [] for row in rows]
        else:
            found = record.demonstrations(tasks, _DEMONSTRATIONS, 0) if record.has_demonstrations(config.task) else []
        return [talk for talk in found if any(said["role"] == "assistant" for said in talk)]
    except Exception:
        return []
