"""Turn pairs of a run: equal texts are kept for the likelihood term, ties between different texts say nothing and are dropped."""

from __future__ import annotations

import re

import pytest

from colbench_gym.files import write_rows
from sweetrl_agent.algorithms import sweet
from sweetrl_agent.algorithms.sweet_turns import preferences_of, sampled_turns
from sweetrl_agent.core.episode import Episode, Turn
from sweetrl_agent.core.policy import LENGTH
from sweetrl_agent.rollouts.collection import NothingToLearnError


@pytest.fixture
def pairs_of(make_run, tmp_path):
    """Function: texts and credits of the candidates of one turn -> (chosen, rejected) of its pairs."""

    def pairs(
        texts,
        advantages,
        thoughts=None,
        critic="sweet",
        more=None,
        columns=("chosen", "rejected"),
        before=(),
        verified=(),
        **settings,
    ):
        folder = str(tmp_path / f"run {len(list(tmp_path.iterdir()))}")  # other settings need another folder
        drawn = {"sweet.num_states": 0, "sweet.pairs_per_turn": 200, "sweet.pair_quantile": 0.5, "algorithm": critic}
        run = make_run(output=folder, **{**drawn, **settings})
        task = run.train[0]
        messages = [{"role": "user", "content": task.description}]
        for turn in before:
            messages += [{"role": "assistant", "content": turn.text}, {"role": "user", "content": "Yes."}]
        turns = [*before, Turn("Any rounding?")]
        episode = Episode(
            task.id, 0, [*messages, {"role": "assistant", "content": "Any rounding?"}], turns, {"outcome": "answered"}, 0.0, "?"
        )
        address = {"task_id": task.id, "episode": 0, "turn": len(turns)}
        write_rows(run.path("trajectories.jsonl"), [episode.to_row()])
        sampled = {
            "texts": texts,
            **({"thoughts": thoughts} if thoughts else {}),
            "num_tokens": [1] * len(texts),
            **(more or {}),
        }
        others = [{**address, "turn": number, "texts": ["?"]} for number in range(1, len(turns))]
        write_rows(run.path("candidates.jsonl"), [*others, {**address, **sampled}])
        run.artifact(critic, "scores.jsonl").parent.mkdir(exist_ok=True)
        scored = {"advantages": advantages, **({"verified": verified} if verified else {})}
        write_rows(run.artifact(critic, "scores.jsonl"), [*({"advantages": [0.0]} for _ in others), scored])
        rows = list(preferences_of(run, critic))
        assert all(row["prompt"] == messages and {name: row[name] for name in address} == address for row in rows)
        if thoughts:
            return [tuple(row[f"{side}{part}"] for part in ("", "_thought") for side in ("chosen", "rejected")) for row in rows]
        return [tuple(row.get(column) for column in columns) for row in rows]

    return pairs


def test_a_better_text_is_preferred_to_every_worse_one(pairs_of):
    found = pairs_of(["a", "b", "c", "d"], [3.0, 1.0, 2.0, 0.0])
    assert set(found) == {("a", "b"), ("a", "d"), ("c", "b"), ("c", "d")} and len(found) == 200


def test_equal_texts_are_kept(pairs_of):
    found = pairs_of(["a", "a", "a", "b"], [1.0, 1.0, 1.0, 0.0])
    assert set(found) == {("a", "a"), ("a", "b")} and len(found) == 200
    assert pairs_of(["a", "a"], [0.5, 0.5]) == [("a", "a")] * 200


def test_no_thought_is_preferred_where_the_texts_are_equal(pairs_of):
    """The critic scores what is said: which of two thoughts led to it is chance, and must not be learnt."""
    found = set(pairs_of(["", "", "Why?", "Why?"], [1.0, 1.0, 0.0, 0.0], ["<think>a", "<think>b", "c</think>", "d</think>"]))
    assert found == {("", "Why?", better, worse) for better in ("<think>a", "<think>b") for worse in ("c</think>", "d</think>")}
    found = set(pairs_of(["Why?"] * 4, [0.5] * 4, ["a</think>", "b</think>", "c</think>", ""]))
    assert len(found) == 2 and all(texts == ["Why?", "Why?"] and chosen == rejected for *texts, chosen, rejected in found)


def test_a_candidate_that_was_cut_is_marked(pairs_of):
    marked = pairs_of(["a", "b"], [1.0, 0.0], more={"cut": [True, False]}, columns=("chosen_cut", "rejected_cut"))
    assert set(marked) == {(True, None)}
    assert set(pairs_of(["a", "b"], [1.0, 0.0], columns=("chosen_cut", "rejected_cut"))) == {(None, None)}


