"""Runs of MAPoRL: language models debate better, who is trained, a verifier that is trained, and resume."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from colbench_gym.files import read_rows
from sweetrl_agent.algorithms.maporl import MAPoRL, MAPoRLConfig
from sweetrl_agent.core.batch import Batch
from sweetrl_agent.core.episode import Episode, Turn
from sweetrl_agent.evaluation.costs import ledger
from sweetrl_agent.trainers.learner import Learner
from sweetrl_agent.trainers.running import SCORED_TOKENS
from tests.sweetrl_agent.team_games import Debate, share


@pytest.fixture
def make_run(make_team_run):
    """Function: name, settings -> a run of the debate about letters on the tiny model."""

    def make_it(name, **settings):
        defaults = {"tasks": 8, "rounds": 2, "iterations": 4, "learning_rate": 1e-2, "critic_learning_rate": 1e-1, "epochs": 2}
        return make_team_run("maporl", name, "Debate-v0", {**defaults, **settings})

    return make_it


def test_language_models_debate_better_with_training_and_the_interviewer_stays_as_it_is(make_run, tiny_model_folder):
    run = make_run("run", iterations=10, tasks=16, epochs=4, policies="agent", learning_rate=2e-2)
    run.config.algorithms["maporl"].train(run)
    rows = read_rows(run.path("metrics.jsonl"))
    for name in ("round_1", "round_2"):
        scores = [row[name] for row in rows]
        assert np.mean(scores[-3:]) > np.mean(scores[:3]) + 0.1, scores
    assert rows[-1]["verified_turns"] == 10 * 16 * 4 and rows[-1]["episodes"] == 10 * 16
    assert sorted(path.name for path in run.path("maporl").iterdir()) == ["coder1", "coder2"]
    policies = run.config.algorithms["maporl"].load(run)
    assert policies["coder1_1"] is policies["coder1_2"] is not policies["coder2_1"]
    (initial,), (trained,) = (
        [policies[agent].generate([[{"role": "user", "content": "I need it."}]], [0])[0].log_probs]
        for agent in ("interviewer", "coder1_1")
    )
    (untrained,) = run.load_policy().generate([[{"role": "user", "content": "I need it."}]], [0])
    assert initial == untrained.log_probs != trained
    costs = ledger(run, ["maporl"])["maporl"]
    assert costs["sandbox_runs"] == 0, "this game has no sandbox"
    assert "trained_tokens" not in costs["agents"].pop("interviewer"), "it is not trained"
    assert sum(of["trained_tokens"] for of in costs["agents"].values()) == costs["trained_tokens"]
    assert all(of["trained_tokens"] > 0 and of["dialogues"] == 160 for of in costs["agents"].values()), (
        "policies of two rounds each"
    )


def test_a_trained_verifier_learns_from_the_tests_and_then_scores_without_them(make_run, monkeypatch):
    run, updated, update = make_run("run", tasks=16, iterations=8, verifier_iterations=6, verifier_epochs=4), [], Learner.update
    monkeypatch.setattr(Learner, "update", lambda self, *given: updated.append(self.trainable.name) or update(self, *given))
    run.config.algorithms["maporl"].train(run)
    rows = read_rows(run.path("metrics.jsonl"))
    assert len(updated) == 2 * 4, "the policies are trained in the last two iterations alone"
    losses = [row.get("verifier_loss") for row in rows]
    assert losses[0] == pytest.approx(np.log(2)) and losses[5] < losses[0] - 0.02 and losses[6:] == [None, None], losses
    assert [row["verified_turns"] for row in rows] == [16 * 4 * n for n in (1, 2, 3, 4, 5, 6, 6, 6)], "no test is run any more"
    assert all(
        ("round_1" in row, "verifier_round_1" in row) == ((True, False) if n < 6 else (False, True))
        for n, row in enumerate(rows)
    )
    assert rows[0]["verifier_auc"] == 0.5 < rows[5]["verifier_auc"] and "verifier_auc" not in rows[6]
    assert rows[7]["scored_tokens"] > rows[6]["scored_tokens"] > rows[5]["scored_tokens"]
    assert sorted(path.name for path in run.path("maporl").iterdir())[0] == "coder1_1", "policies alone are kept"


def test_an_iteration_without_a_valid_episode_teaches_the_verifier_nothing(make_run):
    algorithm = make_run("run", verifier_iterations=1).config.algorithms["maporl"]
    algorithm.begin(make_run("run", verifier_iterations=1))
    before = algorithm.verifier.trainable.state_dict()
    assert algorithm.update_critic(Batch([])) == {} and algorithm.scores(Batch([])) == []
    assert algorithm.verifier.taken_tokens() == 0 and before["optimizer"]["state"] == {}


def test_the_scores_of_a_trained_verifier_are_those_that_count():
    class Opposite:
        def taken_tokens(self):
            return 5

        def scores(self, responses):
            return [1.0 - share(view.turns[-1].text) for view in responses]

    texts = ("Hi", "a", "\u00e9", "b\u00e9", "\u00e9\u00e9\u00e9b")
    turns = [Turn(text, [0], [0.0], agent=agent) for agent, text in zip(Debate.order, texts, strict=True)]
    episodes = [Episode("a", row, [], turns, {"outcome": "ended"}, 1.0) for row in range(2)]
    algorithm = MAPoRL(MAPoRLConfig(rounds=2))
    by_tests = algorithm.scores(Batch(episodes, verify=lambda states: [share(e.turns[n - 1].text) for e, n in states]))
    assert by_tests == [[{1: 0.0, 2: 1.0}, {1: 0.5, 2: 0.75}]] * 2
    algorithm.verifier, algorithm._costs = Opposite(), Counter()
    assert algorithm.scores(Batch(episodes)) == [[{1: 1.0, 2: 0.0}, {1: 0.5, 2: 0.25}]] * 2
    assert algorithm._costs == {SCORED_TOKENS: 5}


@pytest.mark.parametrize(
    "settings",
    [{"turn_based": True, "interviewer": True}, {"policies": "one", "trained_coders": 1}, {"verifier_iterations": 1}],
)
def test_a_run_that_was_killed_ends_with_the_same_files(make_run, train_with_a_kill_in_credit, settings):
    whole, cut = (make_run(name, tasks=2, iterations=3, **settings) for name in ("whole", "cut"))
    whole.config.algorithms["maporl"].train(whole)
    train_with_a_kill_in_credit(cut.config.algorithms["maporl"], cut)
    files = [
        {path.relative_to(run.path(".")): path.read_bytes() for path in run.path("maporl").rglob("*.*")} for run in (whole, cut)
    ]
    assert files[0] == files[1] and len(files[0]) > 2
    assert read_rows(whole.path("metrics.jsonl")) == read_rows(cut.path("metrics.jsonl"))


def test_a_round_that_is_not_trained_keeps_its_weights(make_run, monkeypatch):
    run, steps, update = make_run("run", tasks=2, iterations=2, turn_based=True), [], Learner.update

    def noted(self, episodes, *rest):
        steps.append((self.trainable.name, len(episodes)))
        return update(self, episodes, *rest)

    monkeypatch.setattr(Learner, "update", noted)
    run.config.algorithms["maporl"].train(run)
    rounds = [[name for name, count in steps[4 * n : 4 * n + 4] if count] for n in (0, 1)]
    assert rounds == [["coder1_2", "coder2_2"], ["coder1_1", "coder2_1"]]
