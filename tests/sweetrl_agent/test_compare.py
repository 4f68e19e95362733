"""The comparison end to end on a very small setting, what it refuses, and that its numbers are those of the rows."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from colbench_gym.files import locked, read_rows, write_rows
from colbench_gym.stage_records import StageRecords
from colbench_gym.tasks import load_tasks
from sweetrl_agent import compare, train
from sweetrl_agent.algorithms.registry import ALGORITHMS as ALL
from sweetrl_agent.algorithms.registry import refuse_missing
from sweetrl_agent.algorithms.settings import make_algorithms, make_config
from sweetrl_agent.evaluation import steps
from sweetrl_agent.evaluation.comparison import compare_scores, tables
from sweetrl_agent.trainers.run import Run
from tests.words import words

from .killed_runs import mark_done, record_again

#: The first test waits for the fixture, which takes more than a minute on a quiet core.
SETTINGS = {
    "sft_dialogues": 64, "sft_epochs": 1, "sft_batch": 16, "tiny_hidden_size": 32, "tiny_layers": 1,
    "tiny_vocab_size": 600, "num_tasks": 4, "trajectories_per_task": 2, "sweet.num_states": 4, "sweet.num_candidates": 3,
    "eval_tasks": 4, "shown_dialogues": 2, "max_new_tokens": 16, "max_turns": 3, "min_best": 0.0, "generation_batch": 4,
    "sweet.critic_batch": 2, "sweet.critic_micro_batch": 2, "rft.batch": 2, "mtdpo.batch": 2, "sandbox": "embedded", "threads": 1,
    "grpo.tasks": 2, "grpo.group": 2, "grpo.iterations": 2,
}  # fmt: skip
#: All but those that need pages or train for as long on any model, those that have no preference among what so small a model says (all
#: three have tests of their own), more forms of learning from play than GRPO and more heads and forms of critics (likewise), those that need behaviour data (likewise), and SWEET-RL's own critic under the names of its forms (`critics/test_named.py`).
LEFT_OUT = (
    "bc", "filtered_bc", "mc", "ilql", "vision_head", "ppo", "dqn", "token_ppo", "online_filtered_bc", "archer", "archer_offline", "judge", "exact", "marginal", "paper", "paper_plain", "released",
    "reinforce", "turn_ppo", "gigpo", "vineppo", "infopo", "igpo", "gain", "sweet_online", "linvit", "slinvit", "collab", "bidirectional", "malt", "maporl", "at_grpo", "regression_head", "no_normalisation", "no_replies", "value_head",
)  # fmt: skip
ALGORITHMS = tuple(name for name in ALL if name not in LEFT_OUT)
UNTRAINED = ("single_turn", "initial", "random_actions")
CRITICS = ("sweet", "no_hidden", "value_head", "judge", "untrained")
#: One critic is trained for ten steps, of which the last is logged; measures of it come after.
LONGER = ["--no_hidden.critic_epochs", "5"]
EXPERIMENTS = [
    "--algorithms", *ALGORITHMS, "--critics", *CRITICS, "--seeds", "2", "--credit_tasks", "3", "--best_of", "1", "2",
    "--best_of_tasks", "2", "--scaling", "6", "--simulators", "terse", "chatty", "--simulator_tasks", "2", "--against", "PAPER",
    *LONGER,
]  # fmt: skip


def _arguments(folder, **changes):
    return words({**SETTINGS, "output": folder, **changes})


def _asked(folder):
    return [*_arguments(folder), *EXPERIMENTS, "--baseline", str(folder / "recorded.jsonl")]


def _begin(folder, seed):
    """Collect, and let every first episode pass half of its tests: a model this small never does, and without there are no pairs."""
    for stage in ("sft", "collect"):
        assert train.main([*_arguments(folder / f"seed_{seed}", seed=seed), "--stage", stage]) == 0
    path = folder / f"seed_{seed}" / "trajectories.jsonl"
    rows = read_rows(path)
    for row in rows:
        row["metrics"]["tests_passed"] = 0.5 if row["episode"] == 0 else 0.0
    write_rows(path, rows)
    record_again(path.parent, "collect")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder of a comparison of two seeds."""
    folder = tmp_path_factory.mktemp("compare")
    for seed in (0, 1):
        _begin(folder, seed)
    recorded = [
        {"agent": "old", "split": "test", "task_id": task.id, "outcome": "wrong", "tests_passed": 0.0}
        for task in load_tasks("embedded:test[:20]")
    ]
    write_rows(folder / "recorded.jsonl", recorded)
    assert compare.main([*_asked(folder), "--workers", "2"]) == 0
    return folder


