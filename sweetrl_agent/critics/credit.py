"""Forms of the critic's score, and the advantage of each turn of one dialogue, from plain numbers."""

from __future__ import annotations

from collections.abc import Sequence
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
