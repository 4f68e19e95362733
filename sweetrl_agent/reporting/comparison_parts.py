"""The parts of a comparison's report, from its results.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sweetrl_agent.config.reading import flat
from sweetrl_agent.reporting import paper
from sweetrl_agent.reporting.comparison_scores import (
    Mean,
    Names,
    Results,
    algorithm_interval,
    best_of_part,
    colours_of,
    dials_part,
    fractions_chart,
    paired_part,
    scaling_part,
    scores_part,
)
from sweetrl_agent.reporting.costs import AGENT_HEAD, NOTE, agent_rows
from sweetrl_agent.reporting.failures import failures_part, wishes_part
from sweetrl_agent.reporting.numbers import NOTHING, duration, percent, percent_interval
from sweetrl_agent.reporting.parts import Part, Table


def parts(results: Results, algorithms: Names, critics: Names, columns: Names, is_against_paper: bool) -> list[Part]:
    """All parts that the results have data for, most important first.

    Args:
        results: Content of results.json.
        algorithms: Titles of algorithms; the results may have others, of their settings.
        critics: Titles of critics.
        columns: Meaning of each column of the ledger.
        is_against_paper: Show the paper's numbers next to ours.
    """
    algorithms = {**algorithms, **results.get("titles", {})}
    optional = [
        (results["paired"], lambda: paired_part(results, algorithms)),
        (True, lambda: _links(results, algorithms)),
        (True, lambda: failures_part(results, algorithms)),
        (True, lambda: wishes_part(results, algorithms)),
        (is_against_paper, lambda: _against(results, algorithms)),
        (results.get("win_rate"), lambda: _wins(results, algorithms)),
        (results.get("dials"), lambda: dials_part(results, algorithms)),
        (results.get("credit_accuracy"), lambda: _credit(results, {**algorithms, **critics})),
        (results.get("best_of_n"), lambda: best_of_part(results, critics)),
        (results.get("scaling"), lambda: scaling_part(results, algorithms)),
        (results.get("simulators"), lambda: _simulators(results, algorithms)),
        (results.get("ledger"), lambda: _ledger(results, algorithms, columns)),
    ]
    return [
        scores_part(results, algorithms),
        *(part for is_known, make in optional if is_known and (part := make())),
        _settings(results),
    ]


def _links(results: Results, titles: Names) -> Part | None:
    rows = [
        (
            titles.get(name, name),
            split,
            NOTHING if (points := links.get("points_stated")) is None else f"{points:.1f}",
            percent(links["wishes_heard"]),
            percent(links["all_heard"]),
            percent(links["success_if_all_heard"]),
        )
        for name, of in results["algorithms"].items()
        for split, score in of.items()
        if (links := score.get("links"))
    ]
    head = ("Algorithm", "Split", "Points stated", "Wishes heard", "Dialogues with all heard", "Success if all are heard")
    text = (
        "An agent must ask about points that the request leaves open, of these about the wishes, and implement what it hears. "
        "A point that is asked about twice counts once. Void episodes are excluded."
    )
    return Part("links", "Where dialogues fail", [Table(head, rows)], notes=[text]) if rows else None


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
    means = _means(results["win_rate"], "split", "win_rate", titles)
    rows = [
        (title, split, percent(rate), percent_interval(algorithm_interval(row, bounds)), f"{row['n']} x {row['seeds']}")
        for split, title, rate, row, bounds in means
    ]
    text = "Fraction of tasks on which the agent's metric is above that of the recorded run; ties count one half."
    head = ("Algorithm", "Split", "Win rate", "95%, algorithm", "Tasks x seeds")
    chart = fractions_chart("Win rate", means, colours_of(results, titles))
    return Part("wins", "Win rate against the recorded run", [Table(head, rows)], [chart], [text])


def _means(rows: Sequence[Mapping[str, Any]], group: str, value: str, titles: Names) -> list[Mean]:
    return [(row[group], titles.get(row["algorithm"], row["algorithm"]), row[value], row, row["ci95"]) for row in rows]


def _credit(results: Results, titles: Names) -> Part:
    critics = results["credit_accuracy"]
    cells = [(titles.get(critic, critic), split, row) for critic, of in critics.items() for split, row in of.items()]
    kinds = list(dict.fromkeys(kind for _, _, row in cells for kind in row["kinds"]))
    kinds = kinds if any("answer" in kind for kind in kinds) else []  # a message that ends no dialogue is not a question either
    head = ("Critic", "Split", "Tasks x seeds", "Rank correlation", "95%", "SWEET-RL's minus this", "Pair accuracy", "95%")
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
    costs = [(title, split, *_costs(row)) for title, split, row in cells if "cost" in row]
    if costs:
        head = (
            "Rule",
            "Split",
            "Marginal: rank correlation",
            "Marginal: pair accuracy",
            "Passes",
            "Environment steps",
            "Sampled tokens",
            "To train its critic",
        )
        caption = "Against the marginal advantage, and the cost of a candidate: passes of a model over a dialogue, environment steps and sampled tokens"
        tables.append(Table(head, costs, caption))
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
    colours = {titles.get(critic, critic): i for i, critic in enumerate(critics, 1)}
    scores = [
        (split, title, row["pair_accuracy"]["mean"], {**row, **row["pair_accuracy"]}, row["pair_accuracy"]["ci95"])
        for title, split, row in cells
        if "pair_accuracy" in row
    ]
    charts = [fractions_chart("Pair accuracy", scores, colours)] if scores else []
    return Part("credit", "Credit accuracy of critics", tables, charts, [text, *([about] if kinds else [])])


def _costs(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Measures against the marginal advantage, and the cost of a candidate."""
    marginal = [row.get("marginal", {}).get(metric) for metric in ("rank_correlation", "pair_accuracy")]
    measures = [NOTHING if one is None else f"{one['mean']:.3f} {_plain_interval(one['ci95'])}" for one in marginal]
    names = ("passes", "environment_steps", "generated_tokens")
    costs = [NOTHING if row["cost"][name] is None else f"{row['cost'][name]:.1f}" for name in names]
    fit = f"{row['fit']['environment_steps']:,} steps" if "fit" in row else NOTHING
    return (*measures, *costs, fit)


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
    simulators = results["simulators"]
    means = _means(simulators["cells"], "simulator", "success", titles)
    rows = [
        (
            simulator,
            title,
            f"{cell['n']} x {cell['seeds']}",
            percent(success),
            percent_interval(bounds),
            f"{cell['turns']:.1f}",
            f"{cell['reply_chars']:.0f}",
            percent(cell["leak"]),
        )
        for simulator, title, success, cell, bounds in means
    ]
    ranked = [
        (
            row["simulator"],
            " > ".join(titles.get(name, name) for name in row["best_first"]),
            NOTHING if row["tau"] is None else f"{row['tau']:.2f}",
        )
        for row in simulators["rankings"]
    ]
    shares = [(name, percent(share)) for name, share in simulators["variance"].items()]
    cells = ("Simulator", "Algorithm", "Tasks x seeds", "Success", "95%", "Turns", "Characters per reply", "Leak")
    return Part(
        "simulators",
        "Evaluation with other simulators",
        [
            Table(cells, rows, "The same agents with other user simulators"),
            Table(("Simulator", "Best first", "Kendall's tau with the first"), ranked, "Ranking of the algorithms"),
            Table(("Source", "Share of the variance"), shares, "Variance of success by algorithm, simulator and seed"),
        ],
        [fractions_chart("Success by simulator", means, colours_of(results, titles))],
        ["Leak: fraction of the hidden code's tokens in the simulated human's replies of a dialogue."],
    )


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
    by_agent = [
        row
        for name in results["algorithms"]
        for row in agent_rows([of[name] for of in by_seed.values()], titles.get(name, name))
    ]
    tables = [Table(head, rows), *([Table(("Algorithm", *AGENT_HEAD), by_agent, "By agent")] if by_agent else [])]
    return Part("ledger", "Costs", tables, notes=[first, " ".join(notes), *([NOTE] if by_agent else [])])


def _settings(results: Results) -> Part:
    packages = {f"package {name}": version for name, version in results["versions"].get("packages", {}).items()}
    others = {name: value for name, value in results["versions"].items() if name != "packages"}
    # `algorithm` is of `train`; here there are several.
    settings = {name: value for name, value in flat(results.get("settings", {})).items() if name != "algorithm"}
    rows = [(name, str(value)) for name, value in {**settings, **others, **packages}.items()]
    return Part("settings", "Setup", [Table(("Setting", "Value"), rows, "settings and versions")])


def _cost(column: str, value: float) -> str:
    return duration(value) if column.endswith("seconds") else f"{value:,.0f}"


def _plain_interval(bounds: Sequence[float]) -> str:
    return f"[{bounds[0]:.3f}, {bounds[1]:.3f}]"
