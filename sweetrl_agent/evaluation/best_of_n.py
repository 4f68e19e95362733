"""Best-of-N per turn: how much a critic alone improves the initial policy (arXiv:2503.15478, Figure 3a).

At every turn N candidates are sampled from the initial policy, and the one with the best score is used. Critics that see the hidden information
use it at test time, which an agent must not: the curves measure the critic, not a deployable agent.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import Any, cast

from colbench_gym.files import Row, read_rows
from sweetrl_agent.algorithms.critics import hidden_for, kind_of, open_critic
from sweetrl_agent.algorithms.initial import InitialPolicy
from sweetrl_agent.core.critic import Critic
from sweetrl_agent.core.episode import Messages
from sweetrl_agent.core.policy import Policy, Utterance
from sweetrl_agent.evaluation.held_out import record
from sweetrl_agent.evaluation.statistics import cell_table, on_same_tasks, score_of
from sweetrl_agent.rollouts.speakers import BestOf
from sweetrl_agent.trainers.run import Run

ROWS = "best_of_n.jsonl"


class RememberingPolicy:
    """Caches the utterances of a policy: N, 2N, 4N candidates and all critics share most of their samples."""

    def __init__(self, policy: Policy) -> None:
        """Cache the utterances of this policy."""
        self.policy = policy
        self.sampled: dict[tuple[tuple[str, ...], int], Utterance] = {}

    def generate(self, dialogues: Sequence[Messages], seeds: Sequence[int]) -> list[Utterance]:
        """Sample the next utterance of every dialogue; see `Policy`."""
        keys = [(tuple(m["content"] for m in dialogue), seed) for dialogue, seed in zip(dialogues, seeds, strict=True)]
        new = {key: dialogue for key, dialogue in zip(keys, dialogues, strict=True) if key not in self.sampled}
        utterances = self.policy.generate(list(new.values()), [seed for _, seed in new])
        self.sampled |= dict(zip(new, utterances, strict=True))
        return [self.sampled[key] for key in keys]


def best_of_n(
    run: Run,
    critics: Sequence[str],
    sizes: Sequence[int],
    num_tasks: int,
) -> None:
    """Play best-of-N episodes on the first test tasks, for every critic and N; writes best_of_n.jsonl."""
    start = cache(lambda: RememberingPolicy(cast(Policy, InitialPolicy().load(run))))
    for critic in critics:
        with open_critic(run, critic) as opened:
            credit = partial(_credit, run, opened, critic)
            for size in sizes:
                label = {"agent": critic, "candidates": size, "tasks": num_tasks}
                record(
                    run,
                    run.path(ROWS),
                    label,
                    run.test[:num_tasks],
                    start,
                    "best of",
                    best_of=BestOf(size, credit, kind_of(run, critic).has_replies),
                )


def _credit(
    run: Run, critic: Critic, name: str, dialogue: Messages, hidden: str, texts: Sequence[str], replies: Sequence[str]
) -> list[float]:
    more = (replies,) if kind_of(run, name).has_replies else ()
    return cast(Any, critic).rank(dialogue, hidden_for(run, name, hidden), texts, *more)  # type: ignore[no-any-return]


def summarize(runs: Sequence[Run], critics: Sequence[str], sizes: Sequence[int], num_tasks: int) -> list[Row]:
    """For every critic and N, on those of the first `num_tasks` test tasks that are void for none: "critic", "candidates", "success" with "ci95" over runs and tasks, "n" tasks and "seeds"."""
    rows = {run.seed: read_rows(run.path(ROWS)) for run in runs}
    cells = [{"agent": critic, "candidates": size, "tasks": num_tasks} for critic in critics for size in sizes]
    same = on_same_tasks(rows, cells)
    tables = [(cell, cell_table(same, cell)) for cell in cells]  # empty if every episode of a seed is void
    return [
        {"critic": cell["agent"], "candidates": cell["candidates"], **score_of(scores)}
        for cell, scores in tables
        if scores.size
    ]
