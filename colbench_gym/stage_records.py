"""The records of the stages of a folder, `stages.json`: for each what it read and wrote, by digest, and how long it took.

A stage is begun when its inputs are recorded, and done when its outputs are. The next command compares them with the files:

* An input from elsewhere (a file of tasks, a model folder, a module) that has changed is refused; `--redo STAGE` is the way out.
* A stage with a missing or changed output is done again, if its own inputs are there. A stage that has read another version of a file than
  its writer has now made is done again too; one that read the same bytes is not.

Before a stage is done again its files are removed, then its record: a kill in between leaves a stage whose files are missing. The file carries
a digest of itself, so it is either as a command wrote it, or refused.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from colbench_gym.digests import Digests, complete_lines, file_of, has_label, label_of, shown_input
from colbench_gym.errors import ColBenchError
from colbench_gym.files import read_json, refuse_no_file, write_json, write_rows

FILE, RESULTS = "stages.json", "results.json"
#: What a folder is the folder of.
RUN, EVALUATION, COMPARISON = "a run", "an evaluation", "a comparison"
Seen = dict[str, str | None]


@dataclass
class StageRecord:
    """What a stage read and wrote.

    Attributes:
        reads: Files of the folder -> digest.
        inputs: Inputs from elsewhere -> digest.
        writes: Files of the folder -> digest; None before the stage is done, or where it wrote none.
        order: How many stages were done when it was; 0 for a stage that is not done. The last writer of a file answers for it.
        is_begun: Whether its inputs are recorded.
        facts: What else is recorded of it, such as "seconds".
    """

    reads: Seen = field(default_factory=dict)
    inputs: Seen = field(default_factory=dict)
    writes: Seen = field(default_factory=dict)
    order: int = 0
    is_begun: bool = False
    facts: dict[str, Any] = field(default_factory=dict)


class StageRecords:
    """The records of a folder.

    Args:
        folder: The folder, which need not exist.
        is_new: Nothing that is recorded is read.
        kind: `RUN`, `EVALUATION` or `COMPARISON`, for a command that writes; "" for any.

    Attributes:
        settings: Settings that its files were made with.
        stages: Record of each stage, in the order in which they were first begun.
        digests: Digests of its files.

    Raises:
        ColBenchError: If `stages.json` is not as a command wrote it.
        ValueError: If the folder is of another kind.
    """

    def __init__(self, folder: Path, is_new: bool = False, kind: str = "") -> None:
        self.folder, self.kind = folder, kind
        refuse_other_kind(folder, kind)
        self._begun = ""
        self._take({} if is_new else _read(folder / FILE))

    def reload(self) -> None:
        """Read the file again; see the class for its errors."""
        self._take(_read(self.folder / FILE))

    def _take(self, content: Mapping[str, Any]) -> None:
        self.kind = self.kind or content.get("kind", "")
        self.settings: dict[str, Any] = content.get("settings", {})
        self.stages = {name: StageRecord(**record) for name, record in content.get("stages", {}).items()}
        self.digests = Digests(self.folder, content.get("files"))

    def save(self) -> None:
        """Write the file, atomically."""
        self.digests.forget_missing()
        body = {
            "kind": self.kind,
            "settings": self.settings,
            "stages": {name: asdict(record) for name, record in self.stages.items()},
            "files": self.digests.known,
        }
        write_json(self.folder / FILE, {"sha256": _digest(body), **body})

    def is_done(self, stage: str) -> bool:
        """Whether all outputs of a stage are recorded."""
        return stage in self.stages and self.stages[stage].order > 0

    def is_begun(self, stage: str) -> bool:
        """Whether a stage has been begun."""
        return stage in self.stages and self.stages[stage].is_begun

    def has_written(self, stage: str) -> bool:
        """Whether a stage is done, or has written a part of its outputs. One that failed before that may be begun with other settings."""
        files = self.stages[stage].writes if self.is_begun(stage) else {}
        return self.is_done(stage) or any(
            (self.folder / file).exists() if file == file_of(file) else self.digests.of(file) is not None for file in files
        )

    def begin(self, stage: str, reads: Iterable[str], inputs: Iterable[str], writes: Iterable[str], **facts: Any) -> None:
        """Record what a stage reads, before it writes anything."""
        record = self.stages.setdefault(stage, StageRecord())
        record.reads = {file: self._current(file) for file in reads}
        record.inputs = {name: self.digests.of_input(name) for name in inputs}
        record.writes = dict.fromkeys(writes)
        record.order, record.is_begun, record.facts = 0, True, facts
        self._begun = stage
        self.save()

    def finish(self, stage: str, **facts: Any) -> list[str]:
        """Record what a stage wrote; stages that have read other versions of its files are to be done again.

        Returns:
            These stages.
        """
        record = self.stages[stage]
        record.writes = {file: self.digests.of(file) for file in record.writes}
        record.facts |= facts
        outdated = [
            name
            for name, other in self.stages.items()
            if name != stage
            and other.is_begun
            and any(record.writes.get(file, seen) != seen for file, seen in other.reads.items())
        ]
        for name in outdated:
            self._clear(name)
        record.order = 1 + max(other.order for other in self.stages.values())
        self._begun = ""
        self.save()
        return outdated

    def note(self, fact: str, values: Mapping[str, Any], stage: str = "") -> None:
        """Add to a fact, a mapping, of the stage that was begun last; of `stage` where none was."""
        record = self.stages.setdefault(self._begun or stage, StageRecord())
        record.facts[fact] = {**record.facts.get(fact, {}), **values}
        self.save()

    def reopen(self, stage: str) -> None:
        """Mark a stage as not done; its files are kept, and it resumes with them."""
        if self.is_done(stage):
            self.stages[stage].order = 0
            self.save()

    def keep_results(self) -> None:
        """Rename the results of before `--redo`, so that they are not replaced by results of other inputs."""
        if (self.folder / RESULTS).exists():
            (self.folder / RESULTS).replace(self.folder / f"earlier_{RESULTS}")

    def clear(self, stages: Iterable[str], declared: Mapping[str, Collection[str]]) -> None:
        """Remove the files of stages that are to be done again, then their records.

        Args:
            stages: Names of stages.
            declared: As in `find_invalid`.
        """
        for stage in stages:
            self.stages.setdefault(stage, StageRecord(writes=dict.fromkeys(declared.get(stage, ()))))
            self._clear(stage)
        self.save()

    def changed_output(self, stage: str) -> str:
        """The first output of a finished stage that is missing or not as it was written; "" if there is none."""
        for file, digest in self.stages[stage].writes.items():
            if self._writer(file) is self.stages[stage] and self.digests.of(file) != digest:
                return file
        return ""

    def is_as_written(self, file: str) -> bool:
        """Whether a file is as its stage wrote it; also if no stage wrote it."""
        writer = self._writer(file)
        return writer is None or self.digests.of(file) == writer.writes[file]

    def find_invalid(
        self, declared: Mapping[str, Collection[str]], redo: Sequence[str] = (), others: Iterable[str] = ()
    ) -> dict[str, str]:
        """Stages that are to be done again. Nothing is changed.

        Args:
            declared: Stages that the command can do -> files that they write.
            redo: Stages that are asked to be done again; those that follow from them, or read the same changed input, are too.
            others: Stages of earlier commands whose files count in this one.

        Returns:
            Their names and why, in the order in which they were begun.

        Raises:
            ValueError: If `redo` names no stage of the command.
            ColBenchError: If an input has changed, a file cannot be made again, or nothing is recorded of a file.
        """
        for name in redo:
            if name not in declared:
                raise ValueError(f"`redo` must be one of the stages {', '.join(map(repr, declared))}, got {name!r}.")
        invalid, counts = self._asked_for(redo), {*declared, *others}
        for name, record in self.stages.items():
            if name in counts and name not in invalid and record.is_begun:
                self._refuse_changed_input(name)
                invalid |= self._why_invalid(name)
        self._refuse_unmakeable(invalid, declared)
        self._refuse_unknown_files({name: files for name, files in declared.items() if name not in redo})
        return {name: invalid[name] for name in dict.fromkeys([*self.stages, *invalid]) if name in invalid}

    def _why_invalid(self, stage: str) -> dict[str, str]:
        """The stage and why it is to be done again, with other stages that wrote the same damaged file; {} if it is whole."""
        record = self.stages[stage]
        if record.order and (file := self.changed_output(stage)):
            writers = [name for name, other in self.stages.items() if file in other.writes]
            return dict.fromkeys(writers, f"{file_of(file)} is missing, changed or damaged")
        outdated = next((file for file, seen in record.reads.items() if self._is_outdated(file, seen)), "")
        return {stage: f"{file_of(outdated)}, which it has read, has changed"} if outdated else {}

    def _is_outdated(self, file: str, seen: str | None) -> bool:
        """Whether a file that a stage has read was made anew since; where its writer is not done, that is seen when it is."""
        if (writer := self._writer(file)) is not None:
            return writer.writes[file] != seen
        return not any(file in record.writes for record in self.stages.values()) and self.digests.of(file) != seen

    def refuse_changed_files(self, files: Collection[str]) -> None:
        """Refuse files that a finished stage wrote and that are no longer as it wrote them.

        Raises:
            ColBenchError: Names the file and its stage.
        """
        for name, record in self.stages.items():
            for file in record.writes if record.order else ():
                is_asked_for = {file_of(file), file_of(file).rpartition("/")[2]} & {*files}
                if is_asked_for and self._writer(file) is record and self.digests.of(file) != record.writes[file]:
                    raise ColBenchError(
                        f"{self.folder / file_of(file)} is not as stage {name!r} wrote it; restore it, or give the command that wrote it "
                        "again, which makes it again."
                    )

    def _asked_for(self, redo: Sequence[str]) -> dict[str, str]:
        """The stages of `redo`, those that read an input that has changed for them, and all that follow."""
        reasons = dict.fromkeys(redo, "`--redo` asks for it")
        changed = {other for name in redo if name in self.stages for other in self._changed_inputs(name)}
        for name, record in self.stages.items():
            if both := changed & {*record.inputs}:
                reasons.setdefault(name, f"{shown_input(min(both))} has changed")
        while more := {
            name: "it follows from a stage that is done again"
            for name, record in self.stages.items()
            if name not in reasons
            and any({*record.reads} & {*self.stages[other].writes} for other in reasons if other in self.stages)
        }:
            reasons |= more
        return reasons

    def _changed_inputs(self, stage: str) -> list[str]:
        inputs = self.stages[stage].inputs
        return [name for name, seen in inputs.items() if (now := self.digests.of_input(name)) is not None and now != seen]

    def _refuse_changed_input(self, stage: str) -> None:
        if changed := self._changed_inputs(stage):
            raise ColBenchError(
                f"{shown_input(changed[0])} has changed since stage {stage!r} of {self.folder} read it; restore it, give "
                f"`--redo {shlex.quote(stage)}` to do that stage and what follows from it again, or another `--output`."
            )

    def _refuse_unmakeable(self, invalid: Mapping[str, str], declared: Mapping[str, Collection[str]]) -> None:
        for name, why in invalid.items():
            record = self.stages.get(name, StageRecord())
            gone = [
                shown_input(source)
                for source, seen in record.inputs.items()
                if seen is not None and self.digests.of_input(source) is None
            ]
            known = {file for other in self.stages.values() for file in other.writes}
            gone += [
                file_of(source)
                for source, seen in record.reads.items()
                if source not in known and seen is not None and self.digests.of(source) is None
            ]
            if gone or name not in declared:
                what = f"{gone[0]}, which it reads, is missing" if gone else "this command does not do that stage"
                raise ColBenchError(
                    f"{self.folder}, stage {name!r}: {why}, and {what}; restore the file, or give another `--output`."
                )

    def _refuse_unknown_files(self, declared: Mapping[str, Collection[str]]) -> None:
        """Refuse files of a stage that was never begun: nothing says what they were made from."""
        for name, files in declared.items():
            if self.is_begun(name):
                continue
            known = {file for record in self.stages.values() if record.is_begun for file in record.writes}
            if file := next((file for file in files if file not in known and self.digests.of(file) is not None), ""):
                raise ColBenchError(
                    f"{self.folder / file_of(file)} exists, and {FILE} has no record of stage {name!r}, which writes it; restore {FILE}, give "
                    f"`--redo {shlex.quote(name)}` to make the file again, or another `--output`."
                )

    def _writer(self, file: str) -> StageRecord | None:
        """The stage that wrote a file last."""
        writers = [record for record in self.stages.values() if record.order and file in record.writes]
        return max(writers, key=lambda record: record.order, default=None)

    def _current(self, file: str) -> str | None:
        writer = self._writer(file)
        return self.digests.of(file) if writer is None else writer.writes[file]

    def _clear(self, stage: str) -> None:
        record = self.stages.get(stage, StageRecord())
        for file in record.writes:
            remove(self.folder, file)
        if stage in self.stages:
            self.stages[stage] = StageRecord(writes=dict.fromkeys(record.writes))


def refuse_other_kind(folder: Path, kind: str) -> None:
    """Refuse a folder with the files of another kind of command, which would replace results by others of the same name.

    Args:
        folder: The folder, which need not exist.
        kind: As in `StageRecords`.

    Raises:
        ValueError: Says what it is the folder of.
    """
    before = read_json(folder / FILE).get("kind") or kind
    if kind and before != kind:
        raise ValueError(
            f"{folder} is the folder of {before}, and this command writes that of {kind}; give another `--output`."
        )


def remove(folder: Path, name: str) -> None:
    """Remove a file, a folder, or the rows of a file that have a label (and lines that nothing can read).

    Args:
        folder: The folder that it is in.
        name: See `colbench_gym.digests`.
    """
    file, label = folder / file_of(name), label_of(name)
    if folder.resolve() not in file.parent.resolve().joinpath(file.name).parents:
        raise ValueError(f"Expected a file inside {str(folder)!r}, got {name!r}.")
    if label and file.is_file():
        write_rows(file, (row for _, row in complete_lines(file) if row is not None and not has_label(row, label)))
    for path in (
        file.with_name(f"{file.name}.part"),
        file.with_name(f"{file.name}.old"),
        file.with_suffix(".unfinished.jsonl"),
        *([] if label and file.is_file() else [file]),
    ):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _digest(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body).encode()).hexdigest()


def _read(path: Path) -> dict[str, Any]:
    refuse_no_file(path)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        is_whole = content.pop("sha256") == _digest(content)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError, KeyError, AttributeError, TypeError):
        is_whole = False
    if not is_whole:
        raise ColBenchError(
            f"{path} is not as a command wrote it, and without it nothing says which files of {path.parent} are whole; restore it, remove the "
            "folder to start anew, or give another `--output`."
        )
    return dict(content)
