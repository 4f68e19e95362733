"""A run folder: which stages are done, how long they took, and the settings of the run."""

from __future__ import annotations

import contextlib
import copy
import errno
import gc
import importlib.metadata
import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
import yaml

from colbench_gym.errors import ColBenchError
from sweetrl_agent.config.job import Config, first_stage
from sweetrl_agent.config.pipeline import STAGES, stages_of
from sweetrl_agent.core.callback import Callbacks
from sweetrl_agent.core.dialogues import DialogueEnvs
from sweetrl_agent.core.policy import Policy
from sweetrl_agent.core.processes import return_freed_memory
from sweetrl_agent.data.distributed import is_first, wait_until
from sweetrl_agent.data.files import METRICS, SECONDS, Row, read_object, read_rows, timeless, write_json, write_rows, write_text

PACKAGES = ("gymnasium", "numpy", "torch", "transformers", "trl", "peft", "accelerate", "datasets", "tokenizers")
TEST_FRACTION = 5
#: Cores reserved for browsers while pages are rendered.
BROWSER_CORES = 2


class Run:
    """A run in its folder. Each stage runs once: its name is in `seconds.json` when all its files are complete."""

    def __init__(self, config: Config, is_dry: bool = False) -> None:
        """Open or create the folder.

        Args:
            config: All settings.
            is_dry: Nothing is created or written.

        Raises:
            ValueError: If the folder has broken files, or a run with other settings that have affected files already.
            ColBenchError: If tasks cannot be loaded.
        """
        self.config = config
        self.folder = Path(config.run.output)
        self.seed = config.run.seed
        settings = yaml.safe_dump(config.settings(), sort_keys=False)
        path = self.folder / "config.yaml"
        self.seconds: dict[str, float] = _read(self.folder / "seconds.json")
        self.peak_mib: dict[str, float] = _read(self.folder / "peak_mib.json")
        self.unchanged: dict[str, str] = read_object(self.folder / "unchanged.json")
        if path.exists():
            self._refuse_what_is_fixed(path)
        if config.run.replay_void:
            self._reopen_played()
        if is_first() and not is_dry:
            write_text(path, settings)
            self._note_versions(self.folder / "versions.json")
        self.callbacks = Callbacks(self)
        self.record = config.record
        self.algorithm: Any = config.algorithm
        self.stages = stages_of(self.algorithm)
        self.train, self.held_out = load_splits(config)

    def _refuse_what_is_fixed(self, path: Path) -> None:
        old, new = (_placeless({**of, "callbacks": ()}) for of in (_read_settings(path), self.config.settings()))
        changed = [name for name in {**old, **new} if old.get(name) != new.get(name)]
        fixed = [name for name in changed if self._has_begun(first_stage(name))]
        if fixed:
            listed = ", ".join(f"{name}: {old.get(name)!r} there, {new.get(name)!r} here" for name in fixed[:5])
            raise ValueError(
                f"{path} has other settings, and files were made with them ({listed}); "
                "give the same settings to resume that run, or another `--output` to start a new one."
            )

    def _note_versions(self, path: Path) -> None:
        """Record the versions that the run started with; under "later", others that it was resumed with, in order."""
        first, now = read_object(path), versions()
        later = list(first.pop("later", None) or ())
        first = first or now
        if now != first and now not in later:
            later = [*later, now]
        write_json(path, {**first, "later": later} if later else first)

    def _reopen_played(self) -> None:
        """Mark stages that play episodes as not done, unless a later stage has used their episodes: they replay void ones."""
        played = [name for name in self.seconds if name.startswith(("evaluate", "simulators"))]
        for name in [*played, *([] if self._has_begun("pairs") else ["collect"])]:
            self.seconds.pop(name, None)

    def _has_begun(self, stage: str) -> bool:
        output = STAGES[stage].writes[0] if stage in STAGES else stage  # a baseline's stage and folder have its name
        own = any(self.folder.glob(f"*/{output}"))  # of another critic than SWEET-RL's
        return own or self.is_done(stage) or self.path(output).exists()

    def is_done(self, stage: str) -> bool:
        """Whether all files of the stage are complete."""
        return stage in self.seconds

    def wait_for(self, stage: str) -> None:
        """Wait until the first process has finished a stage."""
        wait_until(lambda: stage in _read(self.folder / "seconds.json"))
        self.seconds = _read(self.folder / "seconds.json")

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a stage, record its peak memory, and mark it as done when the block ends without an error.

        For a stage that was killed and resumed, only the last part is counted.

        Raises:
            ColBenchError: If the disk is full: Python, safetensors and torch raise different exceptions for it.
        """
        start = time.monotonic()
        forget_peak_memory()
        self.callbacks.stage_begin(name)
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
        self.peak_mib[name] = round(peak_memory_mib())
        write_json(self.folder / "peak_mib.json", self.peak_mib)
        self.seconds[name] = round(time.monotonic() - start, 1)
        write_json(self.folder / "seconds.json", self.seconds)
        self.callbacks.stage_end(name, {"seconds": self.seconds[name], "peak_mib": self.peak_mib[name]})

    def leave_unchanged(self, policy: str, why: str) -> None:
        """Record that an algorithm has learnt nothing: its trained policy, otherwise in the folder `policy`, is the initial policy."""
        self.unchanged[policy] = why
        write_json(self.folder / "unchanged.json", self.unchanged)

    def with_settings(self, changed: Mapping[str, Any]) -> Run:
        """A view of the run with other settings for one algorithm's stages; files and records are shared."""
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
        load: Any = import_module("sweetrl_agent.models.loading").load_policy
        policy: Policy = load(
            str(self.path(folder)) if folder else self.initial_model, self.initial_model, self.config.model, response_prefix
        )
        return policy

    def add_metrics(self, stage: str, rows: list[Row]) -> None:
        """Write a stage's training metrics to `metrics.jsonl`, replacing earlier ones of the same stage.

        Their wall times go to `timings.jsonl`: equal runs have equal metrics and different times.
        """
        if not is_first():
            return
        metrics = [timeless(row) for row in rows]
        times = [{name: row[name] for name in ("stage", "step", SECONDS)} for row in rows if SECONDS in row]
        for name, new in (("metrics.jsonl", metrics), ("timings.jsonl", times)):
            kept = [row for row in read_rows(self.path(name), METRICS) if row["stage"] != stage]
            write_rows(self.path(name), [*kept, *new])

    def environment(self, tasks: Sequence[Any], num_envs: int, simulator: Any = None) -> DialogueEnvs:
        """Environments on some of its tasks, for `rollouts.play`; `simulator` replaces the simulated human of the settings."""
        return self.record.environments(self.config, tasks, num_envs, simulator)

    @contextlib.contextmanager
    def beside_browsers(self) -> Iterator[None]:
        """While pages are rendered, reserve cores for the browsers: if the model uses all cores, both wait for each other."""
        with beside_browsers(self.record.has_pages):
            yield


