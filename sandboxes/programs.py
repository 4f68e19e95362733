"""What the commands share: their name in the usage, and the sentence that ends them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NoReturn

from sandboxes.logs import visible


def program_name(module: str) -> str:
    """The command as it was started: the console script of a module, or `python -m` and the module.

    Args:
        module: A module with a command, such as "colbench_gym.grade". Its script is "colbench-grade".
    """
    package, _, command = module.partition(".")
    script = f"{package.split('_')[0]}-{command}"
    return script if Path(sys.argv[0]).stem == script else f"python -m {module}"


def refuse(error: object) -> NoReturn:
    """End the command with one sentence and status 2.

    The usage is for words that argparse does not know. A folder that does not exist, or a value that cannot be, is not helped by it.

    Args:
        error: The sentence, or an exception; its line breaks become blanks.
    """
    print(f"error: {visible(' '.join(str(error).split()))}", file=sys.stderr)
    raise SystemExit(2)
