"""The turns of collected dialogues that SWEET-RL samples candidates for, and the preferences among these."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from colbench_gym.errors import ColBenchError
from colbench_gym.files import Row, iter_rows
from colbench_gym.seeds import derive_seed
from sweetrl_agent.algorithms.critics import Candidates, kind_of
from sweetrl_agent.core.episode import Episode
from sweetrl_agent.core.run import Run
from sweetrl_agent.data.pairs import BY_CRITIC, candidate_groups, turn_pairs
from sweetrl_agent.rollouts.collection import iter_of_one_agent, iter_trajectories

Place = tuple[Episode, int]
Sampled = tuple[Episode, int, Candidates]


def sampled_turns(run: Run, critic: str) -> Any:
    """Mask over the turns of the collected dialogues: True for `num_states` random ones, which get candidates; 0 for all."""
    config = run.config.algorithms[critic].config
    turns = [(episode.task_id, turn) for episode in iter_of_one_agent(run) for turn in range(1, _num_turns(episode) + 1)]
    order = np.random.default_rng(derive_seed(run.seed, "states")).permutation(len(turns))
    if config.num_states and config.final_share:
        tasks = {task.id: task for task in run.train}
        is_last = np.array([_is_last(run, tasks[task_id], turn) for task_id, turn in turns], dtype=bool)
        finals, others = order[is_last[order]], order[~is_last[order]]
        first = round(config.num_states * config.final_share)
        order = np.concatenate([finals[:first], others, finals[first:]])
    return np.isin(np.arange(len(order)), order[: config.num_states or None])


def states_of(run: Run, is_sampled: Any) -> Iterator[Place]:
    """The sampled turns, in the order of the file."""
    sampled = iter(is_sampled)
    for episode in iter_trajectories(run):
        yield from ((episode, turn) for turn in range(1, _num_turns(episode) + 1) if next(sampled))


def candidates_of(run: Run, critic: str) -> Iterator[Sampled]:
    """The sampled turns and their candidates, the same for all critics of a run."""
    states = states_of(run, sampled_turns(run, critic))
    for (episode, turn), row in zip(states, iter_rows(run.path("candidates.jsonl")), strict=True):
        if {**row, **address_of(episode, turn)} != row:
            raise ColBenchError(f"{run.path('candidates.jsonl')} belongs to other trajectories; remove it to sample again.")
        yield episode, turn, Candidates.of(row)


def address_of(episode: Episode, turn: int) -> Row:
    """What names a turn in the rows of the stages."""
    return {"task_id": episode.task_id, "episode": episode.index, "turn": turn}


def preferences_of(run: Run, critic: str) -> Iterator[Row]:
    """Preferences between candidates of a turn, by the critic's scores."""
    config = run.config.algorithms[critic].config
    tasks = {task.id: task for task in run.train}
    grades_endings = kind_of(run, critic).scoring == "gain"
    sampled, scores = iter_rows(run.path("candidates.jsonl")), iter_rows(run.artifact(critic, "scores.jsonl"))
    for (episode, turn, _), *rows in zip(candidates_of(run, critic), sampled, scores, strict=True):
        address, choices, answers = address_of(episode, turn), _choices(run, *rows), config.answers
        before = list[_Choice]()
        if config.last_must_answer and _is_last(run, tasks[episode.task_id], turn):
            choices, answers = [choice if choice.is_answer else choice._replace(score=-np.inf) for choice in choices], BY_CRITIC
            before = _asked_before(run, episode, turn, "thoughts" in rows[0])
        groups = [
            ([choices[i] for i in group], keeps)
            for group, keeps in candidate_groups([choice.is_answer for choice in choices], answers)
        ]
        if before:  # a policy that answers early samples no question here: it would learn to go on asking, and never to end
            groups.append(([*(choice for choice in choices if choice.is_answer), *before], False))
        rng = np.random.default_rng(derive_seed(run.seed, "pairs", *address.values()))
        for group, keeps_equal in groups:
            for pair in turn_pairs([choice.score for choice in group], config.pairs_per_turn, rng, config.pair_quantile):
                better, worse = (group[i] for i in pair)
                is_equal = better.text == worse.text
                # ties of different texts teach nothing, and equal ones what need not be right: where that is known, right answers are kept
                keeps = keeps_equal and (not grades_endings or (better.is_answer and better.score > 0))
                if better.score > worse.score or (is_equal and keeps):
                    # A critic reads no thoughts: where the texts are equal, no thought is better, and both sides have the same.
                    sides = {**better.side("chosen"), **(better if is_equal else worse).side("rejected")}
                    yield {**address, "prompt": episode.prefix(turn), **sides}


class _Choice(NamedTuple):
    """A candidate of a turn; its thought is None where no candidate has one."""

    text: str
    thought: str | None
    is_cut: bool
    is_answer: bool
    score: float

    def side(self, name: str) -> Row:
        """Its columns as a side of a pair."""
        thought = {} if self.thought is None else {f"{name}_thought": self.thought}
        return {name: self.text, **thought, **({f"{name}_cut": True} if self.is_cut else {})}


def _choices(run: Run, sampled: Row, scored: Row) -> list[_Choice]:
    """The candidates of a row. Where an answer was run, that is its score."""
    texts, cut = Candidates.of(sampled)
    scores, verified = scored["advantages"], scored.get("verified", [None] * len(texts))
    columns = zip(texts, sampled.get("thoughts", [None] * len(texts)), cut, scores, verified, strict=True)
    return [
        _Choice(text, thought, is_cut, run.record.answer(text) is not None, score if passed is None else passed)
        for text, thought, is_cut, score, passed in columns
    ]


def _asked_before(run: Run, episode: Episode, turn: int, has_thoughts: bool) -> list[_Choice]:
    """What the agent asked in the episode before a turn, as candidates that must not be chosen."""
    asked = [past for past in episode.turns[: turn - 1] if run.record.answer(past.text) is None]
    return [_Choice(past.text, past.thought if has_thoughts else None, past.is_cut, False, -np.inf) for past in asked]


def _is_last(run: Run, task: Any, turn: int) -> bool:
    return turn == run.record.turn_limit(task, run.config.task)


def _num_turns(episode: Episode) -> int:
    return 0 if episode.is_void else len(episode.turns)
