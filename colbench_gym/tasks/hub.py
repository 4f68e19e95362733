"""Tasks of the dataset hub: rows of ColBench-Backend as ``hub:OWNER/DATASET[@REVISION][:SPLIT]``, pages as ``hub:HuggingFaceM4/WebSight[:SPLIT]``.

Page tasks are the first 20,000 rows of WebSight, half for training and half for testing, as in ColBench-Frontend. The pages of WebSight load
photos from Unsplash by keyword. As in the benchmark's own rows, these are replaced by photos of the same size from picsum.photos.

Source: HuggingFaceM4/WebSight v0.2 (CC BY 4.0); arXiv:2503.15478, section 3. Which half is used for training is our choice: the
benchmark publishes neither.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from colbench_gym.errors import TaskError
from colbench_gym.tasks.task import HiddenTask, Task
from sandboxes.extras import pip_install

#: Latest known commit of facebook/collaborative_agent_bench. Its pages only show abbreviated hashes.
PINNED_REVISIONS = {"facebook/collaborative_agent_bench": "cf3526d"}
WEBSIGHT, CONFIGURATION = "HuggingFaceM4/WebSight", "v0.2"
ROWS_OF_A_SPLIT = 10_000
SPLITS = ("train", "test")
_NAME = re.compile(r"^hub:(?P<repo>[\w.-]+/[\w.-]+)(?:@(?P<revision>[\w.-]+))?(?::(?P<split>\w+))?$")
_SHORT_HASH = re.compile(r"^[0-9a-f]{7,39}$")
_UNSPLASH = re.compile(r"https?://source\.unsplash\.com/random/(\d+)x(\d+)/?\?\w*")


def file_of_rows(name: str) -> Path:
    """Download the rows of ColBench-Backend that a name states; the hub's client keeps them.

    Raises:
        ValueError: If the name has another format or an unknown split.
        TaskError: If the hub cannot be reached.
    """
    match = _NAME.match(name)
    if match is None:
        raise ValueError(f"Expected 'hub:OWNER/DATASET[@REVISION][:SPLIT]', got {name!r}.")
    repo, split = match["repo"], match["split"] or "train"
    revision = match["revision"] or PINNED_REVISIONS.get(repo, "main")
    if split not in SPLITS:
        raise ValueError(f"The dataset's backend splits are {SPLITS}, got {split!r}.")
    try:
        from huggingface_hub import HfApi, hf_hub_download
    except ImportError as error:
        raise TaskError(f"{name!r} needs huggingface_hub: `{pip_install('[train]')}`.") from error
    try:
        if _SHORT_HASH.match(revision):  # downloads take full hashes only
            commits = HfApi().list_repo_commits(repo, repo_type="dataset")
            revision = next((c.commit_id for c in commits if c.commit_id.startswith(revision)), revision)
        return Path(hf_hub_download(repo, f"backend_tasks/{split}.jsonl", repo_type="dataset", revision=revision))
    except Exception as error:  # the hub client raises a dozen unrelated types for "not reachable"
        raise _not_reached(
            repr(name),
            error,
            "use 'embedded:train', or copy the dataset's backend_tasks/*.jsonl here and give its path; "
            "a gated dataset needs `hf auth login` first.",
        ) from error


def page_tasks(name: str) -> tuple[Task, ...]:
    """The page tasks of a split of WebSight, streamed from the hub.

    Raises:
        ValueError: If the name is another dataset's, or the split is unknown.
        TaskError: If the hub cannot be reached.
    """
    match = _NAME.match(name)
    if match is None or match["repo"] != WEBSIGHT:
        raise ValueError(f"Page tasks of the hub are 'hub:{WEBSIGHT}[:SPLIT]', got {name!r}.")
    split = match["split"] or "train"
    if split not in SPLITS:
        raise ValueError(f"WebSight's splits are {SPLITS}, got {split!r}.")
    first = ROWS_OF_A_SPLIT * SPLITS.index(split)
    try:
        from datasets import load_dataset

        rows: Iterable[Mapping[str, Any]] = load_dataset(WEBSIGHT, CONFIGURATION, split="train", streaming=True)
        return tuple(page_task(row, first + i) for i, row in enumerate(islice(rows, first, first + ROWS_OF_A_SPLIT)))
    except Exception as error:  # the hub client raises a dozen unrelated types for "not reachable"
        raise _not_reached(
            "WebSight", error,
            "use 'embedded:train' or the path of a JSONL file with `problem_description` and `ground_truth`; the package datasets comes "
            f"with `{pip_install('[train]')}`.",
        ) from error  # fmt: skip


def page_task(row: Mapping[str, Any], number: int) -> Task:
    """A page task of a row of WebSight ("llm_generated_idea", "text")."""
    html = _UNSPLASH.sub(r"https://picsum.photos/id/48/\1/\2", row["text"])
    return Task(f"websight/{number}", row["llm_generated_idea"], "", HiddenTask(html, ()))


def _not_reached(what: str, error: Exception, instead: str) -> TaskError:
    reason = ": ".join([type(error).__name__, *str(error).splitlines()[:1]])
    return TaskError(f"Could not get {what} from the hub ({reason}). Without a network, {instead}")
