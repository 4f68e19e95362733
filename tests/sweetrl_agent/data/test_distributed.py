"""Several processes train as one: the same steps, files written once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file

from colbench_gym.errors import ColBenchError
from colbench_gym.files import read_rows, write_rows
from colbench_gym.simulators import make
from colbench_gym.stage_records import StageRecords
from colbench_gym.tasks import load_tasks
from sweetrl_agent.data import distributed
from sweetrl_agent.envs.backend_demonstrations import demonstrations
from sweetrl_agent.models import loading
from sweetrl_agent.train import main
from tests.sweetrl_agent.killed_runs import mark_done

CONFIGS = Path(__file__).parents[3] / "sweetrl_agent" / "configs" / "accelerate"
CRITIC = ["--stage", "critic", "--sweet.critic_micro_batch", "4"]
BEFORE_ACTOR = ("sft", "collect", "pairs", "critic", "candidates", "rank")
ACTOR = ["--stage", "actor", "--sweet.actor_micro_batch", "4", "--sweet.actor_by_turn", "true"]


@pytest.fixture
def make_folder(tiny_model_folder, tmp_path):
    """Function: name, next stage -> a run folder whose next stage is the critic or the actor."""
    tasks = load_tasks("embedded:train[:16]")
    better, worse = (list(demonstrations(tasks, make("scripted"), 16, seed)) for seed in (1, 2))

    def make_one(name, stage="critic"):
        folder = tmp_path / name
        folder.mkdir()
        if stage == "actor":
            write_rows(folder / "turn_pairs.jsonl", (
                {"task_id": task.id, "prompt": talk[:-1], "chosen": other["content"], "rejected": talk[-1]["content"]}
                for task, talk in zip(tasks, map(_talk, better), strict=True)
                for other in (_talk(dialogue)[1] for dialogue in worse[:3])
            ))  # fmt: skip
            mark_done(folder, *BEFORE_ACTOR)
            return folder
        write_rows(folder / "outcome_pairs.jsonl", (
            {"task_id": task.id, "hidden": task.hidden.reference, "chosen": _talk(a), "rejected": _talk(b)}
            for task, a, b in zip(tasks, better, worse, strict=True)
        ))  # fmt: skip
        mark_done(folder, "sft", "collect", "pairs")
        return folder

    return make_one


def _talk(dialogue):
    return [{"role": m["role"], "content": m["content"]} for m in dialogue if m["role"] != "system"]


def _arguments(folder, model, settings=CRITIC):
    task = ["--tasks", "embedded:train[:16]", "--sft_dialogues", "0", "--threads", "1"]
    return ["--output", str(folder), "--model", str(model), "--dtype", "float32", *task, *settings]


def _launch(folder, model, *launcher, settings=CRITIC):
    command = [sys.executable, *launcher, "-m", "sweetrl_agent.train", *_arguments(folder, model, settings)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900, check=False)


@pytest.mark.parametrize(("stage", "settings", "model"), [("critic", CRITIC, "critic"), ("actor", ACTOR, "policy")])
def test_two_processes_take_the_steps_of_one(stage, settings, model, make_folder, tiny_model_folder):
    one, two = make_folder("one", stage), make_folder("two", stage)
    assert main(_arguments(one, tiny_model_folder, settings)) == 0
    launcher = ["-m", "torch.distributed.run", "--nproc_per_node", "2"]
    done = _launch(two, tiny_model_folder, *launcher, settings=settings)
    assert done.returncode == 0, done.stderr[-3000:]
    _assert_same_training(one, two, tiny_model_folder, model)
    records = StageRecords(two)
    before = {"critic": {"sft", "collect", "pairs"}, "actor": {*BEFORE_ACTOR}}[stage]
    assert {*records.stages} == {*before, stage} and all(map(records.is_done, records.stages))
    assert done.stdout.count("sandbox:") == 1, "only the first process speaks"
    assert not list(two.glob("*.part"))


@pytest.mark.slow
def test_weights_shared_out_by_zero_3_take_the_steps_of_one_process(make_folder, tiny_model_folder):
    pytest.importorskip("deepspeed")
    one, two = make_folder("one"), make_folder("two")
    assert main(_arguments(one, tiny_model_folder)) == 0
    settings = ["--config_file", str(CONFIGS / "zero3.yaml"), "--num_processes", "2", "--mixed_precision", "no"]
    done = _launch(two, tiny_model_folder, "-m", "accelerate.commands.launch", *settings)
    assert done.returncode == 0, done.stderr[-3000:]
    _assert_same_training(one, two, tiny_model_folder)


@pytest.mark.parametrize(("asked", "used"), [("FSDP", "NO"), ("DEEPSPEED", "MULTI_CPU")])
def test_sharding_that_accelerate_leaves_out_is_refused(asked, used, monkeypatch):
    trainer = SimpleNamespace(accelerator=SimpleNamespace(distributed_type=SimpleNamespace(value=used)))
    distributed.refuse_other_sharding(trainer)
    monkeypatch.setenv(f"ACCELERATE_USE_{asked}", "true")
    with pytest.raises(
        ColBenchError, match=f"^accelerate was launched with {asked} but trains without it here: FSDP needs GPUs"
    ):
        distributed.refuse_other_sharding(trainer)


@pytest.mark.slow  # `.ci/run` runs it too
def test_accelerate_that_trains_without_what_it_was_launched_with_is_refused(make_folder, tiny_model_folder):
    folder = make_folder("fsdp")
    settings = ["--config_file", str(CONFIGS / "fsdp.yaml"), "--num_processes", "2", "--mixed_precision", "no"]
    done = _launch(folder, tiny_model_folder, "-m", "accelerate.commands.launch", *settings)
    assert done.returncode != 0 and "accelerate was launched with FSDP but trains without it here" in done.stderr
    assert not (folder / "critic" / "config.json").exists()


def _assert_same_training(one, two, start, model="critic"):
    weights, others, start = (load_file(folder / "model.safetensors") for folder in (one / model, two / model, start))
    assert weights.keys() == others.keys()
    moved = max(float((weights[name] - start[name]).abs().max()) for name in weights)
    apart = max(float((weights[name] - others[name]).abs().max()) for name in weights)
    assert apart < 0.02 * moved, (apart, moved)
    losses = [[row["loss"] for row in read_rows(folder / "metrics.jsonl")] for folder in (one, two)]
    assert losses[0] == pytest.approx(losses[1], abs=1e-4) and losses[0]


def test_a_batch_is_shared_evenly_or_not_at_all(monkeypatch):
    assert distributed.gradient_accumulation_steps(8, 4) == 2
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert distributed.gradient_accumulation_steps(8, 4) == 1
    with pytest.raises(
        ColBenchError, match="^A batch of 8 cannot be divided among 2 processes with a micro-batch of 8; choose a micro-batch"
    ):
        distributed.gradient_accumulation_steps(8, 8)


def test_every_process_of_a_machine_loads_its_model_on_its_own_gpu(monkeypatch):
    monkeypatch.setattr(loading.torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(loading.torch.cuda, "device_count", lambda: 8)
    assert loading.device() == torch.device("cuda", 0)
    monkeypatch.setenv("LOCAL_RANK", "3")
    assert loading.device() == torch.device("cuda", 3)
    monkeypatch.setattr(loading.torch.cuda, "device_count", lambda: 1)  # a launcher that shows each process one GPU
    assert loading.device() == torch.device("cuda", 0)
