"""The numbers of the experiments on made-up rows: credit accuracy, shares of variance, best-of-N's choice, scaled runs."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from sweetrl_agent.core.policy import BatchAdapter, Utterance
from sweetrl_agent.evaluation.best_of_n import RememberingPolicy
from sweetrl_agent.evaluation.credit_accuracy import KINDS, Turn, pair_accuracy, rank_correlation
from sweetrl_agent.evaluation.simulators import variance_shares
from sweetrl_agent.evaluation.statistics import score_of, task_table
from sweetrl_agent.rollouts.speakers import BestOf, BestOfNSampler


def test_rank_correlation_is_spearmans_and_knows_its_limits():
    assert rank_correlation([0.1, 0.5, 0.9], [1.0, 2.0, 30.0]) == 1.0
    assert rank_correlation([0.1, 0.5, 0.9], [3.0, 2.0, 1.0]) == -1.0
    assert rank_correlation([0.1, 0.5, 0.9], [1.0, 1.0, 1.0]) == 0.0  # a critic without an opinion
    assert rank_correlation([0.2, 0.2], [1.0, 2.0]) is None  # nothing to be right about


def _turn(exact, credit, is_answer=None):
    return Turn(np.array(exact), np.array(credit), np.array(is_answer or [False] * len(exact)))


def test_pair_accuracy_counts_unlike_pairs_of_one_turn():
    turns = [_turn([0.0, 1.0, 1.0], [0.3, 0.2, 0.9]), _turn([0.5, 0.5], [1.0, 2.0]), _turn([0.0, 1.0], [1.0, 1.0])]
    assert pair_accuracy(turns) == (1 + 0 + 0.5) / 3
    assert pair_accuracy([_turn([0.5, 0.5], [1.0, 2.0])]) is None


def test_a_noisy_critic_has_the_accuracy_of_its_noise():
    rng = np.random.default_rng(0)
    turns = []
    for _ in range(400):
        exact = rng.normal(size=8)
        turns.append(_turn(exact, exact + rng.normal(size=8)))  # difference d is seen as d + noise of variance 2
    assert pair_accuracy(turns) == pytest.approx(0.75, abs=0.02)  # arctan(1) / pi + 1/2, for normal differences


def test_pairs_are_told_apart_by_kind():
    early = _turn([-0.4, 0.1, 0.0, -0.4], [0.0, 1.0, 2.0, 3.0], [True, False, False, True])
    kinds = {kind: pair_accuracy([early], pairs) for kind, pairs in KINDS.items()}
    assert kinds == {
        "question_over_wrong_answer": 2 / 4, "useful_over_useless_question": 0.0, "right_over_wrong_answer": None,
        "right_answer_when_all_is_known": None,
    }  # fmt: skip
    late = _turn([0.0, 0.0, -1.0], [1.0, 0.5, 0.7], [True, False, True])
    kinds = {kind: pair_accuracy([late], pairs) for kind, pairs in KINDS.items()}
    assert kinds == {
        "question_over_wrong_answer": 0.0, "useful_over_useless_question": None, "right_over_wrong_answer": 1.0,
        "right_answer_when_all_is_known": 1.0,
    }  # fmt: skip
    hopeless = _turn(
        [0.0, 0.0, 0.0], [1.0, 0.5, 0.7], [True, False, True]
    )  # wrong answers, where no answer can be right any more
    assert pair_accuracy([hopeless], KINDS["right_answer_when_all_is_known"]) is None


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda a, m, s: a, "algorithm"),
        (lambda a, m, s: m, "simulator"),
        (lambda a, m, s: s, "seed"),
        (lambda a, m, s: (a - 1) * (m - 1), "algorithm x simulator"),
        (lambda a, m, s: (a - 1) * (m - 1) * (s - 1), "rest"),
    ],
)
def test_variance_goes_where_it_comes_from(make, name):
    means = np.fromfunction(make, (3, 3, 3)) + 0.2
    shares = variance_shares(means)
    assert shares[name] == pytest.approx(1.0) and sum(shares.values()) == pytest.approx(1.0)


def test_nothing_varies_has_no_shares():
    assert set(variance_shares(np.ones((2, 2, 2))).values()) == {0.0}


class _Counting:
    """A policy that says its seed and counts what it is asked."""

    def __init__(self):
        self.asked = 0

    def generate(self, dialogues, seeds):
        self.asked += len(seeds)
        return [Utterance(str(seed)) for seed in seeds]


def test_the_best_of_n_by_credit_is_said_and_candidates_are_nested():
    policy = _Counting()
    remembering = RememberingPolicy(policy)
    dialogues = [[{"role": "user", "content": "one"}], [{"role": "user", "content": "two"}]]
    seen = []

    def credit(dialogue, hidden, texts, replies):
        seen.append((dialogue[0]["content"], hidden, texts))
        return [-float(text) for text in texts]

    def say(count):
        speaker = BestOfNSampler(BatchAdapter(remembering), BestOf(count, credit))
        for number, (dialogue, hidden) in enumerate(zip(dialogues, ("c1", "c2"), strict=True)):
            speaker.ask(number, SimpleNamespace(messages=dialogue, hidden_information=hidden), 7 + number)
        return [utterance for _, utterance in sorted(speaker.step())]

    small, large = say(2), say(4)
    assert [(name, hidden, len(texts)) for name, hidden, texts in seen] == [
        ("one", "c1", 2), ("two", "c2", 2), ("one", "c1", 4), ("two", "c2", 4),
    ]  # fmt: skip
    assert all(a[2] == b[2][:2] for a, b in zip(seen[:2], seen[2:], strict=True))
    assert [u.text for u in small] == [min(texts, key=float) for _, _, texts in seen[:2]]
    assert [u.text for u in large] == [min(texts, key=float) for _, _, texts in seen[2:]]
    assert policy.asked == 8  # and not 12


def test_a_table_of_tasks_leaves_out_what_a_seed_lacks():
    row = {"outcome": "passed"}
    rows = {
        0: [
            {**row, "task_id": "x", "success": 1},
            {**row, "task_id": "y", "success": 0},
            {**row, "task_id": "x", "success": 0},
        ],
        1: [{**row, "task_id": "x", "success": 1}, {"task_id": "y", "success": None, "outcome": "void"}],
    }
    assert task_table(rows, "success").tolist() == [[0.5], [1.0]]
    assert score_of(task_table(rows, "success"))["n"] == 1
