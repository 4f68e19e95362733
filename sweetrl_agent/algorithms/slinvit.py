"""SLINVIT: the initial policy with a forward search at every turn, by the simulator: nothing is trained.

1. Breadth. In a state, `samples` utterances are drawn from the language model; of the different ones the `breadth` likeliest are followed, by
   p = exp(mean log-probability of the utterance's tokens).
2. Depth. Each is said to the simulator, from a snapshot, and the search goes on from there, `depth` utterances deep.
3. Leaf value. The return that is expected after the last utterance: the mean return of `rollouts` continuations by the language model, or a trained critic's
   score of that utterance.
4. A path is worth the sum of lambda p and of the rewards of its steps, plus its leaf's value. The first utterance of the best path is said; the next turn
   searches again.

The simulated human and, where there is one, the scorer answer the search: its score is one with simulator access, not comparable with that of an agent that
only talks. Continuations are reseeded, so that the search does not know the luck of the episode; a snapshot keeps the episode's secret, however, so
that rollouts estimate V(s, c), which is privileged. A critic may see the hidden information, too.

Source: arXiv:2402.16181 and its code (agentification/Language-Integrated-VI, e2b7584), which has three different searches: ALFWorld, InterCode, and BlocksWorld's
`ForwardSearch`, the planner of `rollouts.search`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from colbench_gym.seeds import derive_seed
from sweetrl_agent.algorithms.critic_settings import critic_folder
from sweetrl_agent.algorithms.critics import CRITICS, hidden_for, open_critic
from sweetrl_agent.algorithms.initial import InitialPolicy
from sweetrl_agent.core.episode import Messages
from sweetrl_agent.core.policy import Policy, Utterance
from sweetrl_agent.core.run import Run
from sweetrl_agent.core.settings import require, setting
from sweetrl_agent.rollouts.search import Node, SimulatorWorld, Spot, World, forward_search

LEAVES = ("rollout", "critic")
#: Score of an utterance, of the dialogue before it and of what is hidden then.
Score = Callable[[Messages, str, str], float]


@dataclass(frozen=True)
class SlinvitConfig:
    """Settings of SLINVIT."""

    samples: int = setting(
        4,
        "Utterances drawn in a state; in the code 8 (ALFWorld, at temperature 2), 1 (InterCode), all actions (BlocksWorld).",
        least=1,
    )
    breadth: int = setting(
        2, "Utterances followed from a state, the likeliest; in the code 2 (ALFWorld, BlocksWorld) or 1.", least=1
    )
    depth: int = setting(2, "Utterances looked ahead; in the code 2 (ALFWorld), 1 (InterCode), 5 (BlocksWorld).", least=1)
    lam: float = setting(
        0.1,
        "lambda, the weight of an utterance's likelihood; in the code 0.1 (ALFWorld), none (InterCode), 0 (BlocksWorld's command).",
    )
    leaf: str = setting("rollout", "Value of the last state: rollout, or critic.")
    rollouts: int = setting(1, "Continuations by which a last state is valued; 1 in the code (InterCode).", least=1)
    horizon: int = setting(
        0, "Turns after which a continuation is broken off, without further reward; 0 for never. 5 in the code (InterCode)."
    )
    critic: str = setting("value_head", "Critic of `leaf` critic, by its name; this run has trained it.")

    def __post_init__(self) -> None:
        """Refuse an unknown leaf, more breadth than samples, and a critic that does not exist or needs replies."""
        require("leaf", self.leaf, LEAVES)
        if self.breadth > self.samples:
            raise ValueError(f"`breadth` must be at most `samples`, got {self.breadth} and {self.samples}.")
        if self.leaf == "critic" and CRITICS.find(self.critic, "critic").has_replies:
            raise ValueError(f"`critic` must be one that needs no replies, got {self.critic!r}.")


@dataclass(frozen=True)
class Reached:
    """Payload of a node.

    Attributes:
        spot: The state.
        seed: Seed of all that is drawn from it.
        utterance: The utterance that led to it; None for the root.
        before: The state before that utterance.
        likelihood: Its exp(mean log p).
    """

    spot: Spot
    seed: int
    utterance: Utterance | None = None
    before: Spot | None = None
    likelihood: float = 0.0


def likelihood_of(utterance: Utterance) -> float:
    """The exponential of the mean log-probability of an utterance's tokens, in (0, 1].

    Raises:
        ValueError: If the engine returned no log-probabilities.
    """
    if not utterance.log_probs:
        raise ValueError(
            "The prior of SLINVIT needs log-probabilities, and this engine returned none: sample with `--engine transformers` or `vllm`."
        )
    return math.exp(sum(utterance.log_probs) / len(utterance.log_probs))


class SearchPolicy:
    """A policy that searches before every turn; see the module's docstring.

    Args:
        policy: The language model.
        config: The settings.
        score: The critic of `leaf` critic; None for rollouts.
        make_world: Makes the world to search in from the environment of an episode; by default the simulator itself.
    """

    def __init__(
        self,
        policy: Policy,
        config: SlinvitConfig,
        score: Score | None = None,
        make_world: Callable[[Any], Any] = SimulatorWorld,
    ) -> None:
        self.policy, self.config, self.score, self.make_world = policy, config, score, make_world

    def generate(self, dialogues: Sequence[Messages], seeds: Sequence[int]) -> list[Utterance]:
        """Refuses: without the environment there is nothing to search in."""
        raise TypeError("A policy that searches needs the environments of its dialogues: call `generate_in`.")

    def generate_in(self, envs: Sequence[Any], seeds: Sequence[int]) -> list[Utterance]:
        """See `core.policy.SearchingPolicy`."""
        return [_Search(self, self.make_world(env)).utterance(seed) for env, seed in zip(envs, seeds, strict=True)]


class _Search:
    """The search of one turn."""

    def __init__(self, of: SearchPolicy, world: Any) -> None:
        self.policy, self.config, self.score, self.world = of.policy, of.config, of.score, world
        self._sampled: list[Utterance] = []

    def utterance(self, seed: int) -> Utterance:
        """The first utterance of the best path, with the costs of the whole search."""
        root = Node(payload=Reached(self.world.root, seed))
        try:
            plan = forward_search(
                root, self.expand, self.values, self.config.depth, self.config.breadth, lambda node: node.payload.likelihood
            )
        finally:
            self.world.restore()
        chosen: Utterance = plan.path[0].payload.utterance
        if chosen.error:
            return chosen
        usage = [utterance.usage for utterance in self._sampled]
        read = None if None in usage else tuple(map(sum, zip(*cast(Any, usage), strict=True)))
        return Utterance(**{**vars(chosen), "usage": read, "simulated_turns": self.world.turns})

    def expand(self, nodes: list[Node]) -> list[list[Node]]:
        """Steps 1 and 2: the likeliest utterances after each node, said to the world."""
        reached: list[Reached] = [node.payload for node in nodes]
        count = self.config.samples
        seeds = [derive_seed(here.seed, "candidate", i) for here in reached for i in range(count)]
        every = self.sample([here.spot.messages for here in reached for _ in range(count)], seeds)
        return [self.children(here, every[i * count : (i + 1) * count]) for i, here in enumerate(reached)]

    def children(self, here: Reached, every: Sequence[Utterance]) -> list[Node]:
        """The likeliest of the utterances that were drawn in a state."""
        valid = [utterance for utterance in every if not utterance.error]
        if not valid:  # the agent's server has failed: the episode is void
            return [Node(is_over=True, payload=Reached(here.spot, here.seed, every[0], here.spot))]
        different = list({utterance.text: utterance for utterance in reversed(valid)}.values())[::-1]
        ranked = sorted(different, key=likelihood_of, reverse=True)[: self.config.breadth]
        return [self.child(here, utterance, derive_seed(here.seed, "child", i)) for i, utterance in enumerate(ranked)]

    def child(self, here: Reached, utterance: Utterance, seed: int) -> Node:
        """The node after an utterance. A critic at depth 1 needs no reply, and the world is not asked."""
        likelihood = likelihood_of(utterance)
        reached, reward, is_over = here.spot, 0.0, False
        if self.score is None or self.config.depth > 1:
            reached, reward, is_over = self.world.step(here.spot, utterance.text, seed, utterance.is_cut)
        payload = Reached(reached, seed, utterance, here.spot, likelihood)
        return Node(self.config.lam * likelihood, reward, is_over, payload)

    def values(self, nodes: list[Node]) -> list[float]:
        """Step 3; the continuations of all nodes are played in lockstep."""
        reached: list[Reached] = [node.payload for node in nodes]
        if self.score is not None:
            known = self.world.knows_rewards and self.config.depth > 1  # the reward of an ended episode is then in the path
            return [0.0 if known and node.is_over else self.scored(node.payload) for node in nodes]
        count = self.config.rollouts
        continued = [(i, k) for i, node in enumerate(nodes) if not node.is_over for k in range(count)]
        seeds = [derive_seed(reached[i].seed, "rollout", k) for i, k in continued]
        values = [0.0] * len(nodes)
        for (i, _), total in zip(continued, self.rollouts([reached[i].spot for i, _ in continued], seeds), strict=True):
            values[i] += total / count
        return values

    def scored(self, reached: Reached) -> float:
        """The critic's score of the utterance that led to a state; 0 where the agent's server failed."""
        if self.score is None or reached.utterance is None or reached.before is None or reached.utterance.error:
            return 0.0
        return self.score(reached.before.messages, reached.before.hidden, reached.utterance.text)

    def rollouts(self, spots: list[Spot], seeds: Sequence[int]) -> list[float]:
        """Returns of continuations by the language model, each by a seed."""
        returns, active, turn = [0.0] * len(spots), list(range(len(spots))), 0
        while active and not 0 < self.config.horizon <= turn:
            turn_seeds = [derive_seed(seeds[i], "turn", turn) for i in active]
            utterances = self.sample([spots[i].messages for i in active], turn_seeds)
            unfinished = []
            for i, utterance in zip(active, utterances, strict=True):
                if utterance.error:
                    raise utterance.error
                spots[i], reward, is_over = self.world.step(
                    spots[i], utterance.text, derive_seed(seeds[i], "reply", turn), utterance.is_cut
                )
                returns[i] += reward
                unfinished += [] if is_over else [i]
            active, turn = unfinished, turn + 1
        return returns

    def sample(self, dialogues: Sequence[Messages], seeds: Sequence[int]) -> list[Utterance]:
        """Utterances of the language model, whose costs are counted."""
        utterances = self.policy.generate(dialogues, seeds)
        self._sampled += utterances
        return utterances


class Slinvit(InitialPolicy):
    """SLINVIT; see the module's docstring."""

    name, title, Config = "slinvit", "SLINVIT (search with simulator access)", SlinvitConfig
    requires, engines = frozenset({"snapshot"}), ("transformers", "vllm")

    @property
    def algorithms_needed(self) -> tuple[str, ...]:
        """The critic of `leaf` critic, if it is one that is trained."""
        name = self.config.critic
        return (name,) if self.config.leaf == "critic" and CRITICS[name].train is not None else ()

    def load_initial(self, run: Run) -> Policy:
        """The language model without a search."""
        return run.load_policy()

    def load(self, run: Run) -> Any:
        """The language model with its search."""
        return SearchPolicy(run.load_policy(), self.config, self.score(run), self.world)

    def world(self, env: Any) -> World:
        """The world that it searches in: the simulator. A subclass with a learnt model of the human returns `rollouts.search.LearntWorld`."""
        return cast(World, SimulatorWorld(env))

    def score(self, run: Run) -> Score | None:
        """The critic of the settings, open as long as the process; None for rollouts.

        Raises:
            ValueError: If the run has not trained it.
        """
        name = self.config.critic
        if self.config.leaf == "rollout":
            return None
        if CRITICS[name].train is not None and not critic_folder(cast(Any, run), name).exists():
            raise ValueError(
                f"`--slinvit.critic` {name!r} has no files in {run.folder}: train it in the same run first, such as by `compare --algorithms {name} slinvit`."
            )
        critic = ExitStack().enter_context(open_critic(cast(Any, run), name))
        return partial(_score, run, name, critic)


def _score(run: Any, name: str, critic: Any, messages: Messages, hidden: str, text: str) -> float:
    (value,) = critic.rank(messages, hidden_for(run, name, hidden), [text])
    return float(value)
