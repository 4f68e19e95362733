"""Episodes in a file of the run folder, robust to kills and to failures of services.

Complete shards are appended, so a killed stage resumes after the last one. If the simulator's server or the sandbox goes down, the stage
stops (`rollouts.WorldDownError`): episodes that had already ended are kept in a second file until their shard is complete, and running
episodes are played again. Void episodes stay in the file and are counted, but not used. If there are too many, the stage stops as well;
`--replay_void` plays them again, in place.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from colbench_gym.errors import ColBenchError
from sweetrl_agent.config.run import RunArguments
from sweetrl_agent.core.dialogues import VOID
from sweetrl_agent.core.episode import Episode, EpisodeKey
from sweetrl_agent.core.progress import progress_bar
from sweetrl_agent.data.files import Row, append_rows, iter_rows, whole_batches, write_rows
from sweetrl_agent.rollouts import play
from sweetrl_agent.rollouts.play import shard_size
from sweetrl_agent.rollouts.scheduler import Played, WorldDownError
from sweetrl_agent.rollouts.workers import WorkerFactory, ordered_map

_log = logging.getLogger(__name__)
#: Minimum number of episodes for the check of the share of void ones.
LEAST_EPISODES = 40


@dataclass(frozen=True)
class EpisodeFile:
    """Rows of episodes.

    Attributes:
        path: The file; it may also contain other rows.
        to_row: Converts an episode to its row.
        label: Fields and values that identify these rows among the others.
    """

    path: Path
    to_row: Callable[[Episode], Row]
    label: Row = field(default_factory=dict)

    def rows(self) -> Iterator[Row]:
        """The rows of these episodes, in order."""
        return filter(self.is_own, iter_rows(self.path))

    def is_own(self, row: Row) -> bool:
        """Whether a row belongs to these episodes."""
        return all(row.get(name) == value for name, value in self.label.items())

    def play(
        self, episodes: Sequence[EpisodeKey], num_envs: int, player: Callable[..., Any], settings: RunArguments, said: str
    ) -> None:
        """Play missing episodes and, with `replay_void`, play void ones again.

        Args:
            episodes: All episodes of the file, in order.
            num_envs: Number of dialogues played concurrently.
            player: `play.player` without its arguments `known` and `on_end`.
            settings: `ray_workers`, `max_void` and `replay_void`.
            said: Name of the progress bar.

        Raises:
            ColBenchError: If the simulator or the sandbox is down, or more episodes are void than `max_void` allows.
        """
        counts = Counter(outcome_of(row) == VOID for row in self.rows())
        if counts[True] and settings.replay_void:
            counts = self._replay_void(num_envs, player, settings)
        done = whole_batches(self.path, shard_size(num_envs), len(episodes), self.is_own)
        if done < len(episodes):
            left = play.shards(episodes[done:], num_envs)
            with progress_bar(total=len(episodes), initial=done, desc=said, unit="episode") as bar:
                for trajectories in self._played(left, player, settings, bar):
                    append_rows(self.path, ({**self.label, **self.to_row(t)} for t in trajectories))
                    counts.update(t.is_void for t in trajectories)
                    _refuse_too_many(counts, settings.max_void, trajectories)
        _refuse_too_many(counts, settings.max_void)

    def _played(
        self, left: Sequence[Sequence[EpisodeKey]], player: Callable[..., Any], settings: RunArguments, bar: Any
    ) -> Iterator[list[Episode]]:
        with self._kept() as known:
            make_worker: WorkerFactory[Sequence[EpisodeKey], list[Episode]] = partial(
                player, known=known, on_end=None if settings.ray_workers else bar.update
            )
            done, told = bar.n, set[str]()
            for trajectories in ordered_map(make_worker, left, settings):
                _tell_void(trajectories, told)
                yield trajectories
                done += len(trajectories)
                bar.update(done - bar.n)

    def _replay_void(self, num_envs: int, player: Callable[..., Any], settings: RunArguments) -> Counter[bool]:
        """Replace void episodes by new ones; returns the numbers of void and of other rows."""
        void = [_episode(row) for row in self.rows() if outcome_of(row) == VOID]
        again: dict[EpisodeKey, Row] = {}
        with progress_bar(total=len(void), desc="void episodes again", unit="episode") as bar:
            for trajectories in self._played(play.shards(void, num_envs), player, settings, bar):
                again |= {t.key: {**self.label, **self.to_row(t)} for t in trajectories}
        write_rows(self.path, (again.get(_episode(row), row) if self.is_own(row) else row for row in iter_rows(self.path)))
        return Counter(outcome_of(row) == VOID for row in self.rows())

    @contextmanager
    def _kept(self) -> Iterator[Played]:
        """Valid episodes that ended before the simulator or sandbox went down; those that end during another failure are kept too."""
        path = self.path.with_suffix(".unfinished.jsonl")
        known = {
            _episode(row["trajectory"]): Episode.from_row(row["trajectory"])
            for row in iter_rows(path, ("label", "trajectory"))
            if row["label"] == self.label
        }
        try:
            yield known
        except WorldDownError as error:
            write_rows(
                path,
                ({"label": self.label, "trajectory": t.to_row(with_usage=True)} for t in {**known, **error.played}.values()),
            )
            raise
        path.unlink(missing_ok=True)


def outcome_of(row: Row) -> str:
    """The outcome in a row of trajectories or of an evaluation."""
    return str(row["metrics"]["outcome"] if "metrics" in row else row["outcome"])


def _episode(row: Row) -> EpisodeKey:
    return EpisodeKey(row["task_id"], row["episode"])


def _tell_void(trajectories: Sequence[Episode], told: set[str]) -> None:
    """Show a void episode's reason at its first occurrence."""
    for t in trajectories:
        if t.is_void and t.void_reason not in told:
            told.add(t.void_reason)
            _log.warning("Episode %d of %s is void: %s.", t.index, t.task_id, t.void_reason)


def _refuse_too_many(counts: Counter[bool], max_void: float, played: Sequence[Episode] = ()) -> None:
    if counts.total() < LEAST_EPISODES or counts[True] <= max_void * counts.total():
        return
    why = next((f" The last error: {t.error.rstrip('.')}." for t in reversed(played) if t.error), "")
    raise ColBenchError(
        f"{counts[True]} of {counts.total()} episodes are void: the simulator or the sandbox failed. `--max_void` allows {max_void:.0%}.{why} "
        "Fix it and give the same command with `--replay_void true` to play them again, or allow more."
    )
