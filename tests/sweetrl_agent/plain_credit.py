"""The critic's scores and loss in plain Python: slow and exact, what the torch code is compared with."""

from __future__ import annotations

from math import exp, log1p

from sweetrl_agent.critics.credit import SUM, turn_advantages


def trajectory_score(log_ratios, turn_ids, form):
    """Score of a dialogue: "paper" sums the turns' means (equations 2 and 3), "released" is one mean over all tokens, "sum" multi-turn DPO's."""
    if form == "paper":
        return sum(turn_advantages(log_ratios, turn_ids))
    ratios = [ratio for ratio, turn in zip(log_ratios, turn_ids, strict=True) if turn > 0]
    return sum(ratios) if form == SUM else sum(ratios) / len(ratios)


def bradley_terry_loss(chosen, rejected, beta):
    """-log sigmoid(beta (chosen - rejected)): equation 2 on two scores of dialogues."""
    x = beta * (chosen - rejected)
    return log1p(exp(-x)) if x > 0 else -x + log1p(exp(x))
