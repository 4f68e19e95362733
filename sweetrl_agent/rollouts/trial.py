"""The trial episodes of a run: what its agent may say is said to two copies of its environment (`colbench_gym.evaluation.trial`).

What an agent may say is not known in advance, and nonsense ends many games in their first turn. So one episode is played with the best that
there is: the record's own agent, the environment's menu of actions, demonstrations, or else pieces of what the environment itself has said,
which often names its commands. Another episode is of random texts, which an agent also says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
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

#: Demonstrations that messages are taken from.
_DEMONSTRATIONS = 4
#: Pieces of a message that may be a command: in brackets, quoted, a number, a word, a line.
_PIECES = tuple(map(re.compile, (r"\[[^\[\]\n]{1,40}\]", r"[`'\"]([^`'\"\n]{1,40})[`'\"]", r"-?\d+", r"\w+", r"[^\n]+")))
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


def _trial(config: Settings, record: EnvironmentRecord) -> Trial:
    if why := record.untried(config):
        return Trial(untried=why)
    tasks = record.load_tasks(config.task.tasks, config.task)[:2]
    with closing(record.environments(config, tasks, 2)) as copies:
        acts = list(_acts(record, config, tasks, copies.envs[0]))
        try:
            return play_trial(copies.envs, [(tasks[i % len(tasks)].id, act) for i, act in enumerate(acts)])
        except Exception as error:  # an external environment may fail in any way
            raise ValueError(f"`env` {config.task.env!r} fails in a trial episode ({where(error)}).") from error


def _acts(record: EnvironmentRecord, config: Settings, tasks: Sequence[Any], copy: Any) -> Iterator[Act]:
    """Who speaks in each trial episode."""
    if agent := record.trial_agent(config):
        yield agent
        return
    if hasattr(getattr(copy, "env", None), "action_space"):
        bare = copy.env.unwrapped
        actions = getattr(bare, "discrete_actions", None)
        told = _demonstrated(record, config, tasks)
        yield _from_menu(actions) if actions is not None else _from_demonstrations(told) if told else _from_pieces
        space = copy.env.action_space
        space.seed(0)
        yield lambda messages, turn: str(space.sample())
    else:
        yield _from_pieces


def _from_menu(actions: Any) -> Act:
    def act(messages: Messages, turn: int) -> str:
        allowed = np.flatnonzero(actions.allowed(messages))
        return str(actions.say(int(_random(turn).choice(allowed)), messages))

    return act


def _from_demonstrations(dialogues: Sequence[Messages]) -> Act:
    """What is said at this turn, or at the end, of one of the dialogues."""
    texts = [[said["content"] for said in dialogue if said["role"] == "assistant"] for dialogue in dialogues]

    def act(messages: Messages, turn: int) -> str:
        chosen = texts[int(_random(turn).integers(len(texts)))]
        return chosen[min(turn, len(chosen)) - 1]

    return act


def _from_pieces(messages: Messages, turn: int) -> str:
    """A piece of what the environment has said first or last."""
    random = _random(turn)
    heard = "\n".join(messages[place]["content"] for place in ((0, -1) if messages else ()))
    kinds = [pieces for pattern in _PIECES if (pieces := pattern.findall(heard))]
    if not kinds:
        return "yes"
    pieces = kinds[int(random.integers(len(kinds)))]
    return str(pieces[int(random.integers(len(pieces)))])


def _random(turn: int) -> np.random.Generator:
    return np.random.default_rng(derive_seed("trial", turn))


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
