"""What a trainer reads, in a file rather than in memory: it may be larger than that."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

from datasets import Dataset

from sweetrl_agent.data.distributed import rank
from sweetrl_agent.data.files import Row

ROWS = "rows"


def on_disk(rows: Iterable[Row], folder: Path, none: str = "There is nothing to train on.") -> Dataset:
    """Rows as a data set that is mapped into memory as it is read; what is derived from it, such as tokens, lies beside it.

    Args:
        rows: Taken one by one.
        folder: Where the finished model will be; what is in there by then goes. Each process has a part of its own.
        none: The error where there is no row.

    Raises:
        ValueError: If there is no row.
    """
    left = iter(rows)
    first = next(left, None)
    if first is None:
        raise ValueError(none)
    own = folder / ROWS / str(rank())
    shutil.rmtree(own, ignore_errors=True)  # of a run that was killed
    dataset: Dataset = Dataset.from_generator(lambda: chain([first], left), cache_dir=str(own), fingerprint=ROWS)
    return dataset
