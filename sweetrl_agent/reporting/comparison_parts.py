"""The parts of a comparison's report, from its results.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sweetrl_agent.reporting import paper
from sweetrl_agent.reporting.chart import colour_class
from sweetrl_agent.reporting.comparison_curves import best_of_part, dials_part, scaling_part
from sweetrl_agent.reporting.comparison_scores import EXPLAINED, Names, Results, ends, paired_part, scores_part
from sweetrl_agent.reporting.dot_plot import DotPlot, Group, Row, axis_percent
from sweetrl_agent.reporting.failures import failures_part
from sweetrl_agent.reporting.figures import (
    NOTHING,
    duration,
    percent,
    percent_interval,
)
from sweetrl_agent.reporting.parts import Part, Table
from sweetrl_agent.reporting.wishes import wishes_part


def parts(results: Results, algorithms: Names, critics: Names, columns: Names, is_against_paper: bool) -> list[Part]:
    """All parts that the results have data for, most important first.

    Args:
        results: Content of results.json.
        algorithms: Titles of algorithms.
        critics: Titles of critics.
        columns: Meaning of each column of the ledger.
        is_against_paper: Show the paper's numbers next to ours.
    """
    made = [scores_part(results, algorithms), *([paired_part(results, algorithms)] if results["paired"] else [])]
    made += (
        [_links(results, algorithms)]
        if any(score.get("links") for of in results["algorithms"].values() for score in of.values())
        else []
    )
    made += [part for found in (failures_part, wishes_part) if (part := found(results, algorithms))]
    made += [_against(results, algorithms)] if is_against_paper else []
    made += [_wins(results, algorithms)] if results.get("win_rate") else []
    made += [dials_part(results, algorithms)] if results.get("dials") else []
    made += [_credit(results, critics)] if results.get("credit_accuracy") else []
    made += [best_of_part(results, critics)] if results.get("best_of_n") else []
    made += [scaling_part(results, algorithms)] if results.get("scaling") else []
    made += [_simulators(results, algorithms)] if results.get("simulators") else []
    made += [_ledger(results, algorithms, columns)] if results.get("ledger") else []
    return [*made, _settings(results)]


def _links(results: Results, titles: Names) -> Part:
    rows = [
        (
            titles.get(name, name),
            split,
            percent(links["wishes_heard"]),
            percent(links["all_heard"]),
            percent(links["success_if_all_heard"]),
        )
        for name, of in results["algorithms"].items()
        for split, score in of.items()
        if (links := score.get("links"))
    ]
    head = ("Algorithm", "Split", "Wishes heard", "Dialogues with all heard", "Success if all are heard")
    text = "An agent must ask about the wishes, and implement what it hears. Void episodes are excluded."
    return Part("links", "Where dialogues fail", [Table(head, rows)], notes=[text])


def _against(results: Results, titles: Names) -> Part:
    rows = []
    for name, (tests, success) in paper.BACKEND.items():
        ours = results["algorithms"].get(name, {}).get("test")
        rows.append(
            (
                titles.get(name, name),
                f"{success:.1f}%",
                f"{tests:.1f}%",
                percent(ours["success"]) if ours else NOTHING,
                percent_interval(ours["ci95"]["success"]) if ours else NOTHING,
                percent(ours["tests_passed"]) if ours else NOTHING,
            )
        )
    head = ("Algorithm", "Paper: success", "Paper: tests passed", "Here: success", "95%", "Here: tests passed")
    notes = ["The experiments differ; only the order of the algorithms can be compared. Differences:", *paper.DIFFERENCES]
    return Part("against", "Comparison with the paper (arXiv:2503.15478, Tables 2 and 3)", [Table(head, rows)], notes=notes)


def _wins(results: Results, titles: Names) -> Part:
    rows = [
        (
            titles.get(row["algorithm"], row["algorithm"]),
            row["split"],
            percent(row["win_rate"]),
            percent_interval(row["ci95"]) if row["seeds"] > 1 else NOTHING,
            f"{row['n']} x {row['seeds']}",
        )
        for row in results["win_rate"]
    ]
    text = "Fraction of tasks on which the agent's metric is above that of the recorded run; ties count one half."
    head = ("Algorithm", "Split", "Win rate", "95%, algorithm", "Tasks x seeds")
    scores = [
        (row["split"], titles.get(row["algorithm"], row["algorithm"]), row["win_rate"], row, row["ci95"])
        for row in results["win_rate"]
    ]
    chart = _chart("Win rate", scores, _colours(results, titles))
    return Part("wins", "Win rate against the recorded run", [Table(head, rows)], [chart], [text])


def _credit(results: Results, titles: Names) -> Part:
    found = results["credit_accuracy"]
    cells = [(titles.get(critic, critic), split, row) for critic, of in found.items() for split, row in of.items()]
    kinds = list(dict.fromkeys(kind for _, _, row in cells for kind in row["kinds"]))
    kinds = kinds if any("answer" in kind for kind in kinds) else []  # a message that ends no dialogue is not a question either
    head = (
        "Critic",
        "Split",
        "Tasks x seeds",
        "Rank correlation",
        "95%",
        "SWEET-RL's minus this",
        "Pair accuracy",
        "95%",
    )
    closer = [(title, split, *(_kind(row["kinds"].get(kind)) for kind in kinds)) for title, split, row in cells]
    measured = [_accuracy(*cell) for cell in cells if "rank_correlation" in cell[2] and "pair_accuracy" in cell[2]]
    tables = [
        *([Table(head, measured)] if measured else []),
        *(
            [Table(("Critic", "Split", *(kind.replace("_", " ") for kind in kinds)), closer, "By kind of pair")]
            if kinds
            else []
        ),
    ]
    text = (
        "Scores of the same candidates, compared with their exact advantage. Rank correlation: "
        "Spearman's over all candidates of a task's turns, chance level 0. Pair accuracy: the critic prefers the better of two candidates of one "
        "turn, chance level 0.5. The tasks are not used in training."
    )
    about = (
        "By kind of pair: the fraction in which the critic prefers the first, its 95% interval over tasks (for the trained critics), and the number "
        "of tasks with such a pair. When all wishes are known, a further question has the same exact advantage as the right answer, until "
        "the limit of turns is near."
    )
    colours = {titles.get(critic, critic): i for i, critic in enumerate(found, 1)}
    scores = [
        (split, title, row["pair_accuracy"]["mean"], {**row, **row["pair_accuracy"]}, row["pair_accuracy"]["ci95"])
        for title, split, row in cells
        if "pair_accuracy" in row
    ]
    charts = [_chart("Pair accuracy", scores, colours)] if scores else []
    return Part("credit", "Credit accuracy of critics", tables, charts, [text, *([about] if kinds else [])])


def _accuracy(title: str, split: str, row: Mapping[str, Any]) -> tuple[str, ...]:
    rho, accuracy = row["rank_correlation"], row["pair_accuracy"]
    behind = rho.get("behind_sweet")
    return (
        title,
        split,
        f"{row['n']} x {row['seeds']}",
        f"{rho['mean']:.3f}",
        _plain_interval(rho["ci95"]),
        NOTHING if behind is None else f"{behind['mean']:+.3f} {_plain_interval(behind['ci95'])}",
        f"{accuracy['mean']:.3f}",
        _plain_interval(accuracy["ci95"]),
    )


def _kind(row: Mapping[str, Any] | None) -> str:
    return NOTHING if row is None else f"{row['mean']:.2f} [{row['ci95'][0]:.2f}, {row['ci95'][1]:.2f}] n={row['n']}"


def _simulators(results: Results, titles: Names) -> Part:
    found = results["simulators"]
    rows = [
        (
            cell["simulator"],
            titles.get(cell["algorithm"], cell["algorithm"]),
            f"{cell['n']} x {cell['seeds']}",
            percent(cell["success"]),
            percent_interval(cell["ci95"]),
            f"{cell['turns']:.1f}",
            f"{cell['reply_chars']:.0f}",
            percent(cell["leak"]),
        )
        for cell in found["cells"]
    ]
    ranked = [
        (
            row["simulator"],
            " > ".join(titles.get(name, name) for name in row["best_first"]),
            NOTHING if row["tau"] is None else f"{row['tau']:.2f}",
        )
        for row in found["rankings"]
    ]
    shares = [(name, percent(share)) for name, share in found["variance"].items()]
    cells = ("Simulator", "Algorithm", "Tasks x seeds", "Success", "95%", "Turns", "Characters per reply", "Leak")
    return Part(
        "simulators",
        "Evaluation with other simulators",
        [
            Table(cells, rows, "The same agents with other user simulators"),
            Table(("Simulator", "Best first", "Kendall's tau with the first"), ranked, "Ranking of the algorithms"),
            Table(("Source", "Share of the variance"), shares, "Variance of success by algorithm, simulator and seed"),
        ],
        [
            _chart(
                "Success by simulator",
                [
                    (cell["simulator"], titles.get(cell["algorithm"], cell["algorithm"]), cell["success"], cell, cell["ci95"])
                    for cell in found["cells"]
                ],
                _colours(results, titles),
            )
        ],
        ["Leak: fraction of the hidden code's tokens in the simulated human's replies of a dialogue."],
    )


def _chart(
    title: str, scores: Sequence[tuple[str, str, float, Mapping[str, Any], Sequence[float]]], colours: Mapping[str, int]
) -> DotPlot:
    """A dot plot of fractions.

    Args:
        title: Title above the chart.
        scores: Group, name, mean, an object with "seeds" and "by_seed", and the 95% interval of each row.
        colours: Number of each name's colour.
    """
    groups: dict[str, list[Row]] = {}
    for group, name, mean, score, bounds in scores:
        seeds = score.get("by_seed", ()) if score["seeds"] > 1 else ()
        row = Row(name, mean, percent(mean), ends(score, bounds), seeds, colour_class(colours.get(name, 0)))
        groups.setdefault(group, []).append(row)
    return DotPlot(title, [Group(*item) for item in groups.items()], axis_percent, EXPLAINED)


def _colours(results: Results, titles: Names) -> dict[str, int]:
    """Number of the colour of each algorithm, by its title: the same in all charts."""
    return {titles.get(name, name): i for i, name in enumerate(results["algorithms"])}


def _ledger(results: Results, titles: Names, columns: Names) -> Part:
    by_seed: Mapping[str, Mapping[str, Mapping[str, float]]] = results["ledger"]
    rows = []
    for name in results["algorithms"]:
        costs = [of_seed[name] for of_seed in by_seed.values()]
        columns = {column: text for column, text in columns.items() if all(column in cost for cost in costs)}
        means = {column: sum(cost[column] for cost in costs) / len(costs) for column in columns}
        rows.append((titles.get(name, name), *(_cost(column, value) for column, value in means.items())))
    head = ("Algorithm", *(column.replace("_", " ") for column in columns))
    notes = [f"{column.replace('_', ' ')}: {text}." for column, text in columns.items()]
    first = "Means over seeds. Evaluation, and SFT of the tiny model, are not counted: they are the same for all."
    return Part("ledger", "Costs", [Table(head, rows)], notes=[first, " ".join(notes)])


def _settings(results: Results) -> Part:
    packages = {f"package {name}": version for name, version in results["versions"].get("packages", {}).items()}
    others = {name: value for name, value in results["versions"].items() if name != "packages"}
    own = {f"only {name}": settings for name, settings in results.get("own_settings", {}).items()}
    # `algorithm` is of `train`; here there are several.
    settings = {name: value for name, value in results.get("settings", {}).items() if name != "algorithm"}
    rows = [(name, str(value)) for name, value in {**settings, **own, **others, **packages}.items()]
    return Part("settings", "Setup", [Table(("Setting", "Value"), rows, "settings and versions")])


def _cost(column: str, value: float) -> str:
    return duration(value) if column.endswith("seconds") else f"{value:,.0f}"


def _plain_interval(bounds: Sequence[float]) -> str:
    return f"[{bounds[0]:.3f}, {bounds[1]:.3f}]"
