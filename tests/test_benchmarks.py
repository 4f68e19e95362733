"""The plan of a large run against numbers done by hand, and the GPU's benchmark where there is none."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


@pytest.fixture(scope="module")
def planner():
    spec = importlib.util.spec_from_file_location("planner", BENCHMARKS / "plan.py")
    module = sys.modules["planner"] = importlib.util.module_from_spec(spec)  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules["planner"]


def test_a_plan_is_what_one_would_work_out_by_hand(planner):
    work = planner.Work(
        tasks=100, trajectories=2, turns=4, agent_tokens=10, human_tokens=5, request_tokens=20, hidden_tokens=30, pair_share=0.5,
        state_share=0.25, candidates=3, pairs_per_turn=1, critic_epochs=2, actor_epochs=1, evaluated=0,
    )  # fmt: skip
    rates = planner.Rates(
        gpus=2, parameters=1e6, peak=1e9, training_share=0.1, reading_share=0.5, sampled=40, human_sampled=10, graded=4, cores=5
    )
    stages = {stage.name: stage for stage in planner.plan(work, rates)}
    collect = stages[
        "collect"
    ]  # 200 dialogues: 8000 tokens said at 80 a second, 8000 read at 500 a second; 4000 of the human's at 10
    assert (
        collect.agent == pytest.approx(100 + 16)
        and collect.human == pytest.approx(400)
        and collect.grading == pytest.approx(10)
    )
    assert collect.seconds == collect.human and collect.bottleneck == "human"
    assert stages["critic"].seconds == pytest.approx(100 * 2 * (20 + 60 + 30) * (2 * 6 + 2) * 1e6 / (2 * 1e9 * 0.1))
    # 200 turns: the dialogue so far is 20 + 2 * 15 tokens, and 30 hidden ones; three candidates of 10 behind it; two models
    assert stages["rank"].seconds == pytest.approx(2 * 200 * (50 + 30 + 3 * 10) / 500)
    assert stages["rank, each candidate by itself"].seconds == pytest.approx(2 * 200 * 3 * (50 + 30 + 10) / 500)
    more = planner.plan(work, replace(rates, gpus=4))
    assert more[1].seconds == pytest.approx(stages["critic"].seconds / 2)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU, which the benchmark would measure for minutes")
def test_without_a_gpu_nothing_is_measured_and_that_is_said():
    command = [sys.executable, str(BENCHMARKS / "gpu.py")]
    done = subprocess.run(command, cwd=BENCHMARKS.parent, env={"PYTHONPATH": "."}, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("No GPU here: nothing was measured.")
