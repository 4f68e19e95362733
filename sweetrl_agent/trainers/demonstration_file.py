"""The file of demonstrations: its first rows, which must be of the run's environment."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from colbench_gym.errors import ColBenchError
from sweetrl_agent.core.run import Run
from sweetrl_agent.data.files import Row, iter_rows


def demonstration_rows(run: Run) -> Iterator[tuple[int, Row]]:
    """The first `sft_dialogues` rows of the file `demonstrations`, numbered from 1. A row need not name its environment.

    Raises:
        ColBenchError: If a row names another environment (`env`) than the run's.
    """
    file, env = run.config.task.demonstrations, run.config.task.env.rpartition(":")[2]
    for number, row in enumerate(islice(iter_rows(Path(file)), run.config.sft.sft_dialogues), 1):
        if row.get("env", env) != env:
            raise ColBenchError(f"{file!r}, row {number}: expected an episode of {env}, got one of {str(row['env'])[:80]}.")
        yield number, row
