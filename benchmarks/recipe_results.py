"""What a recipe for a pretrained model gives, over the seeds of its runs: what the agents ask, hear, write down and pass.

    PYTHONPATH=. python benchmarks/recipe_results.py runs/seed_0 runs/seed_1 --output benchmarks/results/NAME.json --note "MACHINE, COMMIT"

The runs are finished and differ in nothing but the seed, else they are refused. The file has

    agents: by agent and split, "all" for the splits together, what `results.json` has of one run: scores and wishes;
    differences: of every two agents, by split and over all, paired by task: success, the metric and, where they are known, "wishes_heard" and "written" (of the means over the
        episodes that heard a wish), and the metric's by seed ("by_run");
    pairs: by seed, how many preferences between candidates trained the actor, by kind;
    seconds: by seed and stage, those of the last part where a stage was resumed.

`recipe` of docs/tools/generate.py makes tables of it.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from colbench_gym.evaluation.rows import read_evaluation
from colbench_gym.evaluation.summary import VOID, differences, scores
from colbench_gym.files import Row, read_object, read_rows, write_json
from colbench_gym.scoring.intervals import difference_of_means_interval
from sweetrl_agent.config.pipeline import AGENTS
from sweetrl_agent.core.explanation import WishCounts
from sweetrl_agent.evaluation.model_policies import read_run
from sweetrl_agent.evaluation.recorded_run import open_recorded
from sweetrl_agent.evaluation.wishes import counted_wishes, summarize_counts
from sweetrl_agent.trainers.run import Run

HEARD, WRITTEN = "wishes_heard", "written"
#: Settings that differ between the seeds, or between folders of one model.
LEFT_OUT = ("seed", "model")


def main() -> int:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, help="folders of finished runs, one for each seed")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--note", default="", help="machine, commit, and what else to know")
    given = parser.parse_args()
    if unfinished := [str(folder) for folder in given.runs if not (folder / "results.json").exists()]:
        parser.error(f"not finished: {' '.join(unfinished)}")
    recorded = [read_run(folder) for folder in given.runs]
    all_settings = [{name: value for name, value in row.items() if name not in LEFT_OUT} for row in recorded]
    models = {Path(row["model"]).name for row in recorded}
    if len(models) > 1 or any(settings != all_settings[0] for settings in all_settings):
        parser.error("the runs differ in more than the seed")
    runs = {str(row["seed"]): open_recorded(str(folder)) for row, folder in zip(recorded, given.runs, strict=True)}
    if len(runs) < len(recorded):
        parser.error("two runs have the same seed")
    seconds = {seed: read_object(run.path("results.json"))["seconds"] for seed, run in runs.items()}
    facts = {"note": given.note, "model": Path(recorded[0]["model"]).name, "settings": all_settings[0]}
    kinds = {seed: kinds_of_pairs(run) for seed, run in runs.items()}
    write_json(given.output, {**facts, "seconds": seconds, "pairs": kinds, **over_seeds(runs)})
    return 0


def over_seeds(runs: Mapping[str, Run]) -> Row:
    """ "agents" and "differences" of the file, for runs by seed."""
    run = next(iter(runs.values()))
    metric = run.record.metric
    episodes = ((seed, row) for seed, of in runs.items() for row in read_evaluation(of.path("evaluation.jsonl"), metric))
    of_splits = [{**row, "seed": seed} for seed, row in episodes if row["outcome"] != VOID]
    agents, pairs, counted = list[Row](), list[Row](), counted_wishes(run, of_splits)
    for together in (True, False):
        as_one = {"split": "all"} if together else {}
        rows = [{**row, **as_one} for row in of_splits]
        known = [({**row, **as_one}, counts) for row, counts in counted]
        summaries = summarize_counts(known)
        wishes = {(row["agent"], row["split"]): row for row in summaries}
        of_agents = scores(rows, AGENTS, list(dict.fromkeys(row["split"] for row in rows)), metric)
        for agent, by_split in of_agents.items():
            agents += [
                {"agent": agent, "split": split, **wishes.get((agent, split), {}), **of} for split, of in by_split.items()
            ]
        by_seed = {seed: _paired([row for row in rows if row["seed"] == seed], metric) for seed in runs}
        heard = _paired(rows, HEARD) if all(HEARD in row for row in rows) else {}
        for names, pair in _paired(rows, metric).items():
            by_run = {seed: of[names][metric]["difference"] for seed, of in by_seed.items() if names in of}
            wished = {HEARD: heard[names][HEARD], WRITTEN: _written(known, *names)} if heard else {}
            pairs.append({**pair, **wished, "by_run": by_run})
    return {"agents": agents, "differences": pairs}


def _paired(rows: list[Row], metric: str) -> dict[tuple[str, ...], Any]:
    return {(pair["split"], pair["from"], pair["to"]): pair for pair in differences(rows, metric)}


def _written(counted: Sequence[tuple[Row, WishCounts]], split: str, *agents: str) -> Row:
    first, second = (
        [(row["task_id"], counts.written / counts.heard) for row, counts in counted if (row["split"], row["agent"]) == (split, agent) and counts.heard]
        for agent in agents
    )  # fmt: skip
    means = [sum(value for _, value in side) / len(side) if side else 0.0 for side in (first, second)]
    return {
        "difference": round(means[1] - means[0], 4),
        "ci95": [round(bound, 4) for bound in difference_of_means_interval(first, second)],
    }


def kinds_of_pairs(run: Run) -> dict[str, int]:
    """How many preferences trained the actor, such as "question over answer"."""

    def kind(text: str) -> str:
        return "question" if run.record.answer(text) is None else "answer"

    rows = read_rows(run.artifact(run.algorithm.critic, "turn_pairs.jsonl"))
    return dict(Counter(f"{kind(row['chosen'])} over {kind(row['rejected'])}" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
