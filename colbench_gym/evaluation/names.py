"""Names of policies and splits, and versions of packages."""

from __future__ import annotations

import platform
import re
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from colbench_gym.evaluation.summary import RESERVED

_LABEL = re.compile(r"([A-Za-z0-9_.-]+)=(.+)", re.DOTALL)


def unique_names(policies: Sequence[str], short: Sequence[str]) -> list[str]:
    """Names of policies, or of splits: the short ones where they differ, else the full ones.

    Raises:
        ValueError: If two are the same, or a name is a key of the results.
    """
    names = [name if short.count(name) == 1 else full for name, full in zip(short, policies, strict=True)]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(
                f"Expected policies or splits that differ, got {name!r} twice; name one of them, as in other={name}."
            )
        if name in RESERVED or not name.strip():
            raise ValueError(
                f"Expected another name of a policy than {name!r}, which `results.json` uses; give one, as in mine={name}."
            )
    return names


def named_sources(sources: Sequence[str]) -> dict[str, str]:
    """Sources of tasks by the names of their splits; see `unique_names` for errors."""
    return dict(zip(unique_names(sources, list(map(split_name, sources))), sources, strict=True))


def labelled(text: str) -> tuple[str, str]:
    """The name and the policy of "NAME=POLICY"; without a name, the name is "". A policy that contains "=" otherwise needs a name."""
    match = _LABEL.fullmatch(text)
    return (match[1], match[2]) if match else ("", text)


def split_name(source: str) -> str:
    """Short name of a source of tasks: "test" for "embedded:test?preset=hard[:100]", "rows" for "data/rows.jsonl[:50]"."""
    name = source.partition("[")[0].partition("?")[0]
    if name.startswith("embedded:"):
        return name.removeprefix("embedded:")
    return name.rpartition(":")[2] if name.startswith("hub:") else Path(name).stem or name


def versions(packages: Sequence[str] = ("colbench-gym", "gymnasium", "numpy")) -> dict[str, Any]:
    """Versions of Python and of those of the packages that are installed, and the machine: what is needed to reproduce results."""
    installed = {name: found for name in packages if (found := _installed(name))}
    return {"python": platform.python_version(), "packages": installed, "machine": f"{platform.system()} {platform.machine()}"}


@cache  # reading the metadata of all takes a tenth of a second
def _installed(package: str) -> str | None:
    with suppress(PackageNotFoundError):  # a checkout that is not installed
        return version(package)
    return None
