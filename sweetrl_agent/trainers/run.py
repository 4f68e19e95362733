"""A run in its folder: its settings, its tasks, and the records of its stages."""

from __future__ import annotations

import contextlib
import copy
import errno
import json
import logging
import os
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import torch
import yaml

from colbench_gym.errors import ColBenchError
from colbench_gym.evaluation.folder import without_address
from colbench_gym.files import Row, read_object, write_json, write_text
from colbench_gym.stage_records import RUN, StageRecords
from sweetrl_agent.config.job import OF_MODEL, Config
from sweetrl_agent.config.pipeline import TRAJECTORIES, affects_scores, later_users, stages_of
from sweetrl_agent.config.reading import flat
from sweetrl_agent.core.callback import Callbacks
from sweetrl_agent.core.dialogues import DialogueEnvs
from sweetrl_agent.core.policy import Policy
from sweetrl_agent.core.stage import Stage
from sweetrl_agent.data.distributed import is_first, wait_until
from sweetrl_agent.data.files import is_text, metrics_of
from sweetrl_agent.data.inputs import input_names
from sweetrl_agent.data.machine import forget_peak_memory, peak_memory_mib, versions
from sweetrl_agent.models.loading import load_policy

_log = logging.getLogger(__name__)
TEST_FRACTION = 5
#: Cores reserved for browsers while pages are rendered.
BROWSER_CORES = 2


