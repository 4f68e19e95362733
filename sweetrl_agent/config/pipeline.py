"""The stages of the main job, in order: SWEET-RL from the initial policy to the report. `core.stage` documents a declaration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from colbench_gym.digests import file_of, module_input, rows_of
from sweetrl_agent.core.stage import Need, Stage

_PLAYS: frozenset[Need] = frozenset({"episodes", "samples"})
_TRAINS: frozenset[Need] = frozenset({"training"})
#: The pretrained model as it came, the policy that training starts from, and the trained policy: agents of a run's evaluation.
AGENTS = ("pretrained", "initial", "trained")
EVALUATION, ADVANTAGES = "evaluation.jsonl", "turn_advantages.jsonl"

MAIN_JOB = (
    Stage(
        "sft", "behaviour cloning on demonstrations: of a tiny Llama, or the copy of it that comes with the package; of a pretrained `--model` by adapters", (), ("initial/",),
        "sweetrl_agent.trainers.sft_stage:train_initial", inputs=("tasks", "demonstrations", "model", "env"),
    ),
    Stage(
        "collect", "episodes of the initial policy, in ColBench's row format plus tokens", ("initial/",), ("trajectories.jsonl",),
        "sweetrl_agent.rollouts.collection:collect", settings=("num_tasks", "trajectories_per_task"), needs=_PLAYS,
        inputs=("tasks", "model", "env", "human"),
    ),
    Stage(
        "pairs", "the best episode of a task against each worse one", ("trajectories.jsonl",), ("outcome_pairs.jsonl", "pairs_summary.json"),
        "sweetrl_agent.rollouts.collection:pair_outcomes", settings=("min_best", "min_difference"),
    ),
    Stage(
        "critic", "turn-wise advantage; it alone sees the hidden reference", ("outcome_pairs.jsonl", "trajectories.jsonl", "initial/"), ("critic/",),
        "sweetrl_agent.algorithms.sweet:train_critic", settings=("critic_*", "form", "vision_model"), needs=_TRAINS,
        inputs=("model", "vision_model"), is_distributed=True,
    ),
    Stage(
        "candidates", "several utterances for each of some turns", ("trajectories.jsonl", "initial/"), ("candidates.jsonl",),
        "sweetrl_agent.algorithms.sweet:sample_candidates", settings=("num_states", "final_share", "num_candidates"), needs=frozenset({"samples"}),
        inputs=("model",),
    ),
    Stage(
        "rank", "candidates by the critic's advantage, and pairs of them", ("candidates.jsonl", "trajectories.jsonl", "critic/", "initial/"),
        ("scores.jsonl", "turn_pairs.jsonl"),
        "sweetrl_agent.algorithms.sweet:rank", settings=("reference_hidden", "judge_model", "pairs_per_turn", "pair_quantile", "last_must_answer"), needs=_TRAINS,
        inputs=("tasks", "model", "judge_model", "vision_model"),
    ),
    Stage(
        "actor", "turn-wise DPO", ("turn_pairs.jsonl", "initial/"), ("policy/",),
        "sweetrl_agent.algorithms.sweet:train_actor", settings=("actor_*",), needs=_TRAINS, inputs=("model",), is_distributed=True,
    ),
    Stage(
        "evaluate", "initial and trained policy on held-out tasks", ("initial/", "policy/", "critic/", "candidates.jsonl", "trajectories.jsonl"),
        (*(rows_of(EVALUATION, agent=name) for name in AGENTS), *(rows_of(ADVANTAGES, agent=name) for name in AGENTS), "hint_reading.json"),
        "sweetrl_agent.evaluation.outcome:evaluate", settings=("eval_*", "shown_*", "algorithm", "critic"), needs=_PLAYS,
        inputs=("held_out", "tasks", "model", "vision_model", "env", "human"),
    ),
    Stage(
        "report", "tables and a page for the browser", ("evaluation.jsonl", "metrics.jsonl"), ("results.json", "failures.jsonl", "explanations.jsonl", "pictures.json", "report.html"),
        "sweetrl_agent.evaluation.outcome:report",
    ),
)  # fmt: skip
#: Files that every critic has of its own.
_OF_CRITIC = ("critic/", "scores.jsonl", "turn_pairs.jsonl", "policy/", ADVANTAGES)
STAGES: dict[str, Stage] = {stage.name: stage for stage in MAIN_JOB}


def stages_of(algorithm: Any) -> dict[str, Stage]:
    """The stages of a run with an algorithm, in order, from the initial policy to the report.

    Args:
        algorithm: A `core.algorithm.Algorithm`.
    """
    shared = {name: STAGES[name] for name in algorithm.shared}
    own = {name: _own_stage(algorithm, name, work) for name, work in algorithm.stages.items()}
    evaluation = _of_critic(STAGES["evaluate"], algorithm) if algorithm.critic else STAGES["evaluate"]
    if not algorithm.critic:
        evaluation = replace(
            evaluation,
            reads=("initial/", *policy_files(algorithm)),
            inputs=(*evaluation.inputs, *module_input(algorithm.module)),
        )
    return {**shared, **own, "evaluate": evaluation, "report": STAGES["report"]}


def policy_files(algorithm: Any) -> tuple[str, ...]:
    """The folders that an algorithm's trained policy is in; () for the initial policy itself."""
    own, policy = f"{algorithm.name}/", f"{algorithm.policy}/"
    if not algorithm.stages:
        return ()
    if algorithm.critic:
        return (policy,)
    return (own,) if policy == "/" or policy.startswith(own) else (policy, own)