def test_every_algorithm_is_measured_on_the_same_tasks_and_seeds(finished):
    results = json.loads((finished / "results.json").read_text())
    assert list(results["algorithms"]) == list(ALGORITHMS)
    for splits in results["algorithms"].values():
        assert {split: (score["n"], score["seeds"]) for split, score in splits.items()} == {"test": (4, 2), "unseen": (4, 2)}
    assert len(results["paired"]) == 2 * len(list(combinations(ALGORITHMS, 2)))
    for seed in (0, 1):
        rows = read_rows(finished / f"seed_{seed}" / "evaluation.jsonl")
        asked = {name: [(row["split"], row["task_id"]) for row in rows if row["agent"] == name] for name in ALGORITHMS}
        assert len({tuple(tasks) for tasks in asked.values()}) == 1


def test_the_algorithms_start_alike_and_end_unlike(finished):
    """One start for all of a seed; an algorithm's own training has moved its weights, unless there was nothing to learn from."""
    folder = finished / "seed_0"
    agents = [folder for name in ALGORITHMS for folder in ALL[name].folders]
    weights = {name: (folder / name / "model.safetensors").read_bytes() for name in ("initial", *agents)}
    assert len(agents) == len(ALGORITHMS) - 3  # the start, twice, and random actions
    unmoved = [name for name in agents if weights[name] == weights["initial"]]
    assert unmoved == ["grpo/agent"]  # no episode of this small a model succeeds, so no turn has an advantage
    assert len({weights[name] for name in ("initial", "rft/agent", "mtdpo/agent", "policy")}) == 4


def test_overrides_reach_the_training_of_their_critic_alone(finished):
    rows = read_rows(finished / "seed_0" / "metrics.jsonl")
    epochs = {name: max(row["epoch"] for row in rows if row["stage"] == name) for name in ("critic", "critic no_hidden")}
    assert epochs["critic"] <= 1 and epochs["critic no_hidden"] == 5
    settings = json.loads((finished / "results.json").read_text())["settings"]
    assert (settings["sweet"]["critic_epochs"], settings["no_hidden"]["critic_epochs"]) == (1, 5)
    assert "| no_hidden.critic_epochs | 5.0 |" in (finished / "report.md").read_text()


def test_the_results_name_the_tasks_with_their_whole_dial(finished):
    dial = "topics=12&relevant=3&wishes=2&turns=6&points=1"
    assert json.loads((finished / "results.json").read_text())["tasks"] == {
        "train": f"embedded:train?{dial}", "test": f"embedded:test?{dial}[:300]", "unseen": f"embedded:unseen?{dial}",
    }  # fmt: skip


def test_the_ledger_counts_what_is_in_the_files(finished):
    ledger = json.loads((finished / "results.json").read_text())["ledger"]["1"]
    turns = sum(len(row["turns"]) for row in read_rows(finished / "seed_1" / "trajectories.jsonl"))
    assert set(ledger["initial"].values()) == {0}
    assert [ledger[name]["environment_turns"] for name in ("rft", "mtdpo", "sweet", "untrained")] == [turns] * 4
    assert ledger["rft"]["simulator_calls"] == turns - 8 and ledger["rft"]["sandbox_runs"] == 8
    assert ledger["sweet"]["candidates"] == 4 * 3 and ledger["rft"]["candidates"] == 0
    assert ledger["sweet"]["generated_tokens"] > ledger["rft"]["generated_tokens"] > 0
    assert ledger["sweet"]["trained_tokens"] > ledger["untrained"]["trained_tokens"] > 0
    assert ledger["grpo"]["sandbox_runs"] == 2 * 2 * 2 <= ledger["grpo"]["environment_turns"]
    assert all(ledger[name]["peak_mib"] > 100 for name in ALGORITHMS if name not in UNTRAINED)


