"""Reads a run folder for the report: every file is optional, every line is checked, and every problem is recorded.

A run may have crashed or be in progress, so a missing, empty or broken file is reported and is not an error.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from colbench_gym.errors import ColBenchError
from colbench_gym.stage_records import FILE, StageRecords
from sweetrl_agent.data.files import is_text, metrics_of

Record = dict[str, Any]

RESULTS = "results.json"
CONFIG = "config.yaml"
VERSIONS = "versions.json"
METRICS = "metrics.jsonl"
TIMINGS = "timings.jsonl"
EVALUATION = "evaluation.jsonl"
ADVANTAGES = "turn_advantages.jsonl"
PAIRS = "pairs_summary.json"
PICTURES = "pictures.json"
FAILURES = "failures.jsonl"
EXPLANATIONS = "explanations.jsonl"
#: Files that a report shows.
SHOWN = (RESULTS, METRICS, TIMINGS, EVALUATION, ADVANTAGES, PAIRS, PICTURES, FAILURES, EXPLANATIONS)

MAX_CONFIG_CHARS = 60_000


@dataclass
class RunFolder:
    """Contents of the files of a run folder; an unreadable file has an empty value and an entry in `troubles`.

    Attributes:
        name: Name of the folder.
        results: Scores by agent and split, and facts on the run.
        config: The configuration, as text.
        versions: Python, packages, git commit, machine.
        metrics: Metrics logged in training, with the "seconds" of their steps where these are known.
        evaluation: Dialogues of the evaluation, with outcomes.
        advantages: Advantages of the agent's turns, for some of these dialogues.
        pairs: Statistics of the preference pairs.
        pictures: Pictures of pages in some dialogues; only for runs on pages.
        other_advantages: Advantages by other critics than SWEET-RL's, by critic.
        failures: Kinds of failure of the episodes; only for environments that tell them apart.
        explanations: Explanations of some episodes.
        peaks: Most memory of each stage in MiB, by stage; {} where it was not recorded.
        troubles: Sentences on missing or unreadable files, by file name.
    """

    name: str
    results: Record = field(default_factory=dict)
    config: str = ""
    versions: Record = field(default_factory=dict)
    metrics: list[Record] = field(default_factory=list)
    evaluation: list[Record] = field(default_factory=list)
    advantages: list[Record] = field(default_factory=list)
    pairs: Record = field(default_factory=dict)
    pictures: list[Any] = field(default_factory=list)
    other_advantages: dict[str, list[Record]] = field(default_factory=dict)
    failures: list[Record] = field(default_factory=list)
    explanations: list[Record] = field(default_factory=list)
    peaks: Record = field(default_factory=dict)
    troubles: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> RunFolder:
        """Read a run folder.

        Raises:
            ValueError: If the folder does not exist.
        """
        if not folder.is_dir():
            raise ValueError(f"`folder` must be the folder of a run, got {str(folder)!r}, which is not a folder.")
        run = cls(folder.resolve().name)
        run.results = run.read_object(folder / RESULTS)
        run.config = run._text(folder / CONFIG)
        run.versions = run.read_object(folder / VERSIONS)
        if not run.is_evaluation:
            run.metrics = run._metrics(folder)
        run.evaluation = run._lines(folder / EVALUATION)
        seconds = run.results.get("seconds")
        if not run.is_evaluation and (
            not isinstance(seconds, dict) or {"collect", "critic"} & seconds.keys()
        ):  # only these algorithms write the two
            run.advantages = run._lines(folder / ADVANTAGES)
            run.pairs = run.read_object(folder / PAIRS)
        run.pictures = _list(folder / PICTURES)
        run.other_advantages = {path.parent.name: run._lines(path) for path in sorted(folder.glob(f"*/{ADVANTAGES}"))}
        run.failures, run.explanations = (
            run._lines(folder / name) if (folder / name).exists() else [] for name in (FAILURES, EXPLANATIONS)
        )
        run.peaks = _peaks(folder)
        return run

    @classmethod
    def read_metrics(cls, folder: Path) -> list[Record]:
        """The metrics of a run folder alone."""
        return cls(folder.name)._metrics(folder)

    @property
    def is_evaluation(self) -> bool:
        """Whether it is the folder of `sweetrl_agent.evaluate` and not a run's: nothing was trained."""
        return isinstance(self.results.get("policies"), dict)

    def trouble(self, file_name: str) -> str:
        """Why a file cannot be shown."""
        return self.troubles.get(file_name, f"{file_name} contains nothing that can be shown here.")

    def _metrics(self, folder: Path) -> list[Record]:
        metrics = self._lines(folder / METRICS)
        times = self._lines(folder / TIMINGS) if (folder / TIMINGS).is_file() else []  # runs of before have none
        seconds = {(str(row.get("stage")), str(row.get("step"))): row.get("seconds") for row in times}
        return [{**row, "seconds": seconds.get((str(row.get("stage")), str(row.get("step"))))} for row in metrics]

    def _text(self, path: Path) -> str:
        if not path.is_file():
            self.troubles[path.name] = f"{path.name} is missing from the run folder."
            return ""
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            self.troubles[path.name] = f"{path.name} could not be read: {error.strerror}."
            return ""
        if not text.strip():
            self.troubles[path.name] = f"{path.name} is empty."
        return text.strip()

    def read_object(self, path: Path) -> Record:
        """The JSON object in a file; empty, with an entry in `troubles`, where it has none."""
        text = self._text(path)
        if not text:
            return {}
        value = _parse(text)
        if value is None:
            self.troubles[path.name] = f"{path.name} could not be read: expected one JSON object."
        return value or {}

    def _lines(self, path: Path) -> list[Record]:
        lines = [line for line in self._text(path).split("\n") if line.strip()]
        records = [record for record in map(_parse, lines) if record is not None]
        if broken := len(lines) - len(records):
            self.troubles[path.name] = f"{path.name}: {broken} of {len(lines)} lines could not be read and are skipped."
        return records


def refuse_changed(folder: Path, files: Collection[str] = SHOWN) -> None:
    """Refuse to show files that are no longer as a finished stage wrote them. Without `stages.json` nothing is known.

    Args:
        folder: The folder of a run, an evaluation or a comparison.
        files: Names of files.

    Raises:
        ColBenchError: Names the file and its stage, or the broken `stages.json`.
    """
    records = StageRecords(folder)
    records.refuse_changed_files(files)
    for name, text in metrics_of(records).items():
        if name in files and text and not is_text(folder / name, text):
            raise ColBenchError(
                f"{folder / name} is not the copy of {FILE} that the run wrote; restore it, or give the run's command again, which writes it again."
            )


def _peaks(folder: Path) -> Record:
    try:
        return {name: record.facts.get("peak_mib") for name, record in StageRecords(folder).stages.items()}
    except ColBenchError:  # a report says nothing of peaks then
        return {}


def _parse(text: str) -> Record | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _list(path: Path) -> list[Any]:
    """A JSON list; empty if the file has none."""
    try:
        value = json.loads(path.read_text(encoding="utf-8", errors="replace"))
    except (OSError, ValueError):
        return []
    return value if isinstance(value, list) else []
