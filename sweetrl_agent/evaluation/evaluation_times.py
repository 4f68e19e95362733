"""About how long each policy of an evaluation takes on this machine, by the same measurements as the forecast of a run (`trainers.forecast`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from colbench_gym.agents.chat import split_name
from sandboxes.cpus import usable_cpus
from sweetrl_agent.config.job import Config
from sweetrl_agent.config.model import TINY
from sweetrl_agent.core.dialogues import DialogueEnvs
from sweetrl_agent.core.work import Lengths, Part, Work, episodes
from sweetrl_agent.evaluation.evaluations import Evaluation
from sweetrl_agent.evaluation.policies import PolicySpec
from sweetrl_agent.evaluation.policy_loading import model_of
from sweetrl_agent.models.loading import torch_dtype
from sweetrl_agent.trainers.forecast import about, as_lines, seconds_of, uncertainty_of
from sweetrl_agent.trainers.machine import machine_of


@dataclass(frozen=True)
class PlayedPolicy:
    """What is timed of a policy, as `machine.machine_of` reads a run: its episodes are played, and nothing is trained.

    Attributes:
        config: Its settings, with the folder or hub name of its model.
        tasks: The tasks.
        folder: Folder with `trajectories.jsonl` whose dialogues have the sizes to expect, if there is one.
    """

    config: Config
    tasks: tuple[Any, ...]
    folder: Path
    seed: int = 0

    @property
    def record(self) -> Any:
        """What is known of the environment."""
        return self.config.record

    @property
    def train(self) -> tuple[Any, ...]:
        """Tasks that demonstrations are made of."""
        return self.tasks

    def path(self, name: str) -> Path:
        """A file of the folder."""
        return self.folder / name

    def environment(self, tasks: Sequence[Any], num_envs: int) -> DialogueEnvs:
        """Environments over some of the tasks."""
        return self.config.record.environments(self.config, tasks, num_envs)


def time_lines(evaluation: Evaluation, left: Mapping[str, int]) -> list[str]:
    """The expected times of the policies with episodes left, and what they rest on; [] if none is left.

    Args:
        evaluation: The evaluation.
        left: Number of episodes that are left, by the policy's name.
    """
    torch.set_num_threads(evaluation.shared.threads or usable_cpus())
    specs = [spec for spec in evaluation.policies if left[spec.name]]
    expected: dict[str, tuple[Work, float | None]] = {}
    notes: list[str] = []
    uncertain = 1.0
    for spec in specs:
        text, why = f"{left[spec.name]:,} episodes", _not_timed(spec)
        if why:
            expected[spec.name] = Work(text, not_timed=why), None
            continue
        parts = partial(_parts, evaluation, spec, left[spec.name])
        lengths, machine = machine_of(_played(evaluation, spec), parts, has_model=bool(model_of(spec)[0]))
        work = Work(text, tuple(parts(lengths)))
        expected[spec.name] = work, seconds_of(work, machine)
        named = f"{spec.name}: " if len(specs) > 1 else ""
        notes += [f"{line[:11]}{named}{line[11:]}" for line in about(lengths, machine)]
        uncertain = max(uncertain, uncertainty_of(lengths))
    return [*as_lines(expected, [*expected], (), uncertain), *notes] if expected else []


def _not_timed(spec: PolicySpec) -> str:
    if spec.kind == "own":
        return "a policy of your own"
    return "a person" if spec.is_sequential else ""


def _parts(evaluation: Evaluation, spec: PolicySpec, count: int, lengths: Lengths) -> list[Part]:
    """Playing, and sampling where the policy is a language model."""
    playing, sampling = episodes(count, lengths, evaluation.config(spec).model.generation_batch)
    return [playing, sampling] if spec.kind == "chat" or model_of(spec)[0] else [playing]


def _played(evaluation: Evaluation, spec: PolicySpec) -> Any:
    """A policy with its first split of tasks."""
    split, source = next(iter(evaluation.sources.items()))
    config, base = evaluation.config(spec, source), model_of(spec)[1]
    changed: dict[str, Any] = {"model": base} if base else {}
    if spec.kind == "chat":
        changed = {"engine": "server", "server_urls": [split_name(spec.text)[1]]}
    elif spec.settings.get("model") == TINY and config.model.dtype == "auto":  # as it is loaded
        changed["dtype"] = str(torch_dtype(replace(config.model, model=TINY), False)).removeprefix("torch.")
    folder = Path(spec.place) if spec.kind == "run" else evaluation.folder
    return PlayedPolicy(config.with_settings(changed), tuple(evaluation.tasks()[split]), folder)
