"""Rejection fine-tuning: which trajectories are trained on, and what the trainer is given of them."""

from __future__ import annotations

import re

import pytest

from colbench_gym.files import read_rows, write_rows
from sweetrl_agent.algorithms.rft import best_of_each_task
from sweetrl_agent.core.episode import Episode, Turn
from sweetrl_agent.core.work import Lengths, Work
from sweetrl_agent.rollouts.collection import NothingToLearnError


def _episode(task, index, score, said="Round it?"):
    metrics = {"outcome": "void"} if score is None else {"outcome": "answered", "tests_passed": score, "success": score == 1}
    messages = [{"role": "user", "content": f"I need {task}."}, {"role": "assistant", "content": said}]
    return Episode(task, index, messages, [Turn(said)], metrics, float(score or 0), "?")


def _kept(scores, least):
    episodes = [_episode(task, i, score) for task, own in scores.items() for i, score in enumerate(own)]
    return [(t.task_id, t.index) for t in best_of_each_task(episodes, "tests_passed", least)]


def test_the_best_of_a_task_are_kept_where_they_are_good_enough():
    scores = {"a": [1.0, 0.5, 1.0], "b": [0.4, 0.6, None], "c": [0.0, 0.2], "d": [None]}
    assert _kept(scores, 1.0) == [("a", 0), ("a", 2)]
    assert _kept(scores, 0.6) == [("a", 0), ("a", 2), ("b", 1)]
    assert _kept(scores, 0.0) == [("a", 0), ("a", 2), ("b", 1), ("c", 1)]


def test_a_negative_metric_has_a_best_too():
    assert _kept({"a": [-2.0, -1.0]}, -5.0) == [("a", 1)]


@pytest.fixture
def run_of(make_run, tiny_model_folder):
    """Function: scores of one task's trajectories, settings -> a run that collected them."""

    def make(scores, **settings):
        run = make_run(
            **{"rft.learning_rate": 3e-5, "rft.batch": 4, "rft.epochs": 2.0},
            **{"model": str(tiny_model_folder), "sft_dialogues": 0, "dtype": "float32", **settings},
        )
        episodes = [_episode("total", i, score, f"Reply {i}") for i, score in enumerate(scores)]
        write_rows(run.path("trajectories.jsonl"), [t.to_row() for t in episodes])
        return run

    return make


def test_the_agents_turns_of_the_best_are_labelled(run_of, tiny_tokenizer, untrained):
    seen = untrained(1.5)
    run = run_of([1.0, 0.0, 1.0], system_prompt="Be brief.")
    run.config.algorithms["rft"].train(run)
    trainer = seen["trainer"]
    texts = [tiny_tokenizer.decode(row["input_ids"]) for row in trainer.train_dataset]
    assert texts == [f"<|system|>Be brief.<|end|><|user|>I need total.<|end|><|assistant|>Reply {i}<|end|>" for i in (0, 2)]
    args = trainer.args
    assert (args.learning_rate, args.num_train_epochs, args.per_device_train_batch_size) == (3e-5, 2.0, 4)
    assert args.seed == run.seed and args.max_length is None
    assert args.output_dir == str(run.path("rft/agent/checkpoints")) and seen["folder"] == run.path("rft/agent")
    assert seen["tokenizer"] is trainer.processing_class and seen["callbacks"] is run.callbacks
    assert seen["tokenizer"].get_vocab() == tiny_tokenizer.get_vocab()
    assert read_rows(run.path("metrics.jsonl")) == [{"stage": "rft", "loss": 1.5}]
    assert not hasattr(trainer.model, "peft_config")
    seen = untrained(0.5)
    (run := run_of([1.0], lora=True)).config.algorithms["rft"].train(run)
    assert hasattr(seen["trainer"].model, "peft_config")
    assert read_rows(run.path("metrics.jsonl")) == [{"stage": "rft", "loss": 0.5}]  # those of the last training


