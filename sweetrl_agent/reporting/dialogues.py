"""The sample of dialogues in the page: small, but complete for each episode shown.

First come dialogues with advantages, then the other agents' dialogues in the same episodes of the same tasks, then further
episodes, alternating between splits. The page reports how many are left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from sweetrl_agent.reporting.figures import measure, number
from sweetrl_agent.reporting.markup import embedded_json
from sweetrl_agent.reporting.run_folder import Record, RunFolder
from sweetrl_agent.reporting.scores import metric_of

MAX_DIALOGUES = 120
MAX_BYTES = 1_000_000
MAX_MESSAGE_CHARS = 8_000
MAX_NAME_CHARS = 200

Case = tuple[str, str, str]
Key = tuple[str, str, str, str]


def dialogues_data(run: RunFolder) -> dict[str, Any]:
    """The sample as JSON data: the dialogues, those with advantages first, their total number, and the agents."""
    advantages = {_key(record): values for record in run.advantages if (values := _numbers(record.get("advantages")))}
    dialogues: list[dict[str, Any]] = []
    size = 0
    for record in _in_order_of_interest(run.evaluation, set(advantages)):
        dialogue = _dialogue(record, metric_of(run.results), advantages.get(_key(record)))
        num_bytes = len(embedded_json(dialogue).encode("utf-8", "replace"))
        if len(dialogues) == MAX_DIALOGUES:
            break
        if size + num_bytes <= MAX_BYTES:
            dialogues.append(dialogue)
            size += num_bytes
    agents = dict.fromkeys([*run.results, *(dialogue["agent"] for dialogue in dialogues)])
    present = {dialogue["agent"] for dialogue in dialogues}
    return {
        "dialogues": dialogues,
        "in_all": len(run.evaluation),
        "agents": [agent for agent in agents if agent in present],
    }


def _in_order_of_interest(evaluation: Sequence[Record], with_advantages: set[Key]) -> Iterator[Record]:
    """Every record once: those with advantages, other agents' records of the same cases, then other cases, alternating between splits."""
    leading_cases = {_case(key) for record in evaluation if (key := _key(record)) in with_advantages}
    yield from (record for record in evaluation if _key(record) in with_advantages)
    splits: dict[str, dict[Case, list[Record]]] = {}
    for record in evaluation:
        key = _key(record)
        if key in with_advantages:
            continue
        if _case(key) in leading_cases:
            yield record
        else:
            splits.setdefault(key[1], {}).setdefault(_case(key), []).append(record)
    queues = [iter(cases.values()) for cases in splits.values()]
    while queues:
        turn = [(queue, next(queue, None)) for queue in queues]
        queues = [queue for queue, records in turn if records is not None]
        yield from (record for _, records in turn for record in records or ())


def _key(record: Record) -> Key:
    agent, split, task_id = (str(record.get(name, "?")) for name in ("agent", "split", "task_id"))
    return (agent, split, task_id, str(record.get("episode", 0)))


def _case(key: Key) -> Case:
    return key[1:]


def _numbers(values: object) -> list[float | None]:
    if not isinstance(values, list):
        return []
    return [None if (value := number(raw)) is None else float(f"{value:.4g}") for raw in values]


def _dialogue(record: Record, metric: str, advantages: list[float | None] | None) -> dict[str, Any]:
    agent, split, task_id, episode = (_clipped(name, MAX_NAME_CHARS) for name in _key(record))
    history = record.get("dialogue_history")
    messages = [_message(message) for message in history] if isinstance(history, list) else []
    value = number(record.get(metric))
    return {
        "agent": agent,
        "split": split,
        "task": task_id,
        "episode": episode,
        "outcome": _clipped(str(record.get("outcome") or "unknown"), MAX_NAME_CHARS),
        "success": number(record.get("success")),
        "metric": None if value is None else f"{metric.replace('_', ' ')} {measure(metric, value)}",
        "turns": number(record.get("turns")),
        "messages": messages,
        "advantages": advantages,
    }


def _message(message: object) -> tuple[str, str]:
    """(role, text) of a message; tolerates malformed messages."""
    if not isinstance(message, dict):
        return ("?", _clipped(json.dumps(message), MAX_MESSAGE_CHARS))
    content = message.get("content", "")
    text = content if isinstance(content, str) else json.dumps(content)
    return (_clipped(str(message.get("role", "?")), MAX_NAME_CHARS), _clipped(text, MAX_MESSAGE_CHARS))


def _clipped(text: str, max_chars: int) -> str:
    if len(text) <= max_chars:
        return text
    return f"{text[:max_chars]}\n[{len(text) - max_chars} more characters are left out of the report]"
