"""Reads a run folder for the report: every file is optional, every line is checked once, here, and every problem is recorded.

A run may have crashed or be in progress, so a missing, empty or broken file is reported and is not an error. A line that is not as its type declares
is left out and counted. Long texts are clipped.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NotRequired

from pydantic import ConfigDict, TypeAdapter, with_config
from typing_extensions import TypedDict

from colbench_gym.errors import ColBenchError
from colbench_gym.stage_records import FILE, StageRecords
from sweetrl_agent.data.files import is_text, metrics_of
from sweetrl_agent.reporting.explanations import Advantages, Explanation, Finite, Name, Picture, Text, Topics

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
#: What reading results of another version, or of somebody else, may raise.
OTHER_RESULTS = (KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError)

MAX_CONFIG_CHARS = 60_000


class Address(TypedDict):
    """What identifies an episode in the files of a run."""

    agent: Name
    split: Name
    task_id: Name
    episode: int


class Message(TypedDict):
    """A message of a dialogue; of several agents with the name of the one that it is from or to."""

    role: Name
    content: Text
    agent: NotRequired[Name]


class AgentTurn(TypedDict, total=False):
    """The thought of a turn, and why it ended if its model did not end it."""

    thought: Text | None
    finish_reason: Name | None


@with_config(ConfigDict(extra="allow"))
class Episode(Address):
    """A line of evaluation.jsonl; further fields, such as the metric, are kept."""

    outcome: Name
    void_reason: NotRequired[Text | None]
    success: NotRequired[Finite | None]
    turns: NotRequired[Finite | None]
    dialogue_history: NotRequired[list[Message]]
    agent_turns: NotRequired[list[AgentTurn]]


class Scored(Address):
    """A line of turn_advantages.jsonl."""

    advantages: Advantages


class Failed(Address):
    """A line of failures.jsonl."""

    kind: Name
    about: NotRequired[Topics]


class Pictures(TypedDict):
    """Pictures of the agents' pages on a task, in pictures.json."""

    task_id: str
    request: str
    wanted: Picture
    agents: dict[str, list[Picture]]


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
    evaluation: list[Episode] = field(default_factory=list)
    advantages: list[Scored] = field(default_factory=list)
    pairs: Record = field(default_factory=dict)
    pictures: list[Pictures] = field(default_factory=list)
    other_advantages: dict[str, list[Scored]] = field(default_factory=dict)
    failures: list[Failed] = field(default_factory=list)
    explanations: list[Explanation] = field(default_factory=list)
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
        run.evaluation = run._lines(folder / EVALUATION, Episode)
        seconds = run.results.get("seconds")
        stages = set() if run.is_evaluation else seconds.keys() if isinstance(seconds, dict) else {"pairs", "critic"}
        if "critic" in stages or (folder / ADVANTAGES).exists():  # SWEET-RL's own
            run.advantages = run._lines(folder / ADVANTAGES, Scored)
        if {"pairs", "critic"} & {*stages} or (folder / PAIRS).exists():
            run.pairs = run.read_object(folder / PAIRS)
        run.pictures = (run._value(folder / PICTURES, list[Pictures]) if (folder / PICTURES).exists() else None) or []
        run.other_advantages = {path.parent.name: run._lines(path, Scored) for path in sorted(folder.glob(f"*/{ADVANTAGES}"))}
        run.failures = run._lines(folder / FAILURES, Failed, is_optional=True)
        run.explanations = run._lines(folder / EXPLANATIONS, Explanation, is_optional=True)
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
        times = self._lines(folder / TIMINGS, is_optional=True)
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
        return self._value(path, Record) or {}

    def _value(self, path: Path, kind: Any) -> Any:
        text = self._text(path)
        value = _parsed(text, TypeAdapter(kind)) if text else None
        if text and value is None:
            self.troubles[path.name] = f"{path.name} could not be read: it is not as a run writes it."
        return value

    def _lines(self, path: Path, kind: Any = Record, is_optional: bool = False) -> list[Any]:
        if is_optional and not path.exists():
            return []
        lines = [line for line in self._text(path).split("\n") if line.strip()]
        adapter = TypeAdapter(kind)
        rows = [row for line in lines if (row := _parsed(line, adapter)) is not None]
        if broken := len(lines) - len(rows):
            self.troubles[path.name] = f"{path.name}: {broken} of {len(lines)} lines could not be read and are skipped."
        return rows


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
            raise ColBenchError(f"{folder / name} is not the copy of {FILE} that the run wrote; give the run's command again.")


def _peaks(folder: Path) -> Record:
    try:
        return {name: record.facts.get("peak_mib") for name, record in StageRecords(folder).stages.items()}
    except ColBenchError:  # a report says nothing of peaks then
        return {}


def _parsed(text: str, kind: TypeAdapter[Any]) -> Any:
    """The JSON value of a text; None if it is none, or not of the kind."""
    try:
        return kind.validate_python(json.loads(text))
    except (ValueError, RecursionError):
        return None
