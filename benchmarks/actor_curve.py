"""What the actor learns from exact credit, and from how many tasks: questions about a wish before other questions.

    PYTHONPATH=. python benchmarks/actor_curve.py runs/qwen_0.5b_cpu --num_tasks 600 --output benchmarks/results/actor_curve.json
    PYTHONPATH=. python benchmarks/actor_curve.py runs/qwen_0.5b_cpu --num_tasks 0 --output benchmarks/results/request_reading.json

The run's initial policy is trained with its settings of the actor, but for those given here, on the first turn of training tasks. A pair has a question
about each wish of the task and one about another topic of its list. No candidate is sampled and no critic asked, so what is missed here is the actor's.
After every `--every` tasks, questions about all topics of the list are scored on tasks of families that training does not have:

    cue: how often a wish is before a topic that is a wish in other tasks. Only who reads the request can tell them apart;
    decoy: how often a wish is before a topic that is a wish in no task. It can be known without reading;
    relevant: probability, among questions about the topics, of one about a topic that can be a wish in this family;
    read: `cue` by how much more likely the request makes a question than the request without its hints. How often a question is asked anyway drops out.

Chance is 0.5, 0.5, the fraction of the list that is relevant, and 0.5. With `--num_tasks 0` nothing is trained: the base model, the run's initial policy and
its trained policy are measured.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import random
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from datasets import Dataset
from numpy.typing import NDArray
from transformers import TrainerCallback

from colbench_gym.files import Row
from colbench_gym.tasks import Task, load_tasks
from colbench_gym.tasks.embedded import family_of
from sweetrl_agent.algorithms.sweet import dpo_arguments
from sweetrl_agent.core.messages import system_message
from sweetrl_agent.critics.advantage import candidate_log_probs
from sweetrl_agent.data.chat import Chat
from sweetrl_agent.evaluation.recorded_run import open_recorded
from sweetrl_agent.models.loading import initial_model, load_chat, load_model, system_prompt
from sweetrl_agent.policies.slots import without_wrapper
from sweetrl_agent.trainers.run import Run
from sweetrl_agent.trainers.trl.by_turn import TurnwiseDPOTrainer
from sweetrl_agent.trainers.trl.precomputed import preference


def exact_pairs(tasks: Sequence[Task], per_wish: int, rng: random.Random) -> Iterator[Row]:
    """Pairs of first questions, those of a task one after the other."""
    for task in tasks:
        topics, facts = family_of(task)[0].topics, task.hidden.facts
        others = [i for i, fact in enumerate(facts) if not fact.is_special]
        rejected = [rng.choice(topics[i].asks) for i in rng.sample(others, min(per_wish, len(others)))]
        for topic, fact in zip(topics, facts, strict=True):
            if fact.is_special:
                chosen = rng.choice(topic.asks)
                yield from ({"prompt": _messages(task.description), "chosen": chosen, "rejected": text} for text in rejected)


def preferences(model: Any, chat: Chat, instructions: str, tasks: Sequence[Task], decoys: set[str]) -> dict[str, float]:
    """The four numbers of the module's docstring, means over the tasks."""
    rng, values = random.Random(0), list[list[float]]()

    def log_probs(request: str, asked: Sequence[str]) -> NDArray[np.float64]:
        prompt = [*system_message(instructions), *_messages(request)]
        with torch.inference_mode():
            scored = candidate_log_probs(model, chat.prompt(prompt), chat.turns(prompt, asked))
        return np.array([float(tokens.sum()) for tokens in scored])

    for task in tasks:
        family, _ = family_of(task)
        asked = [rng.choice(topic.asks) for topic in family.topics]
        scores = log_probs(task.description, asked)
        effects = scores - log_probs(without_hints(task), asked)
        shares = np.exp(scores - scores.max())
        relevant = list(family.relevant)
        wishes = [i for i, fact in enumerate(task.hidden.facts) if fact.is_special]
        never = [i for i, topic in enumerate(family.topics) if topic.name in decoys]
        readable = [i for i in range(len(asked)) if i not in {*relevant, *never}]
        if readable and never:
            compared = (scores, readable), (scores, never), (effects, readable)
            cue, decoy, read = (float(np.mean(by[wishes][:, None] > by[others][None])) for by, others in compared)
            values.append([cue, decoy, float(shares[relevant].sum() / shares.sum()), read])
    means = np.mean(values, axis=0).round(3).tolist()
    return {**dict(zip(("cue", "decoy", "relevant", "read"), means, strict=True)), "n": len(values)}


def without_hints(task: Task) -> str:
    """The request without the sentences that hint at its topics."""
    text = task.description
    for cue in family_of(task)[0].cues:
        text = text.replace(f" {cue}", "")
    return text