def test_an_agent_that_forgets_is_trained_on_what_it_reads_and_its_thoughts(run_of, tiny_tokenizer, untrained):
    seen = untrained(0.5)
    run = run_of([1.0], history=0)
    messages = [{"role": role, "content": text} for role, text in (
        ("user", "I need total."), ("assistant", "Round it?"), ("user", "Yes."), ("assistant", "Done."),
    )]  # fmt: skip
    turns = [Turn("Round it?", thought="<think>ask</think>"), Turn("Done.", thought="<think>write</think>")]
    metrics = {"outcome": "answered", "tests_passed": 1.0, "success": 1}
    write_rows(run.path("trajectories.jsonl"), [Episode("total", 0, messages, turns, metrics, 1.0, "?").to_row()])
    run.config.algorithms["rft"].train(run)
    first, second = (tiny_tokenizer.decode(row["input_ids"]) for row in seen["trainer"].train_dataset)
    assert first == "<|user|>I need total.<|end|><|assistant|><think>ask</think>Round it?<|end|>"
    assert second == "<|user|>Yes.<|end|><|assistant|><think>write</think>Done.<|end|>"


def test_to_stop_where_the_limit_of_tokens_cut_is_not_learnt(run_of, tiny_tokenizer, untrained):
    seen = untrained(0.5)
    run = run_of([1.0])
    messages = [{"role": role, "content": text} for role, text in (
        ("user", "I need total."), ("assistant", "Round"), ("user", "Yes."), ("assistant", "Done."),
    )]  # fmt: skip
    metrics = {"outcome": "answered", "tests_passed": 1.0, "success": 1}
    episode = Episode("total", 0, messages, [Turn("Round", finish_reason="length"), Turn("Done.")], metrics, 1.0, "?")
    write_rows(run.path("trajectories.jsonl"), [episode.to_row()])
    run.config.algorithms["rft"].train(run)
    (row,) = seen["trainer"].train_dataset
    assert tiny_tokenizer.decode(row["input_ids"]).count("<|end|>") == 4
    assert tiny_tokenizer.decode([token for token in row["labels"] if token != -100]) == "RoundDone.<|end|>"


def test_thoughts_that_are_switched_off_are_so_in_training(run_of, quiet_model_folder, tiny_tokenizer, untrained):
    seen = untrained(0.5)
    for reasoning, start in (("none", "(quiet)<|user|>"), ("auto", "<|user|>")):
        run = run_of([1.0], model=str(quiet_model_folder), reasoning=reasoning)
        run.config.algorithms["rft"].train(run)
        (row,) = seen["trainer"].train_dataset
        assert tiny_tokenizer.decode(row["input_ids"]).startswith(start)


def test_without_a_success_there_is_nothing_to_train_on_and_that_is_said(run_of):
    said = (
        "No trajectory passes 90% of its tests, so there is nothing to train on. Lower `--min_best`, or start another run with more "
        "tasks, more SFT, or a better model."
    )
    with pytest.raises(NothingToLearnError, match=f"^{re.escape(said)}$"):
        (run := run_of([0.5, 0.8], min_best=0.9)).config.algorithms["rft"].train(run)


def test_its_work_is_half_of_what_was_collected_as_dialogues_or_as_turns(run_of):
    lengths = Lengths(turns=6, request=20, agent=10, reply=5, hidden=30, source="assumed")
    run = run_of([1.0], num_tasks=5, trajectories_per_task=4)
    (work,) = run.config.algorithms["rft"].work(run, lengths).values()  # of 20 dialogues of 105 tokens, 60 of them the agent's
    assert work == Work(
        "at most 20 episodes, 2 epochs", trainings=5, trained=20 * 105, steps=5, pass_tokens=4 * 105, pass_scored=4 * 60
    )
    run = run_of([1.0], num_tasks=5, trajectories_per_task=4, history=1)
    work = run.config.algorithms["rft"].work(run, lengths)["rft"]
    assert (work.trained, work.pass_scored) == (2 * 60 * 45, 4 * 10)
