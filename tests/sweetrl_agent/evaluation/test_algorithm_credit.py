"""Credit accuracy of algorithms: candidates as episodes, rules by one method, their costs, values of a fitted head, and a comparison with all of them."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import dataclass

import numpy as np
import pytest

from colbench_gym.errors import ColBenchError
from colbench_gym.files import read_rows, write_json, write_rows
from sweetrl_agent import compare
from sweetrl_agent.algorithms.critics import open_critic
from sweetrl_agent.algorithms.grpo import GRPO
from sweetrl_agent.core.batch import Credit
from sweetrl_agent.evaluation import algorithm_credit, credit_accuracy, main_job
from sweetrl_agent.evaluation.algorithm_credit import PASSES, STEPS, TOKENS
from sweetrl_agent.trainers.on_policy import OnPolicyAlgorithm, OnPolicyConfig

HERE = "tests.sweetrl_agent.evaluation.test_algorithm_credit"
NUM_TASKS = 2


@dataclass(frozen=True)
class RuleConfig(OnPolicyConfig):
    """No setting of its own."""


class Oracle(OnPolicyAlgorithm):
    """The rule whose credit is the exact advantage: it plugs in by one method."""

    name, title, Config, requires = "oracle_rule", "Exact rule", RuleConfig, frozenset({"hidden"})

    def credit(self, batch):
        raise AssertionError("is not needed")

    def turn_credit(self, batch, turns):
        with open_critic(self.run, "exact") as exact:
            return [
                exact.rank(e.prefix(t), e.hidden_at(t), [e.turns[t - 1].text])[0]
                for e, t in zip(batch.episodes, turns, strict=True)
            ]


class Vine(OnPolicyAlgorithm):
    """Values by continuations, of the states before and after a turn alone."""

    name, title, Config, requires = "vine_rule", "Vine rule", RuleConfig, frozenset({"snapshot"})

    def credit(self, batch):
        return Credit([[0.0] * len(e.turns) for e in batch.episodes])

    def turn_credit(self, batch, turns):
        places = [(e, t + n) for e, t in zip(batch.episodes, turns, strict=True) for n in (0, 1) if t + n <= len(e.turns)]
        values = {
            (e.index, t): np.mean([sum(one.reward for one in b.turns[t - 1 :]) for b in branches])
            for (e, t), branches in zip(places, batch.branch(places, 2), strict=True)
        }
        return [
            e.turns[t - 1].reward + values.get((e.index, t + 1), 0.0) - values[e.index, t]
            for e, t in zip(batch.episodes, turns, strict=True)
        ]


class Scored(GRPO):
    """Two passes over each episode: its tokens' log-probabilities, and the same once more."""

    name, title = "scored_rule", "Scored rule"

    def credit(self, batch):
        first, again = batch.score(batch.episodes), batch.score(batch.episodes)
        assert np.allclose(sum(sum(first[0], []), 0), sum(sum(again[0], []), 0))
        assert all(
            turn.log_probs == pytest.approx(of, abs=1e-3)
            for e, s in zip(batch.episodes, first, strict=True)
            for turn, of in zip(e.turns, s, strict=True)
        )
        return super().credit(batch)


@pytest.fixture
def run(make_run, tiny_model_folder):
    """A run with states of its held-out tasks: useful and useless questions, right and wrong answers."""
    given = {
        "model": str(tiny_model_folder),
        "dtype": "float32",
        "sft_dialogues": 0,
        "system_prompt": "",
        "max_new_tokens": 6,
        "max_turns": 4,
    }
    run = make_run(
        **given,
        **{
            "turn_ppo.iterations": 2,
            "turn_ppo.tasks": 2,
            "turn_ppo.asymmetric": True,
            "turn_ppo.first_value": 0.5,
            "token_ppo.iterations": 1,
            "token_ppo.tasks": 2,
        },
    )
    actions, rows = run.record.actions(run.config), []
    for task in run.test[:NUM_TASKS]:
        special = [i for i, fact in enumerate(task.hidden.facts) if fact.is_special]
        plain = next(i for i, fact in enumerate(task.hidden.facts) if not fact.is_special)
        with closing(run.environment([task], 1)) as envs:
            env = envs.envs[0]
            env.reset(seed=0, options={"task_id": task.id})
            for turn in (1, 2):
                messages = list(env.messages)
                asks = [actions.say(i, messages) for i in (*special, plain)]
                right = f"I WANT TO ANSWER:\n{task.hidden.reference}"
                wrong = "I WANT TO ANSWER:\ndef f(x):\n    return 0"
                texts = [*asks, right, wrong, asks[0]]
                rows.append(
                    {
                        "split": "test",
                        "task_id": task.id,
                        "turn": turn,
                        "messages": messages,
                        "reference": env.hidden_information,
                        "texts": texts,
                    }
                )
                env.step(asks[0])
    with open_critic(run, "exact") as exact:
        for row in rows:
            row["exact"] = exact.rank(row["messages"], row["reference"], row["texts"])
    write_rows(run.path(credit_accuracy.STATES.format(NUM_TASKS)), rows)
    return run


