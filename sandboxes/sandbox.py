"""The interface of every sandbox backend.

A sandbox runs untrusted Python programs and returns the result of every call. It knows nothing about tasks, references or scores:
expected values never enter it, so a program cannot read or forge them. A value leaves the sandbox as typed JSON
(`sandboxes.values`), which is built inside from exact types and compared outside as data.

A program that misbehaves is *data* (an `Outcome`). A sandbox that cannot work (no kernel support, a dead daemon) raises
`SandboxError`: it never turns its own failure into an outcome.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import TracebackType
from typing import Any, Literal

from sandboxes.errors import SandboxError as SandboxError
from sandboxes.frames import SEMANTICS
from sandboxes.values import fingerprint

Semantics = Literal["module", "released"]
#: Limits, their types and the largest values that the protocol can transmit.
_LIMITS: tuple[tuple[str, Any, int], ...] = (
    ("call_timeout_s", (int, float), 86_400), ("program_timeout_s", (int, float), 86_400), ("memory_mib", int, 1 << 20),
    ("output_chars", int, 1 << 24), ("value_bytes", int, 1 << 30),
)  # fmt: skip


#: Maximal total size of all values of a program, in multiples of the largest value.
MAX_LARGEST_VALUES = 16


class Outcome(str, Enum):
    """Outcome of one call."""

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
    """Resource limits of one program.

    Attributes:
        call_timeout_s: Wall time of one call, in seconds. In ColBench's released grader: 1 second.
        program_timeout_s: Wall time of all calls of the program together, in seconds.
        memory_mib: Address space of the program's process, in MiB. A thread takes 8 MiB.
        output_chars: Characters kept of standard output and of standard error, each; the rest is dropped.
        value_bytes: Maximal size of the encoded value of one call, in bytes. All values of a program together may have
            `MAX_LARGEST_VALUES` times this size, because the host holds them in memory; later calls are OUTPUT_LIMIT.
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
    """Source code, and expressions to evaluate after it has run.

    Attributes:
        source: Untrusted Python source.
        calls: Expressions. The source is executed in a fresh namespace before each of them.
        limits: Resource limits of the program.
        seed: Seed of the global generators of `random` and numpy, set before every call; in [0, 2**32).
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
        outcome: Outcome of the call.
        value: The value as typed JSON (see `sandboxes.values`) if the outcome is OK, else None.
        fingerprint: SHA-256 of `sandboxes.values.canonical` of the value, with NaN equal to itself. Equal values have equal
            fingerprints. "" without a value.
        error: Type name of the exception if one was raised ("SyntaxError" for source that does not compile), else "".
        wall_s: Wall time of the call in seconds, including the execution of the source. Reported by the program's process, which may
            be wrong; never more than the runner has measured.
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
        stdout: Output of the program over all calls, cut at `Limits.output_chars`.
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
    """Runs batches of untrusted programs. Thread-safe; use it as a context manager or call `close`."""

    name: str = ""

    @abstractmethod
    def run(self, programs: Sequence[Program]) -> list[ExecutionResult]:
        """Run every program in its own process, and return the results in the same order.

        Raises:
            SandboxError: If the sandbox itself fails. A program never causes this error.
        """

    def stream(self, programs: Sequence[Program]) -> Iterator[ExecutionResult]:
        """Like `run`, but yield each result as soon as it and all earlier ones are available, if the backend supports it.

        No program runs before the first result is requested.
        """
        yield from self.run(programs)

    @abstractmethod
    def guarantees(self) -> dict[str, str]:
        """Guarantees of this backend on this machine: wall -> mechanism, for people and logs."""

    @abstractmethod
    def close(self) -> None:
        """End all processes of the sandbox. A second call does nothing."""

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
