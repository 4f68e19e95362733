"""The file of demonstrations: its first rows, which must be of the run's environment, and dialogues where SFT reads them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from colbench_gym.errors import ColBenchError
from colbench_gym.files import Row
from colbench_gym.outside_text import printable
from colbench_gym.reasoning import Reasoning
from colbench_gym.user_file import parse_row, row_texts
from sweetrl_agent.core.run import Run

_log = logging.getLogger(__name__)


def demonstration_rows(run: Run) -> Iterator[tuple[int, Row]]:
    """The first `sft_dialogues` rows of the file `demonstrations`, numbered from 1. A row need not name its environment.

    The formats of the file are those of `colbench_gym.user_file`. A null, as `datasets` writes for what a row lacks, is read as absent.

    The first row whose environment had other arguments (`env_kwargs`) is logged as a warning: other arguments may mean other texts.

    Raises:
        ColBenchError: If the file has another format, or a row is no JSON object or names another environment (`env`) than the run's.
    """
    task, warned = run.config.task, False
    file, env, arguments = task.demonstrations, task.env.rpartition(":")[2], task.keyword_arguments()
    for number, (_, text) in enumerate(islice(row_texts(Path(file)), run.config.sft.sft_dialogues), 1):
        parsed, problem = parse_row(text)
        if parsed is None:
            raise ColBenchError(f"{file!r}, row {number}: expected {problem}, got {text[:60]!r}; correct or remove the row.")
        row: Row = {name: value for name, value in parsed.items() if value is not None}
        if row.get("env", env) != env:
            raise ColBenchError(f"{file!r}, row {number}: expected an episode of {env}, got one of {str(row['env'])[:80]}.")
        if not warned and _given(row.get("env_kwargs", arguments)) != _given(arguments):
            warned = True
            theirs = printable(str(row["env_kwargs"])[:200])
            _log.warning("%r, row %d: played with `env_kwargs` %s, and this run has %s.", file, number, theirs, arguments)
        yield number, row


def _given(arguments: Any) -> Any:
    """The arguments that are not null."""
    is_table = isinstance(arguments, dict)
    return {name: value for name, value in arguments.items() if value is not None} if is_table else arguments


def file_dialogues(run: Run) -> list[list[Row]]:
    """The dialogues of these rows. A message of the agent has its "thought" apart from its "content", as a sampled one.

    Raises:
        ColBenchError: If a row is not a dialogue or is one of another environment, or there are fewer than an optimizer step takes: the
            learning rate rises from 0, so a single step teaches nothing.
    """
    file, batch = run.config.task.demonstrations, run.config.sft.sft_batch
    reasoning = Reasoning(run.config.model.reasoning)
    found = [_parted(dialogue(row, repr(file), number), reasoning) for number, row in demonstration_rows(run)]
    if not found:
        raise ColBenchError(f"`demonstrations` {file!r} contains no dialogue.")
    if len(found) < batch and run.config.model.history < 0:
        raise ColBenchError(
            f"{file!r} has {len(found)} dialogues, and an optimizer step of SFT takes {batch} (`sft_batch`), so nothing would be learnt. "
            f"Give more, or a smaller `--sft_batch`{'' if run.config.is_tiny else '; `--sft_dialogues 0` leaves SFT out'}."
        )
    return found


def _parted(messages: list[Row], reasoning: Reasoning) -> list[Row]:
    parted = []
    for message in messages:
        reply = reasoning.split(message["content"])
        has_thought = message["role"] == "assistant" and reply.thought
        parted.append({**message, "content": reply.speech, "thought": reply.thought} if has_thought else message)
    return parted


def dialogue(row: Row, where: str, number: int) -> list[Row]:
    """The messages of a row.

    Raises:
        ColBenchError: If they are not a dialogue, or the assistant says nothing in it.
    """
    messages: Any = row.get("messages", row.get("dialogue_history"))
    is_one = isinstance(messages, list) and all(
        isinstance(said, dict) and said.get("role") in ("system", "user", "assistant") and isinstance(said.get("content"), str)
        for said in messages
    )
    if not is_one or not any(said["role"] == "assistant" for said in messages):
        raise ColBenchError(
            f'{where}, row {number}: expected {{"messages": [{{"role": "user" or "assistant", "content": text}}, ...]}} with a message of the '
            f"assistant, got {str(row)[:80]}."
        )
    return list(messages)