def _scored(run, algorithm):
    """Rows of the scores of an algorithm, which the run gets."""
    name = algorithm if isinstance(algorithm, str) else algorithm.name
    if not isinstance(algorithm, str):
        run.config.algorithms[name] = algorithm
    algorithm_credit.score(run, name, NUM_TASKS)
    return credit_accuracy.scores_of(run, name, NUM_TASKS)


def test_a_rule_that_gives_the_exact_advantage_is_right_everywhere(run):
    rows, states = _scored(run, Oracle()), read_rows(run.path(credit_accuracy.STATES.format(NUM_TASKS)))
    assert [row["credit"] for row in rows] == [pytest.approx(state["exact"]) for state in states]
    results = credit_accuracy.accuracies(run, "oracle_rule", NUM_TASKS)
    assert len(results) == NUM_TASKS and all(
        row["pair_accuracy"] == 1.0 and row["rank_correlation"] == pytest.approx(1.0) for row in results
    )


def test_candidates_are_whole_episodes_of_the_policy(run):
    state = read_rows(run.path(credit_accuracy.STATES.format(NUM_TASKS)))[1]
    run.config.algorithms["gigpo"] = run.config.algorithms["gigpo"].with_config(run.config.algorithms["gigpo"].config)
    algorithm, fit = algorithm_credit.fitted(run, "gigpo")
    algorithm.run = algorithm_credit._view(run, "gigpo", run.test)
    algorithm.sampler = algorithm.make_sampler(algorithm.run)
    texts = list(dict.fromkeys(state["texts"]))
    with closing(algorithm.sampler), closing(run.environment(run.test, 1)) as env:
        episodes = algorithm_credit.tokenized(
            algorithm, algorithm_credit.candidate_episodes(algorithm, env.envs[0], state, texts)
        )
        wrong = {
            **state,
            "messages": [state["messages"][0], state["messages"][1], {"role": "user", "content": "Something else."}],
        }
        with pytest.raises(ColBenchError, match="does not repeat a recorded dialogue of task"):
            algorithm_credit.candidate_episodes(algorithm, env.envs[0], wrong, texts)
    assert fit == {} and [e.index for e in episodes] == list(range(len(texts)))
    for episode, text in zip(episodes, texts, strict=True):
        is_answer = text.startswith("I WANT")
        assert (
            episode.turns[1].text == text
            and episode.prefix(2) == state["messages"]
            and (len(episode.turns) == 2 if is_answer else 2 < len(episode.turns) <= 4)
        )
        assert episode.reward == float(text.startswith("I WANT") and "return 0" not in text) and "success" in episode.metrics
        assert all(len(turn.token_ids) == len(turn.log_probs) > 0 for turn in episode.turns)
        assert [key[1] for key in episode.keys] == list(range(len(episode.turns))) and episode.hidden == state["reference"]
        assert len({episode.keys[1], episodes[0].keys[1]}) == 1 and not episode.states


def test_rules_of_groups_prefer_the_candidate_that_succeeds_and_cost_what_is_counted(run):
    for algorithm in ("grpo", "gigpo", "reinforce"):
        for row, state in zip(
            _scored(run, algorithm), read_rows(run.path(credit_accuracy.STATES.format(NUM_TASKS))), strict=True
        ):
            assert np.argmax(row["credit"]) == 3 and row["credit"][0] == row["credit"][5]
            left = [4 - state["turn"] if not text.startswith("I WANT") else 0 for text in dict.fromkeys(state["texts"])]
            assert (
                1 < row["cost"][STEPS] <= round(np.mean(left) + 1, 3) and row["cost"][PASSES] == 0 and row["cost"][TOKENS] > 0
            )
    for row in _scored(run, Scored()):
        assert row["cost"][PASSES] == 2.0


