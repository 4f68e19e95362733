"""Sources of Q for `algorithms.collab`: rollouts in the simulator, critics of utterances, the implicit reward of a DPO'd adapter, and a vote.

`rollout` alone estimates the paper's Q^{pi_j}(s, z). A critic has the values of the policy that it was trained for, whichever agent goes on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from colbench_gym.seeds import derive_seed
from sweetrl_agent.algorithms.critic_settings import critic_folder
from sweetrl_agent.algorithms.critics import CRITICS, ORACLES, hidden_for, open_critic
from sweetrl_agent.core.episode import Messages
from sweetrl_agent.core.policy import Utterance, sample_each
from sweetrl_agent.critics.utterance_reader import UtteranceReader
from sweetrl_agent.critics.utterance_values import VALUES, make_values
from sweetrl_agent.models.loading import load_chat, system_prompt
from sweetrl_agent.policies.collab import Draft, MixedAgent, Option
from sweetrl_agent.rollouts.search import SimulatorWorld, Spot

ROLLOUT, VOTE, IMPLICIT, UTTERANCE_CRITICS = "rollout", "vote", "mtdpo", ("archer", "archer_offline")
#: What is said of a score, by what Q has had access to.
SIMULATOR, ORACLE = "rollouts with simulator access", "oracle: Q sees the hidden information"
#: Q of each option.
Values = Callable[[Sequence[Option]], list[float]]
#: Scores of utterances after a dialogue, given what is hidden.
Score = Callable[[Messages, str, Sequence[Utterance]], Sequence[float]]


def sources() -> tuple[str, ...]:
    """The names of all sources; critics that need replies, or the tasks, are none."""
    critics = [name for name, kind in CRITICS.items() if not kind.has_replies and name not in ORACLES]
    return (ROLLOUT, VOTE, IMPLICIT, *UTTERANCE_CRITICS, *critics)


def access(name: str) -> str:
    """What a source has access to and an agent has not: `SIMULATOR`, `ORACLE`, or "" for nothing."""
    return SIMULATOR if name == ROLLOUT else ORACLE if name in CRITICS and CRITICS[name].uses_hidden else ""


def required(name: str) -> frozenset[str]:
    """Capabilities that a source requires of the environment."""
    return frozenset({"snapshot"}) if name == ROLLOUT else CRITICS[name].needs if name in CRITICS else frozenset()


def trained_source(name: str) -> tuple[str, ...]:
    """The algorithm that trains a source; () if nothing is trained."""
    is_trained = name in (IMPLICIT, *UTTERANCE_CRITICS) or (name in CRITICS and CRITICS[name].train is not None)
    return (name,) if is_trained else ()


def source_place(run: Any, name: str) -> Path:
    """Where a run has what it has trained of a source."""
    if name == IMPLICIT:
        return Path(run.path(f"{name}/agent"))
    return Path(run.path(f"{name}/critic/{VALUES}")) if name in UTTERANCE_CRITICS else critic_folder(run, name)


def is_there(run: Any, name: str) -> bool:
    """Whether a run has a source. An adapter that has learnt nothing has no files."""
    return (
        not trained_source(name) or source_place(run, name).exists() or (name == IMPLICIT and f"{name}/agent" in run.unchanged)
    )


def open_values(run: Any, config: Any, agents: Sequence[MixedAgent], reference: MixedAgent | None) -> Values:
    """The source of the settings, open as long as the process.

    Args:
        run: The run that has trained it.
        config: `CollabConfig`.
        agents: The agents of the mixture.
        reference: pi_ref; None where it is not needed.

    Raises:
        ValueError: If the run has not trained it.
    """
    name = config.q
    if not is_there(run, name):
        raise ValueError(
            f"`collab.q` {name!r} has no files in {run.folder}: train it in the same run first, such as by `compare --algorithms {name} collab`."
        )
    if name == ROLLOUT:
        return Rollouts(agents, config.rollouts, config.horizon)
    if name == VOTE:
        return Votes(agents)
    if name == IMPLICIT and reference:
        trained = run.config.algorithms[name]
        return Implicit(MixedAgent(trained.load(run)), reference, trained.config.beta)
    return Scored(agents, utterance_score(run, name) if name in UTTERANCE_CRITICS else critic_score(run, name), config.rollouts)


def _completions(agents: Sequence[MixedAgent], options: Sequence[Option], count: int) -> list[list[tuple[Utterance, int]]]:
    """The utterances that each option leads to, by its agent, each with the seed of what follows: `count` samples."""
    completed: dict[int, list[tuple[Utterance, int]]] = {}
    for agent in agents:
        places = [i for i, option in enumerate(options) if option.agent == agent.number for _ in range(count)]
        seeds = [derive_seed(options[i].seed, "completion", n % count) for n, i in enumerate(places)]
        for i, seed, utterance in zip(places, seeds, agent.completed([options[i] for i in places], seeds), strict=True):
            completed.setdefault(i, []).append((utterance, seed))
    return [completed[i] for i in range(len(options))]


@dataclass
class _Rollout:
    """A continuation of an option."""

    option: Option
    world: SimulatorWorld
    utterance: Utterance
    seed: int
    spot: Spot
    total: float = 0.0
    turns: int = 0
    is_over: bool = False

    def step(self) -> None:
        """Say its utterance to the simulator."""
        self.spot, reward, self.is_over = self.world.step(
            self.spot, self.utterance.text, derive_seed(self.seed, "reply", self.turns), self.utterance.is_cut
        )
        self.total, self.turns = self.total + reward, self.turns + 1
        self.option.draft.simulated_turns += 1


class Rollouts:
    """Q^{pi_j}(s, z): the mean return of continuations by agent j, from z to the end of the episode, in snapshots of the simulator.

    Replies are reseeded, so that the agents do not know the luck of the episode; a snapshot keeps what is hidden.

    Args:
        agents: The agents.
        count: Continuations of every option.
        horizon: Turns after the present one at which they are broken off; 0 for never.
    """

    def __init__(self, agents: Sequence[MixedAgent], count: int = 1, horizon: int = 0) -> None:
        self.agents, self.count, self.horizon = agents, count, horizon

    def __call__(self, options: Sequence[Option]) -> list[float]:
        """Q of each option."""
        worlds = {draft: SimulatorWorld(draft.env) for draft in dict.fromkeys(option.draft for option in options)}
        completed = _completions(self.agents, options, self.count)
        rollouts = [
            _Rollout(option, worlds[option.draft], utterance, seed, worlds[option.draft].root)
            for option, of_option in zip(options, completed, strict=True)
            for utterance, seed in of_option
        ]
        try:
            self._play(rollouts)
        finally:
            for world in worlds.values():
                world.restore()
        returns = [rollout.total for rollout in rollouts]
        return [sum(returns[start : start + self.count]) / self.count for start in range(0, len(returns), self.count)]

    def _play(self, rollouts: Sequence[_Rollout]) -> None:
        """Play all to their end, in rounds, each by its option's agent."""
        while rollouts:
            for rollout in rollouts:
                rollout.step()
            rollouts = [rollout for rollout in rollouts if not rollout.is_over and not 0 < self.horizon < rollout.turns]
            for agent in self.agents:
                self._speak(agent, [rollout for rollout in rollouts if rollout.option.agent == agent.number])

    def _speak(self, agent: MixedAgent, rollouts: Sequence[_Rollout]) -> None:
        seeds = [[derive_seed(rollout.seed, "turn", rollout.turns)] for rollout in rollouts]
        sampled = sample_each(agent.policy, [rollout.spot.messages for rollout in rollouts], seeds) if rollouts else []
        for rollout, (utterance,) in zip(rollouts, sampled, strict=True):
            rollout.utterance = utterance
            rollout.option.draft.spend(utterance.usage)


