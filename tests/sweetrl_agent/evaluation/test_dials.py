"""Comparisons on tasks of other dials, side by side: read, ordered, refused, and drawn with the dials' names."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest

from sweetrl_agent.algorithms.settings import make_config
from sweetrl_agent.config.evaluation import CompareArguments
from sweetrl_agent.evaluation import comparison
from sweetrl_agent.evaluation.checks import check_comparison as check
from sweetrl_agent.evaluation.dials import read_results, summarize
from sweetrl_agent.reporting.comparison_parts import parts
from sweetrl_agent.reporting.page import markdown

QUERIES = {
    "easy": "topics=5&relevant=5&wishes=2-4&turns=10&points=2",
    "standard": "topics=12&relevant=3&wishes=2&turns=6&points=1",
    "hard": "topics=16&relevant=3&wishes=2&turns=7&points=1",
    "topics=8&relevant=3&wishes=2&turns=6&points=1": "topics=8&relevant=3&wishes=2&turns=6&points=1",
}


def _results(dial, success, algorithms=("initial", "sweet")):
    score = {"success": success, "tests_passed": 0.5, "n": 4, "seeds": 2, "by_seed": [success, success]}
    score |= {
        "ci95_agents": {"success": [0.0, 1.0], "tests_passed": [0.0, 1.0]},
        "ci95": {"success": [success - 0.05, success + 0.05], "tests_passed": [0.4, 0.6]},
    }
    pair = {
        "a": "sweet",
        "b": "initial",
        "difference": 0.1,
        "ci95": [0.0, 0.2],
        "p": 0.5,
        "p_holm": 0.5,
        "seeds": 2,
        "seeds_ahead": 2,
    }
    splits = ("test", "unseen")
    return {
        "metric": "tests_passed",
        "algorithms": {name: {split: {**score, "success": success - 0.2 * (split == "unseen")} for split in splits} for name in algorithms},
        "paired": [{**pair, "split": split, "tasks_for_80": None} for split in splits],
        "ledger": {},
        "tasks": {"train": f"embedded:train?{QUERIES[dial]}", "test": f"embedded:test?{QUERIES[dial]}[:4]"},
        "settings": {"seed": 0, "env": "ColBench-Backend-v0"},
        "versions": {},
        "notes": [],
    }  # fmt: skip


@pytest.fixture
def folders(tmp_path):
    """Folders of comparisons by the name of the dial."""
    for i, dial in enumerate(QUERIES):
        (tmp_path / str(i)).mkdir()
        (tmp_path / str(i) / "results.json").write_text(json.dumps(_results(dial, 0.1 * (i + 3))))
    return {dial: str(tmp_path / str(i)) for i, dial in enumerate(QUERIES)}


def test_a_row_holds_the_dial_and_the_numbers_on_test_tasks(folders):
    (row,) = summarize([read_results(folders["hard"])])
    assert (row["name"], row["tasks"]) == ("hard", f"embedded:test?{QUERIES['hard']}[:4]")
    assert list(row["algorithms"]) == ["initial", "sweet"]
    for numbers in row["algorithms"].values():
        assert numbers["success"] == pytest.approx(0.5) and numbers["by_seed"] == pytest.approx([0.5, 0.5])
        assert (numbers["n"], numbers["seeds"], set(numbers["ci95"])) == (4, 2, {"success", "tests_passed"})
    assert [pair["split"] for pair in row["paired"]] == ["test"]


def test_a_row_says_the_turns_that_took_the_place_of_the_dials_own():
    results = _results("hard", 0.5)
    results["settings"]["max_turns"] = 9
    (row,) = summarize([results])
    assert row["name"] == "hard, 9 turns"


@pytest.mark.parametrize(
    ("place", "names"),
    [(0, ["standard", "easy", "hard"]), (1, ["easy", "standard", "hard"]), (2, ["easy", "hard", "standard"])],
)
def test_this_comparison_stands_in_its_place_among_the_others(place, names, folders, make_run):
    run = make_run()
    given = CompareArguments(algorithms=[], credit_tasks=0, dials=[folders["easy"], folders["hard"]], dial_place=place)
    results = comparison.all_results(given, [run])
    assert [row["name"] for row in results["dials"]] == names
    assert results["tasks"] == run.sources == {
        "train": f"embedded:train?{QUERIES['standard']}[:10]", "test": f"embedded:test?{QUERIES['standard']}[:3]",
    }  # fmt: skip
    assert results["dials"][place]["tasks"] == run.sources["test"]
    assert "dials" not in comparison.all_results(CompareArguments(algorithms=[], credit_tasks=0), [run])


def _checked(**settings):
    check(CompareArguments(algorithms=["initial", "sweet"], **settings), make_config())


def test_a_folder_without_results_is_refused(tmp_path):
    with pytest.raises(ValueError) as refused:
        _checked(dials=[str(tmp_path)])
    assert (
        str(refused.value) == f"`dials` must be folders of comparisons, each with a results.json; {str(tmp_path)!r} has none."
    )


def test_a_comparison_from_before_tasks_had_dials_is_refused(folders):
    path = f"{folders['hard']}/results.json"
    with open(path, "w") as file:
        json.dump({"algorithms": {}}, file)
    with pytest.raises(ValueError) as refused:
        _checked(dials=[folders["easy"], folders["hard"]])
    assert str(refused.value) == f"{path} does not name its tasks; run that comparison again."


@pytest.mark.parametrize("place", [-1, 3])
def test_a_place_outside_the_others_is_refused(place, folders):
    with pytest.raises(ValueError) as refused:
        _checked(dials=[folders["easy"], folders["hard"]], dial_place=place)
    assert str(refused.value) == f"`dial_place` must be from 0 to 2, the number of `dials`, got {place}."
    _checked(dials=[folders["easy"], folders["hard"]], dial_place=2)
    _checked()


def _dials_part(results):
    titles = {"initial": "Initial policy", "sweet": "SWEET-RL"}
    return next((part for part in parts(results, titles, {}, {}, False) if part.identifier == "dials"), None)


def test_dials_are_drawn_in_order_with_their_names_on_the_axis(folders):
    results = _results("standard", 0.4)
    assert _dials_part(results) is None
    results["dials"] = summarize([read_results(folder) for folder in folders.values()])
    part = _dials_part(results)
    (chart,) = part.charts
    means = chart.spec["datasets"]["means"]
    for name in ("Initial policy", "SWEET-RL"):
        line = [mean for mean in means if mean["series"] == name]
        assert [mean["y"] for mean in line] == pytest.approx([0.3, 0.4, 0.5, 0.6])
        assert [mean["x"] for mean in line] == sorted(mean["x"] for mean in line)
    places, labels = (param["value"] for param in chart.spec["params"])
    assert labels == ["easy", "standard", "hard", "dial 4"] and places == [0, 1, 2, 3]
    (table,) = part.tables
    assert [row[:3] for row in table.rows][:3] == [
        ("easy", "Initial policy", "30.0%"),
        ("easy", "SWEET-RL", "30.0%"),
        ("standard", "Initial policy", "40.0%"),
    ]
    (*_, hard, own) = [*QUERIES]
    assert part.notes[2] == f"hard: embedded:test?{QUERIES[hard]}[:4]."
    assert part.notes[3] == f"dial 4: {own}: embedded:test?{own}[:4]."


def test_an_algorithm_of_one_dial_alone_has_a_row_and_no_line(folders):
    others = [read_results(folders[dial]) for dial in ("easy", "hard")]
    results = _results("standard", 0.4, ("initial", "sweet", "rft"))
    results["dials"] = summarize([others[0], results, others[1]])
    part = _dials_part(results)
    assert {mean["series"] for mean in part.charts[0].spec["datasets"]["means"]} == {"Initial policy", "SWEET-RL"}
    assert [row[0] for row in part.tables[0].rows if row[1] == "rft"] == ["standard"]


def test_the_chart_is_also_a_file_of_its_own_that_the_markdown_shows(folders):
    results = _results("standard", 0.4)
    results["dials"] = summarize([read_results(folder) for folder in folders.values()])
    part = _dials_part(results)
    (name, drawn), *others = part.chart_files().items()
    assert (
        name == "charts/dials.svg" and not others and "![Success on test tasks](charts/dials.svg)" in markdown("title", [part])
    )
    tree = ElementTree.fromstring(drawn.svg())
    texts = [element.text for element in tree.iter("{http://www.w3.org/2000/svg}text")]
    assert tree.tag == "{http://www.w3.org/2000/svg}svg" and {
        "Initial policy",
        "SWEET-RL",
        "easy",
        "standard",
        "hard",
        "dial 4",
    } < set(texts)
    marks = [mark for mark in tree.iter() if mark.get("aria-label") == "mean" and mark.get("transform")]
    centres = [float(mark.get("transform").removeprefix("translate(").split(",")[0]) for mark in marks]
    assert len(centres) == len({*centres}) == 2 * len(QUERIES)  # side by side, though both lines have the same values


def test_dials_of_another_model_or_human_are_refused(folders, tmp_path):
    path = tmp_path / "0" / "results.json"
    results = json.loads(path.read_text())
    for name, there in (("model", "hub/name"), ("simulator", "terse")):
        path.write_text(json.dumps({**results, "settings": {**results["settings"], name: there}}))
        with pytest.raises(ValueError, match=f"has {name} '{there}', here it is"):
            _checked(dials=[str(tmp_path / "0")])
