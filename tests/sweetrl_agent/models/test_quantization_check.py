"""Quantized weights: one sentence in the dry run of every command, whatever the kind, and no traceback."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from colbench_gym.errors import ColBenchError
from sweetrl_agent import compare, evaluate, train
from sweetrl_agent.models.folder_check import check_model_files

#: Dtype of the linear weights in the files, and what config.json states, as the tools that quantize write it.
KINDS = {
    "fp8": (torch.float8_e4m3fn, {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}),
    "mxfp4": (torch.uint8, {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn"]}),
    "gptq": (torch.int32, {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "sym": True}),
    "awq": (torch.int32, {"quant_method": "awq", "bits": 4, "group_size": 128, "version": "gemm", "zero_point": True}),
    "bitsandbytes": (torch.uint8, {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}),
    "compressed-tensors": (torch.float8_e4m3fn, {"quant_method": "compressed-tensors", "format": "float-quantized", "config_groups": {}}),
    "hqq": (torch.uint8, {"quant_method": "hqq", "quant_config": {}}),
    "unheard-of": (torch.uint8, {"quant_method": "unheard-of"}),
    "of an unnamed kind": (torch.float8_e5m2, {"bits": 8}),
}  # fmt: skip
TASKS = ["--tasks", "embedded:test[:2]", "--sandbox", "embedded"]


@pytest.fixture
def quantized(tiny_model_folder, tmp_path):
    """Function: dtype of the linear weights, changes of config.json -> a model folder."""

    def write(dtype, **changes):
        folder = tmp_path / "quantized"
        shutil.copytree(tiny_model_folder, folder)
        tensors = load_file(folder / "model.safetensors")
        linear = {name: tensor.to(dtype) for name, tensor in tensors.items() if "_proj" in name}
        save_file({**tensors, **linear}, folder / "model.safetensors", {"format": "pt"})
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, **changes}))
        return folder

    return write


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.mark.parametrize("kind", KINDS)
def test_quantized_weights_are_refused_in_one_sentence(kind, quantized):
    dtype, stated = KINDS[kind]
    folder = str(quantized(dtype, quantization_config=stated))
    with pytest.raises(ColBenchError) as read:
        check_model_files(folder, "main")
    assert str(read.value) == (
        f"its weights are quantized ({kind!r}), which are computed with on a GPU only, and this machine has none; give the model in bfloat16 or float32, "
        "or evaluate this one by `--engine vllm` on a GPU or `--engine server`"
    )
    with pytest.raises(ColBenchError) as trained:
        check_model_files(folder, "main", use="trained")
    assert str(trained.value) == (
        f"its weights are quantized ({kind!r}), and quantized weights are not trained; give the model in bfloat16 or float32"
    )


@pytest.mark.parametrize(
    "stated", [{"text_config": {"quantization_config": {"quant_method": "fp8"}}}, {"compression_config": {"quant_method": "fp8"}}, {"quantization_config": {"quant_method": 8}}, {"quantization_config": 4}]
)  # fmt: skip
def test_it_is_found_wherever_it_is_stated(stated, quantized):
    with pytest.raises(ColBenchError, match="^its weights are quantized"):
        check_model_files(str(quantized(torch.float8_e4m3fn, **stated)), "main")


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2, torch.int8, torch.uint8])
def test_weights_of_such_a_dtype_are_refused_where_nothing_is_stated(dtype, quantized):
    with pytest.raises(
        ColBenchError, match=r"^the tensor '.*_proj\.weight' has the dtype '(F8_E4M3|F8_E5M2|I8|U8)', and config.json"
    ):
        check_model_files(str(quantized(dtype)), "main")


def test_an_engine_of_its_own_may_read_them(quantized):
    dtype, stated = KINDS["fp8"]
    assert check_model_files(str(quantized(dtype, quantization_config=stated)), "main", use="elsewhere")


def test_on_a_gpu_the_package_that_is_missing_is_named(quantized, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    dtype, stated = KINDS["gptq"]
    with pytest.raises(
        ColBenchError, match=r"^its weights are quantized \('gptq'\), which cannot be computed with here; .* \(\w+: .*"
    ):
        check_model_files(str(quantized(dtype, quantization_config=stated)), "main")


@pytest.mark.parametrize("main", [train.main, compare.main, evaluate.main])
@pytest.mark.parametrize("kind", ["mxfp4", "gptq", None])
def test_every_command_says_so_in_its_dry_run(main, kind, quantized, tmp_path, capsys):
    dtype, stated = KINDS[kind or "fp8"]
    folder = str(quantized(dtype, **({"quantization_config": stated} if kind else {})))
    words = (
        [folder] if main is evaluate.main else ["--model", folder, "--test_tasks", "embedded:unseen[:2]", "--unseen_tasks", ""]
    )
    assert main([*words, *TASKS, "--output", str(tmp_path / "out"), "--dry_run"]) == 2
    shown = capsys.readouterr()
    (error,) = [line for line in shown.err.splitlines() if line.startswith("error: ")]
    setting = "policies" if main is evaluate.main else "model"
    assert error.startswith(f"error: `{setting}` must be a folder or hub name of a chat model, got {folder!r}: ")
    assert (f"its weights are quantized ({kind!r})" if kind else "has the dtype 'F8_E4M3'") in error
    assert "Traceback" not in shown.err + shown.out


def test_a_dry_run_with_a_server_takes_them(quantized, tmp_path, capsys):
    dtype, stated = KINDS["fp8"]
    folder = str(quantized(dtype, quantization_config=stated))
    given = ["--engine", "server", "--server_urls", "http://127.0.0.1:9/v1", "--output", str(tmp_path / "out"), "--dry_run"]
    assert evaluate.main([folder, *TASKS, *given]) == 2
    (error,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert error.startswith("error: No server answers at http://127.0.0.1:9/v1")