def test_the_experiments_are_in_the_results(finished):
    results = json.loads((finished / "results.json").read_text())
    credit = results["credit_accuracy"]
    assert list(credit) == list(CRITICS)
    for correlation in (row["rank_correlation"] for by_split in credit.values() for row in by_split.values()):
        assert len(correlation["by_seed"]) == 2
        assert correlation["mean"] == pytest.approx(np.mean(correlation["by_seed"]), abs=1e-4)
    assert {(row["critic"], row["candidates"], row["n"], row["seeds"]) for row in results["best_of_n"]} == {
        (critic, size, 2, 2) for critic in CRITICS for size in (1, 2)
    }
    assert {(row["algorithm"], row["trajectories"], row["n"]) for row in results["scaling"]} == {
        (name, count, 4) for name in ALGORITHMS for count in (6, 8) if name not in (*UNTRAINED, "grpo")
    }
    cells = results["simulators"]["cells"]
    humans = ("scripted (of the training)", "terse", "chatty")
    assert [(cell["simulator"], cell["algorithm"], cell["n"]) for cell in cells] == [
        (s, a, 2) for s in humans for a in ALGORITHMS
    ]
    for seed in (0, 1):
        first = {row["n"]: row for row in results["best_of_n"] if row["critic"] == "sweet"}
        assert first and (finished / f"seed_{seed}" / "log.txt").stat().st_size > 0


def test_the_results_say_why_episodes_fail(finished):
    found = json.loads((finished / "results.json").read_text())["failures"]
    counts = Counter()
    for row in found["rows"]:
        counts[row["agent"], row["split"]] += row["count"]
    assert counts == {(name, split): 8 for name in ALGORITHMS for split in ("test", "unseen")}  # 4 tasks, 2 seeds
    assert "## Why episodes fail" in (finished / "report.md").read_text()
    wishes = json.loads((finished / "results.json").read_text())["wishes"]
    assert {(row["agent"], row["split"], row["n"]) for row in wishes} == {
        (name, split, 8) for name in ALGORITHMS for split in ("test", "unseen")
    }
    assert "## What was asked, heard and written down" in (finished / "report.md").read_text()
    explained = read_rows(finished / "seed_0" / "explanations.jsonl")
    assert {row["agent"] for row in explained} == set(ALGORITHMS) and not (finished / "seed_1" / "explanations.jsonl").exists()


def test_every_critic_of_the_comparison_has_scored_the_dialogues(finished):
    folder = finished / "seed_0"
    for critic in dict.fromkeys([*CRITICS, *(ALL[name].critic for name in ALGORITHMS if ALL[name].critic)]):
        path = folder / "turn_advantages.jsonl" if critic == "sweet" else folder / critic / "turn_advantages.jsonl"
        agents = {row["agent"] for row in read_rows(path)}
        assert agents == (set() if critic == "judge" else set(ALGORITHMS))  # the judge compares pairs


def test_the_results_say_where_dialogues_fail(finished):
    results = json.loads((finished / "results.json").read_text())
    for splits in results["algorithms"].values():
        heard = splits["test"]["links"]
        assert 0 <= heard["all_heard"] <= heard["wishes_heard"] <= 1
    assert results["algorithms"]["single_turn"]["test"]["links"]["wishes_heard"] == 0


def test_one_candidate_is_the_same_whoever_chooses(finished):
    rows = [row for row in read_rows(finished / "seed_0" / "best_of_n.jsonl") if row["candidates"] == 1]
    said = {critic: [row["dialogue_history"] for row in rows if row["agent"] == critic] for critic in CRITICS}
    assert all(dialogues == said["sweet"] for dialogues in said.values()) and len(said["sweet"]) == 2


def test_a_single_turn_agent_answers_at_once(finished):
    rows = [row for row in read_rows(finished / "seed_0" / "evaluation.jsonl") if row["agent"] == "single_turn"]
    assert rows and all((row["turns"], row["answered"]) == (1, 1) for row in rows)


def test_the_reports_hold_every_part(finished):
    html, markdown = ((finished / name).read_text() for name in ("report.html", "report.md"))
    for title in (
        "Success", "Paired differences", "Where dialogues fail", "Comparison with the paper", "Credit accuracy of critics", "Best-of-N per turn", "Data scaling", "Win rate",
        "Evaluation with other simulators", "Costs",
    ):  # fmt: skip
        assert f"<h2>{title}" in html and f"## {title}" in markdown
    assert "40.4%" in markdown and "<script src" not in html and "<link" not in html
    data = json.loads(html.split('<script type="application/json" id="data">')[1].split("</script>")[0])
    assert len(data["charts"]) > 5 and sum(len(chart["datasets"].get("seeds", ())) for chart in data["charts"]) > 100


