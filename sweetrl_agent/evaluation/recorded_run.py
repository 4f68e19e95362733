"""A run as it was trained, opened from its folder to look at, with critics or algorithms besides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sweetrl_agent.algorithms.critic_settings import SWEET
from sweetrl_agent.algorithms.critics import CRITICS
from sweetrl_agent.algorithms.settings import make_config
from sweetrl_agent.evaluation.model_policies import read_run
from sweetrl_agent.trainers.run import Run


def open_recorded(folder: str, algorithms: Sequence[str] = (), settings: Mapping[str, Any] | None = None) -> Run:
    """A run from its folder. Nothing is written.

    Args:
        folder: The folder.
        algorithms: Registered algorithms or critics that it is opened with; () for the one that it was trained with.
        settings: Settings of these, by full name, which override the run's.

    Raises:
        ValueError: If the folder holds no run, or a setting is invalid or differs from one that files were made with.
    """
    recorded = read_run(Path(folder))
    of_critics = [recorded[name] for name in CRITICS if isinstance(recorded.get(name), dict)]
    given = {**({SWEET: of_critics[0]} if of_critics else {}), **recorded}  # those of `sweet` are the defaults of every critic
    if given.get("engine") == "server":  # its servers' addresses are not recorded
        given["engine"] = "transformers"
    return Run(
        make_config({**given, "output": folder, **(settings or {})}, list(dict.fromkeys(algorithms)) or None), is_dry=True
    )