def test_values_by_continuations_cost_environment_steps(run):
    costs = [row["cost"] for row in _scored(run, Vine())]
    plain = [row["cost"] for row in _scored(run, "grpo")]
    assert all(more[STEPS] > 2 * less[STEPS] and more[PASSES] == 0 for more, less in zip(costs, plain, strict=True))
    credit = [row["credit"] for row in credit_accuracy.scores_of(run, "vine_rule", NUM_TASKS)]
    assert all(np.argmax(of_turn) == 3 for of_turn in credit)


@pytest.mark.parametrize("name", ["turn_ppo", "token_ppo"])
def test_a_value_head_is_fitted_on_the_initial_policy_and_resumes(run, name):
    rows = _scored(run, name)
    assert rows[0]["fit"][STEPS] > 0 and "fit" not in rows[1] and all(row["cost"][PASSES] >= 1 for row in rows)
    algorithm, fit = algorithm_credit.fitted(run, name)
    assert fit == rows[0]["fit"]  # nothing is played again
    (learner,) = algorithm.learners.values()
    assert learner.head.weight.abs().sum() > 0
    start = algorithm.run.load_policy().model.state_dict()
    assert all((value == start[key]).all() for key, value in learner.model.state_dict().items())


def test_a_comparison_measures_critics_and_algorithms_on_the_same_candidates(tmp_path, monkeypatch):
    folder = tmp_path / "compare"

    def no_pairs(run):
        write_rows(run.path("outcome_pairs.jsonl"), [])
        write_json(run.path("pairs_summary.json"), {})

    monkeypatch.setitem(main_job.WORK, "pairs", no_pairs)  # no critic here is trained, and so small a model is never right
    given = {
        "sft_dialogues": 64, "sft_epochs": 1, "tiny_hidden_size": 32, "tiny_layers": 1, "tiny_vocab_size": 600, "num_tasks": 2, "trajectories_per_task": 2,
        "eval_tasks": 2, "max_new_tokens": 8, "max_turns": 2, "generation_batch": 4, "sandbox": "embedded", "threads": 1, "min_best": 0.0, "unseen_tasks": "",
        "algorithms": ["initial"], "critics": ["untrained", "exact", "marginal"], "credit_algorithms": ["grpo", f"{HERE}:Vine"], "credit_tasks": 2, "seeds": 1,
        "sweet.num_candidates": 3, "output": folder,
    }  # fmt: skip
    assert compare.main([], given) == 0
    results = json.loads((folder / "results.json").read_text())["credit_accuracy"]
    assert list(results) == ["untrained", "exact", "marginal", "grpo", "vine_rule"]
    for rule, of_split in results.items():
        row = of_split["test"]
        assert set(row["cost"]) == {PASSES, STEPS, TOKENS} and ("marginal" in row) == (rule != "marginal")
    assert (
        results["untrained"]["test"]["cost"][PASSES] == 2.0
        and results["vine_rule"]["test"]["cost"][STEPS] > results["grpo"]["test"]["cost"][STEPS]
    )
    page = (folder / "report.html").read_text()
    assert "Environment steps" in page and "Vine rule" in page
    assert compare.main([], {"config": folder / "config.yaml", "output": folder, "threads": 1, "dry_run": True}) == 0


@pytest.mark.parametrize(
    ("changes", "error"),
    [({"credit_algorithms": ["rft"]}, "`credit_algorithms` takes on-policy algorithms of one agent, got 'rft'; critics go into `--critics`."),
     ({"credit_algorithms": ["grpo"], "credit_tasks": 0}, "`credit_algorithms` are measured on held-out tasks with a known exact advantage: give their number by `--credit_tasks N`, or leave"),
     ({"credit_algorithms": ["grppo"]}, "`credit_algorithms` must be one of")],
)  # fmt: skip
def test_what_cannot_be_measured_is_refused(changes, error, capsys, tmp_path):
    given = {"algorithms": ["initial"], "sandbox": "embedded", "output": tmp_path / "x", "dry_run": True, **changes}
    assert compare.main([], given) == 2
    assert error in capsys.readouterr().err
