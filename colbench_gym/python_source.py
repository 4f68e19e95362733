"""Reading Python that others wrote."""

from __future__ import annotations

import ast
import warnings
from typing import Any

#: What `ast.parse` raises for text that is no program, or too much of one.
PARSE_ERRORS = (SyntaxError, ValueError, RecursionError, MemoryError)


def parse_source(source: str, mode: str = "exec") -> Any:
    """`ast.parse` without its warnings: a doubtful literal in an agent's answer is not our user's to correct.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: As `ast.parse`, see `PARSE_ERRORS`.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(source, mode=mode)
