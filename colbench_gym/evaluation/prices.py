"""Prices of models per million tokens, from a JSON or YAML file.

{"gpt-4o-mini": {"input": 0.15, "output": 0.6}, "local-llama": {"input": 0, "output": 0}}
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

#: Model -> price of a million prompt tokens and of a million generated tokens.
Prices = Mapping[str, tuple[float, float]]
_PER = 1_000_000
_SIDES = ("input", "output")


def read_prices(path: str) -> dict[str, tuple[float, float]]:
    """Read a file of prices; {} for "".

    Raises:
        ValueError: If the file cannot be read, or is not a mapping of models to "input" and "output".
    """
    if not path:
        return {}
    try:
        prices = _parsed(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"`prices` names no file that can be read: {path!r} ({error.strerror}).") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"`prices` must be JSON or YAML: {' '.join(str(error).split())[:200]}.") from None
    if not isinstance(prices, dict):
        raise ValueError(f"`prices` must map models to prices, got {path!r}.")
    return {str(model): _price(str(model), given) for model, given in prices.items()}


def check_limit(max_cost: float, prices: Prices, models: Collection[str]) -> None:
    """Refuse a limit that cannot be kept.

    Args:
        max_cost: Largest cost of the requests to model servers; 0 for no limit.
        prices: Price of every model.
        models: Models that are asked on servers; "" for none.

    Raises:
        ValueError: If there is a limit, and a model has no price.
    """
    missing = [model for model in dict.fromkeys(models) if model and model not in prices]
    if max_cost and (missing or not prices):
        of = f"the price of {missing[0][:100]!r}" if missing else "the price of every model on a server"
        raise ValueError(
            f'`max_cost` needs {of}: give `--prices FILE`, JSON or YAML such as {{"{(missing or ["MODEL"])[0][:100]}": {{"input": 0.15, "output": 0.6}}}} for a '
            "million tokens (zeros for a server of your own), or leave `max_cost` out."
        )


def cost_of(prices: Prices, model: str, prompt_tokens: int | None, generated_tokens: int | None) -> float | None:
    """Cost of tokens; None if the model has no price or the tokens are unknown. No tokens cost nothing, whatever the model."""
    if prompt_tokens == 0 and generated_tokens == 0:
        return 0.0
    if model not in prices or prompt_tokens is None or generated_tokens is None:
        return None
    return (prompt_tokens * prices[model][0] + generated_tokens * prices[model][1]) / _PER


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as not_json:
        try:
            import yaml
        except ImportError:
            raise ValueError(f"{not_json}; YAML needs `pip install pyyaml`") from None
        try:
            return yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise ValueError(str(error)) from None


def _price(model: str, given: Any) -> tuple[float, float]:
    values: list[Any] = [given[side] for side in _SIDES] if isinstance(given, dict) and given.keys() == {*_SIDES} else [None]
    if not all(type(value) in (int, float) and math.isfinite(value) and value >= 0 for value in values):
        raise ValueError(
            f"`prices` of {model[:100]!r} must have 'input' and 'output', prices of a million tokens from 0 on, got {str(given)[:100]}."
        )
    return float(values[0]), float(values[1])
