"""What `--help` prints and docs/settings.md shows: every setting once, by stage, with the names of the registries."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields
from pathlib import Path

import pytest

import sandboxes
from sweetrl_agent import compare, train
from sweetrl_agent.algorithms.critics import CRITICS
from sweetrl_agent.algorithms.registry import ALGORITHMS
from sweetrl_agent.algorithms.settings import known_settings
from sweetrl_agent.algorithms.settings_help import algorithm_sections, registered
from sweetrl_agent.algorithms.sweet import SweetConfig
from sweetrl_agent.config.__main__ import main as config_command
from sweetrl_agent.config.job import COMPARE, SECTIONS
from sweetrl_agent.envs.registry import RECORDS, find_record

PAGE = Path(__file__).resolve().parents[3] / "docs" / "settings.md"
TITLES = ["compare", "run", "task", "model", "sft", "collect", "evaluation"]


@pytest.fixture(scope="module")
def found():
    return [COMPARE, *SECTIONS, *algorithm_sections(list(ALGORITHMS))]


def test_every_setting_is_in_one_section(found):
    counts = Counter(name for section in found for name in section.settings)
    known = {
        name
        for name in known_settings([COMPARE, *SECTIONS])
        if not (ALGORITHMS[name.partition(".")[0]].critic if "." in name else "")
    }
    assert {*counts} == {*known, *(f"sweet.{one.name}" for one in fields(SweetConfig))} and {*counts.values()} == {1}


def test_sections_are_in_the_order_of_a_run_then_by_algorithm(found):
    titles = [section.title for section in found]
    assert titles[: len(TITLES)] == TITLES
    assert titles[len(TITLES) :] == [
        name for name in ALGORITHMS if name == "sweet" or (not ALGORITHMS[name].critic and fields(ALGORITHMS[name].Config))
    ]
    assert all(name.startswith("grpo.") for name in next(section for section in found if section.title == "grpo").settings)


def test_names_are_those_of_the_registries():
    names = registered(find_record("ColBench-Backend-v0"))
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
    places = [said.index(f"\n{title}:\n") for title in [*TITLES[1:], "sweet"]]
    assert places == sorted(places)
    assert "\ngrpo:\n" not in said and "`--algorithm NAME --help` for one of them, `--help all` for all" in said
    assert said.startswith("usage: python -m sweetrl_agent.train [--config NAME] [--SETTING VALUE ...]\n")
    assert "\ncompare:\n" not in said and "paper_backend, quick, qwen_0.5b_cpu, qwen_1.5b_cpu, qwen_rows_cpu" in said
    words = " ".join(said.split())
    assert "--sweet.num_candidates N Candidates per turn; 16 in the paper. (default: 8; at least 2)" in words
    assert "--num_tasks N Training tasks used; 0 for all. 5,000 in the paper. (default: 150)" in words
    assert "no_hidden SWEET-RL, w/o train-time information" in words
    pages = " ".join(_help(train.main, ["--env", "ColBench-Frontend-v0"], capsys).split())
    assert "--num_tasks N Training tasks used; 0 for all. 5,000 in the paper. (default: 250)" in pages


def test_help_shows_the_chosen_algorithm_or_all(capsys):
    said = _help(train.main, ["--algorithm", "grpo", "--grpo.clip", "0.3"], capsys)
    assert "\nsweet:\n" not in said and "--grpo.clip X Clip range eps of a token's ratio. (default: 0.3)" in " ".join(
        said.split()
    )
    with pytest.raises(SystemExit):
        train.main(["--help", "all"])
    said = capsys.readouterr().out
    assert all(f"\n{name}:\n" in said for name in ("grpo", "rft", "ilql", "sweet")) and "--no_hidden.critic_epochs" not in said
    said = _help(compare.main, ["--algorithms", "rft", "no_hidden"], capsys)
    assert "\nrft:\n" in said and "\nsweet:\n" in said and "\ngrpo:\n" not in said


def test_help_of_compare_begins_with_what_is_compared(capsys):
    said = _help(compare.main, ["--config", "quick"], capsys)
    assert said.index("\ncompare:\n") < said.index("\nrun:\n")
    assert "--num_tasks N Training tasks used; 0 for all. 5,000 in the paper. (default: 300)" in " ".join(said.split())


def test_the_page_is_current(capsys):
    assert config_command(["--markdown"]) == 0
    assert PAGE.read_text(encoding="utf-8") == capsys.readouterr().out, (
        "run `python -m sweetrl_agent.config --markdown > docs/settings.md`"
    )
