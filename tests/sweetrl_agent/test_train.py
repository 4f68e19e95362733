"""The main job end to end on a very small setting: its files, its refusals, and going on after a kill."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from colbench_gym.evaluation.summary import differences
from colbench_gym.files import read_rows, write_rows
from colbench_gym.stage_records import StageRecords
from sweetrl_agent.config.pipeline import STAGES
from sweetrl_agent.config.run import RunArguments
from sweetrl_agent.core.hint import HINT
from sweetrl_agent.evaluation.main_job import parse
from sweetrl_agent.train import main
from tests.words import words

from .killed_runs import assert_same, give_luck, kill_at, mark_done, record_again, reopen_from

SETTINGS = {
    "sft_dialogues": 64, "sft_epochs": 1, "sft_batch": 16, "tiny_hidden_size": 32, "tiny_layers": 1,
    "tiny_vocab_size": 600, "num_tasks": 4, "trajectories_per_task": 2, "sweet.num_states": 18, "sweet.num_candidates": 3,
    "eval_tasks": 4, "shown_dialogues": 2, "max_new_tokens": 16, "max_turns": 3, "min_best": 0.0, "generation_batch": 3,
    "sweet.critic_epochs": 1, "sweet.critic_batch": 2, "sweet.critic_micro_batch": 2, "sandbox": "embedded", "threads": 1,
}  # fmt: skip
TRAJECTORY = [
    "schema",
    "task_id",
    "episode",
    "task",
    "hidden_information",
    "dialogue_history",
    "answer",
    "reward",
    "metrics",
    "turns",
]


def _arguments(folder, **changes):
    return words({**SETTINGS, "output": folder, **changes})


def _run_all(folder, **changes):
    for stage in ("sft", "collect"):
        assert main([*_arguments(folder, **changes), "--stage", stage]) == 0
    give_luck(folder)
    assert main(_arguments(folder, **changes)) == 0


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder of a finished run, by the name that it has unless another is given."""
    folder = tmp_path_factory.mktemp("runs") / Path(RunArguments.output).name
    _run_all(folder)
    return folder


@pytest.fixture
def copied(finished, tmp_path):
    """Function: stage -> a copy of the finished run in which that stage and all later ones are not done."""

    def copy(stage):
        folder = tmp_path / stage
        shutil.copytree(finished, folder)
        reopen_from(folder, stage)
        for name in ("results.json", "report.html", "failures.jsonl", "explanations.jsonl"):
            (folder / name).unlink()
        return folder

    return copy


def test_a_run_leaves_its_files(finished):
    assert sorted(path.name for path in finished.iterdir()) == [
        "README.md", "candidates.jsonl", "config.yaml", "critic", "evaluation.jsonl", "explanations.jsonl", "failures.jsonl", "hint_reading.json", "initial", "metrics.jsonl", "outcome_pairs.jsonl",
        "pairs_summary.json", "policy", "report.html", "results.json", "scores.jsonl", "stages.json",
        "timings.jsonl", "trajectories.jsonl", "turn_advantages.jsonl", "turn_pairs.jsonl", "versions.json",
    ]  # fmt: skip
    for model in ("initial", "critic", "policy"):
        assert {"config.json", "model.safetensors", "tokenizer.json"} <= {path.name for path in (finished / model).iterdir()}
    assert list(StageRecords(finished).stages) == list(STAGES) and all(map(StageRecords(finished).is_done, STAGES))


def test_metrics_stand_under_the_names_of_the_stages(finished):
    metrics = read_rows(finished / "metrics.jsonl")
    assert {row["stage"] for row in metrics} == {"sft", "collect", "critic", "rank", "actor"} and not any(
        "seconds" in row for row in metrics
    )
    times = read_rows(finished / "timings.jsonl")
    assert [(row["stage"], row["step"]) for row in times] == [
        (row["stage"], row["step"]) for row in metrics if row["stage"] not in ("collect", "rank")
    ]
    assert all(row["seconds"] >= 0 for row in times)


