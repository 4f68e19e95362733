"""What to do, where, and on how much of the machine."""

from __future__ import annotations

from dataclasses import dataclass

from sweetrl_agent.config.pipeline import STAGES
from sweetrl_agent.core.settings import setting


@dataclass
class RunArguments:
    """What to do and where."""

    output: str = setting("runs/sweet", "Run folder; a folder with an unfinished run is gone on with.")
    seed: int = setting(0, "Seed of everything.")
    algorithm: str = setting(
        "sweet",
        "What trains the agent: a name of README's table, such as rft, grpo or turn_ppo, or 'my_package.module:Class', an `Algorithm`.",
    )
    stage: str = setting("all", f"One of {', '.join(STAGES)}, or all. A stage reads the files of those before it.")
    dry_run: bool = setting(
        False,
        "Print the plan and fail where the run would: settings, packages, tasks, servers, GPU, folder. Runs nothing and loads no weights.",
    )
    threads: int = setting(
        0, "CPU threads of torch; 0 for one per core that the CPU affinity and the control group's quota allow."
    )
    ray_workers: int = setting(
        0,
        "Ray's workers for rollouts, candidates and ranking, of one thread each; 0 works in this process, which gives the same bytes with `threads` 1.",
    )
    ray_address: str = setting("", "Address of a Ray cluster; empty starts one of this machine.")
    max_void: float = setting(
        0.05,
        "Share of void episodes, which the human's server or the sandbox failed, that ends a stage with an error; of 40 episodes or more.",
        most=1,
    )
    replay_void: bool = setting(False, "Play void episodes again, in their places, as long as nothing was made of them.")
