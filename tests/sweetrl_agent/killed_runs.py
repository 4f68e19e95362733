"""What tests of killed runs share: a job that is killed at a moment, and the comparison of run folders."""

from __future__ import annotations

import gc
import json
import multiprocessing
import sys
import time

from colbench_gym.files import read_rows, write_rows
from colbench_gym.servers.usage import USAGE
from colbench_gym.stage_records import FILE, StageRecords
from sweetrl_agent import train
from sweetrl_agent.config.pipeline import STAGES


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


def without_times(records):
    """What stages.json holds but times, memory, and what is known of files to read them less often."""
    found = json.loads(records)
    for record in found["stages"].values():
        record["facts"].pop("seconds", None)
        record["facts"].pop("peak_mib", None)
        record.pop("order")
        record["writes"] = {
            file: digest
            for file, digest in record["writes"].items()
            if file not in ("results.json", "report.html", "explanations.jsonl")
        }
        for rows in record["facts"].get("metrics", {}).values():
            for row in rows:
                row.pop("seconds", None)
    return found["stages"]


def content(folder):
    """Every file of a run but those that hold times and memory, and that of the requests to servers, which a kill repeats."""
    files = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if not path.is_file() or name in ("timings.jsonl", "report.html", USAGE):
            continue
        files[name] = path.read_bytes().replace(bytes(folder), b".")  # an adapter names its base model
        if path.name == FILE:
            files[name] = without_times(path.read_text())
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


def _run(main, arguments):
    gc.freeze()
    sys.exit(main(arguments))


def kill_when(is_due, main, arguments):
    """Start a command in a process of its own, and kill it as soon as it is due."""
    context = multiprocessing.get_context("forkserver")  # which imports the libraries once
    context.set_forkserver_preload(["sweetrl_agent.trainers.critic", "sweetrl_agent.trainers.sft_stage"])
    job = context.Process(target=_run, args=(main, list(map(str, arguments))))
    job.start()
    while job.is_alive() and not is_due():
        time.sleep(0.001)
    job.kill()
    job.join()
    assert is_due(), f"it never was due, and the status was {job.exitcode}"


def kill_at(moment, arguments, folder):
    """Start the job in a process of its own, and kill it as soon as a path that fits `moment` stands in the folder."""
    kill_when(lambda: list(folder.glob(moment)), train.main, arguments)


def kill_at_rows(count, main, arguments, path):
    """Start a command in a process of its own, and kill it as soon as a file has so many rows; returns how many it has then."""

    def rows():
        return path.read_bytes().count(b"\n") if path.exists() else 0

    kill_when(lambda: rows() >= count, main, arguments)
    return rows()
