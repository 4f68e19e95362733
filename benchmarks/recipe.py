"""The recorded results of a recipe: tables of one or several run folders of `sweetrl_agent.train`, without weights.

    PYTHONPATH=. python benchmarks/recipe.py runs/qwen_0 runs/qwen_1 --output benchmarks/results/qwen_0.5b_cpu.json [--conditions 60] [--note TEXT]

For every agent (the model as it came, the policy after SFT, the trained policy) and split: success and tests passed with 95% intervals, questions asked,
wishes heard, and the share of the heard wishes that the answer does. "all" is all splits together: differences are paired by task and, with several
runs, averaged over them first, with a bootstrap over tasks; "by_run" has each run's own, by its seed. Then seconds and peak memory of every stage, settings, versions.

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

from merge_comparisons import without_folder

from colbench_gym.evaluation.summary import differences, summarize
from colbench_gym.simulators.code_facts import facts_from_reference
from colbench_gym.tasks import Task
from sweetrl_agent.config.command_line import prepare_process
from sweetrl_agent.data.files import Row, read_object, read_rows
from sweetrl_agent.data.run import Run
from sweetrl_agent.evaluation.evaluate import record
from sweetrl_agent.evaluation.policies import find_policies
from sweetrl_agent.evaluation.policy_loading import run_config
from sweetrl_agent.evaluation.wishes import summarize_wishes

METRIC, ALL = "tests_passed", "all"
CONDITIONS = "conditions.jsonl"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--conditions", type=int, default=0)
    parser.add_argument("--note", default="", help="the machine, the commands and what differs from the recipe's file")
    given = parser.parse_args()
    prepare_process()
    runs = [opened(folder) for folder in given.runs]
    if given.conditions:
        for run in runs:
            play_conditions(run, given.conditions)
    rows = [{**row, "seed": run.seed} for run in runs for row in _rows(run)]
    rows = [*({**row, "split": ALL} for row in rows), *rows]
    found = {
        "agents": agents_of(runs[0], rows),
        "differences": differences_of(rows),
        "runs": {run.folder.name: of_run(run) for run in runs},
        "settings": {
            name: without_folder(value) for name, value in runs[0].config.settings().items() if name not in ("seed", "model")
        },
        "model": Path(runs[0].config.model.model).name,
        "note": given.note,
    }
    print(as_text(found))
    if given.output:
        given.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


def opened(folder: Path) -> Run:
    """A run folder, to be read."""
    return Run(run_config(find_policies([str(folder)])[0]), is_dry=True)


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


def agents_of(run: Run, rows: Sequence[Row]) -> list[Row]:
    """Scores of each agent on each split, and what it asked, heard and wrote down; the tasks are those of `run`."""
    wishes = {(one.pop("agent"), one.pop("split")): one for one in summarize_wishes(run, rows)}
    found = []
    for agent, split in dict.fromkeys((row["agent"], row["split"]) for row in rows):
        own = [row for row in rows if (row["agent"], row["split"]) == (agent, split)]
        found.append({"agent": agent, "split": split, **wishes.get((agent, split), {}), **summarize(own)})
    return found


def differences_of(rows: Sequence[Row]) -> list[Row]:
    """Paired differences of all agents on each split; "by_run" has the differences of tests passed of each run."""
    found = differences(rows, METRIC)
    for seed in dict.fromkeys(row["seed"] for row in rows):
        own = {
            _name(pair): pair[METRIC]["difference"]
            for pair in differences([row for row in rows if row["seed"] == seed], METRIC)
        }
        for pair in found:
            pair.setdefault("by_run", {})[str(seed)] = own.get(_name(pair))
    return found


def _name(pair: Row) -> tuple[str, str, str]:
    return pair["split"], pair["from"], pair["to"]


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
        cells = [f"{row[m]:.1%} ({row['ci95'][m][0]:.1%} to {row['ci95'][m][1]:.1%})" for m in ("success", METRIC)]
        asked = (
            [f"{row['questions']:.1f}", *(_percent(row[name]) for name in ("heard", "written"))] if "heard" in row else [""] * 3
        )
        lines.append(f"| {' | '.join([row['agent'], row['split'], str(row['n']), *cells, *asked])} |")
    lines += ["", "| difference, points | split | tasks | tests passed | success |", "|---|---|---|---|---|"]
    for pair in found["differences"]:
        cells = [
            f"{100 * pair[m]['difference']:+.1f} ({100 * pair[m]['ci95'][0]:.1f} to {100 * pair[m]['ci95'][1]:.1f}), p {pair[m]['p']:.4f}"
            for m in (METRIC, "success")
        ]
        lines.append(f"| {pair['to']} - {pair['from']} | {pair['split']} | {pair['tasks']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"


if __name__ == "__main__":
    sys.exit(main())