def test_ties_of_different_texts_are_dropped(pairs_of):
    assert pairs_of(["a", "b", "c", "d"], [0.5] * 4) == []
    found = pairs_of(["a", "b", "c", "d"], [1.0, 0.5, 0.5, 0.0])
    assert {("b", "c"), ("c", "b")}.isdisjoint(found) and {("a", "d")} < set(found) and 100 < len(found) < 200


def test_without_a_quantile_every_pair_of_different_scores_is_drawn_once(pairs_of):
    """A gain with a noise level is 0 or 1: the best quarter of eight holds one useful question and one of seven useless ones."""
    texts, scores = [f"Q{i}?" for i in range(8)], [0.0] * 7 + [1.0]
    every = sorted(("Q7?", f"Q{i}?") for i in range(7))
    assert sorted(pairs_of(texts, scores, **{"sweet.pair_quantile": 0})) == every
    drawn = pairs_of(texts, scores, **{"sweet.pair_quantile": 0, "sweet.pairs_per_turn": 4})
    assert len(set(drawn)) == 4 and set(drawn) < set(every)
    quarter = pairs_of(texts, scores, **{"sweet.pair_quantile": 0.25})
    assert len(set(quarter)) == 2 and 60 < len(quarter) < 140, "half of the draws are ties, and two useless ones are rejected"


def test_without_a_quantile_equal_texts_are_kept_as_with_one(pairs_of):
    kept = {"critic": "gain", "sweet.pair_quantile": 0}
    wrong = f"{ANSWER} # wrong"
    assert pairs_of(["Why?", "Why?"], [1.0, 1.0], **kept) == [] == pairs_of([wrong, wrong], [-1000.0] * 2, **kept)
    assert pairs_of([ANSWER] * 3, [1001.0] * 3, **kept) == [(ANSWER, ANSWER)], (
        "once: the others would crowd out the preferences"
    )
    assert sorted(pairs_of([ANSWER, ANSWER, "Why?"], [1001.0, 1001.0, 0.0], **kept)) == [
        (ANSWER, ANSWER),
        *[(ANSWER, "Why?")] * 2,
    ]
    texts = ["Why?", "How?", ANSWER]
    both = sorted(pairs_of(texts, [1.0, 0.0, 1001.0], **kept, **{"gain.answers": "both"}))
    assert both == [(ANSWER, "How?"), (ANSWER, "Why?"), ("Why?", "How?"), ("Why?", "How?")], "questions among themselves again"


def test_a_question_that_comes_too_late_is_not_kept_with_itself(pairs_of):
    last = {"sweet.last_must_answer": True, "max_turns": 1}
    assert pairs_of(["Q1?"] * 4 + ["Q2?"] * 4, [1.0] * 4 + [0.0] * 4, **last) == []
    found = pairs_of(["Q1?", "Q1?", ANSWER, ANSWER], [1.0, 1.0, 0.0, 0.0], **last)
    assert set(found) == {(ANSWER, "Q1?")}
    assert set(pairs_of([ANSWER, ANSWER], [0.0, 0.0], **last)) == {(ANSWER, ANSWER)}


def test_a_last_turn_that_must_answer_requires_answers(make_run):
    assert make_run(**{"sweet.last_must_answer": True}).config.algorithm.requires == {"hidden", "answer_prefix"}
    assert make_run().config.algorithm.requires == {"hidden"}


def test_an_answer_that_passes_some_tests_is_not_kept_with_itself(pairs_of):
    """The verifier's reward may be the share of passed tests; the gain scores a success above 0, a failure below."""
    for score, reward, found in ((-999.6, 0.4, []), (1001.0, 1.0, [(ANSWER, ANSWER)] * 200)):
        assert (
            pairs_of([ANSWER] * 2, [score] * 2, critic="gain", verified=[reward] * 2, **{"gain.answers": "verifier"}) == found
        )


ANSWER = "I WANT TO ANSWER:\ndef f(): pass"


def test_where_the_environment_grades_answers_only_right_ones_are_kept_with_themselves(pairs_of):
    """The NLL term alone would teach a question inside the noise, and a wrong answer."""
    wrong = f"{ANSWER} # wrong"
    kept = {"critic": "gain", "sweet.pair_quantile": 0.25}
    assert pairs_of(["Why?"] * 4, [0.0] * 4, **kept) == [] == pairs_of([wrong] * 4, [-1000.0] * 4, **kept)
    assert pairs_of(["Why?"] * 4, [1.0] * 4, **kept) == []
    assert set(pairs_of([ANSWER] * 4, [1001.0] * 4, **kept)) == {(ANSWER, ANSWER)}
    assert set(pairs_of([ANSWER, "Why?", "How?", wrong], [1001.0, 1.0, 0.0, -1000.0], **kept)) == {(ANSWER, wrong)}
    assert set(pairs_of([wrong] * 4, [-1000.0] * 4)) == {(wrong, wrong)}, "another critic does not know what is right"


