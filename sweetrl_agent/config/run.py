"""Settings of the run itself: folder, seed, stages and computing resources."""

from __future__ import annotations

from dataclasses import dataclass

from sandboxes.logs import LEVELS
from sweetrl_agent.core.settings import require, setting

#: Trackers that `report_to` takes besides "none".
TRACKERS = ("tensorboard", "wandb", "mlflow")


@dataclass
class RunArguments:
    """What to run, where, and on which resources."""

    output: str = setting("runs/sweet", "Run folder; an unfinished run in it is resumed.")
    seed: int = setting(0, "Seed of everything.")
    algorithm: str = setting(
        "sweet",
        "Algorithm: a name, 'my_package:MyAlgorithm' (an `Algorithm`), or for SWEET-RL with a critic of your own 'my_package:MyCritic' (a `Critic`), "
        'or JSON with such a "name" and the critic\'s arguments.',
    )
    critic: str = setting("sweet", "The critic of SWEET-RL: the same as `--algorithm` with its name or class.")
    stage: str = setting("all", "The only stage to run. A stage reads the files of earlier stages.")
    redo: list[str] = setting(
        (),
        "Stages to repeat, with the stages that depend on them or read the same changed files. Their files are removed first.",
    )
    dry_run: bool = setting(
        False,
        "Print the plan and check settings, packages, tasks, servers, GPU and folder. Runs nothing and loads no weights.",
    )
    gpu: str = setting(
        "",
        "With `dry_run`: plan the run for these GPUs, such as '8 x H100-80GB' or '8 x H100-80GB at 2.5 USD': hours, memory and cost of every stage, by formula.",
    )
    threads: int = setting(
        0, "CPU threads of torch; 0 for one per core allowed by the CPU affinity and the control group's quota."
    )
    ray_workers: int = setting(
        0,
        "Ray workers for rollouts, candidates and ranking, one thread each; 0 uses this process. Same bytes as this process with `threads` 1; of on-policy algorithms, where products do not depend on the size of a batch (AMX: in the last bits).",
    )
    ray_address: str = setting("", "Address of a Ray cluster; empty starts one on this machine.")
    max_void: float = setting(
        0.05,
        "Share of void episodes (failures of the simulator's server or of the sandbox) that stops a stage; checked from 40 episodes on.",
        most=1,
    )
    max_leak: float = setting(
        1.0,
        "Largest mean share of the hidden code in the simulated human's replies: the run stops if collection, or an iteration of on-policy training, has more. "
        "1 for no limit.",
        least=0,
        most=1,
    )
    prices: str = setting("", "JSON or YAML file: model -> {input, output}, prices of a million tokens. Empty for none.")
    max_cost: float = setting(
        0.0,
        "Most that the requests to model servers may cost, in the currency of `prices`, those of earlier commands in the folder included: the run then ends, and "
        "resumes with a higher limit. 0 for no limit.",
    )
    replay_void: bool = setting(False, "Play void episodes again, in place, until a later stage has used the episodes.")
    require_reproducible: bool = setting(
        False, "Refuse an environment whose trial episode does not repeat with the same seed and actions, or cannot be played."
    )
    report_to: list[str] = setting(
        ("none",), "Experiment trackers: tensorboard, wandb, mlflow, or none. All stages write to one tracker run."
    )
    callbacks: list[str] = setting(
        (), "Callbacks as 'my_package:Class': subclasses of `sweetrl_agent.Callback` or `transformers.TrainerCallback`."
    )
    log_level: str = setting("info", f"Least level of the messages on the screen: {', '.join(LEVELS)}.")


def check_report_to(names: list[str]) -> None:
    """Refuse unknown trackers, duplicates, and "none" beside others.

    Raises:
        ValueError: Says what was expected.
    """
    for name in names:
        require("report_to", name, (*TRACKERS, "none"))
    if len({*names}) < len(names) or ("none" in names and len(names) > 1):
        raise ValueError(f"`report_to` must be different trackers, or 'none' alone, got {names}.")
