"""The values of LINVIT: the closed form of a KL-regularised step, and optimistic estimates of Q as a table or as an ensemble of networks.

Estimates of a state are arrays of shape (3, count): an upper bound of Q, Q itself, and a lower bound, of every action.
"""

from __future__ import annotations

import copy
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from colbench_gym.files import Row
from colbench_gym.seeds import derive_seed
from sweetrl_agent.core.actions import Observation
from sweetrl_agent.core.trainable import Trainable

Array = NDArray[np.float64]
UPPER, MEAN, LOWER = 0, 1, 2


def regularised(q: Any, prior: Any, lam: float) -> tuple[Array, Array]:
    """The solution of max over pi of <Q, pi> - lambda KL(pi || p), and its value.

        pi(a) = p(a) exp(Q(a) / lambda) / Z,    V = lambda log Z,    Z = sum over a of p(a) exp(Q(a) / lambda)

    Its limits are exact: with lambda = 0, pi is p restricted to the best action and V is the largest Q where p > 0. With lambda = infinity,
    pi is p and V is the mean of Q under p.

    Args:
        q: Values of actions, shape (..., count).
        prior: p, of the same shape or one that broadcasts to it; each row sums to 1.
        lam: lambda, from 0 to infinity, in units of Q per nat.

    Returns:
        pi, shape (..., count), and V, shape (...,).

    Source: arXiv:2402.16181; the closed form is that of every KL-regularised step.
    """
    q, prior = np.broadcast_arrays(np.asarray(q, np.float64), np.asarray(prior, np.float64))
    if math.isinf(lam):
        return prior.copy(), (prior * q).sum(axis=-1)
    possible = np.where(prior > 0, q, -np.inf)  # an action without prior probability is never chosen, whatever its value
    best = possible.max(axis=-1, keepdims=True)
    weights = prior * ((possible == best) if lam == 0 else np.exp((possible - best) / lam))
    total = weights.sum(axis=-1, keepdims=True)
    value = best if lam == 0 else best + lam * np.log(total)
    return weights / total, value[..., 0]


@dataclass(frozen=True)
class MenuEpisode:
    """An episode over a menu of T turns.

    Attributes:
        states: `state_name` of the dialogue before each turn.
        observations: What the agent observed before each turn, shape (T, observation_size).
        priors: p before each turn, shape (T, count).
        actions: Its actions.
        rewards: Rewards of its turns.
    """

    states: list[str]
    observations: NDArray[np.float32]
    priors: Array
    actions: list[int]
    rewards: list[float]

    def to_row(self) -> Row:
        """As a row of a file, without loss."""
        return {
            "states": self.states, "observations": self.observations.tolist(), "priors": self.priors.tolist(),
            "actions": self.actions, "rewards": self.rewards,
        }  # fmt: skip

    @classmethod
    def from_row(cls, row: Row) -> MenuEpisode:
        """From a row of `to_row`."""
        arrays = np.array(row["observations"], np.float32), np.array(row["priors"], np.float64)
        return cls(row["states"], *arrays, row["actions"], row["rewards"])


@dataclass(frozen=True)
class Bounds:
    """What the estimates of Q have in common.

    Attributes:
        count: Number of actions.
        lam: lambda of the backup.
        discount: gamma.
        bonus: Weight of the optimism.
        low, high: Bounds of the return from any state.
    """

    count: int
    lam: float
    discount: float
    bonus: float
    low: float
    high: float


class Values(Protocol):
    """Estimates of Q that learn from episodes.

    Attributes:
        trainables: What they have in training, for checkpoints.
    """

    trainables: Sequence[Trainable]

    def estimates(self, observation: Observation, turn: int) -> Array:
        """Upper bound, Q and lower bound of every action in a state, shape (3, count).

        Args:
            observation: The observation.
            turn: The agent's turn, counted from 1.
        """
        ...

    def fit(self, episodes: Sequence[MenuEpisode], seed: int) -> Mapping[str, float]:
        """Learn from all episodes so far; returns metrics."""
        ...

    def resume(self, episodes: Sequence[MenuEpisode]) -> None:
        """Continue with restored `trainables` after these episodes."""
        ...

    def save(self, folder: Path) -> None:
        """Write them to a folder."""
        ...

    def load(self, folder: Path) -> None:
        """Read what `save` wrote."""
        ...


