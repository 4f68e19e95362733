"""No environment and no simulated human takes an argument of a wrong type, and each refuses it in one sentence."""

from __future__ import annotations

import inspect
from typing import Any

import gymnasium as gym
import pytest

from colbench_gym.catalog import ids
from colbench_gym.errors import ColBenchError
from colbench_gym.simulators import SIMULATORS, make
from sandboxes.named import load_named

WRONG: tuple[Any, ...] = (-1, 2.5, float("nan"), True, None, "5", [1], {}, object())


@pytest.mark.parametrize("name", ids())
def test_no_environment_takes_a_wrong_type_or_fails_without_a_sentence(name):
    kind = load_named("env", str(gym.spec(name).entry_point))
    refused = 0
    for argument in set(inspect.signature(kind).parameters) - {"env", "env_kwargs"}:
        for value in WRONG:
            try:
                kind(**({"env": "LMRL-Maze-v0", "roles": "debaters:2x1"} if "Any" in name else {}) | {argument: value}).close()
            except ValueError as error:
                refused += 1
                assert f"`{argument}`" in str(error) or argument in ("tasks", "roles", "maze", "observed", "faithful"), (
                    argument,
                    value,
                    error,
                )
            except ColBenchError:  # a right type on a machine without a browser
                pass
    assert refused > len(WRONG)


@pytest.mark.parametrize("name", SIMULATORS)
def test_no_simulated_human_takes_a_wrong_type(name):
    kind = load_named("simulator", SIMULATORS[name])
    for argument in set(inspect.signature(kind).parameters) - {"has_edits", "browser"}:
        with pytest.raises(ValueError, match=f"`{argument}`|takes"):
            make({"name": name, **({"model": "m"} if name == "openai" else {}), argument: object()})