def test_the_rows_have_their_fields(finished):
    address = ["task_id", "episode", "turn"]
    expected = {
        "trajectories": (8, TRAJECTORY),
        "outcome_pairs": (4, ["task_id", "hidden", "chosen", "rejected", "chosen_score", "rejected_score"]),
        "candidates": (18, [*address, "texts", "num_tokens"]),
        "scores": (18, [*address, "advantages", "costs"]),
        "turn_advantages": (4, ["agent", "split", "task_id", "episode", "advantages"]),
    }
    for name, (count, fields) in expected.items():
        rows = read_rows(finished / f"{name}.jsonl")
        assert len(rows) == count, name
        assert all([field for field in row if not field.endswith("cut")] == fields for row in rows), name
    (ranked,) = [row for row in read_rows(finished / "metrics.jsonl") if row["stage"] == "rank"]
    read = sum(row["costs"]["scored_tokens"] for row in read_rows(finished / "scores.jsonl"))
    assert ranked == {"stage": "rank", "step": 18, "scored_tokens": read} and read > 0
    assert all(len(row["texts"]) == 3 for row in read_rows(finished / "candidates.jsonl"))
    assert all(len(row["advantages"]) == 3 for row in read_rows(finished / "scores.jsonl"))
    pairs = read_rows(finished / "turn_pairs.jsonl")
    assert pairs
    said = [[field for field in row if not field.endswith("_cut")] for row in pairs]
    assert all(fields == [*address, "prompt", "chosen", "rejected"] for fields in said)
    assert all(len(row["prompt"]) == 2 * row["turn"] - 1 for row in pairs)
    scores = {tuple(row[name] for name in address): row["advantages"] for row in read_rows(finished / "scores.jsonl")}
    texts = {tuple(row[name] for name in address): row["texts"] for row in read_rows(finished / "candidates.jsonl")}
    for row in pairs:
        key = tuple(row[name] for name in address)
        by_text = dict(zip(texts[key], scores[key], strict=True))
        assert row["chosen"] == row["rejected"] or by_text[row["chosen"]] > by_text[row["rejected"]]


def test_results_hold_start_and_result_on_both_splits(finished):
    results = json.loads((finished / "results.json").read_text())
    assert [name for name in results if name != "no_gain"] == [  # four tasks may show a gain, or not
        "initial",
        "trained",
        "differences",
        "metric",
        "success_means",
        "seconds",
        "seed",
        "algorithm",
        "tasks",
        "costs",
        "hint_reading",
        "critic",
        "wishes",
        "failures",
    ]
    dial = "topics=12&relevant=3&wishes=2&turns=6&points=1"
    assert results["tasks"] == {
        "train": f"embedded:train?{dial}", "test": f"embedded:test?{dial}[:300]", "unseen": f"embedded:unseen?{dial}",
    }  # fmt: skip
    assert results["hint_reading"] == json.loads((finished / "hint_reading.json").read_text())
    for agent in ("initial", "trained"):
        assert list(results[agent]) == ["test", "unseen"]
        for score in results[agent].values():
            assert list(score) == [
                "success",
                "tests_passed",
                "n",
                "void",
                "turns",
                "answered",
                "leak",
                "ci95",
                "cut_turns",
                "answer_cut",
                "links",
            ]
            assert score["n"] == 4
            assert list(score["ci95"]) == ["success", "tests_passed"]
    assert results["differences"] == differences(read_rows(finished / "evaluation.jsonl"), "tests_passed")
    pairs = [("test", "initial", "trained", 4), ("unseen", "initial", "trained", 4)]
    assert [(pair["split"], pair["from"], pair["to"], pair["n"]) for pair in results["differences"]] == pairs
    wishes = [(row["agent"], row["split"], row["n"]) for row in results["wishes"]]
    assert wishes == [(agent, split, 4) for agent in ("initial", "trained") for split in ("test", "unseen")]
    assert {row["stage"] for row in read_rows(finished / "metrics.jsonl")} <= {"sft", "collect", "critic", "rank", "actor"}


