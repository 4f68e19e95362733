"""The initial policy that comes with the package: it is not stale, it is used where it fits and nowhere else."""

from __future__ import annotations

import json
import logging
import shutil

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback

from colbench_gym.errors import ColBenchError
from colbench_gym.seeds import derive_seed
from docs.tools.packaged_policy import RECORDED_STEPS, checksum
from sweetrl_agent.algorithms.settings import make_config
from sweetrl_agent.config import packaged
from sweetrl_agent.config.packaged import FOLDER, copy_to, differences, made_from, shaping_settings
from sweetrl_agent.evaluation import comparison_job
from sweetrl_agent.policies.continuous import ContinuousTransformersPolicy
from sweetrl_agent.policies.utterances import Speaker
from sweetrl_agent.trainers import sft_stage
from sweetrl_agent.trainers.run import Run

AGAIN = "It is stale; make it again: python -m docs.tools.packaged_policy"


@pytest.fixture(scope="module")
def default_run(tmp_path_factory):
    """A run with all defaults."""
    return Run(make_config({"output": str(tmp_path_factory.mktemp("default") / "run"), "threads": 1}))


class _StopEarly(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        control.should_training_stop = state.global_step >= RECORDED_STEPS


def test_it_is_what_sft_at_the_default_settings_makes(default_run, monkeypatch):
    made = made_from()
    assert made["settings"] == shaping_settings(make_config()), AGAIN
    assert {path.name for path in FOLDER.iterdir()} == {*made["sha256"], packaged.RECORD}
    shown = sft_stage.demonstrations(default_run)
    assert checksum(shown) == made["demonstrations"], AGAIN
    monkeypatch.setattr(sft_stage, "demonstrations", lambda run: shown)  # they are not played a second time
    trainer, tokenizer = sft_stage.sft_trainer(default_run)
    assert tokenizer.get_vocab() == AutoTokenizer.from_pretrained(FOLDER).get_vocab(), AGAIN
    assert tokenizer.chat_template == AutoTokenizer.from_pretrained(FOLDER).chat_template, AGAIN
    there = AutoModelForCausalLM.from_pretrained(FOLDER).config.to_dict()
    here = trainer.model.config.to_dict()
    assert {name: there[name] for name in ("hidden_size", "num_hidden_layers", "intermediate_size", "vocab_size")} == {
        name: here[name] for name in ("hidden_size", "num_hidden_layers", "intermediate_size", "vocab_size")
    }, AGAIN
    trainer.add_callback(_StopEarly())
    trainer.train()
    losses = {str(row["step"]): row["loss"] for row in trainer.state.log_history if "loss" in row}
    assert losses.keys() == made["losses"].keys()
    for step, loss in losses.items():  # processors round differently
        assert loss == pytest.approx(made["losses"][step], rel=0.02), AGAIN


def test_it_converses_and_answers():
    policy = ContinuousTransformersPolicy(
        AutoModelForCausalLM.from_pretrained(FOLDER), Speaker(AutoTokenizer.from_pretrained(FOLDER), max_new_tokens=40)
    )
    request = (
        "Write a function that gives the largest of a list of numbers. The signature of the function is: def largest(values)"
    )
    told = [
        {"role": "user", "content": request},
        {"role": "assistant", "content": "In which unit are the numbers?"},
        {"role": "user", "content": "The numbers count halves: divide each of them by 2 before you use them."},
    ]
    dialogues = [told[:1]] * 4 + [told] * 4
    said = [utterance.text for utterance in policy.generate(dialogues, [derive_seed(0, "say", i) for i in range(8)])]
    assert any("?" in text for text in said)


def test_a_run_with_its_settings_takes_it(default_run, capsys):
    sft_stage.train_initial(default_run)
    for name, checksum_there in made_from()["sha256"].items():
        assert packaged.sha256(default_run.path("initial") / name) == checksum_there
    assert not default_run.path("metrics.jsonl").exists()
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"seed": 3}, ["seed 3 (0 there)"]),
        ({"tiny_layers": 1, "sft_epochs": 1}, ["sft_epochs 1 (2 there)", "tiny_layers 1 (3 there)"]),
        ({"max_turns": 4}, ["max_turns 4 (0 there)"]),
        ({"test_tasks": ""}, ["tests_from_tasks True (False there)"]),
        ({"num_tasks": 9, "eval_tasks": 2, "temperature": 0.5, "sweet.actor_beta": 2.0, "unseen_tasks": ""}, []),
    ],
)
def test_it_fits_where_all_settings_that_shape_sft_are_equal(settings, named):
    assert differences(make_config(settings)) == named


