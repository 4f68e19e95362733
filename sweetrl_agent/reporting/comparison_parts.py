"""The parts of a comparison's report, from its results.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sweetrl_agent.reporting import paper
from sweetrl_agent.reporting.failures import failures_part
from sweetrl_agent.reporting.figures import (
    NOTHING,
    duration,
    measure,
    measure_interval,
    percent,
    percent_interval,
    plain,
    points,
)
from sweetrl_agent.reporting.line_chart import Line
from sweetrl_agent.reporting.parts import Chart, Part, Table
from sweetrl_agent.reporting.scores import metric_of, metric_title, success_means

Results = Mapping[str, Any]
Names = Mapping[str, str]
#: Maximum length of a dial's name under an axis; longer names are given in the notes.
MAX_NAME = 12


def parts(results: Results, algorithms: Names, critics: Names, columns: Names, is_against_paper: bool) -> list[Part]:
    """All parts that the results have data for, most important first.

    Args:
        results: Content of results.json.
        algorithms: Titles of algorithms.
        critics: Titles of critics.
        columns: Meaning of each column of the ledger.
        is_against_paper: Show the paper's numbers next to ours.
    """
    made = [_scores(results, algorithms), _paired(results, algorithms)]
    made += (
        [_links(results, algorithms)]
        if any(score.get("links") for of in results["algorithms"].values() for score in of.values())
        else []
    )
    made += [failures] if (failures := failures_part(results, algorithms)) else []
    made += [_against(results, algorithms)] if is_against_paper else []
    made += [_wins(results, algorithms)] if results.get("win_rate") else []
    made += [_dials(results, algorithms)] if results.get("dials") else []
    made += [_credit(results, critics)] if results.get("credit_accuracy") else []
    made += [_best_of(results, critics)] if results.get("best_of_n") else []
    made += [_scaling(results, algorithms)] if results.get("scaling") else []
    made += [_simulators(results, algorithms)] if results.get("simulators") else []
    return [*made, _ledger(results, algorithms, columns), _settings(results)]


def _scores(results: Results, titles: Names) -> Part:
    splits = dict.fromkeys(split for of in results["algorithms"].values() for split in of)
    head = (
        "Algorithm",
        "Success",
        "95%, algorithm",
        "95%, trained agents",
        metric_title(results),
        "95%, algorithm",
        "Success by seed",
        "Tasks x seeds",
    )
    tables = [
        Table(
            head,
            [
                _score(titles.get(name, name), of[split], metric_of(results))
                for name, of in results["algorithms"].items()
                if split in of
            ],
            split,
        )
        for split in splits
    ]
    text = (
        f"Success: {success_means(results)}. 'Algorithm': the interval holds for other runs on other tasks of this kind (variance components, "
        "Student's t with Satterthwaite's degrees of freedom). 'Trained agents': for these agents on other tasks (bootstrap "
        "over tasks). In percent."
    )
    return Part("scores", "Success", tables, notes=[text, *results.get("notes", ())])


def _score(title: str, score: Mapping[str, Any], metric: str) -> tuple[str, ...]:
    return (
        title,
        percent(score["success"]),
        percent_interval(score["ci95"]["success"]) if score["seeds"] > 1 else NOTHING,
        percent_interval(score["ci95_agents"]["success"]),
        measure(metric, score[metric]),
        measure_interval(metric, score["ci95"][metric]) if score["seeds"] > 1 else NOTHING,
        " ".join(f"{100 * x:.1f}" for x in score["by_seed"]),
        f"{score['n']} x {score['seeds']}",
    )


def _paired(results: Results, titles: Names) -> Part:
    head = (
        "Difference",
        "Points of success",
        "95%, algorithm",
        "p (Holm), trained agents",
        "Seeds ahead",
        "Tasks for power 0.8",
    )
    splits = dict.fromkeys(row["split"] for row in results["paired"])
    tables = [
        Table(head, [_pair(row, titles) for row in results["paired"] if row["split"] == split], split) for split in splits
    ]
    text = (
        "Differences are paired by task and seed, which removes common variance. The interval holds for the algorithms (other runs, other "
        "tasks) and is wide with two or three seeds, since these give little information on the variance between runs. p: two-sided permutation "
        "test over tasks, corrected for all pairs of the split; it holds for the trained agents, so it may be small although the interval is wide. "
        "Last column: tasks needed with this number of seeds to detect a difference of this size with power 0.8; a dash if no number of "
        "tasks suffices with so few seeds, or if there is no difference."
    )
    return Part("paired", "Paired differences", tables, notes=[text])


def _pair(row: Mapping[str, Any], titles: Names) -> tuple[str, ...]:
    return (
        f"{titles.get(row['a'], row['a'])} minus {titles.get(row['b'], row['b'])}",
        points(row["difference"]),
        f"[{points(row['ci95'][0])}, {points(row['ci95'][1])}]" if row["seeds"] > 1 else NOTHING,
        f"{row['p_holm']:.4f}",
        f"{row['seeds_ahead']} of {row['seeds']}",
        NOTHING if row["tasks_for_80"] is None else str(row["tasks_for_80"]),
    )


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


def _dials(results: Results, titles: Names) -> Part:
    rows = results["dials"]
    names = {float(i): row["name"] if len(row["name"]) <= MAX_NAME else f"dial {i + 1}" for i, row in enumerate(rows)}
    algorithms = dict.fromkeys(name for row in rows for name in row["algorithms"])
    lines = [
        Line(titles.get(name, name), [(float(i), own["success"], _whisker(own)) for i, own in found])
        for name in algorithms
        if len(found := [(i, row["algorithms"][name]) for i, row in enumerate(rows) if name in row["algorithms"]]) > 1
    ]
    head = ("Dial", "Algorithm", "Success", "95%, algorithm", "Success by seed", "Tasks x seeds")
    cells = [
        (
            names[float(i)],
            titles.get(name, name),
            percent(own["success"]),
            percent_interval(own["ci95"]["success"]) if own["seeds"] > 1 else NOTHING,
            " ".join(f"{100 * x:.1f}" for x in own["by_seed"]),
            f"{own['n']} x {own['seeds']}",
        )
        for i, row in enumerate(rows)
        for name, own in row["algorithms"].items()
    ]
    notes = [": ".join(dict.fromkeys((names[float(i)], row["name"], f"{row['tasks']}."))) for i, row in enumerate(rows)]
    chart = Chart("Success on test tasks", "dial of the tasks", lines, x_names=names)
    return Part("dials", "When does turn-level credit help?", [Table(head, cells)], [chart], notes)


def _whisker(score: Mapping[str, Any]) -> tuple[float, float]:
    """The algorithm's interval; none for one seed, which gives no information on the variance between runs."""
    low, high = score["ci95"]["success"] if score["seeds"] > 1 else 2 * (score["success"],)
    return low, high


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
    return Part("wins", "Win rate against the recorded run", [Table(head, rows)], notes=[text])


