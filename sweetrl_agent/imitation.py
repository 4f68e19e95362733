"""Scripted dialogues that teach a tiny model to converse, deliberately mediocre.

The demonstrator works through a few topics from a random one on, then answers with what it was told and the plain choice on the
rest, so it succeeds only where luck made it ask the right things: there is something left to learn. (Topics follow each other in
a fixed order because a tiny model learns soon what comes after the last question, and hardly ever which questions of several
are still open.) A part of the dialogues is led by the hidden information, given as a system message: there it asks about what matters and answers rightly. Without those a model
from scratch could not read the critic's hint, which any pretrained model can. Another part are writing exercises, where the
request itself says some of the wishes and is answered at once: the shortest way to learn what code a wish means. Some exercises come
after a long talk that goes round the topics, of which only the answer is imitated: a model from scratch writes well only after as many turns as
it has seen, and learning drives dialogues to more turns than the demonstrator's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from colbench_gym.dialogue import Dialogue
from colbench_gym.scoring.answer import ANSWER_MARKER
from colbench_gym.simulators import Simulator
from colbench_gym.tasks.embedded import family_of, reference_knowing
from colbench_gym.tasks.families.family import Topic
from colbench_gym.tasks.task import Task
from sweetrl_agent.chat import hint_message
from sweetrl_agent.seeds import derive_seed

#: Turns of a talk with its answer, at most; ten in the benchmark.
LONGEST_TALK = 10


@dataclass(frozen=True)
class Demonstrator:
    """How good the demonstrations are.

    Attributes:
        questions: Probability of asking 0, 1, 2, ... questions before the answer.
        hinted_fraction: Share of dialogues led by the hidden information.
        exercise_fraction: Share of writing exercises among all demonstrations.
        talk_fraction: Share of the exercises that come after a long talk.
    """

    questions: tuple[float, ...] = (0.03, 0.08, 0.16, 0.26, 0.27, 0.2)
    hinted_fraction: float = 0.33
    exercise_fraction: float = 0.35
    talk_fraction: float = 0.4

    def demonstrate(self, task: Task, simulator: Simulator, seed: int) -> list[dict[str, Any]]:
        """A dialogue or a writing exercise on an embedded task, as chat messages; those with "weight" 0 are not to be imitated."""
        kind = np.random.default_rng(derive_seed(seed, "kind")).random()
        if kind < self.exercise_fraction * self.talk_fraction:
            return self.long_talk(task, simulator, seed)
        return self.exercise(task, seed) if kind < self.exercise_fraction else self.dialogue(task, simulator, seed)

    def long_talk(self, task: Task, simulator: Simulator, seed: int) -> list[dict[str, Any]]:
        """As many questions as ten turns allow at most, round and round some of the topics, and the answer, which alone has weight."""
        rng = np.random.default_rng(seed)
        family, _ = family_of(task)
        topics = _from_random_one(family.topics, rng)[: int(rng.integers(len(family.topics) - 1, len(family.topics) + 1))]
        dialogue = Dialogue().add("user", task.description)
        for i in range(int(rng.integers(len(topics), LONGEST_TALK))):
            asks = topics[i % len(topics)].asks
            dialogue = dialogue.add("assistant", asks[rng.integers(len(asks))])
            dialogue = dialogue.add("user", simulator.reply(task, dialogue, 0))
        talk = [{**message, "weight": 0} for message in dialogue.to_dicts()]
        answer = reference_knowing(task, {topic.name for topic in topics})
        return [*talk, {"role": "assistant", "content": f"{ANSWER_MARKER}\n{answer}"}]

    def exercise(self, task: Task, seed: int) -> list[dict[str, str]]:
        """A request that says some of the wishes itself, and its answer."""
        rng = np.random.default_rng(seed)
        family, choice = family_of(task)
        order = rng.permutation(len(choice))[: rng.integers(1, len(choice) + 1)]
        wishes = [family.topics[i].options[choice[i]].says for i in order]
        answer = reference_knowing(task, {family.topics[i].name for i in order})
        request = "\n".join([task.description, *wishes])
        return Dialogue().add("user", request).add("assistant", f"{ANSWER_MARKER}\n{answer}").to_dicts()

    def dialogue(self, task: Task, simulator: Simulator, seed: int) -> list[dict[str, str]]:
        """One demonstration on an embedded task, as chat messages; led by a system message where it is a hinted one."""
        rng = np.random.default_rng(seed)
        family, choice = family_of(task)
        is_hinted = rng.random() < self.hinted_fraction
        if is_hinted:
            topics = _from_random_one([t for t, index in zip(family.topics, choice, strict=True) if index > 0], rng)
        else:
            num_questions = int(rng.choice(len(self.questions), p=self.questions))
            topics = _from_random_one(family.topics, rng)[:num_questions]
        dialogue = Dialogue().add("user", task.description)
        for topic in topics:
            dialogue = dialogue.add("assistant", topic.asks[rng.integers(len(topic.asks))])
            dialogue = dialogue.add("user", simulator.reply(task, dialogue, 0))
        known = {topic.name for topic in topics}
        dialogue = dialogue.add("assistant", f"{ANSWER_MARKER}\n{reference_knowing(task, known)}")
        return [*hint_message(task.hidden.reference if is_hinted else ""), *dialogue.to_dicts()]


def _from_random_one(topics: Sequence[Topic], rng: np.random.Generator) -> list[Topic]:
    """All topics in their order, beginning at a random one."""
    first = int(rng.integers(len(topics)))
    return [*topics[first:], *topics[:first]]


def demonstrations(
    tasks: Sequence[Task], simulator: Simulator, num_dialogues: int, seed: int, demonstrator: Demonstrator | None = None
) -> list[list[dict[str, Any]]]:
    """`num_dialogues` demonstrations, tasks taking turns."""
    demonstrator = demonstrator or Demonstrator()
    return [
        demonstrator.demonstrate(tasks[i % len(tasks)], simulator, derive_seed(seed, "imitation", i))
        for i in range(num_dialogues)
    ]
