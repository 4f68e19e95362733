"""The recorded results of a recipe: tables of one or several run folders of `sweetrl_agent.train`, without weights.

    PYTHONPATH=. python benchmarks/recipe.py runs/qwen_0 runs/qwen_1 --output benchmarks/results/qwen_0.5b_cpu.json [--conditions 60]

For every agent (the model as it came, the policy after SFT, the trained policy) and split: success and tests passed with 95% intervals, questions asked,
wishes heard, and the share of the heard wishes that the answer does. "all" is all splits together: differences are paired by task and, with several
runs, averaged over them first, with a bootstrap over tasks; "by_run" has each run's own. Then seconds and peak memory of every stage, settings, versions.

`--conditions N` first plays two further conditions with the model as it came, on the first N tasks of each split: "single_turn" (every message begins with the
answer marker) and "told_everything" (the same, and the request states all that the scripted human knows). They are written to conditions.jsonl of the run folder.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from colbench_gym.evaluation.summary import summarize
from colbench_gym.scoring.intervals import difference_interval, sign_flip_p
from colbench_gym.simulators.code_facts import facts_from_reference
from colbench_gym.tasks import Task
from sweetrl_agent.config.command_line import prepare_process
from sweetrl_agent.config.job import Config
from sweetrl_agent.data.files import Row, read_object, read_rows
from sweetrl_agent.data.run import Run
from sweetrl_agent.evaluation.evaluate import record
from sweetrl_agent.evaluation.wishes import summarize_wishes

METRICS = ("tests_passed", "success")
PAIRS = (("initial", "trained"), ("pretrained", "trained"), ("pretrained", "initial"))
CONDITIONS = "conditions.jsonl"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--conditions", type=int, default=0)
    given = parser.parse_args()
    prepare_process()
    runs = [opened(folder) for folder in given.runs]
    if given.conditions:
        for run in runs:
            play_conditions(run, given.conditions)
    rows = {run.folder.name: _rows(run) for run in runs}
    found = {
        "agents": agents_of(runs, rows),
        "differences": [pair for one in PAIRS for pair in differences(rows, *one)],
        "runs": {run.folder.name: of_run(run) for run in runs},
        "settings": {name: value for name, value in runs[0].config.settings().items() if name not in ("seed", "model")},
        "model": Path(runs[0].config.model.model).name,
    }
    print(as_text(found))
    if given.output:
        given.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


def opened(folder: Path) -> Run:
    """A run folder, to be read."""
    flat = yaml.safe_load((folder / "config.yaml").read_text(encoding="utf-8"))
    return Run(Config().with_settings({**flat, "output": str(folder)}), is_dry=True)


def _rows(run: Run) -> list[Row]:
    path = run.path(CONDITIONS)
    return [*read_rows(run.path("evaluation.jsonl")), *(read_rows(path) if path.exists() else [])]


def play_conditions(run: Run, count: int) -> None:
    """Play the two conditions that no algorithm has, with the model as it came."""
    from sweetrl_agent.models.loading import load_policy

    model = replace(run.config.model, system_prompt=run.config.evaluation.eval_pretrained or run.config.model.system_prompt)
    policy = load_policy(model.model, model.model, model, run.record.answer_prefix)
    for split, tasks in run.held_out.items():
        for agent, own in (("single_turn", tasks[:count]), ("told_everything", [told(task) for task in tasks[:count]])):
            record(run, run.path(CONDITIONS), {"agent": agent, "split": split}, own, lambda: policy, f"evaluate {split}")


def told(task: Task) -> Task:
    """The task with a request that states all that the scripted human knows and a programmer would not assume."""
    facts = task.hidden.facts or facts_from_reference(task.hidden.reference, task.signature)
    said = [fact.sentence for fact in facts if fact.is_special]
    return replace(task, description="\n".join([task.description, "My wishes:", *said]))


def agents_of(runs: Sequence[Run], rows: dict[str, list[Row]]) -> list[Row]:
    """Scores of each agent on each split and on all, over all runs."""
    everything = [row for of_run in rows.values() for row in of_run]
    wishes = [own for run in runs for own in _wishes(run, rows[run.folder.name])]
    found = []
    for agent in dict.fromkeys(row["agent"] for row in everything):
        for split in ("all", *dict.fromkeys(row["split"] for row in everything)):
            own = [row for row in everything if row["agent"] == agent and split in ("all", row["split"])]
            heard = [one for one in wishes if one["agent"] == agent and split in ("all", one["split"])]
            asked = {
                name: round(
                    sum(one[name] * one["n"] for one in heard if one[name] is not None) / sum(one["n"] for one in heard), 4
                )
                for name in ("questions", "heard", "written")
                if heard
            }
            found.append({"agent": agent, "split": split, **summarize(own), **asked})
    return found


def _wishes(run: Run, rows: Sequence[Row]) -> list[Row]:
    return summarize_wishes(run, rows)


def differences(rows: dict[str, list[Row]], one: str, other: str) -> list[Row]:
    """Paired differences of two agents by split and on all; [] if one of them was not played."""
    found = []
    splits = dict.fromkeys(row["split"] for own in rows.values() for row in own)
    for split in ("all", *splits):
        by_run = {name: _by_task(own, split, one, other) for name, own in rows.items()}
        tasks = sorted(set.intersection(*({metric_task[1] for metric_task in own} for own in by_run.values())))
        if not tasks:
            continue
        pair: Row = {"from": one, "to": other, "split": split, "tasks": len(tasks), "runs": len(rows)}
        for metric in METRICS:
            values = [sum(own[metric, task] for own in by_run.values()) / len(by_run) for task in tasks]
            pair[metric] = {
                "difference": round(sum(values) / len(values), 4),
                "ci95": [round(bound, 4) for bound in difference_interval(values)],
                "p": round(sign_flip_p(values), 4),
                "by_run": {
                    name: round(sum(own[metric, task] for task in tasks) / len(tasks), 4) for name, own in by_run.items()
                },
            }
        found.append(pair)
    return found


def _by_task(rows: Sequence[Row], split: str, one: str, other: str) -> dict[tuple[str, str], float]:
    """Difference of each metric on each task, for agents with one episode a task; void ones are left out."""
    played = {
        (row["agent"], row["task_id"]): row for row in rows if row["outcome"] != "void" and split in ("all", row["split"])
    }
    tasks = [task for agent, task in played if agent == one and (other, task) in played]
    return {
        (metric, task): float(played[other, task][metric]) - float(played[one, task][metric])
        for metric in METRICS
        for task in tasks
    }


def of_run(run: Run) -> dict[str, Any]:
    """Seed, seconds and peak memory of every stage, and versions."""
    seconds = {name: value for name, value in run.seconds.items() if name != "report"}
    return {
        "seed": run.seed,
        "minutes": round(sum(seconds.values()) / 60, 1),
        "seconds": seconds,
        "peak_mib": run.peak_mib,
        "pairs": len(read_rows(run.path("outcome_pairs.jsonl"))),
        "turn_pairs": len(read_rows(run.path("turn_pairs.jsonl"))),
        "hint_reading": read_object(run.path("hint_reading.json")),
        "versions": read_object(run.path("versions.json")),
    }


def as_text(found: dict[str, Any]) -> str:
    lines = [
        "| agent | split | n | success | tests passed | questions | heard | written of heard |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in found["agents"]:
        if not row["n"]:
            continue
        cells = [f"{row[m]:.1%} ({row['ci95'][m][0]:.1%} to {row['ci95'][m][1]:.1%})" for m in ("success", "tests_passed")]
        asked = [f"{row['questions']:.1f}", f"{row['heard']:.0%}", f"{row['written']:.0%}"] if "heard" in row else ["", "", ""]
        lines.append(f"| {' | '.join([row['agent'], row['split'], str(row['n']), *cells, *asked])} |")
    lines += ["", "| difference, points | split | tasks | tests passed | success |", "|---|---|---|---|---|"]
    for pair in found["differences"]:
        cells = [
            f"{100 * pair[m]['difference']:+.1f} ({100 * pair[m]['ci95'][0]:.1f} to {100 * pair[m]['ci95'][1]:.1f}), p {pair[m]['p']:.4f}"
            for m in METRICS
        ]
        lines.append(f"| {pair['to']} - {pair['from']} | {pair['split']} | {pair['tasks']} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
