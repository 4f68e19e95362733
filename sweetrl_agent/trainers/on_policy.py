"""The training loop of on-policy algorithms: play episodes, compute advantages of turns, update on the sampled tokens, repeat.

TRL's trainers (`RLOOTrainer`, `GRPOTrainer`) are not used: they assign advantages to whole completions, not to turns of a dialogue with user
messages in between.
"""

from __future__ import annotations

import logging
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from functools import partial
from itertools import chain
from typing import Any, cast

from sweetrl_agent.core.episode import Episode, EpisodeKey
from sweetrl_agent.core.on_policy import OnPolicyAlgorithm, OnPolicyConfig
from sweetrl_agent.core.policy import RenewablePolicy
from sweetrl_agent.core.progress import progress_bar
from sweetrl_agent.core.run import Run
from sweetrl_agent.data.files import SECONDS
from sweetrl_agent.rollouts.play import episodes_of, play, player, shards
from sweetrl_agent.rollouts.workers import ordered_map
from sweetrl_agent.trainers.learner import Learner
from sweetrl_agent.trainers.periodic_evaluation import Sample, evaluate_in_training, is_due, repeat
from sweetrl_agent.trainers.running import TRAINED_TOKENS, Checkpoint, StageClock

_log = logging.getLogger(__name__)
#: Costs of an algorithm, accumulated in its metrics from the first iteration on.
SPENT = ("episodes", "environment_turns", "generated_tokens", TRAINED_TOKENS)
#: Folder of the weights that other engines or Ray workers sample from.
SAMPLING = "sampling"
#: Concurrent dialogues per Ray worker; independent of the number of workers, so that the episodes are too.
DIALOGUES_PER_WORKER = 8


def learn(run: Run, algorithm: OnPolicyAlgorithm) -> None:
    """Train with an on-policy algorithm and write the agent's folder. Resumes after the last complete iteration."""
    config, name = algorithm.config, algorithm.name
    loop = _Loop(run, algorithm)
    done = len(loop.metrics)
    if done:
        _log.info("%s: resumes from iteration %d", name, done)
    continues = repeat(run, name, loop.metrics)
    with (
        _sampler(run, algorithm, loop.learner) as sample,
        progress_bar(total=config.iterations, initial=done, desc=name, unit="step") as bar,
    ):
        continues = continues and loop.evaluate(sample)
        for iteration in range(done, config.iterations):
            if not continues:
                break
            continues = loop.iterate(sample, iteration)
            bar.set_postfix({"return": f"{loop.metrics[-1]['return']:.3f}"})
            bar.update()
            continues &= loop.evaluate(sample)
    run.add_metrics(name, loop.metrics)
    loop.learner.save(run.path(f"{name}/agent"))
    shutil.rmtree(run.path(f"{name}/{SAMPLING}"), ignore_errors=True)
    loop.checkpoint.remove()


class _Loop:
    """The learner, its checkpoint and the metrics so far, one row per iteration."""

    def __init__(self, run: Run, algorithm: OnPolicyAlgorithm) -> None:
        self.run, self.config, self.name = run, algorithm.config, algorithm.name
        self.learner = Learner(run, algorithm)
        self.checkpoint = Checkpoint(run.path(f"{self.name}/checkpoint.pt"), self.learner.trained, self.learner.optimizer)
        _, self.metrics = self.checkpoint.load()
        self._clock = StageClock(self.metrics)
        self._spent = Counter({key: self.metrics[-1][key] for key in SPENT} if self.metrics else {})

    def iterate(self, sample: Sample, iteration: int) -> bool:
        """Play, update, and save; returns whether training continues."""
        played = sample(self.run.tasks, _keys(self.run, self.config, iteration), f"{self.name} {iteration}")
        valid = [episode for episode in played if not episode.is_void]
        update = self.learner.update(valid, 1 - iteration / self.config.iterations if self.config.anneal else 1.0)
        self._spent += _spent(played)
        self._spent[TRAINED_TOKENS] += update.tokens
        spent = {key: self._spent[key] for key in SPENT}
        step = iteration + 1
        row = {"stage": self.name, "step": step, **_measured(valid), **_logged(update), **spent}
        self.metrics.append({**row, SECONDS: self._clock.seconds()})
        self.checkpoint.save(step, self.metrics)
        continues = self.run.callbacks.log(self.name, step, row)
        return self.run.callbacks.iteration(self.name, step, valid) and continues

    def evaluate(self, sample: Sample) -> bool:
        """Evaluate the policy where that is due and not done; returns whether training continues."""
        if not is_due(self.run, self.metrics):
            return True
        results = evaluate_in_training(self.run, self.name, sample)
        self.metrics[-1] |= results
        step = len(self.metrics)
        self.checkpoint.save(step, self.metrics)
        return self.run.callbacks.evaluate(self.name, step, results)


