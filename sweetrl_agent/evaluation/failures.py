"""Why episodes fail: the kind of every episode, how often each kind occurs, and explanations of the episodes that a report shows.

Files: failures.jsonl has a line for every row of evaluation.jsonl (agent, split, task_id, episode, kind, wishes, unheard, about);
explanations.jsonl has one for each episode that the report shows. They are made after an evaluation, from its files, and hold hidden information.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from colbench_gym.errors import ColBenchError
from colbench_gym.files import Row, read_rows, write_rows
from colbench_gym.scoring.intervals import mean_interval, wilson
from sweetrl_agent.core.dialogues import VOID
from sweetrl_agent.core.explanation import FailureKind
from sweetrl_agent.reporting.dialogues import Key, key_of, shown_records
from sweetrl_agent.reporting.run_folder import ADVANTAGES, EXPLANATIONS, FAILURES

#: What was evaluated: a run, or the request of `sweetrl_agent.evaluate`. It has a `record`, a `config`, tasks `held_out` by split, and a `folder`.
Evaluated = Any
ADDRESS = ("agent", "split", "task_id", "episode")


def failures_of(run: Evaluated, rows: Iterable[Row]) -> list[Row]:
    """The kinds of some rows of evaluation.jsonl, in order; [] if the environment tells none apart.

    A row of a task that the run no longer has is left out.
    """
    if not run.record.failure_kinds:
        return []
    tasks = tasks_of(run)
    return [
        {**{name: row[name] for name in ADDRESS}, **asdict(run.record.failure(row, task, run.config))}
        for row in rows
        if (task := tasks.get((row["split"], row["task_id"])))
    ]


def tasks_of(run: Evaluated) -> dict[tuple[str, str], Any]:
    """The held-out tasks of a run, by split and id: rows of files of the same name have the same ids."""
    return {(split, task.id): task for split, of_split in run.held_out.items() for task in of_split}


def summarize_failures(kinds: Sequence[FailureKind], failures: Sequence[Row]) -> dict[str, Any]:
    """Counts, shares and intervals of all kinds by agent and split: "failures" of results.json.

    Args:
        kinds: The kinds of the environment.
        failures: Rows of failures.jsonl, of one or several seeds.

    Returns:
        "kinds": name, title, means. "rows": for each agent, split and kind its "count" and its "share" of the "n" episodes with a score, with "ci95"
        (Wilson; bootstrap over tasks where they repeat); "n" and the share of void are of all episodes. "wishes": for each agent, split and topic the
        number of episodes in which a wish on it was "unheard", of the "n" with such a wish.
    """
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in failures:
        groups.setdefault((row["agent"], row["split"]), []).append(row)
    return {
        "kinds": [asdict(kind) for kind in kinds],
        "rows": [
            {"agent": agent, "split": split, "kind": kind.name, **_share(kind.name, of_group)}
            for (agent, split), of_group in groups.items()
            for kind in kinds
        ],
        "wishes": [
            {"agent": agent, "split": split, **row} for (agent, split), of_group in groups.items() for row in _unheard(of_group)
        ],
    }


def _share(kind: str, rows: Sequence[Row]) -> Row:
    rows = rows if kind == VOID else [row for row in rows if row["kind"] != VOID]
    values = [float(row["kind"] == kind) for row in rows]
    tasks = [row["task_id"] for row in rows]
    count, n = int(sum(values)), len(values)
    share = count / n if n else 0.0
    bounds = wilson(share, n) if len(set(tasks)) == n else mean_interval(values, tasks)
    return {"count": count, "n": n, "share": round(share, 4), "ci95": [round(bound, 4) for bound in bounds]}


def _unheard(rows: Sequence[Row]) -> list[Row]:
    counts: dict[str, list[int]] = {}
    for row in rows:
        for topic in row["wishes"] if row["kind"] != VOID else ():
            count = counts.setdefault(topic, [0, 0])
            count[0] += topic in row["unheard"]
            count[1] += 1
    return [{"topic": topic, "unheard": unheard, "n": n} for topic, (unheard, n) in sorted(counts.items())]


def explain_shown(run: Evaluated, rows: Sequence[Row], failures: Sequence[Row]) -> None:
    """Write failures.jsonl, and explanations.jsonl of the episodes that the report shows. Without kinds of failure, nothing is written.

    If the sandbox or the browser is not available, the report has no explanations, which is printed: they change no score.

    Args:
        run: The run.
        rows: Rows of evaluation.jsonl.
        failures: Their kinds, see `failures_of`.
    """
    if not run.record.failure_kinds:
        return
    write_rows(run.folder / FAILURES, failures)
    kinds = {key_of(row): str(row["kind"]) for row in failures}
    chosen = [row for row in shown_records(rows, scored_keys(run), kinds) if kinds.get(key_of(row), VOID) != VOID]
    tasks = tasks_of(run)
    try:
        explained = run.record.explain([(row, tasks[row["split"], row["task_id"]]) for row in chosen], run.config)
    except ColBenchError as error:
        print(f"The report does not explain single answers: {error}")
        explained = []
    made = [{**_address(row), **explanation} for row, explanation in zip(chosen, explained, strict=False) if explanation]
    write_rows(run.folder / EXPLANATIONS, made)


def scored_keys(run: Evaluated) -> Collection[Key]:
    """Keys of the episodes that a critic has scored."""
    files = [run.folder / ADVANTAGES, *sorted(run.folder.glob(f"*/{ADVANTAGES}"))]
    return {key_of(row) for path in files for row in read_rows(path)}


def _address(row: Mapping[str, Any]) -> Row:
    return {name: row[name] for name in ADDRESS}
