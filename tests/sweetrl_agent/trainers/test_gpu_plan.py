"""The plan of a run on named GPUs: by hand, as a dry run prints it, and texts that name no GPU."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from sweetrl_agent import train
from sweetrl_agent.core.work import Lengths, Work
from sweetrl_agent.models import shape as shapes
from sweetrl_agent.models.shape import SHAPES, Shape, shape_by_name, shape_of
from sweetrl_agent.trainers.gpu_plan import agent_speeds, stage_memory
from sweetrl_agent.trainers.gpus import GPUS, here, parse_gpus
from sweetrl_agent.trainers.resources import GIB, memory_of

LENGTHS = Lengths(turns=4, request=20, agent=10, reply=5, hidden=30, source="assumed")
MODEL = SimpleNamespace(lora=False, lora_r=16, lora_layers=0, gradient_checkpointing=True, engine="transformers")
SHAPE = SHAPES["llama-3.1-8b"]


def test_a_stage_is_what_one_would_work_out_by_hand():
    given = parse_gpus("2 x H100-80GB")
    played = Work(episodes=200, turns=800, utterances=800, sampled=8000, prompts=9000, at_once=8)
    operations = (
        2 * 989e12 * 0.25 / SHAPE.parameters
    )  # two per parameter and token, six with the backward pass; 2,000 tokens a second sampled
    assert agent_speeds(SHAPE, given, MODEL).seconds(played) == pytest.approx(8000 / (2 * 2000) + 9000 * 2 / operations)
    trained = Work(read=1000, trained=500, steps=9)
    assert agent_speeds(SHAPE, given, MODEL).seconds(trained) == pytest.approx((500 * 6 + 1000 * 2) / operations)
    adapted = SimpleNamespace(**{**vars(MODEL), "lora": True})
    assert agent_speeds(SHAPE, given, adapted).seconds(trained) == pytest.approx((500 * 4 + 1000 * 2) / operations)


def test_memory_of_training_is_what_one_would_work_out_by_hand():
    work, weights = Work(trained=9, read=9, pass_tokens=1000, pass_scored=500), 2 * SHAPE.parameters
    kept = 1000 * (2 * 4096 * 32 + 20 * 4096 + 8 * 14_336)
    assert memory_of(SHAPE, work, LENGTHS, MODEL) == (4 * weights, pytest.approx(4 * weights + kept))
    least, most = memory_of(SHAPE, work, LENGTHS, MODEL, processes=8)
    assert least == 16 * SHAPE.parameters / 8 and most > 2 * weights, "every process holds the whole model first"
    adapted = SimpleNamespace(**{**vars(MODEL), "lora": True})
    assert memory_of(SHAPE, work, LENGTHS, adapted)[0] == weights + 16 * 41_943_040
    given = parse_gpus("8 x H100-80GB")
    assert stage_memory(SHAPE, work, LENGTHS, MODEL, given) == pytest.approx(most / GIB + 1.5)
    assert stage_memory(SHAPE, Work(), LENGTHS, MODEL, given) == 0
    on_vllm = SimpleNamespace(**{**vars(MODEL), "engine": "vllm"})
    assert stage_memory(SHAPE, Work(sampled=9), LENGTHS, on_vllm, given) == pytest.approx(0.9 * 79)


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

    monkeypatch.setattr(shapes, "model_config", missing)


@pytest.mark.usefixtures("no_config")
def test_the_paper_can_be_planned_without_its_tasks_and_weights(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    words = ["--config", "paper_backend", "--dry_run", "--output", str(tmp_path / "run"), "--tasks", "hub:nobody/nothing:train"]
    assert train.main([*words, "--gpu", "8 x H100-80GB at 2 EUR"]) == 2  # the tasks are missing
    said = capsys.readouterr()
    lines = {line.split()[0]: line.split() for line in said.out.splitlines()}
    assert lines["stage"] == ["stage", "hours", "waits", "for", "GiB", "a", "GPU", "cost", "in", "EUR"]
    assert lines["collect"][1:] == ["0.42", "human", "71", "6.67"]  # 15,000 x 5 replies of 60 tokens at 3,000 a second
    of_paper = {name: (lines[name][1], lines[name][-2]) for name in ("critic", "candidates", "rank", "actor", "evaluate")}
    assert of_paper == {  # as in docs/planning.md
        "critic": ("0.42", "35"), "candidates": ("0.27", "71"), "rank": ("0.19", "36"), "actor": ("0.90", "35"), "evaluate": ("0.06", "71"),
    }  # fmt: skip
    assert {"gpu", "assumed", "human", "shape", "tasks"} <= {*lines} and "that of llama-3.1-8b" in said.out
    assert "Could not get 'hub:nobody/nothing:train'" in said.err
    assert train.main(words) == 2
    assert "`--gpu '8 x H100-80GB'` plans hours, memory and cost" in capsys.readouterr().out


@pytest.mark.usefixtures("no_config")
def test_a_dry_run_of_loaded_tasks_has_the_plan_beside_its_forecast(tmp_path, capsys, tiny_model_folder):
    tasks = ["--tasks", "embedded:train[:10]", "--test_tasks", "embedded:test[:3]"]
    given = ["--model", str(tiny_model_folder), "--sft_dialogues", "0", *tasks]
    words = [*given, "--unseen_tasks", "", "--dry_run", "--output", str(tmp_path / "run")]
    assert train.main(words) == 0
    assert "gpu        none here; `--gpu" in capsys.readouterr().out
    assert train.main([*words, "--gpu", "TPU"]) == 2
    assert "`gpu` must name one of" in capsys.readouterr().err
