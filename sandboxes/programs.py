"""What the commands share: their name in the usage, their parser, and the sentence that ends them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, NoReturn

from sandboxes.logs import visible


def program_name(module: str) -> str:
    """The command as it was started: the console script of a module, or `python -m` and the module.

    Args:
        module: A module with a command, such as "colbench_gym.grade". Its script is "colbench-grade".
    """
    package, _, command = module.partition(".")
    script = f"{package.split('_')[0]}-{command}"
    return script if Path(sys.argv[0]).stem == script else f"python -m {module}"


class CommandParser(argparse.ArgumentParser):
    """A parser that refuses an option with a value that is given twice, of which argparse would take the last one."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        """See `argparse.ArgumentParser`."""
        super().__init__(*arguments, **named)
        for name in (None, "store"):
            self.register("action", name, _GivenOnce)


class _GivenOnce(argparse.Action):
    """Stores a value, once."""

    is_given = False

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: str | None = None) -> None:
        if option_string and self.is_given:
            refuse(
                f"`{max(self.option_strings, key=len)}` is given more than once, and one of its values would be ignored; give it once"
            )
        self.is_given = True
        setattr(namespace, self.dest, values)


def refuse(error: object) -> NoReturn:
    """End the command with one sentence and status 2.

    The usage is for words that argparse does not know. A folder that does not exist, or a value that cannot be, is not helped by it.

    Args:
        error: The sentence, or an exception; its line breaks become blanks.
    """
    print(f"error: {visible(' '.join(str(error).split()))}", file=sys.stderr)
    raise SystemExit(2)