@contextmanager
def _sampler(run: Run, algorithm: OnPolicyAlgorithm, learner: Learner) -> Iterator[Sample]:
    """A function of tasks, keys and a stage that plays episodes with the learner's current policy.

    In this process, the model in training is sampled directly. Other engines and Ray workers load its weights from a folder. Other tasks than
    those of training are played in environments, and in this process with a cache, of their own: training is the same with and without them.
    """
    config, name, given = algorithm.config, algorithm.name, run.config.run
    folder = f"{name}/{SAMPLING}"
    if given.ray_workers:

        def by_ray(tasks: Sequence[Any], keys: Sequence[EpisodeKey], stage: str) -> list[Episode]:
            learner.save(run.path(folder))
            environment = partial(run.environment, tasks, DIALOGUES_PER_WORKER)
            make_worker = partial(player, partial(run.load_policy, folder), environment, run.seed, stage)
            return [
                episode for shard in ordered_map(make_worker, shards(keys, DIALOGUES_PER_WORKER), given) for episode in shard
            ]

        yield by_ray
        return
    renewed: RenewablePolicy | None = None
    with closing(run.environment(run.tasks, config.tasks * config.group)) as env:

        def here(tasks: Sequence[Any], keys: Sequence[EpisodeKey], stage: str) -> list[Episode]:
            nonlocal renewed
            if run.config.model.engine != "transformers":
                learner.save(run.path(folder))
                if renewed is None:
                    renewed = cast(RenewablePolicy, run.load_policy(folder))
                else:
                    renewed.load_weights(str(run.path(folder)))
            if tasks is run.tasks:
                return list(chain.from_iterable(play(renewed or learner.policy, env, keys, run.seed, stage)))
            with closing(run.environment(tasks, min(env.num_envs, len(keys)))) as other:
                policy = renewed or learner.new_policy(run.config.model)
                return list(chain.from_iterable(play(policy, other, keys, run.seed, stage)))

        yield here


def _keys(run: Run, config: OnPolicyConfig, iteration: int) -> list[EpisodeKey]:
    """Episode keys of the next tasks in order, starting again from the first after the last."""
    first = iteration * config.tasks
    return episodes_of([run.tasks[i % len(run.tasks)].id for i in range(first, first + config.tasks)], config.group)


def _measured(episodes: Sequence[Episode]) -> dict[str, float]:
    """Mean return, mean number of turns and, if all episodes have it, mean success."""
    count = max(len(episodes), 1)
    found = {
        "return": sum(episode.reward for episode in episodes) / count,
        "turns": sum(len(episode.turns) for episode in episodes) / count,
    }
    if all("success" in episode.metrics for episode in episodes):
        found["success"] = sum(float(episode.metrics["success"]) for episode in episodes) / count
    return found


def _logged(update: Any) -> dict[str, float]:
    return {name: value for name, value in asdict(update).items() if name != "tokens" and value is not None}


def _spent(trajectories: Sequence[Episode]) -> Counter[str]:
    turns = [turn for episode in trajectories for turn in episode.turns]
    tokens = sum(len(turn.token_ids) for turn in turns)
    return Counter({"episodes": len(trajectories), "environment_turns": len(turns), "generated_tokens": tokens})
