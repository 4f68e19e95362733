"""The sample of dialogues in the page: small, but complete for each episode shown.

First come episodes with advantages, with all agents' dialogues in them; then, in turn for every split, agent and kind of failure, an episode with all
agents' dialogues. The page reports how many are left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from sweetrl_agent.reporting.explanations import Advantages
from sweetrl_agent.reporting.failures import kinds_of
from sweetrl_agent.reporting.numbers import measure, number
from sweetrl_agent.reporting.page import embedded_json
from sweetrl_agent.reporting.run_folder import Episode, RunFolder
from sweetrl_agent.reporting.scores import metric_of

MAX_DIALOGUES = 120
#: Dialogues of episodes with advantages that come before those of each kind of failure.
MAX_LEADING = 72
#: Size of dialogues with explanations, and of pictures.
MAX_BYTES, MAX_PICTURE_BYTES = 750_000, 1_000_000
#: The critic of a run; others are listed by their folders.
OWN_CRITIC = "sweet"

#: An episode for all agents: split, task and index; and its dialogue with an agent: the agent, and these.
Case = tuple[str, str, int]
Key = tuple[str, str, str, int]
Row = Mapping[str, Any]


def dialogues_data(run: RunFolder) -> dict[str, Any]:
    """The sample as JSON data: the dialogues, the number of the most telling one, their total number, the agents, and the kinds of failure."""
    advantages: dict[Key, dict[str, Advantages]] = {}
    for critic, scored in {OWN_CRITIC: run.advantages, **run.other_advantages}.items():
        for row in scored:
            advantages.setdefault(key_of(row), {})[critic] = row["advantages"]
    failures = {key_of(row): row for row in run.failures}
    explained = {key_of(vars(row)): row for row in run.explanations}
    dialogues: list[dict[str, Any]] = []
    size = pictures = 0
    for record in shown_records(run.evaluation, advantages, {key: row["kind"] for key, row in failures.items()}):
        key = key_of(record)
        dialogue = _dialogue(record, metric_of(run.results)) | {"why": {}, "kind": None, "about": []}
        critics = advantages.get(key, {})
        if explanation := explained.get(key):
            critics = {**explanation.advantages, **critics}
            dialogue["why"] = explanation.shown(dialogue["success"] == 1)
        if failure := failures.get(key):
            dialogue |= {"kind": failure["kind"], "about": failure.get("about", [])}
        dialogue["advantages"] = dict(sorted(critics.items(), key=lambda item: item[0] != OWN_CRITIC)) or None
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
        "first": _most_telling(dialogues, list(dict.fromkeys(row["agent"] for row in run.evaluation))),
        "in_all": len(run.evaluation),
        "agents": [agent for agent in agents if agent in present],
        "kinds": [kind for kind in kinds_of(run.results) if kind["name"] in used],
    }


def _most_telling(dialogues: Sequence[Row], agents: Sequence[str]) -> int:
    """Number of the dialogue that the page opens with.

    Best is a success where an earlier one of the agents, such as the initial policy, asks otherwise and fails; then a task on which agents differ in
    success, with advantages, several turns and an explanation.
    """
    sides: dict[Case, list[Row]] = {}
    for dialogue in dialogues:
        sides.setdefault(_side(dialogue), []).append(dialogue)

    def improves(dialogue: Row) -> bool:
        earlier = agents[: agents.index(dialogue["agent"])]
        return dialogue["success"] == 1 and any(
            other["agent"] in earlier and other["success"] == 0 and _questions(other) != _questions(dialogue)
            for other in sides[_side(dialogue)]
        )

    def interest(dialogue: Row) -> tuple[bool, ...]:
        differs = len({other["success"] for other in sides[_side(dialogue)]}) > 1
        is_graded = dialogue["success"] is not None and dialogue["outcome"] in ("passed", "wrong")
        has_turns = (dialogue["turns"] or 0) > 1
        return improves(dialogue), differs, is_graded, bool(dialogue["advantages"]), has_turns, bool(dialogue["why"])

    return max(range(len(dialogues)), key=lambda i: interest(dialogues[i]), default=0)


def _questions(dialogue: Row) -> list[str]:
    """What the agent says before its last message."""
    return [content for role, content, *_ in dialogue["messages"] if role == "assistant"][:-1]


def _side(dialogue: Row) -> Case:
    return (dialogue["split"], dialogue["task"], dialogue["episode"])


def shown_records(evaluation: Sequence[Row], with_advantages: Collection[Key], kinds: Mapping[Key, str]) -> list[Any]:
    """The rows of the episodes that a report shows, most interesting first, at most `MAX_DIALOGUES`.

    Args:
        evaluation: Rows of evaluation.jsonl.
        with_advantages: Keys of the episodes that have advantages.
        kinds: Kind of failure of each episode; empty if unknown.
    """
    cases: dict[Case, list[Row]] = {}
    queues: dict[tuple[str, str, str], list[Case]] = {}
    for row in evaluation:
        key = key_of(row)
        cases.setdefault(key[1:], []).append(row)
        queues.setdefault((key[0], key[1], kinds.get(key, "")), []).append(key[1:])
    scored = {key[1:] for key in with_advantages}
    leading = [
        row
        for case, rows in cases.items()
        if case in scored
        for row in sorted(rows, key=lambda row: key_of(row) not in with_advantages)
    ]
    in_turn = (case for turn in zip_longest(*queues.values()) for case in turn if case)
    ordered = [*leading[:MAX_LEADING], *(row for case in in_turn for row in cases[case])]
    return [*{id(row): row for row in ordered}.values()][:MAX_DIALOGUES]


def key_of(row: Row) -> Key:
    """What identifies an episode in the files of a run: agent, split, task and index."""
    return row["agent"], row["split"], row["task_id"], row["episode"]


def _dialogue(record: Episode, metric: str) -> dict[str, Any]:
    turns: Iterator[Row] = iter(record.get("agent_turns", ()))
    messages = [
        (
            message["role"],
            message["content"],
            *_beside(next(turns, {}) if message["role"] == "assistant" else {}, message.get("agent", "")),
        )
        for message in record.get("dialogue_history", ())
    ]
    value = number(record.get(metric))
    return {
        "agent": record["agent"],
        "split": record["split"],
        "task": record["task_id"],
        "episode": record["episode"],
        "outcome": record["outcome"],
        "void_reason": record.get("void_reason") or "",
        "success": record.get("success"),
        "metric": None if value is None else f"{metric.replace('_', ' ')} {measure(metric, value)}",
        "turns": record.get("turns"),
        "messages": messages,
    }


def _beside(turn: Row, agent: str) -> tuple[str, ...]:
    """The thought of a turn, why it ended if its model did not end it, and the name of one of several agents; () if none is known."""
    beside = (turn.get("thought") or "", turn.get("finish_reason") or "", agent)
    return beside if any(beside) else ()
