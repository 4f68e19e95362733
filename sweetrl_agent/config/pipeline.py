"""The stages of the main job, in order: SWEET-RL from the initial policy to the report. `core.stage` documents a declaration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from sweetrl_agent.core.stage import Need, Stage

_PLAYS: frozenset[Need] = frozenset({"episodes", "samples"})
_TRAINS: frozenset[Need] = frozenset({"training"})

MAIN_JOB = (
    Stage(
        "sft", "behaviour cloning on demonstrations: of a tiny Llama, or the copy of it that comes with the package; of a pretrained `--model` by adapters", (), ("initial/",),
        "sweetrl_agent.trainers.sft_stage:train_initial",
    ),
    Stage(
        "collect", "episodes of the initial policy, in ColBench's row format plus tokens", ("initial/",), ("trajectories.jsonl",),
        "sweetrl_agent.rollouts.collection:collect", settings=("num_tasks", "trajectories_per_task"), needs=_PLAYS,
    ),
    Stage(
        "pairs", "the best episode of a task against each worse one", ("trajectories.jsonl",), ("outcome_pairs.jsonl", "pairs_summary.json"),
        "sweetrl_agent.rollouts.collection:pair_outcomes", settings=("min_best", "min_difference"),
    ),
    Stage(
        "critic", "turn-wise advantage; it alone sees the hidden reference", ("outcome_pairs.jsonl",), ("critic/",),
        "sweetrl_agent.algorithms.sweet:train_critic", settings=("critic_*", "form", "vision_model"), needs=_TRAINS, is_distributed=True,
    ),
    Stage(
        "candidates", "several utterances for each of some turns", ("trajectories.jsonl",), ("candidates.jsonl",),
        "sweetrl_agent.algorithms.sweet:sample_candidates", settings=("num_states", "final_share", "num_candidates"), needs=frozenset({"samples"}),
    ),
    Stage(
        "rank", "candidates by the critic's advantage, and pairs of them", ("candidates.jsonl", "critic/"), ("scores.jsonl", "turn_pairs.jsonl"),
        "sweetrl_agent.algorithms.sweet:rank", settings=("reference_hidden", "judge_model", "pairs_per_turn", "pair_quantile", "last_must_answer"), needs=_TRAINS,
    ),
    Stage(
        "actor", "turn-wise DPO", ("turn_pairs.jsonl",), ("policy/",),
        "sweetrl_agent.algorithms.sweet:train_actor", settings=("actor_*",), needs=_TRAINS, is_distributed=True,
    ),
    Stage(
        "evaluate", "initial and trained policy on held-out tasks", ("initial/", "policy/", "critic/"),
        ("evaluation.jsonl", "turn_advantages.jsonl", "hint_reading.json"),
        "sweetrl_agent.evaluation.outcome:evaluate", settings=("eval_*", "shown_*", "algorithm", "critic"), needs=_PLAYS,
    ),
    Stage(
        "report", "tables and a page for the browser", ("evaluation.jsonl", "metrics.jsonl"), ("results.json", "failures.jsonl", "explanations.jsonl", "report.html"),
        "sweetrl_agent.evaluation.outcome:report",
    ),
)  # fmt: skip
#: Files that every critic has of its own.
_OF_CRITIC = ("critic/", "scores.jsonl", "turn_pairs.jsonl", "policy/")
STAGES: dict[str, Stage] = {stage.name: stage for stage in MAIN_JOB}


def stages_of(algorithm: Any) -> dict[str, Stage]:
    """The stages of a run with an algorithm, in order, from the initial policy to the report.

    Args:
        algorithm: A `core.algorithm.Algorithm`.
    """
    own = {
        name: STAGES.get(name)
        or _with_critic(name, algorithm.critic, work)
        or Stage(
            name,
            algorithm.title,
            _read_by(algorithm),
            (f"{algorithm.policy}/",),
            work,
            settings=(f"{algorithm.name}_*",),
            needs=_PLAYS | _TRAINS,
        )
        for name, work in algorithm.stages.items()
    }
    before = {name: STAGES[name] for name in algorithm.shared}
    return {**before, **own, "evaluate": STAGES["evaluate"], "report": STAGES["report"]}


def _read_by(algorithm: Any) -> tuple[str, ...]:
    """Files that an algorithm's own stage may read: those of the shared stages."""
    return tuple(file for name in algorithm.shared for file in STAGES[name].writes if not file.endswith("summary.json"))


def _with_critic(name: str, critic: str, work: Callable[[Any], None]) -> Stage | None:
    """A stage of SWEET-RL with another critic, such as "rank no_hidden": its files are in the critic's folder. None for other stages."""
    base = STAGES.get(name.removesuffix(f" {critic}")) if critic else None
    if base is None:
        return None

    def placed(files: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(f"{critic}/{file}" if file in _OF_CRITIC else file for file in files)

    return replace(base, name=name, reads=placed(base.reads), writes=placed(base.writes), work=work)


def first_stage(setting: str, algorithms: Mapping[str, str] = MappingProxyType({})) -> str:
    """The first stage with files that a setting affects; the setting may change until that stage has started.

    Args:
        setting: Name of the setting.
        algorithms: Settings of single algorithms -> name of the algorithm, which is also the name of its stage.
    """
    if setting in algorithms:
        return algorithms[setting]
    return next((stage.name for stage in MAIN_JOB if stage.is_shaped_by(setting)), MAIN_JOB[0].name)
