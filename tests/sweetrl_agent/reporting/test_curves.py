"""Learning curves: what is on which axis, means over seeds, and files."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from sweetrl_agent.reporting.comparison import comparison_charts
from sweetrl_agent.reporting.curves import ON_POLICY, curves_part, learning_charts
from sweetrl_agent.reporting.run_folder import RunFolder

from .made_up import TITLES, comparison_results, html_of, write_lines


def lines(chart, description):
    """Paths of the file of a chart, as lists of points."""
    found = [
        e.get("d") for e in ElementTree.fromstring(chart.svg()).iter() if e.get("aria-label") == description and e.get("d")
    ]
    return [[tuple(map(float, point.split(","))) for point in re.split("[MLZ]", d) if point] for d in found]


def texts(chart):
    return {element.text for element in ElementTree.fromstring(chart.svg()).iter("{http://www.w3.org/2000/svg}text")}


@pytest.fixture
def charts(comparison):
    return {chart.title: chart for chart in comparison_charts(comparison, comparison_results(), TITLES)}


def test_on_policy_algorithms_share_a_chart_over_all_that_they_spend(charts):
    chart = charts[ON_POLICY]
    assert [series.name for series in chart.series] == [TITLES["reinforce"], TITLES["grpo"]]
    assert [series.index for series in chart.series] == [3, 4]  # those of the scores
    assert chart.axes == ["step", "episodes", "environment_turns", "generated_tokens", "num_input_tokens_seen", "seconds"]
    assert chart.metrics[:2] == ["return", "success"]
    assert all(list(series.runs) == ["seed 0", "seed 1", "seed 2"] for series in chart.series)
    assert chart.series[1].runs["seed 2"]["environment_turns"][:2] == [302, 602]
    assert chart.series[1].runs["seed 2"]["seconds"][:2] == [2.5, 5]


def test_a_stage_with_steps_alone_has_one_more_axis_the_time(charts):
    assert charts["sft"].axes == ["step", "seconds"] and charts["sft"].metrics == ["loss", "learning_rate"]
    metric, over, _ = charts["sft"].page_spec()["params"]
    assert metric["bind"]["labels"] == ["loss", "learning_rate"] and over["bind"]["labels"] == ["steps", "wall time in s"]


def test_runs_without_times_have_no_axis_of_time(comparison):
    (comparison / "seed_1" / "timings.jsonl").unlink()
    found = {chart.title: chart for chart in comparison_charts(comparison, comparison_results(), TITLES)}
    assert "seconds" not in found[ON_POLICY].axes


def test_a_file_has_every_seed_and_their_mean(charts):
    chart = charts["grpo"].of("return", "environment_turns")
    assert [len(line) for line in lines(chart, "seed")] == [6] * 3 and [len(line) for line in lines(chart, "mean")] == [6]
    assert {"agent turns", "grpo: return", "0.4", "Mean of 3 runs."} <= texts(chart) and "k" in "".join(texts(chart) - {None})


def test_the_mean_is_of_axis_and_metric():
    runs = {str(i): [{"stage": "grpo", "step": s, "return": s * i, "episodes": s * 10 * i} for s in (0, 1)] for i in (1, 3)}
    chart = learning_charts(runs)[0].of("return", "episodes")
    (mean,), (low, high) = lines(chart, "mean"), lines(chart, "seed")
    assert mean[1] == pytest.approx([(low[1][0] + high[1][0]) / 2, (low[1][1] + high[1][1]) / 2], abs=0.11)


def test_runs_of_different_length_are_averaged_as_far_as_all_go():
    runs = {str(n): [{"stage": "grpo", "step": s, "loss": s} for s in range(n)] for n in (3, 6)}
    chart = learning_charts(runs)[0]
    assert [len(line) for line in lines(chart, "mean")] == [3] and sorted(len(line) for line in lines(chart, "seed")) == [3, 6]


def test_a_single_curve_says_where_it_begins_and_ends():
    (chart,) = learning_charts(
        {"run": [{"stage": "actor", "step": s, "loss": loss} for s, loss in enumerate((1.448, 0.9, 0.5956))]}
    )
    assert {"1.448", "0.5956"} <= texts(chart)


def test_a_loss_within_a_small_range_has_several_ticks():
    (chart,) = learning_charts({"run": [{"stage": "actor", "step": s, "loss": 0.6931 - s / 1e4} for s in range(9)]})
    assert len({text for text in texts(chart) if text and re.fullmatch(r"0\.69\d*", text)}) >= 3


@pytest.mark.parametrize(
    ("setting", "known"), [("metric", "return, success, loss"), ("x", "step, episodes, environment_turns")]
)
def test_what_a_stage_lacks_is_named(charts, setting, known):
    with pytest.raises(ValueError, match=f"`{setting}` must be one of {known}.*, got 'nothing'"):
        charts["grpo"].of(**{"metric": "", "x": "", setting: "nothing"})


def test_names_are_of_letters(charts):
    assert charts["sft"].name == "sft" and charts[ON_POLICY].name == ""
    assert [chart.name for title, chart in charts.items() if title.startswith("critic")] == [
        "critic_script_img_src_x_onerror_alert_1"
    ]


def test_losses_come_before_rates_and_returns_before_losses():
    line = {"stage": "critic", "step": 10, "learning_rate": 1e-5, "eval_loss": 2.0, "a": 1, "rewards/margins": 0.1, "loss": 0.7}
    (chart,) = learning_charts({"run": [{**line, "return": 1.0, "nan": float("nan"), "is_on": True, "text": "x"}]})
    assert chart.metrics == ["return", "loss", "eval_loss", "rewards/margins", "a", "learning_rate"]
    assert chart.page_spec()["datasets"]["rows"][0]["values"][1] == 0.7


def test_long_curves_are_thinned_by_means():
    (chart,) = learning_charts({"run": [{"stage": "actor", "step": s, "loss": s % 4} for s in range(1600)]})
    columns = chart.series[0].runs["run"]
    assert "mean of up to 4 logged rows" in chart.explained and set(columns["loss"]) == {1.5} and columns["step"][:2] == [3, 7]


def test_rows_of_one_stage_need_not_have_the_same_metrics():
    rows = [
        {"stage": "sft", "step": 1, "loss": 2.0},
        {"stage": "sft", "step": 2, "eval_loss": 3.0},
        {"stage": "sft", "step": 3, "loss": 1.0},
    ]
    (chart,) = learning_charts({"run": rows})
    assert chart.series[0].runs["run"] == {"step": [1, 2, 3], "loss": [2, None, 1], "eval_loss": [None, 3, None]}
    assert [len(line) for line in lines(chart.of("loss", ""), "mean")] == [2]


def test_without_metrics_the_section_says_why():
    assert "metrics.jsonl is missing" in html_of(curves_part([], "metrics.jsonl is missing from the run folder."))
    assert learning_charts({"run": [{"stage": "sft", "step": 1}]}) == []


def test_times_are_read_beside_the_metrics(tmp_path):
    write_lines(tmp_path / "metrics.jsonl", [{"stage": "sft", "step": s, "loss": 1.0} for s in (1, 10)])
    write_lines(
        tmp_path / "timings.jsonl", [{"stage": "sft", "step": 10, "seconds": 4.5}, {"stage": "rft", "step": 1, "seconds": 9.0}]
    )
    run = RunFolder.read(tmp_path)
    assert [row["seconds"] for row in run.metrics] == [None, 4.5] and "timings.jsonl" not in run.troubles
