"""Adapters and dtypes of pretrained models."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

from sweetrl_agent.config.model import TINY, ModelArguments
from sweetrl_agent.models.loading import (
    adapted,
    dtype_line,
    initial_model,
    load_model,
    load_policy,
    lora_config,
    merged,
    torch_dtype,
)

IDS = torch.arange(40).view(2, 20)
LORA = ModelArguments(model="org/model", lora=True, lora_r=4, lora_alpha=8)
LINEAR = {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}


@pytest.fixture(params=["qwen2", "llama"])
def model(request):
    """A random model of four layers; Qwen's embeddings are tied."""
    shape = {
        "vocab_size": 64, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 4, "num_attention_heads": 2,
        "num_key_value_heads": 1,
    }  # fmt: skip
    torch.manual_seed(0)
    if request.param == "llama":
        return LlamaForCausalLM(LlamaConfig(**shape)).eval()
    return Qwen2ForCausalLM(Qwen2Config(**shape, tie_word_embeddings=True)).eval()


def _places(model):
    """Layers with adapters, and the modules in them that have one."""
    names = [name.split(".") for name, parameter in model.named_parameters() if parameter.requires_grad]
    assert names and all(".lora_" in ".".join(name) for name in names)
    return {int(name[name.index("layers") + 1]) for name in names}, {name[name.index("layers") + 3] for name in names}


@pytest.mark.parametrize(("count", "layers"), [(0, {0, 1, 2, 3}), (1, {3}), (2, {2, 3}), (4, {0, 1, 2, 3}), (9, {0, 1, 2, 3})])
def test_adapters_are_in_the_last_layers_only(model, count, layers):
    assert _places(adapted(model, replace(LORA, lora_layers=count))) == (layers, LINEAR)


def test_training_with_adapters_in_the_last_layers_changes_these_alone(model):
    with_adapters = adapted(model, replace(LORA, lora_layers=2))
    before = {name: value.clone() for name, value in with_adapters.state_dict().items()}
    optimizer = torch.optim.AdamW([one for one in with_adapters.parameters() if one.requires_grad], lr=1e-2)
    losses = []
    for _ in range(8):
        loss = with_adapters(input_ids=IDS, labels=IDS).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0] - 0.01
    changed = {name for name, value in with_adapters.state_dict().items() if not torch.equal(before[name], value)}
    assert changed == {name for name, parameter in with_adapters.named_parameters() if parameter.requires_grad}


def test_the_backward_pass_ends_at_the_first_layer_with_an_adapter(model):
    reached = []
    with_adapters = adapted(model, replace(LORA, lora_layers=2))
    for number, layer in enumerate(model.model.layers):
        layer.mlp.register_full_backward_hook(lambda *_, number=number: reached.append(number))
    with_adapters(input_ids=IDS, labels=IDS).loss.backward()
    assert sorted(reached) == [2, 3]


def test_merged_adapters_are_in_the_weights(model):
    plain = model(IDS).logits.detach()
    with_adapters = adapted(model, LORA)
    with torch.no_grad():
        for name, parameter in with_adapters.named_parameters():
            if ".lora_B." in name:  # zero at first
                parameter.normal_(std=0.1, generator=torch.Generator().manual_seed(len(name)))
    expected = with_adapters(IDS).logits.detach()
    assert (expected - plain).abs().max() > 0.01
    whole = merged(with_adapters)
    assert type(whole) is type(model) and not [name for name, _ in whole.named_parameters() if "lora" in name]
    torch.testing.assert_close(whole(IDS).logits.detach(), expected, rtol=1e-4, atol=1e-5)


def test_adapters_are_float32_whatever_the_model_is(model):
    dtypes = {name: parameter.dtype for name, parameter in adapted(model.bfloat16(), LORA).named_parameters()}
    assert {dtype for name, dtype in dtypes.items() if ".lora_" in name} == {torch.float32}
    assert {dtype for name, dtype in dtypes.items() if ".lora_" not in name} == {torch.bfloat16}


def test_a_model_without_adapters_is_left_as_it_is(model):
    assert merged(model) is model and adapted(model, ModelArguments(model="org/model")) is model


