"""The judge: only a verdict that holds in both orders counts, and what it is asked holds what it needs."""

from __future__ import annotations

import pytest

from sweetrl_agent.critics.judge import JudgeCritic, question

SAID = [{"role": "user", "content": "I need the total."}]


@pytest.fixture
def make_judge(make_tiny_model, tiny_tokenizer, monkeypatch):
    """Function: (first, second) -> is the first better? -> a judge who answers so."""

    def make(prefers_first):
        judge = JudgeCritic(make_tiny_model(), tiny_tokenizer)

        def verdicts(questions):
            asked.extend(questions)
            parts = [text.partition("[A]\n")[2].partition("\n\n[B]\n") for text in questions]
            return [prefers_first(first, second.partition("\n\n")[0]) for first, _, second in parts]

        monkeypatch.setattr(judge, "_prefers_first", verdicts)
        return judge

    asked = []
    make.asked = asked
    return make


def test_wins_less_losses_against_two_neighbours(make_judge):
    judge = make_judge(lambda a, b: len(a) > len(b))
    assert judge.rank(SAID, "", ["aaa", "a", "aa", "aaa"]) == [2.0, -2.0, 0.0, 2.0]
    assert len(make_judge.asked) == 6  # three different candidates, three pairs, both orders
    assert judge.rank(SAID, "", ["a", "aa"]) == [-1.0, 1.0] and judge.rank(SAID, "", ["a", "a"]) == [0.0, 0.0]


def test_a_judge_who_always_takes_the_first_has_no_say(make_judge):
    assert make_judge(lambda a, b: True).rank(SAID, "", ["a", "b", "c"]) == [0.0, 0.0, 0.0]


def test_a_question_holds_the_dialogue_the_candidates_and_what_is_hidden():
    text = question([*SAID, {"role": "assistant", "content": "Round?"}], "def total(x): ...", "Empty?", "Sorted?")
    for part in ("Person: I need the total.", "Colleague: Round?", "def total(x): ...", "[A]\nEmpty?", "[B]\nSorted?"):
        assert part in text
    assert "cannot see it" not in question(SAID, "", "a", "b")


def test_a_real_models_verdicts_do_not_depend_on_the_batch(make_tiny_model, tiny_tokenizer):
    texts = ["Round it?", "What should happen for an empty list?", "I WANT TO ANSWER:\nsum(x)", "Why?"]
    asked = [question(SAID, "sum(x)", a, b) for a in texts for b in texts]
    found = []
    for seed in range(6):
        model = make_tiny_model(seed)
        one, four = (JudgeCritic(model, tiny_tokenizer, size)._prefers_first(asked) for size in (1, 4))
        assert one == four
        found += one
    assert set(found) == {True, False}
