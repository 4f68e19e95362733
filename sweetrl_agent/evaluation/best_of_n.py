"""Best of N per turn: how far a critic alone carries the start (arXiv:2503.15478, Figure 3a).

The start says N candidates at every turn and the critic's favourite is taken. Critics that are told the hidden information use it at
test time, which no agent may: the curves say what a critic knows, not what an agent can.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, partial
from types import MappingProxyType
from typing import Any

from sweetrl_agent.algorithms.critics import CRITICS, CriticKind, open_critic
from sweetrl_agent.algorithms.registry import ALGORITHMS
from sweetrl_agent.core.critic import Critic
from sweetrl_agent.core.episode import Messages
from sweetrl_agent.core.policy import Policy, Utterance
from sweetrl_agent.data.files import Row, read_rows
from sweetrl_agent.data.run import Run
from sweetrl_agent.evaluation.evaluate import record
from sweetrl_agent.evaluation.statistics import score_of, task_table
from sweetrl_agent.rollouts.scheduler import BestOf

ROWS = "best_of_n.jsonl"


class RememberingPolicy:
    """An agent that samples the same utterance only once: N, 2N, 4N candidates and all critics share most of theirs."""

    def __init__(self, policy: Policy) -> None:
        """Remember what this agent says."""
        self.policy = policy
        self.said: dict[tuple[tuple[str, ...], int], Utterance] = {}

    def generate(self, dialogues: Sequence[Messages], seeds: Sequence[int]) -> list[Utterance]:
        """The next utterance of every dialogue; see `Policy`."""
        keys = [(tuple(m["content"] for m in dialogue), seed) for dialogue, seed in zip(dialogues, seeds, strict=True)]
        new = {key: dialogue for key, dialogue in zip(keys, dialogues, strict=True) if key not in self.said}
        utterances = self.policy.generate(list(new.values()), [seed for _, seed in new])
        self.said |= dict(zip(new, utterances, strict=True))
        return [self.said[key] for key in keys]


def best_of_n(
    run: Run,
    critics: Sequence[str],
    sizes: Sequence[int],
    num_tasks: int,
    own: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
) -> None:
    """Episodes on the first test tasks, a critic's favourite of N at every turn, for every critic and N -> best_of_n.jsonl.

    `own` holds settings that single critics have for themselves.
    """
    start = cache(lambda: RememberingPolicy(ALGORITHMS["zero_shot"].load(run)))
    for critic in critics:
        as_set = run.with_settings(own.get(critic, {}))
        with open_critic(as_set, critic) as critic_:
            credit = partial(_credit, as_set, critic_, CRITICS[critic])
            for size in sizes:
                label = {"agent": critic, "candidates": size}
                record(run, run.path(ROWS), label, run.test[:num_tasks], start, "best of", best_of=BestOf(size, credit))


def _credit(run: Run, critic: Critic, kind: CriticKind, dialogue: Messages, hidden: str, texts: Sequence[str]) -> list[float]:
    return critic.rank(dialogue, kind.hidden_for(run, hidden), texts)


def summarize(runs: Sequence[Run], critics: Sequence[str], sizes: Sequence[int]) -> list[Row]:
    """For every critic and N: "critic", "candidates", "success" with "ci95" over runs and tasks, "n" tasks and "seeds"."""
    rows = {run.seed: read_rows(run.path(ROWS)) for run in runs}
    found = []
    for critic in critics:
        for size in sizes:
            of_cell = {seed: [r for r in own if (r["agent"], r["candidates"]) == (critic, size)] for seed, own in rows.items()}
            scores = task_table(of_cell, "success")
            if scores.size:  # else every episode of some seed is void
                found.append({"critic": critic, "candidates": size, **score_of(scores)})
    return found