class Table:
    """Tabular estimates by backward induction on the empirical model, a state being the turn and the observation.

    For n(s, a) visits, with V of the rows of the next turn,

        upper(s, a) = min(mean(r + gamma V_upper(s')) + c / sqrt(n), high),    lower(s, a) = max(mean(r + gamma V_lower(s')) - c / sqrt(n), low)

    and Q(s, a) has no bonus. An action that was never tried has the upper bound `high` and otherwise `low`; so has every action of a state that was never
    visited, in which pi is hence the prior. With a bonus of 0 there is no optimism: the upper bound of what was never tried is `low`, too.
    """

    trainables: Sequence[Trainable] = ()

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self._rows: dict[tuple[int, bytes], Array] = {}

    def estimates(self, observation: Observation, turn: int) -> Array:
        """See `Values`."""
        return self._rows.get((turn, observation.tobytes()), self._unvisited())

    def fit(self, episodes: Sequence[MenuEpisode], seed: int = 0) -> Mapping[str, float]:
        """See `Values`; the seed is not used."""
        tried: dict[tuple[int, bytes], list[tuple[MenuEpisode, int]]] = defaultdict(list)
        for episode in episodes:
            for i, observation in enumerate(episode.observations):
                tried[i + 1, observation.tobytes()].append((episode, i))
        self._rows = {}
        for state in sorted(tried, reverse=True):  # the last turn first
            self._rows[state] = self._row(tried[state])
        return {"states": float(len(self._rows))}

    def resume(self, episodes: Sequence[MenuEpisode]) -> None:
        """See `Values`."""
        self.fit(episodes)

    def save(self, folder: Path) -> None:
        """See `Values`."""
        turns = np.array([turn for turn, _ in self._rows])
        observations = np.array([np.frombuffer(key, np.float32) for _, key in self._rows])
        with (folder / "agent.npz").open("wb") as file:
            np.savez(file, turns=turns, observations=observations, rows=np.array(list(self._rows.values())))

    def load(self, folder: Path) -> None:
        """See `Values`."""
        with np.load(folder / "agent.npz") as saved:
            columns = zip(saved["turns"], saved["observations"], saved["rows"], strict=True)
            self._rows = {(int(turn), observation.tobytes()): row for turn, observation, row in columns}

    def _unvisited(self) -> Array:
        bounds = self.bounds
        upper = bounds.high if bounds.bonus > 0 else bounds.low
        return np.repeat([[upper], [bounds.low], [bounds.low]], bounds.count, axis=1)

    def _row(self, tried: Iterable[tuple[MenuEpisode, int]]) -> Array:
        outcomes: dict[int, list[Array]] = defaultdict(list)
        for episode, i in tried:
            outcomes[episode.actions[i]].append(episode.rewards[i] + self.bounds.discount * self._following(episode, i))
        row = self._unvisited()
        for action, targets in outcomes.items():
            bonus = self.bounds.bonus / math.sqrt(len(targets))
            row[:, action] = np.mean(targets, axis=0) + [bonus, 0.0, -bonus]
        row[UPPER], row[LOWER] = np.minimum(row[UPPER], self.bounds.high), np.maximum(row[LOWER], self.bounds.low)
        return row

    def _following(self, episode: MenuEpisode, i: int) -> Array:
        """The three values of the state after turn i, shape (3,); 0 after the last."""
        if i + 1 == len(episode.actions):
            return np.zeros(3)
        following = self._rows[i + 2, episode.observations[i + 1].tobytes()]
        return regularised(following, episode.priors[i + 1], self.bounds.lam)[1]


class _Member(nn.Module):
    """A network plus a fixed random one, whose output data must correct: Osband et al., arXiv:1806.03335, randomized prior functions."""

    def __init__(self, size: int, count: int) -> None:
        super().__init__()
        self.learnt, self.fixed = (
            nn.Sequential(nn.Linear(size, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, count)) for _ in range(2)
        )
        self.fixed.requires_grad_(False)

    def forward(self, observations: Tensor) -> Tensor:
        """Outputs of all actions, shape (B, count)."""
        return self.learnt(observations) + self.fixed(observations)  # type: ignore[no-any-return]


