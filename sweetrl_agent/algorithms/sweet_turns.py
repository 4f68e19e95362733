"""The turns of collected dialogues that SWEET-RL samples candidates for, and the preferences among these."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from colbench_gym.errors import ColBenchError
from colbench_gym.files import Row, iter_rows
from colbench_gym.seeds import derive_seed
from sweetrl_agent.algorithms.critics import Candidates, kind_of
from sweetrl_agent.core.episode import Episode
from sweetrl_agent.core.run import Run
from sweetrl_agent.data.pairs import BY_CRITIC, BY_VERIFIER, candidate_groups, turn_pairs
from sweetrl_agent.rollouts.collection import iter_of_one_agent, iter_trajectories

Place = tuple[Episode, int]
Sampled = tuple[Episode, int, Candidates]


def sampled_turns(run: Run, critic: str) -> Any:
    """Mask over the turns of the collected dialogues: True for `num_states` random ones, which get candidates; 0 for all."""
    config, tasks = run.config.algorithms[critic].config, {task.id: task for task in run.train}
    turns = [(episode.task_id, turn) for episode in iter_of_one_agent(run) for turn in range(1, _num_turns(episode) + 1)]
    order = np.random.default_rng(derive_seed(run.seed, "states")).permutation(len(turns))
    if config.num_states and config.final_share:
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
    scores, candidates = iter_rows(run.artifact(critic, "scores.jsonl")), iter_rows(run.path("candidates.jsonl"))
    for (episode, turn, (texts, cut)), sampled, row in zip(candidates_of(run, critic), candidates, scores, strict=True):
        address, advantages, thoughts = address_of(episode, turn), list(row["advantages"]), sampled.get("thoughts", [])
        is_answer = [run.record.answer(text) is not None for text in texts]
        if config.answers == BY_VERIFIER:
            advantages = [of if graded is None else graded for of, graded in zip(advantages, row["verified"], strict=True)]
        groups = candidate_groups(is_answer, config.answers)
        if config.last_must_answer and _is_last(run, tasks[episode.task_id], turn):
            advantages = [of if ends else -np.inf for of, ends in zip(advantages, is_answer, strict=True)]
            groups = candidate_groups(is_answer, BY_CRITIC)
            if before := [past for past in episode.turns[: turn - 1] if run.record.answer(past.text) is None]:
                # A policy that answers early samples no question here: it would learn to go on asking, and never to end.
                answers = [i for i, ends in enumerate(is_answer) if ends]
                groups.append(([*answers, *range(len(texts), len(texts) + len(before))], False))
                texts, cut = [*texts, *(past.text for past in before)], [*cut, *(past.is_cut for past in before)]
                thoughts = thoughts and [*thoughts, *(past.thought for past in before)]
                advantages, is_answer = [*advantages, *[-np.inf] * len(before)], [*is_answer, *[False] * len(before)]
        rng = np.random.default_rng(derive_seed(run.seed, "pairs", *address.values()))
        for group, keeps_equal in groups:
            for pair in turn_pairs([advantages[i] for i in group], config.pairs_per_turn, rng, config.pair_quantile):
                better, worse = (group[i] for i in pair)
                is_equal = texts[better] == texts[worse]
                # ties of different texts teach nothing, and equal ones what need not be right: where that is known, right answers are kept
                keeps = keeps_equal and (not grades_endings or (is_answer[better] and advantages[better] > 0))
                if advantages[better] > advantages[worse] or (is_equal and keeps):
                    # A critic reads no thoughts: where the texts are equal, no thought is better, and both sides have the same.
                    sides = {"chosen": better, "rejected": better if is_equal else worse}
                    yield {
                        **{**address, "prompt": episode.prefix(turn), "chosen": texts[better], "rejected": texts[worse]},
                        **{f"{side}_thought": thoughts[i] for side, i in sides.items() if thoughts},
                        **{f"{side}_cut": True for side, i in sides.items() if cut[i]},
                    }


def _is_last(run: Run, task: Any, turn: int) -> bool:
    return turn == run.record.turn_limit(task, run.config.task)


def _num_turns(episode: Episode) -> int:
    return 0 if episode.is_void else len(episode.turns)
