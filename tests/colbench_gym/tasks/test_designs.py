"""The embedded pages: many, different, in at least twelve layouts, the same everywhere."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import replace

import pytest

from colbench_gym.errors import TaskError
from colbench_gym.tasks import load_tasks
from colbench_gym.tasks.designs.design import SLOTS, TRAIN_LAYOUTS, UNSEEN_LAYOUTS, Design, plain_design
from colbench_gym.tasks.designs.embedded import SPLITS, design_of, embedded_designs
from colbench_gym.tasks.designs.topics import TOPICS

ALL = {split: load_tasks(f"embedded:{split}", kind="page") for split in SPLITS}


def test_no_page_stands_in_two_splits_and_no_two_are_alike():
    pages = [task.hidden.reference for tasks in ALL.values() for task in tasks]
    ids = [task.id for tasks in ALL.values() for task in tasks]
    assert len(set(ids)) == len(ids) == 2160
    assert len(set(pages)) > 0.9 * len(pages)  # some slots do not show in some layouts
    seen = {task.hidden.reference for task in ALL["train"]}
    assert sum(task.hidden.reference in seen for task in ALL["test"]) < 0.05 * len(ALL["test"])


def test_layouts_are_many_and_the_unseen_ones_are_unseen():
    layouts = {split: Counter(design_of(task)["layout"] for task in tasks) for split, tasks in ALL.items()}
    assert len(layouts["train"]) == len(TRAIN_LAYOUTS) == 12 and set(layouts["train"]) == set(layouts["test"])
    assert set(layouts["unseen"]) == set(UNSEEN_LAYOUTS) and not set(layouts["unseen"]) & set(layouts["train"])
    assert set(layouts["train"].values()) == {len(ALL["train"]) // 12}


def test_the_first_tasks_are_as_mixed_as_the_whole():
    first = ALL["train"][:144]
    assert len({(design_of(task).topic.key, design_of(task)["layout"]) for task in first}) == 144


def test_a_task_knows_its_design_and_says_little_of_it():
    for task in ALL["train"][::50]:
        design = design_of(task)
        assert design.html() == task.hidden.reference and design.topic.name in task.description
        assert not any(
            words in task.description for words in (*design.topic.headlines, *design.topic.items, f" {design['tone']}")
        )


def test_the_pages_are_the_same_on_every_machine():
    text = json.dumps([(task.id, task.description, task.hidden.reference) for tasks in ALL.values() for task in tasks])
    assert hashlib.sha256(text.encode()).hexdigest() == "a06ce133f3269116e8d5d188c39ab91c7e57915766c4ad7f9ac89e4781949650"


def test_every_slot_shows_on_the_page_of_some_layout():
    for slot, options in SLOTS.items():
        shown = set()
        for layout in SLOTS["layout"]:
            base = Design(TOPICS[0], {**plain_design(TOPICS[0]).choices, "layout": layout})
            shown |= {Design(TOPICS[0], {**base.choices, slot: option}).html() for option in options}
        assert len(shown) >= len(SLOTS["layout"]) if slot == "layout" else len(shown) > len(SLOTS["layout"]), slot


@pytest.mark.parametrize("choices", [{}, {**plain_design(TOPICS[0]).choices, "tone": "mauve"}, {"colour": "red"}])
def test_designs_that_make_no_sense_are_refused(choices):
    with pytest.raises(ValueError, match="Expected a choice for each|`tone` must be one of"):
        Design(TOPICS[0], choices)


def test_unknown_splits_and_foreign_tasks_are_refused(tmp_path):
    with pytest.raises(ValueError, match="must be one of"):
        embedded_designs("dev")
    with pytest.raises(ValueError, match="Expected an embedded page"):
        design_of(replace(ALL["train"][0], id="rows/3"))


def test_rows_of_the_benchmark_are_read(tmp_path):
    path = tmp_path / "rows.jsonl"
    row = {"problem_description": "A shop.", "ground_truth": "<html>x</html>"}
    path.write_text(f"{json.dumps(row)}\n{json.dumps({'task': row, 'answer': None})}\n")
    tasks = load_tasks(str(path), kind="page")
    assert [(t.id, t.description, t.hidden.reference) for t in tasks] == [
        ("rows/0", "A shop.", "<html>x</html>"), ("rows/1", "A shop.", "<html>x</html>"),
    ]  # fmt: skip
    path.write_text(json.dumps({**row, "ground_truth": "no page"}))
    with pytest.raises(TaskError, match="field 'ground_truth': expected the source of a page, got 'no page'"):
        load_tasks(str(path), kind="page")
