"""Credit rules in plain Python: slow and exact, the reference for the torch code."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log1p
from typing import Literal

Form = Literal["paper", "released"]
FORMS: tuple[Form, ...] = ("paper", "released")
#: The score of multi-turn DPO: all tokens have equal weight.
SUM: Literal["sum"] = "sum"


def turn_advantages(log_ratios: Sequence[float], turn_ids: Sequence[int]) -> list[float]:
    """Mean log-ratio of each agent turn: A(o_t, a_t, c) of SWEET-RL, equation 3.

    Args:
        log_ratios: log pi_theta - log pi_ref of each token, in nats, length L.
        turn_ids: Agent turn of each token, 1..T; 0 for tokens that are not actions. Length L.

    Returns:
        Advantages of turns 1..T.

    Source: arXiv:2503.15478, section 4.2.
    """
    advantages = []
    for turn in range(1, max(turn_ids, default=0) + 1):
        ratios = [ratio for ratio, t in zip(log_ratios, turn_ids, strict=True) if t == turn]
        advantages.append(sum(ratios) / len(ratios))
    return advantages


def trajectory_score(log_ratios: Sequence[float], turn_ids: Sequence[int], form: Form | Literal["sum"]) -> float:
    """Score of a trajectory in the critic's loss.

    "paper" sums the turns' mean log-ratios (equations 2 and 3). "released" follows the released code: one mean over all action
    tokens of the trajectory, so that long turns have more weight and the number of turns has no effect. "sum" is multi-turn DPO's.
    """
    if form == "paper":
        return sum(turn_advantages(log_ratios, turn_ids))
    ratios = [ratio for ratio, t in zip(log_ratios, turn_ids, strict=True) if t > 0]
    return sum(ratios) if form == SUM else sum(ratios) / len(ratios)


def bradley_terry_loss(chosen: float, rejected: float, beta: float) -> float:
    """-log sigmoid(beta (chosen - rejected)): equation 2 on two trajectory scores."""
    x = beta * (chosen - rejected)
    return log1p(exp(-x)) if x > 0 else -x + log1p(exp(x))
