"""python -m colbench_gym.grade FILE --out SCORES.jsonl: grade a file of ColBench trajectories.

Rows with `task` and `answer` are graded. A row without an answer counts as failed (outcome "no_answer"). For a task row, the
reference itself is graded: the upper bound of the benchmark. The file is read twice, row by row: in the first pass
all rows are checked, in the second they are graded in batches, so the file need not fit in memory.

SCORES has one line for each row, in order: index (from 0), tests_passed (in [0, 1]), success (0 or 1), outcome, and calls (the
outcome of each hidden test). The file appears only when it is complete. Rows with outcome "ungradable" or "malformed" have no
score: they hold zeros and are excluded from the means. With --explain, every row without success is printed too: advice
to the agent's author, if the answer shows the mistake, and the failed tests, each with its call, the expected value, the returned value and
the outcome.

The output is plain ASCII, one line per item: text from rows, programs, file names and errors is escaped.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import sys
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any

import sandboxes
from colbench_gym.errors import ColBenchError, TaskError
from colbench_gym.evaluation.summary import ANSWER_CUT, VOID
from colbench_gym.files import write_rows
from colbench_gym.progress import Progress
from colbench_gym.reasoning import AUTO, Reasoning
from colbench_gym.scoring.details import OUTCOMES, AnswerDetails, iter_details, meaning
from colbench_gym.scoring.intervals import Interval, mean_interval, rate_interval
from colbench_gym.scoring.unit_tests import PASSED, UNGRADABLE, WRONG, Score, UnitTests
from colbench_gym.tasks.rows import OnError, RowError, answer_from_row, read_rows, task_from_row
from colbench_gym.tasks.task import Task
from sandboxes.cpus import usable_cpus
from sandboxes.frames import SEMANTICS
from sandboxes.logs import add_log_level, shown_logs
from sandboxes.named import Spec, spec_of
from sandboxes.programs import program_name, refuse

_log = logging.getLogger("colbench_gym.grade")  # `__name__` is "__main__" for a command
MALFORMED = "malformed"
_ROWS_AT_ONCE = 256
#: While the last programs of a batch run, idle runners already take programs of the next batch.
_BATCHES_AT_ONCE = 2
_SHOWN_OUTCOMES = 20
MAX_WORKERS = 1024


@dataclass(frozen=True)
class Attempt:
    """An answer to grade.

    Attributes:
        index: Index of the row in its file, from 0; blank lines do not count.
        task: The task of the answer.
        answer: The answer; None if there is none.
        known: The score of an episode whose answer was never to be graded: it is void, or the limit of tokens cut the answer.
    """

    index: int
    task: Task
    answer: str | None
    known: Score | None = None


def read_attempts(path: Path, on_error: OnError = "raise") -> Iterator[Attempt | RowError]:
    """Yield the answer of every row; with on_error="skip", the error of a malformed row.

    Raises:
        TaskError: If the file does not exist.
        RowError: If a row is malformed and `on_error` is "raise".
    """
    skipped: list[RowError] = []
    index = 0
    for line, row in read_rows(path, on_error, skipped):
        yield from skipped
        index += len(skipped)
        skipped.clear()
        try:
            yield Attempt(index, task_from_row(row, path, line), answer_from_row(row, path, line), _known_score(row))
        except RowError as error:
            if on_error == "raise":
                raise
            yield error
        index += 1
    yield from skipped


def _known_score(row: Mapping[str, Any]) -> Score | None:
    """The score of an evaluated episode that has no answer to grade; None for others."""
    metrics = row.get("metrics")
    outcome = (metrics if isinstance(metrics, dict) else row).get("outcome")
    if outcome == VOID:
        return Score(0.0, 0, VOID, (), "the episode is void: a service or the sandbox failed, not the agent")
    return Score(0.0, 0, ANSWER_CUT, ()) if outcome == ANSWER_CUT else None


def grade(attempts: Iterator[Attempt | RowError], unit_tests: UnitTests) -> Iterator[tuple[Task | None, Score]]:
    """Grade answers in batches as they are read. The verdicts have the same order.

    Raises:
        SandboxError: If the sandbox failed.
    """
    batches = iter(lambda: list(islice(attempts, _ROWS_AT_ONCE)), [])
    pool = ThreadPoolExecutor(_BATCHES_AT_ONCE)
    graded: deque[tuple[list[Attempt | RowError], Future[list[Score]]]] = deque()
    try:
        for batch in batches:
            answers = [(row.task, row.answer) for row in batch if isinstance(row, Attempt) and row.known is None]
            graded.append((batch, pool.submit(unit_tests.score_many, answers)))
            if len(graded) == _BATCHES_AT_ONCE:
                yield from _verdicts(*graded.popleft())
        while graded:
            yield from _verdicts(*graded.popleft())
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _verdicts(batch: Sequence[Attempt | RowError], scores: Future[list[Score]]) -> Iterator[tuple[Task | None, Score]]:
    verdicts = iter(scores.result())
    for row in batch:
        if isinstance(row, Attempt):
            yield row.task, row.known or next(verdicts)
        else:
            yield None, Score(0.0, 0, MALFORMED, (), str(row))


@dataclass
class Summary:
    """Statistics of a graded file: `add` takes the verdicts one by one, `lines` returns the report."""

    tests_passed: list[float] = field(default_factory=list)
    successes: list[int] = field(default_factory=list)
    tasks: list[int] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)
    reasons: dict[str, list[int]] = field(default_factory=dict)
    remarks: dict[str, list[int]] = field(default_factory=dict)

    def add(self, index: int, task: Task | None, score: Score) -> None:
        """Count one verdict. Rows that cannot be graded only count as an outcome."""
        self.outcomes[score.outcome] += 1
        is_scored = task is not None and score.outcome not in (UNGRADABLE, VOID)
        if score.reason:
            (self.remarks if is_scored else self.reasons).setdefault(score.reason, []).append(index)
        if task is None or not is_scored:
            return
        self.tests_passed.append(score.tests_passed)
        self.successes.append(score.success)
        self.tasks.append(hash((task.description, task.hidden.reference)))

    def lines(self) -> Iterator[str]:
        """The report, line by line."""
        n, num_tasks = len(self.successes), len(set(self.tasks))
        left_out = sum(self.outcomes.values()) - n
        yield f"{n} rows of {num_tasks} tasks graded" + (f", {left_out} left out of the means" if left_out else "")
        if n:
            groups = self.tasks if num_tasks < n else None
            yield _rate("tests passed", sum(self.tests_passed) / n, mean_interval(self.tests_passed, groups), n)
            yield _rate("success", sum(self.successes) / n, rate_interval(self.successes, self.tasks), n)
        yield f"outcomes: {self._outcomes()}"
        for what, by_reason in (("no verdict", self.reasons), ("a call without an expected value", self.remarks)):
            if by_reason:
                yield f"{sum(map(len, by_reason.values()))} rows have {what} (rows are counted from 0):"
            for reason, rows in by_reason.items():
                yield f"  row {', '.join(map(str, rows))}: {reason}"

    def _outcomes(self) -> str:
        """The most frequent outcomes with their counts. There may be many outcomes, since programs choose the names of exceptions."""
        shown = self.outcomes.most_common(_SHOWN_OUTCOMES)
        words = [f"{outcome} {count}" for outcome, count in shown]
        if others := len(self.outcomes) - len(shown):
            words.append(f"{others} other outcomes {sum(self.outcomes.values()) - sum(count for _, count in shown)}")
        return ", ".join(words)


def _rate(name: str, rate: float, interval: Interval, n: int) -> str:
    return f"{name}: {rate:.2%} (95% interval {interval[0]:.2%} to {interval[1]:.2%}, n = {n})"


def _one_line(text: object) -> str:
    """The text in printable ASCII, everything else escaped: it cannot start a line, move the cursor or reorder the output."""
    return "".join(c if " " <= c <= "~" else c.encode("unicode_escape").decode("ascii") for c in str(text))


def _refuse_out(out: Path, file: Path) -> None:
    """Refuse a file for the scores that is not a file of its own: it would be replaced."""
    try:
        if out.is_symlink() or (out.exists() and not out.is_file()):
            refuse(_one_line(f"--out must name a file of its own, got a link, a folder or a device: {str(out)!r}"))
        with contextlib.suppress(FileNotFoundError):
            out.with_name(f"{out.name}.part").lstat()
    except (ValueError, OSError) as error:  # a NUL, a name that is too long, a folder without read permission
        reason = getattr(error, "strerror", None) or error
        refuse(_one_line(f"--out names no file that can be written: {str(out)[:200]!r} ({reason})"))
    if out.exists() and file.exists() and out.samefile(file):
        refuse(_one_line(f"--out would overwrite the trajectories in {str(file)!r}; name another file"))


def grade_file(path: Path, out: Path, unit_tests: UnitTests, on_error: OnError) -> Summary:
    """Grade the rows of `path` and write the scores to `out`: first to a temporary file in the same folder, which is then renamed.

    Raises:
        TaskError: If the file does not exist or has no rows.
        RowError: If a row is malformed and `on_error` is "raise". This happens before any program runs.
        SandboxError: If the sandbox failed.
    """
    total = sum(1 for _ in read_attempts(path, on_error))
    if not total:
        raise TaskError(f"Expected rows of ColBench trajectories or tasks in {str(path)!r}, got an empty file.")
    summary, progress = Summary(), Progress(total, sys.stderr, "graded", "rows")

    def rows() -> Iterator[dict[str, Any]]:
        for index, (task, score) in enumerate(grade(read_attempts(path, on_error), unit_tests)):
            summary.add(index, task, score)
            progress.show(index + 1)
            verdict = {"index": index, "tests_passed": score.tests_passed, "success": score.success}
            yield {**verdict, "outcome": score.outcome, "calls": score.calls}

    write_rows(out, rows())
    return summary


def explanations(path: Path, out: Path, unit_tests: UnitTests) -> Iterator[str]:
    """Why rows failed, line by line: the failed tests of each graded row without success. Their programs run once more.

    Args:
        path: The graded file; it is read again.
        out: Its scores.
        unit_tests: The grader.

    Raises:
        SandboxError: If the sandbox failed.
    """
    yield "Rows without success, with their failed tests (rows are counted from 0):"
    seen: Counter[str] = Counter()
    with out.open(encoding="utf-8") as lines:
        failed = (
            (row, score)
            for row, score in zip(read_attempts(path, "skip"), map(json.loads, lines), strict=True)
            if isinstance(row, Attempt) and row.known is None and not score["success"] and score["outcome"] != UNGRADABLE
        )
        for batch in iter(lambda: list(islice(failed, _ROWS_AT_ONCE)), []):
            details = iter_details(unit_tests, [(row.task, row.answer) for row, _ in batch])
            for (row, score), answer in zip(batch, details, strict=True):
                seen.update({score["outcome"], *score["calls"]})
                yield from _explanation(row.index, score, answer)
    for outcome in sorted(seen.keys() - {PASSED}):
        yield f"{outcome}: {meaning(outcome)}."


def _explanation(index: int, score: dict[str, Any], details: AnswerDetails) -> Iterator[str]:
    passed = score["calls"].count(PASSED)
    fault = f". {details.fault}" if details.fault else ""
    yield f"row {index}: {score['outcome']}, {passed} of {len(score['calls'])} tests passed{fault}"
    outcomes = {test.outcome for test in details.tests}
    if len(outcomes) == 1 and not outcomes & {PASSED, WRONG}:
        yield f"  all {len(details.tests)} calls: {outcomes.pop()}"
        return
    for test in details.tests:
        if test.outcome != PASSED:
            yield f"  {test.call}: expected {test.expected}, got {test.got} ({test.outcome}, {1000 * test.seconds:.1f} ms)"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program_name("colbench_gym.grade"),
        description=(__doc__ or "").partition("\n\n")[2],
        epilog="outcomes of a test or a row:\n" + "\n".join(f"  {name:17} {text}" for name, text in OUTCOMES.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", type=Path, help="ColBench trajectory rows or task rows: .jsonl, .json, .jsonl.gz or .parquet")
    parser.add_argument("--out", type=Path, required=True, metavar="SCORES.jsonl", help="output file for the scores")
    parser.add_argument(
        "--sandbox",
        default="auto",
        help=f"sandbox that runs the programs: one of {', '.join(sandboxes.NAMES)}, 'package.module:Class', or JSON (default: %(default)s)",
    )
    parser.add_argument(
        "--semantics",
        choices=SEMANTICS,
        default="module",
        help="module: programs are modules (default); released: verdicts of the released grader",
    )
    parser.add_argument(
        "--reasoning",
        default=AUTO,
        help="how the model marks its thoughts, which are not part of an answer: auto for all known marks, none, or an opening and a closing "
        "mark, such as '<plan> </plan>' (default: %(default)s)",
    )
    parser.add_argument(
        "--workers", type=int, default=usable_cpus(), help="number of programs that run at once (default: one per usable core)"
    )
    parser.add_argument(
        "--on-error",
        "--on_error",
        choices=("raise", "skip"),
        default="raise",
        help="how malformed rows are handled (default: %(default)s)",
    )
    add_log_level(parser)
    parser.add_argument(
        "--explain",
        action="store_true",
        help="also print why every row without success failed, and its failed tests: expected, got, outcome",
    )
    return parser


def _parse(arguments: Sequence[str] | None) -> tuple[argparse.Namespace, Spec]:
    """The options and the sandbox that they name; an invalid one ends the process."""
    given = _parser().parse_args(arguments)
    try:
        asked = spec_of("sandbox", given.sandbox)
        sandboxes.check_name(asked)
        Reasoning(given.reasoning)
        _refuse_out(given.out, given.file)
    except (ValueError, OSError) as error:
        refuse(_one_line(error))
    if not 1 <= given.workers <= MAX_WORKERS:
        refuse(f"--workers must be from 1 to {MAX_WORKERS}, got {given.workers}")
    return given, asked


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line. Returns 0 if all rows were read and graded, 1 if a component failed."""
    given, asked = _parse(arguments)
    summary: Summary | None = None
    try:
        name, reason = sandboxes.resolve(asked)
        with shown_logs(given.log_level, "stderr"):
            _log.info("%s", _one_line(f"sandbox: {name} ({reason})"))
            try:
                made = sandboxes.make(name if isinstance(asked, str) else asked, workers=given.workers)
            except (TypeError, ValueError) as error:
                refuse(_one_line(error))
            with made as sandbox:
                unit_tests = UnitTests(sandbox, given.semantics, reasoning=given.reasoning)
                summary = grade_file(given.file, given.out, unit_tests, given.on_error)
                for line in chain(summary.lines(), explanations(given.file, given.out, unit_tests) if given.explain else ()):
                    print(_one_line(line))
    except (ColBenchError, OSError) as error:
        print(_one_line(f"error: {error}"), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        message = f"interrupted; the scores are in {given.out}" if summary else "interrupted; nothing was written"
        print(_one_line(message), file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
