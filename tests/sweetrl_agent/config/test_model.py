"""Defaults that a pretrained model has, and the prompts."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from colbench_gym.agents.prompts import ENV_OF_PROMPT, PROMPTS
from sweetrl_agent import compare, train
from sweetrl_agent.algorithms.settings import make_config
from sweetrl_agent.config.model import PRETRAINED_DEFAULTS, ModelArguments, SFTArguments, pretrained_defaults
from sweetrl_agent.core.environment import EnvironmentRecord
from sweetrl_agent.envs.registry import find_record
from sweetrl_agent.evaluation.main_job import parse
from sweetrl_agent.models.loading import system_prompt

GENERAL = {"sft_dialogues": 400, "sft_epochs": 1, "sft_batch": 8, "sft_learning_rate": 5e-4}
FUNCTIONS = {**GENERAL, "system_prompt": "benchmark", "max_new_tokens": 160}
PAGES = {**GENERAL, "system_prompt": "pages", "max_new_tokens": 1024}


def _given(words, names=FUNCTIONS):
    config = parse(words)
    settings = {**asdict(config.model), **asdict(config.sft)}
    return {name: settings[name] for name in names}


def test_a_pretrained_model_has_defaults_of_its_own():
    tiny = {**asdict(ModelArguments()), **asdict(SFTArguments())}
    assert _given([]) == _given(["--model", "tiny"]) == {name: tiny[name] for name in FUNCTIONS}
    assert _given(["--model", "org/model"]) == FUNCTIONS
    assert _given(["--model", "org/model", "--env", "ColBench-Frontend-v0"]) == PAGES
    assert set(FUNCTIONS) >= set(PRETRAINED_DEFAULTS)


def test_they_are_those_of_the_environments_record():
    class Short(EnvironmentRecord):
        pretrained_defaults = {"system_prompt": "Play.", "sft_batch": 2}

    assert pretrained_defaults(EnvironmentRecord()) == GENERAL
    assert pretrained_defaults(Short()) == {**GENERAL, "system_prompt": "Play.", "sft_batch": 2}
    assert pretrained_defaults(find_record("ColBench-Backend-v0")) == FUNCTIONS


def test_flags_and_files_override_them(tmp_path):
    given = ["--model", "org/model", "--sft_dialogues", "0", "--system_prompt", "", "--max_new_tokens", "9"]
    assert _given(given) == {**FUNCTIONS, "sft_dialogues": 0, "system_prompt": "", "max_new_tokens": 9}
    file = tmp_path / "own.yaml"
    file.write_text("model: org/model\nsft_epochs: 3\nsystem_prompt: example\n")
    expected = {**FUNCTIONS, "sft_epochs": 3, "system_prompt": "example"}
    assert _given(["--config", str(file)]) == expected
    assert _given(["--config", str(file), "--sft_epochs", "2"]) == {**expected, "sft_epochs": 2}
    assert _given(["--config", str(file), "--model", "tiny"])["sft_dialogues"] == SFTArguments().sft_dialogues
    file.write_text("sft_epochs: 3\n")
    assert _given(["--config", str(file), "--model", "org/model"]) == {**FUNCTIONS, "sft_epochs": 3}


@pytest.mark.parametrize("main", [train.main, compare.main], ids=["train", "compare"])
def test_help_shows_them(main, capsys):
    for words, dialogues, is_pretrained in (([], 6000, False), (["--model", "org/model"], 400, True)):
        with pytest.raises(SystemExit):
            main([*words, "--help"])
        said = " ".join(capsys.readouterr().out.split())
        assert f"for a pretrained model that converses by itself. (default: {dialogues}" in said
        own = said[said.index("--system_prompt TEXT") : said.index("--temperature ")]
        assert [text in own for text in ("(default: benchmark)", "(default: 160;")] == [is_pretrained] * 2


def test_the_tiny_model_needs_sft():
    refused = "^`sft_dialogues` may be 0 only with a pretrained `model`: the tiny one knows nothing before SFT.$"
    with pytest.raises(ValueError, match=refused):
        make_config({"sft_dialogues": 0})
    with pytest.raises(ValueError, match=refused):
        parse(["--sft_dialogues", "0"])
    assert not parse(["--model", "org/model", "--sft_dialogues", "0"]).has_sft and parse(["--model", "org/model"]).has_sft


def test_the_pretrained_model_is_evaluated_only_where_sft_makes_another():
    given = ["--model", "org/model", "--eval_pretrained", "example"]
    assert parse(given).has_pretrained and not parse(given[:2]).has_pretrained
    assert not parse([*given, "--sft_dialogues", "0"]).has_pretrained and not parse(given[2:]).has_pretrained


@pytest.mark.parametrize("name", PROMPTS)
def test_a_prompt_is_for_its_environment(name):
    env = ENV_OF_PROMPT[name]
    other = "ColBench-Frontend-v0" if env == "ColBench-Backend-v0" else "ColBench-Backend-v0"
    assert system_prompt(make_config({"env": env, "system_prompt": name, "model": "org/model"}).model) == PROMPTS[name]
    with pytest.raises(ValueError, match=f"^`system_prompt` '{name}' is for {env}, got `env`='{other}'.$"):
        make_config({"env": other, "system_prompt": name, "model": "org/model"})


def test_the_example_follows_the_instructions_and_the_brief_one_is_short():
    assert PROMPTS["example"].startswith(PROMPTS["benchmark"]) and "I WANT TO ANSWER:\n```python\n" in PROMPTS["example"]
    assert len(PROMPTS["brief"]) < len(PROMPTS["benchmark"]) / 2 and "I WANT TO ANSWER:" in PROMPTS["brief"]
    assert system_prompt(ModelArguments(system_prompt="Ask first.")) == "Ask first."