class Run:
    """A run in its folder. Each stage runs once: `stages.json` records what it read and wrote (`colbench_gym.stage_records`)."""

    def __init__(self, config: Config, is_dry: bool = False) -> None:
        """Open or create the folder.

        Args:
            config: All settings.
            is_dry: Nothing is created or written.

        Raises:
            ValueError: If the folder has a run with other settings that have affected files already.
            ColBenchError: If tasks cannot be loaded, or the records are damaged.
        """
        self.config = config
        self.folder = Path(config.run.output)
        self.seed = config.run.seed
        self.records = StageRecords(self.folder, kind=RUN)
        self._refuse_what_is_fixed()
        now = self._versions(self.folder / "versions.json")
        if is_first() and not is_dry:
            self.records.settings |= _plain(config.settings())  # those of other algorithms with files in the folder stay
            self.records.save()
            write_text(self.folder / "config.yaml", yaml.safe_dump(self.records.settings, sort_keys=False))
            write_json(self.folder / "versions.json", now)
        self.callbacks = Callbacks(self)
        self.record = config.record
        self.algorithm: Any = config.algorithm
        self.stages = stages_of(self.algorithm)
        self.train, self.held_out = load_splits(config)

    def _refuse_what_is_fixed(self) -> None:
        old, new = (
            without_endpoints(flat({**of, "callbacks": ()})) for of in (self.records.settings, _plain(self.config.settings()))
        )
        mine = [name for name in {**old, **new} if "." not in name or name.partition(".")[0] in self.config.algorithms]
        changed = [name for name in (mine if self.records.settings else ()) if _recorded(old, name) != new.get(name)]
        fixed = [name for name in changed if self._is_fixed(name)]
        if fixed:
            listed = ", ".join(f"{name}: {_recorded(old, name)!r} there, {new.get(name)!r} here" for name in fixed[:5])
            raise ValueError(
                f"{self.folder} has other settings, and files were made with them ({listed}); "
                "give the same settings to resume that run, or another `--output` to start a new one."
            )

    def _is_fixed(self, name: str) -> bool:
        """Whether files were made with a setting: by the first stage that it affects, by a later one if the run has no such stage, or by training that it evaluates."""
        first, algorithms = self.config.first_stage(name), self.config.algorithms.values()
        if self._has_begun(first, of_one="." in name) or self._has_scored(name):
            return True
        if name in ("eval_every", "eval_every_tasks"):
            trained = [
                stage for algorithm in algorithms if hasattr(algorithm.config, "iterations") for stage in algorithm.stages
            ]
            return any(map(self._has_begun, trained))
        if (
            first == "sft" and "." not in name and name not in OF_MODEL
        ):  # of the tasks and the seed: of all that was ever made here
            return any(map(self.records.has_written, self.records.stages))
        concerned = [self.config.algorithms[name.partition(".")[0]]] if "." in name else algorithms
        users = chain.from_iterable(later_users(algorithm, self.config, name) for algorithm in concerned)
        return any(map(self.records.has_written, users))

    @staticmethod
    def _versions(path: Path) -> Row:
        """The versions that the run started with; under "later", others that it was resumed with, in order."""
        first, now = read_object(path), versions()
        later = list(first.pop("later", None) or ())
        first = first or now
        if now != first and now not in later:
            later = [*later, now]
        return {**first, "later": later} if later else first

    def _has_begun(self, stage: str, of_one: bool = False) -> bool:
        """Whether a stage has written something; with any critic or algorithm, or `of_one` alone."""
        return any(
            self.records.has_written(name)
            for name in self.records.stages
            if name == stage or (name.startswith(f"{stage} ") and not of_one)
        )

    def _has_scored(self, name: str) -> bool:
        """Whether a step that is no stage of an algorithm or critic, such as its credit accuracy, has written something with a setting of it."""
        algorithm, dot, setting = name.partition(".")
        if not dot or (self.config.algorithms[algorithm].critic and not affects_scores(setting)):
            return False
        scored = [step for step, record in self.records.stages.items() if algorithm in record.facts.get("algorithms", ())]
        return any(map(self.records.has_written, scored))

    def find_invalid(self, stages: Iterable[Stage]) -> dict[str, str]:
        """Those of the stages that are to be done again, and why. Nothing is changed. A report is always made again.

        Raises:
            ValueError: If `redo` names none of the stages.
            ColBenchError: As `StageRecords.find_invalid`.
        """
        return self.records.find_invalid(_declared(stages), self.config.run.redo)

    def prepare(self, stages: Collection[Stage], invalid: Mapping[str, str]) -> None:
        """Remove the files of stages that are to be done again, and restore files that are copies of the records.

        Args:
            stages: The stages of the command.
            invalid: What `find_invalid` returns for them.
        """
        for name, why in invalid.items():
            _log.warning("%s: is done again, since %s", name, why)
        if self.config.run.redo:
            self.records.keep_results()
        self.records.clear(invalid, _declared(stages))
        if self.config.run.replay_void:
            for name in self._played():
                self.records.reopen(name)
        self._write_metrics(is_expected=bool(invalid))

    def _played(self) -> list[str]:
        """Stages that play episodes, unless a later stage has used their episodes: they replay void ones."""
        played = [name for name in self.records.stages if name.startswith(("evaluate", "simulators"))]
        is_used = any(
            TRAJECTORIES in record.reads and self.records.has_written(name)
            for name, record in self.records.stages.items()
            if not name.startswith("evaluate")
        )
        return [*played, *([] if is_used else ["collect"])]

    def is_done(self, stage: str) -> bool:
        """Whether all files of the stage are complete."""
        return self.records.is_done(stage)

    def wait_for(self, stage: str) -> None:
        """Wait until the first process has finished a stage."""

        def is_there() -> bool:
            self.records.reload()
            return self.is_done(stage)

        wait_until(is_there)

    @contextlib.contextmanager
    def stage(self, stage: Stage) -> Iterator[None]:
        """Record what a stage reads and writes, its time and its peak memory. It is done when the block ends without an error.

        For a stage that was killed and resumed, only the last part is counted.

        Raises:
            ColBenchError: If the disk is full: Python, safetensors and torch raise different exceptions for it.
        """
        start, name = time.monotonic(), stage.name
        if is_first():
            reads = () if name == "report" else stage.reads
            facts = {"algorithms": stage.algorithms} if stage.algorithms else {}
            self.records.begin(name, reads, input_names(self.config, stage.inputs), stage.writes, **facts)
        forget_peak_memory()
        self.callbacks.tell("on_stage_begin", name)
        try:
            yield
        except Exception as error:
            if not any(os.strerror(number) in str(error) for number in (errno.ENOSPC, errno.EDQUOT)):
                raise
            raise ColBenchError(
                f"The disk of {self.folder} is full (stage {name!r}). Free some space, and give the same command: it "
                "resumes from the complete files."
            ) from error
        if not is_first():
            return
        facts = {"seconds": round(time.monotonic() - start, 1), "peak_mib": round(peak_memory_mib())}
        for other in self.records.finish(name, **facts):
            _log.warning("%s: is done again, since files that it has read have changed", other)
        self.callbacks.tell("on_stage_end", name, facts)

    def mark_untrained(self, policy: str, why: str) -> None:
        """Record that an algorithm has learnt nothing: its trained policy, otherwise in the folder `policy`, is the initial policy."""
        self.records.note("unchanged", {policy: why}, policy)

    def _facts(self, name: str) -> dict[str, Any]:
        return {stage: record.facts[name] for stage, record in self.records.stages.items() if name in record.facts}

    @property
    def seconds(self) -> dict[str, float]:
        """Wall time of each finished stage."""
        return self._facts("seconds")

    @property
    def peak_mib(self) -> dict[str, float]:
        """Peak memory of each finished stage in MiB."""
        return self._facts("peak_mib")

    @property
    def unchanged(self) -> dict[str, str]:
        """Folders of policies that have learnt nothing -> why."""
        return {policy: why for reasons in self._facts("unchanged").values() for policy, why in reasons.items()}

    def with_settings(self, changed: Mapping[str, Any]) -> Run:
        """A view of the run with other settings, such as of its model; files and records are shared."""
        other = copy.copy(self)
        other.config = self.config.with_settings(changed)
        return other

    def path(self, name: str) -> Path:
        """Path of a file or folder of the run."""
        return self.folder / name

    def artifact(self, name: str, file: str) -> Path:
        """Artifact path of an algorithm or critic: in the folder `name`; SWEET-RL's artifacts are in the run folder itself."""
        return self.path(file) if name == "sweet" else self.path(name) / file

    @property
    def sources(self) -> dict[str, str]:
        """See `source_names`."""
        return source_names(self.config)

    @property
    def note(self) -> str:
        """Note on the sources of tasks; "" for none."""
        return self.record.note(self.sources)

    @property
    def test(self) -> tuple[Any, ...]:
        """The test tasks."""
        return self.held_out["test"]

    @property
    def tasks(self) -> tuple[Any, ...]:
        """The training tasks that trajectories are collected on."""
        return self.train[: self.config.collect.num_tasks or None]

    @property
    def initial_model(self) -> str:
        """Folder or hub name of the model of the initial policy."""
        return str(self.path("initial")) if self.config.has_sft else self.config.model.model

    def load_policy(self, folder: str = "", response_prefix: str = "") -> Policy:
        """Load a policy on the engine of the settings.

        Args:
            folder: Folder of its model in the run folder; "" for the initial policy.
            response_prefix: Text that every message of it starts with.
        """
        place = str(self.path(folder)) if folder else self.initial_model
        return load_policy(place, self.initial_model, self.config.model, response_prefix)

    def add_metrics(self, stage: str, rows: list[Row]) -> None:
        """Record a stage's training metrics, replacing earlier ones of the same stage.

        `metrics.jsonl` is a copy of the records of all stages; wall times are in `timings.jsonl`: equal runs have equal metrics and different times.
        """
        if is_first():
            self.records.note("metrics", {stage: rows}, stage)
            self._write_metrics()

    def _write_metrics(self, is_expected: bool = True) -> None:
        for name, text in metrics_of(self.records).items():
            if not is_text(self.path(name), text):
                if not is_expected:
                    _log.warning("%s: is written again from stages.json, since it is missing, changed or damaged", name)
                write_text(self.path(name), text)

    def environment(self, tasks: Sequence[Any], num_envs: int, simulator: Any = None) -> DialogueEnvs:
        """Environments on some of its tasks, for `rollouts.play`; `simulator` replaces the simulated human of the settings."""
        return self.record.environments(self.config, tasks, num_envs, simulator)

    @contextlib.contextmanager
    def reserve_browser_cores(self) -> Iterator[None]:
        """While pages are rendered, reserve cores for the browsers: if the model uses all cores, both wait for each other."""
        with reserve_browser_cores(self.record.has_pages):
            yield


