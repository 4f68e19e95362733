"""Teams on Ray: the same files from two workers as from none."""

from __future__ import annotations

import pytest

from colbench_gym.files import read_rows
from sweetrl_agent.algorithms import malt
from sweetrl_agent.evaluation import comparison_job
from sweetrl_agent.trainers.run import Run

#: With eight tasks, as many dialogues are sampled at once in this process as by a worker: on some processors (AMX) the last bits of a product depend on
#: the number of its rows.
SETTINGS = {
    "maporl": ("Debate-v0", {"rounds": 2, "tasks": 8, "iterations": 2, "trained_coders": 1, "policies": "agent"}),
    "at_grpo": ("Team-v0", {"agents": ["generator", "verifier", "refiner"], "tasks": 8, "iterations": 2, "k": 2}),
    "malt": ("Team-v0", {"n": 2, "sft_epochs": 1.0, "dpo_epochs": 1.0}),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_team_learns_the_same_from_two_workers_as_from_none(name, cluster, tmp_path, tiny_model_folder, monkeypatch):
    monkeypatch.setattr(malt, "TASKS_PER_BATCH", 3)
    env, settings = SETTINGS[name]
    files, rows = [], []
    for workers in (2, 0):
        given = {
            "algorithms": [name], "output": tmp_path / str(workers), "env": f"tests.sweetrl_agent.team_games:{env}", "tasks": "seeds:0-7",
            "test_tasks": "seeds:10-11", "model": tiny_model_folder, "dtype": "float32", "sft_dialogues": 0, "system_prompt": "", "max_new_tokens": 4,
            "threads": 1, "generation_batch": 8, "ray_workers": workers, **{f"{name}.{key}": value for key, value in settings.items()},
        }  # fmt: skip
        run = Run(comparison_job.parse([], given)[1])
        run.config.algorithms[name].train(run)
        files.append({
            path.relative_to(run.path(".")): path.read_bytes() for path in run.path(name).rglob("*.*")
            if path.suffix in (".jsonl", ".safetensors")
        })  # fmt: skip
        rows.append(read_rows(run.path("metrics.jsonl")))
    assert files[0] == files[1] and files[0] and rows[0] == rows[1]
