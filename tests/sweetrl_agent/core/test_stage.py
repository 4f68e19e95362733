"""A stage is stated once, and what else speaks of stages agrees with the statement."""

from __future__ import annotations

from dataclasses import fields, replace
from fnmatch import fnmatchcase

import pytest

from sweetrl_agent.algorithms.settings import make_config
from sweetrl_agent.algorithms.sweet import Sweet, SweetConfig
from sweetrl_agent.config.job import PARTS
from sweetrl_agent.config.pipeline import MAIN_JOB, STAGES, stages_of
from sweetrl_agent.core.stage import Stage
from sweetrl_agent.evaluation.main_job import with_work


@pytest.mark.parametrize("stage", MAIN_JOB, ids=list(STAGES))
def test_its_name_is_its_own_and_the_run_gives_it_a_function(stage):
    assert [other.name for other in MAIN_JOB].count(stage.name) == 1
    assert callable(with_work(stages_of(Sweet()))[stage.name].work)


def test_what_a_stage_reads_was_written_before():
    written = {"metrics.jsonl"}  # of every stage that trains
    for stage in MAIN_JOB:
        assert {*stage.reads} <= written, stage.name
        written |= {*stage.files}


def test_every_setting_that_a_stage_claims_is_one_and_no_two_stages_claim_it():
    names = [one.name for kind in (*PARTS.values(), SweetConfig) for one in fields(kind)]
    for stage in MAIN_JOB:
        for pattern in stage.settings:
            assert [name for name in names if fnmatchcase(name, pattern)], pattern
    for name in names:
        assert len([stage for stage in MAIN_JOB if stage.is_shaped_by(name)]) <= 1, name


@pytest.mark.parametrize(
    ("setting", "stage"),
    [
        ("num_tasks", "collect"), ("min_best", "pairs"), ("sweet.critic_epochs", "critic"), ("sweet.num_states", "candidates"),
        ("sweet.pair_quantile", "rank"), ("sweet.actor_loss", "actor"), ("eval_tasks", "evaluate"), ("tiny_layers", "sft"), ("seed", "sft"),
        ("mtdpo.beta", "mtdpo"), ("no_hidden.actor_loss", "actor no_hidden"), ("no_hidden.num_states", "candidates"),
    ],
)  # fmt: skip
def test_the_first_stage_of_a_setting(setting, stage):
    assert make_config(algorithms=["sweet", "no_hidden", "mtdpo"]).first_stage(setting) == stage


def test_a_stage_runs_what_it_is_given():
    seen = []
    stage = Stage("one", "", (), ("file",), seen.append)
    stage.run("run")
    assert seen == ["run"]
    with pytest.raises(TypeError, match="'one' is only declared"):
        replace(stage, work=None).run("run")
