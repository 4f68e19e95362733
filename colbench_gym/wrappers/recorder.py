"""Record episodes as ColBench trajectory rows, one JSONL line each, written at the end of the episode."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs

from colbench_gym.envs.colbench_env import VOID, ColBenchEnv
from colbench_gym.files import append_rows
from colbench_gym.tasks.rows import row_from_task


class TrajectoryRecorder(gym.Wrapper[str, str, str, str], RecordConstructorArgs):
    """Append every finished episode to a file, in ColBench's format.

    A row has `task` with its hidden information (the file is for training and grading, not for actors); `dialogue_history`, in
    which messages of the agent also have `output`, the message with its private thought; `answer`; `reward`, the fraction of
    tests passed; and `task_id`. `python -m colbench_gym.grade` reads these rows.

    Void episodes have no score: they are counted in `num_void` and not written. A line is written in one call and synced to
    the disk. A line that a crash left incomplete is removed at the next start. Several environments may share a file.

    Args:
        env: A ColBench environment.
        path: The JSONL file. It and its folder are created if they do not exist.
    """

    def __init__(self, env: gym.Env[str, str], path: str) -> None:
        RecordConstructorArgs.__init__(self, path=str(path))
        gym.Wrapper.__init__(self, env)
        if not isinstance(env.unwrapped, ColBenchEnv):
            raise TypeError(f"`env` must be a ColBench environment, got {type(env.unwrapped).__name__}.")
        self._env, self._path = env.unwrapped, Path(path)
        append_rows(self._path, [])  # cuts a torn line
        self._outputs: dict[int, str] = {}
        self.num_void = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start an episode. An unfinished episode is not recorded."""
        self._outputs = {}
        return self.env.reset(seed=seed, options=options)

    def step(self, action: str) -> tuple[str, Any, bool, bool, dict[str, Any]]:
        """Say `action`, and record the episode if this ends it."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._outputs[info["turn"]] = str(action)
        if "metrics" in info:
            if info["metrics"]["outcome"] == VOID:
                self.num_void += 1
            else:
                _append(self._path, self._row(str(action), info))
        return observation, reward, terminated, truncated, info

    def _row(self, action: str, info: dict[str, Any]) -> dict[str, Any]:
        history, turn = [], 0
        for message in info["messages"]:
            turn += message["role"] == "assistant"
            output = self._outputs.get(turn, "") if message["role"] == "assistant" else ""
            # After a restored snapshot, the history may hold messages that this wrapper has not seen.
            is_seen = bool(output) and self._env.parsed(output).utterance == message["content"]
            history.append({**message, "output": output} if is_seen else dict(message))
        last = self._env.parsed(action)
        return {
            "task": row_from_task(self._env.task),
            "dialogue_history": history,
            "answer": last.utterance if last.answer is None else last.answer,
            "reward": info["metrics"].get("tests_passed", info["metrics"]["success"]),
            "task_id": info["task_id"],
        }


def _append(path: Path, row: dict[str, Any]) -> None:
    line = (json.dumps(row) + "\n").encode()
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        if os.write(file, line) != len(line):
            raise OSError(f"Expected to append {len(line)} bytes to {path}; is the disk full?")
        os.fsync(file)
    finally:
        os.close(file)
