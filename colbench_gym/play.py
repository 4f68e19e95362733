"""python -m colbench_gym.play: play the agent at the terminal.

Type a message; an empty line sends it. Inside a code fence, empty lines belong to the code. ``I WANT TO ANSWER:`` starts your
answer, which ends the episode and is graded.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import gymnasium as gym

import colbench_gym  # noqa: F401  (registers the environment)
from colbench_gym.agents.person import read_message
from colbench_gym.envs.colbench_env import VOID
from colbench_gym.errors import ColBenchError
from colbench_gym.outside_text import printable
from sandboxes.logs import add_log_level, shown_logs
from sandboxes.named import spec_of
from sandboxes.programs import program_name

ENVIRONMENTS = ("ColBench-Backend-v0", "ColBench-Frontend-v0")


def play(env: gym.Env[str, str], lines: Iterable[str], seed: int | None, task_id: str | None) -> dict[str, Any]:
    """Play one episode and return its metrics; {} if the input ended before the episode did."""
    _, info = env.reset(seed=seed, options={"task_id": task_id})
    print(f"Human: {printable(info['messages'][-1]['content'])}\n", flush=True)
    while True:
        message = read_message(lines)
        if message is None:
            return {}
        _, _, _, _, info = env.step(message)
        if "metrics" in info:
            return dict(info["metrics"])
        print(f"\nHuman: {printable(info['messages'][-1]['content'])}\n", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line. Returns 0 if the episode ended; 1 if a component failed, the input ended early or the output was closed."""
    try:
        return _main(arguments)
    except OSError as error:  # a closed pipe, a full disk
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left in the buffer
        print(f"error: the dialogue cannot be printed: {error.strerror}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=program_name("colbench_gym.play"), description="Play the agent at the terminal.")
    parser.add_argument("--env", default=ENVIRONMENTS[0], choices=ENVIRONMENTS, help="(default: %(default)s)")
    parser.add_argument("--tasks", default="embedded:test", help="task source (default: %(default)s)")
    parser.add_argument("--task-id", help="id of the task (default: drawn with --seed)")
    parser.add_argument(
        "--simulator",
        default="scripted",
        help='"scripted", "person", "package.module:Class", or JSON with "name" and arguments',
    )
    parser.add_argument(
        "--sandbox",
        default="auto",
        help='sandbox that runs your program or renders your page, by name, "package.module:Class" or JSON (default: %(default)s)',
    )
    parser.add_argument("--max-turns", type=int, help="maximal number of your messages (default: the task's own budget)")
    parser.add_argument("--seed", type=int, help="seed of the random choice of a task")
    add_log_level(parser)
    return parser


def _main(arguments: Sequence[str] | None) -> int:
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.seed is not None and given.seed < 0:
        parser.error(f"--seed must be at least 0, got {given.seed}")
    try:
        env = gym.make(
            given.env,
            tasks=given.tasks,
            simulator=spec_of("simulator", given.simulator),
            sandbox=spec_of("sandbox", given.sandbox),
            max_turns=given.max_turns,
            on_world_error="raise",
        )
    except (ColBenchError, ValueError, TypeError, ImportError, OSError) as error:
        parser.error(" ".join(str(error).split()))
    what = "program" if given.env == ENVIRONMENTS[0] else "page"
    print(f"An empty line sends. Start your answer with I WANT TO ANSWER: and put the {what} in a ``` fence.\n")
    try:
        with shown_logs(given.log_level, "stderr"):
            metrics = play(env, iter(sys.stdin or ()), given.seed, given.task_id)
    except (ColBenchError, ValueError) as error:
        print(f"error: {printable(' '.join(str(error).split()))}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted; there is no result", file=sys.stderr)
        return 130
    finally:
        env.close()
    if not metrics or metrics["outcome"] == VOID:
        print("\nThe input ended before the episode did; there is no result.")
        return 1
    grade = next(name for name in ("tests_passed", "similarity") if name in metrics)
    title = grade.replace("_", " ").capitalize()
    print(f"\n{title}: {metrics[grade]:.0%}. Outcome: {metrics['outcome']}, after {metrics['turns']} turns.", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
