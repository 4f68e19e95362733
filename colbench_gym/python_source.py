"""Reading Python that others wrote."""

from __future__ import annotations

import ast
import threading
import warnings
from typing import Any

#: What `ast.parse` raises for text that is no program, or too much of one.
PARSE_ERRORS = (SyntaxError, ValueError, RecursionError, MemoryError)

# `ast.parse` counts its depth in one place for all threads before Python 3.11.8 (python/cpython#106905: SystemError "recursion
# depth mismatch"), and the warning filters are everybody's.
_one_at_a_time = threading.Lock()


def parse_source(source: str, mode: str = "exec") -> Any:
    """`ast.parse` without its warnings: a doubtful literal in an agent's answer is not our user's to correct.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: As `ast.parse`, see `PARSE_ERRORS`.
    """
    with _one_at_a_time, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(source, mode=mode)
