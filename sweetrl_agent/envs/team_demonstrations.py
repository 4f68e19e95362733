"""Scripted, deliberately mediocre demonstrations of teams: dialogues in the view of each role, for SFT.

The players play the environment itself, so that every agent sees in a demonstration what it sees in an episode. Their programs implement the wishes on some topics
and the plain choice on all others. They are mediocre in ways that training can mend:

* Who talks asks about the topics that matter in half of the episodes, among others, and about random topics in the other half; then it hands over.
* A note states what the human has stated.
* A draft, a coder of an interviewer and a coder in the first round of a debate leave out a wish in `errs` of the episodes in which one was heard.
* A critique names the wishes that a draft leaves out, or says that nothing is missing. The refiner adds them.
* A coder of a debate whose answer leaves out a wish takes over a better one of the round before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from colbench_gym.envs.split import half_of
from colbench_gym.envs.team import RolesEnv
from colbench_gym.envs.team_roles import HAND_OVER, Role
from colbench_gym.seeds import derive_seed
from colbench_gym.tasks.embedded import family_of
from colbench_gym.tasks.families.family import Topic
from colbench_gym.tasks.task import Fact, Task
from sweetrl_agent.core.dialogues import speaks_as
from sweetrl_agent.core.environment import Demonstrations
from sweetrl_agent.envs.backend_demonstrations import PRETRAINED, TINY, Demonstrator

NOTHING_MISSING = "Nothing is missing."
#: Demonstrator of a pretrained model. As the tiny one's, its dialogues are guided, but nothing in them reads the hidden information, and there are no exercises.
VARIED = replace(PRETRAINED, hinted_fraction=0.5)


def demonstrations(
    env_class: type[RolesEnv],
    arguments: Mapping[str, Any],
    tasks: Sequence[Task],
    count: int,
    seed: int,
    demonstrator: Demonstrator = TINY,
) -> Demonstrations:
    """Dialogues in the views of all roles, episode after episode.

    Args:
        env_class: Class of the environment.
        arguments: Its keyword arguments.
        tasks: The tasks, which are played in rotation.
        count: Number of dialogues.
        seed: Seed of the run.
        demonstrator: Parameters of their quality.
    """
    env, dialogues, episode = env_class(tasks=tasks, **arguments), list[list[dict[str, str]]](), 0
    while len(dialogues) < count:
        task = tasks[episode % len(tasks)]
        players = Players(env, task, demonstrator, np.random.default_rng(derive_seed(seed, "team", episode)))
        dialogues += players.play()
        episode += 1
    return dialogues[:count]


@dataclass
class Players:
    """The players of one episode.

    Attributes:
        env: The environment.
        task: The task.
        demonstrator: Parameters of their quality.
        rng: Draws questions and errors.
        errs: Probability of leaving out a wish.
    """

    env: RolesEnv
    task: Task
    demonstrator: Demonstrator
    rng: np.random.Generator
    errs: float = 0.35

    def play(self) -> Demonstrations:
        """The dialogue of every agent. The last message is not said, so that nothing is graded."""
        self.env.reset(seed=0, options={"task_id": self.task.id})
        self.known: dict[str, frozenset[str]] = {}  # topics of the wishes in the programs, by agent
        dialogues = []
        for role in self.env.team.roles:
            questions = self._questions() if role.talks else []
            for question in questions:
                self.env.step(question)
            text = self._hand_over(role)
            dialogues.append([*self.env.messages, {"role": "assistant", "content": text}])
            if role is not self.env.team.roles[-1]:
                self.env.step(text)
        return dialogues

    def _questions(self) -> list[str]:
        is_guided = bool(self.rng.random() < self.demonstrator.hinted_fraction)
        topics: list[Topic] = self.demonstrator.topics(self.task, is_guided, self.rng)
        return [topic.asks[self.rng.integers(len(topic.asks)) if self.demonstrator.is_varied else 0] for topic in topics]

    def _heard(self) -> list[Fact]:
        """What the human has stated, as far as the agent that speaks can read it: a note may have been cut."""
        read = [message["content"] for message in self.env.messages if message["role"] == "user"]
        return [fact for fact in self.task.hidden.facts if any(fact.sentence in text for text in read)]

    def _hand_over(self, role: Role) -> str:
        wishes = [fact for fact in self._heard() if fact.is_special]
        if role.writes == "note":
            return f"{HAND_OVER} {' '.join(fact.sentence for fact in self._heard())}".rstrip()
        if role.writes == "critique":
            missing = [fact.sentence for fact in wishes if fact.topic not in self.known["generator"]]
            return f"It misses: {' '.join(missing)}" if missing else NOTHING_MISSING
        agent = speaks_as(role.name)
        self.known[agent] = self._known(agent, [fact.topic for fact in wishes])
        answer = self.demonstrator.answer(self._program(self.known[agent]))
        return answer if role.talks else answer.partition("\n")[2]

    def _program(self, known: frozenset[str]) -> str:
        """The program that implements the wishes on some topics; one agent alone also guesses a wish in the half that it cannot ask about."""
        family, choice = family_of(self.task)
        mine = [option if topic.name in known else 0 for topic, option in zip(family.topics, choice, strict=True)]
        if alone := getattr(self.env, "alone", ""):
            guessed = self.rng.choice([i for i in family.relevant if i not in half_of(family, alone)])
            mine[guessed] = int(self.rng.integers(1, len(family.topics[guessed].options)))
        return family.reference(tuple(mine))

    def _known(self, agent: str, wishes: Sequence[str]) -> frozenset[str]:
        """Topics of the wishes that an agent's program implements."""
        every, before = frozenset(wishes), self._of_round_before(agent)
        if agent in ("refiner", "second", "agent") or every in before:
            return every
        if before:
            return before[0]
        is_wrong = bool(wishes) and self.rng.random() < self.errs
        return every - {wishes[int(self.rng.integers(len(wishes)))]} if is_wrong else every

    def _of_round_before(self, agent: str) -> list[frozenset[str]]:
        """What the coders of a debate knew in the round before, the agent first."""
        name, _, turn = agent.partition("_")
        authors = [other for other in self.known if turn and other.endswith(f"_{int(turn) - 1}")]
        return [self.known[other] for other in sorted(authors, key=lambda other: not other.startswith(f"{name}_"))]
