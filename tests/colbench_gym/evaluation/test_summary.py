"""Results from rows: means with intervals, paired differences, tokens, cost."""

from __future__ import annotations

import json

import pytest

from colbench_gym.evaluation.prices import cost_of, read_prices
from colbench_gym.evaluation.summary import differences, links, summarize, used
from colbench_gym.evaluation.table import difference_lines, table
from colbench_gym.scoring.intervals import difference_interval, holm, mean_interval, sign_flip_p, wilson


def row(agent, task, success, episode=0, seed=0, outcome="answered", split="test", **others):
    return {
        "agent": agent, "split": split, "task_id": task, "episode": episode, "seed": seed, "outcome": outcome, "success": success,
        "tests_passed": success and float(success), "turns": 3, "answered": 1, **others,
    }  # fmt: skip


def test_differences_are_paired_by_task_seed_and_episode():
    ones = [row("one", f"t{i}", i % 2, seed=seed) for i in range(8) for seed in (0, 1)]
    others = [row("other", f"t{i}", 1, seed=seed) for i in reversed(range(8)) for seed in (0, 1)]
    (pair,) = differences([*ones, *others], "tests_passed")
    values = [float(1 - i % 2) for i in range(8)]
    assert (pair["split"], pair["from"], pair["to"], pair["n"], pair["tasks"]) == ("test", "one", "other", 16, 8)
    assert pair["success"]["difference"] == 0.5
    assert pair["success"]["ci95"] == [round(bound, 4) for bound in difference_interval(values)]
    assert pair["success"]["p"] == round(sign_flip_p(values), 4) == pair["success"]["p_holm"]


def test_void_and_missing_episodes_are_in_no_difference():
    rows = [
        row("one", "a", 1),
        row("one", "b", None, outcome="void"),
        row("one", "c", 1),
        row("two", "a", 0),
        row("two", "b", 1),
    ]
    (pair,) = differences(rows, "tests_passed")
    assert (pair["n"], pair["tasks"], pair["success"]["difference"]) == (1, 1, -1.0)
    assert differences(rows[:3], "tests_passed") == []


def test_three_policies_are_corrected_together():
    rows = [row(agent, f"t{i}", int(i < 3 * k)) for k, agent in enumerate(("a", "b", "c"), 1) for i in range(10)]
    found = differences(rows, "tests_passed")
    p_values = [sign_flip_p([float(i < 3 * y) - float(i < 3 * x) for i in range(10)]) for x, y in ((1, 2), (1, 3), (2, 3))]
    assert [(pair["from"], pair["to"]) for pair in found] == [("a", "b"), ("a", "c"), ("b", "c")]
    assert [pair["success"]["p_holm"] for pair in found] == [round(p, 4) for p in holm(p_values)]


def test_p_values_are_named_corrected_where_a_split_has_several_pairs():
    rows = [row(agent, "t", 1, split=split) for agent in ("a", "b") for split in ("test", "unseen")]
    lines = difference_lines(differences(rows, "tests_passed"), "tests_passed")
    assert lines[1].startswith("test: b minus a: success +0.0 (") and lines[1].endswith(", p = 1.0000; 1 tasks")
    assert "Holm" not in "".join(lines) and len(lines) == 3
    rows += [row("c", "t", 1)]
    corrected = difference_lines(differences(rows, "tests_passed"), "tests_passed")
    assert ["p (Holm) = " in line for line in corrected] == [False, True, True, True, False]
    assert difference_lines([], "tests_passed") == []


def test_of_many_policies_only_what_an_interval_separates_is_shown():
    means = {"a": 0, "b": 0, "c": 0, "d": 0, "e": 10}
    rows = [row(agent, f"t{i}", int(i < k)) for agent, k in means.items() for i in range(10)]
    assert len(difference_lines(differences(rows, "tests_passed"), "tests_passed")) == 1 + 10
    rows += [row("f", f"t{i}", 0) for i in range(10)]
    _, *shown, left = difference_lines(differences(rows, "tests_passed"), "tests_passed")
    assert [line.split(": ")[1] for line in shown] == [*(f"e minus {name}" for name in "abcd"), "f minus e"]
    assert "10 of 15 differences" in left


def test_tokens_and_cost_count_void_episodes_too():
    tokens = {"prompt_tokens": 1000, "generated_tokens": 100, "human_prompt_tokens": 500, "human_generated_tokens": 50}
    rows = [row("a", "t", 1, **tokens), row("a", "u", None, outcome="void", **tokens)]
    prices = {"m": (2.0, 10.0), "h": (1.0, 1.0)}
    found = used(rows, "m", "h", prices)
    assert found["tokens"] == {name: 2 * value for name, value in tokens.items()}
    assert found["cost"] == {"agent": 0.006, "human": 0.0011, "total": 0.0071}
    assert used(rows, "m", "", prices)["cost"] == {"agent": 0.006, "human": 0.0, "total": 0.006}
    assert used(rows, "other", "h", prices)["cost"] == {"agent": None, "human": 0.0011, "total": None}
    assert "cost" not in used(rows, "m", "h", {})
    unknown = used([row("a", "t", 1, **{**tokens, "prompt_tokens": None})], "m", "h", prices)
    assert unknown["tokens"]["prompt_tokens"] is None and unknown["cost"]["total"] is None


