"""About how long each policy of an evaluation takes on this machine, by the same measurements as the forecast of a run (`trainers.forecast`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from colbench_gym.agents.chat import split_name
from colbench_gym.evaluation.policies import PolicySpec
from sandboxes.cpus import usable_cpus
from sweetrl_agent.config.model import TINY
from sweetrl_agent.core.work import Lengths, Work, episodes
from sweetrl_agent.evaluation.evaluations import Request
from sweetrl_agent.evaluation.mixtures import MixtureSpec
from sweetrl_agent.evaluation.model_policies import ModelSpec, run_settings
from sweetrl_agent.evaluation.policy_loading import model_of
from sweetrl_agent.models.loading import torch_dtype
from sweetrl_agent.trainers.forecast import Expected, Forecast, as_lines, make_forecast
from sweetrl_agent.trainers.stage_work import planned_run


def time_lines(request: Request, left: Mapping[str, int]) -> list[str]:
    """The expected times of the policies with episodes left, and what they rest on; [] if none is left.

    Args:
        request: What is evaluated.
        left: Number of episodes that are left, by the policy's name.
    """
    torch.set_num_threads(request.base.run.threads or usable_cpus())
    specs = [spec for spec in request.policies if left[spec.name]]
    expected: dict[str, Expected] = {}
    notes: list[str] = []
    uncertain = 1.0
    for spec in specs:
        is_mixture = isinstance(spec, MixtureSpec)
        why = "a policy of your own" if spec.kind == "own" else "a person" if spec.is_sequential else "a mixture" * is_mixture
        if why:
            expected[spec.name] = Work(f"{left[spec.name]:,} episodes", not_timed=why), None
            continue
        forecast = _forecast(request, spec, left[spec.name])
        expected |= forecast.expected({})
        named = f"{spec.name}: " if len(specs) > 1 else ""
        notes += [f"{line[:11]}{named}{line[11:]}" for line in forecast.about()]
        uncertain = max(uncertain, forecast.uncertainty)
    return [*as_lines(expected, [*expected], (), uncertain), *notes] if expected else []


def _forecast(request: Request, spec: PolicySpec, count: int) -> Forecast:
    """The forecast of a policy's episodes, by its first split of tasks."""
    split, source = next(iter(request.sources.items()))
    config, (path, base) = request.config_of(spec, source), model_of(spec)
    changed: dict[str, Any] = {"model": base} if base else {}
    if spec.kind == "chat":
        changed = {"engine": "server", "server_urls": [split_name(spec.text)[1]]}
    elif run_settings(spec).get("model") == TINY and config.model.dtype == "auto":  # as it is loaded
        changed["dtype"] = str(torch_dtype(replace(config.model, model=TINY), False)).removeprefix("torch.")
    config = config.with_settings(changed)

    def works(lengths: Lengths) -> dict[str, Work]:
        played = episodes(count, lengths, config.model.generation_batch, has_model=spec.kind == "chat" or bool(path))
        return {spec.name: Work(f"{count:,} episodes") + played}

    folder = Path(spec.place) if isinstance(spec, ModelSpec) and spec.kind == "run" else request.folder
    return make_forecast(planned_run(config, tuple(request.held_out[split]), {}, folder), works, [spec.name], bool(path))
