"""Rows of episodes in a file, robust to kills and to failures of services.

Complete batches are appended, so a killed command resumes after the last one. If a service that the episodes need goes down, the player stops:
rows of episodes that had already ended are kept in a second file until their batch is complete. Void episodes stay in the file and are
counted, but not used; a batch of nothing but void episodes waits for a valid one, so that it is played again if all has failed. If there are too many,
the command stops as well; `--replay_void true` plays them again, in place.
"""

from __future__ import annotations

import itertools
import logging
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from colbench_gym.agents.agent import Messages, Turn, agent_turns
from colbench_gym.digests import has_label
from colbench_gym.errors import ColBenchError
from colbench_gym.evaluation.summary import COUNTS, HUMAN_TOKENS, VOID
from colbench_gym.files import Row, append_rows, iter_rows, read_rows, whole_batches, write_rows
from colbench_gym.outside_text import printable
from colbench_gym.progress import Progress

_log = logging.getLogger(__name__)
#: Fields of every row of `evaluation.jsonl`, and those that are numbers where the episode is not void, besides the metric.
FIELDS = ("agent", "split", "task_id", "episode", "outcome")
NUMBERS = ("success", "turns", "answered")
#: Services count as down after this many void episodes in a row, of this many tasks. A server that fails occasionally, or on one task, is not down.
MOST_FAILED, FAILED_TASKS = 10, 3
#: Minimum number of episodes for the check of the share of void ones.
LEAST_EPISODES = 40


class Key(NamedTuple):
    """An episode: its task, and its index among the task's episodes with the same seed."""

    task_id: str
    episode: int


@dataclass(frozen=True)
class Played:
    """A finished episode.

    Attributes:
        row: Its row, without the label of its file.
        error: Why it is void; "" if it is not. It may quote hidden information.
        reason: The same without anything hidden.
    """

    row: Row
    error: str = ""
    reason: str = ""

    @property
    def key(self) -> Key:
        """Its task and index."""
        return key_of(self.row)


class StoppedError(ColBenchError):
    """A service is down, so other episodes would fail too.

    Attributes:
        played: Valid episodes that had ended and were not yielded.
    """

    def __init__(self, message: str, played: Sequence[Played] = ()) -> None:
        super().__init__(message)
        self.played = played


class Player(Protocol):
    """Plays episodes of a policy on the tasks of a split, with one seed. An episode depends on these, its task and its index alone."""

    @property
    def batch(self) -> int:
        """Number of episodes that are saved together."""
        ...

    def play(self, batches: Sequence[Sequence[Key]], on_end: Callable[[], object]) -> Iterator[Sequence[Played]]:
        """Play batches; yields the episodes of each, in the given order.

        Args:
            batches: Keys of episodes, none of them empty.
            on_end: May be called when an episode ends, for progress.

        Raises:
            StoppedError: If a service is down.
        """
        ...


@dataclass(frozen=True)
class RowFile:
    """Rows of episodes.

    Attributes:
        path: The file; it may also contain other rows.
        label: Fields and values that identify these rows among the others.
    """

    path: Path
    label: Row = field(default_factory=dict)

    def is_own(self, row: Row) -> bool:
        """Whether a row belongs to these episodes."""
        return has_label(row, self.label)

    def rows(self) -> Iterator[Row]:
        """The rows of these episodes, in order."""
        return filter(self.is_own, iter_rows(self.path))

    def play(self, keys: Sequence[Key], player: Player, name: str, max_void: float = 1.0, replay_void: bool = False) -> None:
        """Play missing episodes and, with `replay_void`, play void ones again.

        Args:
            keys: All episodes, in order.
            player: Plays them.
            name: What is played, for the progress on standard error.
            max_void: Share of void episodes above which it stops.
            replay_void: Whether void episodes are played again.

        Raises:
            ColBenchError: If a service is down, or more episodes are void than `max_void` allows.
        """
        if replay_void:
            self._replay_void(player, name)
        done = whole_batches(self.path, player.batch, len(keys), self.is_own)
        counts = Counter(map(is_void, self.rows()))
        held: list[Row] = []
        for played in self._played(keys, player, name, done):
            held += [episode.row for episode in played]
            counts.update(is_void(episode.row) for episode in played)
            why = _too_many(counts, max_void, played)
            if why or not all(is_void(episode.row) for episode in played):
                self._append(held)
                held = []
            if why:
                raise ColBenchError(why)
        self._append(held)
        if why := _too_many(counts, max_void):
            raise ColBenchError(why)

    def _append(self, rows: Sequence[Row]) -> None:
        if rows:
            append_rows(self.path, ({**self.label, **row} for row in rows))

    def _replay_void(self, player: Player, name: str) -> None:
        """Replace void episodes by new ones. The file is written as a whole after every batch, so that a stopped command has lost none."""
        void = [key_of(row) for row in self.rows() if is_void(row)]
        for played in self._played(void, player, f"{name}, void episodes again", 0):
            again = {episode.key: {**self.label, **episode.row} for episode in played}
            rows = (again.get(key_of(row), row) if self.is_own(row) else row for row in iter_rows(self.path))
            write_rows(self.path, rows)

    def _played(self, keys: Sequence[Key], player: Player, name: str, done: int) -> Iterator[list[Played]]:
        """Play episodes after the first `done`, with those that were kept; yields batches. A void episode's reason is shown at its first occurrence."""
        if not keys[done:]:
            return
        progress = Progress(len(keys), sys.stderr, f"{printable(name)}:", "episodes", done)
        batches = [keys[start : start + player.batch] for start in range(done, len(keys), player.batch)]
        shown = set[str]()
        with self._kept(keys) as kept:
            missing = [[key for key in batch if key not in kept] for batch in batches]
            ended = itertools.count(done + 1)
            played = player.play([batch for batch in missing if batch], lambda: progress.show(next(ended)))
            for batch, left in zip(batches, missing, strict=True):
                new = {episode.key: episode for episode in (next(played) if left else ())}
                episodes = [new[key] if key in new else kept[key] for key in batch]
                _log_void(episodes, shown)
                yield episodes
            next(played, None)  # it ends here: workers close what they have opened

    @contextmanager
    def _kept(self, keys: Sequence[Key]) -> Iterator[dict[Key, Played]]:
        """Valid ones of these episodes that ended before a service went down; those that end before it does so again are kept too.

        Others stay in the file: those of other labels, and, while void episodes are played again, those that are still to be played.
        """
        path, asked = self.path.with_suffix(".unfinished.jsonl"), {*keys}
        kept, others = dict[Key, Played](), list[Row]()
        for entry in iter_rows(path, ("label", "row")):
            if entry["label"] == self.label and key_of(entry["row"]) in asked:
                kept[key_of(entry["row"])] = Played(entry["row"])
            else:
                others.append(entry)
        try:
            yield kept
        except StoppedError as error:
            ended = {**kept, **{episode.key: episode for episode in error.played}}
            others += [{"label": self.label, "row": episode.row} for episode in ended.values()]
            if others:
                write_rows(path, others)
            raise
        if others:
            write_rows(path, others)
        else:
            path.unlink(missing_ok=True)


