"""The matrix of families: every family trains, evaluates and resumes, or its dry run says why not; and folders of other kinds, where dry run and run agree."""

from __future__ import annotations

import json

import pytest
import torch
from peft import LoraConfig, get_peft_model

from sweetrl_agent import evaluate, train
from sweetrl_agent.config.model import ModelArguments
from sweetrl_agent.models.loading import initial_model, load_chat, load_model
from tests.words import words

from .families import FAMILIES, build_model, build_tokenizer, write_model
from .killed_runs import assert_same, kill_at
from .matrix import GAME, OPENED, TRAIN, YES, agreed, call, read, row
from .vowels_game import write_behaviour

LLAMA = FAMILIES["llama-3"]
pytestmark = [
    pytest.mark.filterwarnings("ignore:Could not find a config file"),  # peft, of a base that is an adapter
    pytest.mark.filterwarnings(
        "ignore:The following (rank|alpha)_pattern keys did not match"
    ),  # peft, of experts that get no adapter
]


def test_the_recorded_matrix_has_no_third_outcome():
    rows = read()
    recorded = [one["family"] for one in rows]
    assert recorded == [*FAMILIES]
    cells = [one[name] for one in rows for name in ("sft", "sweet", "grpo", "rft", "mtdpo", "ilql", "evaluate", "resume")]
    assert {*cells} <= {YES, "no"}
    assert all((one["dry_run"] == YES) == (one["sft"] == YES) for one in rows)


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_does_what_is_recorded(name, tmp_path):
    if FAMILIES[name].template.read() is None:
        pytest.skip(FAMILIES[name].template.missing)
    assert row(name, tmp_path) == next(one for one in read() if one["family"] == name)


#: Moments at which a run is killed, one after the other: paths that are there as soon as they come.
MOMENTS = {
    "sweet": ["trajectories.jsonl", "critic/checkpoints/checkpoint-*/trainer_state.json", "candidates.jsonl", "policy/checkpoints/checkpoint-*/trainer_state.json"],
    "mtdpo": ["outcome_pairs.jsonl", "mtdpo/*/checkpoints/checkpoint-*/trainer_state.json"],
    "ilql": ["ilql/*/checkpoints/checkpoint-*/trainer_state.json"],
    "grpo": ["grpo/checkpoint.pt"],
    "rft": ["rft/*/checkpoints/checkpoint-*/trainer_state.json"],
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", MOMENTS)
@pytest.mark.parametrize("name", ["qwen-3", "deepseek-r1-distill"])
def test_a_killed_run_ends_with_the_same_bytes(name, algorithm, tmp_path):
    """Of models whose dialogues are sequences of single turns."""
    if FAMILIES[name].template.read() is None:
        pytest.skip(FAMILIES[name].template.missing)
    model, data = write_model(FAMILIES[name], tmp_path / "model"), write_behaviour(tmp_path / "data.jsonl")
    given = {
        **TRAIN,
        **({"reasoning": "none"} if name in OPENED else {}),
        "model": model,
        "demonstrations": data,
        "algorithm": algorithm,
    }
    arguments = ModelArguments(model=str(model), reasoning=str(given.get("reasoning", "auto")))
    assert not load_chat(str(model), arguments).is_append_only
    whole, folder = tmp_path / "whole", tmp_path / "killed"
    assert call(train.main, *words(**given, output=whole))[0] == YES
    for moment in (*MOMENTS[algorithm], "evaluation.jsonl"):
        kill_at(moment, words(given, output=folder), folder)
    assert call(train.main, *words(**given, output=folder))[0] == YES
    assert_same(folder, whole)


@pytest.fixture
def job(tmp_path):
    """Function: model folder, settings -> what dry run and run of rejection fine-tuning agree on, and what those of an evaluation do."""
    data = write_behaviour(tmp_path / "data.jsonl")

    def run(model, name="run", **settings):
        given = {**TRAIN, "model": model, "demonstrations": data, "algorithm": "rft", "output": tmp_path / name, **settings}
        played = {**GAME, "tasks": "seeds:100-101", "output": tmp_path / f"{name}_evaluated"}
        return agreed(train.main, *words(**given))[0], agreed(evaluate.main, model, *words(**played))[0]

    return run


def _write_adapter(folder):
    """An adapter far from zero, without a tokenizer; its base is beside it."""
    base = write_model(LLAMA, folder.parent / "base")
    config = LoraConfig(r=2, target_modules="all-linear", task_type="CAUSAL_LM")
    adapted = get_peft_model(build_model(LLAMA, build_tokenizer(LLAMA)), config)
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_B" in name:
                parameter.normal_(0, 0.1)
    adapted.peft_config["default"].base_model_name_or_path = str(base)
    adapted.save_pretrained(folder)
    return folder, base, adapted


FOLDERS = {
    "no padding token": {"pad": ""},
    "padding is the end token": {"pad": LLAMA.eos},
    "a padded vocabulary": {"vocab_size": 512},
    "tied": {"tie_word_embeddings": True},
    "shards": {"max_shard_size": "40KB"},
}


@pytest.mark.parametrize(
    "kind", [*list(FOLDERS)[:1], *(pytest.param(kind, marks=pytest.mark.slow) for kind in list(FOLDERS)[1:])]
)
def test_folders_of_every_kind_train_and_are_evaluated(kind, job, tmp_path):
    model = write_model(LLAMA, tmp_path / "model", **FOLDERS[kind])
    assert job(model, lora=kind == "shards") == (YES, YES)


def test_an_adapter_is_a_model(job, tmp_path):
    folder, _, adapted = _write_adapter(tmp_path / "adapter")
    ids = torch.arange(30)[None]
    with torch.no_grad():
        expected = adapted(ids).logits
        loaded = load_model(str(folder), str(folder), ModelArguments(model=str(folder)))
        torch.testing.assert_close(loaded(ids).logits, expected, atol=1e-4, rtol=1e-4)
    assert all(parameter.requires_grad for parameter in loaded.parameters()), "all weights can be trained"
    assert job(folder) == (YES, YES)


def test_an_adapter_on_an_adapter_names_it_as_its_base(job, tmp_path):
    folder, _, _ = _write_adapter(tmp_path / "adapter")
    assert job(folder, lora=True, sft_dialogues=0) == (YES, YES)
    saved = tmp_path / "run" / "rft" / "agent"
    assert json.loads((saved / "adapter_config.json").read_text())["base_model_name_or_path"] == str(folder)
    assert agreed(evaluate.main, tmp_path / "run", *words(output=tmp_path / "again"))[0] == YES


def test_a_context_that_is_too_short_for_a_dialogue_is_refused(job, tmp_path):
    model = write_model(LLAMA, tmp_path / "model", max_position_embeddings=64)
    for sentence in job(model):
        assert (
            "has a context of 64 tokens; a dialogue of short messages takes 76, and the agent's last one up to 8 more"
            in sentence
        )


def test_experts_get_no_loss_of_their_own(tmp_path):
    for name in ("gpt-oss", "glm-4.5"):
        model = write_model(FAMILIES[name], tmp_path / name, **({"output_router_logits": True} if name == "gpt-oss" else {}))
        config = initial_model(str(model), ModelArguments(model=str(model)))["model"].config
        assert not getattr(config, "output_router_logits", False) and not getattr(config, "router_aux_loss_coef", 0.0)
