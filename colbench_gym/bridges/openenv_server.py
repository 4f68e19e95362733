"""The environments over HTTP and WebSocket, by OpenEnv (0.10): any of its clients plays dialogues on another machine.

    python -m colbench_gym.bridges.openenv_server --tasks "embedded:train[:500]" --port 8000

An action is one message of the agent, an observation the dialogue so far. A session is one WebSocket connection and plays one dialogue
at a time; all sessions share tasks, simulated human and sandbox. The server listens on this machine alone unless `--host` says
otherwise: it has no password, and everyone who can reach it can run programs in the sandbox.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Sequence
from typing import Any

from colbench_gym.bridges.conversations import ENVIRONMENTS, THREADS, Conversation, Conversations
from colbench_gym.errors import ColBenchError
from colbench_gym.reasoning import AUTO
from colbench_gym.servers.completion import STOP, finish_reason
from sandboxes.programs import refuse

try:
    from openenv.core.env_server.http_server import create_fastapi_app
    from openenv.core.env_server.interfaces import Environment
    from openenv.core.env_server.types import Action, Observation, State
except ImportError as missing:
    raise ImportError(
        f"The bridge to OpenEnv needs openenv 0.10 ({missing}); install it with `pip install 'openenv>=0.10,<0.11'`."
    ) from None


class ColBenchAction(Action):
    """One message of the agent.

    Attributes:
        message: The message, thoughts included.
        finish_reason: Why it ended, as the server of the model says: "length" if the limit of tokens cut it. An answer in it is then not graded.
    """

    message: str
    finish_reason: str | None = STOP


class ColBenchObservation(Observation):
    """The dialogue so far.

    Attributes:
        task_id: Public id of the task.
        messages: Chat messages, ready for a chat template.
        metrics: Metrics of the finished episode; {} before its end.
    """

    task_id: str
    messages: list[dict[str, str]]
    metrics: dict[str, Any] = {}


class ColBenchState(State):
    """What may be asked about a session at any time."""

    task_id: str = ""


class ColBenchEnvironment(Environment):
    """One session."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, conversations: Conversations, tasks: str) -> None:
        """A session of the dialogues.

        Args:
            conversations: The dialogues, which outlive the session.
            tasks: Name of the task source, which is the only split.
        """
        super().__init__()
        self._conversations, self._split = conversations, tasks
        self._conversation: Conversation | None = None
        self._state = ColBenchState()

    async def reset_async(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        task_id: str | None = None,
        split: str | None = None,
        index: int | None = None,
    ) -> ColBenchObservation:
        """Start a dialogue on the task of this id or this index, or on one that is drawn with the seed.

        Raises:
            ValueError: If there is no such task.
        """
        if index is not None:
            task_id = self.get_task(split or self._split, index)["id"]
        self._conversation = await self._conversations.open(task_id, seed)
        self._state = ColBenchState(episode_id=episode_id, step_count=0, task_id=self._conversation.task_id)
        return self._observation()

    async def step_async(self, action: ColBenchAction, timeout_s: float | None = None) -> ColBenchObservation:
        """Say a message of the agent.

        Raises:
            RuntimeError: If no episode is under way.
            VoidEpisodeError: If the simulated human or the sandbox failed: the client gets an error, and no reward.
        """
        if self._conversation is None or self._conversation.is_over:
            raise RuntimeError("Expected an episode under way; call `reset` before `step`.")
        await self._conversation.say(action.message, finish_reason(action.finish_reason))
        self._state.step_count += 1
        return self._observation()

    def reset(self, seed: int | None = None, episode_id: str | None = None, **options: Any) -> ColBenchObservation:
        """`reset_async`, where there is no event loop."""
        return asyncio.run(self.reset_async(seed, episode_id, **options))

    def step(self, action: ColBenchAction, timeout_s: float | None = None, **options: Any) -> ColBenchObservation:
        """`step_async`, where there is no event loop."""
        return asyncio.run(self.step_async(action, timeout_s))

    @property
    def state(self) -> ColBenchState:
        """Task and number of turns; nothing hidden."""
        return self._state

    # ---- OpenEnv's task API ------------------------------------------------------------------------------------------------

    def list_splits(self) -> list[str]:
        """The one split: the task source."""
        return [self._split]

    def num_tasks(self, split: str) -> int:
        """Number of tasks."""
        self._check(split)
        return len(self._conversations.tasks)

    def get_task(self, split: str, index: int) -> dict[str, Any]:
        """Public id and request of a task.

        Raises:
            IndexError: If there is no task with this index.
        """
        count = self.num_tasks(split)
        if not 0 <= index < count:
            raise IndexError(f"`index` must be in [0, {count}), got {index!r}.")
        task = self._conversations.tasks[index]
        return {"id": task.id, "index": index, "request": task.description}

    def get_task_range(self, split: str, start: int | None = None, stop: int | None = None) -> list[dict[str, Any]]:
        """Tasks of a range of indices, as a slice has them."""
        return [self.get_task(split, index) for index in range(self.num_tasks(split))[start:stop]]

    def list_tasks(self, split: str) -> list[dict[str, Any]]:
        """All tasks."""
        return self.get_task_range(split)

    def _check(self, split: str) -> None:
        if split != self._split:
            raise ValueError(f"`split` must be {self._split!r}, the tasks of this server, got {split!r}.")

    def _observation(self) -> ColBenchObservation:
        assert self._conversation is not None
        over = self._conversation.is_over
        return ColBenchObservation(
            done=over,
            reward=self._conversation.reward,
            task_id=self._conversation.task_id,
            messages=self._conversation.messages,
            metrics=self._conversation.metrics if over else {},
        )


