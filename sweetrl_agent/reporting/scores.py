"""Scores of the agents: the headline, the interval plot, and the table of all scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sweetrl_agent.reporting.dot_plot import DotPlot, Group, Row, axis_percent
from sweetrl_agent.reporting.figures import (
    NOTHING,
    Interval,
    difference_interval,
    interval,
    measure,
    measure_interval,
    number,
    percent,
    percent_interval,
    plain,
    points,
)
from sweetrl_agent.reporting.markup import Html, missing, note, section, table, tag
from sweetrl_agent.reporting.palette import NUM_COLOURS
from sweetrl_agent.reporting.run_folder import RESULTS, RunFolder

BASELINE = "initial"
_MEANING = {
    "success": "Success: {}.",
    "similarity": "Similarity: visual similarity of the last page to the hidden reference page, 100% if they are equal.",
}
ARROW = "\N{RIGHTWARDS ARROW}"


@dataclass(frozen=True)
class Score:
    """Scores of one agent on one split; None if the file has no value.

    Attributes:
        agent: Name of the agent.
        split: Name of the split.
        n: Number of scored episodes.
        void: Number of void episodes, excluded from the scores.
        success: Fraction of episodes with every hidden test passed.
        success_bounds: Its 95% interval.
        metric: Mean of the metric: fraction of hidden tests passed, similarity of pages, or return.
        metric_bounds: Its 95% interval.
        headline: The main score: success for functions, similarity for pages.
        headline_bounds: Its 95% interval.
        turns: Mean number of agent turns in a dialogue.
        answered: Fraction of dialogues that the agent ended with an answer.
    """

    agent: str
    split: str
    n: float | None
    void: float | None
    success: float | None
    success_bounds: Interval | None
    metric: float | None
    metric_bounds: Interval | None
    headline: float | None
    headline_bounds: Interval | None
    turns: float | None
    answered: float | None

    @classmethod
    def from_dict(cls, agent: str, split: str, values: Mapping[str, Any], metric: str) -> Score:
        """Read the scores of one agent on one split."""
        bounds = values.get("ci95")
        bounds = bounds if isinstance(bounds, dict) else {}
        headline = headline_of(metric)
        return cls(
            agent=agent,
            split=split,
            n=number(values.get("n")),
            void=number(values.get("void")),
            success=number(values.get("success")),
            success_bounds=interval(bounds.get("success")),
            metric=number(values.get(metric)),
            metric_bounds=interval(bounds.get(metric)),
            headline=number(values.get(headline)),
            headline_bounds=interval(bounds.get(headline)),
            turns=number(values.get("turns")),
            answered=number(values.get("answered")),
        )


def metric_of(results: Mapping[str, Any]) -> str:
    """Name of the metric that tells better answers from worse, in the files of a run or a comparison."""
    return str(results.get("metric", "tests_passed"))


def metric_title(results: Mapping[str, Any]) -> str:
    """Its name for people."""
    return metric_of(results).replace("_", " ").capitalize()


def success_means(results: Mapping[str, Any]) -> str:
    """When an episode is a success, in words."""
    return str(results.get("success_means", "as defined by the environment"))


def headline_of(metric: str) -> str:
    """Name of the main score of a report: success, or the metric itself for pages, where success is rare."""
    return "similarity" if metric == "similarity" else "success"


def read_scores(results: Mapping[str, Any]) -> list[Score]:
    """All scores in results.json, in its order: values with "success" or "n" two levels down."""
    return [
        Score.from_dict(agent, split, values, metric_of(results))
        for agent, splits in results.items()
        if isinstance(splits, dict)
        for split, values in splits.items()
        if isinstance(values, dict) and ("success" in values or "n" in values)
    ]


def agent_colours(agents: Sequence[str]) -> dict[str, str]:
    """CSS class for the colour of each agent, the same in every section."""
    return {agent: f"colour-{i % NUM_COLOURS}" for i, agent in enumerate(dict.fromkeys(agents))}


def headline_section(run: RunFolder, colours: Mapping[str, str]) -> Html:
    """Effect of training: the main score before and after, with intervals, as cards, a table and a plot."""
    scores, name = read_scores(run.results), headline_of(metric_of(run.results))
    title = name.capitalize()
    if not scores:
        return section("headline", title, missing(run.trouble(RESULTS)))
    comparisons = [] if run.is_evaluation else _comparisons(scores)  # an evaluation has paired differences
    gains = [_gain(before, after, run.results) for before, after in comparisons]
    parts = [tag("div", *map(_card, gains), class_="cards")] if gains else []
    if plot := headline_chart(run, colours):
        parts += [plot.html()]
    if gains:
        parts += [_comparison_table(gains, title)]
    return section("headline", title, *parts, note(_explanation(name, run.results, gains)))


def headline_chart(run: RunFolder, colours: Mapping[str, str]) -> DotPlot | None:
    """The main score of every agent on every split; None if the run has none yet."""
    scores = read_scores(run.results)
    title = headline_of(metric_of(run.results)).capitalize()
    return _plot(scores, colours, title) if any(score.headline is not None for score in scores) else None


def scores_section(run: RunFolder) -> Html:
    """Table of all agents on all splits."""
    scores = read_scores(run.results)
    if not scores:
        return section("scores", "Scores", missing(run.trouble(RESULTS)))
    head = ("Agent", "Split", "n", "Void", "Success", "95%", metric_title(run.results), "95%", "Turns", "Answered")
    rows = [
        (
            score.agent,
            score.split,
            plain(score.n),
            plain(score.void),
            percent(score.success),
            percent_interval(score.success_bounds),
            measure(metric_of(run.results), score.metric),
            measure_interval(metric_of(run.results), score.metric_bounds),
            NOTHING if score.turns is None else f"{score.turns:.2f}",
            percent(score.answered),
        )
        for score in scores
    ]
    text = "n: scored episodes. Void: episodes in which the environment failed, excluded from the scores. Turns: agent turns per dialogue."
    return section("scores", "Scores", table(head, rows), note(f"{text} Intervals in percent."))


def _comparisons(scores: Sequence[Score]) -> list[tuple[Score, Score]]:
    """Pairs of the baseline and every other agent, by split, the earlier one first; the baseline is "initial", or the first agent if there is none."""
    agents = list(dict.fromkeys(score.agent for score in scores))
    baseline = BASELINE if BASELINE in agents else agents[0]
    of_baseline = {score.split: score for score in scores if score.agent == baseline}
    pairs = [(of_baseline[score.split], score) for score in scores if score.agent != baseline and score.split in of_baseline]
    return [(a, b) if agents.index(a.agent) < agents.index(b.agent) else (b, a) for a, b in pairs]


@dataclass(frozen=True)
class _Gain:
    """Two agents on a split, and their difference: paired by task if the file has that, else computed from the two intervals."""

    before: Score
    after: Score
    difference: float | None
    bounds: Interval | None
    is_paired: bool


def _gain(before: Score, after: Score, results: Mapping[str, Any]) -> _Gain:
    if before.headline is None or after.headline is None:
        return _Gain(before, after, None, None, False)
    paired = _paired(before, after, results)
    if (difference := number(paired.get("difference"))) is not None:
        return _Gain(before, after, difference, interval(paired.get("ci95")), True)
    bounds = difference_interval(before.headline, before.headline_bounds, after.headline, after.headline_bounds)
    return _Gain(before, after, after.headline - before.headline, bounds, False)


def _paired(before: Score, after: Score, results: Mapping[str, Any]) -> Mapping[str, Any]:
    """The paired difference of the main score in the file, from one agent to the other on their split; {} if it has none."""
    found = results.get("differences")
    wanted = (after.split, before.agent, after.agent)
    for pair in found if isinstance(found, list) else ():
        if isinstance(pair, dict) and tuple(map(pair.get, ("split", "from", "to"))) == wanted:
            score = pair.get(headline_of(metric_of(results)))
            return score if isinstance(score, dict) else {}
    return {}


def _point_interval(bounds: Interval | None) -> str:
    return NOTHING if bounds is None else f"[{points(bounds[0])}, {points(bounds[1])}]"


def _card(gain: _Gain) -> Html:
    before, after, bounds = gain.before, gain.after, gain.bounds
    if bounds is None or bounds[0] <= 0 <= bounds[1]:
        verdict = "unsure"
    else:
        verdict = "better" if bounds[0] > 0 else "worse"
    return tag(
        "div",
        tag("h3", f"{before.agent} {ARROW} {after.agent} on {after.split}"),
        tag("p", f"{percent(before.headline)} {ARROW} {percent(after.headline)}", class_="big"),
        tag("p", tag("strong", f"{points(gain.difference)} points", class_=verdict), f" {_point_interval(bounds)}"),
        class_="card",
    )


def _comparison_table(gains: Sequence[_Gain], title: str) -> Html:
    head = ("Split", "From", title, "95%", "To", title, "95%", "Difference, points", "95%")
    rows = []
    for gain in gains:
        cells = [(s.agent, percent(s.headline), percent_interval(s.headline_bounds)) for s in (gain.before, gain.after)]
        rows.append((gain.after.split, *cells[0], *cells[1], points(gain.difference), _point_interval(gain.bounds)))
    return table(head, rows)


def _explanation(headline: str, results: Mapping[str, Any], gains: Sequence[_Gain]) -> str:
    text = f"{_MEANING[headline].format(success_means(results))} Intervals are 95%, in percent."
    if gains and all(gain.is_paired for gain in gains):
        text += " Differences are paired by task, with a bootstrap over tasks; they hold for these two policies. An interval that contains 0 shows no significant difference."
    elif gains:
        text += (
            " The interval of a difference is computed from the two intervals, assumed to be independent (square-and-add, Newcombe "
            "1998): on the same tasks it is usually slightly too wide. An interval that contains 0 shows no significant difference."
        )
    return text


def _plot(scores: Sequence[Score], colours: Mapping[str, str], title: str) -> DotPlot:
    """A row for each agent and split, on a common axis from 0%."""
    groups = [
        Group(
            split,
            [
                Row(s.agent, s.headline, percent(s.headline), s.headline_bounds, (), colours.get(s.agent, "colour-0").replace("colour", "series"))
                for s in scores
                if s.split == split and s.headline is not None
            ],
        )
        for split in dict.fromkeys(score.split for score in scores if score.headline is not None)
    ]  # fmt: skip
    return DotPlot(title, groups, axis_percent, "Dot: mean over tasks. Line: 95% interval.")
