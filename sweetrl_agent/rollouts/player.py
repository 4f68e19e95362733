"""Plays episodes of policies into files of rows (`colbench_gym.evaluation.rows`), with the scheduler of `rollouts.play`, here or on Ray workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from colbench_gym.evaluation.rows import Key, Played, RowFile, StoppedError
from colbench_gym.files import Row
from sweetrl_agent.config.run import RunArguments
from sweetrl_agent.core.episode import Episode, EpisodeKey
from sweetrl_agent.rollouts.play import shard_size
from sweetrl_agent.rollouts.scheduler import ServiceDownError
from sweetrl_agent.rollouts.workers import WorkerFactory, ordered_map


@dataclass(frozen=True)
class RolloutPlayer:
    """A `Player` whose batches are shards of `rollouts.play`.

    Attributes:
        make_worker: `rollouts.play.player` without its argument `on_end`.
        num_envs: Number of dialogues played concurrently.
        to_row: Converts an episode to its row.
        settings: `ray_workers` and `ray_address`.
    """

    make_worker: Callable[..., Any]
    num_envs: int
    to_row: Callable[[Episode], Row]
    settings: RunArguments

    @property
    def batch(self) -> int:
        """Number of episodes that are saved together."""
        return shard_size(self.num_envs)

    def play(self, batches: Sequence[Sequence[Key]], on_end: Callable[[], object]) -> Iterator[list[Played]]:
        """See `Player.play`."""
        make_worker: WorkerFactory[Sequence[EpisodeKey], list[Episode]] = partial(
            self.make_worker, on_end=None if self.settings.ray_workers else on_end
        )
        shards = [[EpisodeKey(*key) for key in batch] for batch in batches]
        try:
            for episodes in ordered_map(make_worker, shards, self.settings):
                yield [self._played(episode) for episode in episodes]
        except ServiceDownError as error:
            raise StoppedError(str(error), [self._played(episode) for episode in error.played.values()]) from None

    def _played(self, episode: Episode) -> Played:
        return Played(self.to_row(episode), episode.error, episode.void_reason)


def play_rows(file: RowFile, episodes: Sequence[EpisodeKey], player: RolloutPlayer, name: str) -> None:
    """Play the missing episodes of a stage, and void ones again where the settings say so; see `RowFile.play`.

    Args:
        file: The rows.
        episodes: All episodes, in order.
        player: Plays them.
        name: What is played, for the progress.
    """
    keys = [Key(episode.task_id, episode.index) for episode in episodes]
    file.play(keys, player, name, player.settings.max_void, player.settings.replay_void)
