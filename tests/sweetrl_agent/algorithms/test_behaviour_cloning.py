"""Behaviour cloning and its filtered form: which policy it is, and which episodes it is trained on."""

from __future__ import annotations

import re
import shutil

import pytest

from colbench_gym.files import read_rows, write_rows
from sweetrl_agent.algorithms.bc import BehaviourCloning
from sweetrl_agent.algorithms.filtered_bc import FilteredBCConfig, best_fraction
from sweetrl_agent.core.episode import Episode, Turn
from sweetrl_agent.core.settings import build


def _episode(index, score):
    messages = [{"role": "user", "content": "I need it."}, {"role": "assistant", "content": f"Reply {index}"}]
    return Episode("a", index, messages, [Turn(f"Reply {index}", reward=score)], {"outcome": "answered"}, score)


def _kept(scores, fraction):
    return [episode.index for episode in best_fraction([_episode(i, score) for i, score in enumerate(scores)], fraction)]


def test_the_best_fraction_by_return_is_kept_in_order_with_ties():
    scores = [-7.0, 3.0, -1.0, 9.0, 0.0, 2.0, 8.0, -2.0, 1.0, -9.0, 5.0]
    assert _kept(scores, 0.1) == [3, 6]
    assert _kept(scores, 0.3) == [1, 3, 6, 10]
    assert _kept(scores, 1.0) == list(range(11))
    assert _kept([0.0, 1.0, 0.0, 1.0, 1.0], 0.2) == [1, 3, 4]
    assert _kept([-4.0, -3.0], 0.1) == [1]


@pytest.mark.parametrize(("fraction", "bound"), [(0.0, "above 0"), (1.5, "at most 1")])
def test_a_fraction_outside_of_its_range_is_refused(fraction, bound):
    with pytest.raises(ValueError, match=f"^`fraction` must be {bound}, got {fraction}.$"):
        build(FilteredBCConfig, {"fraction": fraction})


@pytest.fixture
def run_of(make_run, tiny_model_folder, tmp_path):
    """Function: returns of episodes, settings -> a run with them as behaviour data, after SFT."""

    def make(scores, **settings):
        write_rows(tmp_path / "data.jsonl", [_episode(i, score).to_row() for i, score in enumerate(scores)])
        given = {"model": str(tiny_model_folder), "dtype": "float32", "sft_dialogues": len(scores)}
        run = make_run(**{**given, "demonstrations": str(tmp_path / "data.jsonl"), **settings})
        shutil.copytree(tiny_model_folder, run.path("initial"))
        return run

    return make


def test_filtered_bc_labels_the_agents_turns_of_the_best(run_of, tiny_tokenizer, untrained):
    seen = untrained(0.5)
    run = run_of(
        [1.0, 0.0, 0.0, 3.0, 2.0, 2.5],
        **{"filtered_bc.fraction": 0.4, "filtered_bc.batch": 2, "filtered_bc.learning_rate": 1e-5},
    )
    run.config.algorithms["filtered_bc"].train(run)
    texts = [tiny_tokenizer.decode(row["input_ids"]) for row in seen["trainer"].train_dataset]
    assert texts == [f"<|user|>I need it.<|end|><|assistant|>Reply {i}<|end|>" for i in (3, 4, 5)]
    args = seen["trainer"].args
    assert (args.learning_rate, args.num_train_epochs, args.per_device_train_batch_size) == (1e-5, 6.0, 2)
    assert seen["folder"] == run.path("filtered_bc/agent")
    assert read_rows(run.path("metrics.jsonl")) == [{"stage": "filtered_bc", "loss": 0.5}]


def test_bc_is_the_initial_policy(run_of):
    run, dialogue = run_of([1.0, 0.0]), [{"role": "user", "content": "I need it."}]
    assert not BehaviourCloning().stages
    initial, cloned = (policy.generate([dialogue], [3]) for policy in (run.load_policy(), BehaviourCloning().load(run)))
    assert cloned == initial


def test_bc_needs_sft(run_of):
    said = (
        "'bc' is the policy that SFT on behaviour data makes, and this run has no SFT: give `--sft_dialogues` and, where the environment has no "
        "demonstrations, `--demonstrations FILE`."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
        BehaviourCloning().load(run_of([1.0], sft_dialogues=0))
