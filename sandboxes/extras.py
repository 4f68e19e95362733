"""The command that installs what is missing. The distribution is on no index: an extra is installed from a checkout."""

from __future__ import annotations

from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]


def pip_install(what: str) -> str:
    """The command line of pip that installs an extra or a package.

    Args:
        what: An extra of this distribution in brackets, such as "[frontend]", or what pip takes, such as "docker" or "trl>=1.16". A
            command for an extra names the checkout; where the packages were installed without one, it is for the folder of a checkout.
    """
    if what.startswith("["):
        return f'pip install -e "{_ROOT if (_ROOT / "setup.py").is_file() else "."}{what}"'
    return f'pip install "{what}"' if set(what) & set("<>=!~[;* ") else f"pip install {what}"  # quoted for every shell
