"""What a run's policy could reach on the embedded tasks if it asked better: policies that take its questions from it, and let it write the answer.

    PYTHONPATH=. CEILING_OF=runs/qwen_0.5b_cpu python -m sweetrl_agent.evaluate runs/qwen_0.5b_cpu \
        told=benchmarks.ceilings:Told relevant=benchmarks.ceilings:Relevant --output runs/ceilings

    Told: the request states all wishes, and the policy answers at once. It shows what the policy can write.
    Relevant: asks about the topics that can be special in the family, one a message, in a wording of the demonstrations; then the policy answers.

The policy is the trained one of the run folder CEILING_OF. Its answer begins with the answer marker.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence

from colbench_gym.tasks import Task
from colbench_gym.tasks.embedded import family_of
from sweetrl_agent.core.agents import Messages
from sweetrl_agent.core.policy import Utterance
from sweetrl_agent.evaluation.recorded_run import open_recorded
from sweetrl_agent.models.loading import load_policy


class Ceiling:
    """Asks what `next_question` says, and answers by the run's policy."""

    def __init__(self) -> None:
        run = open_recorded(os.environ["CEILING_OF"])
        folder = str(run.artifact(run.algorithm.name, "policy"))
        self.writer = load_policy(folder, run.initial_model, run.config.model, run.record.answer_prefix)
        self.tasks = {(task.description, task.hidden.reference): task for tasks in run.held_out.values() for task in tasks}

    def generate_informed(self, dialogues: Sequence[Messages], hidden: Sequence[str], seeds: Sequence[int]) -> list[Utterance]:
        """See `InformedPolicy.generate_informed`."""
        tasks = [self.tasks[dialogue[0]["content"], reference] for dialogue, reference in zip(dialogues, hidden, strict=True)]
        texts = [
            self.next_question(*of) for of in zip(tasks, (len(dialogue) // 2 for dialogue in dialogues), seeds, strict=True)
        ]
        writing = [i for i, text in enumerate(texts) if text is None]
        read = [self.read(tasks[i], dialogues[i]) for i in writing]
        answers = iter(self.writer.generate(read, [seeds[i] for i in writing]) if writing else [])
        return [next(answers) if text is None else Utterance(text) for text in texts]

    def generate(self, dialogues: Sequence[Messages], seeds: Sequence[int]) -> list[Utterance]:
        """Not called: an oracle sees the hidden information."""
        raise NotImplementedError

    def next_question(self, task: Task, asked: int, seed: int) -> str | None:
        """The question after so many, or None to answer."""
        return None

    def read(self, task: Task, dialogue: Messages) -> Messages:
        """What the policy reads before it answers."""
        return dialogue


class Told(Ceiling):
    """The request states all wishes."""

    def read(self, task: Task, dialogue: Messages) -> Messages:
        """See `Ceiling`."""
        wishes = [fact.sentence for fact in task.hidden.facts if fact.is_special]
        return [{**dialogue[0], "content": " ".join([dialogue[0]["content"], *wishes])}]


class Relevant(Ceiling):
    """Asks only what can matter."""

    def next_question(self, task: Task, asked: int, seed: int) -> str | None:
        """See `Ceiling`."""
        family, _ = family_of(task)
        topics = [family.topics[i] for i in family.relevant]
        return random.Random(seed).choice(topics[asked].asks) if asked < len(topics) else None
