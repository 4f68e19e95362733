"""What a run, an evaluation or a comparison is doing, in sentences, from the files of its folder and its lock."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from colbench_gym.errors import ColBenchError
from colbench_gym.files import is_locked, read_json
from colbench_gym.progress import PROGRESS
from colbench_gym.stage_records import COMPARISON, FILE, StageRecords
from sweetrl_agent.reporting.comparison import seed_folders
from sweetrl_agent.reporting.curves import metric_rank
from sweetrl_agent.reporting.numbers import duration, number, plain
from sweetrl_agent.reporting.run_folder import SHOWN

#: The last stage of each kind of folder.
_LAST = ("report", "results")
MAX_METRICS = 8
_STATES = {
    "running": "In progress.",
    "finished": "Finished.",
    "stopped": "Stopped: no process of this machine works in the folder. The command that began it resumes it.",
    "unknown": "Not finished. This system does not tell whether a process works in the folder.",
    "none": "There is no run in this folder yet. This page shows it when it begins.",
}


def state_of(folder: Path) -> str:
    """A key of `_STATES`."""
    is_working, records = is_locked(folder) if folder.is_dir() else False, StageRecords(folder)
    if is_working:
        return "running"
    if not records.stages and not seed_folders(folder) and not any((folder / name).is_file() for name in SHOWN):
        return "none"
    is_undone = any(records.has_written(name) and not records.is_done(name) for name in records.stages)
    if not is_undone and any(records.is_done(name) for name in _LAST):
        return "finished"
    return "unknown" if is_working is None else "stopped"


def live_lines(folder: Path) -> tuple[str, list[str]]:
    """The state of a folder, a key of `_STATES` or "broken", and sentences on it.

    Args:
        folder: The folder, which need not exist.
    """
    try:
        state = state_of(folder)
        runs = seed_folders(folder) if StageRecords(folder).kind == COMPARISON else [folder]
        lines = [_STATES[state]]
        for run in runs if state != "none" else ():
            label = f"{run.name.replace('_', ' ')}: " if run != folder else ""
            lines += [label + line for line in _lines_of_run(run, state)]
    except (ColBenchError, OSError) as error:
        return "broken", [f"{FILE} cannot be read now: {error}"]
    return state, lines


def _lines_of_run(run: Path, state: str) -> Iterator[str]:
    """The stage in progress of a run with what it has logged last, why it stopped, and the stages before."""
    for path in [run / PROGRESS, *sorted(run.glob(f"*/{PROGRESS}"))] if state != "finished" else ():
        told = read_json(path)
        if "stage" in told:
            end = time.time() if state == "running" else path.stat().st_mtime
            yield _stage_line(told, end)
        if metrics := _metrics_line(told):
            yield metrics
        if "error" in told and state != "running":
            yield f"Why: {told['error']}"
    done = sorted((record.order, name, record.facts) for name, record in StageRecords(run).stages.items() if record.order)
    if done:
        stages = ", ".join(
            name if (seconds := number(facts.get("seconds"))) is None else f"{name} {duration(seconds)}"
            for _, name, facts in done
        )
        yield f"Done: {stages}."


def _stage_line(told: Mapping[str, Any], now: float) -> str:
    place = f" ({told['place']})" if told.get("place") else ""
    line = f"Stage {told['stage']}{place}"
    done, total, since = (number(told.get(name)) for name in ("done", "total", "since"))
    if done is not None:
        what = f" {told['what']}:" if told.get("what") not in (None, "", told["stage"]) else ""
        of = f" of {plain(total)} {told.get('unit', '')} ({100 * done / total:.0f}%)" if total else f" {told.get('unit', '')}"
        line += f",{what} {plain(done)}{of}"
    return f"{line}, {duration(max(now - since, 0.0))}." if since is not None else f"{line}."


def _metrics_line(told: Mapping[str, Any]) -> str:
    metrics = told.get("metrics")
    numbers = (
        {name: value for name, raw in metrics.items() if (value := number(raw)) is not None}
        if isinstance(metrics, dict)
        else {}
    )
    names = sorted(numbers, key=metric_rank)
    shown = ", ".join(f"{name} {plain(numbers[name])}" for name in names[:MAX_METRICS])
    more = f", and {len(names) - MAX_METRICS} more" if len(names) > MAX_METRICS else ""
    return f"Last metrics, step {told.get('step')}: {shown}{more}." if shown else ""