class Ensemble:
    """Estimates by M networks of the observation, each fitted by KL-regularised temporal differences to a bootstrap of its own.

    Upper and lower bound are the mean plus and minus `bonus` standard deviations between members, clipped to [low, high]. Members bootstrap from their own
    targets, so that their disagreement about later states reaches earlier ones (Osband et al., arXiv:1602.04621).

    Args:
        bounds: See `Bounds`.
        observation_size: Length of an observation.
        members: M.
        learning_rate: Adam's.
        updates: Optimizer steps per `fit`.
        seed: Of the networks and of the bootstraps.
    """

    BATCH, POLYAK = 128, 0.05

    def __init__(
        self, bounds: Bounds, observation_size: int, members: int, learning_rate: float, updates: int, seed: int
    ) -> None:
        self.bounds, self.members, self.updates, self.seed = bounds, members, updates, seed
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.networks = nn.ModuleList(_Member(observation_size, bounds.count) for _ in range(members))
        learnt = [parameter for parameter in self.networks.parameters() if parameter.requires_grad]
        self._trained = Trainable("values", self.networks, torch.optim.Adam(learnt, lr=learning_rate))
        self._target = Trainable("target", copy.deepcopy(self.networks))
        self.trainables: Sequence[Trainable] = (self._trained, self._target)

    def estimates(self, observation: Observation, turn: int) -> Array:
        """See `Values`; the turn is not used: it should be part of the observation."""
        values = self._values(self.networks, torch.as_tensor(observation)[None]).double().numpy()[:, 0]
        mean, spread = values.mean(axis=0), self.bounds.bonus * values.std(axis=0)
        low, high = self.bounds.low, self.bounds.high
        return np.stack([np.clip(mean + spread, low, high), mean, np.clip(mean - spread, low, high)])

    def fit(self, episodes: Sequence[MenuEpisode], seed: int) -> Mapping[str, float]:
        """See `Values`."""
        data, rng, losses = self._flat(episodes), np.random.default_rng(seed), []
        for _ in range(self.updates):
            rows = rng.integers(0, len(data["rewards"]), self.BATCH)
            batch = {name: column[rows] for name, column in data.items()}
            losses.append(self._update(batch))
        return {"loss": float(np.mean(losses))}

    def resume(self, episodes: Sequence[MenuEpisode]) -> None:
        """See `Values`: the networks are the checkpoint's."""

    def save(self, folder: Path) -> None:
        """See `Values`."""
        torch.save(self.networks.state_dict(), folder / "agent.pt")

    def load(self, folder: Path) -> None:
        """See `Values`."""
        self.networks.load_state_dict(torch.load(folder / "agent.pt", weights_only=True))

    def _values(self, networks: nn.ModuleList, observations: Tensor) -> Tensor:
        """Q of all members in units of the return, shape (M, B, count), without gradient."""
        with torch.no_grad():
            return self._scaled(torch.stack([member(observations) for member in networks]))

    def _scaled(self, outputs: Tensor) -> Tensor:
        return self.bounds.low + (self.bounds.high - self.bounds.low) * (0.5 + outputs)

    def _flat(self, episodes: Sequence[MenuEpisode]) -> dict[str, NDArray[Any]]:
        """All transitions as columns. "weights" are how often each member has the episode in its bootstrap, shape (N, M)."""
        following = [[*range(1, len(episode.actions)), len(episode.actions) - 1] for episode in episodes]
        draws = [
            np.random.default_rng(derive_seed(self.seed, "bootstrap", i)).poisson(1.0, self.members)
            for i in range(len(episodes))
        ]
        return {
            "observations": np.concatenate([episode.observations for episode in episodes]),
            "actions": np.concatenate([episode.actions for episode in episodes]),
            "rewards": np.concatenate([episode.rewards for episode in episodes]),
            "following": np.concatenate(
                [episode.observations[rows] for episode, rows in zip(episodes, following, strict=True)]
            ),
            "priors": np.concatenate([episode.priors[rows] for episode, rows in zip(episodes, following, strict=True)]),
            "continues": np.concatenate([np.arange(len(episode.actions)) < len(episode.actions) - 1 for episode in episodes]),
            "weights": np.concatenate([np.tile(draw, (len(e.actions), 1)) for e, draw in zip(episodes, draws, strict=True)]),
        }

    def _update(self, batch: Mapping[str, NDArray[Any]]) -> float:
        later = self._values(self._target.module, torch.as_tensor(batch["following"])).double().numpy()  # type: ignore[arg-type]
        value = regularised(later, batch["priors"], self.bounds.lam)[1].clip(self.bounds.low, self.bounds.high)  # (M, B)
        targets = torch.as_tensor(batch["rewards"] + self.bounds.discount * batch["continues"] * value, dtype=torch.float32)
        observations, rows = torch.as_tensor(batch["observations"]), torch.arange(len(batch["actions"]))
        outputs = torch.stack([member(observations) for member in self.networks])
        taken = self._scaled(outputs)[:, rows, torch.as_tensor(batch["actions"])]
        errors = (taken - targets) / (self.bounds.high - self.bounds.low)
        loss = (torch.as_tensor(batch["weights"].T) * errors.square()).mean()
        loss.backward()  # type: ignore[no-untyped-call]
        self._trained.step(max_norm=10.0)
        self._target.follow(self.networks, self.POLYAK)
        return loss.item()
