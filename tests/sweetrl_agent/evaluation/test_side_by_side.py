"""Seeds in parallel processes: what the screen shows of them, and their errors."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from colbench_gym.errors import ColBenchError
from colbench_gym.files import read_rows
from colbench_gym.servers.usage import Meter, current, metered
from sweetrl_agent.algorithms.settings import make_config
from sweetrl_agent.evaluation.side_by_side import LOG, run_side_by_side


def _work(config):
    logging.getLogger("sweetrl_agent").info("seed %d: %s", config.run.seed, "sft (1 of 2)")
    print("a bar: 40%|####", flush=True)
    current().count("h", (config.run.seed, 1))
    if config.run.seed == 1:
        raise ColBenchError("It cannot be done.")


def test_messages_of_every_seed_are_on_the_screen_and_all_output_is_in_its_log(tmp_path, caplog, capfd):
    configs = [make_config({"seed": seed, "output": str(tmp_path / f"seed_{seed}")}) for seed in (0, 1)]
    with caplog.at_level("INFO", "sweetrl_agent"), metered(Meter(tmp_path / "usage.jsonl", {})):
        failed = run_side_by_side(_work, configs, workers=2)
    assert {seed: str(error) for seed, error in failed.items()} == {1: "It cannot be done."}
    assert [record.getMessage() for record in caplog.records] == [
        f"seed {seed}: its progress bars are in {tmp_path / f'seed_{seed}' / LOG}" for seed in (0, 1)
    ]
    assert sorted(row["prompt_tokens"] for row in read_rows(tmp_path / "usage.jsonl")) == [0, 1]  # requests of all processes
    shown = capfd.readouterr().out
    for seed in (0, 1):
        assert f"seed {seed}: sft (1 of 2)" in shown
        assert "a bar" in (tmp_path / f"seed_{seed}" / LOG).read_text() and "a bar" not in shown


#: Three seeds, of which the last does not end: the pool then has a process that waits for work.
SEEDS = """
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from sweetrl_agent.evaluation import side_by_side


@dataclass(frozen=True)
class Settings:
    seed: int
    output: str = ""
    threads: int = 1


@dataclass(frozen=True)
class Config:
    run: Settings


def run(meter, work, config):
    Path(config.run.output, str(os.getpid())).touch()
    time.sleep(600 * config.run.seed)


if __name__ == "__main__":
    side_by_side._run = run
    side_by_side.run_side_by_side(len, [Config(Settings(seed, sys.argv[1])) for seed in (0, 0, 1)], 2)
"""


def _processes(marker):
    """Ids of the running processes of the pool with this text in their environment."""
    found = set()
    for place in Path("/proc").glob("[0-9]*"):
        try:
            is_ours = marker.encode() in (place / "environ").read_bytes() and b"spawn_main" in (place / "cmdline").read_bytes()
        except OSError:  # it has ended
            continue
        if is_ours:
            found.add(int(place.name))
    return found


def _until(holds):
    end = time.monotonic() + 300
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's signal at the death of a parent")
def test_no_process_outlives_a_killed_comparison(tmp_path):
    folder, marker = tmp_path / "began", f"SIDE_BY_SIDE={tmp_path}"
    folder.mkdir()
    (tmp_path / "seeds.py").write_text(SEEDS)
    environment = {**os.environ, "SIDE_BY_SIDE": str(tmp_path), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    comparison = subprocess.Popen([sys.executable, str(tmp_path / "seeds.py"), str(folder)], env=environment)

    def one_works_and_one_waits():
        began = {int(path.name) for path in folder.iterdir()}
        return len(began) == 3 and _processes(marker) & began and _processes(marker) - began

    try:
        _until(one_works_and_one_waits)
    finally:
        comparison.kill()
    comparison.wait()
    _until(lambda: not _processes(marker))
