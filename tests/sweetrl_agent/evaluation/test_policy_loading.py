"""Model folders of runs: the base of an adapter, and the dtype of the run."""

from __future__ import annotations

import pytest
import torch
import yaml
from peft import LoraConfig

from colbench_gym.evaluation.policies import find_policies
from sweetrl_agent.algorithms.settings import make_config
from sweetrl_agent.evaluation.model_policies import KINDS, ModelSpec
from sweetrl_agent.evaluation.policy_loading import _base_of, check, load


def _spec(folder, **settings):
    return ModelSpec("policy", str(folder), "model", str(folder), settings=settings)


@pytest.mark.parametrize("place", ["policy", "rft/agent"])
def test_the_base_of_an_adapter_is_found_after_its_run_has_moved(place, tmp_path):
    folder, initial = tmp_path / "run" / place, tmp_path / "run" / "initial"
    LoraConfig(base_model_name_or_path="runs/gone/initial").save_pretrained(folder)
    assert _base_of(_spec(folder)) == "runs/gone/initial"
    initial.mkdir()
    assert _base_of(_spec(folder)) == str(initial.resolve())
    LoraConfig(base_model_name_or_path="org/model").save_pretrained(folder)
    assert _base_of(_spec(folder)) == "org/model"
    assert _base_of(_spec(initial)) == str(initial), "a whole model is its own"


def test_a_tiny_policy_is_sampled_in_the_dtype_of_its_run(tiny_model_folder, monkeypatch):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": True})
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    config = make_config({"tasks": "embedded:test[:2]", "model": str(tiny_model_folder)})
    dtypes = [load(_spec(tiny_model_folder, **of), config, {}).model.dtype for of in ({"model": "tiny"}, {"model": "x"}, {})]
    assert dtypes == [torch.float32, torch.bfloat16, torch.bfloat16]


def test_the_model_as_it_came_has_the_prompt_that_it_was_evaluated_with(tiny_model_folder, tmp_path):
    settings = {"env": "ColBench-Backend-v0", "model": str(tiny_model_folder), "system_prompt": "brief", "temperature": 0.7}
    config = make_config({"tasks": "embedded:test[:2]", "model": str(tiny_model_folder)})
    found = {}
    for prompt in ("example", ""):
        (tmp_path / "config.yaml").write_text(yaml.safe_dump({**settings, "eval_pretrained": prompt}))
        (found[prompt],) = find_policies([f"{tmp_path}:pretrained"], KINDS)
    assert (found["example"].kind, found["example"].place) == ("model", str(tiny_model_folder))
    assert found["example"].name == f"{tmp_path.name}/pretrained"
    assert found["example"].settings == {**settings, "system_prompt": "example", "eval_pretrained": "example"}
    with pytest.raises(ValueError, match="must be one of"):
        check(found[""], config, {})
