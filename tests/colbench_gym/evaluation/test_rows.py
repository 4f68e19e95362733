"""The file of rows: order, void rows that are held back, kept ones, and what a kill leaves; settings and names of an evaluation."""

from __future__ import annotations

import json

import pytest

from colbench_gym.errors import ColBenchError
from colbench_gym.evaluation.folder import merged_settings
from colbench_gym.evaluation.names import split_name, unique_names
from colbench_gym.evaluation.rows import LEAST_EPISODES, Key, Played, RowFile, StoppedError, is_void, read_evaluation
from colbench_gym.files import append_rows, read_rows
from colbench_gym.stage_records import StageRecords

LABEL = {"agent": "a", "split": "test", "seed": 0}
KEYS = [Key(task, 0) for task in "abcdef"]


def row(task, outcome="answered"):
    """A row without its label."""
    return {"task_id": task, "episode": 0, "outcome": outcome}


class Player:
    """Yields a row for each key; those of some tasks are void, and at one task it stops with what had ended behind it."""

    def __init__(self, batch=1, void="", down="", ended=()):
        self.batch, self.void, self.down, self.ended, self.asked = batch, void, down, ended, []

    def play(self, batches, on_end):
        for batch in batches:
            tasks = [key.task_id for key in batch]
            self.asked += tasks
            if self.down in tasks and self.down:
                raise StoppedError("down", [Played(row(task)) for task in self.ended])
            yield [Played(row(task, "void"), "no luck.", "luck") if task in self.void else Played(row(task)) for task in tasks]


@pytest.fixture
def file(tmp_path):
    return RowFile(tmp_path / "evaluation.jsonl", LABEL)


def tasks(file):
    return "".join(found["task_id"] for found in read_rows(file.path))


@pytest.mark.parametrize(("batch", "left"), [(1, "ef"), (2, "ef"), (3, "def")])
def test_it_resumes_after_the_last_whole_batch(batch, left, file):
    append_rows(file.path, [{**LABEL, "agent": "b", **row("x")}, *({**LABEL, **row(task)} for task in "abcd")])
    with file.path.open("ab") as open_file:
        open_file.write(b'{"agent": "a", "spl')
    player = Player(batch)
    file.play(KEYS, player, "a")
    assert "".join(player.asked) == left and tasks(file) == "xabcdef"
    assert read_rows(file.path)[1] == {**LABEL, **row("a")}


def test_void_batches_wait_for_a_valid_one_and_are_played_again_when_all_is_down(file):
    with pytest.raises(StoppedError):
        file.play(KEYS, Player(void="ac", down="d"), "a")
    assert tasks(file) == "ab"
    player = Player(void="f")
    file.play(KEYS, player, "a")
    assert player.asked == list("cdef") and tasks(file) == "abcdef", "at the end they are written"


def test_what_had_ended_behind_the_one_that_failed_is_kept(file):
    kept = file.path.with_suffix(".unfinished.jsonl")
    for ended in ("e", ""):
        with pytest.raises(StoppedError):
            file.play(KEYS, Player(2, down="d", ended=ended), "a")
        assert [found["row"]["task_id"] for found in read_rows(kept)] == ["e"]
    player = Player(2)
    file.play(KEYS, player, "a")
    assert (player.asked, tasks(file), kept.exists()) == (list("cdf"), "abcdef", False)


def test_void_episodes_are_played_again_in_place_and_others_are_kept(file):
    other = RowFile(file.path, {**LABEL, "seed": 1})
    for of_seed in (other, file):
        of_seed.play(KEYS, Player(void="bd"), "a")
    before, player = list(other.rows()), Player()
    file.play(KEYS, player, "a", replay_void=True)
    assert player.asked == ["b", "d"] and list(file.rows()) == [{**LABEL, **row(task)} for task in "abcdef"]
    assert list(other.rows()) == before and read_rows(file.path)[:6] == before


def test_void_episodes_that_were_played_again_are_there_when_a_service_goes_down(file):
    file.play(KEYS, Player(void="bdf"), "a")
    with pytest.raises(StoppedError):
        file.play(KEYS, Player(down="f"), "a", replay_void=True)
    assert [found["task_id"] for found in file.rows() if is_void(found)] == ["f"]
    player = Player()
    file.play(KEYS, player, "a", replay_void=True)
    assert player.asked == ["f"] and not any(map(is_void, file.rows()))


