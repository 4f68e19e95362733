"""What tests of killed runs share: a job that is killed at a moment, and the comparison of run folders."""

from __future__ import annotations

import json
import multiprocessing
from functools import partial

from colbench_gym.files import read_rows, write_rows
from colbench_gym.servers.usage import USAGE
from colbench_gym.stage_records import FILE, StageRecords
from sweetrl_agent import train
from sweetrl_agent.config.pipeline import STAGES
from tests.killed_jobs import kill_when

#: They import the libraries, once for all killed jobs.
multiprocessing.set_forkserver_preload(["sweetrl_agent.trainers.critic", "sweetrl_agent.trainers.sft_stage"])


def give_luck(folder):
    """Let every first episode pass half of its tests: a model this small never does, and without there are no pairs."""
    rows = read_rows(folder / "trajectories.jsonl")
    for row in rows:
        row["metrics"]["tests_passed"] = 0.5 if row["episode"] == 0 else 0.0
    write_rows(folder / "trajectories.jsonl", rows)
    record_again(folder, "collect")


def record_again(folder, *stages):
    """Record the outputs of finished stages as they are now, as if the stages had written them so."""
    records = StageRecords(folder)
    for name in stages:
        record = records.stages[name]
        record.writes = {file: records.digests.of(file) for file in record.writes}
    records.save()


def mark_done(folder, *stages):
    """Record stages of the main job as done, with their files as they are."""
    records = StageRecords(folder)
    for name in stages:
        records.begin(name, STAGES[name].reads, (), STAGES[name].writes)
        records.finish(name, seconds=1.0, peak_mib=1.0)


def reopen_from(folder, stage):
    """Mark a stage of the main job and all later ones as begun and not done; their files stay."""
    records = StageRecords(folder)
    for name in list(STAGES)[list(STAGES).index(stage) :]:
        records.reopen(name)
    records.save()


def without_times(records, left_out=()):
    """What stages.json holds but times, memory, what is known of files to read them less often, and the digests of what is left out."""
    found = json.loads(records)
    for record in found["stages"].values():
        record["facts"].pop("seconds", None)
        record["facts"].pop("peak_mib", None)
        record.pop("order")
        timed = {"writes": ("results.json", "report.html", "explanations.jsonl")}
        for files in ("reads", "writes"):
            for file in (*timed.get(files, ()), *left_out):
                record[files].pop(file, None)
        for rows in record["facts"].get("metrics", {}).values():
            for row in rows:
                row.pop("seconds", None)
    return found["stages"]


def without_stamps(records):
    """What stages.json holds but what it keeps of files that were old enough when they were read, to read them less often."""
    found = json.loads(records)
    del found["sha256"]  # of all of it
    found["files"] = {name: entry["sha256"] for name, entry in found["files"].items()}
    return found


def content(folder):
    """Every file of a run but those that hold times and memory, and that of the requests to servers, which a kill repeats."""
    files, adapters = {}, [f"{path.parent.relative_to(folder)}/" for path in folder.rglob("adapter_config.json")]
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if not path.is_file() or name in ("timings.jsonl", "report.html", USAGE):
            continue
        files[name] = path.read_bytes().replace(bytes(folder), b".")  # an adapter names its base model
        if path.name == FILE:
            files[name] = without_times(path.read_text(), adapters)  # they name their folder, and their files are compared
        if name == "results.json":
            files[name] = {k: v for k, v in json.loads(files[name]).items() if k != "seconds"}
        if name == "explanations.jsonl":
            files[name] = [{**row, "tests": [{**test, "seconds": 0} for test in row["tests"]]} for row in read_rows(path)]
    return files


def assert_same(folder, other):
    """Check that two runs have the same files."""
    one, two = content(folder), content(other)
    assert list(one) == list(two)
    assert [name for name in one if one[name] != two[name]] == []


def _stands(folder, moment):
    return any(folder.glob(moment))


def kill_at(moment, arguments, folder):
    """Run the job in a process of its own, and kill it as soon as a path that fits `moment` stands in the folder."""
    kill_when(partial(_stands, folder, moment), train.main, arguments)
