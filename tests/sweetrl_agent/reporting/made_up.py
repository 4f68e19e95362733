"""Files of runs and comparisons with every part that a report can have, from numbers made up here."""

from __future__ import annotations

import json
import re
from pathlib import Path

from sweetrl_agent.reporting.page import page

ATTACK = "</script><img src=x onerror=alert(1)>"
ALGORITHMS = ("initial", "rft", "sweet", "reinforce", "grpo")
TITLES = {
    "initial": "Initial policy",
    "rft": "Rejection fine-tuning",
    "sweet": "SWEET-RL",
    "reinforce": f"REINFORCE {ATTACK}",
    "grpo": "GRPO",
}
CRITICS = {"sweet": "SWEET-RL", "no_hidden": "w/o train-time information"}
COLUMNS = {"environment_turns": "agent turns in training episodes", "seconds": "wall time"}


def scores(success, seeds=(-0.02, 0.03, 0.01)):
    """Scores of an algorithm on a split: five points to either side, a seed at each of the distances."""
    bounds = [round(success - 0.05, 4), round(success + 0.05, 4)]
    by_seed = [round(success + distance, 4) for distance in seeds]
    return {
        "success": success, "tests_passed": 0.5, "n": 40, "seeds": len(seeds), "by_seed": by_seed, "metric_by_seed": [0.5] * len(seeds),
        "ci95": {"success": bounds, "tests_passed": [0.4, 0.6]}, "ci95_agents": {"success": bounds, "tests_passed": [0.4, 0.6]},
        "links": {"points_stated": 2.5, "wishes_heard": 0.4, "all_heard": 0.2, "success_if_all_heard": 0.8},
    }  # fmt: skip


def paired(algorithms, split):
    """Differences of every pair, ten points a step, with intervals that exclude 0 for some."""
    return [
        {
            "a": a, "b": b, "split": split, "difference": 0.1 * (i - j), "ci95": [0.1 * (i - j) - 0.12, 0.1 * (i - j) + 0.12], "p": 0.04,
            "p_holm": 0.2, "seeds": 3, "seeds_ahead": 3, "tasks_for_80": None,
        }
        for j, b in enumerate(algorithms)
        for i, a in enumerate(algorithms)
        if i > j
    ]  # fmt: skip


def comparison_results(algorithms=ALGORITHMS):
    """Content of results.json of a comparison."""
    flat = {"ci95": [0.1, 0.3], "n": 40, "seeds": 3, "by_seed": [0.18, 0.2, 0.22]}
    places = {name: i for i, name in enumerate(algorithms)}
    of = {name: {"test": scores(0.1 + 0.1 * i), "unseen": scores(0.06 + 0.05 * i)} for name, i in places.items()}
    dial = {"tasks": "embedded:test", "algorithms": {name: splits["test"] for name, splits in of.items()}, "paired": []}
    simulators = [
        {
            "simulator": human,
            "algorithm": name,
            "success": 0.2 + 0.05 * i,
            **flat,
            "turns": 4.0,
            "reply_chars": 40.0,
            "leak": 0.1,
        }
        for human in ("scripted (of the training)", "terse")
        for name, i in places.items()
    ]
    return {
        "metric": "tests_passed",
        "success_means": "the answer passes every hidden test",
        "algorithms": of,
        "paired": paired(algorithms, "test") + paired(algorithms, "unseen"),
        "ledger": {str(seed): {name: {"environment_turns": 900, "seconds": 40.0} for name in algorithms} for seed in range(3)},
        "settings": {"env": "ColBench-Backend-v0", "note": ATTACK},
        "versions": {"python": "3.11"},
        "notes": [],
        "best_of_n": [{"critic": c, "candidates": n, "success": 0.2, **flat} for c in CRITICS for n in (1, 2, 4, 8, 16)],
        "scaling": [{"algorithm": a, "trajectories": n, "success": 0.2, **flat} for a in ("rft", "sweet") for n in (450, 480, 900, 1800)],
        "win_rate": [{"algorithm": a, "split": "test", "win_rate": 0.7, **flat, "ci95": [0.6, 0.8]} for a in algorithms],
        "credit_accuracy": {
            critic: {
                split: {"n": 40, "seeds": 3, "kinds": {}, **{
                    metric: {"mean": 0.7, "ci95": [0.6, 0.8], "by_seed": [0.68, 0.7, 0.72]} for metric in ("rank_correlation", "pair_accuracy")
                }}
                for split in ("test", "unseen")
            }
            for critic in CRITICS
        },
        "dials": [{"name": name, **dial} for name in ("easy", "standard", "hard")],
        "simulators": {"cells": simulators, "rankings": [], "variance": {"algorithm": 0.5}},
    }  # fmt: skip


