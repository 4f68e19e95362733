"""`benchmarks/merge_comparisons.py`: results of several runs are those of one comparison with all algorithms, and runs that do not fit are refused."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import pytest

from colbench_gym.files import write_rows
from sweetrl_agent.evaluation.comparison import compare_scores

RETURNS = {"bc": (-6.0, -5.0, -4.0), "mc": (-3.0, -4.0, -4.0), "grpo": (-2.0, -1.0, -6.0)}


@pytest.fixture(scope="module")
def merged():
    spec = importlib.util.spec_from_file_location(
        "merge_comparisons", Path(__file__).parents[1] / "benchmarks/merge_comparisons.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.merged


def _rows(names, seed, shift=0.0):
    return [
        {
            "agent": name, "split": "test", "task_id": str(task), "episode": 0, "outcome": "ended", "success": int(value > -5),
            "return": value - 0.1 * seed - (shift if name == "bc" else 0), "turns": 3, "answered": 1, "reply_chars": 2.0,
        }
        for name in names
        for task, value in enumerate(RETURNS[name])
    ]  # fmt: skip


def _write(folder, names, seeds=(0, 1), shift=0.0):
    for seed in seeds:
        (folder / f"seed_{seed}").mkdir(parents=True)
        write_rows(folder / f"seed_{seed}/evaluation.jsonl", _rows(names, seed, shift))
    results = {"metric": "return", "algorithms": dict.fromkeys(names, {}), "settings": {"of": folder.name}, "secret": 1}
    (folder / "results.json").write_text(json.dumps(results), encoding="utf-8")
    return folder


def test_they_are_the_results_of_one_comparison(merged, tmp_path):
    one, other = _write(tmp_path / "one", ["bc", "mc"]), _write(tmp_path / "other", ["bc", "grpo"])
    found = merged({one: ["bc", "mc"], other: ["grpo"]})
    whole = compare_scores({seed: _rows(["bc", "mc", "grpo"], seed) for seed in (0, 1)}, "return")
    assert {name: found[name] for name in whole} == whole and set(whole["algorithms"]) == set(RETURNS)
    assert found["runs"] == {
        "one": {"algorithms": ["bc", "mc"], "settings": {"of": "one"}},
        "other": {"algorithms": ["grpo"], "settings": {"of": "other"}},
    }


@pytest.mark.parametrize(
    ("names", "given", "error"),
    [
        (["grpo"], {}, "other must have the seeds of"),
        (["bc", "grpo"], {"seeds": (0,)}, "other must have the seeds of"),
        (["bc", "grpo"], {"shift": 1.0}, "'bc' of seed 0 played other episodes in"),
    ],
    ids=["nothing in common", "other seeds", "other episodes"],
)
def test_runs_that_do_not_fit_are_refused(names, given, error, merged, tmp_path):
    one, other = _write(tmp_path / "one", ["bc", "mc"]), _write(tmp_path / "other", names, **given)
    with pytest.raises(ValueError, match=re.escape(error)):
        merged({one: ["mc"], other: ["grpo"]})
