"""The benchmark of one GPU on a CPU with tiny shapes, its formulas against counted operations, and the page that its figures fill."""

from __future__ import annotations

import importlib.util
import json
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoModelForCausalLM

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
NAMES = ("gpu", "gpu_model", "gpu_parts", "gpu_words", "planning_page")


@pytest.fixture(scope="module")
def modules():
    """The modules of the benchmark, which import each other as scripts of one folder do."""
    sys.path.insert(0, str(BENCHMARKS))
    yield SimpleNamespace(**{name: import_module(name) for name in NAMES})
    sys.path.remove(str(BENCHMARKS))
    for name in NAMES:
        del sys.modules[name]


def test_every_part_runs_on_a_cpu(modules, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", _hidden("vllm"))
    output = tmp_path / "gpu.json"
    parts = [name for name in modules.gpu_model.PARTS if name != "critic_full_fsdp"]  # one launch is enough
    modules.gpu.main(
        [
            "--device",
            "cpu",
            "--shape",
            "tiny",
            "--repeats",
            "2",
            "--parts",
            *parts,
            "--scratch",
            str(tmp_path),
            "--output",
            str(output),
        ]
    )
    found = json.loads(output.read_text())
    assert "random" in found["weights"] and found["versions"]["torch"] and found["device"]["name"] == "CPU"
    own = found["shapes"]["tiny"]["parts"]
    assert list(own) == parts and not [name for name, part in own.items() if "failure" in part]
    assert own["sampling_vllm"] == {"gap": "vLLM is not installed here: `pip install vllm`"}
    assert own["sampling"]["tokens_per_second"]["n"] == 2 and own["sampling"]["whole_turns"] > 0.8
    sizes = modules.gpu_model.SMALL
    assert own["ranking"]["each"]["tokens"] > 2 * own["ranking"]["shared"]["tokens"]
    for name in ("critic_lora", "critic_lora_fsdp", "critic_full", "actor_lora", "actor_full"):
        part = own[name]
        assert part["tokens"] == sum(part["lengths"]) * sizes.batch and part["tokens_per_second"]["n"] == sizes.steps
        assert {kind.split()[0] for kind in part["weights_in_training"]} == (
            {"trained"} if "full" in name else {"trained", "frozen"}
        )
    assert (
        own["critic_full"]["scored"] == [sizes.turns * (sizes.agent + 1)] * 2
        and own["actor_full"]["scored"] == [sizes.agent + 1] * 2
    )
    assert (
        "adapter_model.safetensors" in own["critic_lora_fsdp"]["saved"]
        and "shards on GPUs only" in own["critic_lora_fsdp"]["note"]
    )
    assert own["critic_lora_fsdp"]["speed_ratio_to_plain"] > 0
    assert modules.planning_page.measured_memory([output]) == []
    with pytest.raises(ValueError, match="of CPU, whose peak gpu.py does not know"):
        modules.planning_page.measured_rates([output], "full")


def _hidden(*names):
    real = importlib.util.find_spec
    return lambda name, package=None: None if name in names else real(name, package)


def test_a_dry_run_says_what_fits(modules, capsys, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", _hidden("vllm"))
    modules.gpu.main(["--dry_run", "--shape", "llama-3.1-8b"])
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.startswith("  ") and "GiB" in line}
    assert list(lines) == list(modules.gpu_model.PARTS)
    assert lines["critic_full"].endswith("runs") and lines["sampling"].endswith("runs")
    assert "NOT RUN: needs about 126 GiB by estimate, more than 79" in lines["critic_full_fsdp"]
    assert "NOT RUN: vLLM is not installed here" in lines["sampling_vllm"]


def test_a_failing_part_is_a_result(modules, tmp_path, monkeypatch):
    monkeypatch.setitem(modules.gpu_parts.MEASURES, "ranking", lambda *_: 1 / 0)
    found = modules.gpu_parts.measure(
        "ranking", modules.gpu_model.SHAPES["tiny"], modules.gpu_model.SMALL, str(tmp_path), "cpu", 1
    )
    assert found == {"failure": "ZeroDivisionError: division by zero"}
    given = modules.gpu.parsed(["--device", "cpu", "--shape", "tiny"])
    assert modules.gpu.in_own_process("ranking", "tiny", given, str(tmp_path), 5) == {
        "gap": "not run: the time limit was reached before"
    }


@pytest.mark.parametrize("name", ["tiny", "biased"])
def test_operations_are_those_that_torch_counts(modules, name):
    shape = modules.gpu_model.SHAPES["tiny"]
    shape = shape if name == "tiny" else replace(shape, kind="qwen2", is_tied=True, vocab=300)
    model = AutoModelForCausalLM.from_config(shape.config(1, 0))
    assert model.num_parameters() == shape.parameters
    ids = torch.arange(2, 42).view(2, 20)

    def counted(with_backward):
        with FlopCounterMode(display=False) as counter:
            loss = model(ids).logits.sum()
            if with_backward:
                loss.backward()
        return sum(n for op, n in counter.get_flop_counts()["Global"].items() if "attention" not in str(op))

    weights, attention = modules.gpu_model.forward_operations(shape, [20, 20], 40)
    assert counted(False) == pytest.approx(weights, rel=0.01)
    assert counted(True) == pytest.approx(3 * weights, rel=0.01)
    assert modules.gpu_model.training_operations(shape, [20, 20], 40, "full") == 3 * (weights + attention)
    assert attention == 2 * sum(4 * shape.layers * shape.hidden * (i + 1) for i in range(20))  # QK and PV, 2 operations each


def test_lora_needs_two_thirds_and_its_adapters(modules):
    shape = modules.gpu_model.SHAPES["llama-3.1-8b"]
    full, lora = (modules.gpu_model.training_operations(shape, [1000], 100, kind) for kind in ("full", "lora"))
    _, attention = modules.gpu_model.forward_operations(shape, [1000], 100)
    assert lora - 3 * attention == pytest.approx(2 / 3 * (full - 3 * attention) + 6 * shape.adapters() * 1000)
    assert 8.0e9 < shape.parameters < 8.1e9 and 1.5e9 < modules.gpu_model.SHAPES["qwen2.5-1.5b"].parameters < 1.6e9
    assert shape.adapters() == 41_943_040  # what peft counts for rank 16 on all linear layers of Llama-3.1-8B


def test_vllm_is_asked_for_the_same_dialogues(modules, tmp_path, monkeypatch):
    shape, sizes = modules.gpu_model.SHAPES["tiny"], modules.gpu_model.SMALL
    modules.gpu_words.build(shape, tmp_path, "cpu")
    tokenizer, asked = modules.gpu_words.word_tokenizer(shape.vocab), []

    class LLM:
        def __init__(self, model, **engine):
            self.engine = engine
            assert engine["load_format"] == "dummy" and engine["max_model_len"] >= sizes.dialogue

        def get_tokenizer(self):
            return tokenizer

        def generate(self, prompts, sampling, lora_request, use_tqdm):
            asked.append([len(prompt["prompt_token_ids"]) for prompt in prompts])
            ids = list(range(10, 10 + sampling[0].max_tokens))
            said = SimpleNamespace(
                text=tokenizer.decode(ids), token_ids=ids, logprobs=[{i: SimpleNamespace(logprob=-1.0)} for i in ids],
                finish_reason="length", stop_reason=None,
            )  # fmt: skip
            return [SimpleNamespace(outputs=[said]) for _ in prompts]

    package, lora, request = ModuleType("vllm"), ModuleType("vllm.lora"), ModuleType("vllm.lora.request")
    package.LLM, package.SamplingParams, request.LoRARequest = LLM, SimpleNamespace, object
    package.__spec__ = importlib.util.spec_from_loader("vllm", None)
    for name, module in (("vllm", package), ("vllm.lora", lora), ("vllm.lora.request", request)):
        monkeypatch.setitem(sys.modules, name, module)
    found = modules.gpu_parts.measure("sampling_vllm", shape, sizes, str(tmp_path), "cpu", 1)
    assert found["whole_turns"] == 1.0 and found["tokens_per_second"]["n"] == 1
    first, second = (
        asked[0][0],
        asked[1][0],
    )  # what was said is read back as the same tokens, beside the marks of two messages and a header
    assert second - first == sizes.agent + 1 + 1 + sizes.reply + 1 + 1 and len(asked) == 2 * sizes.turns


def test_the_page_is_up_to_date(modules):
    page = modules.planning_page.PAGE.read_text(encoding="utf-8")
    assert modules.planning_page.filled(page) == page, "run python benchmarks/planning_page.py"
    assert page.count("not measured here") >= 4


def test_figures_of_a_gpu_replace_what_was_projected(modules, tmp_path):
    def figure(value):
        return {"n": 5, "median": value, "least": value, "most": value}

    parts = {
        "sampling": {"tokens_per_second": figure(2500.0), "peak_memory_gib": 33.3},
        "sampling_vllm": {"gap": "none"},
        "ranking": {"shared": {"share_of_peak": figure(0.4)}},
        "critic_lora": {"share_of_peak": figure(0.3)},
        "critic_full": {"failure": "OutOfMemoryError"},
    }
    small = {"critic_full_fsdp": {"share_of_peak": figure(0.2)}, "sampling_vllm": {"tokens_per_second": figure(9000.0)}}
    results = tmp_path / "gpu.json"
    device = {"name": "NVIDIA H100 80GB HBM3", "peak": 989e12, "peak_source": "data sheet"}
    shapes = {"llama-3.1-8b": {"parameters": 8e9, "parts": parts}, "qwen2.5-1.5b": {"parameters": 1.5e9, "parts": small}}
    results.write_text(json.dumps({"device": device, "shapes": shapes}))
    values, sources = modules.planning_page.measured_rates([results], "lora")
    assert values == {"peak": 989e12, "training_share": 0.3, "reading_share": 0.4, "sampled": 2500.0}
    assert (
        sources["sampled"] == "measured: NVIDIA H100 80GB HBM3, shape llama-3.1-8b with random weights, sampling, median of 5"
    )
    values, sources = modules.planning_page.measured_rates([results], "full")
    assert values["training_share"] == 0.2 and "qwen2.5-1.5b" in sources["training_share"]
    page = modules.planning_page.filled("text\n<!-- figures: end -->", [results])
    assert "| `sampled` | 2500 | 9000 | measured: NVIDIA H100" in page and "llama-3.1-8b, in GiB: sampling 33.3." in page
    broken = tmp_path / "broken.json"
    broken.write_text("{}")
    with pytest.raises(ValueError, match="broken.json is not what gpu.py wrote"):
        modules.planning_page.measured_rates([broken], "full")