def test_a_loaded_adapter_says_the_same_once_merged(model, tmp_path):
    model.save_pretrained(tmp_path / "base")
    with_adapters = adapted(model, replace(LORA, lora_layers=1))
    with torch.no_grad():
        for parameter in with_adapters.parameters():
            if parameter.requires_grad:
                parameter.normal_(std=0.1, generator=torch.Generator().manual_seed(0))
    with_adapters.save_pretrained(tmp_path / "adapter")
    loaded = load_model(str(tmp_path / "adapter"), str(tmp_path / "base"), replace(LORA, dtype="float32"))
    expected = with_adapters.eval()(IDS).logits
    torch.testing.assert_close(merged(loaded.eval())(IDS).logits, expected, rtol=1e-4, atol=1e-5)


def test_a_model_is_loaded_once_the_memory_of_the_last_one_is_returned(model, tmp_path, monkeypatch):
    model.save_pretrained(tmp_path)
    done = []
    monkeypatch.setattr("sweetrl_agent.models.loading.return_freed_memory", lambda: done.append("returned"))
    load = AutoModelForCausalLM.from_pretrained
    monkeypatch.setattr(
        AutoModelForCausalLM, "from_pretrained", lambda *given, **named: [done.append("read"), load(*given, **named)][1]
    )
    load_model(str(tmp_path), "", LORA)
    assert done == ["returned", "read"]


def test_the_number_of_layers_is_that_of_the_model(model):
    assert lora_config(replace(LORA, lora_layers=3), model).layers_to_transform == [1, 2, 3]
    assert lora_config(replace(LORA, lora_layers=4), model).layers_to_transform is None


def test_a_model_with_its_layers_elsewhere_is_refused(model):
    hidden = torch.nn.Module()
    hidden.config, hidden.decoder = model.config, model.model
    with pytest.raises(
        ValueError, match="^`lora_layers` needs a model whose layers are in 'model.layers', got a Module; give 0,"
    ):
        lora_config(replace(LORA, lora_layers=1), hidden)


@pytest.fixture
def machine(monkeypatch):
    """Function: instructions of the processor, whether there is a GPU -> the machine seems to have these."""

    def have(*instructions, has_gpu=False):
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: dict.fromkeys(instructions, True) | {"avx512_f": True})
        monkeypatch.setattr(torch.cuda, "is_available", lambda: has_gpu)

    return have


HAS = "this processor has instructions for bfloat16"


@pytest.mark.parametrize(
    ("instructions", "has_gpu", "lora", "trained", "sampled", "line"),
    [
        ((), False, True, "float32", "float32", "float32: this processor has no instructions for bfloat16"),
        (("avx512_bf16",), False, True, "bfloat16", "bfloat16", f"bfloat16: {HAS} (avx512_bf16)"),
        (("avx512_bf16", "amx_bf16"), False, True, "bfloat16", "bfloat16", f"bfloat16: {HAS} (amx_bf16)"),
        (
            ("amx_bf16",),
            False,
            False,
            "float32",
            "bfloat16",
            f"bfloat16 to sample, float32 to train all weights: {HAS} (amx_bf16)",
        ),
        ((), False, False, "float32", "float32", "float32: this processor has no instructions for bfloat16"),
        ((), True, False, "bfloat16", "bfloat16", "bfloat16: there is a GPU"),
    ],
)
def test_the_dtype_is_the_machines(instructions, has_gpu, lora, trained, sampled, line, machine):
    machine(*instructions, has_gpu=has_gpu)
    given = replace(LORA, lora=lora)
    dtypes = torch_dtype(given), torch_dtype(given, is_trained=False)
    assert dtypes == (getattr(torch, trained), getattr(torch, sampled)) and dtype_line(given) == line
    for is_trained in (True, False):
        tiny = torch_dtype(replace(given, model=TINY), is_trained)
        assert tiny == (torch.bfloat16 if has_gpu else torch.float32)


def test_all_weights_are_trained_in_float32_on_a_cpu(machine, tiny_model_folder):
    machine("avx512_bf16")
    given = ModelArguments(model=str(tiny_model_folder))
    assert initial_model(given.model, given)["model"].dtype == torch.float32
    assert load_policy(given.model, given.model, given).model.dtype == torch.bfloat16
    with_adapters = initial_model(given.model, replace(given, lora=True))
    assert with_adapters["model"].dtype == torch.bfloat16 and with_adapters["peft_config"].r == given.lora_r


@pytest.mark.parametrize("name", ["float32", "bfloat16"])
def test_a_given_dtype_is_kept(name, machine):
    machine("avx512_bf16")
    given = ModelArguments(model="org/model", dtype=name)
    assert torch_dtype(given) == torch_dtype(given, is_trained=False) == getattr(torch, name)
    assert dtype_line(given) == f"{name}, as set"
