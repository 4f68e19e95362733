"""Gradings per second: `python -m colbench_gym.grade`, including start-up, against grading without a sandbox, as ratios of medians in one run.

    python benchmarks/grading_speed.py --tasks backend_test.jsonl [--backends embedded docker docker-run] [--answers 11] [--distinct]
        [--repeats 3] [--out RESULTS.json]

Every task gets answers that are right (the reference as it is, commented, fenced), wrong (one place of the reference changed) and
malformed. The unsafe way reimplements ColBench's released grader: reference and answer are executed in one process, again for each
call, with a one-second alarm; its own start-up is not counted. The sandboxes compute the values of a reference once, and reuse the
verdict of an answer that they have already graded for the task. The line above the table shows how many answers are different programs;
`--distinct` adds a unique constant to each, so that all are different. "docker-run" is an equally restricted container per answer,
which prints the values of the calls; its rate is measured on the first 20 answers.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import json
import multiprocessing
import os
import platform
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from colbench_gym.python_source import parse_source
from colbench_gym.tasks import Task, load_tasks
from colbench_gym.tasks.rows import row_from_task

Answers = Sequence[tuple[Task, str]]
CONTAINERS = 20
_SWAPS: dict[type, type] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE,
    ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


def answers_to(task: Task, count: int, rng: random.Random) -> list[tuple[Task, str]]:
    """`count` answers to a task: three right ones, one malformed, the rest with one place changed."""
    reference = task.hidden.reference
    right = [reference, f"{reference}\n# as agreed", f"Here it is.\n```python\n{reference}\n```"]
    malformed = [reference.replace(":", "", 1)]
    changed = [_changed(reference, rng) for _ in range(max(0, count - len(right) - len(malformed)))]
    return [(task, answer) for answer in [*right, *malformed, *changed][:count]]


def _changed(source: str, rng: random.Random) -> str:
    tree = parse_source(source)
    places = [node for node in ast.walk(tree) if _can_change(node)]
    if not places:
        return source.rstrip() + "\n    return None\n"
    node = rng.choice(places)
    if isinstance(node, ast.Constant):
        node.value = node.value + 1
    elif isinstance(node, ast.Compare):
        node.ops[0] = _SWAPS[type(node.ops[0])]()
    else:
        node.op = _SWAPS[type(node.op)]()
    return ast.unparse(tree)


def _can_change(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant):
        return type(node.value) in (int, float)
    if isinstance(node, ast.Compare):
        return type(node.ops[0]) in _SWAPS
    return isinstance(node, (ast.BinOp, ast.BoolOp)) and type(node.op) in _SWAPS


# ---- the unsafe way ------------------------------------------------------------------------------------------------------


class _Late(BaseException):
    """The alarm."""


@contextlib.contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    def ring(*_: object) -> None:
        raise _Late

    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _unsafe_seconds(rows: Sequence[tuple[str, str, tuple[str, ...]]]) -> float:
    with contextlib.redirect_stdout(io.StringIO()), tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # some references write files
        started = time.perf_counter()
        for reference, answer, calls in rows:
            for call in calls:
                with contextlib.suppress(BaseException), _alarm(1.0):
                    _value(reference, call) == _value(answer, call)  # noqa: B015
        return time.perf_counter() - started


def _value(source: str, call: str) -> object:
    namespace: dict[str, object] = {}
    exec(source, namespace)
    return eval(call, namespace)


def unsafe_seconds(answers: Answers) -> float:
    """Time of the unsafe way, in a separate process to protect this benchmark."""
    rows = [(task.hidden.reference, answer, task.hidden.calls) for task, answer in answers]
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return float(pool.apply(_unsafe_seconds, (rows,)))


# ---- the sandboxes -------------------------------------------------------------------------------------------------------


def grade_seconds(name: str, workers: int, file: Path) -> float:
    """Time of the command on a file of trajectories, from its start to its end."""
    command = [sys.executable, "-m", "colbench_gym.grade", str(file), "--out", f"{file}.scores", "--sandbox", name]
    started = time.perf_counter()
    subprocess.run([*command, "--workers", str(workers)], check=True, capture_output=True)
    return time.perf_counter() - started


def with_constant(answer: str, number: int) -> str:
    """The answer with a unique constant: a different program, not only a different text."""
    fence, line = "```python\n", f"NUMBER = {number}\n"
    return answer.replace(fence, fence + line, 1) if fence in answer else line + answer


def docker_run_seconds(answers: Answers) -> float:
    """Time with a container per answer, extrapolated from the first answers, without the comparison of values."""
    from docker.errors import ContainerError

    from sandboxes.containers import connect, lock_down
    from sandboxes.images import default_image

    settings = lock_down(memory_mib=1024, cpus=2.0, runtime=None) | {
        "log_config": None,
        "auto_remove": False,
        "stdin_open": False,
    }
    client = connect()
    started = time.perf_counter()
    for task, answer in answers[:CONTAINERS]:
        program = "\n".join([answer, *(f"print(repr({call}))" for call in task.hidden.calls)])
        with contextlib.suppress(ContainerError):
            client.containers.run(default_image(), ["-c", program], remove=True, **settings)
    seconds = (time.perf_counter() - started) * len(answers) / CONTAINERS
    client.close()
    return seconds


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", required=True, help="ColBench rows or another task source")
    parser.add_argument("--backends", nargs="+", default=["embedded"])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, help="JSON of the figures")
    parser.add_argument("--answers", type=int, default=11, help="answers for each task")
    parser.add_argument("--distinct", action="store_true", help="make every answer a different program")
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    rng = random.Random(0)
    tasks = load_tasks(given.tasks, "skip")
    answers = [pair for task in tasks for pair in answers_to(task, given.answers, rng)]
    if given.distinct:
        answers = [(task, with_constant(answer, i)) for i, (task, answer) in enumerate(answers)]
    distinct = len({(task.id, answer) for task, answer in answers})
    machine = f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}"
    print(f"{machine}; {len(tasks)} tasks, {len(answers)} answers, {distinct} distinct", flush=True)
    seconds: dict[str, list[float]] = {name: [] for name in ("unsafe", *given.backends)}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "trajectories.jsonl")
        file.write_text("".join(json.dumps({"task": row_from_task(task), "answer": answer}) + "\n" for task, answer in answers))
        for _ in range(given.repeats):
            seconds["unsafe"].append(unsafe_seconds(answers))
            for name in given.backends:
                is_pool = name != "docker-run"
                seconds[name].append(grade_seconds(name, given.workers, file) if is_pool else docker_run_seconds(answers))
    unsafe = statistics.median(seconds["unsafe"])
    print(f"{'':10} {'gradings/s':>11} {'of unsafe':>10}   runs")
    for name, values in seconds.items():
        rates = ", ".join(f"{len(answers) / value:.1f}" for value in values)
        median = statistics.median(values)
        print(f"{name:10} {len(answers) / median:11.1f} {unsafe / median:10.3f}   {rates}")
    if given.out:
        ratios = {name: round(unsafe / statistics.median(values), 3) for name, values in seconds.items()}
        result = {
            "tasks": Path(given.tasks).name,
            "workers": given.workers,
            "machine": machine,
            "answers": len(answers),
            "distinct": distinct,
            "seconds": seconds,
        }
        given.out.write_text(json.dumps({**result, "of_unsafe": ratios}, indent=1) + "\n")


if __name__ == "__main__":
    main()
