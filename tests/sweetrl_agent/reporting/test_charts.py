"""Charts without a browser: axes, every seed, intervals, both forms of a chart."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from sweetrl_agent.reporting.chart import rounded_out, series_class, shortened, ticks
from sweetrl_agent.reporting.comparison_parts import parts
from sweetrl_agent.reporting.curves import learning_charts
from sweetrl_agent.reporting.dot_plot import RING, DotPlot, Group, Row, axis_percent
from sweetrl_agent.reporting.line_chart import Line, LineChart, Point

from .made_up import ALGORITHMS, ATTACK, COLUMNS, CRITICS, TITLES, comparison_results

SVG = "{http://www.w3.org/2000/svg}"


def test_ticks_are_round_and_within():
    assert ticks(0, 1, 5) == [0, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert ticks(-0.58, 0.6, 6) == [-0.4, -0.2, 0, 0.2, 0.4, 0.6]
    assert ticks(3, 1003, 4) == [500, 1000]


def test_ranges_end_at_ticks():
    assert rounded_out(0, 0.31, 5) == (0, 0.4, [0, 0.1, 0.2, 0.3, 0.4])
    assert rounded_out(-0.58, 0.41, 6)[:2] == (-0.6, 0.6)
    low, high, _ = rounded_out(5, 5, 4)
    assert low < 5 < high


@pytest.mark.parametrize("value", [1e308, -1e308, 1e17, 1e-300, 0.0])
def test_numbers_beyond_any_scale_are_drawn(value):
    rows = [Row("r", value, "text", (min(value, 0.0), max(value, 0.0)), (value,), "series-1")]
    chart = DotPlot("t", [Group("", rows)], axis_percent)
    for drawn in (chart.html(), chart.svg()):
        assert "nan" not in drawn and "inf%" not in drawn and 'class="mean"' in drawn
    (curves,) = learning_charts({"run": [{"stage": "s", "step": s, "loss": value * s} for s in (0, 1)]})
    assert "nan" not in curves.svg()


def test_series_beyond_the_last_colour_are_dashed():
    assert [series_class(i) for i in (0, 5, 6, 13)] == [
        "series-0 dash-0",
        "series-5 dash-0",
        "series-0 dash-1",
        "series-1 dash-2",
    ]
    assert shortened("a long name", 10, 30) == "a l…" and shortened("short", 10, 100) == "short"


def found_parts():
    return {part.identifier: part for part in parts(comparison_results(), TITLES, CRITICS, COLUMNS, False)}


@pytest.mark.parametrize("name", ["scores", "paired", "dials", "best-of-n", "scaling", "simulators", "wins", "credit"])
def test_a_part_draws_every_mean_with_every_seed_in_page_and_file(name):
    part = found_parts()[name]
    for chart in part.charts:
        html, tree = str(chart.html()), ElementTree.fromstring(chart.svg())
        classes = [element.get("class") for element in tree.iter()]
        means, seeds, whiskers = (classes.count(of) for of in ("mean", "seed", "whisker"))
        assert means == whiskers > 0 and seeds == 3 * means
        assert (html.count('class="mean"'), html.count('class="seed"')) == (means, seeds)
        assert ATTACK not in html and "<img" not in html
        places = {(e.get("cx"), e.get("cy")) for e in tree.iter(f"{SVG}circle") if e.get("class") == "seed"}
        assert len(places) == seeds  # no seed covers another


def test_scores_of_both_splits_share_an_axis():
    (chart,) = found_parts()["scores"].charts
    assert [group.title for group in chart.groups] == ["test", "unseen"]
    assert [row.value for row in chart.groups[0].rows] == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5])
    assert chart.groups[0].rows[1].seeds == [0.18, 0.23, 0.21] and chart.axis[:2] == (0, 0.6)


def test_a_forest_plot_has_each_difference_with_its_seeds_and_says_what_excludes_nothing():
    (chart,) = found_parts()["paired"].charts
    assert [group.title for group in chart.groups[:2]] == ["test: minus Zero-shot", "test: minus Rejection fine-tuning"]
    rows = {row.name: row for row in chart.groups[0].rows}
    assert rows["SWEET-RL"].value == pytest.approx(0.2) and rows["SWEET-RL"].text == "+20.0"
    assert rows["SWEET-RL"].seeds == pytest.approx([0.2, 0.2, 0.2])  # each seed of one less the same seed of the other
    assert [row.colour for row in chart.groups[0].rows] == [
        "series-quiet",
        "series-positive",
        "series-positive",
        "series-positive",
    ]
    assert chart.axis[0] < 0 < chart.axis[1] and 'class="zero"' in chart.svg()


def test_many_pairs_are_shown_in_a_fold_and_those_with_the_first_in_the_open():
    names = (*ALGORITHMS, "mtdpo", "turn_ppo")
    part = {p.identifier: p for p in parts(comparison_results(names), TITLES, CRITICS, COLUMNS, False)}["paired"]
    assert list(part.named_charts()) == ["paired", "paired_all"]
    first, every = part.charts
    assert [len(group.rows) for group in first.groups] == [6, 6]
    assert sum(len(group.rows) for group in every.groups) == 42
    assert str(every.html()).startswith("<details><summary>All differences (21 on each split)")
    assert set(part.chart_files()) == {"charts/paired.svg", "charts/paired_all.svg"}


def test_the_table_of_differences_has_every_seed():
    (table, _) = found_parts()["paired"].tables
    assert table.head[3] == "By seed" and table.rows[0][3] == "+10.0 +10.0 +10.0"


def test_one_seed_has_neither_ring_nor_interval():
    results = comparison_results(("zero_shot", "sweet"))
    for of in results["algorithms"].values():
        for score in of.values():
            score.update(seeds=1, by_seed=[score["success"]])
    for row in results["paired"]:
        row["seeds"] = 1
    for part in parts(results, TITLES, CRITICS, COLUMNS, False)[:2]:
        assert 'class="seed"' not in part.html() and 'class="whisker"' not in part.html() and 'class="mean"' in part.html()


def test_results_without_ledger_settings_or_pairs_are_shown():
    results = comparison_results(("sweet",)) | {"paired": []}
    for name in ("ledger", "settings", "best_of_n", "scaling", "dials", "simulators", "win_rate", "credit_accuracy"):
        del results[name]
    assert [part.identifier for part in parts(results, TITLES, CRITICS, COLUMNS, False)] == ["scores", "links", "settings"]


def test_a_comparison_without_an_episode_has_no_chart():
    results = {"algorithms": {}, "paired": [], "versions": {}}
    assert [part.chart_files() for part in parts(results, TITLES, CRITICS, COLUMNS, False)] == [{}, {}]


def test_rings_that_would_cover_others_are_lower():
    values = (0.5, 0.5, 0.5 + RING / 3, 0.9)
    chart = DotPlot("t", [Group("", [Row("r", 0.5, "50%", None, values, "series-1")])], axis_percent)
    drawn = re.findall(r'<circle cx="([\d.]+)%" cy="([\d.]+)" r="2.4"', str(chart.html()))
    assert [float(y) for _, y in drawn] == [18, 23, 28, 18] and float(drawn[0][0]) == pytest.approx(50, abs=6)


def test_labels_that_would_overlap_are_in_two_rows_or_left_out():
    points = [Point(x, 0.2) for x in (1, 2, 3, 1000)]
    texts = re.findall(r'y="(\d+)" class="middle">([^<]*)<', LineChart("t", "steps", [Line("a", points, 0)]).html())
    assert texts[:-1] == [("228", "1"), ("243", "2"), ("228", "1000")] and texts[-1][1] == "steps"


def test_lines_at_one_setting_stand_beside_each_other():
    lines = [Line(str(i), [Point(1.0, 0.2, (0.1, 0.3)), Point(2.0, 0.2, (0.1, 0.3))], i) for i in range(3)]
    tree = ElementTree.fromstring(LineChart("t", "x", lines, is_log=True).svg())
    places = [e.get("x1") for e in tree.iter(f"{SVG}line") if e.get("class") == "whisker"]
    assert len(set(places)) == 6
