"""The main job with a pretrained model and adapters: SFT that is merged, three agents in the evaluation, and going on after a kill."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file
from transformers import Qwen2Config, Qwen2ForCausalLM

from colbench_gym.files import read_rows
from sweetrl_agent.train import main
from tests.words import words

from .killed_runs import assert_same, give_luck, kill_at, reopen_from

SETTINGS = {
    "sft_dialogues": 44, "sft_batch": 4, "lora": "true", "lora_layers": 1, "lora_r": 2, "num_tasks": 4, "trajectories_per_task": 2,
    "sweet.num_states": 12, "sweet.num_candidates": 3, "eval_tasks": 2, "shown_dialogues": 1, "max_new_tokens": 12, "max_turns": 3, "min_best": 0.0,
    "generation_batch": 3, "sweet.critic_epochs": 6, "sweet.critic_batch": 2, "sweet.critic_micro_batch": 1, "sweet.actor_batch": 2, "sweet.actor_micro_batch": 1,
    "sweet.actor_epochs": 2, "sweet.critic_held_out": 0.25, "sweet.critic_replies": "false", "sweet.answers": "verifier", "eval_pretrained": "example", "hint_turns": 2, "sandbox": "embedded", "threads": 1,
}  # fmt: skip
AGENTS = ["pretrained", "initial", "trained"]


@pytest.fixture(scope="module")
def qwen(tiny_tokenizer, tmp_path_factory):
    """Folder of a random Qwen2 of two layers with tied embeddings, as the small ones have."""
    folder = tmp_path_factory.mktemp("qwen") / "model"
    torch.manual_seed(0)
    shape = {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
    }
    ids = {"eos_token_id": tiny_tokenizer.eos_token_id, "pad_token_id": tiny_tokenizer.pad_token_id, "bos_token_id": None}
    model = Qwen2ForCausalLM(Qwen2Config(vocab_size=len(tiny_tokenizer), tie_word_embeddings=True, **shape, **ids))
    model.save_pretrained(folder)
    tiny_tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def arguments(qwen):
    """Function: folder, settings -> words of the command."""
    return lambda folder, **changes: words({**SETTINGS, "model": qwen, "output": folder, **changes})


@pytest.fixture(scope="module")
def finished(arguments, tmp_path_factory):
    """The folder of a run that nobody killed."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    for stage in ("sft", "collect"):
        assert main([*arguments(folder), "--stage", stage]) == 0
    give_luck(folder)
    assert main(arguments(folder)) == 0
    return folder


def _results(folder):
    return json.loads((folder / "results.json").read_text())


def test_the_initial_policy_is_a_whole_model_and_the_others_are_adapters_on_it(finished, qwen):
    whole, base = load_file(finished / "initial" / "model.safetensors"), load_file(qwen / "model.safetensors")
    assert whole.keys() == base.keys()
    changed = {name.split(".")[2] for name in base if not torch.equal(whole[name].float(), base[name].to(whole[name]).float())}
    assert changed == {"1"}, "adapters are in the last layer only"
    assert not (finished / "initial" / "adapter_config.json").exists() and not list(finished.glob("*.part"))
    for folder in (finished / "critic", finished / "policy"):
        assert not (folder / "model.safetensors").exists()
        assert json.loads((folder / "adapter_config.json").read_text())["base_model_name_or_path"] == str(finished / "initial")
        layers = {name.split(".layers.")[1][0] for name in load_file(folder / "adapter_model.safetensors")}
        assert layers == {"1"}


def test_the_model_is_evaluated_as_it_came_too(finished):
    results = _results(finished)
    assert [name for name in results if name in AGENTS] == AGENTS
    assert all(score["n"] == 2 for name in AGENTS for score in results[name].values())
    pairs = [(pair["from"], pair["to"]) for pair in results["differences"] if pair["split"] == "test"]
    assert pairs == [("pretrained", "initial"), ("pretrained", "trained"), ("initial", "trained")]
    assert [row["agent"] for row in results["wishes"] if row["split"] == "test"] == AGENTS
    rows = read_rows(finished / "evaluation.jsonl")
    first = {name: [row["dialogue_history"] for row in rows if row["agent"] == name] for name in AGENTS}
    assert first["pretrained"] != first["initial"] != first["trained"]


def test_all_stages_log_under_their_names(finished):
    metrics = read_rows(finished / "metrics.jsonl")
    assert {row["stage"] for row in metrics} == {"sft", "collect", "critic", "rank", "actor"}
    steps = {stage: max(row["step"] for row in metrics if row["stage"] == stage) for stage in ("sft", "critic", "actor")}
    assert min(steps.values()) >= 10, "every stage has a checkpoint"
    saved, logged = (
        {row["step"] for row in metrics if row["stage"] == "critic" and name in row} for name in ("eval_loss", "loss")
    )
    assert len(saved) == 6 and saved <= logged, "after a resume, means begin where they do in a whole run"


def test_killed_in_sft_after_a_checkpoint_it_ends_with_the_same_model(arguments, finished, tmp_path, caplog):
    folder = tmp_path / "killed"
    kill_at("initial/checkpoints/checkpoint-*/trainer_state.json", arguments(folder), folder)
    shutil.rmtree(folder / "initial.part", ignore_errors=True)
    (folder / "initial.part").mkdir()
    (folder / "initial.part" / "model.safetensors").write_bytes(b"torn")  # as if killed while it was written
    with caplog.at_level("INFO"):
        assert main([*arguments(folder), "--stage", "sft"]) == 0
    assert "sft: resumes from step 10" in caplog.text
    one, two = ({path.name: path.read_bytes() for path in (of / "initial").iterdir()} for of in (folder, finished))
    assert one == two and not (folder / "initial.part").exists()


@pytest.mark.parametrize("stage", ["critic", "actor"])
def test_a_torn_checkpoint_of_an_adapter_is_not_read(stage, arguments, finished, tmp_path):
    folder = tmp_path / "torn"
    shutil.copytree(finished, folder)
    reopen_from(folder, stage)
    target = {"critic": "critic", "actor": "policy"}[stage]
    shutil.rmtree(folder / target)
    torn = folder / target / "checkpoints" / "checkpoint-10"
    torn.mkdir(parents=True)
    (torn / "adapter_model.safetensors").write_bytes(b"torn")
    assert main([*arguments(folder), "--stage", stage]) == 0
    weights = [(of / target / "adapter_model.safetensors").read_bytes() for of in (folder, finished)]
    assert weights[0] == weights[1]


@pytest.mark.slow
def test_killed_in_every_stage_a_run_ends_with_the_same_bytes(arguments, finished, tmp_path):
    folder = tmp_path / "killed"
    for stage, moments in {
        "sft": ["initial/checkpoints/checkpoint-*", "initial/checkpoints/checkpoint-*/trainer_state.json", "initial.part/*", "initial/config.json"],
        "collect": ["trajectories.jsonl"],
    }.items():  # fmt: skip
        for moment in moments:
            kill_at(moment, arguments(folder, stage=stage), folder)
        assert main(arguments(folder, stage=stage)) == 0
    give_luck(folder)
    for moment in [
        "critic/checkpoints/checkpoint-*/trainer_state.json", "critic.part/*", "candidates.jsonl", "scores.jsonl", "turn_pairs.jsonl",
        "policy/checkpoints/checkpoint-*/trainer_state.json", "policy.part/*", "policy/adapter_config.json", "evaluation.jsonl",
        "turn_advantages.jsonl", "results.json",
    ]:  # fmt: skip
        kill_at(moment, arguments(folder), folder)
    assert main(arguments(folder)) == 0
    assert_same(folder, finished)
