"""SFT of a pretrained model: what is trained on, the merged model, and when it is left out."""

from __future__ import annotations

import json
import re

import pytest
import torch
from transformers import AutoModelForCausalLM
from trl.trainer.sft_trainer import DataCollatorForLanguageModeling

from colbench_gym.agents.prompts import PROMPTS
from colbench_gym.files import read_rows, write_rows
from colbench_gym.scoring.answer import ANSWER_MARKER
from sweetrl_agent.core.hint import hint_message
from sweetrl_agent.core.messages import system_message
from sweetrl_agent.data.chat import Chat
from sweetrl_agent.envs.registry import find_record
from sweetrl_agent.models.loading import load_tokenizer
from sweetrl_agent.trainers import sft_stage
from sweetrl_agent.trainers.sft import sft_dataset
from sweetrl_agent.trainers.sft_stage import demonstrations, pretrained_trainer, train_initial
from sweetrl_agent.trainers.trl.cpu_head import score_labelled_tokens_only

SETTINGS = {
    "sft_dialogues": 48, "sft_batch": 4, "sft_micro_batch": 4, "sft_epochs": 2, "sft_learning_rate": 2e-2, "lora_r": 8,
    "dtype": "float32", "system_prompt": "brief",
}  # fmt: skip
ROW = {"problem_description": "x", "ground_truth": "def f(a):\n    return a", "test_cases": {"t": "f(1)"}}
TALK = [{"role": "user", "content": "I need it."}, {"role": "assistant", "content": "Why?"}]


@pytest.fixture
def run(make_run, tiny_model_folder):
    """A run with a pretrained model whose initial policy is not made yet."""
    return make_run(model=str(tiny_model_folder), **SETTINGS)


def _loss(model, run, tokenizer):
    data = sft_dataset([[*system_message(PROMPTS["brief"]), *one] for one in demonstrations(run)[:16]], Chat(tokenizer))
    batch = DataCollatorForLanguageModeling(pad_token_id=tokenizer.pad_token_id)(list(data))
    with torch.no_grad():
        return float(model.eval()(**batch).loss)


