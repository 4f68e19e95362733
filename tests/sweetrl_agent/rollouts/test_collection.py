"""What collected trajectories say where they teach nothing: turns that the limit of tokens cut, or that were thought only."""

from __future__ import annotations

import pytest

from colbench_gym.errors import TaskError
from colbench_gym.files import write_rows
from sweetrl_agent.algorithms import rft
from sweetrl_agent.core.episode import Episode, Turn
from sweetrl_agent.rollouts import collection


@pytest.fixture
def collected(make_run):
    """Function: metrics of each of two failed episodes, of ten turns each -> a run that has collected them."""

    def run(**metrics):
        run = make_run()
        task = run.train[0]
        messages = [{"role": "user", "content": task.description}, *[{"role": "assistant", "content": ""}] * 10]
        failed = {"outcome": "no_answer", "success": 0, "tests_passed": 0.0, "turns": 10, **metrics}
        turns = [Turn("", thought="<think>Hm")] * 10
        write_rows(
            run.path("trajectories.jsonl"), [Episode(task.id, i, messages, turns, failed, 0.0, "?").to_row() for i in (0, 1)]
        )
        return run

    return run


@pytest.mark.parametrize(
    ("metrics", "said"),
    [
        (
            {"silent_turns": 10, "cut_turns": 10},
            "20 said nothing and 20 were cut by the limit of tokens: raise `--max_new_tokens`.",
        ),
        ({"cut_turns": 1}, "0 said nothing and 2 were cut by the limit of tokens: raise `--max_new_tokens`."),
        (
            {"silent_turns": 5},
            "10 said nothing and 0 were cut by the limit of tokens: what the model only thinks is no message.",
        ),
    ],
)
def test_where_there_is_nothing_to_learn_it_says_that_turns_were_lost(collected, metrics, said):
    run = collected(**metrics)
    with pytest.raises(TaskError, match="so there is nothing to learn from") as no_pairs:
        collection.pair_outcomes(run)
    with pytest.raises(TaskError, match="so there is nothing to train on") as no_success:
        rft._train(run, rft.RFTConfig(), run.path("rft"))
    assert all(
        str(error.value).endswith(f" or a better model. Of 20 collected turns, {said}") for error in (no_pairs, no_success)
    )


def test_it_says_nothing_of_whole_turns(collected):
    assert collection.lost_turns(collected()) == ""
