"""Page tasks from WebSight: which rows, and what becomes of them. The hub itself is not reached."""

from __future__ import annotations

import pytest

from colbench_gym.errors import TaskError
from colbench_gym.tasks import hub, load_tasks

datasets = pytest.importorskip("datasets")


@pytest.fixture
def requests(monkeypatch):
    calls = []

    def load_dataset(*names, **options):
        calls.append((names, options))
        return ({"llm_generated_idea": f"Idea {i}", "text": f"<p>{i}</p>", "image": b""} for i in range(10))

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    monkeypatch.setattr(hub, "ROWS_OF_A_SPLIT", 4)
    return calls


def test_the_first_rows_are_to_train_on_and_the_next_to_test(requests):
    train, test = (load_tasks(f"hub:HuggingFaceM4/WebSight{split}", kind="page") for split in ("", ":test"))
    assert [task.hidden.reference for task in train] == [f"<p>{i}</p>" for i in range(4)]
    assert [(task.id, task.description) for task in test] == [(f"websight/{i}", f"Idea {i}") for i in range(4, 8)]
    assert requests[0] == (("HuggingFaceM4/WebSight", "v0.2"), {"split": "train", "streaming": True})
    assert len(load_tasks("hub:HuggingFaceM4/WebSight[:2]", kind="page")) == 2


def test_photos_are_asked_for_elsewhere_in_the_same_size():
    html = '<img src="https://source.unsplash.com/random/300x200/?real-estate">'
    task = hub.page_task({"llm_generated_idea": "x", "text": html}, 0)
    assert task.hidden.reference == '<img src="https://picsum.photos/id/48/300/200-estate">'  # as the benchmark's rows have it


def test_without_a_network_it_is_said_what_to_do(monkeypatch):
    def load_dataset(*_, **__):
        raise ConnectionError("no route")

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    with pytest.raises(TaskError, match=r"Could not get WebSight from the hub \(ConnectionError: no route\).*embedded:train"):
        load_tasks("hub:HuggingFaceM4/WebSight", kind="page")


@pytest.mark.parametrize("name", ["hub:someone/else", "hub:HuggingFaceM4/WebSight:dev", "hub:x"])
def test_other_sources_of_the_hub_are_refused(name):
    with pytest.raises(ValueError, match="Page tasks of the hub are|WebSight's splits are"):
        load_tasks(name, kind="page")
