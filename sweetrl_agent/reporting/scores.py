"""Scores of the agents of a run or an evaluation: the change by training, the interval plot, and the tables of scores, differences and costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from colbench_gym.scoring.intervals import SHARES
from sweetrl_agent.reporting.charts import PERCENT, Chart, Row, dot_plot
from sweetrl_agent.reporting.numbers import (
    NOTHING,
    measure,
    measure_interval,
    percent,
    percent_interval,
    plain,
    points,
    points_interval,
)
from sweetrl_agent.reporting.palette import NUM_COLOURS, colour
from sweetrl_agent.reporting.parts import Card, Part, Table
from sweetrl_agent.reporting.run_folder import RESULTS, RunFolder

Results = Mapping[str, Any]
BASELINE = "initial"
_MEANING = {
    "success": "Success: {}.",
    "similarity": "Similarity: visual similarity of the last page to the hidden reference page, 100% if they are equal.",
}
_PAIRED = (
    "Differences are paired by task, with a bootstrap over tasks; they hold for these two policies. An interval that contains 0 shows no significant "
    "difference."
)
#: Counts of turns and answers that the score tables list where a file has them: silent turns say nothing, the limit of tokens cuts the others.
SHORTENED = {"silent_turns": "Silent turns", "cut_turns": "Cut turns", "answer_cut": "Cut answers"}
SHORTENED_NOTE = "Silent turns: turns in which the agent said nothing. Cut turns and answers: ended by the limit of tokens."
ARROW = "\N{RIGHTWARDS ARROW}"


def metric_of(results: Results) -> str:
    """Name of the metric that tells better answers from worse, in the files of a run or a comparison."""
    return str(results.get("metric", "tests_passed"))


def metric_title(results: Results) -> str:
    """Its name for people."""
    return metric_of(results).replace("_", " ").capitalize()


def success_means(results: Results) -> str:
    """When an episode is a success, in words."""
    return str(results.get("success_means", "as defined by the environment"))


def headline_of(metric: str) -> str:
    """Name of the main score of a report: success, or the metric itself for pages, where success is rare."""
    return "similarity" if metric == "similarity" else "success"


def scores_of(results: Results) -> dict[str, dict[str, Any]]:
    """Scores by agent and split, in the order of results.json: of a comparison its "algorithms", else the agents beside the other keys."""
    by_agent = {
        agent: {split: score for split, score in splits.items() if isinstance(score, dict) and "success" in score}
        for agent, splits in results.get("algorithms", results).items()
        if isinstance(splits, dict)
    }
    return {agent: scores for agent, scores in by_agent.items() if scores}


def agent_colours(agents: Sequence[str]) -> dict[str, str]:
    """CSS class for the colour of each agent, the same in every section."""
    return {agent: f"colour-{i % NUM_COLOURS}" for i, agent in enumerate(dict.fromkeys(agents))}


def headline_part(run: RunFolder) -> Part:
    """Effect of training: the change of the main score with its interval as cards, and all main scores as a plot."""
    name = headline_of(metric_of(run.results))
    if not scores_of(run.results):
        return Part("headline", name.capitalize(), missing=run.trouble(RESULTS))
    cards = [] if run.is_evaluation else list(_cards(run.results, name))  # an evaluation has paired differences
    chart = headline_chart(run.results)
    text = f"{_MEANING[name].format(success_means(run.results))} Intervals are 95%, in percent."
    notes = [f"{text} {_PAIRED}" if cards else text, *map(str, run.results.get("no_gain", ()))]
    return Part("headline", name.capitalize(), charts=[chart] if chart else [], notes=notes, cards=cards)


def _cards(results: Results, name: str) -> Iterator[Card]:
    """The changes from and to the baseline: "initial", or the first agent if there is none."""
    agents = scores_of(results)
    baseline = BASELINE if BASELINE in agents else next(iter(agents))
    for pair in results.get("differences", ()):
        if baseline in (pair["from"], pair["to"]):
            change = pair[name]
            low, high = change["ci95"]
            verdict = "better" if low > 0 else "worse" if high < 0 else "unsure"
            title = f"{pair['from']} {ARROW} {pair['to']} on {pair['split']}"
            yield Card(title, points(change["difference"]), points_interval((low, high)), verdict)


def headline_chart(results: Results) -> Chart | None:
    """The main score of every agent on every split; None if the run has none yet."""
    name = headline_of(metric_of(results))
    groups: dict[str, list[Row]] = {}
    for i, (agent, scores) in enumerate(scores_of(results).items()):
        for split, score in scores.items():
            if (value := score[name]) is not None:
                row = Row(agent, value, percent(value), score["ci95"][name], (), colour(i))
                groups.setdefault(split, []).append(row)
    return dot_plot(name.capitalize(), groups, PERCENT, "Dot: mean over tasks. Line: 95% interval.") if groups else None


def scores_part(run: RunFolder) -> Part:
    """Table of all agents on all splits."""
    metric = metric_of(run.results)
    scores = [(agent, split, score) for agent, splits in scores_of(run.results).items() for split, score in splits.items()]
    if not scores:
        return Part("scores", "Scores", missing=run.trouble(RESULTS))
    counts = shortened([score for _, _, score in scores])
    head = ("Agent", "Split", "n", "Void", "Success", "95%", metric_title(run.results), "95%", "Turns", "Answered")
    rows = [
        (
            agent,
            split,
            plain(score["n"]),
            plain(score.get("void")),
            percent(score["success"]),
            percent_interval(score["ci95"].get("success")),
            measure(metric, score[metric]),
            measure_interval(metric, score["ci95"].get(metric)),
            NOTHING if (turns := score.get("turns")) is None else f"{turns:.2f}",
            percent(score.get("answered")),
            *(plain(score.get(name, 0)) for name in counts),
        )
        for agent, split, score in scores
    ]
    text = "n: scored episodes. Void: episodes in which the environment failed, excluded from the scores. Turns: agent turns per dialogue."
    tables = [Table((*head, *counts.values()), rows)]
    return Part("scores", "Scores", tables, notes=[f"{text} Intervals in percent.", *([SHORTENED_NOTE] if counts else [])])


def shortened(scores: Sequence[Results]) -> dict[str, str]:
    """Titles of the `SHORTENED` counts that some scores have."""
    return {name: title for name, title in SHORTENED.items() if any(name in score for score in scores)}


def differences_part(run: RunFolder) -> Part | None:
    """Paired differences of all pairs of policies; None for a single policy."""
    pairs = run.results.get("differences")
    if not pairs:
        return None
    metric = metric_of(run.results)
    titles = ("Success", metric_title(run.results))
    scores = [cell for title in titles for cell in (f"{title}, difference", "95%", "p", "p, Holm")]
    rows = [
        (
            *(pair[name] for name in ("split", "to", "from")),
            *(plain(pair[name]) for name in ("n", "tasks")),
            *(cell for name in ("success", metric) for cell in _difference(name, pair[name])),
        )
        for pair in pairs
    ]
    text = (
        "The policy's score minus that of the one in the column Minus, on the same tasks, seeds and episodes, in points where scores are "
        "percentages. Intervals: 95%, bootstrap over tasks. p: random sign flips of tasks; p, Holm: corrected for all pairs of a split."
    )
    return Part(
        "differences",
        "Paired differences",
        [Table(("Split", "Policy", "Minus", "Episodes", "Tasks", *scores), rows)],
        notes=[text],
    )


def _difference(name: str, values: Results) -> list[str]:
    difference, (low, high) = values["difference"], values["ci95"]
    is_share = name in SHARES
    cells = [points(difference) if is_share else plain(difference)]
    cells.append(points_interval((low, high)) if is_share else f"[{plain(low)}, {plain(high)}]")
    return [*cells, plain(values["p"]), plain(values["p_holm"])]


def use_part(run: RunFolder) -> Part | None:
    """What each policy is, and tokens and cost of every policy and split; None for a run."""
    if not run.is_evaluation:
        return None
    names = ("prompt_tokens", "generated_tokens", "human_prompt_tokens", "human_generated_tokens")
    rows = [
        (agent, split, *(plain(score.get("tokens", {}).get(name)) for name in names), plain(score.get("cost", {}).get("total")))
        for agent, splits in scores_of(run.results).items()
        for split, score in splits.items()
    ]
    head = ("Policy", "Split", "Tokens read", "Tokens generated", "Read by the human", "Generated by the human", "Cost")
    text = "All episodes, void ones included. A server that does not report its tokens has none here. Cost: by the prices that were given."
    settings = [
        (agent, ", ".join(f"{name} {value}" for name, value in given.items()))
        for agent, given in run.results["policies"].items()
    ]
    return Part("use", "Policies, tokens and cost", [Table(("Policy", "Settings"), settings), Table(head, rows)], notes=[text])
