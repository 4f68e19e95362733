"""Parse Python source that comes from agents and task files."""

from __future__ import annotations

import ast
import threading
import warnings
from typing import Any

#: Exceptions that `ast.parse` raises for text that is not a program, or that is too large or too deeply nested.
PARSE_ERRORS = (SyntaxError, ValueError, RecursionError, MemoryError)

# Before Python 3.11.8 all threads share the recursion counter of `ast.parse` (python/cpython#106905: SystemError "recursion
# depth mismatch"). The warning filters are shared by all threads as well.
_one_at_a_time = threading.Lock()


def parse_source(source: str, mode: str = "exec") -> Any:
    """`ast.parse` without its warnings: the user cannot fix a doubtful literal in an agent's answer.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: As `ast.parse`, see `PARSE_ERRORS`.
    """
    with _one_at_a_time, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(source, mode=mode)