def test_no_actor_prompt_holds_what_is_hidden(finished):
    hint = HINT.split("}")[1].split("{")[0].strip()
    references = {row["task_id"]: row["task"]["ground_truth"] for row in read_rows(finished / "trajectories.jsonl")}
    for row in read_rows(finished / "turn_pairs.jsonl"):
        text = "\n".join(message["content"] for message in row["prompt"] if message["role"] != "assistant")
        assert hint not in text
        # The signature is public: the request quotes it.
        lines = [line.strip() for line in references[row["task_id"]].splitlines()[1:] if len(line.strip()) > 12]
        assert not [line for line in lines if line in text]
        assert {message["role"] for message in row["prompt"]} <= {"user", "assistant"}


def test_a_second_call_has_nothing_to_do(copied, capsys):
    folder = copied("report")
    before = {name: (folder / name).stat().st_mtime_ns for name in ("trajectories.jsonl", "evaluation.jsonl", "metrics.jsonl")}
    assert main(_arguments(folder)) == 0
    out = capsys.readouterr().out
    assert [line.split(":")[0] for line in out.splitlines() if "done before" in line] == list(STAGES)[:-1]
    assert before == {name: (folder / name).stat().st_mtime_ns for name in before}


def test_other_settings_in_the_same_folder_are_refused(finished, capsys):
    assert main(_arguments(finished, seed=1, **{"sweet.num_states": 17})) == 2
    assert capsys.readouterr().err == (
        f"error: {finished} has other settings, and files were made with them "
        "(seed: 0 there, 1 here, sweet.num_states: 18 there, 17 here); "
        "give the same settings to resume that run, or another `--output` to start a new one.\n"
    )


def test_a_setting_may_change_until_its_stage_has_begun(finished, tmp_path, capsys):
    folder = tmp_path / "run"
    folder.mkdir()
    for name in ("config.yaml", "initial", "trajectories.jsonl"):
        source = finished / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, folder / name)
    mark_done(folder, "sft", "collect")
    assert main([*_arguments(folder, min_best=1.0, **{"sweet.critic_beta": 0.2}), "--stage", "pairs"]) == 2
    assert "no trajectory that passes 100% of its tests" in capsys.readouterr().err.replace("No task has a", "no")
    assert main([*_arguments(folder, min_best=0.0, **{"sweet.critic_beta": 0.3}), "--stage", "pairs"]) == 0
    assert main([*_arguments(folder, min_best=0.5, **{"sweet.critic_beta": 0.3}), "--stage", "critic"]) == 2
    assert "(min_best: 0.0 there, 0.5 here)" in capsys.readouterr().err


def test_a_stage_needs_those_before_it(tmp_path, capsys):
    assert main([*_arguments(tmp_path / "run"), "--stage", "pairs"]) == 2
    assert capsys.readouterr().err == (
        "error: Stage 'pairs' needs the files of ['sft', 'collect']; run these first, or leave out `--stage`.\n"
    )


def test_a_pretrained_model_needs_no_imitation(tiny_model_folder, tmp_path):
    assert main([*_arguments(tmp_path / "run", model=tiny_model_folder, sft_dialogues=0), "--stage", "collect"]) == 0
    assert len(read_rows(tmp_path / "run" / "trajectories.jsonl")) == 8


def test_without_a_difference_there_is_nothing_to_learn(copied, capsys):
    folder = copied("pairs")
    rows = read_rows(folder / "trajectories.jsonl")
    for row in rows:
        row["metrics"]["tests_passed"] = 0.0
    write_rows(folder / "trajectories.jsonl", rows)
    mark_done(folder, "collect")
    assert main([*_arguments(folder), "--stage", "pairs"]) == 2
    said, cut = re.subn(r"and \d+ were cut", "and some were cut", capsys.readouterr().err)
    assert cut == 1 and said == (
        "error: No task has two trajectories of different tests_passed, so there is nothing to learn from. Start another run with more tasks, "
        "more trajectories per task, more SFT, or a better model. Of 24 collected turns, 0 said nothing and some were cut by the limit of tokens: "
        "raise `--max_new_tokens`.\n"
    )


def test_the_settings_of_a_run_can_be_given_back_as_a_file(finished, tmp_path):
    given = ["--config", str(finished / "config.yaml"), "--output", str(tmp_path)]
    assert parse(given).settings() == parse(_arguments(finished)).settings()
    assert parse([*given, "--sweet.num_states", "17"]).algorithm.config.num_states == 17


