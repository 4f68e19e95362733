"""Sizes of a run's dialogues in tokens: of collected episodes, of demonstrations, or assumed where there are neither."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from itertools import islice
from typing import Any

from sweetrl_agent.config.packaged import FOLDER
from sweetrl_agent.core.episode import Messages
from sweetrl_agent.core.run import Run
from sweetrl_agent.core.work import Lengths
from sweetrl_agent.data.files import iter_rows
from sweetrl_agent.models.loading import load_tokenizer, system_prompt
from sweetrl_agent.models.tiny import build_tokenizer
from sweetrl_agent.trainers.demonstration_file import demonstration_rows, dialogue

#: Dialogues and tasks that are looked at; a demonstration with pages takes a tenth of a second.
MOST_DIALOGUES, MOST_TASKS = 32, 4
#: Assumed tokens of a turn, if `max_new_tokens` is not less, and of a reply: arXiv:2503.15478 gives no counts, these are dialogues on its rows.
ASSUMED_TURN, ASSUMED_REPLY = 120, 60
#: Assumed turns of an episode whose limit is not known; else half of the limit is assumed.
ASSUMED_TURNS = 5
#: `Lengths.source` of such sizes.
ASSUMED = "assumed"
#: Tokens that a chat template puts around a message.
AROUND = 4


def known_dialogues(run: Run) -> tuple[list[Messages], str]:
    """Some dialogues of a run and what they are: collected episodes, demonstrations, or [] if it has neither."""
    if rows := list(islice(iter_rows(run.path("trajectories.jsonl")), MOST_DIALOGUES)):
        return [row["dialogue_history"] for row in rows], "as collected"
    return _demonstrated(run, MOST_DIALOGUES), "as in demonstrations"


def _demonstrated(run: Run, count: int) -> list[Messages]:
    task, record = run.config.task, run.record
    if task.demonstrations and not run.config.demonstrates_source:
        rows = islice(demonstration_rows(run), count)
        return [dialogue(row, repr(task.demonstrations), number) for number, row in rows]
    if not record.has_demonstrations(task):
        return []
    tasks = record.load_tasks(task.demonstrations, task) if task.demonstrations else run.train
    demonstrate = record.demonstrations if run.config.is_tiny else record.pretrained_demonstrations
    return [one["messages"] if isinstance(one, dict) else one for one in demonstrate(tasks, count, run.seed)]


def tokenizer_of(run: Run, dialogues: Sequence[Messages]) -> Any:
    """The tokenizer of the run's model; for a tiny model that SFT makes, one of the same size made of these dialogues.

    Raises:
        ColBenchError: If it cannot be loaded.
    """
    config = run.config
    if not config.is_tiny:
        return load_tokenizer(config.model.model, config.model)
    if run.path("initial/tokenizer.json").is_file():
        return load_tokenizer(run.initial_model, config.model)
    if config.initial_policy == "packaged":
        return load_tokenizer(str(FOLDER), config.model)
    texts = (said["content"] for messages in dialogues for said in messages)
    return build_tokenizer(texts, config.sft.tiny_vocab_size, run.record.max_token_length, run.record.pieces)


def find_lengths(run: Run, tokenizer: Any, dialogues: Sequence[Messages], source: str) -> Lengths:
    """Sizes of the run's dialogues.

    Args:
        run: The run.
        tokenizer: Its tokenizer; None for sizes of four characters a token.
        dialogues: Some of its dialogues, as `known_dialogues`.
        source: What they are.
    """
    count = _counter(tokenizer)
    request, hidden = _at_reset(run, count)
    instructions = count(system_prompt(run.config.model))
    if spoken := [messages for messages in dialogues if any(said["role"] == "assistant" for said in messages)]:
        return _measured(spoken, count, instructions, hidden, source)
    limits = [run.record.turn_limit(task, run.config.task) for task in run.tasks[:1]]
    turns = max(1.0, limits[0] / 2) if limits and limits[0] else ASSUMED_TURNS
    turn = min(ASSUMED_TURN, run.config.model.max_new_tokens)
    return Lengths(turns, request + instructions, turn, ASSUMED_REPLY, hidden, ASSUMED)


def _counter(tokenizer: Any) -> Any:
    def count(text: str) -> float:
        return (len(text) / 4 if tokenizer is None else len(tokenizer(text, add_special_tokens=False)["input_ids"])) + AROUND

    return lambda text: count(text) if text else 0.0


def _at_reset(run: Run, count: Any) -> tuple[float, float]:
    """Mean tokens of a first message and of the hidden information of the first tasks."""
    tasks = run.tasks[:MOST_TASKS]
    requests, hidden = [0.0], [0.0]
    if not run.record.waits:
        with closing(run.environment(tasks, 1)) as env:
            for task in tasks:
                env.envs[0].reset(seed=0, options={"task_id": task.id})
                requests.append(sum(count(said["content"]) for said in env.envs[0].messages))
                hidden.append(count(str(env.envs[0].hidden_information)))
    return sum(requests) / max(1, len(requests) - 1), sum(hidden) / max(1, len(hidden) - 1)


def _measured(dialogues: Sequence[Messages], count: Any, instructions: float, hidden: float, source: str) -> Lengths:
    """Means over dialogues. A leading system message of a demonstration is hidden information or instructions, and is not counted."""
    spoken = [[count(said["content"]) for said in messages if said["role"] == "assistant"] for messages in dialogues]
    heard = [[count(said["content"]) for said in messages if said["role"] == "user"] for messages in dialogues]
    turns, replies = sum(map(len, spoken)), [reply for own in heard for reply in own[1:]]
    return Lengths(
        turns / len(dialogues),
        sum(own[0] for own in heard if own) / len(dialogues) + instructions,
        sum(map(sum, spoken)) / turns,
        sum(replies) / max(1, len(replies)),
        hidden,
        source,
    )
