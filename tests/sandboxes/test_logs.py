"""Log messages of commands, and none for users of the libraries."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from sandboxes.logs import LEVELS, PACKAGES, is_configured, shown_logs

IMPORTED = """
import logging
import colbench_gym, sandboxes, sweetrl_agent
assert logging.getLogger().handlers == [] and logging.getLogger().level == logging.WARNING
for name in ("colbench_gym", "sandboxes", "sweetrl_agent"):
    (handler,) = logging.getLogger(name).handlers
    assert type(handler) is logging.NullHandler and logging.getLogger(name).level == logging.NOTSET
logging.getLogger("sweetrl_agent.x").warning("to nobody")
logging.basicConfig(format="%(name)s: %(message)s")
logging.getLogger("sweetrl_agent.x").warning("to the user")
"""


def test_importing_configures_nothing_and_messages_reach_a_handler_of_the_users():
    done = subprocess.run([sys.executable, "-c", IMPORTED], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "sweetrl_agent.x: to the user\n")


def _say_all(name="sweetrl_agent.part"):
    for level in LEVELS:
        logging.getLogger(name).log(getattr(logging, level.upper()), "a %s", level)


@pytest.mark.parametrize("package", PACKAGES)
@pytest.mark.parametrize(("level", "count"), [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)])
def test_messages_from_a_level_on_are_shown(package, level, count, capsys):
    with shown_logs(level):
        _say_all(f"{package}.part")
    lines = [f"{package}.part: a debug", "a info", "warning: a warning", "error: a error"]
    assert capsys.readouterr().out.splitlines() == lines[4 - count :]


def test_afterwards_everything_is_as_before(capsys):
    root = logging.getLogger()
    before = [(logger.level, list(logger.handlers)) for logger in (root, *map(logging.getLogger, PACKAGES))]
    with pytest.raises(KeyError), shown_logs("debug"):
        assert (root.level, root.handlers) == before[0]
        raise KeyError
    assert before == [(logger.level, list(logger.handlers)) for logger in (root, *map(logging.getLogger, PACKAGES))]
    _say_all()
    assert capsys.readouterr().out == ""


def test_who_has_configured_logging_is_left_alone(capsys):
    package = logging.getLogger("sweetrl_agent")
    handlers, mine = list(logging.getLogger().handlers), logging.StreamHandler(sys.stderr)
    logging.getLogger().handlers = []
    try:
        assert not is_configured()
        package.addHandler(mine)
        assert is_configured()
        with shown_logs("debug", always=False):
            assert package.level == logging.NOTSET and mine in package.handlers
            _say_all()
    finally:
        package.removeHandler(mine)
        logging.getLogger().handlers = handlers
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.splitlines() == ["a warning", "a error"]


def test_a_file_has_times_and_control_characters_are_escaped(tmp_path):
    with (tmp_path / "log.txt").open("w") as file, shown_logs("info", file):
        logging.getLogger("colbench_gym").info("%s", "a server said \x1b[2J\nand é")
    time, _, text = (tmp_path / "log.txt").read_text().partition(" a ")
    assert len(time) == len("2026-01-01 00:00:00") and text == "server said \\x1b[2J\nand é\n"