def test_in_the_last_turn_a_question_loses_to_every_answer(pairs_of):
    texts, advantages = ["Why?", "How?", ANSWER, f"{ANSWER} # again"], [3.0, 2.0, 1.0, 0.0]
    questions_win = {(a, b) for a in texts[:2] for b in texts[2:]}
    assert set(pairs_of(texts, advantages)) == questions_win
    assert set(pairs_of(texts, advantages, **{"sweet.last_must_answer": True})) == questions_win  # not the last turn
    assert set(pairs_of(texts, advantages, **{"sweet.last_must_answer": True}, max_turns=1)) == {
        (b, a) for a, b in questions_win
    }
    assert pairs_of(texts[:2], [1.0, 0.0], **{"sweet.last_must_answer": True}, max_turns=1) == []  # both are lost


@pytest.mark.parametrize("thoughts", [None, ["so", "so", "so"]])
def test_in_the_last_turn_what_was_asked_before_loses_to_every_answer(thoughts, pairs_of):
    """All candidates answer: the policy, which learns elsewhere not to answer early, must not learn never to answer."""
    texts, asked = (
        [f"{ANSWER} # {i}" for i in range(3)],
        [Turn("Why?", thought="hm"), Turn(f"{ANSWER} # a first try"), Turn("How?", finish_reason=LENGTH)],
    )
    found = pairs_of(texts, [0.0, 2.0, 1.0], thoughts, before=asked, **{"sweet.last_must_answer": True}, max_turns=4)
    among = [pair for pair in found if "ANSWER" in pair[1]]
    against = [pair[:2] for pair in found if pair not in among]
    assert len(among) == 200 and {pair[:2] for pair in among} == {(texts[1], texts[0])}, (
        "as without: the best third, and the worst"
    )
    assert len(against) == 200 and set(against) == {(text, turn) for text in texts[1:] for turn in ("Why?", "How?")}
    if thoughts:
        assert {pair[1:] for pair in found if pair[1] in ("Why?", "How?")} == {("Why?", "so", "hm"), ("How?", "so", "")}
    cut = pairs_of(
        texts,
        [0.0, 2.0, 1.0],
        before=asked,
        columns=("rejected", "rejected_cut"),
        **{"sweet.last_must_answer": True},
        max_turns=4,
    )
    assert {pair for pair in cut if pair[0] in ("Why?", "How?")} == {("Why?", None), ("How?", True)}
    assert len(pairs_of(texts, [0.0, 2.0, 1.0], before=asked, **{"sweet.last_must_answer": True}, max_turns=5)) == 200, (
        "not the last turn"
    )


ANSWER = "I WANT TO ANSWER:\ndef f(): pass"


@pytest.mark.parametrize(
    ("critic", "num_states", "texts", "advice"),
    [
        ("sweet", 0, ["Why?", ANSWER], "All turns have candidates: collect more by `--num_tasks`, or"),
        ("judge", 1, ["Why?", ANSWER], "Sample more turns by `--sweet.num_states`."),
        ("judge", 1, [ANSWER, ANSWER], "All candidates are answers, 2 at 1 turns, and none of a turn is better"),
    ],
)
def test_a_critic_without_a_preference_cannot_train_an_actor_and_says_what_to_do(critic, num_states, texts, advice, make_run):
    run = make_run(**{"algorithm": critic, "sweet.num_states": num_states})
    task = run.train[0]
    messages = [{"role": "user", "content": task.description}, {"role": "assistant", "content": "Why?"}] * 2
    episode = Episode(task.id, 0, messages, [Turn("Why?")] * 2, {"outcome": "answered"}, 0.0, "?")
    write_rows(run.path("trajectories.jsonl"), [episode.to_row()])
    sampled = [turn for turn, is_sampled in enumerate(sampled_turns(run, critic), 1) if is_sampled]
    rows = [{"task_id": task.id, "episode": 0, "turn": turn, "texts": texts, "num_tokens": [1, 1]} for turn in sampled]
    write_rows(run.path("candidates.jsonl"), rows)
    run.artifact(critic, "turn_pairs.jsonl").parent.mkdir(exist_ok=True)
    write_rows(run.artifact(critic, "turn_pairs.jsonl"), [])
    lead = (
        f"The critic {critic!r} gives all candidates of every turn the same score, so there is nothing to train the actor on. "
    )
    with pytest.raises(NothingToLearnError, match=f"^{re.escape(lead + advice)}"):
        sweet.train_actor(run, critic)
