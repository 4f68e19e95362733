"""Adapters that do not fit their base model, found from headers alone. Models: `test_folder_check.py`."""

from __future__ import annotations

import json
import re
import shutil

import pytest
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

from colbench_gym.errors import ColBenchError
from sweetrl_agent.models.folder_check import check_model_files


@pytest.fixture
def folder(tiny_model_folder, tmp_path):
    return shutil.copytree(tiny_model_folder, tmp_path / "model")


def _fault(adapter, base):
    with pytest.raises(ColBenchError) as caught:
        check_model_files(str(adapter), "main", base=str(base))
    return str(caught.value)


def test_adapters_must_fit_their_base_model(folder, tmp_path):
    model = AutoModelForCausalLM.from_pretrained(folder)
    get_peft_model(model, LoraConfig(r=2, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")).save_pretrained(
        tmp_path / "adapter"
    )
    check_model_files(str(tmp_path / "adapter"), "main", base=str(folder))
    for changes, fault in (
        ({"r": 8}, "its adapter does not fit its base model .RuntimeError"), ({"target_modules": ["nope"]}, "does not fit its base model"),
        ({"peft_type": "NOPE"}, "does not fit its base model"), ({"target_modules": ["q_proj", "v_proj", "o_proj"]}, "lacks 2 tensors of its architecture, such as .*o_proj"),
    ):  # fmt: skip
        broken = shutil.copytree(tmp_path / "adapter", tmp_path / "broken", dirs_exist_ok=True)
        settings = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
        (broken / "adapter_config.json").write_text(json.dumps({**settings, **changes}))
        assert re.search(fault, found := _fault(broken, folder)), found
