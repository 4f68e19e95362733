"""Settings of the environment, the tasks, the simulated human and the sandbox."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator

from sandboxes.named import spec_of
from sweetrl_agent.core.settings import setting


@dataclass
class TaskArguments:
    """Environment, tasks, simulated human and sandbox."""

    env: str = setting(
        "ColBench-Backend-v0",
        "Environment id: any Gymnasium environment over texts; 'my_package.envs:Mine-v0' imports the module first.",
    )
    env_kwargs: str = setting("", "JSON of keyword arguments of the environment, such as '{\"level\": 3}'.")
    env_record: str = setting(
        "", "'my_package:RECORD', an `EnvironmentRecord`: further information for the trainer about a user-defined environment."
    )
    demonstrations: str = setting(
        "",
        'Demonstrations for SFT: a file (.jsonl, .json, .jsonl.gz, .parquet) of dialogues, {"messages": [...]}, for offline algorithms of episodes as in trajectories.jsonl; '
        "or a source of tasks that have demonstrations, such as 'embedded:train'. Empty: the demonstrations of `tasks`.",
    )
    tasks: str = setting(
        "embedded:train",
        "Training tasks: 'embedded:train', a path to rows (.jsonl, .json, .jsonl.gz, .parquet), 'hub:OWNER/DATASET' or 'my_package:my_function', optionally sliced ('[:500]').",
    )
    test_tasks: str = setting(
        "embedded:test[:300]", "Test tasks. Empty: the last fifth of `tasks`, which is then not used for training."
    )
    unseen_tasks: str = setting("embedded:unseen", "Tasks of families that are not in the training tasks. Empty for none.")
    novel_tasks: str = setting(
        "",
        "Tasks with functions and topics that are not in the training tasks, such as 'embedded:novel', for pretrained models. Empty for none.",
    )
    simulator: str = setting(
        "scripted",
        "Simulated human: a name, 'my_package:MyHuman' (a `Simulator`), or JSON with such a \"name\" and its arguments.",
    )
    sandbox: str = setting(
        "auto",
        "Sandbox: a name ('auto' is Docker where a daemon has the image, else embedded), 'my_package:MySandbox' (a `Sandbox`; for pages a "
        '`Browser`), or JSON with such a "name" and its arguments.',
    )
    max_turns: int = setting(
        0, "Maximum number of agent turns of a dialogue; 0 for the task's own limit, or the benchmark's 10 if it has none."
    )
    on_error: str = setting("raise", "For a malformed task row: 'raise' stops, 'skip' skips it.")
    isolate_generators: Annotated[str, BeforeValidator(lambda given: str(given).lower())] = setting(
        "auto",
        "Whether each dialogue has its own state of the global generators of Python, NumPy and torch, seeded by its task: 'true', 'false', or "
        "'auto': in user-defined environments, unless their steps wait for other services. Your own simulated human has it with 'true'.",
    )

    def keyword_arguments(self) -> dict[str, Any]:
        """`env_kwargs`, parsed.

        Raises:
            ValueError: If it is not a JSON object.
        """
        try:
            arguments = json.loads(self.env_kwargs or "{}")
        except (ValueError, RecursionError) as error:
            raise ValueError(f"`env_kwargs` must be valid JSON: {error}.") from None
        if not isinstance(arguments, dict):
            raise ValueError(f"`env_kwargs` must be a JSON object, got {self.env_kwargs[:200]!r}.")
        return arguments

    def simulator_spec(self) -> Any:
        """The simulator in the form that `colbench_gym.simulators.make` accepts."""
        return spec_of("simulator", self.simulator)

    @property
    def human_model(self) -> str:
        """Name of the model that plays the simulated human; "" if none does."""
        return human_model(self.simulator_spec())

    def sandbox_spec(self) -> Any:
        """The sandbox in the form that `sandboxes.make` accepts."""
        return spec_of("sandbox", self.sandbox)


def human_model(spec: Any) -> str:
    """Name of the model of a simulated human, by its specification; "" if there is none."""
    return str(spec.get("model", "")) if isinstance(spec, dict) else ""