def _of_each_draft(options: Sequence[Option], values: Callable[[Draft, Sequence[Option]], Sequence[float]]) -> list[float]:
    """Values of options that are computed draft by draft, in the order of the options."""
    places: dict[Draft, list[int]] = {}
    for i, option in enumerate(options):
        places.setdefault(option.draft, []).append(i)
    found = {
        i: value for draft, of in places.items() for i, value in zip(of, values(draft, [options[i] for i in of]), strict=True)
    }
    return [found[i] for i in range(len(options))]


class Scored:
    """A critic's score of the utterance that an option leads to; of an unfinished one the mean over samples of its rest by agent j.

    Args:
        agents: The agents.
        score: The critic.
        count: Samples of the rest.
    """

    def __init__(self, agents: Sequence[MixedAgent], score: Score, count: int = 1) -> None:
        self.agents, self.score, self.count = agents, score, count

    def __call__(self, options: Sequence[Option]) -> list[float]:
        """Q of each option."""
        return _of_each_draft(options, self._means)

    def _means(self, draft: Draft, options: Sequence[Option]) -> list[float]:
        count = self.count if any(option.utterance is None for option in options) else 1
        utterances = [utterance for of in _completions(self.agents, options, count) for utterance, _ in of]
        scores = list(self.score(draft.messages, draft.hidden, utterances))
        return [sum(scores[start : start + count]) / count for start in range(0, len(scores), count)]