def test_what_is_done_is_not_done_again(finished, capsys):
    before = {path: path.stat().st_mtime_ns for path in finished.rglob("*.safetensors")}
    assert compare.main(_asked(finished)) == 0
    assert {path: path.stat().st_mtime_ns for path in finished.rglob("*.safetensors")} == before
    out = capsys.readouterr().out
    assert "difference of success" in out and "differences (all: results.json)" in out


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["--algorithms", "gspo"], "`algorithms` must be one of ('single_turn', "),
        (["--algorithms", "rft", "rft"], "`algorithms` must not contain duplicates"),
        (["--seeds", "0"], "`seeds` must be at least 1, got 0: "),
        (["--critics", "oracle"], "`critics` must be one of ('sweet', "),
        (["--simulators", "shy"], "`simulators` takes ('terse', "),
        (["--best_of", "0"], "`best_of` takes positive numbers, got [0]."),
        (["--scaling", "9"], "`scaling` takes counts from 2 to 8 trajectories, got [9]."),
        (["--credit_tasks", "-1"], "`credit_tasks` must be at least 0, got -1."),
        (["--stage", "actor"], "`stage` is a setting of `train`"),
        (["--rft.epochs", "-1"], "`rft.epochs` must be at least 0, got -1."),
        (["--against", "US"], "`against` must be 'PAPER' or empty, got 'US'."),
        (["--seed_count", "3"], "Unknown settings: seed_count."),
    ],
)
def test_what_cannot_be_is_refused_before_anything_runs(tmp_path, capsys, changes, message):
    assert compare.main([*_arguments(tmp_path / "run"), *changes]) == 2
    assert f"error: {message}" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_dry_run_says_what_is_left_and_runs_nothing(finished, tmp_path, capsys):
    before = {path: path.stat().st_mtime_ns for path in finished.rglob("*")}
    more = [word.replace("terse", "normal") for word in EXPERIMENTS]
    assert compare.main([*_arguments(finished), *more, "--dry_run"]) == 0
    said = capsys.readouterr().out
    assert "seed 1: simulators (single_turn initial" in said
    assert re.search(r"^seed 0: simulators .* steps are done\)$", said, re.MULTILINE)
    assert {path: path.stat().st_mtime_ns for path in finished.rglob("*")} == before
    assert compare.main([*_arguments(tmp_path / "new"), "--dry_run", "--seeds", "1"]) == 0
    assert "seed 0: sft, evaluate initial, collect, pairs, rft, " in capsys.readouterr().out
    assert not (tmp_path / "new").exists()


@pytest.fixture
def collected(finished, tmp_path):
    """A comparison of two seeds that have an initial policy and trajectories."""
    folder = tmp_path / "run"
    for seed in ("seed_0", "seed_1"):
        (folder / seed).mkdir(parents=True)
        shutil.copytree(finished / seed / "initial", folder / seed / "initial")
        shutil.copy(finished / seed / "trajectories.jsonl", folder / seed)
        mark_done(folder / seed, "sft", "collect")
    return folder


def test_a_finished_stage_whose_files_are_gone_is_done_again_and_named_with_its_seed(collected, capsys):
    folder = collected
    (folder / "seed_1" / "trajectories.jsonl").unlink()
    asked = ["--algorithms", "rft", "--seeds", "2", "--credit_tasks", "0", "--dry_run", "true"]
    assert compare.main([*_arguments(folder), *asked]) == 0
    said = capsys.readouterr().out
    assert "seed 1: collect is done again, since trajectories.jsonl is missing, changed or damaged\n" in said
    assert "seed 0: collect" not in said


def test_settings_of_a_stage_that_no_algorithm_has_begun_may_change(collected):
    folder = collected
    asked = ["--algorithms", "rft", "--seeds", "1", "--credit_tasks", "0"]
    assert compare.main([*_arguments(folder), *asked]) == 0
    assert compare.main([*_arguments(folder), *asked, "--sweet.actor_epochs", "2", "--mtdpo.epochs", "2"]) == 0
    assert compare.main([*_arguments(folder), *asked, "--rft.epochs", "3"]) == 2


def test_settings_of_its_own_are_fixed_when_an_algorithm_has_begun(make_run):
    def begun(names, epochs):
        given = {"no_hidden": {"critic_epochs": epochs}}
        return Run(replace(make_run().config, algorithms=make_algorithms(names, given)))

    both = ["sweet", "no_hidden"]
    begun(both, 2.0)
    run = begun(both, 4.0)
    with run.stage(steps.algorithm_steps(run.config.algorithms.values())["critic no_hidden"]):
        pass
    begun(both, 4.0)
    begun(["sweet"], 4.0)  # it is not asked about
    with pytest.raises(ValueError, match=r"\(no_hidden.critic_epochs: 4.0 there, 2.0 here\)"):
        begun(both, 2.0)


