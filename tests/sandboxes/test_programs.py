"""The parser of all commands that are not of `sweetrl_agent`'s settings."""

from __future__ import annotations

import pytest

from colbench_gym import evaluate, grade, play
from colbench_gym.lmrl import data
from sandboxes import __main__ as sandboxes
from sandboxes.programs import CommandParser


def _parser():
    parser = CommandParser()
    parser.add_argument("files", nargs="*")
    parser.add_argument("--seed-of-it", type=int, default=0)
    parser.add_argument("--names", nargs="+")
    parser.add_argument("--quiet", action="store_true")
    return parser


@pytest.mark.parametrize(
    "words",
    [
        ["--seed-of-it", "1", "--seed-of-it", "2"],
        ["--seed", "1", "--seed-of-it=1"],
        ["--names", "a", "--quiet", "--names", "b"],
    ],
)
def test_an_option_that_is_given_twice_is_refused(words, capsys):
    with pytest.raises(SystemExit) as found:
        _parser().parse_args(words)
    name = "seed-of-it" if "--names" not in words else "names"
    assert found.value.code == 2
    assert (
        capsys.readouterr().err
        == f"error: `--{name}` is given more than once, and one of its values would be ignored; give it once\n"
    )


def test_what_is_given_once_is_taken():
    given = _parser().parse_args(["x", "y", "--names", "a", "b", "--quiet", "--quiet"])
    assert (given.files, given.names, given.quiet, given.seed_of_it) == (["x", "y"], ["a", "b"], True, 0)


@pytest.mark.parametrize(
    ("main", "words"),
    [
        (grade.main, ["rows.jsonl", "--sandbox", "auto", "--sandbox", "docker"]),
        (evaluate.main, ["random", "--seeds", "0", "--seeds", "1"]),
        (play.main, ["--tasks", "embedded:test", "--tasks", "embedded:train"]),
        (data.main, ["LMRL-Maze-v0", "--episodes", "1", "--episodes", "2"]),
        (sandboxes.main, ["check", "--log-level", "info", "--log-level", "info"]),
    ],
)
def test_every_command_refuses_it(main, words, capsys):
    with pytest.raises(SystemExit) as found:
        main(words)
    assert found.value.code == 2 and "is given more than once" in capsys.readouterr().err
