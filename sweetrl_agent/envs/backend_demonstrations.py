"""Scripted, deliberately mediocre demonstrations for SFT of the tiny model, and of pretrained ones.

The demonstrator asks about random topics of the family's list in every turn but the last. It then answers with the wishes that it heard and the
plain choice on all other topics. It succeeds only if it happened to ask about the topics that matter. The number of questions is fixed, so that good
and bad dialogues differ only in *which* questions they ask. The questions have the order of the function and one wording, since a model from scratch
learns slowly which of many questions are still open. After two epochs on 6,000 dialogues, one question in seven is a repetition with random order, and
one in fifty with fixed order.

Half of the dialogues are *softly* guided by the hidden information, given as a system message: they cover all topics that matter, among as many
other topics as usual. Without them a model from scratch could not read the critic's hidden information. A pretrained model can. If the guided dialogues
asked about nothing else, the critic would have nothing left to learn. A further part are writing exercises: the request states some of the wishes, and
the answer follows at once. They are the shortest way to learn the code of a wish.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from colbench_gym.dialogue import Dialogue
from colbench_gym.envs.colbench_env import turn_limit
from colbench_gym.scoring.answer import ANSWER_MARKER
from colbench_gym.seeds import derive_seed
from colbench_gym.simulators import Simulator
from colbench_gym.tasks.embedded import family_of, reference_knowing
from colbench_gym.tasks.families.family import Topic
from colbench_gym.tasks.task import Task
from sweetrl_agent.core.hint import hint_message
from sweetrl_agent.envs.backend_exact_credit import has_fixed_length

#: Maximum number of plain wishes in a writing exercise, besides special ones.
MOST_PLAIN = 3


@dataclass(frozen=True)
class Demonstrator:
    """Parameters of the demonstrations' quality.

    Attributes:
        hinted_fraction: Share of dialogues guided by the hidden information.
        exercise_fraction: Share of writing exercises among all demonstrations.
        questions: Probability of 0, 1, 2, ... questions if the limit of turns allows all topics.
        wish_fraction: Probability that an exercise states a special wish.
        is_varied: Whether questions have random order and any of a topic's phrasings, and the answer is a code block, as in the system prompt.
            For pretrained models, which then learn no fixed order.
    """

    hinted_fraction: float = 0.5
    exercise_fraction: float = 0.1
    questions: tuple[float, ...] = (0.03, 0.08, 0.16, 0.26, 0.27, 0.2)
    wish_fraction: float = 0.8
    is_varied: bool = False

    def demonstrate(self, task: Task, simulator: Simulator, seed: int) -> list[dict[str, Any]]:
        """A dialogue or a writing exercise on an embedded task, as chat messages."""
        kind = np.random.default_rng(derive_seed(seed, "kind")).random()
        return self.exercise(task, seed) if kind < self.exercise_fraction else self.dialogue(task, simulator, seed)

    def exercise(self, task: Task, seed: int) -> list[dict[str, str]]:
        """A request that states some of the wishes, and its answer."""
        rng = np.random.default_rng(seed)
        facts = task.hidden.facts
        special = [i for i, fact in enumerate(facts) if fact.is_special and rng.random() < self.wish_fraction]
        plain = [i for i, fact in enumerate(facts) if not fact.is_special]
        stated = [*special, *rng.permutation(plain)[: rng.integers(MOST_PLAIN + 1)]]
        order = [facts[i] for i in rng.permutation(stated).astype(int)]
        answer = reference_knowing(task, {fact.topic for fact in order})
        request = "\n".join([task.description, *(fact.sentence for fact in order)])
        return Dialogue().add("user", request).add("assistant", self.answer(answer)).to_dicts()

    def dialogue(self, task: Task, simulator: Simulator, seed: int) -> list[dict[str, str]]:
        """One demonstration on an embedded task, as chat messages; a guided one starts with a system message."""
        rng = np.random.default_rng(seed)
        is_hinted = rng.random() < self.hinted_fraction
        topics = self.topics(task, is_hinted, rng)
        dialogue = Dialogue().add("user", task.description)
        for topic in topics:
            question = topic.asks[rng.integers(len(topic.asks)) if self.is_varied else 0]
            dialogue = dialogue.add("assistant", question)
            dialogue = dialogue.add("user", simulator.reply(task, dialogue, 0))
        known = {topic.name for topic in topics}
        dialogue = dialogue.add("assistant", self.answer(reference_knowing(task, known)))
        return [*hint_message(task.hidden.reference if is_hinted else "", noun="function"), *dialogue.to_dicts()]

    def topics(self, task: Task, is_hinted: bool, rng: np.random.Generator) -> list[Topic]:
        """Topics that a dialogue asks about, in order. A guided dialogue asks as many questions as any other, and includes all topics that matter.

        The answer takes a turn: it asks as many questions as the task's turns leave.
        """
        family, choice = family_of(task)
        turns = turn_limit(task)
        shuffled = rng.permutation(len(family.topics))
        count = turns - 1 if has_fixed_length(len(shuffled), turns) else int(rng.choice(len(self.questions), p=self.questions))
        if is_hinted:
            shuffled = np.array(sorted(shuffled, key=lambda i: choice[i] == 0))
            count = max(count, sum(option > 0 for option in choice))
        chosen = shuffled[: min(count, turns - 1)]
        return [family.topics[i] for i in (rng.permutation(chosen) if self.is_varied else sorted(chosen))]

    def answer(self, code: str) -> str:
        """A message that hands in a program."""
        return f"{ANSWER_MARKER}\n```python\n{code}\n```" if self.is_varied else f"{ANSWER_MARKER}\n{code}"


TINY = Demonstrator()
#: For pretrained models, which read hidden information and write code of a wish without demonstrations.
PRETRAINED = Demonstrator(hinted_fraction=0.0, exercise_fraction=0.05, is_varied=True)


def demonstrations(
    tasks: Sequence[Task], simulator: Simulator, num_dialogues: int, seed: int, demonstrator: Demonstrator = TINY
) -> list[list[dict[str, Any]]]:
    """`num_dialogues` demonstrations, on the tasks in rotation."""
    return [
        demonstrator.demonstrate(tasks[i % len(tasks)], simulator, derive_seed(seed, "imitation", i))
        for i in range(num_dialogues)
    ]