@pytest.mark.parametrize(
    ("stage", "file", "num_rows"), [("candidates", "candidates.jsonl", 5), ("evaluate", "evaluation.jsonl", 7)]
)
def test_a_stage_cut_short_resumes(stage, file, num_rows, copied, finished):
    folder = copied(stage)
    _cut(folder / file, num_rows)
    assert main(_arguments(folder)) == 0
    assert_same(folder, finished)


def test_a_ranking_cut_short_resumes(copied, finished, monkeypatch):
    monkeypatch.setattr("sweetrl_agent.algorithms.sweet.STATES_PER_BATCH", 16)
    folder = copied("rank")
    (folder / "turn_pairs.jsonl").unlink()
    _cut(folder / "scores.jsonl", 17)
    assert main([*_arguments(folder), "--stage", "rank"]) == 0
    for name in ("scores.jsonl", "turn_pairs.jsonl"):
        assert (folder / name).read_bytes() == (finished / name).read_bytes()


def test_candidates_of_other_trajectories_are_not_ranked(copied, capsys):
    folder = copied("rank")
    rows = read_rows(folder / "candidates.jsonl")
    write_rows(folder / "candidates.jsonl", [*rows[1:], rows[0]])
    record_again(folder, "candidates")
    assert main([*_arguments(folder), "--stage", "rank"]) == 2
    said = capsys.readouterr().err
    assert "candidates.jsonl belongs to other trajectories; remove it" in said and "Traceback" not in said


def test_trajectories_cut_short_resume(copied, finished):
    folder = copied("collect")
    _cut(folder / "trajectories.jsonl", 3)
    assert main([*_arguments(folder), "--stage", "collect"]) == 0
    give_luck(folder)
    assert (folder / "trajectories.jsonl").read_bytes() == (finished / "trajectories.jsonl").read_bytes()


def test_a_model_that_was_moved_in_but_not_marked_done_is_made_again(copied, finished):
    folder = copied("critic")
    assert main(_arguments(folder)) == 0
    assert_same(folder, finished)


def test_a_checkpoint_torn_by_a_kill_is_not_gone_on_with(copied, finished):
    folder = copied("actor")
    torn = folder / "policy" / "checkpoints" / "checkpoint-100"
    shutil.rmtree(folder / "policy")
    torn.mkdir(parents=True)
    (torn / "model.safetensors").write_bytes(b"torn")
    (torn / "trainer_state.json").write_text('{"epoch": 1')
    assert main(_arguments(folder)) == 0
    assert_same(folder, finished)


def _cut(path, num_rows):
    """Keep some rows and the first part of the next."""
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:num_rows]) + lines[num_rows][:20])


@pytest.mark.slow
def test_killed_at_any_moment_a_run_ends_with_the_same_bytes(tmp_path):
    changes = {
        "sft_batch": 1,
        "sft_dialogues": 130,
        "sweet.critic_batch": 1,
        "sweet.critic_micro_batch": 1,
        "sweet.critic_epochs": 30,
    }
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    _run_all(whole, **changes)
    early = [
        "initial/checkpoints/checkpoint-*",
        "initial/checkpoints/checkpoint-*/trainer_state.json",
        "initial/model.safetensors",
    ]
    for stage, moments in (("sft", early), ("collect", ["trajectories.jsonl"])):
        for moment in moments:
            kill_at(moment, _arguments(killed, stage=stage, **changes), killed)
        assert main(_arguments(killed, stage=stage, **changes)) == 0
    give_luck(killed)
    for moment in [
        "outcome_pairs.jsonl", "critic/checkpoints/checkpoint-*/trainer_state.json", "critic/model.safetensors",
        "candidates.jsonl", "turn_pairs.jsonl", "policy/config.json", "evaluation.jsonl", "turn_advantages.jsonl", "results.json",
    ]:  # fmt: skip
        kill_at(moment, _arguments(killed, **changes), killed)
    assert main(_arguments(killed, **changes)) == 0
    assert_same(killed, whole)