def test_playing_void_episodes_again_leaves_what_was_kept(file):
    other = RowFile(file.path, {**LABEL, "agent": "b"})
    for of_agent, down, ended in ((other, "b", "c"), (file, "d", "ef")):
        with pytest.raises(StoppedError):
            of_agent.play(KEYS, Player(void="a" * (of_agent is file), down=down, ended=ended), "a")
    player = Player()
    file.play(KEYS, player, "a", replay_void=True)
    assert player.asked == ["a", "d"] and not any(map(is_void, file.rows())), "e and f had ended"
    player = Player()
    other.play(KEYS, player, "b")
    assert player.asked == ["b", "d", "e", "f"] and not file.path.with_suffix(".unfinished.jsonl").exists()


def test_too_many_void_episodes_end_it(file):
    keys = [Key(f"{number}", 0) for number in range(LEAST_EPISODES)]
    void = [key.task_id for key in keys[:21]]
    file.play(keys[:-1], Player(void=void), "a", max_void=0.5)  # few episodes say nothing
    for _ in range(2):  # again, with nothing left to play
        with pytest.raises(ColBenchError) as refused:
            file.play(keys, Player(void=void), "a", max_void=0.5)
    assert str(refused.value) == (
        "21 of 40 episodes are void: the simulator or the sandbox failed. `--max_void` allows 50%. Fix it and give the same command with "
        "`--replay_void true` to play them again, or allow more."
    )
    with pytest.raises(ColBenchError, match=r"21 of 40 .* The last error: no luck\. Fix it"):
        RowFile(file.path, {"agent": "b"}).play(keys, Player(40, void=void), "b", max_void=0.5)
    file.play(keys, Player(), "a", max_void=0.5, replay_void=True)
    assert not any(map(is_void, file.rows()))


@pytest.mark.parametrize("line", ["[]", "{", '{"agent": "a"}', "[" * 100_000, "\x00"])
def test_a_file_of_other_rows_is_refused_with_the_line(line, tmp_path):
    (tmp_path / "e").write_text(
        json.dumps({**LABEL, **row("a"), "success": 1, "m": 1.0, "turns": 1, "answered": 1}) + "\n" + line + "\n"
    )
    with pytest.raises(
        ColBenchError, match="e, line 2: expected a JSON object with agent, split, task_id, episode, outcome, got"
    ):
        read_evaluation(tmp_path / "e", "m")


@pytest.mark.parametrize("spoilt", [{"success": "yes"}, {"m": None}, {"leak": []}])
def test_a_row_without_its_numbers_is_named(spoilt, tmp_path):
    good = {**LABEL, **row("a"), "success": 1, "m": 1.0, "turns": 1, "answered": 1}
    append_rows(tmp_path / "e", [good, {**LABEL, **row("v", "void")}])
    assert len(read_evaluation(tmp_path / "e", "m")) == 2
    append_rows(tmp_path / "e", [{**good, "task_id": "b", **spoilt}])
    with pytest.raises(ColBenchError, match=rf"expected a number for {next(iter(spoilt))} in the row of a, test, b, got "):
        read_evaluation(tmp_path / "e", "m")


def test_settings_may_be_added_and_not_changed(tmp_path):
    given = {"evaluation": {"env": "E"}, "policies": {"a": {"policy": "random"}}, "tasks": {"test": "x"}}
    records = StageRecords(tmp_path)
    records.settings = given
    more = merged_settings(records, {**given, "policies": {"b": {"policy": "oracle"}}})
    assert list(more["policies"]) == ["a", "b"]
    with pytest.raises(
        ValueError, match="has another 'a' of policies: policy 'random' there, 'oracle' here; give the same to resume"
    ):
        merged_settings(records, {**given, "policies": {"a": {"policy": "oracle"}}})
    assert merged_settings(StageRecords(tmp_path / "new"), given) == given


def test_short_names_where_they_differ():
    assert split_name("embedded:test/figures?preset=hard[:50]") == "test/figures"
    assert split_name("data/rows.jsonl[5:]") == "rows" and split_name("hub:a/b:train") == "train"
    assert unique_names(["x:1", "y:1", "z"], ["1", "1", "z"]) == ["x:1", "y:1", "z"]
    with pytest.raises(ValueError, match="got 'x' twice; name one of them, as in other=x"):
        unique_names(["x", "x"], ["1", "1"])
    with pytest.raises(ValueError, match="^Expected another name of a policy than 'metric'"):
        unique_names(["metric"], ["metric"])