def key_of(row: Mapping[str, Any]) -> Key:
    """The task and the index of a row's episode."""
    return Key(row["task_id"], row["episode"])


def is_void(row: Mapping[str, Any]) -> bool:
    """Whether a row of trajectories or of an evaluation is that of a void episode."""
    return bool((row["metrics"]["outcome"] if "metrics" in row else row["outcome"]) == VOID)


def episode_row(
    key: Key,
    metrics: Mapping[str, Any],
    messages: Messages,
    turns: Sequence[Turn],
    *,
    metric: str,
    measures: Mapping[str, Any],
    hidden: Any,
    void_reason: str,
) -> Row:
    """The row of an episode in `evaluation.jsonl`, without its label.

    Args:
        key: The episode.
        metrics: "outcome", "turns" and, if it is not void, "success", "answered" and the metric.
        messages: The dialogue.
        turns: The agent's turns.
        metric: Name of the metric.
        measures: Further numbers of the dialogue, such as "leak" and "wishes_heard".
        hidden: Hidden information.
        void_reason: Why it is void, without anything hidden.
    """
    replies = [len(message["content"]) for message in messages[1:] if message["role"] == "user"]
    return {
        **key._asdict(),
        "outcome": metrics["outcome"],
        **({"void_reason": void_reason} if metrics["outcome"] == VOID else {}),
        "success": metrics.get("success"),
        metric: metrics.get(metric),
        "turns": metrics["turns"],
        "answered": metrics.get("answered"),
        **{name: metrics[name] for name in COUNTS if name in metrics},
        "reply_chars": sum(replies) / len(replies) if replies else 0.0,
        **measures,
        "hidden_information": hidden,
        "dialogue_history": messages,
        **agent_turns(turns),
    }


def evaluator_fields(
    task: Mapping[str, Any],
    answer: str,
    tokens: tuple[int | None, int | None],
    metrics: Mapping[str, Any],
    has_human_model: bool,
) -> Row:
    """What a row of the evaluator has besides: the task and the answer, for `colbench_gym.grade`, and tokens.

    Args:
        task: The task's row; {} if its id identifies it completely.
        answer: What was handed in, or else the last message.
        tokens: Tokens that the policy read and generated; None where they are not known.
        metrics: Metrics of the episode.
        has_human_model: Whether a model plays the simulated human.
    """
    row: Row = {"task": task} if task else {}
    row |= {"answer": answer, "prompt_tokens": tokens[0], "generated_tokens": tokens[1]}
    return row | ({name: metrics.get(name) for name in HUMAN_TOKENS} if has_human_model else {})


def read_evaluation(path: Path, metric: str) -> list[Row]:
    """Read the rows of an `evaluation.jsonl`, and check that all rows that are not void have the required numbers.

    Raises:
        ColBenchError: If a row lacks a number or is malformed; a kill alone does not cause this.
    """
    rows = read_rows(path, FIELDS)
    for row in rows:
        numbers = (*NUMBERS, metric, *(["leak"] if "leak" in row else ()))
        strange = [name for name in numbers if not isinstance(row.get(name), int | float)]
        if strange and row["outcome"] != VOID:
            raise ColBenchError(
                f"{path}: expected a number for {strange[0]} in the row of {row['agent']}, {row['split']}, {row['task_id']}, "
                f"got {row.get(strange[0])!r:.60}; restore or remove the file."
            )
    return rows


def _log_void(played: Sequence[Played], shown: set[str]) -> None:
    for episode in played:
        if episode.reason and episode.reason not in shown:
            shown.add(episode.reason)
            _log.warning("Episode %d of %s is void: %s.", episode.key.episode, episode.key.task_id, episode.reason)


def _too_many(counts: Counter[bool], max_void: float, played: Sequence[Played] = ()) -> str:
    """Why the share of void episodes ends the command; "" if it does not."""
    if counts.total() < LEAST_EPISODES or counts[True] <= max_void * counts.total():
        return ""
    why = next((f" The last error: {episode.error.rstrip('.')}." for episode in reversed(played) if episode.error), "")
    return (
        f"{counts[True]} of {counts.total()} episodes are void: the simulator or the sandbox failed. `--max_void` allows {max_void:.0%}.{why} "
        "Fix it and give the same command with `--replay_void true` to play them again, or allow more."
    )
