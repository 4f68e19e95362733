"""The stages of the main job, in order: SWEET-RL from the initial policy to the report. `core.stage` documents a declaration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

from colbench_gym.digests import file_of, module_input, rows_of
from sweetrl_agent.core.stage import Need, Stage

_PLAYS: frozenset[Need] = frozenset({"episodes", "samples"})
_TRAINS: frozenset[Need] = frozenset({"training"})
#: Agents of a run's evaluation: the base model, the initial policy and the trained policy.
AGENTS = ("pretrained", "initial", "trained")
#: Settings that affect what a critic scores, and not its training.
_SCORING = ("reference_hidden", "judge_model", "gain_*")
EVALUATION, ADVANTAGES, NOISE_LEVEL = "evaluation.jsonl", "turn_advantages.jsonl", "noise_level.json"
TRAJECTORIES = "trajectories.jsonl"

MAIN_JOB = (
    Stage(
        "sft", "behaviour cloning on demonstrations: of a tiny Llama, or the copy of it that comes with the package; of a pretrained `--model` by adapters", (), ("initial/",),
        inputs=("tasks", "demonstrations", "model", "env"),
    ),
    Stage(
        "collect", "episodes of the initial policy, in ColBench's row format plus tokens", ("initial/",), ("trajectories.jsonl",),
        settings=("num_tasks", "trajectories_per_task"), needs=_PLAYS,
        inputs=("tasks", "model", "env", "human"),
    ),
    Stage(
        "pairs", "the best episode of a task against each worse one", ("trajectories.jsonl",), ("outcome_pairs.jsonl", "pairs_summary.json"),
        settings=("min_best", "min_difference"),
    ),
    Stage(
        "critic", "turn-wise advantage; it alone sees the hidden reference", ("outcome_pairs.jsonl", "trajectories.jsonl", "initial/"), ("critic/",),
        settings=("critic_*", "form", "vision_model"), needs=_TRAINS,
        inputs=("model", "vision_model"), is_distributed=True,
    ),
    Stage(
        "candidates", "several utterances for each of some turns", ("trajectories.jsonl", "initial/"), ("candidates.jsonl",),
        settings=("num_states", "final_share", "num_candidates"), needs=frozenset({"samples"}),
        inputs=("model",),
    ),
    Stage(
        "rank", "candidates by the critic's advantage, and pairs of them", ("candidates.jsonl", "trajectories.jsonl", "critic/", "initial/"),
        (NOISE_LEVEL, "scores.jsonl", "turn_pairs.jsonl"),
        settings=(*_SCORING, "pairs_per_turn", "pair_quantile", "last_must_answer", "answers"), needs=_TRAINS,
        inputs=("tasks", "model", "judge_model", "gain_model", "vision_model"),
    ),
    Stage(
        "actor", "turn-wise DPO", ("turn_pairs.jsonl", "initial/"), ("policy/",),
        settings=("actor_*",), needs=_TRAINS, inputs=("model",), is_distributed=True,
    ),
    Stage(
        "evaluate", "initial and trained policy on held-out tasks", ("initial/", "policy/", "critic/", "candidates.jsonl", "trajectories.jsonl"),
        (*(rows_of(EVALUATION, agent=name) for name in AGENTS), *(rows_of(ADVANTAGES, agent=name) for name in AGENTS), "hint_reading.json"),
        settings=("eval_*", "hint_*", "shown_*", "algorithm"), needs=_PLAYS,
        inputs=("held_out", "tasks", "model", "vision_model", "env", "human"),
    ),
    Stage(
        "report", "tables and a page for the browser", ("evaluation.jsonl", "metrics.jsonl"), ("results.json", "failures.jsonl", "explanations.jsonl", "pictures.json", "report.html"),
    ),
)  # fmt: skip
#: Files that every critic has of its own.
_OF_CRITIC = ("critic/", NOISE_LEVEL, "scores.jsonl", "turn_pairs.jsonl", "policy/", ADVANTAGES)
STAGES: dict[str, Stage] = {stage.name: stage for stage in MAIN_JOB}


def stages_of(algorithm: Any) -> dict[str, Stage]:
    """The stages of a run with an algorithm, in order, from the initial policy to the report.

    Args:
        algorithm: A `core.algorithm.Algorithm`.
    """
    shared = {name: STAGES[name] for name in algorithm.shared}
    trained = {name: _own_stage(algorithm, name, work) for name, work in algorithm.stages.items()}
    evaluation = _of_critic(STAGES["evaluate"], algorithm) if algorithm.critic else STAGES["evaluate"]
    if not algorithm.critic:
        evaluation = replace(
            evaluation,
            reads=(*(("initial/",) if algorithm.has_model else ()), *policy_files(algorithm)),
            inputs=(*evaluation.inputs, *module_input(algorithm.module)),
        )
    return {**shared, **trained, "evaluate": evaluation, "report": STAGES["report"]}


def policy_files(algorithm: Any) -> tuple[str, ...]:
    """The folders that an algorithm's trained policies are in; () for the initial policy itself."""
    if not algorithm.stages:
        return ()
    folders, name = [f"{folder}/" for folder in algorithm.folders], f"{algorithm.name}/"
    return tuple(folders) if algorithm.critic else (*(folder for folder in folders if not folder.startswith(name)), name)


