"""Preference pairs: of whole trajectories for the critic, of single turns for the actor."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import permutations
from typing import Any

import numpy as np

from sweetrl_agent.core.episode import Episode

#: The dialogues of an outcome pair: the better, the worse.
SIDES = ("chosen", "rejected")
#: How answers among the candidates of a turn are paired.
ANSWERS = BY_CRITIC, APART, BY_VERIFIER, BOTH = "critic", "apart", "verifier", "both"


def outcome_pairs(
    trajectories: Sequence[Episode], min_best: float = 1.0, min_difference: float = 0.0, metric: str = "tests_passed"
) -> list[dict[str, Any]]:
    """Pair the best trajectory of each task with each strictly worse one.

    Args:
        trajectories: Several per task; void episodes are skipped.
        min_best: Tasks with a lower best metric are skipped, as in the released code for functions.
        min_difference: Pairs with a smaller difference are skipped, as in the released code for pages (0.1).
        metric: Name of the metric, higher is better.

    Returns:
        Rows with "task_id", "chosen" and "rejected" (chat messages), "hidden" (the hidden information: of both, or {"chosen": ..., "rejected": ...}
        if it differs) and the metric of both. "chosen_thoughts" and "rejected_thoughts" are the thoughts of their turns, "chosen_cut" and "rejected_cut" whether the limit of tokens
        cut each; rows without any lack them.

    Source: arXiv:2503.15478, section 4.1; the released code keeps tasks with a fully solved trajectory.
    """
    by_task: dict[str, list[Episode]] = defaultdict(list)
    for episode in trajectories:
        if not episode.is_void:
            by_task[episode.task_id].append(episode)
    rows = []
    for task_id, group in by_task.items():
        best = max(group, key=lambda t: float(t.metrics[metric]))
        best_score = float(best.metrics[metric])
        if best_score < min_best:
            continue
        for worse in group:
            score = float(worse.metrics[metric])
            if score < best_score and best_score - score >= min_difference - 1e-9:  # 1.0 - 0.9 is less than 0.1
                is_shared = best.hidden == worse.hidden
                hidden = best.hidden if is_shared else {"chosen": best.hidden, "rejected": worse.hidden}
                rows.append(
                    {
                        "task_id": task_id,
                        "hidden": hidden,
                        "chosen": best.messages,
                        "rejected": worse.messages,
                        "chosen_score": best_score,
                        "rejected_score": score,
                        **_beside(chosen=best, rejected=worse),
                    }
                )
    return rows


def _beside(**sides: Episode) -> dict[str, list[Any]]:
    by_side: dict[str, list[Any]] = {
        f"{side}_thoughts": [turn.thought for turn in episode.turns] for side, episode in sides.items()
    }
    by_side |= {f"{side}_cut": [turn.is_cut for turn in episode.turns] for side, episode in sides.items()}
    return {name: of_turns for name, of_turns in by_side.items() if any(of_turns)}


def generated(row: Mapping[str, Any], side: str) -> list[dict[str, Any]]:
    """The dialogue "chosen" or "rejected" of a row of `outcome_pairs` for training on what was generated.

    Every message has its "thought" ("" for none), and whether the limit of tokens has "cut" it.
    """
    thoughts, cut = iter(row.get(f"{side}_thoughts", ())), iter(row.get(f"{side}_cut", ()))
    return [
        {**message, "thought": next(thoughts, ""), "cut": next(cut, False)}
        if message["role"] == "assistant"
        else {**message, "thought": "", "cut": False}
        for message in row[side]
    ]


def hidden_by_turn(row: Mapping[str, Any], side: str) -> list[str]:
    """Hidden information of the dialogue "chosen" or "rejected" of a row of `outcome_pairs`: a text for all turns, or for each turn."""
    hidden = row["hidden"][side] if isinstance(row["hidden"], Mapping) else row["hidden"]
    return [hidden] if isinstance(hidden, str) else list(hidden)


def with_hidden_by_turn(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with its hidden information as `hidden_by_turn` of both sides: the same type in every row, as data sets need."""
    return {**row, "hidden": {side: hidden_by_turn(row, side) for side in ("chosen", "rejected")}}


def turn_pairs(
    scores: Sequence[float], num_pairs: int, rng: np.random.Generator, quantile: float = 0.5
) -> list[tuple[int, int]]:
    """Draw (chosen, rejected) indices: the first from the best `quantile` of the candidates, the second from the worst.

    Ties are broken at random, so that equal scores do not favour the order of sampling.

    Args:
        scores: Score of each candidate.
        num_pairs: Number of pairs to draw.
        rng: Random number generator.
        quantile: Fraction of the candidates on each side, at most 0.5; each side has at least one candidate.

    Source: arXiv:2503.15478, section 4.3, with quantile 0.5; the released code draws 4 pairs per turn.
    """
    order = sorted(rng.permutation(len(scores)), key=lambda i: -scores[i])
    count = max(int(len(order) * quantile), 1)
    if len(order) < 2:
        return []
    better, worse = order[:count], order[-count:]
    return [(int(rng.choice(better)), int(rng.choice(worse))) for _ in range(num_pairs)]


def distinct_turn_pairs(
    is_preferred: Callable[[int, int], bool], num_candidates: int, num_pairs: int, rng: np.random.Generator
) -> list[tuple[int, int]]:
    """Draw distinct (chosen, rejected) indices among all pairs of candidates of which one is preferred; fewer where there are fewer.

    For scores that are equal for most candidates, such as gains with a noise level: the sides of `turn_pairs` then hold candidates that no score distinguishes.
    """
    pairs = [pair for pair in permutations(range(num_candidates), 2) if is_preferred(*pair)]
    return [pairs[i] for i in rng.permutation(len(pairs))[:num_pairs]]


def candidate_groups(is_answer: Sequence[bool], answers: str) -> list[tuple[list[int], bool]]:
    """Indices of the candidates that are paired with each other, and whether their pairs of equal texts are kept.

    Such a pair trains by the NLL term alone: it keeps answers likely, but would teach a question that may be useless. So groups of questions drop it;
    in a group of all candidates such questions are few (3% of the pairs of the first job).
    """
    every = list(range(len(is_answer)))
    questions, ends = [i for i in every if not is_answer[i]], [i for i in every if is_answer[i]]
    if answers in (APART, BY_VERIFIER):
        return [(questions, False), (ends, True)]
    return [(every, True), (questions, False)][: 2 if answers == BOTH else 1]