def decoys_of(tasks: Sequence[Task]) -> set[str]:
    """Names of the topics that are a wish in no task."""
    families = [family_of(task)[0] for task in tasks]
    wished = {family.topics[i].name for family in families for i in family.relevant}
    return {topic.name for family in families for topic in family.topics} - wished


class Probe(TrainerCallback):  # type: ignore[misc]
    """Measures the preferences after every so many steps, and prints them."""

    def __init__(self, measure: Any, steps: int, tasks_per_step: float) -> None:
        self.measure, self.steps, self.tasks_per_step = measure, steps, tasks_per_step
        self.rows: list[Row] = []

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Called by the trainer."""
        if state.global_step % self.steps == 0 or state.global_step == state.max_steps:
            self.note(state.global_step)

    def note(self, step: int) -> None:
        """Measure now."""
        self.rows.append({"tasks": round(step * self.tasks_per_step), "step": step, **self.measure()})
        print(json.dumps(self.rows[-1]), flush=True)


def curve(run: Run, config: Any, num_tasks: int, every: int, probed: int, per_wish: int) -> list[Row]:
    """The preferences before training and after every so many tasks."""
    transformers.set_seed(run.seed)
    rng, arguments = random.Random(run.seed), run.config.model
    train, unseen = list(run.train), list(load_tasks("embedded:unseen"))
    decoys = decoys_of(train)
    pairs = list(exact_pairs(rng.sample(train, num_tasks), per_wish, rng))
    held_out = rng.sample(unseen, probed)
    chat = load_chat(run.initial_model, arguments)
    with tempfile.TemporaryDirectory() as folder:
        config.output_dir, config.save_strategy = folder, "no"
        trainer = TurnwiseDPOTrainer(
            **initial_model(run.initial_model, arguments),
            args=config,
            train_dataset=Dataset.from_list([preference(pair, chat, arguments) for pair in pairs]),
            processing_class=chat.tokenizer,
        )
        model = without_wrapper(trainer.model)
        tasks_per_step = config.per_device_train_batch_size * config.gradient_accumulation_steps * num_tasks / len(pairs)
        probe = Probe(
            lambda: preferences(model, chat, system_prompt(arguments), held_out, decoys), max(1, round(every / tasks_per_step)), tasks_per_step
        )  # fmt: skip
        probe.note(0)
        trainer.add_callback(probe)
        trainer.train()
    return probe.rows


def policies(run: Run, probed: int) -> list[Row]:
    """The preferences of the base model, with the prompt `eval_pretrained` if there is one, and of the run's policies."""
    arguments, start = run.config.model, run.initial_model
    prompted = dataclasses.replace(arguments, system_prompt=run.config.evaluation.eval_pretrained or arguments.system_prompt)
    named = {
        "pretrained": (arguments.model, arguments.model, prompted),
        "initial": (start, start, arguments),
        "trained": (str(run.artifact(run.algorithm.name, "policy")), start, arguments),
    }
    held_out, decoys = random.Random(run.seed).sample(list(load_tasks("embedded:unseen")), probed), decoys_of(run.train)
    rows = list[Row]()
    for name, (path, base, settings) in named.items():
        model = load_model(path, base, settings, is_trained=False).eval()
        found = preferences(model, load_chat(base, settings), system_prompt(settings), held_out, decoys)
        rows.append({"policy": name, **found})
        print(json.dumps(rows[-1]), flush=True)
    return rows


def main(argv: Sequence[str] | None = None) -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="folder of a run with a critic")
    parser.add_argument("--num_tasks", type=int, default=600)
    parser.add_argument("--every", type=int, default=100)
    parser.add_argument("--probed", type=int, default=60, help="tasks on which the preferences are measured")
    parser.add_argument("--per_wish", type=int, default=4, help="pairs of a wish")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--learning_rate", type=float, help="the run's by default")
    parser.add_argument("--epochs", type=float, help="the run's by default")
    options = parser.parse_args(argv)
    run = open_recorded(options.run)
    config = dpo_arguments(run, run.algorithm.name)
    config.learning_rate = options.learning_rate or config.learning_rate
    config.num_train_epochs = options.epochs or config.num_train_epochs
    if options.num_tasks:
        rows = curve(run, config, options.num_tasks, options.every, options.probed, options.per_wish)
    else:
        rows = policies(run, options.probed)
    if options.output:
        trained = {"learning_rate": config.learning_rate, "epochs": config.num_train_epochs, "num_tasks": options.num_tasks}
        made = {**(trained if options.num_tasks else {}), "seed": run.seed}
        options.output.write_text(json.dumps({**made, "rows": rows}, indent=1) + "\n")


def _messages(request: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": request}]


if __name__ == "__main__":
    main()
