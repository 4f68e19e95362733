"""python -m colbench_gym.play: play the agent at the terminal.

Type a message; an empty line sends it. Inside a code fence, empty lines belong to the code. ``I WANT TO ANSWER:`` starts your
answer: it is graded, and the episode ends. In a game of LMRL-Gym, every line is a message.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import gymnasium as gym

import colbench_gym
from colbench_gym.agents.person import read_message
from colbench_gym.envs.colbench_env import VOID
from colbench_gym.errors import ColBenchError
from colbench_gym.outside_text import printable
from sandboxes import system_lacks
from sandboxes.logs import add_log_level, shown_logs
from sandboxes.named import spec_of
from sandboxes.programs import program_name, refuse

ENVIRONMENTS = ("ColBench-Backend-v0", "ColBench-Frontend-v0")
GAMES = tuple(f"LMRL-{name}-v0" for name in colbench_gym.LMRL_GAMES)
#: Options that only ColBench's environments have.
_OF_DIALOGUES = ("tasks", "task_id", "simulator", "sandbox")


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


def play_game(env: gym.Env[str, str], lines: Iterable[str], seed: int | None) -> dict[str, Any]:
    """Play one episode of a game, a line per message, and return its metrics; {} if the input ended before the episode did."""
    observation, _ = env.reset(seed=seed)
    print(printable(observation), flush=True)
    for line in filter(None, map(str.strip, lines)):
        observation, reward, terminated, truncated, info = env.step(line)
        print(f"{printable(observation)}\n[reward {reward:g}]", flush=True)
        if terminated or truncated:
            return dict(info["metrics"])
    return {}


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
    parser.add_argument(
        "--env", default=ENVIRONMENTS[0], choices=(*ENVIRONMENTS, *GAMES), metavar="ID", help="(default: %(default)s)"
    )
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
    parser.add_argument("--max-turns", type=int, help="maximal number of your messages (default: the task's own limit)")
    parser.add_argument("--seed", type=int, help="seed of the random choice of a task")
    add_log_level(parser)
    return parser


def _main(arguments: Sequence[str] | None) -> int:
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.seed is not None and given.seed < 0:
        refuse(f"--seed must be at least 0, got {given.seed}.")
    is_game = given.env in GAMES
    if is_game and (other := [name for name in _OF_DIALOGUES if getattr(given, name) != parser.get_default(name)]):
        refuse(f"{given.env} has no --{other[0].replace('_', '-')}.")
    try:
        if not is_game and (why := system_lacks(spec_of("sandbox", given.sandbox))):
            refuse(why)
        env = gym.make(given.env, **_arguments(given))
    except (ColBenchError, ValueError, TypeError, ImportError, OSError) as error:
        refuse(error)
    what = "program" if given.env == ENVIRONMENTS[0] else "page"
    how = f"An empty line sends. Start your answer with I WANT TO ANSWER: and put the {what} in a ``` fence."
    print(f"{'Every line is a message.' if is_game else how}\n")
    try:
        with shown_logs(given.log_level, "stderr"):
            lines = iter(sys.stdin or ())
            metrics = play_game(env, lines, given.seed) if is_game else play(env, lines, given.seed, given.task_id)
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
    if is_game:
        print(
            f"\nReturn: {metrics['return']:g}. {'Won' if metrics['success'] else 'Not won'}, after {metrics['turns']} turns.",
            flush=True,
        )
        return 0
    grade = next(name for name in ("tests_passed", "similarity") if name in metrics)
    title = grade.replace("_", " ").capitalize()
    print(f"\n{title}: {metrics[grade]:.0%}. Outcome: {metrics['outcome']}, after {metrics['turns']} turns.", flush=True)
    return 0


def _arguments(given: argparse.Namespace) -> dict[str, Any]:
    """Keyword arguments of the environment."""
    if given.env in GAMES:
        return {} if given.max_turns is None else {"max_turns": given.max_turns}
    return {
        "tasks": given.tasks,
        "simulator": spec_of("simulator", given.simulator),
        "sandbox": spec_of("sandbox", given.sandbox),
        "max_turns": given.max_turns,
        "on_world_error": "raise",
    }


if __name__ == "__main__":
    sys.exit(main())
