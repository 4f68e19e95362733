"""The sample of dialogues in the page: small, but complete for each episode shown.

First come episodes with advantages, with all agents' dialogues in them; then, for every agent, some dialogues of each kind of failure; then
further episodes, alternating between splits. The page reports how many are left out.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from colbench_gym.agents.agent import AGENT_TURNS
from sweetrl_agent.reporting.explanations import clipped, explanation, texts
from sweetrl_agent.reporting.failures import kinds_of
from sweetrl_agent.reporting.figures import measure, number
from sweetrl_agent.reporting.markup import embedded_json
from sweetrl_agent.reporting.run_folder import Record, RunFolder
from sweetrl_agent.reporting.scores import metric_of

MAX_DIALOGUES = 120
#: Dialogues of episodes with advantages that come before examples of each kind of failure, and examples of each agent and kind.
MAX_LEADING, EXAMPLES = 72, 3
#: Size of dialogues with explanations, and of pictures.
MAX_BYTES, MAX_PICTURE_BYTES = 1_100_000, 1_500_000
MAX_MESSAGE_CHARS = 8_000
MAX_NAME_CHARS = 200
#: The critic of a run; others are listed by their folders.
OWN_CRITIC = "sweet"

Case = tuple[str, str, str]
Key = tuple[str, str, str, str]
#: Advantages of each turn, by critic.
Advantages = dict[str, list[float | None]]


def dialogues_data(run: RunFolder) -> dict[str, Any]:
    """The sample as JSON data: the dialogues, their total number, the agents, and the kinds of failure."""
    advantages = _advantages(run)
    failures = {key_of(record): record for record in run.failures}
    explained = {key_of(record): record for record in run.explanations}
    dialogues: list[dict[str, Any]] = []
    size = pictures = 0
    for record in shown_records(run.evaluation, set(advantages), {key: str(one.get("kind")) for key, one in failures.items()}):
        key = key_of(record)
        known = {**_explained_advantages(explained.get(key, {})), **advantages.get(key, {})}
        dialogue = _dialogue(record, metric_of(run.results), dict(sorted(known.items(), key=lambda one: one[0] != OWN_CRITIC)))
        dialogue |= {"kind": None, "about": [], **_failure(failures.get(key))}
        dialogue["why"] = explanation(explained.get(key, {}), dialogue["success"] == 1)
        in_pictures = sum(len(dialogue["why"].get("pages", {}).get(side, "")) for side in ("wanted", "got"))
        if in_pictures and pictures + in_pictures > MAX_PICTURE_BYTES:
            dialogue["why"]["pages"] |= {"wanted": "", "got": ""}
            in_pictures = 0
        num_bytes = len(embedded_json(dialogue).encode("utf-8", "replace")) - in_pictures
        if size + num_bytes <= MAX_BYTES:
            dialogues.append(dialogue)
            size, pictures = size + num_bytes, pictures + in_pictures
    present = {dialogue["agent"] for dialogue in dialogues}
    agents = dict.fromkeys([*run.results, *(dialogue["agent"] for dialogue in dialogues)])
    used = {dialogue["kind"] for dialogue in dialogues}
    return {
        "dialogues": dialogues,
        "in_all": len(run.evaluation),
        "agents": [agent for agent in agents if agent in present],
        "kinds": [kind for kind in kinds_of(run.results) if kind["name"] in used],
    }


def shown_records(evaluation: Sequence[Record], with_advantages: Collection[Key], kinds: Mapping[Key, str]) -> list[Record]:
    """The rows of the episodes that a report shows, most interesting first, at most `MAX_DIALOGUES`.

    Args:
        evaluation: Rows of evaluation.jsonl.
        with_advantages: Keys of the episodes that have advantages.
        kinds: Kind of failure of each episode; empty if unknown.
    """
    cases: dict[Case, list[Record]] = {}
    for record in evaluation:
        cases.setdefault(_case(key_of(record)), []).append(record)
    leading = [
        record
        for records in cases.values()
        if any(key_of(record) in with_advantages for record in records)
        for record in sorted(records, key=lambda record: key_of(record) not in with_advantages)
    ]
    ordered = [*leading[:MAX_LEADING], *_examples(evaluation, leading[:MAX_LEADING], kinds), *leading, *_alternating(cases)]
    unique = {id(record): record for record in ordered}
    return list(islice(unique.values(), MAX_DIALOGUES))


def _examples(evaluation: Sequence[Record], chosen: Sequence[Record], kinds: Mapping[Key, str]) -> Iterator[Record]:
    """Records of each agent's kinds of failure of which fewer than `EXAMPLES` are chosen already."""
    seen = Counter((key[0], kinds[key]) for key in map(key_of, chosen) if key in kinds)
    taken = {id(record) for record in chosen}
    for record in evaluation:
        key = key_of(record)
        if key in kinds and id(record) not in taken and seen[key[0], kinds[key]] < EXAMPLES:
            seen[key[0], kinds[key]] += 1
            yield record


