"""A stage is one step of a run. It reads files and writes files, and it is declared once.

All code that needs information on stages reads the declaration: the runner reads the function, resume the files written, the check of changed
settings the first stage that a setting affects, `--dry_run` the files required, `--help` and the documentation the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from importlib import import_module
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
        work: The function of a run that executes it, or "module:function", so that a declaration imports nothing.
        settings: Settings that affect its files and no earlier ones, by name or by a pattern such as "critic_*".
        needs: What it needs besides files.
        inputs: What it reads from elsewhere: keys of `data.inputs.FINDERS`, or input names (`colbench_gym.digests`).
        overrides: Settings that it alone is run with, by name.
        is_distributed: All processes of `accelerate launch` take part; otherwise only the first process runs it.
    """

    name: str
    purpose: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    work: str | Callable[[Any], None]
    settings: tuple[str, ...] = ()
    needs: frozenset[Need] = frozenset()
    inputs: tuple[str, ...] = ()
    overrides: Mapping[str, Any] = field(default_factory=dict)
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
        run = run.with_settings(self.overrides) if self.overrides else run
        if not isinstance(self.work, str):
            return self.work(run)
        function_of(self.work)(run)

    def is_shaped_by(self, setting: str) -> bool:
        """Whether the setting is one of the stage's."""
        return any(fnmatchcase(setting, pattern) for pattern in self.settings)


def function_of(work: str) -> Callable[..., Any]:
    """The function that a statement names as "module:function"; its module is imported now."""
    module, _, function = work.partition(":")
    found: Callable[..., Any] = getattr(import_module(module), function)
    return found


def as_table(stages: tuple[Stage, ...]) -> str:
    """The stages as a Markdown table, for the documentation."""
    rows = [f"| {stage.name} | {stage.purpose} | {_listed(stage.reads)} | {_listed(stage.files)} |" for stage in stages]
    return "\n".join(["| stage | what it does | reads | writes |", "|---|---|---|---|", *rows])


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "tasks"
