"""Training of token-level values: what is kept, and that a killed training resumes to the same files."""

from __future__ import annotations

import shutil

import pytest
import torch
from safetensors.torch import load_file
from transformers import TrainerCallback

from colbench_gym.files import read_rows, write_rows
from sweetrl_agent.core.callback import Callbacks
from sweetrl_agent.critics.token_values import VALUES
from sweetrl_agent.models.loading import load_model
from sweetrl_agent.trainers import token_values

from ..behaviour import guesses

#: Optimizer steps of the runs here, between two checkpoints and before a kill.
STEPS, SAVED, KILLED = 18, 10, 13


class _Kill(TrainerCallback):
    """Ends the training between two checkpoints, as a kill does."""

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == KILLED:
            raise KeyboardInterrupt


@pytest.fixture
def run_in(make_run, tiny_model_folder, tmp_path, monkeypatch):
    """Function: folder, settings -> a run with behaviour data of the number game, after SFT, with frequent checkpoints."""
    write_rows(tmp_path / "data.jsonl", [episode.to_row() for episode in guesses(24)])
    arguments = token_values.trainer_arguments
    monkeypatch.setattr(token_values, "trainer_arguments", lambda *given: {**arguments(*given), "save_steps": SAVED})
    given = {
        "model": str(tiny_model_folder), "demonstrations": str(tmp_path / "data.jsonl"), "sft_dialogues": 24,
        **{f"{name}.{setting}": value for name in ("mc", "ilql") for setting, value in (("batch", 4), ("epochs", 3.0))},
    }  # fmt: skip

    def make(folder, callbacks=(), **settings):
        run = make_run(output=str(tmp_path / folder), **{**given, "dtype": "float32", **settings})
        if not run.path("initial").exists():
            shutil.copytree(tiny_model_folder, run.path("initial"))
        run.callbacks = Callbacks(run, trainer_callbacks=callbacks)
        return run

    return make


def _files(run, name):
    return {path.name: path.read_bytes() for path in run.path(f"{name}/agent").iterdir() if path.is_file()}


@pytest.mark.parametrize(("name", "lora"), [("ilql", False), ("ilql", True), ("mc", False)])
def test_a_killed_training_resumes_to_the_same_files(run_in, name, lora):
    (whole := run_in("whole", lora=lora)).config.algorithms[name].train(whole)
    with pytest.raises(KeyboardInterrupt):
        (run := run_in("killed", [_Kill()], lora=lora)).config.algorithms[name].train(run)
    killed = run_in("killed", lora=lora)
    assert [path.name for path in killed.path(f"{name}/agent/checkpoints").iterdir()] == [f"checkpoint-{SAVED}"]
    killed.config.algorithms[name].train(killed)
    assert _files(whole, name) == _files(killed, name)
    assert {VALUES, "tokenizer.json"} <= _files(whole, name).keys()
    (metrics, resumed) = (read_rows(run.path("metrics.jsonl")) for run in (whole, killed))
    assert metrics == resumed and [(row["stage"], row["step"]) for row in metrics] == [
        (name, step) for step in (1, SAVED, STEPS)
    ]


def test_the_body_is_trained_and_the_target_follows_it_slowly(run_in):
    run = run_in("run", **{"ilql.polyak": 0.01})
    run.config.algorithms["ilql"].train(run)
    saved = load_file(run.path("ilql/agent") / VALUES)
    initial = load_model(run.initial_model, run.initial_model, run.config.model).model.state_dict()
    moved, followed = (
        torch.cat([(saved[f"{part}.body.{name}"] - weight).flatten() for name, weight in initial.items()])
        for part in ("online", "target")
    )
    assert float(moved.abs().max()) > 1e-3
    assert 0.0 < float(followed.norm() / moved.norm()) < 1 - 0.99**STEPS


def test_the_loaded_policy_acts_by_the_saved_target_and_the_initial_policy(run_in):
    run = run_in("run", **{"ilql.beta": 7.0})
    run.config.algorithms["ilql"].train(run)
    policy = run.config.algorithms["ilql"].load(run)
    saved = load_file(run.path("ilql/agent") / VALUES)
    model = policy.model
    assert model.beta == 7.0
    for name, weight in model.values.state_dict().items():
        assert torch.equal(weight, saved[f"target.{name}"])
    initial = load_model(run.initial_model, run.initial_model, run.config.model)
    assert all(torch.equal(a, b) for a, b in zip(initial.parameters(), model.policy.parameters(), strict=True))
    (said,) = policy.generate([[{"role": "user", "content": "Guess my number from 1 to 15."}]], [1])
    assert len(said.token_ids) == len(said.log_probs) > 0


def test_values_of_a_bfloat16_model_are_float32_since_the_target_moves_in_small_steps(run_in):
    run = run_in("run", dtype="bfloat16", **{"ilql.epochs": 0.2})
    run.config.algorithms["ilql"].train(run)
    saved = load_file(run.path("ilql/agent") / VALUES)
    assert {value.dtype for value in saved.values()} == {torch.float32}
    assert run.config.algorithms["ilql"].load(run).model.policy.dtype == torch.bfloat16


def test_gradient_checkpointing_changes_nothing(run_in):
    plain, saving = (run_in(f"run_{is_on}", gradient_checkpointing=is_on, **{"mc.epochs": 0.5}) for is_on in (False, True))
    for run in (plain, saving):
        run.config.algorithms["mc"].train(run)
    one, other = (load_file(run.path("mc/agent") / VALUES) for run in (plain, saving))
    assert all(torch.allclose(one[name], other[name], atol=1e-6) for name in one)


def test_only_the_transformers_engine_can_sample_with_values(run_in):
    with pytest.raises(ValueError, match=r"^'mc' takes `--engine transformers`, got 'vllm'\.$"):
        run_in("run", algorithm="mc", engine="vllm")
