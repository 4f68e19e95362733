"""The tree of MALT: generations of a task, critiques of each and refinements of each; how it is grown, and the values of its nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import chain, groupby
from statistics import fmean
from typing import Any

from colbench_gym.errors import ColBenchError
from colbench_gym.files import Row
from sweetrl_agent.core.episode import BranchKey, Episode, EpisodeKey
from sweetrl_agent.rollouts.play import play

#: A node: the number of the generation, of its critique and of the refinement; the first one or two of these for a generation or a critique.
Node = tuple[int, ...]


def backed_up(leaves: Mapping[Node, float]) -> dict[Node, float]:
    """Values of all nodes of a tree: those of the leaves, and for any other node the mean over its children (step 2)."""
    values = dict(leaves)
    for depth in range(max(map(len, leaves), default=1) - 1, 0, -1):
        children: dict[Node, list[float]] = {}
        for node, value in list(values.items()):
            if len(node) == depth + 1:
                children.setdefault(node[:-1], []).append(value)
        values |= {node: fmean(of_children) for node, of_children in children.items()}
    return values


def sibling_pairs(values: Mapping[Node, float]) -> list[tuple[Node, Node]]:
    """Pairs of nodes with the same parent, the first with label 1 and the second with label 0 (steps 3 and 5)."""
    return [(a, b) for a in values for b in values if a[:-1] == b[:-1] and values[a] > 0.5 >= values[b]]


@dataclass(frozen=True)
class Tree:
    """The tree of a task.

    Attributes:
        leaves: The episode of every leaf, void ones excluded.
        values: Values of all nodes.
    """

    leaves: Mapping[Node, Episode]
    values: Mapping[Node, float]

    @classmethod
    def of(cls, row: Row) -> Tree:
        """The tree of a row of tree.jsonl."""
        played = {tuple(leaf["node"]): Episode.from_row(leaf) for leaf in row["leaves"]}
        leaves = {node: episode for node, episode in played.items() if not episode.is_void}
        return cls(leaves, backed_up({node: float(episode.metrics["success"]) for node, episode in leaves.items()}))

    def said(self, role: str, depth: int) -> dict[Node, Episode]:
        """What a role saw and said, by its nodes, which have this depth; nodes at which an episode was over before are left out."""
        first: dict[Node, Episode] = {}
        for leaf, episode in self.leaves.items():
            if episode.places(role):
                first.setdefault(leaf[:depth], episode.view(role))
        return first


@contextmanager
def grower(run: Any, n: int, roles: Sequence[str]) -> Iterator[Callable[[Sequence[Any]], list[Row]]]:
    """Opens a function that grows the trees of some tasks, as rows of tree.jsonl, by the initial policy.

    Args:
        run: The run, or a round of it.
        n: Nodes of each parent.
        roles: Names of the agents, in the order in which they speak.
    """
    policy, batch = run.load_policy(), run.config.model.generation_batch
    with closing(run.environment(run.tasks, batch)) as env:

        def played(keys: Sequence[EpisodeKey]) -> list[Episode]:
            return list(chain.from_iterable(play(policy, env, keys, run.seed, "tree", keeps_states=True)))

        def grow(tasks: Sequence[Any]) -> list[Row]:
            return grown([task.id for task in tasks], n, roles, played)

        yield grow


def grown(
    ids: Sequence[str], n: int, roles: Sequence[str], played: Callable[[Sequence[EpisodeKey]], list[Episode]]
) -> list[Row]:
    """Rows of tree.jsonl: the leaves of each task, with their nodes and the number of turns that were known before they were played.

    Args:
        ids: Ids of the tasks.
        n: Nodes of each parent.
        roles: Names of the agents, in the order in which they speak.
        played: Plays episodes, which keep their snapshots.

    Raises:
        ColBenchError: If an agent has no level of the tree, or speaks again after another one or in another order, so that its turns are not one node.
    """
    keys: dict[tuple[str, Node], EpisodeKey] = {
        (task, (i, *[0] * (len(roles) - 1))): EpisodeKey(task, i) for task in ids for i in range(n)
    }
    leaves = dict(zip(keys, _in_order(played([*keys.values()]), roles), strict=True))
    for depth, role in enumerate(roles[1:], 1):
        branches: dict[tuple[str, Node], EpisodeKey] = {}
        for (task, node), episode in leaves.items():
            if episode.is_void or not (places := episode.places(role)):
                continue
            for i in range(1, n):
                child = (*node[:depth], i, *node[depth + 1 :])
                number = sum(digit * n**place for place, digit in enumerate(child[1:]))
                branches[task, child] = BranchKey(task, node[0], turn=places[0] + 1, number=number, episode=episode)
        leaves |= dict(zip(branches, _in_order(played([*branches.values()]), roles), strict=True))
        keys |= branches
    of_task: dict[str, list[Row]] = {task: [] for task in ids}
    for (task, node), episode in sorted(leaves.items(), key=lambda leaf: leaf[0][1]):
        key = keys[task, node]
        known = key.turn - 1 if isinstance(key, BranchKey) else 0
        of_task[task].append({**episode.to_row(), "node": list(node), "known": known})
    return [{"task_id": task, "leaves": rows} for task, rows in of_task.items()]


def _in_order(episodes: list[Episode], roles: Sequence[str]) -> list[Episode]:
    """The episodes, if their agents are some of the roles, and each speaks once, in their order."""
    for episode in episodes:
        agents = [agent for agent, _ in groupby(turn.agent for turn in episode.turns)]
        if agents != [role for role in roles if role in agents]:
            raise ColBenchError(
                f"The tree has one level for each of the agents {', '.join(roles)}, in this order, and here they speak as {', '.join(agents)[:200]}: "
                "it takes no agent that speaks again after others, in another order, or without a level."
            )
    return episodes