def test_another_dial_and_another_domain_are_other_tasks():
    for tasks in ("embedded:train?preset=hard", "embedded:train/figures"):
        (found,) = differences(make_config({"tasks": tasks}))
        assert found.startswith("tasks 'embedded:train")
    assert differences(make_config({"tasks": "embedded:train?preset=standard"})) == []


def test_where_it_does_not_fit_sft_says_why_and_trains(make_run, monkeypatch, caplog):
    caplog.set_level(logging.INFO)

    class Stop(Exception):
        """Raised in place of the training."""

    def stop(run):
        raise Stop

    monkeypatch.setattr(sft_stage, "sft_trainer", stop)
    run = make_run(seed=3)
    with pytest.raises(Stop):
        sft_stage.train_initial(run)
    assert caplog.messages[0].startswith(
        "The initial policy of the package is for other settings, so SFT trains one: seed 3 (0 there), tasks 'embedded:train"
    )
    caplog.clear()
    with pytest.raises(Stop):
        sft_stage.train_initial(make_run(seed=3, initial_policy="sft"))
    assert caplog.messages == []


def test_a_comparison_never_takes_it(tmp_path):
    _, config = comparison_job.parse(["--output", str(tmp_path)])
    assert config.sft.initial_policy == "sft"
    _, config = comparison_job.parse(["--output", str(tmp_path), "--initial_policy", "packaged"])
    assert config.sft.initial_policy == "sft"


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json"])
def test_a_changed_file_is_refused(name, tmp_path):
    folder = tmp_path / "package"
    shutil.copytree(FOLDER, folder)
    with (folder / name).open("ab") as file:
        file.write(b" ")
    with pytest.raises(ColBenchError, match=f"not intact .*{name} has another checksum.*--initial_policy sft"):
        copy_to(tmp_path / "initial", folder)
    (folder / name).unlink()
    with pytest.raises(ColBenchError, match="not intact"):
        copy_to(tmp_path / "initial", folder)
    assert not (tmp_path / "initial").exists()


def test_a_broken_record_is_refused(tmp_path):
    (tmp_path / packaged.RECORD).write_text("{")
    with pytest.raises(ColBenchError, match="not intact"):
        made_from(tmp_path)


def test_the_command_that_makes_it_records_what_it_was_made_with(make_run, tmp_path, tiny_model_folder):
    from colbench_gym.files import write_rows
    from docs.tools.packaged_policy import keep

    run = make_run(sft_dialogues=4)
    shutil.copytree(tiny_model_folder, run.path("initial"))
    write_rows(run.path("metrics.jsonl"), [{"stage": "sft", "step": step, "loss": float(step)} for step in (1, 10, 20)])
    keep(run, tmp_path / "kept")
    made = json.loads((tmp_path / "kept" / packaged.RECORD).read_text())
    assert made["losses"] == {"1": 1.0, "10": 10.0}
    assert made["settings"]["sft_dialogues"] == 4
    copy_to(tmp_path / "copy", tmp_path / "kept")
    weights = [next(AutoModelForCausalLM.from_pretrained(path).parameters()) for path in (tiny_model_folder, tmp_path / "copy")]
    assert (weights[0].bfloat16() == weights[1].bfloat16()).all()
