"""A trial episode: do two copies of an environment, with one seed and the same actions, give the same episode?

Two copies play the episode side by side, in turns; then one of them plays it once more, alone. So a difference shows that has its cause in
another generator than the one that `reset` seeds, in something that all copies share, or in what an earlier episode has left behind. Where an environment
has snapshots, the second half of the first episode is played again from one. The global random generators are as they were afterwards.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

from colbench_gym.evaluation.summary import VOID
from colbench_gym.generators import RngState, preserve_rng_state

Messages = list[dict[str, str]]
#: The dialogue so far and the number of the turn, from 1 -> what the agent says; None ends the trial episode.
Act = Callable[[Messages, int], str | None]
#: Maximum number of turns of a trial episode, and of steps of all copies after which no other episode begins.
MOST_TURNS, ENOUGH_STEPS = 20, 90
#: Characters of hidden information from which on it is not in a message by chance.
LEAST_HIDDEN = 4


#: A copy of an environment: it has `reset` and `step` of Gymnasium, `messages`, `hidden_information`, and `metrics` of the finished episode.
Copy = Any


@dataclass(frozen=True)
class Trial:
    """What the trial has shown.

    Attributes:
        difference: Where the copies differ first, such as "the observation after turn 2"; "" if they do not differ.
        untried: Why no trial was played, or it says nothing; "" if it does.
        reveals_hidden: Whether the first message of an episode contains its hidden information (and not that of another episode, as a list of choices would).
        lost: Where an episode that goes on from a snapshot differs first; "" if nowhere, or without snapshots.
        draws_from: Global generators that the environment has drawn from; empty where each dialogue has its own.
        num_steps: Number of steps of all copies.
        step_s: Mean seconds of a step, the first one left out if there are others; 0.0 without a step.
        reset_s: Median seconds of a reset.
    """

    difference: str = ""
    untried: str = ""
    reveals_hidden: bool = False
    lost: str = ""
    draws_from: tuple[str, ...] = ()
    num_steps: int = 0
    step_s: float = 0.0
    reset_s: float = 0.0

    @property
    def is_reproducible(self) -> bool | None:
        """Whether the copies agree; None if that is not known."""
        return None if self.untried else not self.difference

    def sentence(self, env: str) -> str:
        """What is to be said of an environment before a run, by its id; "" if its episodes and snapshots repeat and do not begin with what is hidden."""
        if self.untried:
            return f"`env` {env!r} is played in no trial episode ({self.untried}), so whether it is reproducible is not known."
        if not self.difference:
            reveals = f"`env` {env!r} reveals its hidden information in the first message of an episode, so the agent reads what is meant for a critic alone."
            lost = (
                f"`env` {env!r} does not return to its snapshots: after `set_state(get_state())`, the same actions differ in {self.lost}, so what branches from "
                "them (`vineppo`, `at_grpo`, `malt`, `slinvit`, the critic `gain`) continues other episodes."
            )
            return " ".join([reveals] * self.reveals_hidden + [lost] * bool(self.lost))
        drawn = " and ".join(self.draws_from)
        way_out = (
            f"; it draws from {drawn}, and `--isolate_generators true` gives each dialogue a state of its own" if drawn else ""
        )
        return (
            f"`env` {env!r} is not reproducible: two copies that play one episode with one seed and the same actions differ in "
            f"{self.difference}, so episodes of two policies cannot be paired, and paired differences mean nothing here{way_out}."
        )

    def require(self, env: str) -> None:
        """Refuse an environment, by its id, that is not known to be reproducible.

        Raises:
            ValueError: Says why it is refused.
        """
        if not self.is_reproducible:
            raise ValueError(f"`require_reproducible` is true, and {self.sentence(env)}")


@dataclass(frozen=True)
class _Moment:
    """What one copy shows after a step, or after `reset` (turn 0)."""

    observation: str
    reward: float
    end: tuple[bool, bool]
    messages: Messages
    hidden: str
    metrics: dict[str, Any]

    def difference(self, other: _Moment) -> str:
        """The first thing in which it differs from that of another copy, in words; "" for none."""
        named = {
            "observation": (self.observation, self.messages) == (other.observation, other.messages),
            "reward": _same(self.reward, other.reward),
            "end of the episode": self.end == other.end,
            "metrics": self.metrics.keys() == other.metrics.keys()
            and all(_same(value, other.metrics[name]) for name, value in self.metrics.items()),
            "hidden information": self.hidden == other.hidden,
        }
        return next((name for name, is_same in named.items() if not is_same), "")


@dataclass
class _Clock:
    """Seconds of every reset and step."""

    resets: list[float] = field(default_factory=list)
    steps: list[float] = field(default_factory=list)
    openings: dict[str, str] = field(default_factory=dict)  # hidden information of an episode -> what the agent reads first

    def reset(self, copy: Copy, task_id: str, seed: int) -> _Moment:
        """Start an episode."""
        start = time.perf_counter()
        copy.reset(seed=seed, options={"task_id": task_id})
        self.resets.append(time.perf_counter() - start)
        self.openings[str(copy.hidden_information)] = "\n".join(message["content"] for message in copy.messages)
        return _Moment("", 0.0, (False, False), copy.messages, copy.hidden_information, copy.metrics)

    def step(self, copy: Copy, action: str) -> _Moment:
        """Send one message of the agent."""
        start = time.perf_counter()
        observation, reward, terminated, truncated, _ = copy.step(action)
        self.steps.append(time.perf_counter() - start)
        end = bool(terminated), bool(truncated)
        return _Moment(str(observation), float(reward), end, copy.messages, copy.hidden_information, copy.metrics)

    def noted(self, trial: Trial) -> Trial:
        """The trial with these times."""
        counted = self.steps[1:] or self.steps or [0.0]
        step_s, reset_s = sum(counted) / len(counted), median(self.resets or [0.0])
        return replace(trial, num_steps=len(self.steps), step_s=step_s, reset_s=reset_s)


def play_trial(
    copies: Sequence[Copy], episodes: Sequence[tuple[str, Act]], seed: int = 0, has_snapshots: bool = False
) -> Trial:
    """Play trial episodes until copies differ in one, or `ENOUGH_STEPS` are played.

    Args:
        copies: Two copies of the environment.
        episodes: Id of the task of each episode, and what its agent says.
        seed: Seed of `reset`.
        has_snapshots: Whether the copies have `get_state` and `set_state`, which are then tried in the first episode.

    Raises:
        Exception: What a step of the environment raises.
    """
    clock = _Clock()
    with preserve_rng_state():
        before, trial, lost = RngState.now(), Trial(), ""
        for task_id, act in episodes:
            if len(clock.steps) >= ENOUGH_STEPS:
                break
            trial = _one_episode(
                copies, task_id, act, seed, clock, episodes[-1][0] if has_snapshots and not clock.steps else ""
            )
            lost = lost or trial.lost
            if trial.difference or trial.untried:
                break
        return clock.noted(
            replace(trial, reveals_hidden=_reveals(clock.openings), lost=lost, draws_from=RngState.now().drawn_since(before))
        )


def _reveals(openings: Mapping[str, str]) -> bool:
    return len(openings) > 1 and any(
        len(hidden) >= LEAST_HIDDEN
        and hidden in opening
        and not any(other in opening for other in openings if other not in hidden)
        for hidden, opening in openings.items()
    )


def _one_episode(copies: Sequence[Copy], task_id: str, act: Act, seed: int, clock: _Clock, other: str) -> Trial:
    """Play an episode as the module says; `other` is the task that a snapshot is left for, "" without snapshots."""
    first: list[_Moment] = []
    actions: list[str | None] = []

    def remembered(messages: Messages, turn: int) -> str | None:
        actions.append(act(messages, turn))
        return actions[-1]

    for turn, moments in enumerate(_played(copies, task_id, remembered, seed, clock)):
        if failed := _void(copies):
            return Trial(untried=failed)
        if difference := moments[0].difference(moments[1]):
            return Trial(_at(difference, turn))
        first.append(moments[0])
    alone = _played(copies[:1], task_id, lambda messages, turn: actions[turn - 1], seed, clock)
    for turn, ((moment,), before) in enumerate(zip(alone, first, strict=True)):
        if failed := _void(copies[:1]):
            return Trial(untried=failed)
        if difference := before.difference(moment):
            return Trial(f"{_at(difference, turn)} when one of them plays it again")
    return Trial(lost=_lost(copies[0], (task_id, other), actions, first, seed, clock) if other else "")


def _lost(
    copy: Copy, tasks: tuple[str, str], actions: Sequence[str | None], first: Sequence[_Moment], seed: int, clock: _Clock
) -> str:
    """Where the second half of an episode differs if it is played from a snapshot, after its end and the start of another task's; "" for nowhere."""
    texts = [action for action in actions if action is not None][: len(first) - 1]
    middle = len(texts) // 2
    clock.reset(copy, tasks[0], seed)
    for action in texts[:middle]:
        clock.step(copy, action)
    state = copy.get_state()
    for action in texts[middle:]:
        clock.step(copy, action)
    copy.reset(seed=seed, options={"task_id": tasks[1]})
    copy.set_state(state)
    for turn, action in enumerate(texts[middle:], middle + 1):
        if difference := first[turn].difference(clock.step(copy, action)):
            return _at(difference, turn)
    return ""


def _played(copies: Sequence[Copy], task_id: str, act: Act, seed: int, clock: _Clock) -> Iterator[list[_Moment]]:
    """Play an episode in all copies, step by step in turns; yields what they show after `reset` and after every turn."""
    yield [clock.reset(copy, task_id, seed) for copy in copies]
    for turn in range(1, MOST_TURNS + 1):
        action = act(copies[0].messages, turn)
        if action is None:
            return
        moments = [clock.step(copy, action) for copy in copies]
        yield moments
        if any(any(moment.end) for moment in moments):
            return


def _void(copies: Sequence[Copy]) -> str:
    is_void = any(copy.metrics.get("outcome") == VOID for copy in copies)
    return "its trial episode is void, since a service that it needs has failed" if is_void else ""


def _same(first: Any, second: Any) -> bool:
    return bool(first == second) or (first != first and second != second)  # NaN is itself


def _at(difference: str, turn: int) -> str:
    return f"the {difference} after {f'turn {turn}' if turn else '`reset`'}"
