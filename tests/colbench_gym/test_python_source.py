"""Parsing what others wrote: no warnings, the same errors."""

from __future__ import annotations

import ast
import gc
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest

from colbench_gym.python_source import PARSE_ERRORS, parse_source


def test_a_doubtful_literal_warns_nobody():
    with pytest.warns((SyntaxWarning, DeprecationWarning)):
        ast.parse("x = 1if y else 2")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(parse_source("x = 1if y else 2").body) == 1


@pytest.mark.parametrize("source", ["def f(", "x\0", "-" * 100_000 + "1"])
def test_no_program_is_one_of_the_listed_errors(source):
    with pytest.raises(PARSE_ERRORS):
        parse_source(source)


def test_threads_may_parse_side_by_side():
    """Without the lock: "AST constructor recursion depth mismatch" on Python 3.11.7, as soon as threads change in mid-parse."""
    before = gc.get_threshold()

    def let_others_run(*_):
        time.sleep(0)

    gc.callbacks.append(let_others_run)
    gc.set_threshold(50)
    try:
        with ThreadPoolExecutor(8) as threads:
            parsed = list(
                threads.map(parse_source, ["def f(a):\n    return [a * (a - 1) for a in range(10) if a]\n" * 30] * 50)
            )
    finally:
        gc.callbacks.remove(let_others_run)
        gc.set_threshold(*before)
    assert [len(module.body) for module in parsed] == [30] * 50
