"""The contract that every sandbox backend keeps.

A sandbox runs untrusted Python programs and says what came out of every call. It knows nothing of tasks, references or
scores: the expected values never enter it, so there is nothing inside that a program could read or forge. A value crosses
as typed JSON (`sandboxes.values`), built inside by exact types and compared outside as data.

A program that misbehaves is *data* (an `Outcome`). A sandbox that cannot do its work (no kernel support, a dead daemon)
raises `SandboxError`: it never turns its own failure into an outcome.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import TracebackType
from typing import Any, Literal

from sandboxes.frames import SEMANTICS
from sandboxes.values import fingerprint

Semantics = Literal["module", "released"]
#: Limits, their types and the largest values that the protocol carries.
_LIMITS: tuple[tuple[str, Any, int], ...] = (
    ("call_timeout_s", (int, float), 86_400), ("program_timeout_s", (int, float), 86_400), ("memory_mib", int, 1 << 20),
    ("output_chars", int, 1 << 24), ("value_bytes", int, 1 << 30),
)  # fmt: skip


#: Values of the largest size that one program may return in all its calls.
MAX_LARGEST_VALUES = 16


class SandboxError(RuntimeError):
    """The sandbox itself failed or is unsafe; says what is missing and how to get it."""


class Outcome(str, Enum):
    """What became of one call."""

    OK = "ok"
    EXCEPTION = "exception"
    TIMEOUT = "timeout"
    MEMORY = "memory"
    OUTPUT_LIMIT = "output_limit"
    CRASH = "crash"
    FORBIDDEN = "forbidden"
    NOT_SERIALISABLE = "not_serialisable"


@dataclass(frozen=True)
class Limits:
    """What one program may use.

    Attributes:
        call_timeout_s: Wall time of one call, in seconds. ColBench's released grader gives 1 second.
        program_timeout_s: Wall time of all calls of the program together, in seconds.
        memory_mib: Address space of the program's process, in MiB. A thread takes 8 of it.
        output_chars: Characters kept of standard output and of standard error, each; the rest is dropped.
        value_bytes: Largest encoded value of one call, in bytes. All values of a program together may have `MAX_LARGEST_VALUES` times as
            many, for the host holds them; calls after that are OUTPUT_LIMIT.
    """

    call_timeout_s: float = 1.0
    program_timeout_s: float = 15.0
    memory_mib: int = 512
    output_chars: int = 4096
    value_bytes: int = 1 << 20

    def __post_init__(self) -> None:
        for name, kinds, most in _LIMITS:
            value = getattr(self, name)
            if not isinstance(value, kinds) or isinstance(value, bool) or not 0 < value <= most:
                what = "an integer" if kinds is int else "a number"
                raise ValueError(f"`{name}` must be {what} above 0 and at most {most}, got {value!r}.")


@dataclass(frozen=True)
class Program:
    """Source and the expressions to evaluate after it has run.

    Attributes:
        source: Untrusted Python source.
        calls: Expressions, each evaluated in a namespace in which the source has just been executed afresh.
        limits: What the program may use.
        seed: Of the global generators of `random` and numpy, set before every call; in [0, 2**32).
        semantics: "module" executes the source as a module: imports, helpers and recursion work. "released" executes it the way
            ColBench's released grader does on Python 3.11: names land in a local scope, so a top-level import or a helper is
            invisible from inside a function.
    """

    source: str
    calls: tuple[str, ...]
    limits: Limits = field(default_factory=Limits)
    semantics: Semantics = "module"
    seed: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.calls, str):
            raise ValueError(f"`calls` must be a tuple of expressions, got the text {self.calls!r}; write ({self.calls!r},).")
        if not isinstance(self.seed, int) or not 0 <= self.seed < 1 << 32:
            raise ValueError(f"`seed` must be an integer in [0, 2**32), got {self.seed!r}.")
        if self.semantics not in SEMANTICS:
            raise ValueError(f"`semantics` must be one of {SEMANTICS}, got {self.semantics!r}.")


@dataclass(frozen=True, slots=True)
class CallResult:
    """Result of one call.

    Attributes:
        outcome: What became of it.
        value: The value as typed JSON where the outcome is OK (see `sandboxes.values`), else None.
        fingerprint: SHA-256 of `sandboxes.values.canonical` of the value, NaN equal to itself: equal where the values are. "" without
            a value.
        error: Name of the exception's type where one was raised ("SyntaxError" for source that does not compile), else "".
        wall_s: Wall time of the call in seconds, the execution of the source included. As the program's process says, which can
            lie; never more than the runner has seen.
    """

    outcome: Outcome
    value: Any = None
    fingerprint: str = ""
    error: str = ""
    wall_s: float = 0.0

    def __post_init__(self) -> None:
        if self.outcome is Outcome.OK and not self.fingerprint:
            object.__setattr__(self, "fingerprint", fingerprint(self.value))


@dataclass(frozen=True, slots=True)
class ExecutionResult:
    """Result of one program: one `CallResult` for each of its calls, in order.

    Attributes:
        calls: Results of the calls.
        stdout: What the program printed over all calls, cut at `Limits.output_chars`.
        stderr: The same for standard error.
        cpu_s: CPU time over all processes of the program, in seconds.
        peak_mib: Largest resident memory of a process of the program, in MiB.
    """

    calls: tuple[CallResult, ...]
    stdout: str = ""
    stderr: str = ""
    cpu_s: float = 0.0
    peak_mib: float = 0.0


class Sandbox(ABC):
    """Runs batches of untrusted programs. Safe to call from several threads; use as a context manager or call `close`."""

    name: str = ""

    @abstractmethod
    def run(self, programs: Sequence[Program]) -> list[ExecutionResult]:
        """Run every program, each in a process of its own, and return the results in the same order.

        Raises:
            SandboxError: If the sandbox itself fails. Never because of what a program does.
        """

    def stream(self, programs: Sequence[Program]) -> Iterator[ExecutionResult]:
        """As `run`, but yield each result as soon as it and all before it are there, where the backend can.

        Nothing runs before the first result is asked for.
        """
        yield from self.run(programs)

    @abstractmethod
    def guarantees(self) -> dict[str, str]:
        """What this backend guarantees on this machine: wall -> how, for people and logs."""

    @abstractmethod
    def close(self) -> None:
        """End all processes of the sandbox. A second call does nothing."""

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
