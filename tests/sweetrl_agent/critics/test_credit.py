"""The credit rules against numbers done by hand."""

from __future__ import annotations

import math

import pytest

from sweetrl_agent.critics.credit import SUM, bradley_terry_loss, trajectory_score, turn_advantages

RATIOS = [9.0, 1.0, 3.0, 9.0, -2.0, 9.0, 4.0, 5.0, 6.0]
TURNS = [0, 1, 1, 0, 2, 0, 3, 3, 3]  # means 2, -2 and 5


def test_a_turns_advantage_is_the_mean_of_its_tokens():
    assert turn_advantages(RATIOS, TURNS) == [2.0, -2.0, 5.0]
    assert turn_advantages([], []) == []
    assert turn_advantages([1.0, 2.0], [0, 0]) == []


@pytest.mark.parametrize(("form", "score"), [("paper", 5.0), ("released", 17.0 / 6), (SUM, 17.0)])
def test_a_dialogue_is_scored_in_three_forms(form, score):
    assert trajectory_score(RATIOS, TURNS, form) == pytest.approx(score)


def test_the_form_without_a_mean_counts_every_token():
    """Twice the tokens are twice the sum; the paper's form and the released one stay as they are."""
    ratios, turns = [x for x in RATIOS for _ in range(2)], [t for t in TURNS for _ in range(2)]
    scores = [trajectory_score(ratios, turns, form) for form in ("paper", "released", SUM)]
    assert scores == pytest.approx([5.0, 17.0 / 6, 34.0])


@pytest.mark.parametrize(("chosen", "rejected", "beta"), [(2.0, 0.5, 0.3), (0.5, 2.0, 0.3), (1.0, 1.0, 2.0), (-1.0, 3.0, 1.5)])
def test_the_loss_is_minus_the_log_of_the_chance_that_the_better_one_wins(chosen, rejected, beta):
    strengths = [math.exp(beta * score) for score in (chosen, rejected)]
    assert bradley_terry_loss(chosen, rejected, beta) == pytest.approx(-math.log(strengths[0] / sum(strengths)))


@pytest.mark.parametrize("margin", [1000.0, -1000.0])
def test_the_loss_does_not_overflow(margin):
    assert bradley_terry_loss(margin, 0.0, 1.0) == max(-margin, 0.0)
