"""``python -m sweetrl_agent``: lists the commands."""

from __future__ import annotations

import sys
from collections.abc import Sequence

#: What each command does, by its module.
COMMANDS = {
    "train": "train an agent, by default with SWEET-RL, and report its improvement over the initial policy",
    "compare": "train several algorithms from the same initial policies, over several seeds",
    "evaluate": "evaluate any policy on any environment and split",
    "report": "write the page of a run folder",
    "show": "play a task with the initial and the trained policy of a run, side by side",
    "credit": "write the credit of every turn of a run's dialogues, for other trainers",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the commands. Returns the exit status, 2 for arguments other than `--help`."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words and words != ["--help"] and words != ["-h"]:
        known = words[0] if words[0] in COMMANDS else next(iter(COMMANDS))
        print(f"error: a command is a module: `python -m sweetrl_agent.{known}`, or `sweetrl-{known}`.", file=sys.stderr)
        return 2
    print("Train and evaluate language-model agents. Each command is a module and a script:\n")
    for name, what in COMMANDS.items():
        print(f"  python -m sweetrl_agent.{name:10}sweetrl-{name:10}{what}")
    print("\n--help after a command lists its settings.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
