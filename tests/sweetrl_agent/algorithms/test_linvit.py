"""LINVIT: its closed form, its limits, its values against a plain recursion, optimism, the dial of the prior, and runs."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from benchmarks import prior_dial
from colbench_gym.files import read_rows
from sweetrl_agent import compare, run_train
from sweetrl_agent.algorithms.linvit import Linvit, LinvitConfig
from sweetrl_agent.algorithms.linvit_values import LOWER, MEAN, UPPER, Bounds, Ensemble, MenuEpisode, Table, regularised
from sweetrl_agent.data.chat import Chat
from sweetrl_agent.evaluation import comparison_job
from sweetrl_agent.trainers.menu_prior import MenuPrior, Scorer, state_name
from sweetrl_agent.trainers.run import Run
from tests.sweetrl_agent import menu_lock

Q, PRIOR = np.array([0.2, 1.0, 0.7]), np.array([0.5, 0.2, 0.3])


@pytest.mark.parametrize("lam", [0.05, 0.3, 2.0])
def test_the_closed_form_is_the_maximum_over_the_simplex(lam):
    grid = np.arange(1, 200) / 200
    points = np.array([(a, b, 1 - a - b) for a, b in itertools.product(grid, grid) if a + b < 1 - 1e-9])
    objective = points @ Q - lam * (points * np.log(points / PRIOR)).sum(axis=1)
    pi, value = regularised(Q, PRIOR, lam)
    at_pi = float(pi @ Q - lam * (pi * np.log(np.maximum(pi, 1e-300) / PRIOR)).sum())
    assert value == pytest.approx(at_pi, abs=1e-12) and pi.sum() == pytest.approx(1.0)
    assert objective.max() <= value + 1e-12 and objective.max() > value - 0.01
    assert points[objective.argmax()] == pytest.approx(pi, abs=0.02)


def test_the_limits_are_the_best_action_and_the_prior():
    pi, value = regularised(Q, PRIOR, 0.0)
    assert pi.tolist() == [0, 1, 0] and value == 1.0
    assert regularised(Q, PRIOR, 1e-3)[0] == pytest.approx(pi) and regularised(Q, PRIOR, 1e-3)[1] == pytest.approx(
        1.0, abs=2e-3
    )
    pi, value = regularised(Q, PRIOR, math.inf)
    assert pi.tolist() == PRIOR.tolist() and value == pytest.approx(PRIOR @ Q)
    assert regularised(Q, PRIOR, 1e6)[0] == pytest.approx(pi, abs=1e-6) and regularised(Q, PRIOR, 1e6)[1] == pytest.approx(
        value, abs=1e-6
    )
    ties, _ = regularised([1.0, 1.0, 0.0], PRIOR, 0.0)
    assert ties == pytest.approx([5 / 7, 2 / 7, 0])


@pytest.mark.parametrize("lam", [0.0, 0.1, 1e9, math.inf])
def test_an_action_without_prior_probability_is_never_chosen_whatever_its_value(lam):
    pi, value = regularised([[1e6, 0.5, 0.5]], [[0.0, 0.5, 0.5]], lam)
    assert pi == pytest.approx(np.array([[0, 0.5, 0.5]])) and value == pytest.approx([0.5])


def random_episodes(count, seed, length=3, num_actions=3):
    """Episodes in a random MDP whose observation is one of two places."""
    rng, priors = np.random.default_rng(seed), np.random.default_rng(1).dirichlet(np.ones(num_actions), size=(length, 2))
    episodes = []
    for _ in range(count):
        place, places, actions, rewards = 0, [], [], []
        for _ in range(int(rng.integers(1, length + 1))):
            places.append(place)
            actions.append(int(rng.integers(num_actions)))
            rewards.append(float(rng.random()) / length)
            place = int(rng.random() < 0.3 + 0.2 * actions[-1])
        observations = np.eye(2, dtype=np.float32)[places]
        states = [f"{turn}{place}" for turn, place in enumerate(places)]
        episodes.append(
            MenuEpisode(states, observations, np.array([priors[t][p] for t, p in enumerate(places)]), actions, rewards)
        )
    return episodes


def plain_value(episodes, turn, place, sign, bounds):
    """Q and V of a state by recursion, with the empirical frequencies of the places that followed."""
    q = []
    for action in range(bounds.count):
        visits = [
            e
            for e in episodes
            if len(e.actions) > turn and e.observations[turn].argmax() == place and e.actions[turn] == action
        ]
        if not visits:
            q.append(bounds.high if sign > 0 else bounds.low)
            continue
        value = sum(e.rewards[turn] for e in visits) / len(visits)
        for later in (0, 1):
            share = sum(len(e.actions) > turn + 1 and e.observations[turn + 1].argmax() == later for e in visits) / len(visits)
            if share:
                value += bounds.discount * share * plain_value(episodes, turn + 1, later, sign, bounds)[1]
        value += sign * bounds.bonus / len(visits) ** 0.5
        q.append(min(value, bounds.high) if sign > 0 else max(value, bounds.low) if sign < 0 else value)
    prior = next(e.priors[turn] for e in episodes if len(e.actions) > turn and e.observations[turn].argmax() == place)
    weights = [p * math.exp(x / bounds.lam) for p, x in zip(prior, q, strict=True)]
    return q, bounds.lam * math.log(sum(weights))


def test_the_table_is_backward_induction_on_the_empirical_model():
    bounds, episodes = Bounds(3, 0.2, 0.9, 0.3, 0.0, 1.5), random_episodes(40, 0)
    table = Table(bounds)
    table.fit(episodes)
    for turn, place in ((0, 0), (1, 0), (1, 1), (2, 1)):
        estimates = table.estimates(np.eye(2, dtype=np.float32)[place], turn + 1)
        for kind, sign in ((UPPER, 1), (MEAN, 0), (LOWER, -1)):
            assert estimates[kind] == pytest.approx(plain_value(episodes, turn, place, sign, bounds)[0])
    unvisited = table.estimates(np.zeros(2, np.float32), 9)
    assert unvisited.tolist() == [[1.5] * 3, [0.0] * 3, [0.0] * 3]


def test_the_ensemble_learns_the_regularised_values_of_a_chain():
    lock, lam = prior_dial.Lock(3, 2, seed=1), 0.2
    prior, rng = prior_dial.mixture(lock, 0.3), np.random.default_rng(0)
    episodes = []
    for _ in range(300):
        observation, _ = lock.reset()
        observations, priors, actions, rewards, is_over = [], [], [], [], False
        while not is_over:
            observations.append(observation)
            priors.append(prior(lock.messages))
            actions.append(int(rng.integers(2)))
            observation, reward, is_over, _, _ = lock.step(actions[-1])
            rewards.append(reward)
        episodes.append(MenuEpisode([""] * len(actions), np.stack(observations), np.stack(priors), actions, rewards))
    values = Ensemble(Bounds(2, lam, 1.0, 1.0, 0.0, 1.0), 3, members=3, learning_rate=1e-2, updates=300, seed=0)
    untrained = values.estimates(observations[0], 1)
    assert np.all(untrained[UPPER] - untrained[LOWER] > 0)
    values.fit(episodes, seed=1)
    following = 1.0
    for place in (2, 1, 0):
        lock.place, right = place, lock.combination[place]
        estimates = values.estimates(lock.observe(), place + 1)
        assert estimates[MEAN][right] == pytest.approx(following, abs=0.03)
        assert estimates[MEAN][1 - right] == pytest.approx(0.1, abs=0.03)
        q = np.where(np.arange(2) == right, following, 0.1)
        following = float(regularised(q, prior(lock.messages), lam)[1])


def test_optimism_opens_a_lock_that_greed_does_not():
    config = LinvitConfig(values="table", lam=0.02, iterations=150, episodes=1)
    needed = [prior_dial.episodes_needed(prior_dial.Lock(6, 3, seed=s), 0.0, s, config) for s in range(3)]
    greedy = [prior_dial.episodes_needed(prior_dial.Lock(6, 3, seed=s), 0.0, s, replace(config, bonus=0.0)) for s in range(3)]
    assert max(needed) < 60 and min(greedy) == 151


def test_a_better_prior_needs_fewer_episodes():
    config = LinvitConfig(values="table", lam=0.05, iterations=200, episodes=1)
    rows = prior_dial.measure([0.0, 0.5, 0.9], 8, config, length=5, count=4, target=0.9)
    needed = [row["episodes"] for row in rows]
    assert needed[0] > needed[1] > needed[2] and needed[2] < needed[0] / 2 and not any(row["failed"] for row in rows)


def test_exploration_by_gap_opens_it_too():
    config = LinvitConfig(values="table", lam=0.05, iterations=300, episodes=1, explore="gap")
    assert prior_dial.episodes_needed(prior_dial.Lock(4, 3, seed=0), 0.0, 0, config) < 150


# ---- the prior -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("normalised", [True, False])
def test_the_prior_is_the_likelihood_of_each_text(make_tiny_model, tiny_tokenizer, normalised):
    model, chat, actions = make_tiny_model(), Chat(tiny_tokenizer), menu_lock.Colours()
    messages = [
        {"role": "user", "content": "Which?"},
        {"role": "assistant", "content": "red"},
        {"role": "user", "content": "And?"},
    ]
    read = [{"role": "system", "content": "Open it."}, *messages[2:]]
    prompt, expected = chat.prompt(read), []
    for text in menu_lock.COLOURS:
        turn = chat.turn(read, text)
        with torch.no_grad():
            log_probs = torch.log_softmax(model(torch.tensor([prompt + turn])).logits[0].double(), dim=-1)
        row = [float(log_probs[len(prompt) - 1 + i, token]) for i, token in enumerate(turn)]
        expected.append(np.mean(row) if normalised else np.sum(row))
    expected = np.exp(np.array(expected) / 2.0)
    prior = MenuPrior(actions, Scorer(model, chat, "Open it.", 0, normalised), temperature=2.0)
    assert prior(messages) == pytest.approx(expected / expected.sum(), abs=1e-4)
    read_tokens = prior.scored_tokens
    assert read_tokens > len(prompt) and np.all(prior(messages) == prior(messages)) and prior.scored_tokens == read_tokens
    mixed = MenuPrior(actions, Scorer(model, chat, "Open it.", 0, normalised), 2.0, weight=0.25)(messages)
    assert mixed == pytest.approx(0.25 * expected / expected.sum() + 0.75 / 3, abs=1e-4)


def test_the_prior_gives_nothing_to_actions_that_are_not_allowed():
    prior = MenuPrior(menu_lock.Colours(), None)
    assert prior([{"role": "user", "content": "Which?"}]).tolist() == [0.5, 0.5, 0.0] and prior.scored_tokens == 0
    assert state_name([{"role": "user", "content": "a"}]) != state_name([{"role": "assistant", "content": "a"}])


# ---- runs ------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def make_run(tmp_path, tiny_model_folder):
    """Function: folder, settings -> a run on the lock."""

    def make(folder="run", **settings):
        given = {**menu_lock.settings(tmp_path / folder, tiny_model_folder), **settings}
        return Run(comparison_job.parse(["--algorithms", "linvit"], given)[1])

    return make


SMALL = {"linvit.iterations": 6, "linvit.episodes": 4, "linvit.lam": 0.05}


@pytest.mark.parametrize("values", ["table", "ensemble"])
def test_a_run_learns_the_lock_and_its_agent_opens_it(make_run, values):
    run = make_run(
        **{**SMALL, "linvit.values": values, "linvit.iterations": 12, "linvit.updates": 60, "linvit.learning_rate": 5e-3}
    )
    algorithm = run.config.algorithms["linvit"]
    algorithm.train(run)
    rows = [row for row in read_rows(run.path("metrics.jsonl")) if row["stage"] == "linvit"]
    assert len(rows) == 12 and rows[-1]["episodes"] == 48 and rows[-1]["environment_turns"] >= 48
    assert rows[0]["scored_tokens"] > 0 and rows[-1]["scored_tokens"] == rows[-2]["scored_tokens"]  # every state is scored once
    assert rows[-1]["gap"] < rows[0]["gap"] or values == "ensemble"
    agent, messages = algorithm.load(run), [{"role": "user", "content": "Which colour is first?"}]
    for colour in menu_lock.COMBINATION:
        (said,) = agent.generate([messages], [5])
        assert said.text == colour
        messages = [*messages, {"role": "assistant", "content": colour}, {"role": "user", "content": "It clicks. And then?"}]
    first = algorithm.load_initial(run).generate([messages[:1]] * 40, range(40))
    assert {utterance.text for utterance in first} == {"red", "blue"}


@pytest.mark.parametrize("values", ["table", "ensemble"])
def test_a_run_that_was_killed_ends_with_the_same_files(make_run, values, monkeypatch):
    given = {**SMALL, "linvit.values": values, "linvit.updates": 20}
    whole, cut = make_run("whole", **given), make_run("cut", **given)
    whole.config.algorithms["linvit"].train(whole)
    original, done = Linvit.iterate, []

    class Killed(Exception):
        """Stands for the kill."""

    def iterate(*arguments):
        if len(done) == 3:
            raise Killed
        done.append(1)
        return original(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Linvit, "iterate", iterate)
        with pytest.raises(Killed):
            cut.config.algorithms["linvit"].train(cut)
    assert (cut.path("linvit/checkpoint.pt")).exists()
    cut.config.algorithms["linvit"].train(cut)
    for name in (f"linvit/agent.{'npz' if values == 'table' else 'pt'}", "metrics.jsonl"):
        assert whole.path(name).read_bytes() == cut.path(name).read_bytes()
    assert [path.name for path in sorted(cut.path("linvit").iterdir())] == [
        path.name for path in sorted(whole.path("linvit").iterdir())
    ]


def test_a_whole_job_evaluates_the_prior_as_its_initial_policy(tmp_path, tiny_model_folder):
    given = menu_lock.settings(tmp_path / "run", tiny_model_folder)
    results = run_train(algorithm="linvit", linvit={"iterations": 8, "episodes": 6, "values": "table", "lam": 0.02}, **given)
    assert results["trained"]["test"]["success"] > results["initial"]["test"]["success"]
    assert {row["agent"] for row in read_rows(tmp_path / "run" / "evaluation.jsonl")} == {"initial", "trained"}


def test_the_comparison_counts_its_costs(tmp_path, tiny_model_folder):
    given = {**menu_lock.settings(tmp_path / "run", tiny_model_folder), **SMALL, "linvit.values": "table", "seeds": 1}
    assert compare.main(["--algorithms", "random_actions", "linvit"], given) == 0
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["ledger"]["0"]["linvit"]["environment_turns"] >= 24
    success = {name: split["test"]["success"] for name, split in results["algorithms"].items()}
    assert success["linvit"] > success["random_actions"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"values": "list"}, "`values`"),
        ({"explore": "never"}, "`explore`"),
        ({"low": 1.0}, "`low` must be below `high`, got 1.0 and 1.0."),
    ],
)
def test_wrong_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        LinvitConfig(**settings)


def test_a_weight_above_1_is_refused(tmp_path, tiny_model_folder):
    given = {**menu_lock.settings(tmp_path / "run", tiny_model_folder), "linvit.prior_weight": 1.5}
    with pytest.raises(ValueError, match=r"`linvit.prior_weight` must be at most 1, got 1.5."):
        comparison_job.parse(["--algorithms", "linvit"], given)
