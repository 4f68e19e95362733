"""The turns of collected dialogues that SWEET-RL samples candidates for, and the preferences among these."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from colbench_gym.errors import ColBenchError
from colbench_gym.files import Row, iter_rows
from colbench_gym.seeds import derive_seed
from sweetrl_agent.algorithms.critics import kind_of
from sweetrl_agent.algorithms.ranking import Candidates
from sweetrl_agent.core.episode import Episode
from sweetrl_agent.core.run import Run
from sweetrl_agent.data.pairs import BY_CRITIC, BY_VERIFIER, candidate_groups, distinct_turn_pairs, turn_pairs
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
    scores = iter_rows(run.artifact(critic, "scores.jsonl"))
    for (episode, turn, candidates), scored in zip(candidates_of(run, critic), scores, strict=True):
        address, choices = address_of(episode, turn), _choices(run, candidates, scored)
        if config.last_must_answer and _is_last(run, tasks[episode.task_id], turn):
            groups = _groups_of_last_turn(choices, _asked_before(run, episode, turn, bool(candidates.thoughts)))
        else:
            groups = _groups(choices, config.answers)
        rng = np.random.default_rng(derive_seed(run.seed, "pairs", *address.values()))
        for group, keeps_equal in groups:
            for i, j in _drawn(group, keeps_equal, grades_endings, config, rng):
                yield {**address, "prompt": episode.prefix(turn), **group[i].pair(group[j])}


def why_no_preference(run: Run, critic: str) -> str:
    """Why `preferences_of` has nothing, and what to do."""
    turns = [candidates.texts for _, _, candidates in candidates_of(run, critic)]
    lead = (
        f"The critic {critic!r} gives all candidates of every turn the same score, so there is nothing to train the actor on. "
    )
    if all(run.record.answer(text) is not None for texts in turns for text in texts):
        config, arguments = run.config.algorithms[critic].config, run.config.task.keyword_arguments()
        runs_answers = kind_of(run, critic).scoring == "gain" or config.answers == BY_VERIFIER
        more = """; `--env_kwargs '{"reward": "tests_passed"}'` ranks wrong answers by the tests that they pass"""
        more = more if runs_answers and run.record.metric == "tests_passed" and "reward" not in arguments else ""
        return (
            f"{lead}All candidates are answers, {sum(map(len, turns))} at {len(turns)} turns, and none of a turn is better than another: the initial policy "
            f"asks nothing. Start from one that asks (`--demonstrations`, `--sft_dialogues`), or from easier tasks{more}."
        )
    if sampled_turns(run, critic).all():
        return f"{lead}All turns have candidates: collect more by `--num_tasks`, or sample more of them by `--sweet.num_candidates`."
    return f"{lead}Sample more turns by `--sweet.num_states`."


class _Choice(NamedTuple):
    """A candidate of a turn; its thought is None where no candidate has one."""

    text: str
    thought: str | None
    is_cut: bool
    is_answer: bool
    is_right: bool
    score: float

    def is_preferred(self, worse: _Choice, keeps_equal: bool, grades_endings: bool) -> bool:
        """Whether it is trained on as better than another one.

        Ties of different texts teach nothing, and equal texts what need not be right: where that is known, right answers alone are kept. A question
        that comes too late is never kept.
        """
        keeps = keeps_equal and self.score > -np.inf and (self.is_right or not grades_endings)
        return self.score > worse.score or (self.text == worse.text and keeps)

    def pair(self, worse: _Choice) -> Row:
        """The columns of a preference. A critic reads no thoughts: where the texts are equal, no thought is better, and both sides have the same."""
        return {**self._side("chosen"), **(self if self.text == worse.text else worse)._side("rejected")}

    def _side(self, name: str) -> Row:
        thought = {} if self.thought is None else {f"{name}_thought": self.thought}
        return {name: self.text, **thought, **({f"{name}_cut": True} if self.is_cut else {})}


_Groups = list[tuple[list[_Choice], bool]]


def _choices(run: Run, candidates: Candidates, scored: Row) -> list[_Choice]:
    """The candidates of a turn. Where an answer was run, that is its score; a critic that grades endings scores right ones above 0, wrong ones below."""
    texts, cut, thoughts = candidates
    nothing = [None] * len(texts)
    columns = zip(texts, thoughts or nothing, cut, scored["advantages"], scored.get("verified", nothing), strict=True)
    is_answer = [run.record.answer(text) is not None for text in texts]
    return [
        _Choice(text, thought, is_cut, ends, ends and score > 0, score if passed is None else passed)
        for ends, (text, thought, is_cut, score, passed) in zip(is_answer, columns, strict=True)
    ]


def _drawn(
    group: list[_Choice], keeps_equal: bool, grades_endings: bool, config: Any, rng: np.random.Generator
) -> list[tuple[int, int]]:
    """Indices of the pairs (chosen, rejected) of a group that the actor is trained on."""

    def is_preferred(i: int, j: int) -> bool:
        return group[i].is_preferred(group[j], keeps_equal, grades_endings)

    texts = [choice.text for choice in group]

    def is_drawn(i: int, j: int) -> bool:
        """A text is paired with itself once: more of these pairs would crowd out the preferences."""
        first = texts.index(texts[i])
        return is_preferred(i, j) and (texts[i] != texts[j] or (i, j) == (first, texts.index(texts[i], first + 1)))

    if not config.pair_quantile:
        return distinct_turn_pairs(is_drawn, len(group), config.pairs_per_turn, rng)
    pairs = turn_pairs([choice.score for choice in group], config.pairs_per_turn, rng, config.pair_quantile)
    return [pair for pair in pairs if is_preferred(*pair)]


def _groups(choices: list[_Choice], answers: str) -> _Groups:
    """The candidates that are paired with each other, and whether their pairs of equal texts are kept."""
    groups = candidate_groups([choice.is_answer for choice in choices], answers)
    return [([choices[i] for i in group], keeps) for group, keeps in groups]


def _groups_of_last_turn(choices: list[_Choice], before: list[_Choice]) -> _Groups:
    """Those where a question comes too late: it ranks below every answer, and so do the questions before it.

    A policy that answers early samples no question here. It would learn to go on asking, and never to end.
    """
    choices = [choice if choice.is_answer else choice._replace(score=-np.inf) for choice in choices]
    late = [([*(choice for choice in choices if choice.is_answer), *before], False)] if before else []
    return [*_groups(choices, BY_CRITIC), *late]


def _asked_before(run: Run, episode: Episode, turn: int, has_thoughts: bool) -> list[_Choice]:
    """What the agent asked in the episode before a turn, as candidates that must not be chosen."""
    asked = [past for past in episode.turns[: turn - 1] if run.record.answer(past.text) is None]
    return [_Choice(past.text, past.thought if has_thoughts else None, past.is_cut, False, False, -np.inf) for past in asked]


def _is_last(run: Run, task: Any, turn: int) -> bool:
    return turn == run.record.turn_limit(task, run.config.task)


def _num_turns(episode: Episode) -> int:
    return 0 if episode.is_void else len(episode.turns)