def make_app(
    env: str = "ColBench-Backend-v0", tasks: str = "embedded:train", max_sessions: int = THREADS, **arguments: Any
) -> Any:
    """The server as an ASGI application.

    Args:
        env: "ColBench-Backend-v0" or "ColBench-Frontend-v0".
        tasks: Task source.
        max_sessions: Dialogues that may be under way at the same time.
        arguments: Further arguments of `Conversations`: simulator, sandbox, max_turns, reasoning, ...

    Raises:
        ValueError: If an argument is unknown.
        TaskError: If the tasks cannot be read.
    """
    conversations = Conversations(env, tasks=tasks, threads=max_sessions, **arguments)
    app = create_fastapi_app(
        lambda: ColBenchEnvironment(conversations, tasks), ColBenchAction, ColBenchObservation, max_concurrent_envs=max_sessions,
        env_name="colbench", state_cls=ColBenchState,
    )  # fmt: skip
    app.state.colbench = conversations
    return app


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(
        prog="python -m colbench_gym.bridges.openenv_server", description="Serve ColBench by OpenEnv."
    )
    parser.add_argument("--env", default="ColBench-Backend-v0", choices=sorted(ENVIRONMENTS), help="(default: %(default)s)")
    parser.add_argument("--tasks", default="embedded:train", help="task source (default: %(default)s)")
    parser.add_argument("--simulator", default="scripted", help='"scripted", or JSON with "name" and arguments')
    parser.add_argument("--sandbox", default="auto", help="(default: %(default)s)")
    parser.add_argument("--max-turns", type=int, help="agent turns of a dialogue (default: the task's own budget)")
    parser.add_argument(
        "--reasoning",
        default=AUTO,
        help='how models mark their thoughts: "auto", "none" or "OPEN CLOSE" (default: %(default)s)',
    )
    parser.add_argument("--env-kwargs", type=json.loads, default={}, help="JSON of further arguments of the environment")
    parser.add_argument("--max-sessions", type=int, default=THREADS, help="dialogues at the same time (default: %(default)s)")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s, this machine alone)")
    parser.add_argument("--port", type=int, default=8000, help="(default: %(default)s)")
    given = vars(parser.parse_args(arguments))
    host, port, further = given.pop("host"), given.pop("port"), given.pop("env_kwargs")
    try:
        app = make_app(**given | further)
    except (ColBenchError, ValueError, TypeError, ImportError, OSError) as error:
        refuse(error)
    import uvicorn

    try:
        uvicorn.run(app, host=host, port=port)
    finally:
        app.state.colbench.close()


if __name__ == "__main__":
    main()
