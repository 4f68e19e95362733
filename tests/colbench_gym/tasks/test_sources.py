"""Task sources by name."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

from colbench_gym.errors import TaskError
from colbench_gym.tasks import load_tasks
from colbench_gym.tasks.rows import row_from_task

UNKNOWN = (
    "`tasks` must be 'embedded:' and one of ('train', 'test', 'unseen', 'novel') (and '/DOMAIN' and '?DIAL'), a path that ends in .jsonl, "
    "'hub:OWNER/DATASET', or 'package.module:function', got 'nothing'."
)


@pytest.fixture
def rows(tmp_path, total_task):
    """A file of ten rows."""
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row_from_task(total_task())) + "\n" for _ in range(10)))
    return path


@pytest.mark.parametrize(
    ("suffix", "expected"),
    [("", range(10)), ("[:3]", range(3)), ("[8:]", range(8, 10)), ("[2:4]", range(2, 4)), ("[-1:]", [9]), ("[:-8]", range(2))],
)
def test_a_file_and_its_slices(rows, suffix, expected):
    assert [task.id for task in load_tasks(f"{rows}{suffix}")] == [f"rows/{i}" for i in expected]


def test_an_empty_slice_is_refused(rows):
    with pytest.raises(TaskError) as caught:
        load_tasks(f"{rows}[20:]")
    assert str(caught.value) == f"The slice of '{rows}[20:]' is empty; '{rows}' holds 10 tasks."


def test_skipped_rows_are_counted_and_listed(rows):
    rows.write_text(rows.read_text() + "{\n")
    with pytest.raises(TaskError, match=r"line 11, field '\(the line\)'"):
        load_tasks(str(rows))
    with pytest.warns(UserWarning, match=r"1 malformed rows left out, 10 kept:\n  line 11, field '\(the line\)'"):
        assert len(load_tasks(str(rows), on_error="skip")) == 10


def test_tasks_pass_through_if_their_ids_differ(total_task):
    assert load_tasks([total_task()]) == (total_task(),)
    expected = r"^Expected tasks with different ids, got 1 ids more than once, such as 'total/0'\.$"
    with pytest.raises(TaskError, match=expected):
        load_tasks([total_task(), total_task(), total_task("total/1")])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("embedded:dev", "The embedded split must be one of ('train', 'test', 'unseen', 'novel'), got 'dev'."),
        (
            "embedded:unseen/dev",
            "The domain of 'embedded:unseen/dev' must be one of ('figures', 'entries'), got 'dev'.",
        ),
        (
            "embedded:novel/figures?preset=hard",
            "The domain of 'embedded:novel/figures?preset=hard' must be one of ('travel', 'metering', 'library', 'texts'), got 'figures'.",
        ),
        ("nothing", UNKNOWN),
        ("hub:one", "Expected 'hub:OWNER/DATASET[@REVISION][:SPLIT]', got 'hub:one'."),
        ("hub:a/b:dev", "The dataset's backend splits are ('train', 'test'), got 'dev'."),
    ],
)
def test_unknown_names_are_refused(name, text):
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        load_tasks(name)


@pytest.mark.parametrize("name", ["hub:facebook/collaborative_agent_bench", "hub:nobody/nothing@main:test[:5]"])
def test_the_hub_without_a_network_says_what_to_do(name):
    pytest.importorskip("huggingface_hub", reason="needs huggingface_hub; run `pip install .[train]`")
    code = f"from colbench_gym.tasks import load_tasks\ntry: load_tasks({name!r})\nexcept Exception as e: print(type(e).__name__, e)"
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    hub = name.split("[")[0]
    assert result.stdout.startswith(f"TaskError Could not get {hub!r} from the hub (")
    assert result.stdout.strip().endswith(
        "Without a network, use 'embedded:train', or copy the dataset's backend_tasks/*.jsonl here and give its path; "
        "a gated dataset needs `hf auth login` first."
    )
