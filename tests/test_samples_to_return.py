"""The samples that an algorithm plays until it has a given return."""

from __future__ import annotations

import pytest

from colbench_gym.files import write_rows
from tests.benchmark_modules import loaded


@pytest.fixture(scope="module")
def samples():
    yield from loaded("samples_to_return")


def _rows(stage, returns):
    return [
        {"stage": stage, "step": i + 1, "return": of, "episodes": 10 * (i + 1), "environment_turns": 100 * (i + 1)}
        for i, of in enumerate(returns)
    ]


def test_a_return_counts_when_the_mean_of_the_window_has_it(samples):
    rows = _rows("grpo", [-30.0, -5.0, -30.0, -10.0, -10.0])
    assert samples.reached(rows, -10.0, 2) == {"episodes": 50, "environment_turns": 500}
    assert samples.reached(rows, -10.0, 1) == {"episodes": 20, "environment_turns": 200}
    assert (
        samples.reached(rows, -17.5, 2) == {"episodes": 20, "environment_turns": 200} and samples.reached(rows, -9.0, 2) is None
    )


def test_the_table_has_every_algorithm_of_every_seed_and_says_how_many_got_there(samples, tmp_path, capsys):
    for seed, last in enumerate((-10.0, -20.0)):
        (tmp_path / f"seed_{seed}").mkdir()
        loss = [{"stage": "sft", "step": 1, "loss": 1.0}]
        write_rows(
            tmp_path / f"seed_{seed}/metrics.jsonl", [*loss, *_rows("grpo", [-30.0, last]), *_rows("archer", [-40.0, -40.0])]
        )
    output = tmp_path / "samples.json"
    assert samples.main([str(tmp_path), "--returns", "-10", "-25", "--window", "1", "--output", str(output)]) == 0
    assert samples.json.loads(output.read_text())["algorithms"] == {
        "grpo": {
            "-10": [{"episodes": 20, "environment_turns": 200}, None],
            "-25": [{"episodes": 20, "environment_turns": 200}] * 2,
        },
        "archer": {"-10": [None, None], "-25": [None, None]},
    }
    said = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()[1:]]
    assert said[0] == "grpo -10 20 200 1 of 2 seeds" and said[2] == "archer -10 - - 0 of 2 seeds"
