"""A stage is one step of a run. It reads files and writes files, and it is declared once.

All code that needs information on stages reads the declaration: resume the files written, the check of changed settings the first stage that a
setting affects, `--dry_run` the files required, `--help` and the documentation the table. `colbench_gym.stage_records` decides whether a stage is
done: `StageRecords.finish` and `find_invalid`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal

from colbench_gym.digests import file_of

#: What a stage needs besides the files that it reads: it plays episodes, samples from the policy, or trains a model.
Need = Literal["episodes", "samples", "training"]


@dataclass(frozen=True)
class Stage:
    """One step of a run.

    Attributes:
        name: Its name in `--stage`, `stages.json` and reports.
        purpose: What it does, in a few words.
        reads: Files and folders of the run folder that it reads, and rows of files (`colbench_gym.digests`).
        writes: Files, folders and rows that it writes.
        work: The function of a run that executes it. The shared stages of the main job get theirs where they are run (`evaluation.main_job`).
        settings: Settings that affect its files and no earlier ones, by name or by a pattern such as "critic_*".
        needs: What it needs besides files.
        inputs: What it reads from elsewhere: keys of `data.inputs.FINDERS`, or input names (`colbench_gym.digests`).
        algorithms: Algorithms and critics whose settings affect its files, where these need not have stages of their own in the run.
        is_distributed: All processes of `accelerate launch` take part; otherwise only the first process runs it.
    """

    name: str
    purpose: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    work: Callable[[Any], None] | None = None
    settings: tuple[str, ...] = ()
    needs: frozenset[Need] = frozenset()
    inputs: tuple[str, ...] = ()
    algorithms: tuple[str, ...] = ()
    is_distributed: bool = False

    @property
    def files(self) -> tuple[str, ...]:
        """The files and folders that it writes, without labels of rows."""
        return tuple(dict.fromkeys(map(file_of, self.writes)))

    def run(self, run: Any) -> None:
        """Execute the stage.

        Args:
            run: The run, with its folder and settings.
        """
        if self.work is None:
            raise TypeError(f"The stage {self.name!r} is only declared; take it from `evaluation.main_job`.")
        self.work(run)

    def is_shaped_by(self, setting: str) -> bool:
        """Whether the setting is one of the stage's."""
        return any(fnmatchcase(setting, pattern) for pattern in self.settings)
