"""Files of demonstrations as people bring them."""

from __future__ import annotations

import gzip
import json
from types import SimpleNamespace

import pytest

from colbench_gym.errors import ColBenchError
from colbench_gym.tasks.rows import RowError
from sweetrl_agent.core.settings import require_file
from sweetrl_agent.trainers.demonstration_file import demonstration_rows, dialogue, file_dialogues

TALK = [{"role": "user", "content": "Größe?"}, {"role": "assistant", "content": "4"}]
ROWS = [
    {"messages": TALK, "dialogue_history": None, "env": None, "env_kwargs": None},
    {"messages": None, "dialogue_history": TALK, "env": "Mine-v0", "env_kwargs": {"most": 3, "least": None}},
]


def rows_of(path):
    task = SimpleNamespace(demonstrations=str(path), env="mine:Mine-v0", keyword_arguments=lambda: {"most": 3})
    return list(demonstration_rows(SimpleNamespace(config=SimpleNamespace(task=task, sft=SimpleNamespace(sft_dialogues=9)))))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("d.jsonl", b"\xef\xbb\xbf" + "\r\n".join(map(json.dumps, ROWS)).encode()),
        ("d.json", json.dumps(ROWS, indent=1).encode()),
        ("d.jsonl.gz", gzip.compress("\n".join(map(json.dumps, ROWS)).encode(), mtime=0)),
    ],
)  # fmt: skip
def test_every_dialogue_is_read_and_nulls_are_absent(name, content, tmp_path, caplog):
    (tmp_path / name).write_bytes(content)
    assert [dialogue(row, name, number) for number, row in rows_of(tmp_path / name)] == [TALK, TALK]
    assert not caplog.records  # null arguments of the environment are not other arguments


def test_another_format_and_a_malformed_row_are_one_sentence(tmp_path):
    path = tmp_path / "d.jsonl"
    path.write_bytes(json.dumps(ROWS[0]).encode("utf-16"))
    with pytest.raises(ColBenchError, match="got UTF-16 text; convert it"):
        rows_of(path)
    path.write_text(json.dumps(ROWS[0]) + "\n{\n")
    with pytest.raises(
        ColBenchError, match=r"row 2: expected a JSON object \(.*\), got b'\{'; correct or remove the row\.$"
    ) as caught:
        rows_of(path)
    assert not isinstance(caught.value, RowError)


def test_a_folder_is_named(tmp_path):
    with pytest.raises(ValueError, match="^`tasks`: Expected a file of rows, got a folder at "):
        require_file("tasks", str(tmp_path))


@pytest.mark.parametrize(
    ("reasoning", "content", "said", "thought"),
    [
        ("auto", "<think>\nA fee?\n</think>\n\nIs there a fee?", "Is there a fee?", "<think>\nA fee?\n</think>\n\n"),
        ("auto", "A fee?</think>Is there a fee?", "Is there a fee?", "A fee?</think>"),
        ("<plan> </plan>", "<plan>A fee?</plan>Is there a fee?", "Is there a fee?", "<plan>A fee?</plan>"),
        ("none", "<think>A fee?</think>Is there a fee?", "<think>A fee?</think>Is there a fee?", None),
        ("auto", " Is there a fee? ", " Is there a fee? ", None),
    ],
)
def test_a_demonstrated_thought_is_apart_from_what_is_said(reasoning, content, said, thought, make_run, tmp_path):
    """As a sampled one: it is trained with its turn, behind a prompt that may open it, and no later turn reads it."""
    path = tmp_path / "d.jsonl"
    asked = {"role": "user", "content": "<think>My own words.</think>"}
    path.write_text(json.dumps({"messages": [asked, {"role": "assistant", "content": content}]}))
    run = make_run(demonstrations=str(path), sft_batch=1, reasoning=reasoning)
    answer = {"role": "assistant", "content": said, **({"thought": thought} if thought else {})}
    assert file_dialogues(run) == [[asked, answer]]
