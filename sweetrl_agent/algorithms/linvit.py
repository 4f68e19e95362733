"""LINVIT: optimistic value iteration over a menu of utterances, regularised towards what a language model would say.

1. Prior. p(a | s) is the likelihood of action a's text after the dialogue under the initial policy: the softmax over the allowed actions of the mean (or the
   sum) of the text's log-probabilities. It may be mixed with the uniform distribution, which is the dial of the prior's quality.
2. Objective. In every state, max over pi of <Q, pi> - lambda KL(pi || p), so that pi(a | s) = p(a | s) exp(Q(s, a) / lambda) / Z(s) and
   V(s) = lambda log Z(s), with Z(s) = sum over a of p(a | s) exp(Q(s, a) / lambda) (`linvit_values.regularised`).
3. Backup. Q(s, a) = r + gamma E V(s'), with an upper and a lower bound, which add and subtract a bonus for what was rarely tried.
4. Exploration. Play episodes with pi of the upper bound, add them to all earlier ones, fit Q again, repeat. The gap V_upper - V_lower at the first states says
   how much is still unknown.
5. The agent samples from pi of Q itself. With lambda to infinity it is the language model over the menu; with lambda to 0 it is optimistic value iteration.

Source: arXiv:2402.16181, the algorithm LINVIT, of which no code is published; 2 is its objective and exact. The paper's bonus of theory was not available:
the bonuses c / sqrt(n) and standard deviations of an ensemble are ours, and so are all settings but lambda.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from colbench_gym.files import Row, read_rows, write_rows
from colbench_gym.seeds import derive_seed
from sweetrl_agent.algorithms.linvit_values import (
    LOWER,
    MEAN,
    UPPER,
    Array,
    Bounds,
    Ensemble,
    MenuEpisode,
    Table,
    Values,
    regularised,
)
from sweetrl_agent.core.algorithm import START, Algorithm
from sweetrl_agent.core.run import Run
from sweetrl_agent.core.settings import require, setting
from sweetrl_agent.core.work import Lengths, Work, episodes
from sweetrl_agent.data.files import SECONDS
from sweetrl_agent.policies.discrete import MenuPolicy
from sweetrl_agent.trainers.checkpoint import Checkpoint
from sweetrl_agent.trainers.menu_prior import MenuPrior, Probabilities, Scorer, state_name
from sweetrl_agent.trainers.periodic_evaluation import repeat
from sweetrl_agent.trainers.running import SCORED_TOKENS, StageClock

VALUES, EXPLORE = ("ensemble", "table"), ("optimistic", "gap")
#: Costs, accumulated in the metrics from the first iteration on.
COST_KEYS = ("episodes", "environment_turns", SCORED_TOKENS)


@dataclass(frozen=True)
class LinvitConfig:
    """Settings of LINVIT."""

    values: str = setting(
        "ensemble", "How Q is estimated: ensemble (networks of the observation) or table (of turn and observation)."
    )
    lam: float = setting(0.1, "lambda, the price of a nat of divergence from the prior; 0.1 in SLINVIT's code.")
    bonus: float = setting(0.5, "Optimism: c of the table's bonus c / sqrt(n), or standard deviations of the ensemble.")
    explore: str = setting(
        "optimistic",
        "How training episodes are played: optimistic (pi of the upper bound), or gap: at one random turn of each episode, the allowed action whose bounds "
        "are farthest apart.",
    )
    prior_weight: float = setting(
        1.0, "Weight of the language model in the prior; the rest is uniform, and with 0 no model is read.", most=1
    )
    prior_temperature: float = setting(1.0, "Temperature of the prior: scores of texts are divided by it.", above=0)
    normalised: bool = setting(True, "A text's score is the mean of its tokens' log-probabilities; false for their sum.")
    iterations: int = setting(50, "Iterations: episodes, then a fit to all episodes so far.", least=1)
    episodes: int = setting(20, "Episodes per iteration; the defaults play 1,000 in all.", least=1)
    low: float = setting(0.0, "Least return of any state, which bounds the estimates.", least=None)
    high: float = setting(1.0, "Largest return of any state; untried actions have it as upper bound.", least=None)
    members: int = setting(5, "Networks of the ensemble.", least=1)
    updates: int = setting(200, "Optimizer steps of the ensemble per iteration.", least=1)
    learning_rate: float = setting(1e-3, "Adam's, of the ensemble.")

    def __post_init__(self) -> None:
        """Refuse unknown kinds of values and exploration, and empty bounds."""
        require("values", self.values, VALUES)
        require("explore", self.explore, EXPLORE)
        if self.low >= self.high:
            raise ValueError(f"`low` must be below `high`, got {self.low} and {self.high}.")


class Linvit(Algorithm):
    """LINVIT; see the module's docstring."""

    name, title, Config, shared = "linvit", "LINVIT, discrete actions", LinvitConfig, START
    requires, is_discrete, policies = frozenset({"discrete_actions"}), True, {}
    engines = ("transformers", "vllm")

    def work(self, run: Run, lengths: Lengths) -> Mapping[str, Work]:
        """See `Algorithm`; its networks are small beside the prior, which reads the menu's texts in every state."""
        count = self.config.iterations * self.config.episodes
        played = episodes(count, lengths, 1, has_model=False)
        menu = run.record.actions(run.config).count if self.config.prior_weight > 0 else 0
        states, tokens = count * lengths.turns, lengths.prefix + menu * lengths.agent
        read = Work(reads=states if menu else 0.0, read=states * tokens if menu else 0.0)
        return {self.name: Work(f"{count:,} episodes in {self.config.iterations} iterations") + played + read}

    # ---- what it consists of -------------------------------------------------------------------------------------------

    def prior(self, run: Run) -> MenuPrior:
        """Step 1."""
        config, model = self.config, run.config.model
        start, scorer = run.initial_model, None
        if config.prior_weight > 0:
            scorer = Scorer.load(start, start, model, config.normalised)
        return MenuPrior(run.record.actions(run.config), scorer, config.prior_temperature, config.prior_weight)

    def values(self, run: Run) -> Values:
        """The estimates of step 3, before training."""
        config, actions = self.config, run.record.actions(run.config)
        bounds = Bounds(actions.count, config.lam, actions.discount, config.bonus, config.low, config.high)
        if config.values == "table":
            return Table(bounds)
        seed = derive_seed(run.seed, self.name, "networks")
        return Ensemble(bounds, actions.observation_size, config.members, config.learning_rate, config.updates, seed)

    def play(self, env: Any, prior: Callable[[Any], Probabilities], values: Values, seed: int, turns: int) -> MenuEpisode:
        """Step 4: an episode of a training task that the seed draws.

        Args:
            env: An environment with discrete actions and `messages`.
            prior: p.
            values: The estimates so far.
            seed: Of the episode.
            turns: Turns of the longest episode so far, among which `explore` "gap" draws its turn.
        """
        rng, is_over = np.random.default_rng(seed), False
        drawn = int(rng.integers(1, turns + 1)) if self.config.explore == "gap" else 0
        observation, _ = env.reset(seed=seed % 2**31)
        states, observations, priors, actions, rewards = [], [], [], [], []  # type: ignore[var-annotated]
        while not is_over:
            states.append(state_name(env.messages))
            observations.append(observation)
            priors.append(prior(env.messages))
            estimates = values.estimates(observation, len(states))
            probabilities = regularised(estimates[UPPER], priors[-1], self.config.lam)[0]
            if len(states) == drawn:
                gaps = np.where(priors[-1] > 0, estimates[UPPER] - estimates[LOWER], -np.inf)
                probabilities = (gaps == gaps.max()) / (gaps == gaps.max()).sum()
            actions.append(int(rng.choice(len(probabilities), p=probabilities)))
            observation, reward, terminated, truncated, _ = env.step(np.int64(actions[-1]))
            rewards.append(float(reward))
            is_over = terminated or truncated
        return MenuEpisode(states, np.stack(observations), np.stack(priors), actions, rewards)

    # ---- training --------------------------------------------------------------------------------------------------------

    def train(self, run: Run) -> None:
        """Train on the training tasks; resumes after the last complete iteration."""
        prior, values = self.prior(run), self.values(run)
        checkpoint = Checkpoint(run.path(f"{self.name}/checkpoint.pt"), values.trainables)
        metrics = checkpoint.load()
        data = [
            MenuEpisode.from_row(row) for step in range(1, len(metrics) + 1) for row in read_rows(_file(run, self.name, step))
        ]
        self.resume(data, prior, values)
        clock, continues = StageClock(metrics), repeat(run, self.name, metrics)
        with run.record.action_environments(run.config, run.tasks, 1) as (env,):
            for step in range(len(metrics) + 1, self.config.iterations + 1) if continues else ():
                played, fitted = self.iterate(env, prior, values, data, derive_seed(run.seed, self.name, step))
                costs = self.costs(metrics, played, prior)
                row = {"stage": self.name, "step": step, **self.measured(played, values), **fitted, **costs}
                metrics.append({**row, SECONDS: clock.seconds()})
                write_rows(_file(run, self.name, step), (episode.to_row() for episode in played))
                checkpoint.save(metrics)
                if not run.callbacks.tell("on_log", self.name, step, row):
                    break
        run.add_metrics(self.name, metrics)
        values.save(run.path(self.name))
        checkpoint.remove()  # before the replay, which a resumed run reads as far as the checkpoint says
        shutil.rmtree(run.path(f"{self.name}/replay"))

    def resume(self, data: Sequence[MenuEpisode], prior: MenuPrior, values: Values) -> None:
        """Continue after these episodes: their priors are known, and tabular values are computed again."""
        for episode in data:
            for name, probabilities in zip(episode.states, episode.priors, strict=True):
                prior.remember(name, probabilities)
        if data:
            values.resume(data)

    def costs(self, metrics: Sequence[Row], played: Sequence[MenuEpisode], prior: MenuPrior) -> Row:
        """Costs so far; the prior's count starts again."""
        before = metrics[-1] if metrics else dict.fromkeys(COST_KEYS, 0)
        turns, read = sum(len(episode.actions) for episode in played), prior.scored_tokens
        prior.scored_tokens = 0
        return {key: before[key] + cost for key, cost in zip(COST_KEYS, (len(played), turns, read), strict=True)}

    def iterate(
        self, env: Any, prior: Callable[[Any], Probabilities], values: Values, data: list[MenuEpisode], seed: int
    ) -> tuple[list[MenuEpisode], Mapping[str, float]]:
        """Play the episodes of an iteration, add them to the data, and fit the values; returns the episodes and metrics of the fit."""
        turns = max((len(episode.actions) for episode in data), default=1)
        played = [self.play(env, prior, values, derive_seed(seed, i), turns) for i in range(self.config.episodes)]
        data += played
        return played, values.fit(data, seed)

    def measured(self, played: Sequence[MenuEpisode], values: Values) -> Row:
        """Mean return and number of turns, and "gap": the mean of V_upper - V_lower in the first states."""
        first = [
            regularised(values.estimates(episode.observations[0], 1), episode.priors[0], self.config.lam)[1]
            for episode in played
        ]
        return {
            "return": float(np.mean([sum(episode.rewards) for episode in played])),
            "turns": float(np.mean([len(episode.actions) for episode in played])),
            "gap": float(np.mean([value[UPPER] - value[LOWER] for value in first])),
        }

    # ---- agents ----------------------------------------------------------------------------------------------------------

    def load_initial(self, run: Run) -> MenuPolicy:
        """The prior itself."""
        return MenuPolicy(run.record.actions(run.config), self.prior(run))

    def load(self, run: Run) -> MenuPolicy:
        """Step 5."""
        values = self.values(run)
        values.load(run.path(self.name))

        def choose(observation: Any, turn: int, prior: Array) -> Array:
            return regularised(values.estimates(observation, turn)[MEAN], prior, self.config.lam)[0]

        return MenuPolicy(run.record.actions(run.config), self.prior(run), choose)


def _file(run: Run, name: str, step: int) -> Path:
    path = run.path(f"{name}/replay/{step}.jsonl")
    path.parent.mkdir(parents=True, exist_ok=True)
    return path
