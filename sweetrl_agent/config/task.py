"""Which environment, which tasks, whom the agent talks with, and what runs its answers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from sweetrl_agent.core.settings import setting


@dataclass
class TaskArguments:
    """Tasks, human and sandbox."""

    env: str = setting(
        "ColBench-Backend-v0",
        "Environment id: any Gymnasium environment over texts; 'my_package.envs:Mine-v0' imports the module first.",
    )
    env_kwargs: str = setting("", "JSON of more arguments of the environment, such as '{\"level\": 3}'.")
    env_record: str = setting(
        "", "'my_package:RECORD', an `EnvironmentRecord`: what the trainer may know of an environment that is not ours."
    )
    demonstrations: str = setting(
        "",
        'JSONL of dialogues ({"messages": [...]}) that the tiny model learns to converse from; empty for the environment\'s own.',
    )
    tasks: str = setting("embedded:train", "Training tasks: 'embedded:train', a JSONL path, 'hub:OWNER/DATASET', with a slice.")
    test_tasks: str = setting(
        "embedded:test[:300]", "Test tasks. Empty: the last fifth of `tasks`, which are then not trained on."
    )
    unseen_tasks: str = setting("embedded:unseen", "Tasks of families that training never sees. Empty for none.")
    novel_tasks: str = setting(
        "",
        "Tasks on functions and topics that training never sees, such as 'embedded:novel', for pretrained models. Empty for none.",
    )
    simulator: str = setting(
        "scripted", "The human: 'scripted', 'openai', 'person', or JSON such as '{\"name\": \"openai\", ...}'."
    )
    sandbox: str = setting("auto", "'auto' (Docker where a daemon has the image, else embedded), 'embedded' or 'docker'.")
    max_turns: int = setting(
        0, "Agent turns of a dialogue; 0 for each task's own budget, or 10, the benchmark's, where it has none."
    )
    on_error: str = setting("raise", "A malformed task row: 'raise' stops, 'skip' leaves it out.")

    def keyword_arguments(self) -> dict[str, Any]:
        """`env_kwargs`, read.

        Raises:
            ValueError: If it is no JSON object.
        """
        try:
            found = json.loads(self.env_kwargs or "{}")
        except (ValueError, RecursionError) as error:
            raise ValueError(f"`env_kwargs` must be JSON, which it is not: {error}.") from None
        if not isinstance(found, dict):
            raise ValueError(f"`env_kwargs` must be a JSON object, got {self.env_kwargs[:200]!r}.")
        return found

    def simulator_spec(self) -> Any:
        """The simulator as `colbench_gym.simulators.make` takes it."""
        if not self.simulator.lstrip().startswith("{"):
            return self.simulator
        try:
            return json.loads(self.simulator)
        except (ValueError, RecursionError) as error:  # what came is not repeated: it may hold a password
            raise ValueError(f"`simulator` must be a name or JSON, which it is not: {error}.") from None
