"""Records of ColBench-Team-v0 and ColBench-Split-v0: the tasks of ColBench-Backend-v0 for several agents."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

from colbench_gym.agents.scripted import random_agent
from colbench_gym.envs.colbench_env import ColBenchEnv
from colbench_gym.envs.split import SplitEnv
from colbench_gym.envs.team import RolesEnv, TeamEnv
from colbench_gym.envs.team_roles import PAIR, SINGLE, Team, make_team
from colbench_gym.tasks import Task
from sweetrl_agent.core.agents import AgentPolicy
from sweetrl_agent.core.dialogues import AGENT
from sweetrl_agent.core.environment import Demonstrations
from sweetrl_agent.core.episode import Episode, Messages
from sweetrl_agent.core.explanation import Failure, WishCounts
from sweetrl_agent.envs import backend_explanation
from sweetrl_agent.envs.colbench_backend import BackendRecord, states_wishes

#: Demonstrated episodes from which the tiny model learns to talk, and programs from which it learns to write, as many as a single agent of
#: ColBench-Backend has. With a third of them, a pair writes 29% of the programs right whose wishes it has all heard, in place of 79%.
SFT_EPISODES, SFT_PROGRAMS = 2_000, 6_000


class RolesRecord(BackendRecord):
    """Agents with roles on the tasks of ColBench-Backend-v0.

    What explains an episode reads it as one dialogue with the human, with the graded answer at its end.
    """

    env: ClassVar[type[ColBenchEnv]]
    pretrained_defaults: ClassVar[Mapping[str, Any]] = {"max_new_tokens": 160}
    arguments: Mapping[str, Any] = {}

    def with_arguments(self, arguments: Mapping[str, Any]) -> Self:
        """See `EnvironmentRecord`; the roles are an argument of the environment."""
        other = copy.copy(self)
        other.arguments = arguments
        return other

    def team_of(self, arguments: Mapping[str, Any]) -> Team:
        """The team of the environment with these keyword arguments."""
        raise NotImplementedError

    def all_defaults(self, arguments: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """See `EnvironmentRecord`; an episode of demonstrations has a dialogue for every role."""
        roles = self.team_of(arguments or {}).roles
        programs = sum(role.writes == "answer" for role in roles)
        return {**super().all_defaults(arguments), "sft_dialogues": len(roles) * max(SFT_EPISODES, SFT_PROGRAMS // programs)}

    def check(self, config: Any) -> None:
        """See `EnvironmentRecord`; makes the environment, so that wrong roles are refused."""
        super().check(config)
        make: Any = self.env
        make(tasks=self.load_tasks(config.task.tasks, config.task)[:1], **config.task.keyword_arguments()).close()

    def agents(self, config: Any) -> tuple[str, ...]:
        """See `EnvironmentRecord`."""
        return tuple(role.name for role in self._team.roles)

    def turn_limit(self, task: Task, given: Any) -> int:
        """See `EnvironmentRecord`; turns of all agents."""
        return sum(super(RolesRecord, self).turn_limit(task, given) if role.talks else 1 for role in self._team.roles)

    def capabilities(self, config: Any) -> frozenset[str]:
        """See `EnvironmentRecord`; there are no discrete actions, and answers of one message have no prefix."""
        return super().capabilities(config) - {"discrete_actions", "answer_prefix"}

    def oracles(self, config: Any) -> tuple[str, ...]:
        """See `EnvironmentRecord`; none."""
        return ()

    def scripted_policy(self, name: str, config: Any) -> Any:
        """See `EnvironmentRecord`; random questions for a single agent only."""
        if name != "random":
            return super().scripted_policy(name, config)
        task = config.task
        return AgentPolicy(random_agent("ColBench-Backend-v0", task.tasks, task.max_turns)) if self._team == SINGLE else None

    def demonstrations(self, tasks: Sequence[Task], count: int, seed: int) -> Demonstrations:
        """See `EnvironmentRecord`."""
        from sweetrl_agent.envs.backend_demonstrations import TINY
        from sweetrl_agent.envs.team_demonstrations import demonstrations

        return demonstrations(self._roles_env, self.arguments, tasks, count, seed, self.guided(TINY))

    def pretrained_demonstrations(self, tasks: Sequence[Task], count: int, seed: int) -> Demonstrations:
        """See `EnvironmentRecord`."""
        from sweetrl_agent.envs.team_demonstrations import VARIED, demonstrations

        return demonstrations(self._roles_env, self.arguments, tasks, count, seed, self.guided(VARIED))

    def measures(self, episode: Episode, task: Task) -> dict[str, Any]:
        """See `EnvironmentRecord`, of what the human said; also the agent whose answer of a debate was graded, as "chosen"."""
        chosen = {name: value for name, value in episode.metrics.items() if name == "chosen"}
        whole = replace(episode, messages=self._as_one(episode.messages, task, chosen))
        replies = [len(message["content"]) for message in whole.messages[1:] if message["role"] == "user"]
        return {**super().measures(whole, task), "reply_chars": sum(replies) / max(len(replies), 1), **chosen}

    def failure(self, row: Mapping[str, Any], task: Task, config: Any) -> Failure:
        """See `Explains`; an answer is early if an agent that talks has not used all its questions."""
        talks = sum(role.talks for role in self._team.roles)
        limit = talks * (super().turn_limit(task, config.task) - 1) + 1
        return backend_explanation.failure(self._row(row, task), task, limit, states_wishes(config))

    def wish_counts(self, episodes: Sequence[tuple[Mapping[str, Any], Task]], config: Any) -> list[WishCounts | None]:
        """See `Explains`."""
        return super().wish_counts([(self._row(row, task), task) for row, task in episodes], config)

    def explain(self, episodes: Sequence[tuple[Mapping[str, Any], Task]], config: Any) -> list[dict[str, Any]]:
        """See `Explains`; turns are counted over all agents. Without exact advantages, which are those of a single agent."""
        explained = super().explain([(self._row(row, task), task) for row, task in episodes], config)
        return [
            {name: value for name, value in of.items() if name != "advantages"}
            | {"wishes": self._renumbered(of["wishes"], row)}
            for of, (row, _) in zip(explained, episodes, strict=True)
        ]

    @property
    def _team(self) -> Team:
        return self.team_of(self.arguments)

    @property
    def _roles_env(self) -> type[RolesEnv]:
        assert issubclass(self.env, RolesEnv)
        return self.env

    def _row(self, row: Mapping[str, Any], task: Task) -> dict[str, Any]:
        messages = self._as_one(row["dialogue_history"], task, row)
        return {**row, "dialogue_history": messages, "turns": sum(message["role"] == "assistant" for message in messages)}

    def _as_one(self, messages: Messages, task: Task, chosen: Mapping[str, Any]) -> list[dict[str, str]]:
        """The request, what the agents that talk and the human said to each other, and the graded answer."""
        if self._team == SINGLE:
            return list(messages)
        shown = [messages[place] for place in self._places(messages, chosen)]
        return [
            {"role": "user", "content": task.description},
            *({"role": message["role"], "content": message["content"]} for message in shown),
        ]

    def _places(self, messages: Messages, chosen: Mapping[str, Any]) -> list[int]:
        """Indices of the messages of the one dialogue, without the request."""

        def view(agent: str) -> list[int]:
            return [place for place, message in enumerate(messages) if message.get("agent", AGENT) == agent]

        places = []
        for role in self._team.roles:
            of_role = view(role.name)
            if role.talks:
                places += of_role[1:-1] if of_role and messages[of_role[-1]]["role"] == "assistant" else of_role[1:]
        graded = view(chosen.get("chosen", self._team.roles[-1].name))
        return [*places, *(place for place in graded[-1:] if messages[place]["role"] == "assistant")]

    def _renumbered(self, wishes: Sequence[Mapping[str, Any]], row: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Wishes with the turns of the one dialogue replaced by those of the whole team."""
        messages = row["dialogue_history"]
        if self._team == SINGLE:
            return [dict(wish) for wish in wishes]
        spoken = [place for place, message in enumerate(messages) if message["role"] == "assistant"]
        turns = {None: None} | {
            number: spoken.index(place) + 1
            for number, place in enumerate((place for place in self._places(messages, row) if place in spoken), 1)
        }
        return [{**wish, "asked": turns[wish["asked"]], "heard": turns[wish["heard"]]} for wish in wishes]


class TeamRecord(RolesRecord):
    """Record of ColBench-Team-v0."""

    env: ClassVar[type[ColBenchEnv]] = TeamEnv

    def team_of(self, arguments: Mapping[str, Any]) -> Team:
        """See `RolesRecord`."""
        return make_team(arguments.get("roles", "interviewer,coder"))


class SplitRecord(RolesRecord):
    """Record of ColBench-Split-v0, of the pair or of one agent alone."""

    env: ClassVar[type[ColBenchEnv]] = SplitEnv

    def team_of(self, arguments: Mapping[str, Any]) -> Team:
        """See `RolesRecord`."""
        return SINGLE if arguments.get("alone") else PAIR
