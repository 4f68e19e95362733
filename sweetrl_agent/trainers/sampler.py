"""Plays episodes with the policies in training, on every engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, cast

from sweetrl_agent.core.algorithm import load_policies
from sweetrl_agent.core.episode import LENGTH, Episode, EpisodeKey
from sweetrl_agent.core.policy import Policies, Policy, RenewablePolicy, one_or_each
from sweetrl_agent.core.run import Run
from sweetrl_agent.models.loading import policy_on
from sweetrl_agent.rollouts.play import play, player, shards
from sweetrl_agent.rollouts.workers import ordered_map
from sweetrl_agent.trainers.learner import Learner

#: Folder of the weights that other engines or Ray workers sample from.
SAMPLING = "sampling"
#: Concurrent dialogues per Ray worker; independent of the number of workers, so that the episodes are too.
DIALOGUES_PER_WORKER = 8


class Sampler:
    """Plays episodes with the current policies of learners.

    In this process, the models in training are sampled directly. Other engines and Ray workers load their weights from folders. Other tasks than
    those of training are played in environments, and in this process with caches, of their own: training is the same with and without them.

    Args:
        run: The run.
        learners: The learners, by the folders of their trained policies.
        folders: Folder of each agent's trained policy (`Algorithm.policies`); agents whose folder is "" speak by the initial policy.
        name: Folder of the algorithm.
        num_envs: Number of concurrent dialogues in this process.
        keeps: What episodes keep, as arguments of `rollouts.play`: `keeps_states`, `keeps_keys`.
    """

    def __init__(
        self,
        run: Run,
        learners: Mapping[str, Learner],
        folders: Mapping[str, str],
        name: str,
        num_envs: int,
        **keeps: bool,
    ) -> None:
        self.run, self.learners, self.folders = run, learners, folders
        self._weights = {folder: f"{name}/{SAMPLING}/{Path(folder).name}" for folder in learners}
        self._renewed: dict[str, RenewablePolicy] = {}
        self._initial: Policy | None = None
        self._keeps: dict[str, Any] = {name: True for name, is_kept in keeps.items() if is_kept}
        self._env = None if run.config.run.ray_workers else run.environment(run.tasks, num_envs)

    def close(self) -> None:
        """Close the environments."""
        if self._env is not None:
            self._env.close()

    def play(self, tasks: Sequence[Any], keys: Sequence[EpisodeKey], stage: str) -> list[Episode]:
        """Play episodes of some tasks; `stage` is the name that their seeds are derived from."""
        run = self.run
        if self._env is None or run.config.model.engine != "transformers":
            for folder, learner in self.learners.items():
                learner.save(run.path(self._weights[folder]))
        if self._env is None:
            environment = partial(run.environment, tasks, DIALOGUES_PER_WORKER)
            load = partial(load_policies, run, {agent: self._weights.get(folder, "") for agent, folder in self.folders.items()})
            make_worker = partial(player, load, environment, run.seed, stage, **self._keeps)
            return list(chain.from_iterable(ordered_map(make_worker, shards(keys, DIALOGUES_PER_WORKER), run.config.run)))
        if run.config.model.engine != "transformers":
            self._renew()
        if tasks == run.tasks:
            return list(chain.from_iterable(play(self.policies(), self._env, keys, run.seed, stage, **self._keeps)))
        other = run.environment(tasks, min(self._env.num_envs, len(keys)))
        try:
            return list(chain.from_iterable(play(self.policies(is_new=True), other, keys, run.seed, stage)))
        finally:
            other.close()

    def verify(self, states: Sequence[tuple[Episode, int]]) -> list[float]:
        """See `Batch.verify`; in this process, whatever plays."""
        if self._env is not None:
            return [self._verified(self._env.envs[0], *state) for state in states]
        with closing(self.run.environment(self.run.tasks, 1)) as env:
            return [self._verified(env.envs[0], *state) for state in states]

    def _verified(self, env: Any, episode: Episode, number: int) -> float:
        turn, record = episode.turns[number - 1], self.run.record
        if turn.finish_reason == LENGTH and hasattr(getattr(env, "env", env).unwrapped, "step_cut"):
            return 0.0  # as in the environment, which grades no answer that is cut
        env.reset(seed=0, options={"task_id": episode.task_id})
        env.set_state(episode.states[number - 1])
        answer = record.answer(turn.text)
        score = env.score_answer(turn.text if answer is None else answer)
        if isinstance(score, Mapping):
            score = score[record.metric if record.metric in score else "success"]
        return float(score)

    def policies(self, is_new: bool = False) -> Policies:
        """The current policies; with `is_new`, those of this process have new caches."""
        of_folder: dict[str, Any] = dict(self._renewed)
        if "" in self.folders.values():
            self._initial = self._initial or self.run.load_policy()
            of_folder[""] = self._with_new_cache(self._initial) if is_new else self._initial
        for folder, learner in self.learners.items():
            if folder not in of_folder:
                of_folder[folder] = learner.new_policy(self.run.config.model) if is_new else learner.policy
        return one_or_each({agent: of_folder[folder] for agent, folder in self.folders.items()})

    def _with_new_cache(self, policy: Any) -> Policy:
        arguments = self.run.config.model
        in_process = arguments.engine == "transformers"
        return policy_on(policy.model, policy.speaker.tokenizer, arguments) if in_process else policy  # type: ignore[no-any-return]

    def renew(self) -> None:
        """Give an engine with weights of its own the current ones, between two calls of `play`."""
        if self.run.config.model.engine != "transformers" and self._renewed:
            for folder, learner in self.learners.items():
                learner.save(self.run.path(self._weights[folder]))
            self._renew()

    def _renew(self) -> None:
        for folder, weights in self._weights.items():
            if folder in self._renewed:
                self._renewed[folder].load_weights(str(self.run.path(weights)))
            else:
                self._renewed[folder] = cast(RenewablePolicy, self.run.load_policy(weights))


def keys_of(tasks: Sequence[Any], config: Any, iteration: int) -> list[EpisodeKey]:
    """Keys of different episodes of the next tasks in order, starting again from the first after the last: a task that comes again has further episodes.

    Args:
        tasks: The training tasks.
        config: Settings `tasks` and `group`, the tasks of an iteration and the episodes of each.
        iteration: Number of the iteration, from 0.
    """
    first, group = iteration * config.tasks, config.group
    return [
        EpisodeKey(tasks[i % len(tasks)].id, (i - first) // len(tasks) * group + number)
        for i in range(first, first + config.tasks)
        for number in range(group)
    ]