def _credit(results: Results, titles: Names) -> Part:
    found = results["credit_accuracy"]
    cells = [(titles.get(critic, critic), split, row) for critic, of in found.items() for split, row in of.items()]
    kinds = list(dict.fromkeys(kind for _, _, row in cells for kind in row["kinds"]))
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
        Table(("Critic", "Split", *(kind.replace("_", " ") for kind in kinds)), closer, "By kind of pair"),
    ]
    text = (
        "Scores of the same candidates, compared with their exact advantage (sweetrl_agent/envs/backend_exact_credit.py). Rank correlation: "
        "Spearman's over all candidates of a task's turns, chance level 0. Pair accuracy: the critic prefers the better of two candidates of one "
        "turn, chance level 0.5. Test tasks are not used in training; unseen tasks are of other families."
    )
    about = (
        "By kind of pair: the fraction in which the critic prefers the first, its 95% interval over tasks (for the trained critics), and the number "
        "of tasks with such a pair. When all wishes are known, a further question has the same exact advantage as the right answer; with a "
        "limit of ten turns the agent should answer."
    )
    return Part("credit", "Credit accuracy of critics", tables, notes=[text, about])


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


def _best_of(results: Results, titles: Names) -> Part:
    found = results["best_of_n"]
    lines = _lines(found, "critic", "candidates", titles)
    head, rows = _curve_table(found, "critic", "candidates", "Critic", titles)
    text = "The initial policy; every turn is the critic's best of N. Critics with hidden information use it at test time; an agent must not."
    chart = Chart("Success by candidates per turn", "candidates per turn (N)", lines, is_log=True)
    return Part("best-of-n", "Best-of-N per turn (as Figure 3a)", [Table(head, rows)], [chart], [text])


def _scaling(results: Results, titles: Names) -> Part:
    found = results["scaling"]
    lines = _lines(found, "algorithm", "trajectories", titles)
    head, rows = _curve_table(found, "algorithm", "trajectories", "Algorithm", titles)
    chart = Chart("Success by training trajectories", "trajectories", lines)
    return Part(
        "scaling",
        "Data scaling (as Figure 3b)",
        [Table(head, rows)],
        [chart],
        ["The same initial policy; the first n trajectories of each seed."],
    )


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
        notes=["Leak: fraction of the hidden code's tokens in the simulated human's replies of a dialogue."],
    )


def _ledger(results: Results, titles: Names, columns: Names) -> Part:
    by_seed: Mapping[str, Mapping[str, Mapping[str, float]]] = results["ledger"]
    rows = []
    for name in results["algorithms"]:
        costs = [of_seed[name] for of_seed in by_seed.values()]
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
    rows = [(name, str(value)) for name, value in {**results["settings"], **own, **others, **packages}.items()]
    return Part("settings", "Setup", [Table(("Setting", "Value"), rows, "settings and versions")])


def _cost(column: str, value: float) -> str:
    return duration(value) if column.endswith("seconds") else f"{value:,.0f}"


def _lines(found: Sequence[Mapping[str, Any]], by: str, x: str, titles: Names) -> list[Line]:
    names = dict.fromkeys(row[by] for row in found)
    return [
        Line(
            titles.get(name, name),
            [(float(row[x]), row["success"], (row["ci95"][0], row["ci95"][1])) for row in found if row[by] == name],
        )
        for name in names
    ]


def _curve_table(
    found: Sequence[Mapping[str, Any]], by: str, x: str, title: str, titles: Names
) -> tuple[list[str], list[list[str]]]:
    xs = sorted({row[x] for row in found})
    cells = {(row[by], row[x]): f"{percent(row['success'])} {percent_interval(row['ci95'])}" for row in found}
    sizes = {f"{row['n']} x {row['seeds']}" for row in found}
    rows = [
        [titles.get(name, name), *(cells.get((name, value), NOTHING) for value in xs)]
        for name in dict.fromkeys(r[by] for r in found)
    ]
    return [f"{title} (tasks x seeds: {', '.join(sorted(sizes))})", *(plain(float(value)) for value in xs)], rows


def _plain_interval(bounds: Sequence[float]) -> str:
    return f"[{bounds[0]:.3f}, {bounds[1]:.3f}]"
