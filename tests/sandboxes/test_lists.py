"""Lists on a command line: blanks, commas, brackets, JSON, and names that contain any of these."""

from __future__ import annotations

import pytest

from sandboxes.lists import listed, refuse_list, split_lists


@pytest.mark.parametrize(
    ("word", "values"),
    [
        ("sweet", ["sweet"]),
        ("sweet,grpo", ["sweet", "grpo"]),
        (" sweet, grpo ,", ["sweet", "grpo"]),
        ("[sweet, grpo]", ["sweet", "grpo"]),
        ("embedded:test[:9]", ["embedded:test[:9]"]),
        ("embedded:test[:9],a.jsonl[3:4]", ["embedded:test[:9]", "a.jsonl[3:4]"]),
        ('{"name": "grpo", "clip": 0.1},rft', ['{"name": "grpo", "clip": 0.1}', "rft"]),
        ('{"a": "x},"},b', ['{"a": "x},"}', "b"]),
        ("best of n (sweet untrained; 1, 2)", ["best of n (sweet untrained; 1, 2)"]),
        ("http://a:1/v1,http://b:2/v1", ["http://a:1/v1", "http://b:2/v1"]),
        ("odd(name,x", ["odd(name,x"]),
        ("", [""]),
        (",", [","]),
        ("a\0,b", ["a\0", "b"]),
    ],
)
def test_commas_separate_outside_of_brackets_and_quotes(word, values):
    assert listed(word) == values


def test_blanks_separate_where_no_value_has_them(tmp_path):
    assert listed("0 1 2", splits_blanks=True) == listed("0, 1,2", splits_blanks=True) == ["0", "1", "2"]
    assert listed("my runs,b") == ["my runs", "b"]


def test_the_name_of_a_file_is_one_value(tmp_path):
    path = tmp_path / "a,b.jsonl"
    assert listed(str(path)) == [str(tmp_path / "a"), "b.jsonl"]
    path.write_text("")
    assert listed(str(path)) == [str(path)]


def test_words_of_a_command_line_are_split_in_its_lists_only():
    words = ["random", "--seeds", "0,1", "--output", "a,b", "--my-list=x,y", "z", "--seeds=3"]
    assert split_lists(words, ("seeds", "my_list"), ("seeds",)) == [
        "random", "--seeds", "0", "1", "--output", "a,b", "--my-list", "x", "y", "z", "--seeds=3",
    ]  # fmt: skip


def test_several_values_of_one_are_refused():
    refuse_list("tasks", "a.jsonl", "join them")
    with pytest.raises(ValueError, match=r"^`tasks` takes one value, got 'a' and 'b': join them\.$"):
        refuse_list("tasks", "a,b", "join them")
