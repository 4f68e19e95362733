"""PPO and DQN of Stable-Baselines3 over discrete dialogue actions: agents that are not language models.

    1. Observations encode the dialogue as an array, actions are a menu of utterances (`core.actions`).
    2. Stable-Baselines3's `learn`, unchanged, on the training tasks.

Their menu of actions contains knowledge of the environment that a language model does not get. They therefore measure the value of choosing well,
separately from writing well. Training takes minutes and starts from scratch after a kill.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sandboxes.extras import pip_install
from sweetrl_agent.core.algorithm import Algorithm
from sweetrl_agent.core.callback import Callbacks
from sweetrl_agent.core.run import Run
from sweetrl_agent.core.settings import setting
from sweetrl_agent.core.work import Lengths, Work, episodes
from sweetrl_agent.data.files import SECONDS
from sweetrl_agent.policies.discrete import DiscretePolicy, dqn_choice, ppo_choice, uniform
from sweetrl_agent.trainers.running import StageClock

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm
    from stable_baselines3.common.vec_env import VecEnv

NUM_ENVS = 8
#: Steps of each environment between two updates of PPO.
ROLLOUT = 64
#: Steps per row of the learning curve.
STEPS_PER_ROW = 1000
_ADDRESS = re.compile(rb" at 0x[0-9a-f]+")
NETWORK = {"net_arch": [128, 128]}


@dataclass(frozen=True)
class DiscreteConfig:
    """Settings of PPO and DQN."""

    steps: int = setting(20_000, "Training steps, one agent turn each.", least=1)
    learning_rate: float = setting(1e-3, "Adam's.")


class RandomActions(Algorithm):
    """Uniformly random discrete actions."""

    name, title = "random_actions", "Random actions"
    requires, is_discrete, policies = frozenset({"discrete_actions"}), True, {}
    shared: tuple[str, ...] = ()

    @property
    def stages(self) -> Mapping[str, Callable[[Run], None]]:
        """No stages: nothing is trained."""
        return {}

    def load_initial(self, run: Run) -> DiscretePolicy:
        """The uniformly random agent: there is no language model, and training starts from nothing."""
        actions = run.record.actions(run.config)
        return DiscretePolicy(actions, uniform(actions.count))

    def load(self, run: Run) -> DiscretePolicy:
        """The uniformly random agent."""
        return self.load_initial(run)


class PPO(RandomActions):
    """PPO of Stable-Baselines3."""

    name, title, Config = "ppo", "PPO, discrete actions", DiscreteConfig
    packages = (("stable_baselines3", "[sb3]"),)

    @property
    def stages(self) -> Mapping[str, Callable[[Run], None]]:
        """One stage, training."""
        return {self.name: self.train}

    def work(self, run: Run, lengths: Lengths) -> Mapping[str, Work]:
        """See `Algorithm`; its network is small beside the environment's steps."""
        played = episodes(self.config.steps / lengths.turns, lengths, NUM_ENVS, has_model=False)
        return {self.name: Work(f"{self.config.steps:,} steps") + played}

    def train(self, run: Run) -> None:
        """Train on the training tasks; writes name/agent.zip, and the learning curve to metrics.jsonl."""
        _train(run, self.name, self.config)

    def load(self, run: Run) -> DiscretePolicy:
        """The trained agent."""
        choice = {"ppo": ppo_choice, "dqn": dqn_choice}[self.name](_path(run, self.name))
        return DiscretePolicy(run.record.actions(run.config), choice)


class DQN(PPO):
    """DQN of Stable-Baselines3."""

    name, title = "dqn", "DQN, discrete actions"


def refuse_without_sb3() -> None:
    """Refuse to train where Stable-Baselines3 is missing; says how to install it."""
    from colbench_gym.errors import ColBenchError

    try:
        import stable_baselines3  # noqa: F401
    except ImportError:
        raise ColBenchError(f"Agents of discrete actions need Stable-Baselines3: `{pip_install('[sb3]')}`.") from None


