"""Answers that solve nothing and look for the values of the programs before them in the runner, the reference's among them."""

import json

import pytest

import sandboxes
from colbench_gym.grade import main
from colbench_gym.scoring.unit_tests import UnitTests
from colbench_gym.tasks import load_tasks
from colbench_gym.tasks.rows import row_from_task

#: How an answer gets hold of the runner's objects: from the frames that it runs in, or from all objects that there are. Its text does not
#: say that it imports something, so that it shares its runner with the reference.
SEARCHES = {
    "frames": """
    try:
        raise ValueError
    except ValueError as error:
        frame = error.__traceback__.tb_frame
    while frame:
        yield from frame.f_locals.values()
        frame = frame.f_back
""",
    "gc": """
    yield from __builtins__["__imp" "ort__"]("gc").get_objects()
""",
}
ANSWER = """
def _objects():{search}
def {name}(*args, **kwargs):
    found = []
    for thing in _objects():
        box = getattr(thing, "_outbox", None)
        if type(box).__name__ == "Outbox":
            data, at = bytes(box._buffer._memory[:box._buffer.used]), 0
            while at + 14 <= len(data):
                size = int.from_bytes(data[at + 1:at + 5], "big")
                if data[at:at + 1] == b"C":
                    found.append(data[at + 14:at + 14 + size])
                at += 14 + size
            break
    turn = __builtins__.get("turn", 0)
    __builtins__["turn"] = turn + 1
    return eval(found[turn % 10], {{"null": None, "true": True, "false": False}}) if found else {index}
"""


def answers_to(task, search, count=4):
    return [
        f"```python\n{ANSWER.format(search=SEARCHES[search], name=task.function_name, index=index)}\n```"
        for index in range(count)
    ]


@pytest.fixture(params=["embedded", pytest.param("docker", marks=pytest.mark.docker)])
def sandbox_name(request, is_missing):
    if request.param == "docker":
        docker_backend = pytest.importorskip("sandboxes.docker", reason="The docker package is missing.")
        if reason := docker_backend.missing():
            is_missing(f"{reason}: start a daemon, then `python -m sandboxes build`.")
    return request.param


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("search", SEARCHES)
def test_an_answer_gets_no_value_of_its_neighbours(search, workers, sandbox_name):
    tasks = load_tasks("embedded:train")[:10]
    with sandboxes.make(sandbox_name, workers=workers) as sandbox:
        grader = UnitTests(sandbox)
        for task in tasks:
            assert not any(
                score.tests_passed == 1.0 for score in grader.score_many([(task, text) for text in answers_to(task, search)])
            )


def test_nor_through_the_command(sandbox_name, tmp_path):
    (task,) = load_tasks("embedded:train")[:1]
    path, scores_path = tmp_path / "answers.jsonl", tmp_path / "scores.jsonl"
    rows = [{"task": row_from_task(task), "answer": text} for text in answers_to(task, "frames", count=11)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    main([str(path), "--sandbox", sandbox_name, "--workers", "1", "--out", str(scores_path)])
    scores = [json.loads(line) for line in scores_path.read_text().splitlines()]
    assert len(scores) == 11 and not any(score["success"] for score in scores)