def test_a_smaller_question_does_not_cost_the_larger_ones_report(finished, tmp_path, capsys):
    folder = tmp_path / "copy"
    shutil.copytree(finished, folder, symlinks=True)
    report = (folder / "report.html").read_text()
    assert compare.main([*_arguments(folder), "--algorithms", "initial", "rft", "--seeds", "1", "--credit_tasks", "0"]) == 0
    assert "best_of_n" in capsys.readouterr().out
    assert (folder / "earlier_report.html").read_text() == report
    assert list(json.loads((folder / "results.json").read_text())["algorithms"]) == ["initial", "rft"]


def test_a_seed_that_cannot_be_done_is_named_and_costs_the_others_nothing(collected, capsys):
    """In this process; that errors come back from the processes of seeds, `evaluation/test_side_by_side.py` tests."""
    folder = collected
    rows = read_rows(folder / "seed_0" / "trajectories.jsonl")
    write_rows(
        folder / "seed_0" / "trajectories.jsonl",
        [{**row, "metrics": {**row["metrics"], "tests_passed": 0.0}} for row in rows],
    )
    record_again(folder / "seed_0", "collect")
    asked = ["--algorithms", "rft", "--seeds", "2", "--credit_tasks", "0"]
    assert compare.main([*_arguments(folder), *asked]) == 2
    said = capsys.readouterr().err
    assert "error: 1 of 2 seeds failed" in said and "seed 0: No task has two trajectories of different tests_passed" in said
    assert StageRecords(folder / "seed_1").is_done("evaluate rft")
    assert not (folder / "results.json").exists()


def test_one_process_at_a_time_is_at_work_in_a_folder(tmp_path, capsys):
    with locked(tmp_path):
        assert compare.main(_arguments(tmp_path)) == 2
        assert "error: Another process is working in" in capsys.readouterr().err
        assert train.main(_arguments(tmp_path)) == 2
        assert "error: Another process is working in" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    assert compare.main(_arguments(tmp_path / "file")) == 2
    assert "error: `output` must name a folder that can be written" in capsys.readouterr().err


def test_an_algorithm_that_requires_what_is_not_there_is_refused():
    refuse_missing(ALL.values(), make_config().record.capabilities(make_config()) | {"pages", "behaviour"}, "here")
    with pytest.raises(
        ValueError, match=r"^'sweet' requires an environment with hidden information .*, which there does not have\.$"
    ):
        refuse_missing([ALL["rft"], ALL["sweet"]], {"snapshot"}, "there")
    with pytest.raises(
        ValueError, match=r"^'sweet' requires .*; 'vision_head' requires .* and pages .*, which there does not have\.$"
    ):
        refuse_missing([ALL["sweet"], ALL["vision_head"]], {"snapshot"}, "there")


def _row(agent, task, success, outcome="answered", episode=0):
    return {"agent": agent, "split": "test", "task_id": task, "episode": episode, "outcome": outcome, "success": success,
            "tests_passed": success and success / 2}  # fmt: skip


def test_scores_are_means_of_the_episodes_and_void_tasks_are_left_out_for_all():
    rows = [
        _row("a", "x", 1), _row("a", "x", 0, episode=1), _row("a", "y", 1), _row("a", "z", 1),
        _row("b", "x", 1), _row("b", "x", 1, episode=1), _row("b", "y", 0), _row("b", "z", None, "void"),
    ]  # fmt: skip
    found = tables({0: rows, 1: rows}, "test")["success"]
    assert {name: scores.tolist() for name, scores in found.items()} == {"a": [[0.5, 1.0]] * 2, "b": [[1.0, 0.0]] * 2}


def test_a_real_difference_is_seen_and_the_pairing_is_by_task_and_seed():
    rng = np.random.default_rng(0)
    evaluations = {}
    for seed in range(4):
        hard = rng.random(200)
        evaluations[seed] = [
            _row(name, str(task), int(hard[task] < chance))
            for name, chance in (("worse", 0.3), ("better", 0.45))
            for task in range(200)
        ]
    (pair,) = compare_scores(evaluations)["paired"]
    assert (pair["a"], pair["b"], pair["seeds_ahead"]) == ("better", "worse", 4)
    assert pair["difference"] == pytest.approx(0.15, abs=0.04) and pair["ci95"][0] > 0.08 and pair["p_holm"] < 0.001