def trained_folders(algorithm: Any) -> tuple[str, ...]:
    """The folders of trained policies, for the README of a run; of an algorithm whose policies are no language models its folder."""
    return algorithm.folders or tuple(folder.removesuffix("/") for folder in policy_files(algorithm))


def files_needed(algorithm: Any, algorithms: Mapping[str, Any]) -> tuple[str, ...]:
    """The files of the other algorithms that an algorithm uses: their policies and critics.

    Args:
        algorithm: The algorithm.
        algorithms: The algorithms of the run by name.
    """
    needed = [algorithms[name] for name in algorithm.algorithms_needed if name in algorithms]
    return tuple(
        file for other in needed for file in (*policy_files(other), *(critic_files(other.critic) if other.critic else ()))
    )


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
        needs=_PLAYS | _TRAINS,
        inputs=("tasks", "held_out", "demonstrations", "model", "env", "human", *module_input(algorithm.module)),
    )


def _of_critic(base: Stage, algorithm: Any) -> Stage:
    """A stage of SWEET-RL with the algorithm's critic, with the critic's files in the critic's folder."""
    written = tuple(file for file in base.writes if file != NOISE_LEVEL or algorithm.kind.scoring == "gain")
    reads, writes = (_placed(files, algorithm.critic) for files in (base.reads, written))
    is_of_critic = base.name in ("critic", "rank", "evaluate")
    return replace(
        base, reads=reads, writes=writes, inputs=(*base.inputs, *(module_input(algorithm.module) if is_of_critic else ()))
    )


def _placed(files: tuple[str, ...], critic: str) -> tuple[str, ...]:
    """Files of SWEET-RL where those of a critic are: those of its own critic in the run folder, others in a folder of the critic."""
    return tuple(f"{critic}/{file}" if critic != "sweet" and file_of(file) in _OF_CRITIC else file for file in files)


def affects_scores(setting: str) -> bool:
    """Whether a setting affects what a critic scores, by its training or without."""
    return STAGES["critic"].is_shaped_by(setting) or any(fnmatchcase(setting, pattern) for pattern in _SCORING)


def later_users(algorithm: Any, config: Any, setting: str) -> list[str]:
    """The stages of an algorithm that use a setting whose first stage the algorithm does not have; [] if it has that stage.

    Args:
        algorithm: The algorithm.
        config: Settings of its run.
        setting: Full name of the setting.
    """
    first, of_one, stages, order = config.first_stage(setting), "." in setting, stages_of(algorithm), [*STAGES]
    if first in stages and first != "evaluate" and (first != "sft" or config.has_sft):
        return []
    plays = setting == "num_tasks" and "behaviour" not in algorithm.requires
    if (first in ("collect", "pairs") and not (plays or algorithm.collects)) or (first == "sft" and not algorithm.has_model):
        return []
    evaluated = [f"evaluate {algorithm.name}", *(["evaluate"] if algorithm.name == config.algorithm.name else [])]
    if first == "sft":
        return [*(stage for stage in stages if stage not in ("sft", "evaluate", "report")), *evaluated]

    def place(name: str) -> int:
        base = name.partition(" ")[0]
        return order.index(base if base in STAGES else "critic")  # an algorithm's own stage stands where the critic is trained

    trained = [stage for stage in algorithm.stages if stage != "candidates" and place(stage) >= place(first)]
    return [*trained, *(evaluated if of_one else [])]


def first_stage(setting: str) -> str:
    """The first stage with files that a setting affects; the setting may change until that stage has started.

    Args:
        setting: Name of a setting, without that of its algorithm.
    """
    return next((stage.name for stage in MAIN_JOB if stage.is_shaped_by(setting)), MAIN_JOB[0].name)
