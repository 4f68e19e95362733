"""Settings of `python -m sweetrl_agent.evaluate`: its own, and those that it shares with `train`, under the same names."""

from __future__ import annotations

from dataclasses import dataclass

from sweetrl_agent.config.evaluation import Integer
from sweetrl_agent.config.model import ModelArguments
from sweetrl_agent.config.run import RunArguments
from sweetrl_agent.config.task import TaskArguments
from sweetrl_agent.core.settings import Section, section, setting

#: Settings that a run folder brings: of its environment, and of how its policy samples.
TASK_SETTINGS = ("env", "env_kwargs", "env_record", "simulator", "sandbox", "max_turns", "on_error", "isolate_generators")
MODEL_SETTINGS = (
    "revision", "dtype", "engine", "server_urls", "system_prompt", "history", "reasoning", "max_new_tokens", "temperature", "generation_batch",
)  # fmt: skip
RUN_SETTINGS = (
    "threads",
    "ray_workers",
    "ray_address",
    "max_void",
    "prices",
    "max_cost",
    "replay_void",
    "require_reproducible",
    "dry_run",
    "log_level",
)


@dataclass
class EvaluateArguments:
    """What to evaluate, on which tasks, and where the results go."""

    policies: list[str] = setting(
        (),
        "Policies: a run folder (its trained policy; FOLDER:initial or FOLDER:ALGORITHM for others), a model folder, a hub name, "
        "team:RUN+AGENT=POLICY (a team with another policy of an agent), openai:MODEL@http://HOST:PORT/v1 (a chat server), random, random_actions, oracle, person, or 'my_package.module:NAME'; NAME=POLICY names one.",
    )
    tasks: list[str] = setting(
        (),
        "Sources of tasks, each a split, such as embedded:test[:100]. Empty: the held-out tasks of the run folders, which must hold out the same, or else the "
        "environment's test tasks.",
    )
    num_tasks: int = setting(0, "Maximum number of tasks per split; 0 for all (of a run folder: its `eval_tasks`).")
    episodes: int = setting(
        1, "Episodes per task and seed (of the held-out tasks of a run folder: its `eval_episodes`).", least=1
    )
    seeds: list[Integer] = setting(
        (), "Seeds of the episodes; one number is that seed. Empty: the seed of the first run folder, or 0."
    )
    output: str = setting("runs/eval", "Folder of the evaluation; an unfinished one in it is resumed.")
    redo: list[str] = setting((), "Policies whose episodes are played again, from the first.")
    api_key_env: str = setting("OPENAI_API_KEY", "Environment variable with the key of chat servers.")
    timeout_s: float = setting(120.0, "Time limit of a request to a chat server, in seconds.", above=0)
    max_retries: int = setting(5, "Retries of a request to a chat server.")


#: The settings that it shares with `train`.
SHARED = Section(
    "shared",
    "Environment, sampling and machine, as in `train`.",
    {
        **section("task", TaskArguments, TASK_SETTINGS).settings,
        **section("model", ModelArguments, MODEL_SETTINGS).settings,
        **section("run", RunArguments, RUN_SETTINGS).settings,
    },
)
SECTIONS = (section("evaluation", EvaluateArguments), SHARED)
