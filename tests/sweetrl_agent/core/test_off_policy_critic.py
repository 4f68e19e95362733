"""A proof of the contracts, with ArCHer's critic: on replay of another policy, Q fits Bellman's solution of the current policy on a chain."""

from __future__ import annotations

import copy

import numpy as np
import torch

from sweetrl_agent.core.batch import Batch, Credit
from sweetrl_agent.core.policy import Utterance
from sweetrl_agent.core.replay import Replay
from sweetrl_agent.core.trainable import Trainable
from sweetrl_agent.trainers.on_policy import OnPolicyAlgorithm

from .toys import chain_episode

END, GAMMA, RIGHT = 3, 0.9, 0.7  # the current policy goes right with the last probability, the one of the replay with 0.4


class Archer(OnPolicyAlgorithm):
    """Q(o, a) by temporal differences to a target network at the policy's own fresh action."""

    name = "archer"

    def trainables(self, run):
        torch.manual_seed(0)
        self.critic = torch.nn.Embedding(2 * END, 1)
        self.target = Trainable("target", copy.deepcopy(self.critic))
        self.trained = Trainable("critic", self.critic, torch.optim.Adam(self.critic.parameters(), lr=0.02))
        return self.trained, self.target

    def update_critic(self, batch):
        for step in range(100):
            drawn = batch.replay.sample(64, seed=1000 * batch.iteration + step)
            nexts = [t.following for t in drawn if t.following]
            following = torch.zeros(len(drawn))
            following[[t.following is not None for t in drawn]] = self.q(
                self.target.module, nexts, batch.sample(nexts, range(len(nexts)))
            )
            wanted = torch.tensor([t.action.reward for t in drawn]) + GAMMA * following.detach()
            loss = (self.q(self.critic, [t.observation for t in drawn], [t.action for t in drawn]) - wanted).square().mean()
            loss.backward()
            self.trained.step()
            self.target.follow(self.critic, 0.1)
        return {"critic_loss": float(loss.detach())}

    def q(self, critic, states, actions):
        rows = [2 * int(state[-1]["content"]) + (action.text == "right") for state, action in zip(states, actions, strict=True)]
        return critic(torch.tensor(rows, dtype=torch.long))[:, 0]

    def credit(self, batch):
        states = [[episode.prefix(turn) for turn in range(1, len(episode.turns) + 1)] for episode in batch.episodes]
        return Credit(
            [
                self.q(self.critic, *of_episode).tolist()
                for of_episode in zip(states, [e.turns for e in batch.episodes], strict=True)
            ]
        )


def test_a_critic_on_replay_fits_bellmans_solution():
    rng, policy = np.random.default_rng(0), np.random.default_rng(1)
    replay, algorithm = Replay(400), Archer()
    replay.add(chain_episode(i, END, 0.4, rng) for i in range(100))
    algorithm.trainables(None)

    def sample(dialogues, seeds):
        return [Utterance("right" if policy.random() < RIGHT else "stay") for _ in dialogues]

    for iteration in range(8):
        algorithm.update_critic(Batch([], replay=replay, sample=sample, iteration=iteration))
    values = np.linalg.solve(
        np.eye(END) - GAMMA * ((1 - RIGHT) * np.eye(END) + RIGHT * np.eye(END, k=1)), RIGHT * np.eye(END)[-1]
    )
    exact = [[GAMMA * values[i], GAMMA * values[i + 1] if i + 1 < END else 1.0] for i in range(END)]
    fitted = algorithm.critic.weight.detach().reshape(END, 2).numpy()
    assert np.abs(fitted - exact).max() < 0.03
