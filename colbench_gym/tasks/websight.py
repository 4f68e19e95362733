"""Page tasks from WebSight, as in ColBench-Frontend: the first 20,000 rows, half for training and half for testing.

The pages of WebSight load photos from Unsplash by keyword. As in the benchmark's own rows, these are replaced by photos of the same size
from picsum.photos.

Source: HuggingFaceM4/WebSight v0.2 (CC BY 4.0); arXiv:2503.15478, section 3. Which half is used for training is our choice: the
benchmark publishes neither.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from colbench_gym.tasks.hub import not_reached
from colbench_gym.tasks.task import HiddenTask, Task
from sandboxes.extras import pip_install

REPOSITORY, CONFIGURATION = "HuggingFaceM4/WebSight", "v0.2"
ROWS_OF_A_SPLIT = 10_000
SPLITS = ("train", "test")
_UNSPLASH = re.compile(r"https?://source\.unsplash\.com/random/(\d+)x(\d+)/?\?\w*")


def websight_tasks(split: str) -> tuple[Task, ...]:
    """The tasks of a split, streamed from the hub.

    Raises:
        ValueError: If the split is unknown.
        TaskError: If the hub cannot be reached.
    """
    if split not in SPLITS:
        raise ValueError(f"WebSight's splits are {SPLITS}, got {split!r}.")
    try:
        from datasets import load_dataset

        rows: Iterable[Mapping[str, Any]] = load_dataset(REPOSITORY, CONFIGURATION, split="train", streaming=True)
        first = ROWS_OF_A_SPLIT * SPLITS.index(split)
        return tuple(task_from_websight(row, first + i) for i, row in enumerate(islice(rows, first, first + ROWS_OF_A_SPLIT)))
    except Exception as error:  # the hub client raises a dozen unrelated types for "not reachable"
        raise not_reached(
            "WebSight", error,
            "use 'embedded:train' or the path of a JSONL file with `problem_description` and `ground_truth`; the package datasets comes "
            f"with `{pip_install('[train]')}`.",
        ) from error  # fmt: skip


def task_from_websight(row: Mapping[str, Any], number: int) -> Task:
    """A page task of a row ("llm_generated_idea", "text")."""
    html = _UNSPLASH.sub(r"https://picsum.photos/id/48/\1/\2", row["text"])
    return Task(f"websight/{number}", row["llm_generated_idea"], "", HiddenTask(html, ()))
