"""How much work a run is, and about how long each stage takes: what a run prints before it starts, and `--dry_run`.

Sizes follow from the settings. Times are rates measured on two cores, of the tiny model and of a pretrained one, scaled by what the finished stages of
this run have taken. A pretrained model's are also scaled by its parameters and by the speed of matrix products, which is measured on a CPU; where either
is unknown, times are left out until a stage of the same kind has run in this folder.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from sweetrl_agent.core.run import Run
from sweetrl_agent.data.files import count_rows

#: Seconds per unit of work of the tiny model, by environment: the README's runs on two shared cores (AVX-512; pages: AVX2).
RATES: Mapping[str, Mapping[str, float]] = {
    "ColBench-Backend-v0": {"sft": 0.16, "collect": 0.016, "critic": 0.01, "candidates": 0.0011, "rank": 0.0017, "actor": 0.0135, "evaluate": 0.023, "on_policy": 0.035},
    "ColBench-Frontend-v0": {"sft": 0.43, "collect": 0.39, "critic": 0.13, "candidates": 0.0063, "rank": 0.0032, "actor": 0.03, "evaluate": 0.44},
}  # fmt: skip
#: The same of a pretrained model: a run of qwen_1.5b_cpu on two cores with bfloat16 instructions (Sapphire Rapids, AMX). A step of SFT has 8 dialogues.
PRETRAINED_RATES: Mapping[str, float] = {
    "sft": 19.9, "collect": 1.74, "critic": 2.13, "candidates": 0.208, "rank": 0.236, "actor": 5.04, "evaluate": 3.4,
}  # fmt: skip
#: Parameters of that model, and Gflop/s of bfloat16 products on that machine (`models.loading.matrix_speed`).
MEASURED_WITH = (1.54e9, 2119.0)
#: Times fall with about this power of the speed of products, the rest of a stage being bound by memory: six times as long with AVX2 alone.
SPEED_COUNTS = 0.6
#: Seconds of a stage that no setting changes: loading and opening.
FIXED_S: Mapping[str, float] = {"pairs": 0.5, "critic": 1, "candidates": 1, "rank": 2, "actor": 2, "evaluate": 2, "report": 1}
#: Below this, the time of a finished stage says nothing about the speed of the machine.
TELLING_S = 1.0
#: Bytes of an episode's row and of a candidate with its scores, and files of a model's size: weights of initial policy, critic and policy; a checkpoint with Adam's moments.
_EPISODE_BYTES, _CANDIDATE_BYTES, _MODELS = 5_000, 400, 6


@dataclass(frozen=True)
class Work:
    """The work of a stage.

    Attributes:
        amount: Number of units; infinite if it is not known before the stage has started.
        text: The work in words, such as "450 episodes".
        seconds: Expected seconds; None if unknown.
    """

    amount: float
    text: str
    seconds: float | None


def forecast(run: Run, stages: Mapping[str, Any], done: Mapping[str, float], speed: float | None = None) -> dict[str, Work]:
    """The work of each stage, in their order.

    Args:
        run: The run.
        stages: Its stages by name.
        done: Seconds of finished stages.
        speed: Gflop/s of matrix products here, for a pretrained model; None if unknown.
    """
    rates = dict(RATES.get(run.config.task.env, {})) if run.config.is_tiny else _pretrained_rates(run, speed)
    sizes = {name: _SIZES.get(_size(name), partial(_own, name=name))(run) for name in stages}
    if "collect" in done and "collect" not in rates and sizes["collect"][0]:
        rates["evaluate"] = rates["collect"] = done["collect"] / sizes["collect"][0]
    works = {}
    for name, (amount, text) in sizes.items():
        rate = (
            0.0
            if not amount
            else rates.get(_kind(name), rates.get("on_policy") if _kind(name) not in _SIZES and text else None)
        )
        is_unknown = rate is None or math.isinf(amount)
        works[name] = Work(amount, text, None if is_unknown else FIXED_S.get(_kind(name), 0.0) + (rate or 0.0) * amount)
    expected = {name: works[name].seconds or 0.0 for name in done if name in works}
    telling = [name for name, seconds in expected.items() if seconds >= TELLING_S]
    pace = sum(done[name] for name in telling) / sum(expected[name] for name in telling) if telling else 1.0
    return {
        name: Work(work.amount, work.text, None if work.seconds is None else work.seconds * pace)
        for name, work in works.items()
    }


def _pretrained_rates(run: Run, speed: float | None) -> dict[str, float]:
    parameters = num_parameters(run)
    if not speed or not parameters:
        return {}
    scale = parameters / MEASURED_WITH[0] * (MEASURED_WITH[1] / speed) ** SPEED_COUNTS
    rates = {stage: seconds * scale for stage, seconds in PRETRAINED_RATES.items()}
    return {**rates, "sft": rates["sft"] * run.config.sft.sft_batch / 8}


def as_lines(works: Mapping[str, Work], left: Collection[str], done: Collection[str]) -> list[str]:
    """The plan as a table for the terminal: stage, work, expected time, and the sum of the stages that are left.

    Args:
        works: The work of each stage.
        left: Requested stages that are not done.
        done: Finished stages.
    """
    rows = [
        (name, work.text, in_words(work.seconds) if name in left else "done" if name in done else "not requested")
        for name, work in works.items()
    ]
    widths = [max(len(row[i]) for row in rows) for i in range(2)]
    lines = [f"{name:{widths[0]}}  {text:{widths[1]}}  {seconds}" for name, text, seconds in rows]
    return [*lines, f"{'in all':{widths[0]}}  {'':{widths[1]}}  {in_words(time_left(works, left))}"]


def time_left(works: Mapping[str, Work], left: Collection[str]) -> float | None:
    """Expected seconds of the stages that are left; None if one of them is unknown."""
    found = [works[name].seconds for name in left if name in works]
    return None if None in found else sum(filter(None, found))


def in_words(seconds: float | None) -> str:
    """A time as "about 40 s" or "about 2:10 min"."""
    if seconds is None:
        return "time not known before it has run"
    if seconds < 1:
        return "about 1 s"
    if seconds < 60:
        return f"about {round(seconds)} s"
    if seconds < 5400:
        return f"about {round(seconds) // 60}:{round(seconds) % 60:02} min"
    return f"about {seconds / 3600:.1f} h"


def disk_bytes(run: Run, model_bytes: int) -> int:
    """Expected size of the run folder in bytes, with a checkpoint in training.

    Args:
        run: The run.
        model_bytes: Size of the model's weights, which critic and policy have too.
    """
    episodes = _collected(run) + _evaluated(run)
    return episodes * _EPISODE_BYTES + _utterances(run) * _CANDIDATE_BYTES + _MODELS * model_bytes


def model_bytes(run: Run) -> int | None:
    """Size of the weights of the initial policy in bytes: of a local folder, or of a tiny model by its settings; None for a hub name."""
    if run.config.is_tiny:
        sft = run.config.sft
        width, inner = sft.tiny_hidden_size, 3 * sft.tiny_hidden_size
        return 4 * (sft.tiny_vocab_size * width + sft.tiny_layers * (4 * width * width + 3 * width * inner))
    sizes = [
        path.stat().st_size for pattern in ("*.safetensors", "*.bin") for path in Path(run.config.model.model).glob(pattern)
    ]
    return sum(sizes) or None


def num_parameters(run: Run) -> float | None:
    """Number of parameters of a pretrained model in a local folder, by the size of its files; None for a hub name."""
    config = Path(run.config.model.model) / "config.json"
    size = model_bytes(run)
    if run.config.is_tiny or size is None or not config.is_file():
        return None
    return size / (2 if "float16" in config.read_text(encoding="utf-8") else 4)


def _collected(run: Run) -> int:
    return len(run.tasks) * int(run.config.collect.trajectories_per_task)


def _states(run: Run) -> int:
    limits = [run.record.turn_limit(task, run.config.task) for task in run.tasks[:1]]
    most = _collected(run) * (limits[0] or 10) if limits else 0
    wanted = int(run.config.algorithms.num_states)
    return min(wanted, most) if wanted else most


def _utterances(run: Run) -> int:
    return _states(run) * int(run.config.algorithms.num_candidates)


def _of_one(run: Run) -> int:
    """Episodes of the evaluation of one policy."""
    return sum(len(tasks) for tasks in run.held_out.values()) * int(run.config.evaluation.eval_episodes)


def _evaluated(run: Run) -> int:
    return _of_one(run) * (1 + run.config.evaluation.eval_initial + run.config.has_pretrained)


def _sft(run: Run) -> tuple[float, str]:
    config = run.config.sft
    if not run.config.has_sft:
        return 0, f"none: {run.config.model.model} is the initial policy"
    if run.config.initial_policy == "packaged":
        return 0, "none: the initial policy comes with the package"
    if run.config.is_tiny and run.config.model.history >= 0:  # each turn is a row, and nobody has counted them
        return math.inf, f"{_demonstrated(run):,} dialogues, batches of {config.sft_batch} turns"
    steps = config.sft_epochs * (_demonstrated(run) // config.sft_batch)
    return steps, f"{steps:,} steps of {config.sft_batch} dialogues"


def _demonstrated(run: Run) -> int:
    """Number of demonstrations: at most those of the file, if one is given."""
    wanted, file = int(run.config.sft.sft_dialogues), run.config.task.demonstrations
    return min(wanted, count_rows(Path(file))) if file and not run.config.demonstrates_source else wanted


def _critic(run: Run) -> tuple[float, str]:
    config = run.config
    pairs = len(run.tasks) * (config.collect.trajectories_per_task - 1)
    return pairs * config.algorithms.critic_epochs, f"at most {pairs:,} pairs, {config.algorithms.critic_epochs:g} epochs"


def _actor(run: Run) -> tuple[float, str]:
    config = run.config.algorithms
    pairs = _states(run) * config.pairs_per_turn
    return pairs * config.actor_epochs, f"at most {pairs:,} pairs, {config.actor_epochs:g} epochs"


def _kind(name: str) -> str:
    """Name of the main job's stage that a stage is of: the stages of other critics have the critic's name behind it."""
    return name.partition(" ")[0]


def _size(name: str) -> str:
    """Name of its size: `compare` evaluates one policy in a step."""
    return "evaluate one" if name.startswith("evaluate ") else _kind(name)


def _own(run: Run, name: str) -> tuple[float, str]:
    """Work of an algorithm's own stage."""
    algorithm: Any = getattr(run, "algorithm", None)
    if algorithm is None or algorithm.name != name:
        algorithm = import_module("sweetrl_agent.algorithms.registry").ALGORITHMS.get(name)
    settings = algorithm.settings(run) if hasattr(algorithm, "settings") else None
    if hasattr(settings, "iterations"):
        episodes = settings.iterations * settings.tasks * settings.group
        return episodes, f"{episodes:,} episodes in {settings.iterations} iterations"
    return 1, ""


_SIZES: Mapping[str, Callable[[Run], tuple[float, str]]] = {
    "sft": _sft,
    "collect": lambda run: (_collected(run), f"{_collected(run):,} episodes of {len(run.tasks):,} tasks"),
    "pairs": lambda run: (0, ""),
    "critic": _critic,
    "candidates": lambda run: (_utterances(run), f"{_utterances(run):,} utterances at {_states(run):,} turns"),
    "rank": lambda run: (_utterances(run), f"{_utterances(run):,} utterances"),
    "actor": _actor,
    "evaluate": lambda run: (_evaluated(run), f"{_evaluated(run):,} episodes"),
    "evaluate one": lambda run: (_of_one(run), f"{_of_one(run):,} episodes"),
    "report": lambda run: (0, ""),
}
