"""The name of a command in its usage."""

from __future__ import annotations

import sys
from pathlib import Path


def program_name(module: str) -> str:
    """The command as it was started: the console script of a module, or `python -m` and the module.

    Args:
        module: A module with a command, such as "colbench_gym.grade". Its script is "colbench-grade".
    """
    package, _, command = module.partition(".")
    script = f"{package.split('_')[0]}-{command}"
    return script if Path(sys.argv[0]).stem == script else f"python -m {module}"
