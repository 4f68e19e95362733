"""Seeds in parallel processes: what the screen shows of them, and their errors."""

from __future__ import annotations

import logging

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
