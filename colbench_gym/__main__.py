"""``python -m colbench_gym``: the environment ids, with signatures, tasks, simulated humans and sandboxes.

python -m colbench_gym                     all ids
python -m colbench_gym ColBench-Backend-v0
python -m colbench_gym --markdown > docs/environment_ids.md
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from colbench_gym.catalog import entry, ids, page
from sandboxes.lists import listed
from sandboxes.named import nearest
from sandboxes.programs import refuse


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m colbench_gym",
        description="The environment ids, with signatures, tasks, simulated humans and sandboxes.",
        epilog="Other commands: python -m colbench_gym.play, python -m colbench_gym.grade, python -m colbench_gym.evaluate, python -m colbench_gym.new.",
    )
    parser.add_argument("id", nargs="*", help="ids to show (default: all)")
    parser.add_argument("--markdown", action="store_true", help="print the page docs/environment_ids.md")
    given = parser.parse_args(arguments)
    given.id = [name for text in given.id for name in listed(text, splits_blanks=True)]
    for name in given.id:
        if name not in ids():
            refuse(f"the ids are {', '.join(ids())}, got {name!r}.{nearest(name, ids())}")
    entries = [entry(name) for name in given.id or ids()]
    print(page(entries) if given.markdown else "\n".join(entries))
    return 0


if __name__ == "__main__":
    sys.exit(main())