def critic_files(critic: str) -> tuple[str, ...]:
    """The folder of a critic's model, which need not exist."""
    return _placed(("critic/",), critic)


def _own_stage(algorithm: Any, name: str, work: Callable[[Any], None]) -> Stage:
    """A stage of an algorithm: one of SWEET-RL with the algorithm's critic, such as "rank no_hidden", or one of its own."""
    base = STAGES.get(name.removesuffix(f" {algorithm.critic}")) if algorithm.critic else None
    if base is not None:
        return replace(_of_critic(base, algorithm), name=name, work=work)
    return Stage(
        name,
        algorithm.title,
        tuple(file for shared in algorithm.shared for file in STAGES[shared].writes if not file.endswith("summary.json")),
        policy_files(algorithm),
        work,
        settings=(f"{algorithm.name}_*",),
        needs=_PLAYS | _TRAINS,
        inputs=("tasks", "held_out", "demonstrations", "model", "env", "human", *module_input(algorithm.module)),
    )


def _of_critic(base: Stage, algorithm: Any) -> Stage:
    """A stage of SWEET-RL with the algorithm's critic, with the critic's files in the critic's folder."""
    reads, writes = (_placed(files, algorithm.critic) for files in (base.reads, base.writes))
    is_of_critic = base.name in ("critic", "rank", "evaluate")
    return replace(
        base, reads=reads, writes=writes, inputs=(*base.inputs, *(module_input(algorithm.module) if is_of_critic else ()))
    )


def _placed(files: tuple[str, ...], critic: str) -> tuple[str, ...]:
    """Files of SWEET-RL where those of a critic are: those of its own critic in the run folder, others in a folder of the critic."""
    return tuple(f"{critic}/{file}" if critic != "sweet" and file_of(file) in _OF_CRITIC else file for file in files)


def first_stage(setting: str, algorithms: Mapping[str, str] = MappingProxyType({})) -> str:
    """The first stage with files that a setting affects; the setting may change until that stage has started.

    Args:
        setting: Name of the setting.
        algorithms: Settings of single algorithms -> name of the algorithm, which is also the name of its stage.
    """
    if setting in algorithms:
        return algorithms[setting]
    return next((stage.name for stage in MAIN_JOB if stage.is_shaped_by(setting)), MAIN_JOB[0].name)
