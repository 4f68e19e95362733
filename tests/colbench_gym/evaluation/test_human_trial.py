"""A human or a sandbox of the user's own is tried before an evaluation; a model server is not asked, and ours need no trial."""

from __future__ import annotations

import json
import random

import pytest

from colbench_gym.envs.backend import BackendEnv
from colbench_gym.evaluate import main
from colbench_gym.evaluation.human_trial import QUESTIONS, trial_of
from colbench_gym.evaluation.trial import Trial, play_trial
from colbench_gym.files import read_rows
from colbench_gym.simulators import Simulator

ENV = "ColBench-Backend-v0"


class Moody(Simulator):
    """Draws from the global generator."""

    def reply(self, task, dialogue, seed):
        return f"Yes, {random.random()}."


class Seeded(Simulator):
    """Draws from its seed; counts what it is asked."""

    asked = 0

    def reply(self, task, dialogue, seed):
        Seeded.asked += 1
        return f"Yes, {random.Random(seed).random()}."


class Server(Seeded):
    model = "m"


def trial(simulator, sandbox="embedded"):
    envs = [BackendEnv(tasks="embedded:test[:2]", simulator=simulator) for _ in range(2)]
    try:
        return trial_of(envs, ENV, simulator, sandbox)
    finally:
        for env in envs:
            env.close()


def test_a_human_of_the_users_own_is_asked_a_few_questions():
    Seeded.asked = 0
    found = trial(f"{__name__}:Seeded")
    assert found.is_reproducible and Seeded.asked == found.num_steps == 3 * QUESTIONS
    found = trial(f"{__name__}:Moody")
    assert (found.difference, found.draws_from) == ("the observation after turn 1", ("Python's `random`",))


@pytest.mark.parametrize(
    ("simulator", "why"),
    [
        ("scripted", ""),
        ("person", "its human is a person"),
        (f"{__name__}:Server", "its human is a model server"),
        ({"name": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1"}, "its human is a model server"),
    ],
)
def test_ours_and_model_servers_are_not_asked(simulator, why):
    Seeded.asked = 0
    assert trial(simulator) == Trial(untried=why) and not Seeded.asked


def test_an_episode_that_is_void_says_nothing():
    class Down:
        messages, hidden_information, metrics = [], "", {}

        def reset(self, *, seed=None, options=None):
            self.metrics = {}

        def step(self, action):
            self.metrics = {"outcome": "void"}
            return "", 0.0, False, True, {}

    found = play_trial([Down(), Down()], [("0", lambda messages, turn: "x")])
    assert found.is_reproducible is None and found.untried.startswith("its trial episode is void")


def test_the_command_says_it_refuses_and_isolates(tmp_path, capsys):
    words = [
        "random",
        "--tasks",
        "embedded:test[:3]",
        "--episodes",
        "2",
        "--simulator",
        f"{__name__}:Moody",
        "--sandbox",
        "embedded",
    ]
    assert main([*words, "--output", str(tmp_path / "a"), "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert said.count("is not reproducible") == 1 and "`--isolate_generators true` gives each dialogue" in said
    assert main([*words, "--output", str(tmp_path / "a"), "--require-reproducible"]) == 2
    assert capsys.readouterr().err.startswith(
        "error: `require_reproducible` is true, and `env` 'ColBench-Backend-v0' is not reproducible: "
    )
    isolated = [*words, "--isolate_generators", "true", "--require_reproducible"]
    rows = []
    for concurrency in ("1", "5"):
        folder = tmp_path / concurrency
        assert main([*isolated, "--output", str(folder), "--concurrency", concurrency]) == 0
        rows.append(read_rows(folder / "evaluation.jsonl"))
    assert rows[0] == rows[1] and len({json.dumps(row["dialogue_history"]) for row in rows[0]}) == 6
    assert main([*words, "--output", str(tmp_path / "1")]) == 2, "other settings"
