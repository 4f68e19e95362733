"""How many episodes LINVIT needs as its prior gets better: a dial from the uniform prior to the demonstrator.

    PYTHONPATH=. python benchmarks/prior_dial.py --seeds 20 --output runs/prior_dial.json

The task is a combination lock: a chain of places with a few actions each, of which one leads on and all others end the episode with a small reward. The
demonstrator knows the right actions. The prior is the mixture `weight` * demonstrator + (1 - `weight`) * uniform. Counted are the episodes until the
agent, which samples from pi of Q itself, has an exact success rate of `--target`. No model is read: the dial is exact.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colbench_gym.files import write_json
from colbench_gym.seeds import derive_seed
from sweetrl_agent.algorithms.linvit import Linvit, LinvitConfig
from sweetrl_agent.algorithms.linvit_values import MEAN, Bounds, MenuEpisode, Table, regularised
from sweetrl_agent.core.episode import Messages

Probabilities = NDArray[np.float64]


class Lock:
    """A combination lock as an environment with discrete actions: `length` places, `count` actions, of which one leads on.

    Args:
        length: Number of right actions to the end, which pays 1.
        count: Number of actions.
        consolation: Reward of any wrong action, which ends the episode.
        seed: Of the combination.
    """

    def __init__(self, length: int = 6, count: int = 4, consolation: float = 0.1, seed: int = 0) -> None:
        self.length, self.count, self.consolation = length, count, consolation
        self.combination = np.random.default_rng(seed).integers(count, size=length)
        self.place = 0

    @property
    def messages(self) -> list[dict[str, str]]:
        """The place as a dialogue of one message."""
        return [{"role": "user", "content": str(self.place)}]

    def observe(self) -> NDArray[np.float32]:
        """The place, one-hot, shape (length,)."""
        return np.eye(self.length, dtype=np.float32)[min(self.place, self.length - 1)]

    def reset(self, *, seed: int | None = None) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Start at the first place."""
        self.place = 0
        return self.observe(), {}

    def step(self, action: np.int64) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Try an action."""
        if action != self.combination[self.place]:
            return self.observe(), self.consolation, True, False, {}
        self.place += 1
        is_open = self.place == self.length
        return self.observe(), float(is_open), is_open, False, {}


def mixture(lock: Lock, weight: float) -> Any:
    """The dial: the prior after a dialogue, from uniform (0) to the demonstrator's (1)."""

    def prior(messages: Messages) -> Probabilities:
        demonstrated = np.eye(lock.count)[lock.combination[int(messages[-1]["content"])]]
        return weight * demonstrated + (1 - weight) / lock.count

    return prior


def success(lock: Lock, prior: Any, values: Table, lam: float) -> float:
    """Exact probability that the agent opens the lock."""
    opened = 1.0
    for place in range(lock.length):
        lock.place = place
        estimates = values.estimates(lock.observe(), place + 1)[MEAN]
        opened *= regularised(estimates, prior(lock.messages), lam)[0][lock.combination[place]]
    return float(opened)


def episodes_needed(lock: Lock, weight: float, seed: int, config: LinvitConfig, target: float = 0.9) -> int:
    """Episodes until the agent's success is at the target; one more than `iterations` allow where it never is.

    Args:
        lock: The lock.
        weight: Weight of the demonstrator in the prior.
        seed: Of the episodes.
        config: Settings of LINVIT: lambda, bonus, `iterations` and `episodes` of each.
        target: The success.
    """
    algorithm, prior = Linvit(config), mixture(lock, weight)
    values = Table(Bounds(lock.count, config.lam, 1.0, config.bonus, config.low, config.high))
    data: list[MenuEpisode] = []
    if success(lock, prior, values, config.lam) >= target:
        return 0
    for step in range(config.iterations):
        algorithm.iterate(lock, prior, values, data, derive_seed(seed, step))
        if success(lock, prior, values, config.lam) >= target:
            return len(data)
    return config.iterations * config.episodes + 1


def measure(
    weights: Sequence[float], seeds: int, config: LinvitConfig, length: int, count: int, target: float
) -> list[dict[str, Any]]:
    """Mean and standard error of the episodes needed, by weight; every seed has a lock of its own, the same for all weights."""
    rows = []
    for weight in weights:
        needed = np.array(
            [episodes_needed(Lock(length, count, seed=seed), weight, seed, config, target) for seed in range(seeds)]
        )
        rows.append(
            {"weight": weight, "episodes": float(needed.mean()), "standard_error": float(needed.std(ddof=1) / np.sqrt(seeds)), "seeds": seeds,
             "median": float(np.median(needed)), "failed": int((needed > config.iterations * config.episodes).sum())}
        )  # fmt: skip
    return rows


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", type=float, nargs="+", default=[0.0, 0.25, 0.5, 0.75, 0.9])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--length", type=int, default=6)
    parser.add_argument("--count", type=int, default=4)
    parser.add_argument("--lam", type=float, default=0.05)
    parser.add_argument("--bonus", type=float, default=0.5)
    parser.add_argument("--most", type=int, default=2000, help="episodes after which a seed has failed")
    parser.add_argument("--target", type=float, default=0.9)
    parser.add_argument("--output", type=Path, required=True)
    given = parser.parse_args()
    config = LinvitConfig(values="table", lam=given.lam, bonus=given.bonus, iterations=given.most, episodes=1)
    rows = measure(given.weights, given.seeds, config, given.length, given.count, given.target)
    settings = {name: value for name, value in vars(given).items() if name not in ("output", "weights")}
    write_json(given.output, {"settings": settings, "rows": rows})
    for row in rows:
        print(
            f"weight {row['weight']:.2f}: {row['episodes']:7.1f} ± {row['standard_error']:.1f} episodes, median {row['median']:.0f}, failed {row['failed']}"
        )


if __name__ == "__main__":
    main()
