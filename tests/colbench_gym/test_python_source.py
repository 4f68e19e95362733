"""Parsing what others wrote: no warnings, the same errors."""

from __future__ import annotations

import ast
import warnings

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