@contextlib.contextmanager
def beside_browsers(has_pages: bool) -> Iterator[None]:
    """See `Run.beside_browsers`."""
    threads = torch.get_num_threads()
    if has_pages:
        torch.set_num_threads(max(threads - BROWSER_CORES, 1))
    try:
        yield
    finally:
        torch.set_num_threads(threads)


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
            raise ValueError(f"Expected at least {TEST_FRACTION} tasks to keep a fifth for the test, got {len(tasks)}.")
        cut = len(tasks) - len(tasks) // TEST_FRACTION
        tasks, test = tasks[:cut], tasks[cut:]
    others = {"unseen": arguments.unseen_tasks, "novel": arguments.novel_tasks}
    held_out = {"test": test, **{name: load(source) for name, source in others.items() if source}}
    shared = {task.id for task in tasks} & {task.id for own in held_out.values() for task in own}
    if shared:
        raise ValueError(
            f"{len(shared)} tasks are both in `tasks` and held out, e.g. {min(shared)!r}; give slices that do not overlap."
        )
    limit = config.evaluation.eval_tasks or None
    return tasks, {name: own[:limit] for name, own in held_out.items()}


def forget_peak_memory() -> None:
    """Reset the peak of `peak_memory_mib`, after returning freed memory to the system.

    On systems other than Linux, the peak remains that of the whole process.
    """
    gc.collect()
    return_freed_memory()
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()


def peak_memory_mib() -> float:
    """Peak memory of this process in MiB: resident, plus GPU memory if there is a GPU."""
    try:
        status = Path("/proc/self/status").read_text()
        resident = int(status.partition("VmHWM:")[2].split()[0]) / 1024
    except OSError:
        resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 1024)
    return resident + (torch.cuda.max_memory_allocated() / 2**20 if torch.cuda.is_available() else 0.0)


def _read(path: Path) -> dict[str, float]:
    found = read_object(path)
    if not all(type(value) in (int, float) for value in found.values()):
        raise ColBenchError(f"{path}: expected a number for each stage; restore the file, or remove it.")
    return found


def _read_settings(path: Path) -> dict[str, Any]:
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise ColBenchError(f"{path} does not contain the settings of a run: {error}.") from None
    if not isinstance(found, dict):
        raise ColBenchError(f"{path} does not contain the settings of a run; restore the file, or give another `--output`.")
    return found


def _placeless(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings without those that may change on resume: the address of the simulator's server and the name of its key."""
    with contextlib.suppress(AttributeError, KeyError, TypeError, ValueError, RecursionError):
        human = json.loads(settings["simulator"])
        return {
            **settings,
            "simulator": {name: value for name, value in human.items() if name not in ("base_url", "api_key_env")},
        }
    return settings


def versions() -> dict[str, Any]:
    """Versions of Python and packages, the machine and, in a git checkout, the commit: what is needed to reproduce the run."""
    packages = {}
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            packages[name] = importlib.metadata.version(name)
    commit = git_commit(__file__)
    return {
        "python": platform.python_version(),
        "packages": packages,
        **({"git_commit": commit} if commit else {}),
        "machine": f"{platform.system()} {platform.machine()}",
    }


def git_commit(file: str | Path) -> str | None:
    """Commit of the checkout of a tracked file, with "-dirty" if tracked files have changed since.

    None if git does not track the file (such as a package installed inside another repository) or git is not available.
    """
    path = Path(file).resolve()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | {
        "GIT_OPTIONAL_LOCKS": "0"
    }
    said = ""
    for command in (
        ["ls-files", "--error-unmatch", path.name],
        ["describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
    ):
        try:
            said = subprocess.run(
                ["git", *command], cwd=path.parent, env=environment, capture_output=True, text=True, check=True, timeout=60
            ).stdout
        except (OSError, subprocess.SubprocessError):
            return None
    return said.strip()
