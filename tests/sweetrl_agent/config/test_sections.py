"""What `--help` prints and docs/settings.md shows: every setting once, by stage, with the names of the registries."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from dataclasses import fields
from pathlib import Path

import pytest

import sandboxes
from sweetrl_agent import compare, train
from sweetrl_agent.algorithms.critics import CRITICS
from sweetrl_agent.algorithms.registry import ALGORITHMS
from sweetrl_agent.config.evaluation import CompareArguments
from sweetrl_agent.config.job import Config
from sweetrl_agent.config.pipeline import first_stage
from sweetrl_agent.config.sections import sections
from sweetrl_agent.envs.registry import RECORDS, find_record

PAGE = Path(__file__).resolve().parents[3] / "docs" / "settings.md"
PARTS = (CompareArguments, *Config.parts())
STAGES = ["run", "task", "model", "sft", "collect", "critic", "candidates", "rank", "actor", "evaluate"]


@pytest.fixture(scope="module")
def found():
    return sections(PARTS, find_record("ColBench-Backend-v0"))


def test_every_setting_is_in_one_section(found):
    counts = Counter(one.name for section in found for one in section.settings)
    assert counts == Counter(one.name for part in PARTS for one in fields(part)) and set(counts.values()) == {1}


def test_sections_are_in_the_order_of_a_run_then_by_algorithm(found):
    titles = [section.title for section in found]
    assert titles[:11] == ["compare", *STAGES]
    assert {"rft", "mtdpo", "grpo", "turn_ppo", "reinforce"} <= {*titles[11:]} <= {*ALGORITHMS}
    by_title = {section.title: section for section in found}
    for stage in ("critic", "candidates", "rank", "actor"):
        assert {first_stage(one.name) for one in by_title[stage].settings if one.name != "critic"} == {stage}
    assert all(one.name.startswith("grpo_") for one in by_title["grpo"].settings)


def test_names_are_those_of_the_registries(found):
    names = {one.name: list(one.names) for section in found for one in section.settings if one.names}
    assert names["algorithm"] == names["algorithms"] == list(ALGORITHMS)
    assert names["critic"] == names["critics"] == list(CRITICS)
    assert names["env"] == list(RECORDS) and names["sandbox"] == list(sandboxes.NAMES)
    assert names["simulator"] == ["scripted", "openai", "person"]


def _help(main, words, capsys):
    with pytest.raises(SystemExit) as caught:
        main([*words, "--help"])
    assert caught.value.code == 0
    return capsys.readouterr().out


def test_help_shows_stages_names_bounds_and_the_environments_own_defaults(capsys):
    said = _help(train.main, [], capsys)
    places = [said.index(f"\n{stage}: ") for stage in [*STAGES, "rft", "grpo"]]
    assert places == sorted(places)
    assert said.startswith("usage: python -m sweetrl_agent.train [--config NAME] [--SETTING VALUE ...]\n")
    assert "\ncompare: " not in said and "paper_backend, quick, qwen_0.5b_cpu, qwen_1.5b_cpu, qwen_rows_cpu" in said
    words = " ".join(said.split())
    assert "--num_candidates N Candidates per turn; 16 in the paper. (default: 8; at least 2)" in words
    assert "--num_tasks N Training tasks used; 0 for all. 5,000 in the paper. (default: 150)" in words
    assert "no_hidden SWEET-RL, w/o train-time information" in words
    pages = " ".join(_help(train.main, ["--env", "ColBench-Frontend-v0"], capsys).split())
    assert "--num_tasks N Training tasks used; 0 for all. 5,000 in the paper. (default: 250)" in pages


def test_help_of_compare_begins_with_what_is_compared(capsys):
    said = _help(compare.main, ["--config", "quick"], capsys)
    assert said.index("\ncompare: ") < said.index("\nrun: ")
    assert "--num_tasks N Training tasks used; 0 for all. 5,000 in the paper. (default: 300)" in " ".join(said.split())


def test_the_page_is_current():
    made = subprocess.run(
        [sys.executable, "-m", "sweetrl_agent.config", "--markdown"], capture_output=True, text=True, check=True
    )
    assert PAGE.read_text(encoding="utf-8") == made.stdout, "run `python -m sweetrl_agent.config --markdown > docs/settings.md`"
