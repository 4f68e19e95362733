"""A stage is one step of a run, from files to files, and it is stated once.

Whatever speaks of stages asks the statement: the runner for the function, resume for what has been written, a settings check for the
first stage that a setting shapes, `--dry_run` for what must be there, `--help` and the README for the table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib import import_module
from typing import Any, Literal

#: What a stage needs beside the files that it reads: it plays episodes, samples from the policy, or holds a model in training.
Need = Literal["episodes", "samples", "training"]


@dataclass(frozen=True)
class Stage:
    """One step of a run.

    Attributes:
        name: Its name in `--stage`, `seconds.json` and reports.
        purpose: What it does, in a few words.
        reads: Files and folders of the run folder that it reads.
        writes: Those that it writes; the first one is there as soon as it has begun.
        work: The function of a run that does it, or where that is found, as "module:function": a statement imports nothing.
        settings: Settings that shape its files and no earlier ones, by name or by a pattern such as "critic_*".
        needs: What it needs beside files.
        is_distributed: All processes of `accelerate launch` work in it; without, the first process does it alone.
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
        """Do it.

        Args:
            run: The run, which knows its folder and settings.
        """
        if not isinstance(self.work, str):
            return self.work(run)
        function_of(self.work)(run)

    def is_shaped_by(self, setting: str) -> bool:
        """True where the setting is one of its own."""
        return any(fnmatchcase(setting, pattern) for pattern in self.settings)


def function_of(work: str) -> Callable[..., Any]:
    """The function that a statement names as "module:function"; its module is imported now."""
    module, _, function = work.partition(":")
    found: Callable[..., Any] = getattr(import_module(module), function)
    return found


def as_table(stages: tuple[Stage, ...]) -> str:
    """The stages as a Markdown table, for the documents."""
    rows = [f"| {stage.name} | {stage.purpose} | {_listed(stage.reads)} | {_listed(stage.writes)} |" for stage in stages]
    return "\n".join(["| stage | what it does | reads | writes |", "|---|---|---|---|", *rows])


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "tasks"
