"""What a run says about its work before it starts."""

from __future__ import annotations

import pytest

from sweetrl_agent.algorithms.registry import find_algorithm
from sweetrl_agent.config.pipeline import stages_of
from sweetrl_agent.data.files import write_rows
from sweetrl_agent.trainers.forecast import (
    FIXED_S,
    MEASURED_WITH,
    PRETRAINED_RATES,
    RATES,
    SPEED_COUNTS,
    as_lines,
    disk_bytes,
    forecast,
    in_words,
    model_bytes,
    num_parameters,
    time_left,
)

SIZES = {
    "num_tasks": 5, "trajectories_per_task": 3, "num_states": 20, "num_candidates": 4, "pairs_per_turn": 2, "actor_epochs": 1.0, "eval_tasks": 2,
    "eval_episodes": 3, "sft_dialogues": 40, "sft_batch": 8, "sft_epochs": 2, "critic_epochs": 1.0,
}  # fmt: skip


def test_sizes_follow_from_the_settings(make_run):
    run = make_run(**SIZES)
    works = forecast(run, run.stages, {})
    assert {name: (work.amount, work.text) for name, work in works.items()} == {
        "sft": (10, "10 steps of 8 dialogues"),
        "collect": (15, "15 episodes of 5 tasks"),
        "pairs": (0, ""),
        "critic": (10, "at most 10 pairs, 1 epochs"),
        "candidates": (80, "80 utterances at 20 turns"),
        "rank": (80, "80 utterances"),
        "actor": (40, "at most 40 pairs, 1 epochs"),
        "evaluate": (12, "12 episodes"),
        "report": (0, ""),
    }
    rates = RATES["ColBench-Backend-v0"]
    assert works["collect"].seconds == pytest.approx(15 * rates["collect"])
    assert works["actor"].seconds == pytest.approx(FIXED_S["actor"] + 40 * rates["actor"])


def test_without_a_limit_all_turns_are_sampled_at_most(make_run):
    run = make_run(**SIZES | {"num_states": 0})
    assert forecast(run, run.stages, {})["candidates"].text == "360 utterances at 90 turns"  # 15 episodes of 6 turns


def test_times_are_scaled_by_what_finished_stages_took(make_run):
    run = make_run(**SIZES | {"num_tasks": 0, "sft_dialogues": 800, "sft_epochs": 10})
    before = forecast(run, run.stages, {})
    after = forecast(run, run.stages, {"sft": before["sft"].seconds * 2, "pairs": 100.0})
    assert before["sft"].seconds > 3
    for name, work in before.items():
        assert after[name].seconds == pytest.approx(2 * work.seconds)


def test_another_model_has_times_once_it_has_played(make_run, tiny_model_folder):
    run = make_run(**SIZES | {"sft_dialogues": 0}, model=str(tiny_model_folder))
    works = forecast(run, run.stages, {})
    assert works["sft"].text == f"none: {tiny_model_folder} is the initial policy"
    assert (works["collect"].seconds, works["evaluate"].seconds) == (None, None)
    assert time_left(works, ["collect", "evaluate"]) is None
    works = forecast(run, run.stages, {"collect": 30.0})
    assert works["evaluate"].seconds == pytest.approx(FIXED_S["evaluate"] + 12 * 2.0, rel=0.2)
    assert works["actor"].seconds is None


def test_a_pretrained_model_is_timed_by_its_parameters_and_the_processors_speed(make_run, tiny_model_folder):
    run = make_run(**SIZES, model=str(tiny_model_folder), dtype="float32")
    parameters = model_bytes(run) / 4
    assert num_parameters(run) == parameters
    works, faster = (forecast(run, run.stages, {}, speed) for speed in (2000.0, 8000.0))
    scale = parameters / 1.54e9 * (MEASURED_WITH[1] / 2000) ** SPEED_COUNTS
    assert works["sft"].seconds == pytest.approx(10 * PRETRAINED_RATES["sft"] * scale)
    assert works["rank"].seconds == pytest.approx(FIXED_S["rank"] + 80 * PRETRAINED_RATES["rank"] * scale)
    assert faster["sft"].seconds == pytest.approx(works["sft"].seconds / 4**SPEED_COUNTS)
    assert works["sft"].seconds / 4 < faster["sft"].seconds < works["sft"].seconds, "memory is as slow as before"
    halved = make_run(**SIZES | {"sft_batch": 4}, model=str(tiny_model_folder), dtype="float32")
    assert forecast(halved, halved.stages, {}, 2000.0)["sft"].seconds == pytest.approx(works["sft"].seconds)


