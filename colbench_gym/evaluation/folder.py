"""The folder of an evaluation: `evaluation.jsonl`, `stages.json`, `settings.json` and `results.json`, of both packages' commands.

`stages.json` records what the rows were made with and their digests; `settings.json` is a copy of its settings. The same settings resume the
evaluation; other policies, splits and seeds may be added.
"""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from colbench_gym.evaluation.prices import Prices
from colbench_gym.evaluation.summary import RESERVED, SCHEMA, differences, summarize, used
from colbench_gym.files import Row, locked_for_process, not_writable
from colbench_gym.stage_records import FILE, StageRecords

ROWS, SETTINGS, RESULTS = "evaluation.jsonl", "settings.json", "results.json"
#: Settings by kind: of the whole evaluation, by policy, and the source of every split.
Settings = dict[str, dict[str, Any]]
_LABEL = re.compile(r"([A-Za-z0-9_.-]+)=(.+)", re.DOTALL)
_KINDS = ("evaluation", "policies", "tasks")


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Create a folder and lock it for this process.

    Raises:
        ValueError: If it cannot be created or written, another process works in it, or a file of the evaluation is a link.
    """
    with ExitStack() as held:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            held.enter_context(locked_for_process(folder))
        except OSError as error:
            raise not_writable(folder, error.strerror) from None
        refuse_links(folder)
        yield


def refuse_links(folder: Path) -> None:
    """Refuse links in the place of files of the evaluation.

    Raises:
        ValueError: Names the first.
    """
    for name in (ROWS, SETTINGS, RESULTS, FILE):
        for path in (folder / name, folder / f"{name}.part"):
            if path.is_symlink():
                raise ValueError(f"{str(path)!r} is a symbolic link; remove it, or give another `--output`.")


def merged_settings(records: StageRecords, given: Settings) -> Settings:
    """The settings of a folder with those given added.

    Args:
        records: The records of the folder.
        given: "evaluation": settings of all rows; "policies": settings of each policy; "tasks": source of each split.

    Raises:
        ValueError: If rows were made with another value of one of them.
    """
    before: Settings = {kind: records.settings.get(kind, {}) for kind in _KINDS}
    now: Settings = json.loads(json.dumps(given))
    for kind in _KINDS:
        for name, value in now[kind].items():
            if name in before[kind] and before[kind][name] != value:
                raise ValueError(
                    f"{records.folder} has another {name!r} of {kind}: {_shown(before[kind][name], value)}; give the same to resume, or "
                    "another `--output`."
                )
    return {kind: {**before[kind], **now[kind]} for kind in _KINDS}


def make_results(
    rows: Sequence[Row],
    settings: Settings,
    metric: str,
    success_means: str,
    human: str,
    prices: Prices,
    versions: Mapping[str, Any],
) -> dict[str, Any]:
    """The content of `results.json`.

    Args:
        rows: All rows.
        settings: Settings of the folder.
        metric: Name of the metric.
        success_means: When an episode is a success, in words.
        human: Name of the simulated human's model; "" if it is not a model.
        prices: Price of every model; {} for none.
        versions: Versions of packages.

    Returns:
        By name of the agent and split the scores (`summary.summarize`, `summary.used`); and "schema", "environment", "metric",
        "success_means", "tasks", "seeds", "episodes" per task and seed, "policies", "differences", "versions" and, if given, "prices".
    """
    results: dict[str, Any] = {}
    for agent, own in settings["policies"].items():
        for split in settings["tasks"]:
            chosen = [row for row in rows if (row["agent"], row["split"]) == (agent, split)]
            if chosen:
                score = {**summarize(chosen, metric), **used(chosen, own.get("model", ""), human, prices)}
                results.setdefault(agent, {})[split] = score
    given = settings["evaluation"]
    return results | {
        "schema": SCHEMA,
        "environment": given["env"],
        "metric": metric,
        "success_means": success_means,
        "tasks": settings["tasks"],
        "seeds": sorted({row.get("seed", 0) for row in rows}),
        "episodes": given["episodes"],
        "policies": settings["policies"],
        "differences": differences(rows, metric),
        **(
            {"prices": {model: dict(zip(("input", "output"), pair, strict=True)) for model, pair in prices.items()}}
            if prices
            else {}
        ),
        "versions": dict(versions),
    }


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


def gym_versions() -> dict[str, str]:
    """Versions of Python and of the packages that play and score."""
    found = {"python": platform.python_version()}
    for name in ("colbench-gym", "gymnasium", "numpy"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # a checkout that is not installed
            continue
    return found


def _shown(before: Any, now: Any) -> str:
    if isinstance(before, dict) and isinstance(now, dict):
        names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
        return ", ".join(f"{name} {str(before.get(name))[:80]!r} there, {str(now.get(name))[:80]!r} here" for name in names[:5])
    return f"{str(before)[:80]!r} there, {str(now)[:80]!r} here"
