"""Charts without a browser: every mean, seed and interval, in a page's specification and in the file that is drawn from it."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from sweetrl_agent.reporting.charts import PERCENT, RING, Line, Point, Row, dot_plot, line_chart
from sweetrl_agent.reporting.comparison_parts import parts
from sweetrl_agent.reporting.curves import learning_charts
from sweetrl_agent.reporting.page import embedded_json
from sweetrl_agent.reporting.palette import LIGHT, colour

from .made_up import ALGORITHMS, ATTACK, COLUMNS, CRITICS, TITLES, comparison_results, html_of


def texts(chart):
    return [element.text for element in ElementTree.fromstring(chart.svg()).iter("{http://www.w3.org/2000/svg}text")]


def found_parts(*names):
    return {part.identifier: part for part in parts(comparison_results(*names), TITLES, CRITICS, COLUMNS, False)}


@pytest.mark.parametrize("value", [1e308, -1e308, 1e17, 1e-300, 0.0])
def test_numbers_beyond_any_scale_are_drawn(value):
    row = Row("r", value, "text", (min(value, 0.0), max(value, 0.0)), (value,), colour(1))
    (curves,) = learning_charts({"run": [{"stage": "s", "step": s, "loss": value * s} for s in (0, 1)]})
    for chart in (dot_plot("t", {"": [row]}, PERCENT, ""), curves):
        assert "NaN" not in chart.svg() and "Infinity" not in chart.svg()
        embedded_json(chart.page_spec())


@pytest.mark.parametrize("name", ["scores", "paired", "dials", "best-of-n", "scaling", "simulators", "wins", "credit"])
def test_a_part_has_every_mean_with_its_interval_and_every_seed(name):
    part = found_parts()[name]
    for chart in part.charts:
        data = chart.spec["datasets"]
        assert len(data["seeds"]) == 3 * len(data["means"]) > 0
        assert all(mean["low"] < mean["high"] for mean in data["means"])
        places = {(seed["x"], seed["y"]) for seed in data["seeds"]}
        assert len(places) == len(data["seeds"])  # no seed covers another
        svg = chart.svg()
        for description, count in (
            ("mean", len(data["means"])),
            ("interval", len(data["means"])),
            ("seed", len(data["seeds"])),
        ):
            assert svg.count(f'aria-label="{description}"') == count, description
        assert "<img" not in svg and ElementTree.fromstring(svg) is not None


def test_scores_of_both_splits_share_an_axis():
    (chart,) = found_parts()["scores"].charts
    assert [group["name"] for group in chart.spec["datasets"]["groups"]] == ["test", "unseen"]
    means = chart.spec["datasets"]["means"]
    assert [mean["x"] for mean in means[:5]] == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5])
    assert sorted(seed["x"] for seed in chart.spec["datasets"]["seeds"][3:6]) == [0.18, 0.21, 0.23]
    assert {"test", "unseen", "SWEET-RL", "30.0%", "16.0%", "0%", "50%"} <= {*texts(chart)}


def test_a_forest_plot_has_each_difference_with_its_seeds_and_tells_what_excludes_0():
    (chart,) = found_parts()["paired"].charts
    data = chart.spec["datasets"]
    assert [group["name"] for group in data["groups"][:2]] == [
        "test: minus Initial policy",
        "test: minus Rejection fine-tuning",
    ]
    second = data["means"][1]
    assert (second["name"], second["text"]) == ("SWEET-RL", "+20.0") and second["x"] == pytest.approx(0.2)
    assert [seed["x"] for seed in data["seeds"][3:6]] == pytest.approx([0.2, 0.2, 0.2])  # each minus the same seed of the other
    shades = [LIGHT[name] for name in ("quiet", "positive", "positive", "positive")]
    assert [mean["colour"] for mean in data["means"][:4]] == shades
    assert {"0", "+20"} <= {*texts(chart)}


def test_many_pairs_are_shown_in_a_fold_and_those_with_the_first_in_the_open():
    part = found_parts((*ALGORITHMS, "mtdpo", "turn_ppo"))["paired"]
    assert list(part.named_charts()) == ["paired", "paired_all"]
    first, every = (chart.spec["datasets"] for chart in part.charts)
    assert len(first["groups"]) == 2 and len(first["means"]) == 12 and len(every["means"]) == 42
    assert "<details><summary>All differences (21 on each split)" in html_of(part)
    assert set(part.chart_files()) == {"charts/paired.svg", "charts/paired_all.svg"}


def test_the_table_of_differences_has_every_seed():
    (table, _) = found_parts()["paired"].tables
    assert table.head[3] == "By seed" and table.rows[0][3] == "+10.0 +10.0 +10.0"


def test_one_seed_has_neither_ring_nor_interval():
    results = comparison_results(("initial", "sweet"))
    for of in results["algorithms"].values():
        for score in of.values():
            score.update(seeds=1, by_seed=[score["success"]])
    for row in results["paired"]:
        row["seeds"] = 1
    for part in parts(results, TITLES, CRITICS, COLUMNS, False)[:2]:
        svg = part.charts[0].svg()
        assert 'aria-label="mean"' in svg and 'aria-label="seed"' not in svg and 'aria-label="interval"' not in svg


def test_results_without_ledger_settings_or_pairs_are_shown():
    results = comparison_results(("sweet",)) | {"paired": []}
    for name in ("ledger", "settings", "best_of_n", "scaling", "dials", "simulators", "win_rate", "credit_accuracy"):
        del results[name]
    assert [part.identifier for part in parts(results, TITLES, CRITICS, COLUMNS, False)] == ["scores", "links", "settings"]


def test_a_comparison_without_an_episode_has_no_chart():
    results = {"algorithms": {}, "paired": [], "versions": {}}
    assert [part.chart_files() for part in parts(results, TITLES, CRITICS, COLUMNS, False)] == [{}, {}]


def test_silent_and_cut_turns_are_listed_where_there_are_some():
    results = comparison_results(("initial", "sweet"))
    results["algorithms"]["sweet"]["test"]["silent_turns"] = 7
    (table, _) = parts(results, TITLES, CRITICS, COLUMNS, False)[0].tables
    assert table.head[-1] == "Silent turns" and [row[-1] for row in table.rows] == ["0", "7"]


def test_rings_that_would_cover_others_are_lower():
    values = (0.5, 0.5, 0.5 + RING / 3, 0.9)
    seeds = dot_plot("t", {"": [Row("r", 0.5, "50%", None, values, colour(1))]}, PERCENT, "").spec["datasets"]["seeds"]
    lines = sorted({seed["y"] for seed in seeds})
    assert [lines.index(seed["y"]) for seed in seeds] == [0, 1, 2, 0] and lines[0] > 0


def test_lines_at_one_setting_stand_beside_each_other():
    lines = [Line(str(i), [Point(1.0, 0.2, (0.1, 0.3)), Point(8.0, 0.2, (0.1, 0.3))], i) for i in range(3)]
    chart = line_chart("t", "candidates", lines, is_log=True)
    assert len({mean["x"] for mean in chart.spec["datasets"]["means"]}) == 6
    assert {"1", "8", "candidates", "0", "2", "20%"} <= {*texts(chart)}


def test_series_beyond_the_last_colour_are_dashed():
    lines = [Line(str(i), [Point(1.0, 0.2)], i) for i in (1, 7)]
    scale = line_chart("t", "x", lines).spec["layer"][0]["encoding"]["strokeDash"]["scale"]
    assert colour(1) == colour(7) and scale["range"][0] != scale["range"][1]


def test_texts_of_models_are_texts_in_page_and_file():
    chart = dot_plot(ATTACK, {ATTACK: [Row(ATTACK, 0.5, ATTACK, None, (), colour(0))]}, PERCENT, ATTACK)
    assert ATTACK in texts(chart) and "<img" not in chart.svg() and "<" not in embedded_json(chart.page_spec())