def _alternating(cases: Mapping[Case, Sequence[Record]]) -> Iterator[Record]:
    """All records, case by case, alternating between splits."""
    splits: dict[str, list[Sequence[Record]]] = {}
    for case, records in cases.items():
        splits.setdefault(case[0], []).append(records)
    queues = [iter(of_split) for of_split in splits.values()]
    while queues:
        turn = [(queue, next(queue, None)) for queue in queues]
        queues = [queue for queue, records in turn if records is not None]
        yield from (record for _, records in turn for record in records or ())


def _advantages(run: RunFolder) -> dict[Key, Advantages]:
    """Advantages of the dialogues that critics have scored, by critic."""
    found: dict[Key, Advantages] = {}
    for critic, records in {OWN_CRITIC: run.advantages, **run.other_advantages}.items():
        for record in records:
            if values := _numbers(record.get("advantages")):
                found.setdefault(key_of(record), {})[clipped(critic, MAX_NAME_CHARS)] = values
    return found


def _explained_advantages(found: Record) -> Advantages:
    """Advantages in an explanation, by critics that need no model."""
    by_critic = found.get("advantages")
    if not isinstance(by_critic, dict):
        return {}
    return {clipped(name, MAX_NAME_CHARS): of for name, values in list(by_critic.items())[:5] if (of := _numbers(values))}


def _failure(found: Record | None) -> dict[str, Any]:
    return {"kind": clipped(found.get("kind"), MAX_NAME_CHARS), "about": texts(found.get("about"))} if found else {}


def key_of(record: Record) -> Key:
    """What identifies an episode in the files of a run: agent, split, task and index."""
    agent, split, task_id = (str(record.get(name, "?")) for name in ("agent", "split", "task_id"))
    return (agent, split, task_id, str(record.get("episode", 0)))


def _case(key: Key) -> Case:
    return key[1:]


def _numbers(values: object) -> list[float | None]:
    if not isinstance(values, list):
        return []
    return [None if (value := number(raw)) is None else float(f"{value:.4g}") for raw in values]


def _dialogue(record: Record, metric: str, advantages: Advantages) -> dict[str, Any]:
    agent, split, task_id, episode = (_clipped(name, MAX_NAME_CHARS) for name in key_of(record))
    history = record.get("dialogue_history")
    messages = [_message(message) for message in history] if isinstance(history, list) else []
    turns = iter(found if isinstance(found := record.get(AGENT_TURNS), list) else [])
    with_thoughts = [(role, text, *(_beside(next(turns, None)) if role == "assistant" else ())) for role, text in messages]
    value = number(record.get(metric))
    return {
        "agent": agent,
        "split": split,
        "task": task_id,
        "episode": episode,
        "outcome": _clipped(str(record.get("outcome") or "unknown"), MAX_NAME_CHARS),
        "void_reason": _clipped(str(record.get("void_reason") or ""), MAX_MESSAGE_CHARS),
        "success": number(record.get("success")),
        "metric": None if value is None else f"{metric.replace('_', ' ')} {measure(metric, value)}",
        "turns": number(record.get("turns")),
        "messages": with_thoughts,
        "advantages": advantages or None,
    }


def _message(message: object) -> tuple[str, str]:
    """(role, text) of a message; tolerates malformed messages."""
    if not isinstance(message, dict):
        return ("?", _clipped(json.dumps(message), MAX_MESSAGE_CHARS))
    content = message.get("content", "")
    text = content if isinstance(content, str) else json.dumps(content)
    return (_clipped(str(message.get("role", "?")), MAX_NAME_CHARS), _clipped(text, MAX_MESSAGE_CHARS))


def _beside(turn: object) -> tuple[str, ...]:
    """The thought of a turn, and why it ended if its model did not end it; () if neither is known."""
    if not isinstance(turn, dict):
        return ()
    thought, reason = (str(turn.get(name) or "") for name in ("thought", "finish_reason"))
    return (_clipped(thought, MAX_MESSAGE_CHARS), _clipped(reason, MAX_NAME_CHARS)) if thought or reason else ()


def _clipped(text: str, max_chars: int) -> str:
    if len(text) <= max_chars:
        return text
    return f"{text[:max_chars]}\n[{len(text) - max_chars} more characters are left out of the report]"
