"""Settings of the run itself: folder, seed, stages and computing resources."""

from __future__ import annotations

from dataclasses import dataclass

from sweetrl_agent.config.pipeline import STAGES
from sweetrl_agent.core.settings import setting


@dataclass
class RunArguments:
    """What to run, where, and on which resources."""

    output: str = setting("runs/sweet", "Run folder; an unfinished run in it is resumed.")
    seed: int = setting(0, "Seed of everything.")
    algorithm: str = setting(
        "sweet",
        "Algorithm: a name of docs/algorithms/index.md, such as rft, grpo or turn_ppo, or 'my_package.module:Class', an `Algorithm`.",
    )
    stage: str = setting("all", f"One of {', '.join(STAGES)}, or all. A stage reads the files of earlier stages.")
    dry_run: bool = setting(
        False,
        "Print the plan and check settings, packages, tasks, servers, GPU and folder. Runs nothing and loads no weights.",
    )
    threads: int = setting(
        0, "CPU threads of torch; 0 for one per core allowed by the CPU affinity and the control group's quota."
    )
    ray_workers: int = setting(
        0,
        "Ray workers for rollouts, candidates and ranking, one thread each; 0 uses this process. Same bytes as this process with `threads` 1.",
    )
    ray_address: str = setting("", "Address of a Ray cluster; empty starts one on this machine.")
    max_void: float = setting(
        0.05,
        "Share of void episodes (failures of the simulator's server or of the sandbox) that stops a stage; checked from 40 episodes on.",
        most=1,
    )
    replay_void: bool = setting(False, "Play void episodes again, in place, until a later stage has used the episodes.")
