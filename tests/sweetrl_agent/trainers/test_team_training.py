"""The loop with all that it may own: two policies in training, a critic with a target network, replay, and a resume that changes nothing."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace

import gymnasium as gym
import pytest
import torch

from colbench_gym.files import read_rows
from sweetrl_agent.core.batch import Credit
from sweetrl_agent.core.episode import EpisodeKey, Turn
from sweetrl_agent.core.trainable import Trainable
from sweetrl_agent.evaluation import comparison_job
from sweetrl_agent.rollouts.play import play
from sweetrl_agent.trainers.on_policy import OnPolicyAlgorithm, OnPolicyConfig
from sweetrl_agent.trainers.run import Run
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
    def make(name):
        settings = {
            "output": tmp_path / name, "env": f"{__name__}:Scored-v0", "tasks": "seeds:0-3", "test_tasks": "seeds:10-11", "model": tiny_model_folder,
            "dtype": "float32", "sft_dialogues": 0, "system_prompt": "", "max_new_tokens": 4, "threads": 1, "generation_batch": 4,
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
    weights = [[(run.path(folder) / "model.safetensors").read_bytes() for folder in Team().folders] for run in (whole, cut)]
    assert weights[0] == weights[1] and weights[0][0] != weights[0][1]
    assert sorted(path.name for path in whole.path("team").iterdir()) == ["guesser", "scout"]
    policies = Team().load(whole)
    assert isinstance(policies, Mapping) and [*policies] == ["scout", "guesser"]
    ((episode,),) = play(policies, whole.environment(whole.tasks, 1), [EpisodeKey("0")], 0, "x")
    assert episode.agents == ("scout", "guesser")
