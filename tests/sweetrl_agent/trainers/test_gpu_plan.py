"""The plan of a run on named GPUs: by hand, as a dry run prints it, and texts that name no GPU."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from sweetrl_agent import train
from sweetrl_agent.core.work import Lengths, Passes, Playing, Sampling, Work
from sweetrl_agent.models.shape import SHAPES, Shape, shape_by_name, shape_of
from sweetrl_agent.trainers import machine
from sweetrl_agent.trainers.gpu_plan import GIB, Rates, stage_memory, stage_time, training_memory
from sweetrl_agent.trainers.gpus import GPUS, here, parse_gpus

RATES = Rates(
    gpus=2, parameters=1e6, peak=1e9, train_operations=6, training_share=0.1, reading_share=0.5, sampled=40, human_sampled=10,
    human_gpus=8, graded=4, cores=5,
)  # fmt: skip
LENGTHS = Lengths(turns=4, request=20, agent=10, reply=5, hidden=30, source="assumed")
MODEL = SimpleNamespace(lora=False, lora_r=16, lora_layers=0, gradient_checkpointing=True, engine="transformers")


def test_a_stage_is_what_one_would_work_out_by_hand():
    played = Work("", (Playing(200, 4, 8), Sampling(800, 10, 10, 40, 8)))
    collect = stage_time(
        played, LENGTHS, RATES
    )  # 8000 tokens said at 80 a second, 8000 read at 500 a second; 4000 of the human's at 10
    assert (collect.agent, collect.human, collect.grading) == (pytest.approx(100 + 16), pytest.approx(400), pytest.approx(10))
    assert collect.seconds == collect.human and collect.bottleneck == "human"
    trained = Work("", (Passes("train", 50, 4, 110, 40, 25), Passes("read", 50, 4, 110, 40)))
    assert stage_time(trained, LENGTHS, RATES).agent == pytest.approx(50 * 4 * 110 * (6 / (2e9 * 0.1) + 2 / (2e9 * 0.5)) * 1e6)
    assert stage_time(Work(), LENGTHS, RATES).bottleneck == ""


def test_memory_of_training_is_what_one_would_work_out_by_hand():
    shape = SHAPES["llama-3.1-8b"]
    kept = 1000 * (2 * 4096 * 32 + 20 * 4096 + 8 * 14_336) / GIB
    assert training_memory(shape, 1000, MODEL)["sum"] == pytest.approx(8 * shape.parameters / GIB + kept + 1.5)
    sharded = training_memory(shape, 1000, MODEL, processes=8)
    assert sharded["weights"] == pytest.approx(4 * shape.parameters / 8 / GIB) and sharded["sum"] > 4 * shape.parameters / GIB
    adapted = training_memory(shape, 1000, SimpleNamespace(**{**vars(MODEL), "lora": True}))
    assert adapted["gradients and moments"] == pytest.approx(16 * 41_943_040 / GIB)
    critic = Work("", (Passes("read", 5, 2, 9000, 9000), Passes("train", 5, 2, 1000, 500, 5)))
    needed = stage_memory(shape, critic, LENGTHS, MODEL, parse_gpus("8 x H100-80GB"))
    assert needed == training_memory(shape, 2000, MODEL, 8)["sum"], (
        "what the reference reads fits where its pairs are trained on"
    )


@pytest.mark.parametrize(
    ("text", "count", "name", "price", "currency"),
    [
        ("8 x H100-80GB", 8, "H100-80GB", 2.5, "USD"),
        ("8xh100", 8, "H100-80GB", 2.5, "USD"),
        ("A100-40GB", 1, "A100-40GB", 1.2, "USD"),
        ("2 × RTX 4090 at 0.4 EUR", 2, "RTX4090-24GB", 0.4, "EUR"),
        ("4 x H200-141GB at 3 €", 4, "H200-141GB", 3.0, "€"),
    ],
)  # fmt: skip
def test_gpus_are_named_with_number_and_price(text, count, name, price, currency):
    found = parse_gpus(text)
    assert (found.count, found.gpu.name, found.price, found.currency) == (count, name, price, currency)
    assert found.is_assumed == (" at " not in text) and f"{price:g} {currency} a GPU hour" in found.text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "eight H100",
        "0 x H100-80GB",
        "8 x",
        "8 x H100-80GB at",
        "8 x H100-80GB at 2.5",
        "-1 x H100",
        "8 x H10",
        "TPU-v5",
        "x" * 300,
    ],
)
def test_other_texts_are_refused(text):
    with pytest.raises(ValueError, match=r"^`gpu` must (be GPUs such as|name one of).*H100-80GB.*got"):
        parse_gpus(text)


def test_sampling_is_assumed_by_size_and_bandwidth():
    h100, h200 = GPUS["H100-80GB"], GPUS["H200-141GB"]
    assert h100.sampled(SHAPES["llama-3.1-8b"].parameters) == 4000 and h200.sampled(16e9) > h100.sampled(16e9)
    assert h100.sampled(1e6) == h100.sampled(1e5), "a tiny model is not bound by the memory"


def test_the_gpu_of_this_machine(monkeypatch):
    for device, name in {
        "NVIDIA H100 80GB HBM3": "H100-80GB",
        "NVIDIA GeForce RTX 4090": "RTX4090-24GB",
        "NVIDIA Unheard-of": "H100-80GB",
    }.items():
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda device=device: device)
        assert here().name == name


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("Qwen/Qwen2.5-Coder-1.5B-Instruct", "qwen2.5-1.5b"),
        ("/models/my_70b", "llama-3.1-70b"),
        ("openai/gpt-oss", None),
        ("someone/b2b", None),
    ],
)
def test_a_size_in_a_name_gives_a_shape(name, known):
    found = shape_by_name(name)
    assert (found and found[0]) == known


def test_a_shape_is_read_from_a_configuration(tiny_model_folder):
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.from_pretrained(tiny_model_folder)
    assert shape_of(config).parameters == AutoModelForCausalLM.from_config(config).num_parameters()
    assert isinstance(shape_of(config), Shape)


@pytest.fixture
def no_config(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)

    def missing(*_):
        raise OSError("no such file")

    monkeypatch.setattr(machine, "model_config", missing)
    monkeypatch.setattr("sweetrl_agent.trainers.planning.model_config", missing)


@pytest.mark.usefixtures("no_config")
def test_the_paper_can_be_planned_without_its_tasks_and_weights(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    words = ["--config", "paper_backend", "--dry_run", "--output", str(tmp_path / "run"), "--tasks", "hub:nobody/nothing:train"]
    assert train.main([*words, "--gpu", "8 x H100-80GB at 2 EUR"]) == 2  # the tasks are missing
    said = capsys.readouterr()
    lines = {line.split()[0]: line.split() for line in said.out.splitlines()}
    assert lines["stage"] == ["stage", "hours", "waits", "for", "GiB", "a", "GPU", "cost", "in", "EUR"]
    assert lines["collect"][1:] == ["0.42", "human", "71", "6.67"]  # 15,000 x 5 replies of 60 tokens at 3,000 a second
    assert [name for name in lines if name in ("critic", "candidates", "rank", "actor", "evaluate")] == [
        "critic",
        "candidates",
        "rank",
        "actor",
        "evaluate",
    ]
    assert {"gpu", "assumed", "human", "shape", "tasks"} <= {*lines} and "that of llama-3.1-8b" in said.out
    assert "Could not get 'hub:nobody/nothing:train'" in said.err
    assert train.main(words) == 2
    assert "`--gpu '8 x H100-80GB'` plans hours, memory and cost" in capsys.readouterr().out


@pytest.mark.usefixtures("no_config")
def test_a_dry_run_of_loaded_tasks_has_the_plan_beside_its_forecast(tmp_path, capsys, tiny_model_folder):
    given = [
        "--model",
        str(tiny_model_folder),
        "--sft_dialogues",
        "0",
        "--tasks",
        "embedded:train[:10]",
        "--test_tasks",
        "embedded:test[:3]",
    ]
    words = [*given, "--unseen_tasks", "", "--dry_run", "--output", str(tmp_path / "run")]
    assert train.main(words) == 0
    assert "gpu        none here; `--gpu" in capsys.readouterr().out
    assert train.main([*words, "--gpu", "TPU"]) == 2
    assert "`gpu` must name one of" in capsys.readouterr().err
