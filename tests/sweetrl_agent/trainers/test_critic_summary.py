"""What is said of a critic's training: how long it was, on what, and where the critic finds the difference."""

from __future__ import annotations

import pytest

from sweetrl_agent.trainers.critic_summary import late_share, line, summarize

STEP = {"loss": 0.6, "rewards/accuracies": 0.9, "gap/turn_1": 0.5, "gap/turn_2": 0.4, "gap/turn_3": 0.3}
EVALUATED = [
    {
        "step": 30,
        "eval_loss": 0.5,
        "eval_rewards/accuracies": 0.8,
        "eval_gap/turn_2": 0.2,
        "eval_gap/turn_1": 0.1,
        "epoch": 1.0,
    },
    {"step": 60, "eval_loss": 0.7, "eval_rewards/accuracies": 0.7, "eval_gap/turn_1": 0.9, "epoch": 2.0},
]


def test_the_best_epoch_on_held_out_pairs_is_what_counts():
    summary = summarize([{"step": 30, **STEP}, *EVALUATED, {"step": 60, **STEP, "pairs": 240, "held_out_pairs": 60}], True)
    assert summary == {
        "pairs": 240, "held_out_pairs": 60, "steps": 60, "by_turn": [0.1, 0.2], "accuracy": 0.8, "epoch": 1.0, "warnings": [],
    }  # fmt: skip
    assert line(summary) == (
        "Critic: 60 steps on 240 pairs; the better dialogue has the higher score in 80% of 60 held-out pairs, epoch 1. "
        "Advantage of the better minus the worse, by turn: +0.10, +0.20."
    )


def test_without_held_out_pairs_the_last_steps_say_it():
    summary = summarize(
        [{"step": 1, **STEP, "rewards/accuracies": 0.1}, {"step": 80, **STEP, "pairs": 640, "held_out_pairs": 0}], True
    )
    assert (summary["accuracy"], summary["by_turn"], "epoch" in summary) == (0.9, [0.5, 0.4, 0.3], False)
    assert "in 90% of the pairs of its last 79 steps. Advantage" in line(summary)
    (row,) = ({"step": 1, **STEP, "pairs": 1, "held_out_pairs": 0},)
    assert "in 90% of the pairs of its last step. Advantage" in line(summarize([row], True))
    assert line({}) == line(summarize([{"step": 3, "loss": 1.0}], True)) == ""


@pytest.mark.parametrize(
    ("steps", "gaps", "reads", "words"),
    [
        (49, [0.1], True, ["49 optimizer steps on 8 pairs are few"]),
        (50, [0.1], True, []),
        (50, [0.1, 2.6, 6.0, 8.2, 11.2, 16.1], True, ["80% of the difference"]),
        (50, [0.1, 2.6, 6.0, 8.2, 11.2, 16.1], False, []),
        (50, [1.0, 1.0, 1.0, 1.0], True, []),
        (8, [0.1, 0.1, 3.0], True, ["8 optimizer steps", "94% of the difference"]),
    ],
)
def test_too_few_steps_and_an_outcome_read_in_later_turns_are_said(steps, gaps, reads, words):
    row = {
        "step": steps,
        "rewards/accuracies": 1.0,
        **{f"gap/turn_{i}": gap for i, gap in enumerate(gaps, 1)},
        "pairs": 8,
        "held_out_pairs": 0,
    }
    warnings = summarize([row], reads)["warnings"]
    assert len(warnings) == len(words) and all(word in warning for word, warning in zip(words, warnings, strict=True))


def test_the_later_turns_share_is_none_without_a_difference():
    assert late_share([0.5, -0.5]) == late_share([]) == 0.0
    assert late_share([1.0, 0.0, 3.0]) == 0.75
