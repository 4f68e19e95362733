"""Sizes of a run's dialogues in tokens: of collected episodes, of demonstrations, or assumed where there are neither."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from itertools import islice
from typing import Any

from colbench_gym.files import iter_rows
from sweetrl_agent.config.packaged import FOLDER
from sweetrl_agent.core.episode import Messages
from sweetrl_agent.core.run import Run, demonstrated_tasks
from sweetrl_agent.core.work import Lengths
from sweetrl_agent.models.loading import load_tokenizer, system_prompt
from sweetrl_agent.models.tiny import build_tokenizer
from sweetrl_agent.trainers.demonstration_file import demonstration_rows, dialogue

#: Dialogues and tasks that are looked at; a demonstration with pages takes a tenth of a second.
MOST_DIALOGUES, MOST_TASKS = 32, 4
#: Assumed sizes; half of an episode's limit of turns where it is known. arXiv:2503.15478 gives no counts, these are dialogues on its rows.
ASSUMED = Lengths(turns=5, request=350, agent=120, reply=60, hidden=250, source="assumed")
#: Tokens that a chat template puts around a message.
AROUND = 4


def assumed_lengths(config: Any) -> Lengths:
    """Sizes of a dialogue where nothing of the run's tasks is known."""
    return replace(ASSUMED, agent=min(ASSUMED.agent, config.model.max_new_tokens))


def known_dialogues(run: Run) -> tuple[list[Messages], str]:
    """Some dialogues of a run and what they are: collected episodes, demonstrations, or [] if it has neither."""
    if rows := list(islice(iter_rows(run.path("trajectories.jsonl")), MOST_DIALOGUES)):
        return [row["dialogue_history"] for row in rows], "as collected"
    return _demonstrated(run, MOST_DIALOGUES), "as in demonstrations"


def _demonstrated(run: Run, count: int) -> list[Messages]:
    task, record = run.config.task, run.record
    if file := run.config.demonstration_file:
        return [dialogue(row, repr(file), number) for number, row in islice(demonstration_rows(run), count)]
    if not record.has_demonstrations(task):
        return []
    demonstrate = record.demonstrations if run.config.is_tiny else record.pretrained_demonstrations
    return [
        talk["messages"] if isinstance(talk, dict) else talk for talk in demonstrate(demonstrated_tasks(run), count, run.seed)
    ]


def tokenizer_of(run: Run, dialogues: Sequence[Messages]) -> Any:
    """The tokenizer of the run's model; for a tiny model that SFT makes, one of the same size made of these dialogues; None if it cannot be loaded."""
    config = run.config
    try:
        if config.is_tiny and run.path("initial/tokenizer.json").is_file():
            return load_tokenizer(run.initial_model, config.model)
        if not config.is_tiny or config.initial_policy == "packaged":
            return load_tokenizer(str(FOLDER) if config.is_tiny else config.model.model, config.model)
        texts = (message["content"] for messages in dialogues for message in messages)
        return build_tokenizer(texts, config.sft.tiny_vocab_size, run.record.max_token_length, run.record.pieces)
    except Exception:  # of any type; the checks name what is wrong with it
        return None


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
    if spoken := [messages for messages in dialogues if any(message["role"] == "assistant" for message in messages)]:
        return _measured(spoken, count, instructions, hidden, source)
    limits = [run.record.turn_limit(task, run.config.task) for task in run.tasks[:1]]
    turns = max(1.0, limits[0] / 2) if limits and limits[0] else ASSUMED.turns
    return replace(assumed_lengths(run.config), turns=turns, request=request + instructions, hidden=hidden)


def _counter(tokenizer: Any) -> Any:
    def count(text: str) -> float:
        tokens = len(text) / 4 if tokenizer is None else len(tokenizer(text, add_special_tokens=False)["input_ids"])
        return tokens + AROUND if text else 0.0

    return count


def _at_reset(run: Run, count: Any) -> tuple[float, float]:
    """Mean tokens of a first message and of the hidden information of the first tasks."""
    tasks = run.tasks[:MOST_TASKS]
    requests, hidden = [0.0], [0.0]
    if not run.record.waits:
        with closing(run.environment(tasks, 1)) as env:
            for task in tasks:
                env.envs[0].reset(seed=0, options={"task_id": task.id})
                requests.append(sum(count(message["content"]) for message in env.envs[0].messages))
                hidden.append(count(str(env.envs[0].hidden_information)))
    return sum(requests) / max(1, len(requests) - 1), sum(hidden) / max(1, len(hidden) - 1)


def _measured(dialogues: Sequence[Messages], count: Any, instructions: float, hidden: float, source: str) -> Lengths:
    """Means over dialogues. A leading system message of a demonstration is hidden information or instructions, and is not counted."""
    spoken = [count(message["content"]) for messages in dialogues for message in messages if message["role"] == "assistant"]
    heard = [[count(message["content"]) for message in messages if message["role"] == "user"] for messages in dialogues]
    replies = [reply for sizes in heard for reply in sizes[1:]]
    request = sum(sizes[0] for sizes in heard if sizes) / len(dialogues) + instructions
    agent, reply = sum(spoken) / len(spoken), sum(replies) / max(1, len(replies))
    return Lengths(len(spoken) / len(dialogues), request, agent, reply, hidden, source)
