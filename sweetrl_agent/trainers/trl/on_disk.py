"""Data sets of trainers, in files instead of memory: they may be larger than memory."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path

from datasets import Dataset
from datasets.exceptions import DatasetGenerationError

from colbench_gym.files import Row
from sweetrl_agent.data.distributed import rank

ROWS = "rows"


def on_disk(rows: Iterable[Row], folder: Path, none: str = "There is nothing to train on.") -> Dataset:
    """Write rows to a memory-mapped data set; derived data, such as tokens, is cached next to it.

    Args:
        rows: The rows, consumed one by one.
        folder: Folder of the finished model, which replaces the data. Each process has its own subfolder.
        none: Text of the error if there are no rows.

    Raises:
        ValueError: If there are no rows.
    """
    left = iter(rows)
    first = next(left, None)
    if first is None:
        raise ValueError(none)
    cache = _cache_of(folder)
    shutil.rmtree(cache, ignore_errors=True)  # left by a killed run
    dataset: Dataset = Dataset.from_generator(lambda: chain([first], left), cache_dir=str(cache), fingerprint=ROWS)
    return dataset


def left_on_disk(folder: Path) -> Dataset | None:
    """The data set that `on_disk` has written to a folder, as a killed run left it; None if it was not finished."""

    def nothing() -> Iterator[Row]:
        raise FileNotFoundError(folder)
        yield

    cache = _cache_of(folder)
    if not cache.is_dir():
        return None
    with suppress(DatasetGenerationError):  # of a finished one, the generator is not called
        dataset: Dataset = Dataset.from_generator(nothing, cache_dir=str(cache), fingerprint=ROWS)
        return dataset
    return None


def _cache_of(folder: Path) -> Path:
    """Where this process keeps its rows."""
    return folder / ROWS / str(rank())
