"""The base of the failures outside of a program's and an agent's control."""

from __future__ import annotations


class ColBenchError(Exception):
    """Base of failures outside of an agent's control: of a sandbox, a server, a file. A failure is never turned into an outcome or a score.

    Attributes:
        reason: What failed, in known words: neither hidden information nor the text of a server or a program, which the message may quote. It stands in the
            row of a void episode.
    """

    reason = "something outside the agent's control failed"

    def __init__(self, message: str = "", reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason or self.reason


class SandboxError(ColBenchError):
    """The sandbox itself failed or is unsafe. The message says what is missing and how to get it."""

    reason = "the sandbox could not run a program"
