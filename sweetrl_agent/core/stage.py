"""A stage is one step of a run. It reads files and writes files, and it is declared once.

All code that needs information on stages reads the declaration: the runner reads the function, resume the files written, the check of changed
settings the first stage that a setting affects, `--dry_run` the files required, `--help` and the documentation the table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib import import_module
from typing import Any, Literal

#: What a stage needs besides the files that it reads: it plays episodes, samples from the policy, or trains a model.
Need = Literal["episodes", "samples", "training"]


@dataclass(frozen=True)
class Stage:
    """One step of a run.

    Attributes:
        name: Its name in `--stage`, `seconds.json` and reports.
        purpose: What it does, in a few words.
        reads: Files and folders of the run folder that it reads.
        writes: Files and folders that it writes; the first one exists as soon as the stage has started.
        work: The function of a run that executes it, or "module:function", so that a declaration imports nothing.
        settings: Settings that affect its files and no earlier ones, by name or by a pattern such as "critic_*".
        needs: What it needs besides files.
        is_distributed: All processes of `accelerate launch` take part; otherwise only the first process runs it.
    """

    name: str
    purpose: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    work: str | Callable[[Any], None]
    settings: tuple[str, ...] = ()
    needs: frozenset[Need] = frozenset()
    is_distributed: bool = False

    def run(self, run: Any) -> None:
        """Execute the stage.

        Args:
            run: The run, with its folder and settings.
        """
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
    rows = [f"| {stage.name} | {stage.purpose} | {_listed(stage.reads)} | {_listed(stage.writes)} |" for stage in stages]
    return "\n".join(["| stage | what it does | reads | writes |", "|---|---|---|---|", *rows])


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "tasks"
