"""Best-of-N per turn: how much a critic alone improves the initial policy (arXiv:2503.15478, Figure 3a).

At every turn N candidates are sampled from the initial policy, and the one with the best score is used. Critics that see the hidden information
use it at test time, which an agent must not: the curves measure the critic, not a deployable agent.
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
    """Caches the utterances of a policy: N, 2N, 4N candidates and all critics share most of their samples."""

    def __init__(self, policy: Policy) -> None:
        """Cache the utterances of this policy."""
        self.policy = policy
        self.said: dict[tuple[tuple[str, ...], int], Utterance] = {}

    def generate(self, dialogues: Sequence[Messages], seeds: Sequence[int]) -> list[Utterance]:
        """Sample the next utterance of every dialogue; see `Policy`."""
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
    """Play best-of-N episodes on the first test tasks, for every critic and N; writes best_of_n.jsonl.

    `own` has the settings of single critics.
    """
    start = cache(lambda: RememberingPolicy(ALGORITHMS["zero_shot"].load(run)))
    for critic in critics:
        as_set = run.with_settings(own.get(critic, {}))
        with open_critic(as_set, critic) as critic_:
            credit = partial(_credit, as_set, critic_, CRITICS[critic])
            for size in sizes:
                label = {"agent": critic, "candidates": size, "tasks": num_tasks}
                record(run, run.path(ROWS), label, run.test[:num_tasks], start, "best of", best_of=BestOf(size, credit))


def _credit(run: Run, critic: Critic, kind: CriticKind, dialogue: Messages, hidden: str, texts: Sequence[str]) -> list[float]:
    return critic.rank(dialogue, kind.hidden_for(run, hidden), texts)


def summarize(runs: Sequence[Run], critics: Sequence[str], sizes: Sequence[int], num_tasks: int) -> list[Row]:
    """For every critic and N, on the first `num_tasks` test tasks: "critic", "candidates", "success" with "ci95" over runs and tasks, "n" tasks and "seeds"."""
    rows = {run.seed: [row for row in read_rows(run.path(ROWS)) if row["tasks"] == num_tasks] for run in runs}
    found = []
    for critic in critics:
        for size in sizes:
            of_cell = {seed: [r for r in own if (r["agent"], r["candidates"]) == (critic, size)] for seed, own in rows.items()}
            scores = task_table(of_cell, "success")
            if scores.size:  # empty if every episode of a seed is void
                found.append({"critic": critic, "candidates": size, **score_of(scores)})
    return found
