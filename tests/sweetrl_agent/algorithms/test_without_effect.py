"""Settings without effect are named before a run."""

from __future__ import annotations

import logging

import pytest

from sweetrl_agent.algorithms.registry import ALGORITHMS
from sweetrl_agent.trainers.stage_runner import tell_plan


@pytest.mark.parametrize(
    ("critic", "settings", "unread"),
    [
        (
            "gain",
            {"critic_epochs": 4.0, "critic_replies": False, "judge_model": "x"},
            ["judge_model", "critic_epochs", "critic_replies"],
        ),
        ("sweet", {"critic_epochs": 4.0, "critic_replies": False, "form": "released", "gain_noise": 0.5}, []),
        ("regression_head", {"critic_epochs": 4.0, "critic_held_out": 0.2}, ["critic_held_out"]),
        ("gain", {"gain_noise": 0.95, "gain_threshold": 5.0}, ["gain_threshold"]),
        (
            "untrained",
            {"critic_hidden": False, "critic_replies": False, "reference_hidden": True, "num_states": 5},
            ["reference_hidden"],
        ),
        ("no_hidden", {"critic_hidden": False, "critic_nll": 0.5}, ["critic_hidden"]),
        ("no_replies", {"critic_replies": False, "form": "released"}, ["critic_replies"]),
        ("no_normalisation", {"form": "released", "reference_hidden": True}, ["form"]),
        ("paper", {"form": "released", "reference_hidden": True, "critic_beta": 0.5}, ["form", "reference_hidden"]),
        ("value_head", {"critic_beta": 0.5, "critic_epochs": 3.0}, ["critic_beta"]),
        ("judge", {"judge_model": "x", "vision_model": "y"}, ["vision_model"]),
    ],
)
def test_settings_that_a_critic_does_not_read_are_named(critic, settings, unread, make_run, caplog, capsys):
    given = {f"sweet.{name}": value for name, value in settings.items()}
    run = make_run(algorithm=critic, **given)
    assert list(run.algorithm.without_effect) == unread
    sentence = f"{', '.join(f'`{name}`' for name in unread)}: no effect with {critic!r} and its other settings."
    with caplog.at_level(logging.WARNING, logger="sweetrl_agent"):
        tell_plan(run)
    assert (sentence in caplog.text) == bool(unread)


@pytest.mark.parametrize(
    ("name", "settings", "unread"),
    [
        ("sweet_online", {"gain_noise": 0.9, "judge_model": "x", "critic_epochs": 3.0}, ["judge_model", "gain_noise"]),
        ("maporl", {"verifier_learning_rate": 0.1}, ["verifier_learning_rate"]),
        ("maporl", {"verifier_learning_rate": 0.1, "verifier_iterations": 1}, []),
    ],
)
def test_algorithms_name_settings_that_others_switch_off(name, settings, unread):
    algorithm = ALGORITHMS[name]
    assert list(algorithm.with_config(algorithm.Config(**settings)).without_effect) == unread
    assert list(algorithm.without_effect) == []
