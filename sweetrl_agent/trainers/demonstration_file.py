"""The file of demonstrations: its first rows, which must be of the run's environment."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from colbench_gym.errors import ColBenchError
from colbench_gym.outside_text import printable
from sweetrl_agent.core.run import Run
from sweetrl_agent.data.files import Row, iter_rows

_log = logging.getLogger(__name__)


def demonstration_rows(run: Run) -> Iterator[tuple[int, Row]]:
    """The first `sft_dialogues` rows of the file `demonstrations`, numbered from 1. A row need not name its environment.

    The first row whose environment had other arguments (`env_kwargs`) is logged as a warning: other arguments may mean other texts.

    Raises:
        ColBenchError: If a row names another environment (`env`) than the run's.
    """
    task, warned = run.config.task, False
    file, env, arguments = task.demonstrations, task.env.rpartition(":")[2], task.keyword_arguments()
    for number, row in enumerate(islice(iter_rows(Path(file)), run.config.sft.sft_dialogues), 1):
        if row.get("env", env) != env:
            raise ColBenchError(f"{file!r}, row {number}: expected an episode of {env}, got one of {str(row['env'])[:80]}.")
        if not warned and row.get("env_kwargs", arguments) != arguments:
            warned = True
            theirs = printable(str(row["env_kwargs"])[:200])
            _log.warning("%r, row %d: played with `env_kwargs` %s, and this run has %s.", file, number, theirs, arguments)
        yield number, row