def test_what_has_no_tokens_costs_nothing():
    assert cost_of({}, "random", 0, 0) == 0.0


@pytest.mark.parametrize("name", ["prices.json", "prices.yaml"])
def test_prices_are_json_or_yaml(name, tmp_path):
    text = json.dumps({"m": {"input": 1, "output": 2.5}}) if name.endswith("json") else "m:\n  input: 1\n  output: 2.5\n"
    (tmp_path / name).write_text(text)
    assert read_prices(str(tmp_path / name)) == {"m": (1.0, 2.5)}
    assert read_prices("") == {}


@pytest.mark.parametrize(
    "text", ["[]", "{", '{"m": 3}', '{"m": {"input": 1}}', '{"m": {"input": -1, "output": 1}}', '{"m": {"input": NaN, "output": 1}}',
             '{"m": {"input": true, "output": 1}}', '{"m": {"input": 1, "output": 1, "x": 1}}', "a: [", "[" * 100_000],
)  # fmt: skip
def test_other_files_of_prices_are_refused_in_one_sentence(text, tmp_path):
    (tmp_path / "p").write_text(text)
    with pytest.raises(ValueError, match="^`prices` ") as refused:
        read_prices(str(tmp_path / "p"))
    assert "\n" not in str(refused.value) and len(str(refused.value)) < 400


def test_the_table_says_what_is_unknown_and_prints_no_control_characters():
    rows = [row("evil\x1b[2J", "t", 1), row("v", "t", None, outcome="void")]
    results = {
        "policies": {"evil\x1b[2J": {}, "v": {}}, "metric": "tests_passed", "differences": differences(rows, "tests_passed"),
        **{agent: {"test": {**summarize([r for r in rows if r["agent"] == agent]), **used([{}], "m", "", {"m": (1, 1)})}}
           for agent in ("evil\x1b[2J", "v")},
    }  # fmt: skip
    text = table(results)
    assert "\x1b" not in text and "evil\\x1b[2J" in text
    assert "every episode was void" in text and "? + ?" in text


def played(task, success, tests_passed, turns=4, answered=True, leak=0.0):
    return {
        "task_id": task, "outcome": "answered", "success": success, "tests_passed": tests_passed, "turns": turns,
        "answered": answered, "leak": leak,
    }  # fmt: skip


VOID_ROW = {"task_id": "v", "outcome": "void", "success": None, "tests_passed": None, "turns": 0, "answered": None, "leak": 0.0}


def test_means_and_intervals_leave_void_episodes_out():
    rows = [played("a", 1, 1.0, 2), played("b", 0, 0.5, 4, leak=0.3), VOID_ROW, played("c", 0, 0.0, 3, answered=False)]
    score = summarize(rows)
    assert score == {
        "success": 0.3333, "tests_passed": 0.5, "n": 3, "void": 1, "turns": 3.0, "answered": 0.6667, "leak": 0.1,
        "ci95": {
            "success": [round(x, 4) for x in wilson(1 / 3, 3)],
            "tests_passed": [round(x, 4) for x in mean_interval([1.0, 0.5, 0.0], ["a", "b", "c"])],
        },
    }  # fmt: skip


def test_repeated_tasks_are_no_independent_evidence():
    rows = [played(task, success, float(success)) for task, success in (("a", 1), ("a", 1), ("b", 0), ("b", 0))]
    interval = summarize(rows)["ci95"]["success"]
    assert interval == [round(x, 4) for x in mean_interval([1.0, 1.0, 0.0, 0.0], ["a", "a", "b", "b"])]
    assert interval != [round(x, 4) for x in wilson(0.5, 4)]


@pytest.mark.parametrize("rows", [[], [VOID_ROW, VOID_ROW]])
def test_without_evidence_there_is_no_mean(rows):
    assert summarize(rows) == {"success": None, "tests_passed": None, "n": 0, "void": len(rows), "ci95": {}}


def test_links_say_whether_wishes_are_heard_and_written_down():
    rows = [
        {**played("a", 1, 1.0), "points_stated": 3, "wishes_heard": 1.0},
        {**played("b", 0, 0.5), "points_stated": 2, "wishes_heard": 1.0},
        {**played("c", 0, 0.0), "points_stated": 4, "wishes_heard": 0.5},
        {**played("d", 0, 0.0), "points_stated": 0, "wishes_heard": 0.0},
        {**played("e", 1, 1.0), "points_stated": 1, "wishes_heard": None},
    ]
    found = {"points_stated": 2.25, "wishes_heard": 0.625, "all_heard": 0.5, "success_if_all_heard": 0.5}
    assert links(rows) == found and summarize([*rows, VOID_ROW])["links"] == found
    assert links(rows[2:]) == {"points_stated": 2.0, "wishes_heard": 0.25, "all_heard": 0.0, "success_if_all_heard": None}
    assert links([{**rows[0], "points_stated": None}, *rows])["points_stated"] is None, "rows of another program"
    assert links(rows[4:]) == links([played("f", 1, 1.0)]) == {}
