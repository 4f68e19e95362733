"""Stable-Baselines3's PPO over discrete actions that takes a teacher's proposals, as a feature or as a prior of its policy.

    feature   pi(a | o, h): the proposal h = argmax p(u | o) is appended to the observation as a one-hot vector
    prior     pi(a | o) proportional to exp(f(o)_a + kappa log p(a | o)): f is the student's network, which does not see the proposal

PPO itself is unchanged. With kappa 0 the second policy is PPO's own, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.torch_layers import MlpExtractor
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper
from torch import Tensor, nn

from sweetrl_agent.core.actions import DialogueActions
from sweetrl_agent.core.episode import Messages
from sweetrl_agent.trainers.action_feedback import FEATURE, PRIOR, Played, advice_of
from sweetrl_agent.trainers.menu_prior import Proposer


class AdvisedEnvironments(VecEnvWrapper):
    """Appends the teacher's advice to every observation.

    Args:
        venv: Environments whose infos have the "messages" of their dialogues.
        teacher: The teacher.
        form: `FEATURE` or `PRIOR`.

    Attributes:
        messages: The dialogues now.
        log_probs: The teacher's log-probabilities in them, shape (N, count).
    """

    def __init__(self, venv: VecEnv, teacher: Proposer, form: str) -> None:
        box, count = venv.observation_space, venv.action_space.n  # type: ignore[attr-defined]
        self.teacher, self.form = teacher, form
        low, high = np.full(count, -np.inf if form == PRIOR else 0.0), np.full(count, 0.0 if form == PRIOR else 1.0)
        bounds = (
            np.concatenate([of_box, of_advice]).astype(np.float32) for of_box, of_advice in ((box.low, low), (box.high, high))
        )  # type: ignore[attr-defined]
        super().__init__(venv, spaces.Box(*bounds))
        self.messages: list[Messages] = []
        self.log_probs = np.empty((0, count))

    def reset(self) -> NDArray[np.float32]:  # type: ignore[override]
        """Start an episode in every environment."""
        observations = self.venv.reset()
        return self._advised(observations, [info["messages"] for info in self.venv.unwrapped.reset_infos])

    def step_wait(self) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:  # type: ignore[override]
        """Wait for the steps. The end of a dialogue has no next turn and hence no proposal: its advice is 0, where PPO values an episode that was cut."""
        observations, rewards, dones, infos = self.venv.step_wait()
        resets = self.venv.unwrapped.reset_infos
        for info in (info for info in infos if "terminal_observation" in info):
            info["terminal_observation"] = np.pad(info["terminal_observation"], (0, self.log_probs.shape[1]))
        messages = [(resets[i] if done else infos[i])["messages"] for i, done in enumerate(dones)]
        return self._advised(observations, messages), rewards, dones, infos

    def _advised(self, observations: Any, messages: list[Messages]) -> NDArray[np.float32]:
        self.messages, self.log_probs = messages, self.teacher.log_probs(messages)
        advised: NDArray[np.float32] = np.concatenate([observations, advice_of(self.log_probs, self.form)], axis=1)
        return advised


class _StudentNetworks(nn.Module):
    """The student's networks, of the observation without the advice; the advice is passed on to `_PriorHead`."""

    def __init__(self, networks: MlpExtractor, count: int) -> None:
        super().__init__()
        self.networks, self.count = networks, count
        self.latent_dim_pi, self.latent_dim_vf = networks.latent_dim_pi, networks.latent_dim_vf

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        return self.forward_actor(features), self.forward_critic(features)

    def forward_actor(self, features: Tensor) -> Tensor:
        hidden: Tensor = self.networks.forward_actor(features[:, : -self.count].contiguous())
        return torch.cat([hidden, features[:, -self.count :]], dim=1)

    def forward_critic(self, features: Tensor) -> Tensor:
        values: Tensor = self.networks.forward_critic(features[:, : -self.count].contiguous())
        return values


class _PriorHead(nn.Module):
    """Logits f(o)_a + kappa log p(a | o)."""

    kappa: Tensor

    def __init__(self, linear: nn.Module, count: int) -> None:
        super().__init__()
        self.linear, self.count = linear, count
        self.register_buffer("kappa", torch.zeros(()))

    def forward(self, latent: Tensor) -> Tensor:
        logits: Tensor = self.linear(latent[:, : -self.count].contiguous())
        return logits + self.kappa * latent[:, -self.count :]


class PriorPolicy(ActorCriticPolicy):
    """Stable-Baselines3's policy with a prior over its actions in the last entries of the observation."""

    def _build_mlp_extractor(self) -> None:
        count = int(self.action_space.n)  # type: ignore[attr-defined]
        networks = MlpExtractor(self.features_dim - count, self.net_arch, self.activation_fn, self.device)
        self.mlp_extractor = _StudentNetworks(networks, count)  # type: ignore[assignment]

    def _build(self, lr_schedule: Any) -> None:
        super()._build(lr_schedule)
        self.action_net = _PriorHead(self.action_net, int(self.action_space.n))  # type: ignore[attr-defined]

    def set_prior_weight(self, weight: float) -> None:
        """Set kappa."""
        self.action_net.kappa.fill_(weight)  # type: ignore[operator, union-attr]

    @property
    def prior_weight(self) -> float:
        """Kappa."""
        return float(self.action_net.kappa)  # type: ignore[arg-type]


POLICIES: dict[str, type[ActorCriticPolicy]] = {FEATURE: ActorCriticPolicy, PRIOR: PriorPolicy}


def new_policy(actions: DialogueActions, form: str, networks: dict[str, Any]) -> ActorCriticPolicy:
    """A student that is to be given its weights.

    Args:
        actions: The menu.
        form: `FEATURE` or `PRIOR`.
        networks: Arguments of its class.
    """
    observation = spaces.Box(-np.inf, np.inf, (actions.observation_size + actions.count,), np.float32)
    return POLICIES[form](observation, spaces.Discrete(actions.count), lambda _: 0.0, **networks)


class Observer(BaseCallback):
    """Notes what the student plays, with the advantages that PPO computes for its own update, and anneals the prior between rollouts.

    Args:
        environments: The environments.
        prior_weight: kappa, from the student's steps in this round; None for a student without a prior.
        continues: Whether training goes on after that number of steps in this round.
    """

    def __init__(
        self, environments: AdvisedEnvironments, prior_weight: Callable[[int], float] | None, continues: Callable[[int], bool]
    ) -> None:
        super().__init__()
        self.environments, self.prior_weight, self.continues = environments, prior_weight, continues
        self.played = Played()
        self._visited: list[tuple[Sequence[Messages], NDArray[np.float64]]] = []

    def _on_rollout_start(self) -> None:
        self._visited = [(self.environments.messages, self.environments.log_probs)]
        if self.prior_weight is not None:
            self.model.policy.set_prior_weight(self.prior_weight(self.num_timesteps))  # type: ignore[operator]

    def _on_step(self) -> bool:
        self._visited.append((self.environments.messages, self.environments.log_probs))
        for info in self.locals["infos"]:
            if "episode" in info:
                self.played.returns.append(float(info["episode"]["r"]))
                self.played.turns.append(float(info["episode"]["l"]))
        return self.continues(self.num_timesteps)

    def _on_rollout_end(self) -> None:
        buffer = self.model.rollout_buffer  # type: ignore[attr-defined]
        for t, (messages, log_probs) in enumerate(self._visited[:-1]):
            for i, dialogue in enumerate(messages):
                self.played.steps.append((dialogue, log_probs[i], int(buffer.actions[t, i, 0]), float(buffer.advantages[t, i])))
