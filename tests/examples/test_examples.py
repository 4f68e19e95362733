"""The examples run: an environment, a human, tasks and a critic of one's own and an environment that somebody else wrote, shorter than a reader would."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

import sandboxes
from colbench_gym.files import read_rows
from colbench_gym.scoring.unit_tests import UnitTests
from colbench_gym.tasks import load_tasks
from examples import babyai_text, frozen_lake, own_callback, own_critic, own_environment, own_human, own_team
from sweetrl_agent import train
from tests.words import with_defaults

pytestmark = pytest.mark.usefixtures("untimed")

SHORT = {"sft_dialogues": 100, "sft_epochs": 1, "grpo.iterations": 2, "grpo.tasks": 4, "grpo.group": 4, "eval_tasks": 5, "threads": 1}  # fmt: skip


@pytest.mark.parametrize("example", [own_environment, frozen_lake])
def test_an_example_trains(example, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert example.main(with_defaults(SHORT, ["--output", "run"])) == 0
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["algorithm"] == "grpo" and list(results["seconds"]) == ["sft", "grpo", "evaluate"]
    assert results["trained"]["test"]["void"] == 0 and results["metric"] == "return"
    assert (tmp_path / "run" / "report.html").exists()


def test_a_team_trains_a_policy_for_each_agent(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    short = {name.replace("grpo.", "team_grpo."): value for name, value in SHORT.items()} | {"sft_dialogues": 800}
    assert own_team.main(with_defaults(short, ["--output", "run"])) == 0
    weights = [(tmp_path / "run/team_grpo" / agent / "model.safetensors").read_bytes() for agent in ("scout", "digger")]
    assert weights[0] != weights[1] and (tmp_path / "run/report.html").exists()
    (row,) = [row for row in read_rows(tmp_path / "run/metrics.jsonl") if row["stage"] == "team_grpo" and row["step"] == 2]
    assert row["scout/grad_norm"] > 0 and row["digger/grad_norm"] > 0


def test_an_own_callback_stops_the_training(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(own_callback.StopWhenGood.__init__, "__defaults__", (0.0,))
    short = ["--grpo.iterations", "5", "--eval_every", "1", "--eval_every_tasks", "4", "--output", "run"]
    assert own_callback.main(with_defaults(SHORT, short)) == 0
    said = capsys.readouterr().out
    assert "grpo, iteration 1: success " in said and "grpo, iteration 2" not in said and "\nsft: " in said
    assert [row["step"] for row in read_rows(tmp_path / "run" / "metrics.jsonl") if row["stage"] == "grpo"] == [1]
    assert (tmp_path / "run" / "report.html").exists()


def test_sweet_takes_the_hidden_number_where_dialogues_differ(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = [
        "--algorithm",
        "sweet",
        "--sft_dialogues",
        "600",
        "--sft_epochs",
        "2",
        "--num_tasks",
        "20",
        "--sweet.num_states",
        "10",
        "--sweet.num_candidates",
        "4",
        "--output",
        "run",
    ]
    assert own_environment.main(with_defaults(SHORT, given)) == 0
    rows = [json.loads(line) for line in (tmp_path / "run" / "outcome_pairs.jsonl").read_text().splitlines()]
    assert rows and all(row["hidden"].startswith("The number is ") for row in rows)
    assert not any("The number is" in json.dumps(row["chosen"]) for row in rows)


def test_halving_the_range_always_finds_the_number():
    env = own_environment.Guess()
    for seed in range(100):
        env.reset(seed=seed)
        low, high, is_right = 1, env.most, False
        for _ in range(env.turns):
            guess = (low + high) // 2
            reply, reward, is_right, _, _ = env.step(f"Is it {guess}?")
            low, high = (guess + 1, high) if reply == "Higher." else (low, guess - 1)
            if is_right:
                break
        assert is_right and reward == 1.0


def test_an_impatient_person_is_harder(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert own_human.main(["--episodes", "20"]) == 0
    said = capsys.readouterr().out
    shares = [float(line.split("%")[0].split()[-1]) for line in said.splitlines()[:3]]
    assert shares[0] > shares[2] == 0.0 and shares[0] >= shares[1]
    assert "Take 10% off orders from" in said and said.count(own_human.HAD_ENOUGH) == 1


def test_the_shops_tasks_are_solvable_and_differ():
    found = load_tasks("examples.own_human:shop_tasks")
    assert len({task.hidden.reference for task in found}) == len({task.id for task in found}) == 6
    with sandboxes.make("embedded", workers=1) as sandbox:
        grader = UnitTests(sandbox)
        assert all(grader.score(task, task.hidden.reference).success for task in found)
        assert not grader.score(found[0], found[1].hidden.reference).success


def test_the_reading_critic_prefers_what_the_reference_is_about():
    critic = own_critic.ReadsTheCode(answer=0.1)
    texts = ["How is the tax rounded?", "What colour is it?", "I WANT TO ANSWER:\ndef f(): pass"]
    rounding, colour, answer = critic.rank([], "def total(tax, prices): return round(tax), is_rounded", texts)
    assert rounding > answer > colour
    assert own_critic.main(["--dry_run", "--output", "/tmp/own_critic_never"]) == 0


def test_a_run_takes_the_human_and_its_arguments(capsys, tmp_path):
    given = ["--simulator", '{"name": "examples.own_human:Impatient", "patience": 1}', "--output", str(tmp_path / "run")]
    assert train.main([*given, "--dry_run"]) == 0
    assert "Impatient" in capsys.readouterr().out
    assert train.main([*given[:1], '{"name": "examples.own_human:Impatient", "patience": -1}', "--dry_run"]) == 2
    assert capsys.readouterr().err == "error: `patience` must be at least 0, got -1.\n"


# ---- BabyAI in words ---------------------------------------------------------------------------------------------------------

VIEW = "Your mission: go to the red ball.\na grey key: 2 ahead.\na red ball: 3 ahead, 1 left.\nThe way ahead is free."


def test_the_goal_of_babyai_is_read_from_its_text():
    assert babyai_text.goal_of(VIEW) == (3, -1)
    assert babyai_text.goal_of(VIEW.replace(", 1 left", ", 2 right")) == (3, 2)
    assert babyai_text.goal_of(VIEW.replace(", 1 left", "")) == (3, 0)
    assert babyai_text.goal_of(VIEW.replace("red ball:", "blue ball:")) is None
    said = [
        {"role": "user", "content": VIEW},
        {"role": "assistant", "content": "I turn right."},
        {"role": "user", "content": VIEW},
    ]
    seen = babyai_text.Moves().observe(said)
    assert seen.shape == (babyai_text.Moves.observation_size,) and np.flatnonzero(seen).tolist() == [
        0,
        1 + 3,
        8 + 3 - 1,
        15,
        17,
    ]
    assert babyai_text.Moves().observe(said[:1]).sum() == 4


def test_without_minigrid_babyai_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "minigrid", None)
    with pytest.raises(ImportError, match="`pip install minigrid`"):
        babyai_text.BabyAIText()


def test_babyai_in_words_is_won_by_its_scripted_walker_and_trains(tmp_path, monkeypatch):
    pytest.importorskip("minigrid", reason="BabyAI's levels are in Minigrid, which is not a dependency: `pip install minigrid`")
    pytest.importorskip("stable_baselines3")
    lengths = {
        noise: [len(row["messages"]) // 2 for row in babyai_text.demonstrations(60, noise)] for noise in (0.0, 1.0)
    }  # a lost walk has all moves
    won = {noise: np.mean([length < babyai_text.MAX_MOVES for length in of_noise]) for noise, of_noise in lengths.items()}
    assert won[0.0] > 0.95 and won[1.0] < 0.5
    monkeypatch.chdir(tmp_path)
    short = {
        "sft_dialogues": 50,
        "sft_epochs": 1,
        "bidirectional.rounds": 2,
        "bidirectional.steps": 512,
        "eval_tasks": 5,
        "threads": 1,
    }
    assert babyai_text.main(with_defaults(short, ["--output", "run"])) == 0
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["algorithm"] == "bidirectional" and results["trained"]["test"]["void"] == 0