def test_sft_of_another_model_and_its_evaluation_as_it_came_are_counted(make_run, tiny_model_folder):
    run = make_run(**SIZES, model=str(tiny_model_folder), eval_pretrained="example")
    works = forecast(run, run.stages, {})
    assert (works["sft"].text, works["sft"].seconds) == ("10 steps of 8 dialogues", None)
    assert works["evaluate"].text == "18 episodes"
    run = make_run(**SIZES | {"sft_dialogues": 0}, model=str(tiny_model_folder), eval_pretrained="example")
    assert forecast(run, run.stages, {})["evaluate"].text == "12 episodes"


def test_a_file_has_no_more_demonstrations_than_its_rows(make_run, tmp_path):
    said = [{"role": "user", "content": "Hello?"}, {"role": "assistant", "content": "Hello."}]
    write_rows(tmp_path / "said.jsonl", [{"messages": said}] * 24)
    run = make_run(**SIZES, demonstrations=str(tmp_path / "said.jsonl"))
    assert forecast(run, run.stages, {})["sft"].text == "6 steps of 8 dialogues"


def test_rows_of_an_agent_that_forgets_are_not_counted_before(make_run):
    works = forecast(make_run(**SIZES | {"sft_dialogues": 70, "sft_batch": 512}, history=0), ["sft", "collect"], {})
    assert works["sft"].text == "70 dialogues, batches of 512 turns" and works["sft"].seconds is None
    assert time_left(works, ["sft", "collect"]) is None and time_left(works, ["collect"]) > 0


def test_an_on_policy_algorithm_says_how_many_episodes_it_plays(make_run):
    run = make_run(algorithm="grpo", grpo_iterations=3, grpo_tasks=5, grpo_group=2, seed=1)
    works = forecast(run, stages_of(find_algorithm("grpo")), {})
    assert works["grpo"].text == "30 episodes in 3 iterations"
    assert works["grpo"].seconds > 0


def test_the_packaged_policy_takes_no_steps(make_run):
    run = make_run(tasks="embedded:train", test_tasks="embedded:test[:3]")
    assert forecast(run, run.stages, {})["sft"].text == "none: the initial policy comes with the package"


def test_a_table_says_what_is_left(make_run):
    run = make_run(**SIZES)
    works = forecast(run, run.stages, {"sft": 2.0})
    lines = as_lines(works, ["evaluate", "report"], {"sft": 2.0})
    assert lines[1].split()[-2:] == ["not", "requested"]
    assert lines[0].split() == ["sft", "10", "steps", "of", "8", "dialogues", "done"]
    assert lines[-1].split() == ["in", "all", *in_words(works["evaluate"].seconds + works["report"].seconds).split()]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, "time not known before it has run"),
        (0.2, "about 1 s"),
        (59, "about 59 s"),
        (125.4, "about 2:05 min"),
        (7200, "about 2.0 h"),
    ],
)
def test_times_in_words(seconds, words):
    assert in_words(seconds) == words


def test_the_size_of_models_is_that_of_their_files(make_run, tiny_model_folder):
    size = (tiny_model_folder / "model.safetensors").stat().st_size
    run = make_run(**SIZES, model=str(tiny_model_folder))
    assert model_bytes(run) == size
    assert disk_bytes(run, size) > 6 * size
    assert model_bytes(make_run(model="someone/on-the-hub")) is None
