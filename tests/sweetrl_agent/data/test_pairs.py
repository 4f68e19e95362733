"""Pairs: the best of a task against the worse, a better candidate against a worse."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from sweetrl_agent.core.episode import Episode, Turn
from sweetrl_agent.data.pairs import distinct_turn_pairs, generated, outcome_pairs, turn_pairs


def _trajectory(task, episode, tests_passed):
    metrics = (
        {"outcome": "void"} if tests_passed is None else {"outcome": "answered", "tests_passed": tests_passed, "success": 0}
    )
    messages = [{"role": "user", "content": task}, {"role": "assistant", "content": f"{task} {episode}"}]
    return Episode(task, episode, messages, [], metrics, 0.0, f"reference of {task}")


def _pairs(scores, min_best=1.0):
    rows = outcome_pairs(
        [_trajectory(task, i, score) for task, all_of in scores.items() for i, score in enumerate(all_of)], min_best
    )
    return [(row["chosen"][1]["content"], row["rejected"][1]["content"]) for row in rows]


def test_the_best_is_paired_with_every_worse_one():
    assert _pairs({"a": [0.5, 1.0, 0.0]}) == [("a 1", "a 0"), ("a 1", "a 2")]
    assert _pairs({"a": [1.0, 1.0, 0.0]}) == [("a 0", "a 2")]
    assert _pairs({"a": [1.0, 1.0]}) == []


def test_tasks_are_kept_apart_and_unsolved_ones_left_out():
    assert _pairs({"a": [1.0, 0.0], "b": [0.9, 0.0]}) == [("a 0", "a 1")]
    assert _pairs({"b": [0.9, 0.0], "a": [1.0, 0.0]}) == [("a 0", "a 1")]
    assert _pairs({"a": [1.0, 0.0], "b": [0.9, 0.0]}, min_best=0.5) == [("a 0", "a 1"), ("b 0", "b 1")]


def test_pairs_of_nearly_equal_pages_are_left_out():
    pages = [_trajectory("a", i, score) for i, score in enumerate([0.75, 0.5, 0.625, 0.25])]
    rows = outcome_pairs(pages, 0.75, 0.25)
    assert [(row["chosen_score"], row["rejected_score"]) for row in rows] == [(0.75, 0.5), (0.75, 0.25)]
    assert outcome_pairs(pages, 0.76) == []


def test_another_metric_may_tell_better_from_worse():
    pages = [
        Episode("a", i, [], [], {"outcome": "answered", "similarity": score}, 0.0, "") for i, score in enumerate([0.3, 0.9])
    ]
    (row,) = outcome_pairs(pages, 0.0, metric="similarity")
    assert (row["chosen_score"], row["rejected_score"]) == (0.9, 0.3)


def test_void_episodes_are_no_evidence():
    assert _pairs({"a": [None, 1.0, None, 0.0], "b": [None, 1.0], "c": [None]}) == [("a 1", "a 3")]


def test_a_row_says_what_was_hidden_and_both_scores():
    (row,) = outcome_pairs([_trajectory("a", 0, 1.0), _trajectory("a", 1, 0.25)])
    assert (row["task_id"], row["hidden"], row["chosen_score"], row["rejected_score"]) == ("a", "reference of a", 1.0, 0.25)


def test_a_dialogue_has_the_thoughts_of_its_turns_beside_what_was_said():
    best, worse = _trajectory("a", 0, 1.0), _trajectory("a", 1, 0.0)
    best.turns.append(Turn("a 0", thought="A fee?"))
    worse.turns.append(Turn("a 1"))
    (row,) = outcome_pairs([best, worse])
    assert row["chosen_thoughts"] == ["A fee?"] and "rejected_thoughts" not in row
    request, said = ({**message, "thought": "", "cut": False} for message in best.messages)
    assert generated(row, "chosen") == [request, {**said, "thought": "A fee?"}]
    assert generated(row, "rejected") == [{**message, "thought": "", "cut": False} for message in worse.messages]
    worse.turns[0] = Turn("a 1", thought="None?")
    (row,) = outcome_pairs([best, worse])
    assert (row["chosen_thoughts"], row["rejected_thoughts"]) == (["A fee?"], ["None?"])
    assert generated(row, "rejected")[1]["thought"] == "None?" and "rejected_cut" not in row
    worse.turns[0] = Turn("a 1", finish_reason="length")
    (row,) = outcome_pairs([best, worse])
    assert row["rejected_cut"] == [True] and "chosen_cut" not in row
    assert [message["cut"] for message in generated(row, "rejected")] == [False, True]


@pytest.mark.parametrize("count", [2, 3, 8, 9])
def test_a_turn_pair_is_one_of_the_better_half_and_one_of_the_worse(count):
    scores = list(np.random.default_rng(0).permutation(count).astype(float))
    pairs = turn_pairs(scores, 500, np.random.default_rng(1))
    ranked = sorted(range(count), key=lambda i: -scores[i])
    assert {better for better, _ in pairs} == set(ranked[: count // 2])
    assert {worse for _, worse in pairs} == set(ranked[count - count // 2 :])


@pytest.mark.parametrize(("quantile", "count"), [(0.2, 2), (0.25, 3), (0.01, 1)])
def test_a_smaller_share_takes_candidates_from_both_ends(quantile, count):
    scores = list(np.random.default_rng(0).permutation(12).astype(float))
    pairs = turn_pairs(scores, 300, np.random.default_rng(1), quantile)
    ranked = sorted(range(12), key=lambda i: -scores[i])
    assert {better for better, _ in pairs} == {*ranked[:count]} and {worse for _, worse in pairs} == {*ranked[-count:]}
    assert len(pairs) == 300 and all(type(i) is int for pair in pairs for i in pair)


def test_ties_carry_no_preference_for_an_order():
    chosen = Counter(turn_pairs([1.0] * 4, 1, np.random.default_rng(seed))[0][0] for seed in range(2000))
    assert all(abs(chosen[i] - 500) < 90 for i in range(4))


def test_one_candidate_makes_no_pair():
    assert turn_pairs([1.0], 4, np.random.default_rng(0)) == []
    assert distinct_turn_pairs(lambda i, j: True, 1, 4, np.random.default_rng(0)) == []


def test_distinct_pairs_are_drawn_alike():
    """Scores 2, 1, 1, 0: of the five pairs with a preference, each is among two drawn ones in two fifths of the draws."""
    scores = [2, 1, 1, 0]
    drawn = [distinct_turn_pairs(lambda i, j: scores[i] > scores[j], 4, 2, np.random.default_rng(seed)) for seed in range(2000)]
    assert all(len(set(pairs)) == 2 for pairs in drawn)
    counts = Counter(pair for pairs in drawn for pair in pairs)
    assert set(counts) == {(0, 1), (0, 2), (0, 3), (1, 3), (2, 3)} and all(abs(n - 800) < 110 for n in counts.values())


def test_a_difference_of_exactly_the_least_is_enough():
    for better, worse in ((1.0, 0.9), (0.7, 0.6), (0.3, 0.2)):
        rows = [_trajectory("a", i, score) for i, score in enumerate((better, worse))]
        assert len(outcome_pairs(rows, 0.0, 0.1)) == 1 and not outcome_pairs(rows, 0.0, 0.11)
