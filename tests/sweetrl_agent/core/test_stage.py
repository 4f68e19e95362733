"""A stage is stated once, and what else speaks of stages agrees with the statement."""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path

import pytest

from sweetrl_agent.config.job import Config, first_stage
from sweetrl_agent.config.pipeline import MAIN_JOB, STAGES
from sweetrl_agent.core.stage import Stage, as_table

DOCS = Path(__file__).resolve().parents[3] / "docs"


@pytest.mark.parametrize("stage", MAIN_JOB, ids=list(STAGES))
def test_its_function_is_there_and_its_name_is_its_own(stage):
    module, _, function = stage.work.partition(":")
    assert callable(getattr(import_module(module), function))
    assert [other.name for other in MAIN_JOB].count(stage.name) == 1


def test_what_a_stage_reads_was_written_before():
    written = {"metrics.jsonl"}  # of every stage that trains
    for stage in MAIN_JOB:
        assert {*stage.reads} <= written, stage.name
        written |= {*stage.files}


def test_every_setting_that_a_stage_claims_is_one_and_no_two_stages_claim_it():
    names = list(Config()._flat())
    for stage in MAIN_JOB:
        for pattern in stage.settings:
            assert [name for name in names if fnmatchcase(name, pattern)], pattern
    for name in names:
        assert len([stage for stage in MAIN_JOB if stage.is_shaped_by(name)]) <= 1, name


@pytest.mark.parametrize(
    ("setting", "stage"),
    [
        ("num_tasks", "collect"), ("min_best", "pairs"), ("critic_epochs", "critic"), ("num_states", "candidates"), ("pair_quantile", "rank"),
        ("actor_loss", "actor"), ("eval_tasks", "evaluate"), ("tiny_layers", "sft"), ("seed", "sft"), ("mtdpo_beta", "mtdpo"),
    ],
)  # fmt: skip
def test_the_first_stage_of_a_setting(setting, stage):
    assert first_stage(setting) == stage


@pytest.mark.parametrize("page", ["train.md", "algorithms/sweet.md"])
def test_the_table_of_the_documentation_is_that_of_the_stages(page):
    assert f"\n{as_table(MAIN_JOB)}\n" in (DOCS / page).read_text(encoding="utf-8")


def test_a_stage_runs_what_it_is_given_or_names():
    seen = []
    stage = Stage("one", "", (), ("file",), seen.append)
    stage.run("run")
    replace(stage, work="builtins:len").run("run")
    assert seen == ["run"]
    with pytest.raises(AttributeError):
        replace(stage, work="builtins:no_such_function").run("run")
