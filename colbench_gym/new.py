"""python -m colbench_gym.new NAME: write a package with an environment of your own, ready for `python -m sweetrl_agent.train --env`.

NAME is the name of the package, such as `price_talks`. The command writes a folder of this name into the current one, or into `--folder`: the environment, a player for
demonstrations, a record (metric, success, hidden noun, oracle, settings), tests of the trainer's requirements, and a README with the commands. The game in it is a placeholder.
"""

from __future__ import annotations

import argparse
import keyword
import sys
from collections.abc import Sequence
from pathlib import Path

from sandboxes.programs import program_name, refuse

_TEMPLATES = Path(__file__).parent / "new_package"
#: Files of the package, by their template.
FILES = {
    "environment": "{name}/__init__.py",
    "demonstrations": "{name}/demonstrations.py",
    "record": "{name}/record.py",
    "test": "tests/test_{name}.py",
    "pyproject": "pyproject.toml",
    "readme": "README.md",
}


def write_package(name: str, folder: Path) -> list[Path]:
    """Write the package; returns its files.

    Args:
        name: An identifier in lower case.
        folder: Where its folder goes.

    Raises:
        ValueError: If the name is no name of a package, or the folder exists.
    """
    if not name.isidentifier() or not name.isascii() or name != name.lower() or keyword.iskeyword(name):
        raise ValueError(f"NAME is the name of a Python package: lower-case letters, digits and underscores, got {name!r}.")
    root = folder / name
    if root.exists():
        raise ValueError(f"{root} exists; name another package, or another `--folder`.")
    words = name.title().replace("_", "")
    replaced = {
        "PACKAGE": name,
        "ENV_ID": f"{words}-v0",
        "CLASS": f"{words}Env",
        "RECORD": f"{words}Record",
    }
    paths = []
    for template, place in FILES.items():
        text = (_TEMPLATES / f"{template}.txt").read_text(encoding="utf-8")
        for word, value in replaced.items():
            text = text.replace(word, value)
        path = root / place.format(name=name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        paths.append(path)
    return paths


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog=program_name("colbench_gym.new"), description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", help="name of the package, such as price_talks")
    parser.add_argument("--folder", type=Path, default=Path(), help="where the package's folder goes (default: here)")
    given = parser.parse_args(arguments)
    try:
        paths = write_package(given.name, given.folder)
    except (ValueError, OSError) as error:
        refuse(error)
    print("\n".join(map(str, paths)))
    print(f"\nNext: cd {given.folder / given.name}, and the commands of README.md.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
