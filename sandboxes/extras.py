"""The command that installs what is missing: an extra of this distribution from where the distribution itself came, or another package.

The distribution is on no index, so `pip install NAME[extra]` would fail or, worse, install something else. A message asks `pip_install`.
"""

from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

DISTRIBUTION = "colbench-gym"
_ROOT = Path(__file__).resolve().parents[1]


def pip_install(what: str) -> str:
    """The command line of pip that installs an extra or a package, to be run in any folder.

    Args:
        what: An extra of this distribution in brackets, such as "[frontend]", or what pip takes, such as "docker" or "trl>=1.16".
    """
    return f"pip install {_extra(what[1:-1]) if what.startswith('[') else _quoted(what)}"


def _extra(name: str) -> str:
    """An extra from the checkout or the file that was installed; from elsewhere, its packages one by one."""
    if all((_ROOT / file).is_file() for file in ("setup.py", "pyproject.toml")):
        return f'-e "{_ROOT}[{name}]"'
    try:
        found = importlib.metadata.distribution(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        return f'".[{name}]"'  # in a checkout, as docs/install.md says
    origin: dict[str, Any] = json.loads(found.read_text("direct_url.json") or "{}")
    url = str(origin.get("url", ""))
    path = unquote(urlsplit(url).path)
    if url.startswith("file:") and Path(path).exists():
        return f'"{path}[{name}]"'
    if vcs := origin.get("vcs_info"):
        return f'"{DISTRIBUTION}[{name}] @ {vcs["vcs"]}+{url}@{vcs["commit_id"]}"'
    if url.startswith("http"):
        return f'"{DISTRIBUTION}[{name}] @ {url}"'
    marked = [requirement.partition(";") for requirement in found.requires or ()]
    packages = [package.strip() for package, _, marker in marked if marker.split() == ["extra", "==", f'"{name}"']]
    return " ".join(map(_quoted, packages)) or f'".[{name}]"'


def _quoted(requirement: str) -> str:
    """A requirement as every shell takes it, cmd.exe included."""
    return f'"{requirement}"' if set(requirement) & set("<>=!~[;* ") else requirement
