"""Disk and memory against what a run needs, with numbers of our own in place of the machine's."""

from __future__ import annotations

import pytest
import torch

from colbench_gym.errors import ColBenchError
from sweetrl_agent import compare, train
from sweetrl_agent.algorithms.registry import ALGORITHMS
from sweetrl_agent.core.work import Lengths, Work
from sweetrl_agent.data.machine import available_memory, free_disk
from sweetrl_agent.evaluation import comparison_job
from sweetrl_agent.trainers import resources
from sweetrl_agent.trainers.resources import check_disk, check_memory, disk_needed, memory_needed, warnings
from sweetrl_agent.trainers.stage_work import num_collected, works_of

MIB, GIB = 2**20, 2**30
LENGTHS = Lengths(turns=6, request=20, agent=10, reply=5, hidden=30, source="assumed")
TASKS = ["--tasks", "embedded:train[:10]", "--test_tasks", "embedded:test[:3]", "--unseen_tasks", "", "--sandbox", "embedded"]


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


def _free(monkeypatch, disk=100 * GIB, memory=100 * GIB):
    monkeypatch.setattr(resources, "free_disk", lambda folder: int(disk))
    monkeypatch.setattr(resources, "available_memory", lambda: None if memory is None else int(memory))


def test_a_full_disk_is_refused_in_a_sentence(make_run, monkeypatch):
    run = make_run(num_tasks=0, eval_tasks=0)
    least, most = disk_needed(run)
    assert 0 < least < most
    _free(monkeypatch, disk=least)
    check_disk([run])
    _free(monkeypatch, disk=least / 2)
    with pytest.raises(
        ColBenchError,
        match=r"The disk of .* has \d+ MiB free, and the run writes \d+ MiB to \d+ MiB; free some space, or give an",
    ):
        check_disk([run])


def test_what_the_folder_has_already_needs_no_room(make_run, monkeypatch):
    run = make_run()
    run.folder.mkdir(exist_ok=True)
    run.path("trajectories.jsonl").write_bytes(bytes(int(disk_needed(run)[1]) + 1))
    _free(monkeypatch, disk=0)
    check_disk([run])
    check_disk([])


def test_adapters_take_less_than_models(make_run, tiny_model_folder):
    given = {"model": str(tiny_model_folder), "sft_dialogues": 0}
    size = (tiny_model_folder / "model.safetensors").stat().st_size
    full, adapters = disk_needed(make_run(**given)), disk_needed(make_run(**given, lora=True))
    assert [more - less for more, less in zip(full, adapters, strict=True)] == pytest.approx([3 * size, 6 * size], abs=99)
    assert disk_needed(make_run(**given), [ALGORITHMS["sweet"]] * 3)[1] > full[1] + 2 * size
    # MALT has a policy for each of its three roles
    one, team = (disk_needed(make_run(**given), [ALGORITHMS[name]]) for name in ("grpo", "malt"))
    assert team[0] - one[0] >= 2 * size


def test_what_is_not_collected_needs_no_room(make_run):
    collected, on_policy = (disk_needed(make_run(), [ALGORITHMS[name]]) for name in ("rft", "grpo"))
    assert collected[0] - on_policy[0] == num_collected(make_run()) * 5000 / 2


