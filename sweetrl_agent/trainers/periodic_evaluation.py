"""Evaluation of the policy in training, every `eval_every` iterations, on the first test tasks: what the curve of an on-policy algorithm means.

It changes no number of the training. Its episodes have seeds of their own, the same every time, so that two points of the curve differ by
the policy alone; environments and caches are its own; and the global random generators, which dropout uses, are left as they were.
Its results stand in the row of their iteration in metrics.jsonl.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from colbench_gym.files import Row
from colbench_gym.generators import preserve_rng_state
from colbench_gym.scoring.intervals import SHARES, mean_interval, wilson
from sweetrl_agent.core.episode import Episode, EpisodeKey
from sweetrl_agent.core.run import Run
from sweetrl_agent.rollouts.play import episodes_of

#: Plays episodes of some tasks with the current policy, by their keys and the name that their seeds are derived from.
Sample = Callable[[Sequence[Any], Sequence[EpisodeKey], str], list[Episode]]
#: Prefix of the results in metrics.jsonl.
TEST = "test/"


def is_due(run: Run, metrics: Sequence[Row]) -> bool:
    """Whether the last iteration is to be evaluated and was not."""
    every = run.config.evaluation.eval_every
    return bool(every and metrics and len(metrics) % every == 0 and f"{TEST}n" not in metrics[-1])


def evaluate_in_training(run: Run, stage: str, sample: Sample) -> Row:
    """Success and metric of the current policy on the first `eval_every_tasks` test tasks, an episode each.

    Returns:
        "test/success" (where episodes have it) and "test/METRIC", each with "_low" and "_high", its 95% interval; "test/n" and "test/void".
    """
    tasks = tuple(run.held_out["test"][: run.config.evaluation.eval_every_tasks])
    keys = episodes_of([task.id for task in tasks], 1)
    with preserve_rng_state():
        played = sample(tasks, keys, f"{stage} test")
    valid = [episode for episode in played if not episode.is_void]
    results: Row = {}
    for name in dict.fromkeys(("success", run.record.metric)):
        if valid and all(name in episode.metrics for episode in valid):
            values = [float(episode.metrics[name]) for episode in valid]
            mean = sum(values) / len(values)
            low, high = wilson(mean, len(values)) if name == "success" else mean_interval(values, is_share=name in SHARES)
            results |= {f"{TEST}{name}": mean, f"{TEST}{name}_low": low, f"{TEST}{name}_high": high}
    return {**results, f"{TEST}n": len(valid), f"{TEST}void": len(played) - len(valid)}


def repeat(run: Run, stage: str, metrics: Sequence[Row]) -> bool:
    """Tell the callbacks what the iterations before a kill have given; returns whether training continues."""
    continues = True
    for row in metrics:
        results = {name: value for name, value in row.items() if name.startswith(TEST)}
        logged = {name: value for name, value in row.items() if name not in results}
        continues &= run.callbacks.tell("on_log", stage, row["step"], logged)
        if results:
            continues &= run.callbacks.tell("on_evaluate", stage, row["step"], results)
    return continues
