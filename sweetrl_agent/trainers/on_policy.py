"""The training loop of on-policy algorithms: play episodes, compute advantages of turns, update on the sampled tokens, repeat.

TRL's trainers (`RLOOTrainer`, `GRPOTrainer`) are not used: they assign advantages to whole completions, not to turns of a dialogue with user
messages in between.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from functools import partial
from typing import Any, cast

from tqdm import tqdm

from sweetrl_agent.core.episode import Episode, EpisodeKey
from sweetrl_agent.core.on_policy import OnPolicyAlgorithm, OnPolicyConfig
from sweetrl_agent.core.policy import RenewablePolicy
from sweetrl_agent.core.run import Run
from sweetrl_agent.data.files import SECONDS
from sweetrl_agent.rollouts.play import episodes_of, play, player, shards
from sweetrl_agent.rollouts.workers import ordered_map
from sweetrl_agent.trainers.learner import Learner
from sweetrl_agent.trainers.running import TRAINED_TOKENS, Checkpoint, StageClock

#: Costs of an algorithm, accumulated in its metrics from the first iteration on.
SPENT = ("episodes", "environment_turns", "generated_tokens", TRAINED_TOKENS)
#: Folder of the weights that other engines or Ray workers sample from.
SAMPLING = "sampling"
#: Concurrent dialogues per Ray worker; independent of the number of workers, so that the episodes are too.
DIALOGUES_PER_WORKER = 8


def learn(run: Run, algorithm: OnPolicyAlgorithm) -> None:
    """Train with an on-policy algorithm and write the agent's folder. Resumes after the last complete iteration."""
    config, name = algorithm.config, algorithm.name
    learner = Learner(run, algorithm)
    checkpoint = Checkpoint(run.path(f"{name}/checkpoint.pt"), learner.trained, learner.optimizer)
    done, metrics = checkpoint.load()
    clock = StageClock(metrics)
    spent = Counter({key: metrics[-1][key] for key in SPENT} if metrics else {})
    with (
        _sampler(run, algorithm, learner) as sample,
        tqdm(total=config.iterations, initial=done, desc=name, unit="step") as bar,
    ):
        for iteration in range(done, config.iterations):
            played = sample(_keys(run, config, iteration), f"{name} {iteration}")
            valid = [episode for episode in played if not episode.is_void]
            update = learner.update(valid)
            spent += _spent(played)
            spent[TRAINED_TOKENS] += update.tokens
            metrics.append(
                {"stage": name, "step": iteration + 1, **_measured(valid), **_logged(update), **{k: spent[k] for k in SPENT}}
            )
            metrics[-1][SECONDS] = clock.seconds()
            checkpoint.save(iteration + 1, metrics)
            bar.set_postfix({"return": f"{metrics[-1]['return']:.3f}"})
            bar.update()
    run.add_metrics(name, metrics)
    learner.save(run.path(f"{name}/agent"))
    shutil.rmtree(run.path(f"{name}/{SAMPLING}"), ignore_errors=True)
    checkpoint.remove()


@contextmanager
def _sampler(run: Run, algorithm: OnPolicyAlgorithm, learner: Learner) -> Iterator[Any]:
    """A function of keys and a stage that plays episodes with the learner's current policy.

    In this process, the model in training is sampled directly. Other engines and Ray workers load its weights from a folder.
    """
    config, name, given = algorithm.config, algorithm.name, run.config.run
    folder = f"{name}/{SAMPLING}"
    if given.ray_workers:

        def by_ray(keys: Sequence[EpisodeKey], stage: str) -> list[Episode]:
            learner.save(run.path(folder))
            environment = partial(run.environment, run.tasks, DIALOGUES_PER_WORKER)
            make_worker = partial(player, partial(run.load_policy, folder), environment, run.seed, stage)
            return [
                episode for shard in ordered_map(make_worker, shards(keys, DIALOGUES_PER_WORKER), given) for episode in shard
            ]

        yield by_ray
        return
    renewed: RenewablePolicy | None = None
    with closing(run.environment(run.tasks, config.tasks * config.group)) as env:

        def here(keys: Sequence[EpisodeKey], stage: str) -> list[Episode]:
            nonlocal renewed
            if run.config.model.engine != "transformers":
                learner.save(run.path(folder))
                if renewed is None:
                    renewed = cast(RenewablePolicy, run.load_policy(folder))
                else:
                    renewed.load_weights(str(run.path(folder)))
            return [episode for shard in play(renewed or learner.policy, env, keys, run.seed, stage) for episode in shard]

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