class Implicit:
    """The implicit reward of the tokens of z, beta (log pi_DPO - log pi_ref), of a DPO'd adapter (arXiv:2305.18290, equation 5)."""

    def __init__(self, trained: MixedAgent, reference: MixedAgent, beta: float) -> None:
        self.trained, self.reference, self.beta = trained, reference, beta

    def __call__(self, options: Sequence[Option]) -> list[float]:
        """Q of each option."""
        return _of_each_draft(options, self._rewards)

    def _rewards(self, draft: Draft, options: Sequence[Option]) -> list[float]:
        tokens = [option.token_ids for option in options]
        trained, reference = (agent.log_likelihoods(draft, tokens, temperature=1.0) for agent in (self.trained, self.reference))
        return [self.beta * float((own - other).sum()) for own, other in zip(trained, reference, strict=True)]


class Votes:
    """How many samples of all agents say the same as z; of equally many, the z that is likelier per token under the agents on average."""

    def __init__(self, agents: Sequence[MixedAgent]) -> None:
        self.agents = agents

    def __call__(self, options: Sequence[Option]) -> list[float]:
        """Q of each option."""
        return _of_each_draft(options, self._votes)

    def _votes(self, draft: Draft, options: Sequence[Option]) -> list[float]:
        said = [option.utterance.text if option.utterance else tuple(option.token_ids) for option in options]
        votes = Counter[Any]()
        for text, option in zip(said, options, strict=True):
            votes[text] += option.count
        tokens = [option.token_ids for option in options]
        each = [[float(x.mean().exp()) for x in agent.log_likelihoods(draft, tokens)] for agent in self.agents]
        likely = [sum(of_option) / len(of_option) for of_option in zip(*each, strict=True)]
        return [
            votes[text] + 0.5 * value for text, value in zip(said, likely, strict=True)
        ]  # which is below 1: it decides ties alone


def utterance_score(run: Any, name: str) -> Score:
    """ArCHer's critic of a run: min_k Q_k(o, a) - min_k V_k(o) in the unit of rewards. V is the same for all utterances in a state."""
    config, arguments = run.config.algorithms[name].config, run.config.model
    values = make_values(run, config.encoder, config.width, config.max_tokens).restore(source_place(run, name).parent)
    reader = UtteranceReader(
        load_chat(run.initial_model, arguments), system_prompt(arguments), arguments.history, config.max_tokens
    )

    def score(messages: Messages, hidden: str, utterances: Sequence[Utterance]) -> list[float]:
        state, actions = reader.state(messages), [reader.action(utterance) for utterance in utterances]
        values.encoder.prepare([state, *actions])
        return [config.reward_scale * value for value in values.advantages([state] * len(actions), actions)]

    return score


def critic_score(run: Any, name: str) -> Score:
    """One of SWEET-RL's critics of a run; one that sees the hidden information is an oracle."""
    critic = ExitStack().enter_context(open_critic(run, name))

    def score(messages: Messages, hidden: str, utterances: Sequence[Utterance]) -> list[float]:
        return critic.rank(messages, hidden_for(run, name, hidden), [utterance.text for utterance in utterances])

    return score