def _train(run: Run, name: str, config: DiscreteConfig) -> None:
    refuse_without_sb3()
    curve = _Curve(name, run.callbacks, config.steps)
    with run.record.action_environments(run.config, run.tasks, NUM_ENVS) as environments:
        model = MAKERS[name](run, vec_env(environments), config.learning_rate)
        model.learn(config.steps, callback=curve.callback())
    curve.add_row(model.num_timesteps)
    path = _path(run, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    _save(model, path)
    run.add_metrics(name, curve.rows)


def _save(model: Any, path: Path) -> None:
    """Save an agent without times and addresses: equal trainings write equal files."""
    model.start_time, whole = 0, io.BytesIO()
    model.save(whole, exclude=["ep_info_buffer", "ep_success_buffer"])
    with zipfile.ZipFile(whole) as archive, zipfile.ZipFile(path, "w") as written:
        for name in archive.namelist():
            content = archive.read(name)
            written.writestr(zipfile.ZipInfo(name), _ADDRESS.sub(b"", content) if name == "data" else content)


def make_ppo(
    run: Run, env: VecEnv, learning_rate: float, policy: str | type[Any] = "MlpPolicy", seed: int | None = None
) -> Any:
    """PPO of Stable-Baselines3 with our settings.

    Args:
        run: The run.
        env: Its environments.
        learning_rate: Adam's.
        policy: Class of its policy.
        seed: Seed of everything that it draws; None for the run's.
    """
    from stable_baselines3 import PPO

    return PPO(
        policy, env, seed=run.seed if seed is None else seed, device="cpu", n_steps=ROLLOUT, batch_size=128, n_epochs=8, gamma=run.record.actions(run.config).discount, gae_lambda=0.9, ent_coef=0.005,
        learning_rate=learning_rate, policy_kwargs=NETWORK,
    )  # fmt: skip


def _dqn(run: Run, env: VecEnv, learning_rate: float) -> BaseAlgorithm:
    from stable_baselines3 import DQN

    return DQN(
        "MlpPolicy", env, seed=run.seed, device="cpu", batch_size=128, gamma=run.record.actions(run.config).discount, buffer_size=50_000, learning_starts=500,
        train_freq=1, gradient_steps=2, target_update_interval=500, exploration_fraction=0.4, exploration_final_eps=0.05,
        learning_rate=learning_rate, policy_kwargs=NETWORK,
    )  # fmt: skip


MAKERS: dict[str, Callable[[Run, Any, float], Any]] = {"ppo": make_ppo, "dqn": _dqn}


def vec_env(environments: Any) -> VecEnv:
    """Environments as Stable-Baselines3 takes them, stepped one after the other, with the return and length of finished episodes in their infos."""
    from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor

    return VecMonitor(DummyVecEnv([partial(_same, env) for env in environments]))


def _same(env: Any) -> Any:
    return env


def _path(run: Run, name: str) -> Path:
    return run.path(f"{name}/agent.zip")


class _Curve:
    """Learning curve: mean return and length of finished episodes, per `STEPS_PER_ROW` steps."""

    def __init__(self, name: str, callbacks: Callbacks, total: int) -> None:
        self.name, self._callbacks, self._total = name, callbacks, total
        self.rows: list[dict[str, Any]] = []
        self._ended: list[dict[str, float]] = []
        self._episodes = 0
        self._clock = StageClock([])

    def callback(self) -> Any:
        """The callback that Stable-Baselines3 calls after every step."""
        from stable_baselines3.common.callbacks import ConvertCallback

        return ConvertCallback(self._note)

    def _note(self, values: dict[str, Any], _: dict[str, Any]) -> bool:
        self._ended += [info["episode"] for info in values["infos"] if "episode" in info]
        steps = values["self"].num_timesteps
        continues = self._callbacks.tell("on_step", self.name, steps, self._total)
        if steps >= STEPS_PER_ROW * (len(self.rows) + 1):
            continues &= self.add_row(steps)
        return continues

    def add_row(self, steps: int) -> bool:
        """Add a row for the episodes that ended since the last row, if any; returns whether training continues."""
        if self._ended:
            self._episodes += len(self._ended)
            row = {
                "stage": self.name,
                "step": steps,
                "reward": float(sum(e["r"] for e in self._ended) / len(self._ended)),
                "turns": float(sum(e["l"] for e in self._ended) / len(self._ended)),
                "episodes": self._episodes,
                "environment_turns": steps,
                SECONDS: self._clock.seconds(),
            }
            self.rows.append(row)
            self._ended = []
            return self._callbacks.tell("on_log", self.name, steps, row)
        return True
