"""The loop with all that it may own: two policies in training, a critic with a target network, replay, and a resume that changes nothing."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace

import gymnasium as gym
import pytest
import torch

from colbench_gym.errors import ColBenchError
from colbench_gym.files import read_rows
from colbench_gym.seeds import turn_seed
from sweetrl_agent.core.batch import Credit
from sweetrl_agent.core.episode import EpisodeKey, Turn
from sweetrl_agent.core.trainable import Trainable
from sweetrl_agent.evaluation import comparison_job
from sweetrl_agent.evaluation.costs import OF_AGENT, _of_agents
from sweetrl_agent.rollouts.play import play
from sweetrl_agent.trainers.learner import Learner
from sweetrl_agent.trainers.on_policy import OnPolicyAlgorithm, OnPolicyConfig
from sweetrl_agent.trainers.run import Run
from sweetrl_agent.trainers.views import views_of
from tests.sweetrl_agent.core.test_two_agents import Halves


class Scored(Halves):
    """As `Halves`, with snapshots, and paid by the length of the guess."""

    def step(self, action):
        observation, _, *rest = super().step(action)
        return observation, len(action) / 10 if rest[0] else 0.0, *rest

    def get_state(self):
        return {"bits": self.bits.tolist(), "is_first": self.is_first, "hidden": self.hidden_information}

    def set_state(self, state, reseed=None):
        self.bits, self.is_first, self.hidden_information = (
            torch.tensor(state["bits"]).numpy(),
            state["is_first"],
            state["hidden"],
        )


gym.register("Scored-v0", entry_point=Scored, disable_env_checker=True)


@dataclass(frozen=True)
class TeamConfig(OnPolicyConfig):
    replay: int = 6


class Team(OnPolicyAlgorithm):
    name, policies, Config = "team", {"scout": "team/scout", "guesser": "team/guesser"}, TeamConfig
    requires = frozenset({"snapshot"})
    stops_at = None

    def trainables(self, run):
        torch.manual_seed(0)
        self.critic = torch.nn.Linear(1, 1)
        self.trained = Trainable("critic", self.critic, torch.optim.Adam(self.critic.parameters(), lr=0.1))
        self.target = Trainable("target", copy.deepcopy(self.critic))
        return self.trained, self.target

    def update_critic(self, batch):
        drawn = batch.replay.sample(4, seed=batch.iteration)
        fresh = batch.sample([t.observation for t in drawn], range(4), "scout")
        inputs = torch.tensor([[float(len(utterance.text))] for utterance in fresh])
        loss = (self.critic(inputs)[:, 0] - torch.tensor([t.action.reward for t in drawn])).square().mean()
        loss.backward()
        self.trained.step()
        self.target.follow(self.critic, 0.5)
        return {"critic_loss": float(loss.detach()), "replay": float(len(batch.replay))}

    def credit(self, batch):
        if self.stops_at == batch.iteration:
            raise KeyboardInterrupt
        scores = batch.score(batch.episodes)
        for episode, of_turns in zip(batch.episodes, scores, strict=True):
            for turn, found in zip(episode.turns, of_turns, strict=True):
                assert found == pytest.approx(turn.log_probs, abs=1e-3)
        first = batch.episodes[0]
        other = "your bit is 7" if "your" in first.messages[0]["content"] else "?"
        edited = replace(first, messages=[{**first.messages[0], "content": other}, *first.messages[1:]])
        ((scout, guesser),) = batch.score([edited])
        assert scout != scores[0][0] and guesser == pytest.approx(scores[0][1], abs=1e-4)
        ((text,), *_) = batch.score([first.until(1, Turn("red"))])
        assert len(text) > 1
        ((branch,),) = batch.branch([(first, 2)], 1)
        assert branch.turns[0] == first.turns[0] and branch.hidden_at(1) == first.hidden_at(1)
        return Credit([[episode.reward, episode.reward - 0.1] for episode in batch.episodes])


@pytest.fixture
def make_run(tmp_path, tiny_model_folder):
    def make(name, **others):
        settings = {
            "output": tmp_path / name, "env": f"{__name__}:Scored-v0", "tasks": "seeds:0-3", "test_tasks": "seeds:10-11", "model": tiny_model_folder,
            "dtype": "float32", "sft_dialogues": 0, "system_prompt": "", "max_new_tokens": 4, "threads": 1, "generation_batch": 4, **others,
        }  # fmt: skip
        return Run(comparison_job.parse([text for name, value in settings.items() for text in (f"--{name}", str(value))])[1])

    return make


def test_a_team_is_trained_and_a_killed_run_ends_with_the_same_files(make_run):
    config = TeamConfig(iterations=3, tasks=2, group=2, learning_rate=1e-2)
    whole, cut = make_run("whole"), make_run("cut")
    Team(config).learn(whole)
    killed = Team(config)
    killed.stops_at = 2
    with pytest.raises(KeyboardInterrupt):
        killed.learn(cut)
    saved = torch.load(cut.path("team/checkpoint.pt"), weights_only=True)
    assert list(saved["trainables"]) == ["scout", "guesser", "critic", "target"] and len(saved["metrics"]) == 2
    Team(config).learn(cut)
    rows = read_rows(whole.path("metrics.jsonl"))
    assert rows == read_rows(cut.path("metrics.jsonl")) and [row["replay"] for row in rows] == [6.0, 6.0, 6.0]
    assert all(
        row["scout/grad_norm"] > 0 and row["guesser/grad_norm"] > 0 and row["episodes"] == 5 * row["step"] for row in rows
    )
    for row in rows:
        for cost in ("environment_turns", "generated_tokens", "num_input_tokens_seen"):
            assert row[f"scout/{cost}"] + row[f"guesser/{cost}"] == row[cost] and row[f"scout/{cost}"] > 0
        assert (row["scout/episodes"], row["guesser/episodes"]) == (4 * row["step"], 5 * row["step"]), (
            "a continuation is the guesser's"
        )
    costs = {agent: {name: rows[-1][f"{agent}/{cost}"] for cost, name in OF_AGENT.items()} for agent in ("scout", "guesser")}
    assert _of_agents(rows[-1:]) == costs
    weights = [[(run.path(folder) / "model.safetensors").read_bytes() for folder in Team().folders] for run in (whole, cut)]
    assert weights[0] == weights[1] and weights[0][0] != weights[0][1]
    assert sorted(path.name for path in whole.path("team").iterdir()) == ["guesser", "scout"]
    policies = Team().load(whole)
    assert isinstance(policies, Mapping) and [*policies] == ["scout", "guesser"]
    ((episode,),) = play(policies, whole.environment(whole.tasks, 1), [EpisodeKey("0")], 0, "x")
    assert episode.agents == ("scout", "guesser")


@pytest.mark.parametrize(("counts", "share"), [(False, 1.0), (True, 0.25)])
def test_episodes_without_credit_count_in_the_mean_if_the_algorithm_says_so(make_run, counts, share):
    algorithm, run = Team(TeamConfig(tasks=4, group=1, epochs=1, micro_batch=1)), make_run("run")
    algorithm.begin(run)
    algorithm.sampler = algorithm.make_sampler(run)
    episodes = [view.episode for view in views_of(algorithm.play(0), ["scout"])]
    updates = []
    for algorithm.counts_skipped in (False, counts):
        learner = Learner(run, algorithm)
        updates.append(learner.update(episodes, Credit([[1.0], *[[0.0]] * 3])))
    assert updates[1].loss == pytest.approx(share * updates[0].loss) != 0
    assert updates[1].grad_norm == pytest.approx(share * updates[0].grad_norm, rel=1e-3)


# ---- a verifier, and agents that are not trained ------------------------------------------------------------------------------------


class Checked(Scored):
    """As `Scored`, with a verifier that knows the state: whether a text names what is hidden now."""

    def score_answer(self, text):
        return {"success": int(text == self.hidden_information), "outcome": "ended"}


class Strict(Checked):
    """Grades no message that was cut, and its verifier says a number."""

    def score_answer(self, text):
        return len(text) / 1000

    def step_cut(self, action):
        return self.step(action)


gym.register("Checked-v0", entry_point=Checked, disable_env_checker=True)
gym.register("Strict-v0", entry_point=Strict, disable_env_checker=True)


class Half(OnPolicyAlgorithm):
    """Trains the guesser alone, with a value head; the scout stays at the initial policy."""

    name, requires, policies = "half", frozenset({"snapshot", "verifier"}), {"scout": "", "guesser": "half/guesser"}
    critic_learning_rate = 1e-2
    agents = None

    def credit(self, batch):
        self.batches = [*getattr(self, "batches", ()), batch]
        ones = [[1.0] * len(episode.turns) for episode in batch.episodes]
        return Credit(ones, ones, agents=self.agents)

    def loss(self, tokens):
        return self.policy_loss(tokens) + (tokens.values - tokens.returns).square().mean()


def _said(episode, *texts):
    """An episode whose turns said something else."""
    return replace(
        episode, turns=[replace(turn, text=text, finish_reason="stop") for turn, text in zip(episode.turns, texts, strict=True)]
    )


def test_a_verifier_scores_what_was_said_in_the_state_before_it_and_is_counted(make_run):
    algorithm, run = Half(OnPolicyConfig(tasks=2, group=1)), make_run("run", env=f"{__name__}:Checked-v0")
    algorithm.begin(run)
    algorithm.sampler = algorithm.make_sampler(run)
    first, second = algorithm.play(0)
    right = [[episode.hidden_at(turn) for turn in (1, 2)] for episode in (first, second)]
    batch = algorithm.batch([first, second], 0)
    assert (
        batch.verify([(_said(first, *right[0]), 1), (_said(first, *right[0]), 2), (_said(second, *right[1]), 2)]) == [1.0] * 3
    )
    assert batch.verify([(_said(first, right[0][1], right[0][0]), turn) for turn in (1, 2)]) == [0.0, 0.0]
    assert algorithm.spent["verified_turns"] == 5 and batch.verify([]) == []
    elsewhere = algorithm.make_sampler(run)
    elsewhere._env = None  # as on Ray workers
    assert elsewhere.verify([(_said(first, *right[0]), 2)]) == [1.0]


def test_a_message_that_was_cut_scores_0_where_the_environment_grades_none(make_run):
    algorithm, run = Half(OnPolicyConfig(tasks=1, group=1)), make_run("run", env=f"{__name__}:Strict-v0")
    algorithm.begin(run)
    algorithm.sampler = algorithm.make_sampler(run)
    (episode,) = algorithm.play(0)
    whole = _said(episode, "ab", "abc")
    cut = replace(whole, turns=[replace(turn, finish_reason="length") for turn in whole.turns])
    assert algorithm.verify([(whole, 1), (whole, 2), (cut, 2)]) == [0.002, 0.003, 0.0]


def test_an_agent_without_a_folder_speaks_by_the_initial_policy_and_is_not_trained(make_run):
    algorithm, run = (
        Half(OnPolicyConfig(iterations=2, tasks=2, group=2, learning_rate=1e-2)),
        make_run("run", env=f"{__name__}:Checked-v0"),
    )
    algorithm.learn(run)
    assert algorithm.folders == ("half/guesser",) and [path.name for path in run.path("half").iterdir()] == ["guesser"]
    values = algorithm.batches[1].values
    assert all(scout == 0.0 != guesser for scout, guesser in values), "the head values the guesser's states alone"
    policies, initial = algorithm.load(run), run.load_policy()
    dialogue = [{"role": "user", "content": "your bit is 0"}]
    said = [policy.generate([dialogue], [0])[0].log_probs for policy in (policies["scout"], policies["guesser"], initial)]
    assert said[0] == said[2] != said[1]
    scouts = [episode.turns[0].log_probs for episode in algorithm.batches[1].episodes]
    again = algorithm.sampler.policies(is_new=True)["scout"]
    assert again is not algorithm.sampler.policies()["scout"] is algorithm.sampler.policies()["scout"]
    assert scouts == [utterance.log_probs for utterance in _spoken(again, algorithm.batches[1].episodes, run)]


def _spoken(policy, episodes, run):
    """What a policy says in the first turns of the second iteration."""
    seeds = [turn_seed(episode.key.seed(run.seed, "half 1"), 1) for episode in episodes]
    return policy.generate([episode.prefix(1) for episode in episodes], seeds)


def test_a_credit_may_name_the_agents_that_are_trained(make_run):
    weights = []
    for name, agents in (("all", None), ("guesser", ["guesser"]), ("none", ["scout"])):
        algorithm, run = Half(OnPolicyConfig(iterations=1, tasks=1, group=1)), make_run(name, env=f"{__name__}:Checked-v0")
        algorithm.agents = agents
        algorithm.learn(run)
        weights.append((run.path("half/guesser") / "model.safetensors").read_bytes())
    assert weights[0] == weights[1] != weights[2]


def test_an_agent_that_the_algorithm_does_not_know_ends_the_run(make_run):
    class Other(Half):
        policies = {"coder": "half/coder"}

    algorithm, run = Other(OnPolicyConfig(tasks=1, group=1)), make_run("run", env=f"{__name__}:Checked-v0")
    with pytest.raises(ColBenchError, match="^'half' has policies of coder, and scout, guesser spoke.$"):
        algorithm.learn(run)


def test_on_colbench_a_verifier_runs_the_tests_on_a_coders_message(make_run):
    settings = {
        "env": "ColBench-Team-v0", "env_kwargs": '{"roles": "debaters:2x1"}', "tasks": "embedded:train[:4]", "test_tasks": "embedded:test[:2]",
        "unseen_tasks": "", "max_turns": 2, "sandbox": "embedded",
    }  # fmt: skip

    class Debaters(Half):
        policies = {"interviewer": "", "coder1_1": "", "coder2_1": "half/coder"}

    algorithm, run = Debaters(OnPolicyConfig(tasks=2, group=1)), make_run("run", **settings)
    algorithm.begin(run)
    algorithm.sampler = algorithm.make_sampler(run)
    keys = [EpisodeKey(task.id) for task in run.tasks[:2]]
    episodes = algorithm.sampler.play(run.tasks, keys, "x")
    assert [turn.agent for turn in episodes[0].turns][-2:] == ["coder1_1", "coder2_1"]
    answers = [f"```python\n{task.hidden.reference}\n```" for task in run.tasks[:2]]
    for (number, episode), marker in zip(enumerate(episodes), ("", "I WANT TO ANSWER:\n"), strict=True):
        said = _said(episode, *["?"] * (len(episode.turns) - 2), marker + answers[number], answers[1 - number])
        last = len(said.turns)
        right, wrong = algorithm.verify([(said, last - 1), (said, last)])
        assert right == 1.0 > wrong


@pytest.mark.parametrize(
    ("env", "arguments", "agents"),
    [("ColBench-Team-v0", '{"roles": "generator,verifier,refiner"}', ("generator", "verifier", "refiner")), ("ColBench-Split-v0", "", ("first", "second"))],
)  # fmt: skip
def test_on_teams_a_verifier_scores_the_programs_of_all_roles_in_their_own_states(make_run, env, arguments, agents):
    settings = {
        "env": env, "env_kwargs": arguments, "tasks": "embedded:train[:12]", "test_tasks": "embedded:test[:8]", "unseen_tasks": "", "max_turns": 2,
        "sandbox": "embedded",
    }  # fmt: skip

    class OfRoles(Half):
        policies = {agent: "half/last" if agent == agents[-1] else "" for agent in agents}

    algorithm, run = OfRoles(OnPolicyConfig(tasks=2, group=1)), make_run("run", **settings)
    algorithm.begin(run)
    algorithm.sampler = algorithm.make_sampler(run)
    tasks = run.tasks[:2]
    episodes = algorithm.sampler.play(run.tasks, [EpisodeKey(task.id) for task in tasks], "x")
    verify = algorithm.batch(episodes, 0).verify
    for number, episode in enumerate(episodes):
        own, other = (tasks[n].hidden.reference for n in (number, 1 - number))
        assert episode.agents == agents
        for program, scores in ((own, {1.0}), (other, {0.0}), ("Nothing is missing.", {0.0})):
            said = _said(episode, *[program] * len(episode.turns))
            assert {*verify([(said, n) for n in range(1, len(said.turns) + 1)])} == scores