def metrics(seed):
    """Metrics of a seed: two on-policy algorithms, and two stages with steps alone."""
    rows = [
        {
            "stage": name, "step": i + 1, "return": 0.1 * i + 0.01 * seed, "success": 0.05 * i, "loss": 1.0 / (i + 1), "episodes": 48 * (i + 1),
            "environment_turns": 300 * (i + 1) + seed, "generated_tokens": 1200 * (i + 1), "num_input_tokens_seen": 1500 * (i + 1),
        }
        for name in ("reinforce", "grpo")
        for i in range(6)
    ]  # fmt: skip
    rows += [{"stage": "sft", "step": 10 * i, "loss": 5.0 / (i + 1), "learning_rate": 1e-4} for i in range(9)]
    return [*rows, {"stage": f"critic {ATTACK}", "step": 1, "loss": 0.693}]


def write_lines(path, rows):
    """Write JSON lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_seed(folder, seed):
    """Write the run folder of a seed."""
    folder.mkdir(parents=True)
    rows = metrics(seed)
    write_lines(folder / "metrics.jsonl", rows)
    write_lines(folder / "timings.jsonl", [{"stage": r["stage"], "step": r["step"], "seconds": 2.5 * r["step"]} for r in rows])
    (folder / "config.yaml").write_text(f"env: ColBench-Backend-v0\nalgorithm: sweet\nseed: {seed}\n")
    (folder / "versions.json").write_text(json.dumps({"python": "3.11", "packages": {"torch": "2"}}))
    history = [{"role": "user", "content": ATTACK}, {"role": "assistant", "content": "```\nI WANT TO ANSWER\n```"}]
    episodes = [
        {"agent": name, "split": "test", "task_id": f"task-{i}", "episode": 0, "outcome": "passed" if i else "wrong", "success": int(i > 0),
         "tests_passed": 1.0, "turns": 1, "dialogue_history": history}
        for name in ALGORITHMS for i in range(3)
    ]  # fmt: skip
    write_lines(folder / "evaluation.jsonl", episodes)
    keys = ("agent", "split", "task_id", "episode")
    write_lines(
        folder / "turn_advantages.jsonl", [{**{key: row[key] for key in keys}, "advantages": [0.3]} for row in episodes]
    )


def write_comparison_folder(folder: Path) -> Path:
    """Write the files of a comparison of three seeds."""
    for seed in range(3):
        write_seed(folder / f"seed_{seed}", seed)
    (folder / "results.json").write_text(json.dumps(comparison_results()))
    return folder


def write_run_folder(folder: Path) -> Path:
    """Write the files of a finished run."""
    write_seed(folder, 7)
    run = {"success": 0.2, "tests_passed": 0.5, "n": 300, "void": 1, "turns": 4.0, "answered": 0.9}
    before = {**run, "ci95": {"success": [0.16, 0.25], "tests_passed": [0.4, 0.6]}}
    after = {**run, "success": 0.4, "ci95": {"success": [0.35, 0.45], "tests_passed": [0.4, 0.6]}}
    results = {"initial": {"test": before, "unseen": before}, "trained": {"test": after, "unseen": after}}
    change = {"difference": 0.2, "ci95": [0.1, 0.3], "p": 0.01, "p_holm": 0.01}
    pair = {"from": "initial", "to": "trained", "n": 300, "tasks": 300, "success": change, "tests_passed": change}
    results["differences"] = [{"split": split, **pair} for split in ("test", "unseen")]
    results |= {"seconds": {"sft": 30.0, "collect": 5.0}, "seed": 7, "algorithm": "sweet", "metric": "tests_passed"}
    (folder / "results.json").write_text(json.dumps(results))
    return folder


def html_of(*parts):
    """A page of some parts, without the scripts that draw charts and dialogues."""
    return re.sub(r"<script>.*?</script>", "", page("page", {}, [part for part in parts if part]), flags=re.DOTALL)