def test_the_adapters_are_merged_into_a_whole_model_that_has_learnt(run, tiny_model_folder):
    train_initial(run)
    folder = run.path("initial")
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= {path.name for path in folder.iterdir()}
    assert not (folder / "adapter_config.json").exists() and not (folder / "checkpoints").exists()
    trainer, tokenizer = pretrained_trainer(run)
    score_labelled_tokens_only(trainer)  # as the stage does: TRL 1.15 has no head for a CPU
    trainer.train()  # the same again: its adapters are not merged
    whole, base = (AutoModelForCausalLM.from_pretrained(path) for path in (folder, tiny_model_folder))
    ids = torch.randint(len(tokenizer), (4, 30), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected, got, before = (model.eval()(ids).logits for model in (trainer.model, whole, base))
    torch.testing.assert_close(got, expected, rtol=1e-3, atol=1e-3)
    assert (got - before).abs().max() > 0.1
    assert _loss(whole, run, tokenizer) < _loss(base, run, tokenizer) - 0.5
    rows = [row for row in read_rows(run.path("metrics.jsonl")) if row["stage"] == "sft"]
    assert rows[-1]["loss"] < rows[0]["loss"] - 0.5 and rows[-1]["step"] == 24
    assert run.initial_model == str(folder)


def test_it_is_trained_behind_the_instructions_on_the_agents_turns(run):
    trainer, tokenizer = pretrained_trainer(run)
    assert len(trainer.train_dataset) == 96 and trainer.args.save_steps == 10
    text = tokenizer.decode(trainer.train_dataset[0]["input_ids"])
    assert PROMPTS["brief"] in text and "```python" in text
    labels = [token for token in trainer.train_dataset[0]["labels"] if token != -100]
    said = tokenizer.decode(labels)
    assert ANSWER_MARKER in said and PROMPTS["brief"] not in said and "return" in said


def test_hidden_information_follows_the_instructions():
    guided = [*hint_message("def total(x): ..."), *TALK]
    (first, *rest), (alone, *_) = sft_stage._instructed(guided, "Ask first."), sft_stage._instructed(guided, "")
    assert first == {"role": "system", "content": f"Ask first.\n\n{guided[0]['content']}"} and rest == TALK
    assert alone == guided[0]
    assert sft_stage._instructed(TALK, "Ask first.") == [*system_message("Ask first."), *TALK]
    assert sft_stage._instructed(TALK, "") == TALK


@pytest.fixture
def rows(tmp_path):
    """A file of tasks without demonstrations."""
    write_rows(tmp_path / "rows.jsonl", [ROW] * 10)
    return tmp_path / "rows.jsonl"


def _of_rows(rows, **settings):
    return {"tasks": str(rows), "test_tasks": "", **settings}


def test_it_is_left_out_without_dialogues_or_demonstrations(make_run, tiny_model_folder, rows, tmp_path):
    given = {**SETTINGS, "model": str(tiny_model_folder)}
    for settings in ({"sft_dialogues": 0}, _of_rows(rows)):
        run = make_run(**given | settings)
        assert not run.config.has_sft and run.initial_model == str(tiny_model_folder)
        train_initial(run)
        assert not run.path("initial").exists() and not run.path("metrics.jsonl").exists()
    write_rows(tmp_path / "talks.jsonl", [{"messages": TALK}] * 4)
    run = make_run(**given | _of_rows(rows, demonstrations=str(tmp_path / "talks.jsonl")))
    assert run.config.has_sft and demonstrations(run) == [TALK] * 4
    source = make_run(**given | _of_rows(rows, demonstrations="embedded:train[:5]"))
    assert source.config.has_sft and len(demonstrations(source)) == SETTINGS["sft_dialogues"]
    assert not make_run(**given | {"demonstrations": str(tmp_path / "talks.jsonl"), "sft_dialogues": 0}).config.has_sft


def test_demonstrations_for_a_pretrained_model_are_its_own(run, make_run):
    own, tiny = demonstrations(run), demonstrations(make_run(sft_dialogues=48))
    assert len(own) == len(tiny) == 48
    assert all(f"{ANSWER_MARKER}\n```python\n" in dialogue[-1]["content"] for dialogue in own)
    assert not any(dialogue[0]["role"] == "system" for dialogue in own) and any(d[0]["role"] == "system" for d in tiny)
    assert not any("```" in dialogue[-1]["content"] for dialogue in tiny)


def test_the_tokenizer_and_the_prompt_are_kept(run, tiny_tokenizer):
    _, tokenizer = pretrained_trainer(run)
    assert json.dumps(tokenizer.chat_template) == json.dumps(tiny_tokenizer.chat_template)
    assert load_tokenizer(run.config.model.model, run.config.model).get_vocab() == tokenizer.get_vocab()


def _shares(dialogues):
    return sum(dialogue[0]["role"] == "system" for dialogue in dialogues) / len(dialogues)


def test_the_share_of_guided_demonstrations_is_a_setting(make_run, tiny_model_folder):
    """Dialogues that are not guided are the same at every share: an experiment on the share changes nothing else."""
    plain, half = (demonstrations(make_run(sft_dialogues=48, **given)) for given in ({"sft_hinted": 0.0}, {}))
    assert _shares(plain) == 0 < _shares(half) < 1
    assert all(mine == theirs for mine, theirs in zip(plain, half, strict=True) if theirs[0]["role"] != "system")
    pretrained = make_run(sft_dialogues=48, model=str(tiny_model_folder), sft_hinted=1.0)
    assert 0 < _shares(demonstrations(pretrained)) < 1  # all but the writing exercises
    assert pretrained.config.initial_policy == "sft" and make_run(sft_hinted=-1.0, seed=0).config.sft.sft_hinted == -1


@pytest.mark.parametrize("name", ["ColBench-Team-v0", "ColBench-Split-v0", "ColBench-Frontend-v0"])
def test_other_records_take_the_share_too(name):
    record = find_record(name)
    assert record.with_hinted(0.25).hinted == 0.25 and record.hinted is None


def test_a_share_that_cannot_be_had_is_refused(make_run, tmp_path):
    write_rows(tmp_path / "talks.jsonl", [{"messages": TALK}] * 4)
    for given, refusal in (
        ({"sft_hinted": 1.5}, "`sft_hinted` must be at most 1, got 1.5"),
        ({"sft_hinted": -0.5}, "`sft_hinted` must be from 0 to 1, or -1 for the environment's own share, got -0.5"),
        ({"sft_hinted": 0.5, "demonstrations": str(tmp_path / "talks.jsonl")}, "`sft_hinted` is for an environment's own demonstrations"),
        ({"sft_hinted": 0.5, "env": "LMRL-Maze-v0", "tasks": "seeds:0-9", "test_tasks": "seeds:10-11"}, "have no share that is guided"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=re.escape(refusal)):
            make_run(**given)
