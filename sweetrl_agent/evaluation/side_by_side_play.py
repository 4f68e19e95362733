"""Two policies of a run on one task, side by side on the screen: what each asks, hears and answers, and how much each reply told."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing, suppress
from itertools import zip_longest
from typing import Any, NamedTuple

from colbench_gym.outside_text import printable
from sweetrl_agent.algorithms.critics import open_gain
from sweetrl_agent.core.critic import all_advantages
from sweetrl_agent.core.episode import Episode, EpisodeKey
from sweetrl_agent.critics.gain import NoNoiseError, noise_level
from sweetrl_agent.evaluation.example import wrapped
from sweetrl_agent.rollouts.collection import iter_trajectories
from sweetrl_agent.rollouts.play import play
from sweetrl_agent.trainers.run import Run

#: Columns between the two.
GAP = " | "
#: Fewest columns of a side.
NARROWEST = 20
#: The noise level of gains: its quantile, and the number of turns that it is measured on.
NOISE_QUANTILE, NOISE_TURNS = 0.95, 20


def play_both(run: Run, task: Any, seed: int, policies: dict[str, Any]) -> dict[str, Episode]:
    """One episode of each policy on a task, with the same random numbers of the environment.

    Args:
        run: The run.
        task: A task of its environment.
        seed: Seed of environment and sampling.
        policies: What `Algorithm.load` returns, by name.
    """
    played: dict[str, Episode] = {}
    with closing(run.environment((task,), 1)) as env:
        for name, policy in policies.items():
            ((episode,),) = play(policy, env, [EpisodeKey(task.id)], seed, "play")
            played[name] = episode
    return played


class Gains(NamedTuple):
    """Information gains in nats: of every turn of every episode, [] for none; and the noise level, None if it cannot be measured."""

    of_turns: list[list[float]]
    noise: float | None


def gains_of(run: Run, episodes: Sequence[Episode]) -> Gains:
    """The information gain of every turn of every episode, whatever the run's noise level is; none without hidden information or snapshots, or of several agents.

    The reader is the run's (`gain_model`), by default the initial policy. The noise level is that of `NOISE_TURNS` collected turns.
    """
    if not {"hidden", "snapshot"} <= {*run.record.capabilities(run.config)} or "gain" not in run.config.algorithms:
        return Gains([[] for _ in episodes], None)
    with open_gain(run, "gain", in_nats=True) as critic:
        of_one = [not e.is_void and len(e.agents) == 1 for e in episodes]
        of_turns = [
            all_advantages(critic, e.messages, e.hidden) if is_one else [] for e, is_one in zip(episodes, of_one, strict=True)
        ]
        noise = None
        if any(of_turns) and run.path("trajectories.jsonl").exists():
            with suppress(NoNoiseError):
                noise = noise_level(critic, list(iter_trajectories(run)), NOISE_QUANTILE, run.seed, NOISE_TURNS)
        return Gains(of_turns, noise)


def columns(episodes: dict[str, Episode], gains: Gains, width: int) -> list[str]:
    """Two dialogues as lines of text, turn beside turn, and the noise level of the gains.

    Args:
        episodes: Two episodes of a task, by the name of their policy.
        gains: Their gains.
        width: Columns of the screen.
    """
    side = max((width - len(GAP)) // 2, NARROWEST)
    turns = [_turns(episode, of_turns) for episode, of_turns in zip(episodes.values(), gains.of_turns, strict=True)]
    request = printable(next(iter(episodes.values())).messages[0]["content"])
    lines = [*_wrapped("human", request, width), "", GAP.join(name.upper().ljust(side) for name in episodes).rstrip()]
    for pair in zip_longest(*turns, fillvalue=()):
        cells = [[line for name, text in parts for line in _wrapped(name, text, side)] for parts in pair]
        lines += [GAP.join(line.ljust(side) for line in row).rstrip() for row in zip_longest(*cells, fillvalue="")]
        lines.append(GAP.join([" " * side, ""]).rstrip())
    if gains.noise is not None:
        about = f"{gains.noise:.1f} nats: smaller gains say nothing, for {NOISE_QUANTILE:.0%} of replies about other tasks gain less"
        lines += ["", *_wrapped("noise", about, width)]
    return lines


def _turns(episode: Episode, gains: Sequence[float]) -> list[list[tuple[str, str]]]:
    """The turns as (speaker, text), with the gain after each reply, and the outcome."""
    said, turns = list(episode.messages[1:]), []
    for number, _ in enumerate(episode.turns):
        own, *reply = said[2 * number : 2 * number + 2]
        parts = [(own.get("agent", "agent"), own["content"])]
        parts += [(f"to {message['agent']}" if "agent" in message else "human", message["content"]) for message in reply]
        if reply and gains:
            parts.append(("gain", f"{gains[number]:+.1f} nats"))
        turns.append([(name, printable(text)) for name, text in parts])
    metrics = episode.metrics
    success = "" if "success" not in metrics else "success" if metrics["success"] else "no success"
    return [*turns, [("end", ", ".join(filter(None, (success, printable(str(metrics["outcome"]))))))]]


def _wrapped(name: str, text: str, width: int) -> list[str]:
    return wrapped(f"{name:>5}", text, max(width - max(len(name), 5) - 2, 8))