@pytest.mark.parametrize(
    ("disk", "memory", "starts"),
    [(6 * MIB, 100 * GIB, "The disk of "), (100 * GIB, 200 * MIB, "This machine has 200 MiB of memory")],
)
def test_dry_run_and_run_refuse(disk, memory, starts, tmp_path, capsys, monkeypatch):
    _free(monkeypatch, disk, memory)
    for more in (["--dry_run"], []):
        assert train.main([*TASKS, "--output", str(tmp_path / "run"), *more]) == 2
        (error,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
        assert error.removeprefix("error: ").startswith(starts)
    assert not (tmp_path / "run" / "trajectories.jsonl").exists()


@pytest.mark.parametrize("more", [["--dry_run"], []])
@pytest.mark.parametrize(
    "several", [["--seeds", "1", "--algorithms", "rft", "mtdpo", "sweet"], ["--seeds", "3", "--algorithms", "rft"]]
)
def test_a_comparison_needs_room_for_all_seeds_and_algorithms(several, more, make_run, tmp_path, capsys, monkeypatch):
    of_seed = disk_needed(make_run(num_tasks=10, eval_tasks=3), [ALGORITHMS["rft"]])
    _free(monkeypatch, disk=sum(of_seed) / 2)
    assert compare.main([*TASKS, "--output", str(tmp_path / "comparison"), *several, *more]) == 2
    (error,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert error.startswith(f"error: The disk of {tmp_path / 'comparison'}")
    assert ("its 3 seeds write" if "3" in several else "the run writes") in error
    assert not list(tmp_path.glob("comparison/seed_*/*"))


def test_policies_of_a_seed_are_counted():
    given = ["--seeds", "0", "--algorithms", "initial", "rft"]
    assert [one.name for one in comparison_job.trained(*comparison_job.parse(given))] == ["rft"]
    assert [one.name for one in comparison_job.trained(*comparison_job.parse([*given, "--scaling", "9", "18"]))] == ["rft"] * 3


def test_memory_by_hand(make_run, tiny_model_folder):
    from safetensors import safe_open

    run = make_run(model=str(tiny_model_folder), sft_dialogues=0, dtype="float32")
    with safe_open(tiny_model_folder / "model.safetensors", "pt") as file:
        parameters = sum(file.get_tensor(name).numel() for name in file.keys())  # noqa: SIM118  # not a dictionary
    works = {"actor": Work(trained=200, pass_tokens=200, pass_scored=20), "candidates": Work(sampled=10, at_once=4)}
    least, most = memory_needed(run, ["actor"], works, LENGTHS)
    assert least == pytest.approx(16 * parameters + resources._LIBRARIES, rel=1e-6)
    assert most > least + 3 * 4 * run.config.sft.tiny_vocab_size / 8192 * 20
    least, _ = memory_needed(run, ["candidates"], works, LENGTHS)
    assert least == pytest.approx(4 * parameters + resources._LIBRARIES, rel=1e-6)
    assert memory_needed(run, [], works, LENGTHS) == (0, 0)
    assert memory_needed(make_run(model="someone/on-the-hub", sft_dialogues=0), ["actor"], works, LENGTHS) == (0, 0)


def test_every_policy_of_a_team_takes_memory(make_run, tiny_model_folder):
    given = {
        "env": "ColBench-Team-v0",
        "model": str(tiny_model_folder),
        "sft_dialogues": 0,
        "dtype": "float32",
        "algorithm": "maporl",
    }
    team, shared = make_run(**given), make_run(**given, **{"maporl.policies": "one"})
    by_run = []
    for run in (team, shared):
        works = works_of(run, run.stages, [run.algorithm], LENGTHS)
        by_run.append(
            [memory_needed(run, [stage], works, LENGTHS)[0] - resources._LIBRARIES for stage in ("maporl", "evaluate")]
        )
    (trained, spoken), (of_one, with_initial) = by_run
    assert len(team.algorithm.folders) == 6 and "" in team.algorithm.policies.values()
    assert trained == pytest.approx(6 * of_one) and spoken == pytest.approx(7 / 2 * with_initial)


def test_memory_that_may_not_suffice_is_a_warning(make_run, monkeypatch):
    run = make_run()
    works = {"actor": Work(trained=128_000, pass_tokens=128_000, pass_scored=32_000)}
    _free(monkeypatch, memory=sum(memory_needed(run, ["actor"], works, LENGTHS)) / 2)
    (sentence,) = warnings(run, ["actor"], works, LENGTHS)
    assert sentence.startswith("This machine has ") and "`--gradient_checkpointing true`" in sentence
    _free(monkeypatch, disk=disk_needed(run)[1] - 2**16)
    (sentence,) = warnings(run, ["actor"], works, LENGTHS)
    assert "and the run may write up to" in sentence
    _free(monkeypatch)
    assert warnings(run, ["actor"], works, LENGTHS) == []


def test_a_large_model_of_a_known_name_is_refused_with_the_way_out(make_run, monkeypatch):
    _free(monkeypatch, memory=32 * GIB)
    run = make_run(model="someone/Large-8B", sft_dialogues=0, dtype="bfloat16")
    with pytest.raises(
        ColBenchError, match=r"needs at least 60\.5 GiB for weights, gradients and the optimizer; train adapters"
    ):
        check_memory(run, ["actor"])
    _free(monkeypatch, memory=None)
    check_memory(run, ["actor"])


def test_free_disk_is_that_of_the_nearest_folder(tmp_path):
    assert abs(free_disk(tmp_path / "a" / "b") - free_disk(tmp_path)) < GIB


@pytest.mark.parametrize("version", [1, 2])
def test_memory_is_limited_by_the_cgroup(version, tmp_path):
    (tmp_path / "meminfo").write_text("MemTotal: 9000 kB\nMemAvailable:    8000 kB\n")
    (tmp_path / "own").write_text("0::/a/b\n" if version == 2 else "4:memory:/a/b\n2:cpu:/c\n")
    folder = tmp_path / "root" / ("a" if version == 2 else "memory/a")
    (folder / "b").mkdir(parents=True)
    names = ("memory.max", "memory.current") if version == 2 else ("memory.limit_in_bytes", "memory.usage_in_bytes")
    given = tmp_path / "meminfo", tmp_path / "own", tmp_path / "root"
    assert available_memory(*given) == 8000 * 1024
    (folder / names[0]).write_text("5000000\n")
    (folder / names[1]).write_text("3000000\n")
    (folder / "memory.stat").write_text(f"anon 7\n{'' if version == 2 else 'total_'}inactive_file 400000\n")
    assert available_memory(*given) == 2_400_000, "files in memory are given up"
    (folder / names[0]).write_text("max\n")
    assert available_memory(*given) == 8000 * 1024
    assert available_memory(tmp_path / "none", tmp_path / "own", tmp_path / "root") is None