@contextlib.contextmanager
def reserve_browser_cores(has_pages: bool) -> Iterator[None]:
    """See `Run.reserve_browser_cores`."""
    threads = torch.get_num_threads()
    if has_pages:
        torch.set_num_threads(max(threads - BROWSER_CORES, 1))
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _declared(stages: Iterable[Stage]) -> dict[str, tuple[str, ...]]:
    """Stages that are done once -> files that they write."""
    return {stage.name: stage.writes for stage in stages if stage.name != "report"}


def _plain(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings as JSON has them."""
    plain: dict[str, Any] = json.loads(json.dumps(settings))
    return plain


def source_names(config: Config) -> dict[str, str]:
    """The full names of the sources of tasks, by split."""
    given, full_name = config.task, config.record.full_name
    train = full_name(given.tasks)
    test = full_name(given.test_tasks) if given.test_tasks else f"the last fifth of {train}"
    others = {"unseen": given.unseen_tasks, "novel": given.novel_tasks}
    return {"train": train, "test": test, **{split: full_name(name) for split, name in others.items() if name}}


def load_splits(config: Config) -> tuple[tuple[Any, ...], dict[str, tuple[Any, ...]]]:
    """The training tasks, and the evaluation tasks by split. Without test tasks in the settings, they are the last fifth."""
    arguments, record = config.task, config.record

    def load(source: str) -> tuple[Any, ...]:
        return record.load_tasks(source, arguments)

    tasks = load(arguments.tasks)
    if arguments.test_tasks:
        test = load(arguments.test_tasks)
    else:
        if len(tasks) < TEST_FRACTION:
            raise ValueError(
                f"Expected at least {TEST_FRACTION} tasks to keep a fifth for the test, got {len(tasks)}: give more, or `--test_tasks`."
            )
        cut = len(tasks) - len(tasks) // TEST_FRACTION
        tasks, test = tasks[:cut], tasks[cut:]
    others = {"unseen": arguments.unseen_tasks, "novel": arguments.novel_tasks}
    held_out = {"test": test, **{name: load(source) for name, source in others.items() if source}}
    shared = {task.id for task in tasks} & {task.id for of_split in held_out.values() for task in of_split}
    if shared:
        raise ValueError(
            f"{len(shared)} tasks are both in `tasks` and held out, e.g. {min(shared)!r}; give slices that do not overlap, and files of different names: a row's id is its "
            "file's name and its number."
        )
    contents = {getattr(task, "content", task.id) for task in tasks}
    if again := [
        task.id for of_split in held_out.values() for task in of_split if getattr(task, "content", task.id) in contents
    ]:
        _log.warning(
            "%d held-out tasks have the request and the reference of a training task, e.g. %r: success on them is no success on new tasks.",
            len(again),
            again[0],
        )
    limit = config.evaluation.eval_tasks or None
    return tasks, {name: of_split[:limit] for name, of_split in held_out.items()}


def _recorded(settings: Mapping[str, Any], name: str) -> Any:
    """The recorded value of a setting. A critic that is new to the folder takes the candidates of the others, hence their settings of them."""
    _, dot, setting = name.partition(".")
    if name in settings or not dot:
        return settings.get(name)
    return next((value for other, value in settings.items() if other.endswith(f".{setting}")), None)


def without_endpoints(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings without those that may change on resume: the address of the simulator's server and the name of its key."""
    with contextlib.suppress(KeyError, TypeError, ValueError, RecursionError):
        return {**settings, "simulator": without_address(json.loads(settings["simulator"]))}
    return settings
