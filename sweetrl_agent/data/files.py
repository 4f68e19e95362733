"""Metrics of a run folder: their rows, and the contents of `metrics.jsonl` and `timings.jsonl`."""

from __future__ import annotations

import json
from pathlib import Path

from colbench_gym.files import Row
from colbench_gym.stage_records import StageRecords

#: Required fields of every row of `metrics.jsonl`.
METRICS = ("stage",)
#: Field of a row of metrics: wall time of the stage's training up to its step. It differs between equal runs, so it has a file of its own.
SECONDS = "seconds"


def is_text(path: Path, text: str) -> bool:
    """Whether a file has this content; a missing file has the content ""."""
    try:
        return path.read_bytes() == text.encode() if path.is_file() else not (text or path.exists())
    except OSError:
        return False


def timeless(row: Row) -> Row:
    """A row of metrics without its wall time."""
    return {name: value for name, value in row.items() if name != SECONDS}


def metrics_of(records: StageRecords) -> dict[str, str]:
    """Contents of `metrics.jsonl` and `timings.jsonl`, by file name, from the records of the stages."""
    metrics = [record.facts["metrics"] for record in records.stages.values() if "metrics" in record.facts]
    rows = [row for stage_metrics in metrics for stage_rows in stage_metrics.values() for row in stage_rows]
    times = [{name: row[name] for name in ("stage", "step", SECONDS)} for row in rows if SECONDS in row]
    contents = {"metrics.jsonl": [timeless(row) for row in rows], "timings.jsonl": times}
    return {name: "".join(json.dumps(row) + "\n" for row in stage_rows) for name, stage_rows in contents.items()}
