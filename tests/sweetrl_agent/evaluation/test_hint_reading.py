"""How well the initial policy reads the hint: on made candidates whose exact advantage is known, and as the main job tells it."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from colbench_gym.files import write_rows
from sweetrl_agent.core.episode import Episode, Turn
from sweetrl_agent.critics.gain import NoNoiseError
from sweetrl_agent.evaluation import credit_accuracy
from sweetrl_agent.evaluation.credit_accuracy import hint_reading
from sweetrl_agent.evaluation.outcome import run_table
from sweetrl_agent.rollouts.replies import NotRepeatedError

NUM_TASKS = 4


@pytest.fixture
def run(make_run):
    """A run with a turn of four tasks each, at which two useful and two useless questions, one of them twice, and an answer were sampled."""
    run = make_run(**{"sweet.num_states": 0})
    trajectories, candidates = [], []
    for task in run.train[:NUM_TASKS]:
        useful, useless = _questions(task)
        messages = [{"role": "user", "content": task.description}, {"role": "assistant", "content": useless[0]}]
        trajectories.append(
            Episode(task.id, 0, messages, [Turn(useless[0])], {"outcome": "answered"}, 0.0, task.hidden.reference).to_row()
        )
        texts = [*useful, *useless, useless[0], f"I WANT TO ANSWER:\n{task.hidden.reference}"]
        candidates.append({"task_id": task.id, "episode": 0, "turn": 1, "texts": texts, "num_tokens": [1] * len(texts)})
    write_rows(run.path("trajectories.jsonl"), trajectories)
    write_rows(run.path("candidates.jsonl"), candidates)
    return run


def _questions(task):
    """Two questions about what is special in the task and two about what is not."""
    asks = {
        is_special: [fact.phrases[0] for fact in task.hidden.facts if fact.is_special == is_special]
        for is_special in (True, False)
    }
    return asks[True][:2], asks[False][:2]


@pytest.fixture
def read_by(run, monkeypatch):
    """Function: credit of a text with the hidden information -> how well a policy of that credit reads the hint."""

    def read(credit, gain=None, **settings):
        @contextmanager
        def open_ranker(of_run, name):
            by = {"untrained": credit, "sweet": lambda *_: 0.0, "gain": gain or credit}[name]
            yield lambda state, hidden, candidates: [by(text, hidden) for text in candidates.texts]

        monkeypatch.setattr(credit_accuracy, "open_ranker", open_ranker)
        return hint_reading(run, **settings)

    return read


@pytest.fixture
def is_useful(run):
    """Function: text, hidden information -> whether it is a useful question of that task."""
    useful = {task.hidden.reference: _questions(task)[0] for task in run.train[:NUM_TASKS]}
    return lambda text, hidden: float(text in useful[hidden])


def test_who_reads_the_hint_is_always_right_and_who_reads_it_backwards_never(read_by, is_useful):
    right = read_by(is_useful)
    assert {name: right[name] for name in ("accuracy", "pairs", "turns")} == {
        "accuracy": 1.0,
        "pairs": 4 * NUM_TASKS,
        "turns": NUM_TASKS,
    }
    assert 0.3 < right["ci95"][0] < right["ci95"][1] == 1.0
    wrong = read_by(lambda text, hidden: -is_useful(text, hidden), gain=is_useful)
    assert (wrong["accuracy"], wrong["pairs"]) == (0.0, 4 * NUM_TASKS)
    assert {name: of["accuracy"] for name, of in wrong["critics"].items()} == {"sweet": 0.5, "gain": 1.0}  # a tie is half right


def test_the_accuracy_is_the_share_of_pairs_and_the_interval_is_over_turns(read_by, run, is_useful):
    """It reads the hint of three tasks of four, and of the last one backwards."""
    last = run.train[NUM_TASKS - 1].hidden.reference
    found = read_by(lambda text, hidden: is_useful(text, hidden) * (-1 if hidden == last else 1))
    assert (found["accuracy"], found["pairs"], found["turns"]) == (0.75, 4 * NUM_TASKS, NUM_TASKS)
    assert found["ci95"][0] <= 0.25 and found["ci95"][1] == 1.0  # wide: four turns, not sixteen independent pairs


def test_only_the_first_turns_are_asked_about(read_by, is_useful):
    found = read_by(is_useful, num_states=2)
    assert (found["pairs"], found["turns"]) == (8, 2)


def test_answers_are_no_questions_and_without_a_pair_there_is_no_accuracy(read_by, run, is_useful):
    rows = []
    for task in run.train[:NUM_TASKS]:
        useful, _ = _questions(task)
        answers = ["I WANT TO ANSWER:\nNone", f"I WANT TO ANSWER:\n{task.hidden.reference}"]
        rows.append(
            {"task_id": task.id, "episode": 0, "turn": 1, "texts": [useful[0], useful[0], *answers], "num_tokens": [1] * 4}
        )
    write_rows(run.path("candidates.jsonl"), rows)
    assert read_by(is_useful) == {"accuracy": None, "pairs": 0, "turns": 0}


def test_it_stands_under_the_table_where_there_was_a_pair():
    results = {"metric": "tests_passed", "seconds": {"sft": 1.0}}
    reading = {"accuracy": 0.613, "ci95": [0.55, 0.674], "pairs": 512, "turns": 80}
    assert (
        "\nHint reading: the initial policy as a critic with hidden information prefers the useful of two questions in "
        "61% (55% to 67%) of 512 pairs.\n"
    ) in run_table({**results, "hint_reading": reading})
    gain = {"accuracy": 0.83, "ci95": [0.8, 0.86]}
    beside = run_table({**results, "hint_reading": {**reading, "critics": {"gain": gain}}})
    assert (
        "of 512 pairs, the information gain in 83% (80% to 86%). `--critic gain`, with `--sweet.gain_noise 0.95`, knows best what is "
        "worth asking here.\n" in beside
    )
    unclear = {"sweet": {**gain, "ci95": [0.6, 0.9]}, "gain": gain}
    assert (
        "the trained critic 'sweet' in 83% (60% to 90%), the information gain in 83% (80% to 86%). None is clearly ahead: "
        "keep this critic, or measure more turns (`--hint_turns`).\n"
        in run_table({**results, "hint_reading": {**reading, "critics": unclear}})
    )
    for without in ({}, {"hint_reading": {"accuracy": None, "pairs": 0, "turns": 0}}):
        assert "hint" not in run_table({**results, **without})


@pytest.mark.parametrize("fails_at", ["opening", "ranking"])
@pytest.mark.parametrize("error", [NotRepeatedError("It does not repeat."), NoNoiseError("One task.")])
def test_a_human_that_does_not_repeat_itself_leaves_the_gain_out_and_the_run_goes_on(
    run, monkeypatch, is_useful, caplog, fails_at, error
):
    @contextmanager
    def open_ranker(of_run, name):
        def rank(state, hidden, candidates):
            if name == "gain":
                raise error
            return [is_useful(text, hidden) for text in candidates.texts]

        if name == "gain" and fails_at == "opening":
            raise error
        yield rank

    monkeypatch.setattr(credit_accuracy, "open_ranker", open_ranker)
    found = hint_reading(run)
    assert (found["accuracy"], [*found["critics"]]) == (1.0, ["sweet"])
    assert [record.message for record in caplog.records] == [f"hint reading is without the critic gain. {error}"]
