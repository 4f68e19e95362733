"""Seeds in parallel processes: what the screen shows of them, and their errors."""

from __future__ import annotations

import logging

from colbench_gym.errors import ColBenchError
from sweetrl_agent.config.job import Config
from sweetrl_agent.evaluation.side_by_side import LOG, last_line, run_side_by_side


def _work(config):
    logging.getLogger("sweetrl_agent").info("seed %d: %s", config.run.seed, "sft (1 of 2)")
    print("a bar: 40%|####", flush=True)
    if config.run.seed == 1:
        raise ColBenchError("It cannot be done.")


def test_messages_of_every_seed_are_on_the_screen_and_all_output_is_in_its_log(tmp_path, caplog, capfd):
    configs = [Config().with_settings({"seed": seed, "output": str(tmp_path / f"seed_{seed}")}) for seed in (0, 1)]
    with caplog.at_level("INFO", "sweetrl_agent"):
        failed = run_side_by_side(_work, configs, workers=2)
    assert {seed: str(error) for seed, error in failed.items()} == {1: "It cannot be done."}
    assert [record.getMessage() for record in caplog.records] == [
        f"seed {seed}: its progress bars are in {tmp_path / f'seed_{seed}' / LOG}" for seed in (0, 1)
    ]
    said = capfd.readouterr().out
    for seed in (0, 1):
        assert f"seed {seed}: sft (1 of 2)" in said
        assert "a bar" in (tmp_path / f"seed_{seed}" / LOG).read_text() and "a bar" not in said


def test_the_last_state_of_a_progress_bar_is_the_last_line(tmp_path):
    path = tmp_path / "log.txt"
    assert last_line(path) == ""
    path.write_bytes(b"")
    assert last_line(path) == ""
    path.write_bytes(b"first\n" * 2000 + "\rsft:  10%|#\rsft:  20%|██\r\n \n".encode())
    assert last_line(path) == "sft:  20%|██"
    path.write_bytes("█".encode() * 5000)  # cut within a character
    assert set(last_line(path)) <= {"█", "\ufffd"}
