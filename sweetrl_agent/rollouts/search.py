"""Forward search over utterances: the tree, the choice of a path, and a world to search in.

`forward_search` is the planner of SLINVIT (arXiv:2402.16181): from a node, the best `breadth` children each, `depth` times; the value of a path is the sum of its
weighted priors and rewards, plus the value of its last node; the first step of the best path is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from sweetrl_agent.core.episode import Messages
from sweetrl_agent.rollouts.replies import refuse_void, say


@dataclass
class Node:
    """A state in the tree.

    Attributes:
        prior: What the step to it is worth by the prior alone, such as lambda times its likelihood; 0 for the root.
        reward: Reward of the step to it.
        is_over: Whether the episode has ended.
        payload: What the caller keeps of it.
        children: Its children, once it has been expanded.
    """

    prior: float = 0.0
    reward: float = 0.0
    is_over: bool = False
    payload: Any = None
    children: list[Node] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Plan:
    """The best path.

    Attributes:
        path: Its nodes without the root, at least one.
        value: Sum of its priors and rewards, plus the value of its last node.
        num_paths: Number of paths compared.
    """

    path: list[Node]
    value: float
    num_paths: int


def forward_search(
    root: Node,
    expand: Callable[[list[Node]], Sequence[Sequence[Node]]],
    value: Callable[[list[Node]], Sequence[float]],
    depth: int,
    breadth: int,
    rank: Callable[[Node], float] | None = None,
) -> Plan:
    """The best path from a root; of equally good ones the first. All nodes of a level are expanded together, and all last nodes are valued together.

    Args:
        root: A state that is not over.
        expand: Makes the children of each of some nodes, which have none yet.
        value: Values of last nodes: the return that is expected after each.
        depth: Number of steps that are looked ahead.
        breadth: Children that are followed from each node, those of highest rank; 0 for all. Of equal ranks the earlier one.
        rank: Rank of a child; None for its prior.

    Raises:
        ValueError: If the root has no children.
    """

    def followed(node: Node) -> list[Node]:
        return sorted(node.children or [], key=rank or (lambda child: child.prior), reverse=True)[: breadth or None]

    paths = [[root]]
    for _ in range(depth):
        fresh = [path[-1] for path in paths if path[-1].children is None and not path[-1].is_over]
        for node, children in zip(fresh, expand(fresh) if fresh else [], strict=True):
            node.children = list(children)
        paths = [
            longer
            for path in paths
            for longer in ([path] if path[-1].is_over else [[*path, child] for child in followed(path[-1])])
        ]
    values = value([path[-1] for path in paths]) if paths else []
    totals = [sum(step.prior + step.reward for step in path[1:]) + last for path, last in zip(paths, values, strict=True)]
    valued = [i for i, total in enumerate(totals) if total > -float("inf")]  # neither -inf nor NaN
    if not valued:
        raise ValueError("A search needs a root with at least one child, and got none of finite value.")
    best = max(valued, key=totals.__getitem__)
    return Plan(paths[best][1:], totals[best], len(paths))


@dataclass(frozen=True)
class Spot:
    """A state of a world: the dialogue so far, and what the world needs to return to it.

    Attributes:
        messages: The dialogue as the agent sees it.
        hidden: What is hidden, for a critic that sees it; "" if nothing is.
        state: The world's own.
    """

    messages: Messages
    hidden: str
    state: Any = None


class World(Protocol):
    """What a search asks for the consequences of utterances: the simulator itself, or a learnt model of the human.

    Attributes:
        knows_rewards: Whether the reward of an ended episode is the environment's.
    """

    knows_rewards: bool

    def step(self, spot: Spot, text: str, seed: int | None = None, is_cut: bool = False) -> tuple[Spot, float, bool]:
        """The state after an utterance, its reward, and whether the episode is over.

        Args:
            spot: A state.
            text: The utterance.
            seed: None for the world's own continuation, the same every time; a seed draws another.
            is_cut: Whether the limit of tokens cut the utterance.
        """
        ...


class SimulatorWorld:
    """The environment of the episode itself, by snapshots: the search knows what the human would reply, and what it is worth.

    Args:
        env: A sub-environment with snapshots, in an episode that is not over. `restore` it after the search.

    Attributes:
        root: The state of the episode.
        turns: Turns taken in the search so far.
    """

    knows_rewards = True

    def __init__(self, env: Any) -> None:
        self._env, self.turns = env, 0
        self.root = self._here()

    def step(self, spot: Spot, text: str, seed: int | None = None, is_cut: bool = False) -> tuple[Spot, float, bool]:
        """See `World`.

        Raises:
            ColBenchError: If a service that the environment needs has failed.
        """
        self._env.set_state(spot.state, reseed=seed)
        _, reward, terminated, truncated, _ = say(self._env, text, is_cut)
        self.turns += 1
        refuse_void(self._env)
        return self._here(), float(reward), bool(terminated or truncated)

    def restore(self) -> None:
        """Return the environment to the state of the episode."""
        self._env.set_state(self.root.state)

    def _here(self) -> Spot:
        return Spot(list(self._env.messages), self._env.hidden_information, self._env.get_state())


class LearntWorld:
    """A learnt model of the human: it replies, and knows no rewards. No simulator is asked.

    Args:
        reply: The next message of the human after a dialogue that ends with the agent's, by a seed; None where the dialogue ends.
        root: The dialogue of the episode.
    """

    knows_rewards = False

    def __init__(self, reply: Callable[[Messages, int], str | None], root: Spot) -> None:
        self._reply, self.root, self.turns = reply, root, 0

    def step(self, spot: Spot, text: str, seed: int | None = None, is_cut: bool = False) -> tuple[Spot, float, bool]:
        """See `World`; rewards are 0, so that values must come from a critic."""
        messages = [*spot.messages, {"role": "assistant", "content": text}]
        reply = self._reply(messages, seed or 0)
        said = [] if reply is None else [{"role": "user", "content": reply}]
        return Spot([*messages, *said], spot.hidden), 0.0, reply is None

    def restore(self) -> None:
        """Does nothing: no environment was touched."""
