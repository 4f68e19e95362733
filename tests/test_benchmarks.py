"""Small versions of the benchmarks."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import subprocess
import sys
from random import Random

import pytest

from colbench_gym.tasks.dial import STANDARD, parse_dial
from colbench_gym.tasks.embedded import families, make_task
from colbench_gym.tasks.families.family import Topic
from tests.benchmark_modules import BENCHMARKS, loaded

#: What a benchmark may lack here: it says how to get it.
OPTIONAL = {"gguf", "libcst", "mutmut", "selenium"}


@pytest.mark.parametrize("path", sorted(BENCHMARKS.glob("*.py")), ids=lambda path: path.stem)
def test_a_benchmark_imports_modules_that_exist(path, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    nodes = [*ast.walk(ast.parse(path.read_text()))]
    names = [node.module for node in nodes if isinstance(node, ast.ImportFrom)]
    names += [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    tops = {name.partition(".")[0] for name in names} - OPTIONAL
    ours = {name for name in names if name.startswith(("colbench_gym.", "sandboxes.", "sweetrl_agent."))}
    assert tops and [name for name in sorted(tops | ours) if importlib.util.find_spec(name) is None] == []


@pytest.fixture(scope="module")
def random_tasks():
    yield from loaded("random_tasks")


@pytest.fixture(scope="module")
def policies():
    yield from loaded("policies")


def test_random_tasks_of_random_dials_hold_what_is_promised(random_tasks):
    found = random_tasks.find(3000, 60, seed=1)
    assert found.failures == []
    assert found.tasks == 3000 and found.left_out >= 3000 and len(found.sample) == 60 and len(found.dials) >= 5


def test_a_task_that_is_solved_without_a_wish_is_found(random_tasks):
    unclear = next(
        (family, choice)
        for family in families("train")
        for choice in family._choices(2)
        if not family.is_clear(choice) and family.values(choice) == family.values((0,) * len(choice))
    )
    findings = random_tasks.Findings()
    task = make_task(*unclear)
    random_tasks.check(task, STANDARD, findings)
    assert findings.tasks == 1 and any("is solved without the wish" in line for line in findings.failures)
    assert any("is solved in the sandbox by" in line for line in random_tasks.grade([task], Random(0)))


def test_a_source_without_a_family_is_counted_where_it_is_refused(random_tasks):
    findings = random_tasks.Findings()
    for seed in range(20):
        random_tasks.random_families(Random(seed), parse_dial("topics=20&relevant=6&wishes=1"), findings)
    assert findings.refused and findings.failures == []


def test_scripted_policies_are_measured(policies, tmp_path):
    output = tmp_path / "policies.json"
    output.write_text('{"other": {}}')
    command = [sys.executable, str(BENCHMARKS / "policies.py"), "--dial", "", "--count", "30", "--output", str(output)]
    subprocess.run(command, cwd=BENCHMARKS.parent, env={**os.environ, "PYTHONPATH": "."}, capture_output=True, check=True)
    results = json.loads(output.read_text())
    assert list(results) == ["other", "standard"] and list(results["standard"]) == list(policies.POLICIES)
    success = {name: row["success"] for name, row in results["standard"].items()}
    assert {row["n"] for row in results["standard"].values()} == {30}
    assert success["told everything"] == success["oracle"] == 1.0 and success["never asks"] == 0.0
    assert success["at random"] < 0.6 and results["standard"]["oracle"]["turns"] == 4.0


def test_two_points_are_said_in_two_sentences_or_in_one(policies):
    topics = (Topic("a", ("How is it rounded?",), ()), Topic("b", ("Is there a limit?",), ()))
    assert policies.message(topics, False, Random(0)) == "How is it rounded? Is there a limit?"
    assert policies.message(topics, True, Random(0)) == "How is it rounded and is there a limit?"
    assert policies.message(topics[:1], True, Random(0)) == "How is it rounded?"


@pytest.fixture(scope="module")
def understanding():
    yield from loaded("understanding")


@pytest.mark.parametrize(("half", "count"), [("development", 200), ("blind", 97)])
def test_the_scripted_person_understands_what_others_wrote(understanding, half, count):
    rows = json.loads((understanding.FOLDER / f"{half}.json").read_text(encoding="utf-8"))
    found = understanding.summary(list(understanding.measured(rows)))
    assert found["n"] == count
    assert found["right"] >= 0.88 and found["unasked_wish"] <= 0.03


def test_a_wrong_reply_and_an_unasked_wish_are_counted(understanding):
    row = json.loads((understanding.FOLDER / "development.json").read_text(encoding="utf-8"))[0]
    task = understanding.task_of(row)
    special = next(fact for fact in task.hidden.facts if fact.is_special)
    question = {"kind": "blanket", "topics": [], "question": special.phrases[0]}
    asked = understanding.asked(understanding.ScriptedHuman(), task, question)
    assert not asked["right"] and asked["unasked"] == 1 and asked["said"] == [special.topic]
    rightly = understanding.asked(understanding.ScriptedHuman(), task, {**question, "kind": "topic", "topics": [special.topic]})
    assert rightly["right"] and rightly["unasked"] == 0


def run_benchmark(name, *arguments):
    """A benchmark as a user runs it."""
    command = [sys.executable, BENCHMARKS / name, *arguments]
    environment = {**os.environ, "PYTHONPATH": "."}
    return subprocess.run(list(map(str, command)), cwd=BENCHMARKS.parent, env=environment, capture_output=True, text=True)


@pytest.fixture(scope="module")
def gpu_folder(tmp_path_factory):
    """What the dry run of pretrained_gpu.py leaves, with two seeds."""
    folder = tmp_path_factory.mktemp("gpu")
    arguments = ("--folder", folder / "runs", "--output", folder / "measured.json", "--peak_tflops", 0.5)
    done = run_benchmark("pretrained_gpu.py", "--dry_run", *arguments)
    assert done.returncode == 0, "".join(path.read_text()[-1500:] for path in (folder / "runs").glob("*.log"))
    return folder


@pytest.fixture(scope="module")
def on_a_gpu(gpu_folder):
    return json.loads((gpu_folder / "measured.json").read_text())


def test_the_stages_of_a_pretrained_model_are_measured(on_a_gpu):
    assert list(on_a_gpu["seeds"]) == ["0", "1"] and on_a_gpu["failed"] == []
    for seed in on_a_gpu["seeds"].values():
        stages = seed["stages"]
        assert list(stages) == ["sft", "collect", "candidates", "rank gain", "actor gain", "evaluate", "report"]
        assert {name for name, stage in stages.items() if stage["trained"]} == {"sft", "actor gain"}
        assert {name for name, stage in stages.items() if stage["sampled"]} == {"collect", "candidates", "evaluate"}
        assert [stages[name]["steps"] for name in ("sft", "actor gain")] == [1, -(-seed["turn_pairs"] // 32)]
        for stage in stages.values():
            assert stage["share_of_peak"] == pytest.approx(stage["teraflop"] / stage["seconds"] / 0.5)
        assert stages["rank gain"]["teraflop"] > 0 == stages["report"]["teraflop"] and seed["turn_pairs"] > 0
    done = sum(stage["teraflop"] for seed in on_a_gpu["seeds"].values() for stage in seed["stages"].values())
    assert on_a_gpu["share_of_peak"] == pytest.approx(done / on_a_gpu["seconds"] / 0.5, rel=0.01)
    assert on_a_gpu["sampling"]["transformers"]["tokens_per_s"] > 0


def test_what_a_pretrained_model_asks_is_compared_over_its_seeds(on_a_gpu):
    assert [row["split"] for row in on_a_gpu["agents"]] == 3 * ["all"] + 3 * ["test"]
    agents = {row["agent"]: row for row in on_a_gpu["agents"] if row["split"] == "all"}
    assert list(agents) == ["pretrained", "initial", "trained"] and {row["n"] for row in agents.values()} == {8}
    assert all({"questions", "heard", "written", "tests_passed"} <= row.keys() for row in agents.values())
    assert [pair["split"] for pair in on_a_gpu["differences"]] == 3 * ["all"] + 3 * ["test"]
    for pair in on_a_gpu["differences"]:
        start, to = (agents[pair[side]] for side in ("from", "to"))
        assert pair["tasks"] == 4 and pair["wishes_heard"]["difference"] == pytest.approx(
            to["heard"] - start["heard"], abs=2e-4
        )
        written = pair["written"]
        assert written["difference"] == pytest.approx(to["written"] - start["written"], abs=2e-4)
        assert written["ci95"][0] <= written["difference"] <= written["ci95"][1]
        assert pair["tests_passed"]["difference"] == pytest.approx(sum(pair["by_run"].values()) / 2, abs=2e-4)


def test_the_results_of_a_recipe_are_those_of_its_runs(gpu_folder, on_a_gpu):
    runs, output = [gpu_folder / "runs" / f"seed_{seed}" for seed in (0, 1)], gpu_folder / "recipe.json"
    assert run_benchmark("recipe_results.py", *runs, "--output", output, "--note", "here").returncode == 0
    results = json.loads(output.read_text())
    assert results["agents"] == on_a_gpu["agents"] and results["differences"] == on_a_gpu["differences"]
    assert results["note"] == "here" and "seed" not in results["settings"] and str(gpu_folder) not in output.read_text()
    for seed, of in on_a_gpu["seeds"].items():
        assert sum(results["pairs"][seed].values()) == of["turn_pairs"] and results["seconds"][seed].keys() == of[
            "stages"
        ].keys() - {"report"}
    refused = run_benchmark("recipe_results.py", *runs, runs[0], "--output", output)
    assert refused.returncode == 2 and "two runs have the same seed" in refused.stderr
    refused = run_benchmark("recipe_results.py", gpu_folder, "--output", output)
    assert refused.returncode == 2 and f"not finished: {gpu_folder}" in refused.stderr
