"""What single settings must be: in their range, one of some names, a folder or file that is there, addresses of servers. Each raises ValueError."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

#: What holds a secret: an address with a user or password or with a key in its query, and a JSON argument of such a name.
_SECRET = re.compile(
    r'://[^/?#\s"]*@|[?&](api[-_]?key|key|token|password|secret)=|"(api_?key|key|token|password|secret|authorization)"\s*:',
    re.I,
)

#: Whole numbers beyond this fit into no tensor, seed or thread count of the libraries below.
LARGEST = 2**31 - 1

#: Least values that make sense; 0 often stands for "all" or "automatic".
_LEAST: dict[float, str] = {
    0: "threads ray_workers max_void max_turns imitation_learning_rate imitation_muon_learning_rate num_tasks min_difference critic_learning_rate critic_beta critic_nll critic_epochs num_states "
    "actor_learning_rate actor_beta actor_nll actor_epochs eval_tasks shown_dialogues",
    0.01: "temperature",
    1: "lora_r lora_alpha max_new_tokens generation_batch imitation_dialogues imitation_epochs imitation_batch tiny_layers "
    "critic_batch critic_micro_batch critic_max_length pairs_per_turn actor_batch actor_micro_batch actor_max_length eval_episodes",
    2: "trajectories_per_task num_candidates",
    32: "tiny_hidden_size",
    300: "tiny_vocab_size",
}


def check_bounds(settings: Mapping[str, Any]) -> None:
    """Refuse numbers out of range.

    Args:
        settings: All settings by name.

    Raises:
        ValueError: If one is; names it and its bound.
    """
    for least, names in _LEAST.items():
        for name in names.split():
            if settings[name] < least:
                raise ValueError(f"`{name}` must be at least {least}, got {settings[name]}.")
    if settings["seed"] < 0:
        raise ValueError(f"`seed` must be at least 0, got {settings['seed']}.")
    if not 0 < settings["pair_quantile"] <= 0.5:
        raise ValueError(f"`pair_quantile` must be above 0 and at most 0.5, got {settings['pair_quantile']}.")
    if settings["max_void"] > 1:
        raise ValueError(f"`max_void` is a share of the episodes, at most 1, got {settings['max_void']}.")
    if settings["min_best"] > 1:
        raise ValueError(f"`min_best` is a fraction of the tests, at most 1, got {settings['min_best']}.")


def check_types(part: Any) -> None:
    """Refuse settings of another type than their defaults', which a YAML file may hold, and numbers that are not finite or too large.

    Args:
        part: A dataclass of settings, each with a default.
    """
    empty = type(part)()
    for setting in fields(part):
        name, value, kind = setting.name, getattr(part, setting.name), type(getattr(empty, setting.name))
        values = value if isinstance(value, list) else [value]
        kinds = ((int,) if str(setting.type) == "list[int]" else (str,)) if kind is list else (kind,)
        allowed = (float, int) if kinds == (float,) else kinds
        if isinstance(value, list) != (kind is list) or not all(type(one) in allowed for one in values):
            raise ValueError(
                f"`{name}` must be of type {'list of ' if kind is list else ''}{kinds[0].__name__}, got {value!r}."
            )
        for one in values:
            if isinstance(one, float) and not math.isfinite(one):
                raise ValueError(f"`{name}` must be a finite number, got {one}.")
            if isinstance(one, int) and abs(one) > LARGEST:
                raise ValueError(f"`{name}` must be at most {LARGEST}, got {one}.")


def require(name: str, value: str, allowed: tuple[str, ...]) -> None:
    """Refuse a value that is none of those allowed."""
    if value not in allowed:
        raise ValueError(f"`{name}` must be one of {allowed}, got {value!r}.")


def require_folder(name: str, path: str) -> None:
    """Refuse what is plainly a path and not there; anything else may be a name of the hub."""
    try:
        is_missing = path.startswith(("/", ".", "~")) and not Path(path).expanduser().is_dir()
    except (OSError, ValueError, RuntimeError):  # too long, with a NUL, or a user's home that is not known
        is_missing = True
    if is_missing:
        raise ValueError(f"`{name}` names no folder: {path!r}.")


def require_file(name: str, source: str) -> None:
    """Refuse a source of tasks that is neither a file, with or without a slice, nor on the hub."""
    path = source.partition("[")[0]
    if not source.startswith("hub:") and not _is_file(path):
        raise ValueError(f"`{name}` names no file and no known source: {source!r}.")


def check_servers(engine: str, urls: Sequence[str]) -> None:
    """Refuse addresses that are none, and an engine that has them and needs none or needs them and has none."""
    if engine == "server" and not urls:
        raise ValueError("`engine` 'server' needs `server_urls`, such as http://127.0.0.1:8000/v1.")
    if engine != "server" and urls:
        raise ValueError(f"`server_urls` are for `engine` 'server', got {engine!r}.")
    for url in urls:
        try:
            parts = urlsplit(url)
            is_address = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 and "," not in url
        except ValueError:  # a port that is no number
            is_address = False
        if not is_address:
            raise ValueError(
                f"`server_urls` must be addresses with blanks between them, such as http://127.0.0.1:8000/v1, got {url!r}."
            )


def refuse_secrets(name: str, value: str) -> None:
    """Refuse a setting that holds a secret, without repeating it: settings are written to files that anybody may read.

    Limits: It knows addresses and JSON arguments by their form and name, and not a secret that looks like any other text.
    """
    if _SECRET.search(value):
        raise ValueError(
            f"`{name}` must not hold a password or key, for settings are written to files and to the screen; set the environment "
            "variable OPENAI_API_KEY, or another that `api_key_env` of the simulator names."
        )


def _is_file(path: str) -> bool:
    try:
        return Path(path).is_file()
    except (OSError, ValueError):  # a name that is too long, or that no file can have
        return False
