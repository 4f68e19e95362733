"""Credit accuracy: critics are compared with the exact advantage (`envs.backend_exact_credit`), independently of training an agent.

The initial policy plays held-out tasks. At every turn candidates are sampled from it, and all critics of a run score the same candidates.
There are two numbers per task: Spearman's rank correlation of scores and exact advantages over all candidates of all its turns, and pair
accuracy, the fraction of pairs of candidates of one turn with different exact advantage in which the critic prefers the better one (ties
count one half). Chance level is 0 and 0.5.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from scipy import stats

from colbench_gym.scoring.intervals import mean_interval
from sweetrl_agent.algorithms.critics import CRITICS, open_critic
from sweetrl_agent.algorithms.sweet import candidates_of
from sweetrl_agent.core.policy import sample_each
from sweetrl_agent.core.progress import progress_bar
from sweetrl_agent.core.seeds import derive_seed
from sweetrl_agent.data.files import Row, read_rows, write_rows
from sweetrl_agent.data.run import Run
from sweetrl_agent.evaluation.statistics import Scores, agents_interval, algorithm_interval
from sweetrl_agent.models.loading import load_policy
from sweetrl_agent.rollouts.play import episodes_of, play

STATES, SCORES = "credit_states_{}.jsonl", "credit_scores_{}.jsonl"
METRICS = ("rank_correlation", "pair_accuracy")
_SAME = 1e-9


def sample_states(run: Run, num_tasks: int) -> None:
    """Sample turns of the initial policy on the first held-out tasks of each split, with candidates and exact advantages: credit_states_N.jsonl."""
    policy = load_policy(run.initial_model, run.initial_model, run.config.model)
    rows: list[Row] = []
    for split, tasks in run.held_out.items():
        tasks = tasks[:num_tasks]
        by_id = {task.id: task for task in tasks}
        with closing(run.environment(tasks, min(len(tasks), run.config.model.generation_batch))) as env:
            played = [t for batch in play(policy, env, episodes_of(list(by_id), 1), run.seed, f"credit {split}") for t in batch]
        states = [(t, turn) for t in played if not t.is_void for turn in range(1, len(t.turns) + 1)]
        count = run.config.algorithms.num_candidates
        seeds = [[derive_seed(run.seed, "credit candidates", t.task_id, turn, i) for i in range(count)] for t, turn in states]
        said = sample_each(policy, [t.prefix(turn) for t, turn in states], seeds)
        rows += [
            {
                "split": split,
                "task_id": t.task_id,
                "turn": turn,
                "messages": t.prefix(turn),
                "reference": t.hidden_at(turn),
                "texts": [utterance.text for utterance in own],
            }
            for (t, turn), own in zip(states, said, strict=True)
        ]
    with open_critic(run, "exact") as exact:
        for row in progress_bar(rows, desc="exact advantages", unit="turn"):
            row["exact"] = exact.rank(row["messages"], row["reference"], row["texts"])
    write_rows(run.path(STATES.format(num_tasks)), rows)


def score(run: Run, critic: str, num_tasks: int) -> None:
    """Score the same candidates with a critic; writes the critic's credit_scores_N.jsonl."""
    with open_critic(run, critic) as critic_:
        write_rows(
            run.artifact(critic, SCORES.format(num_tasks)),
            [
                {"credit": critic_.rank(row["messages"], CRITICS[critic].hidden_for(run, row["reference"]), row["texts"])}
                for row in progress_bar(read_rows(run.path(STATES.format(num_tasks))), desc=f"credit of {critic}", unit="turn")
            ],
        )


def hint_reading(run: Run, num_states: int = 80) -> Row:
    """How well the initial policy reads the hidden information: how often it prefers a useful to a useless question when it sees it.

    This is the pair accuracy of the *untrained* critic, on pairs of questions among the candidates of the first `num_states` turns. If the
    initial policy cannot read the hidden information, a critic initialised from it cannot benefit from it.

    Returns:
        "accuracy" over pairs with "ci95" (bootstrap over turns), number of "pairs" and of "turns" with pairs; accuracy is None without pairs.
    """
    right, turns = [], []
    with open_critic(run, "exact") as exact, open_critic(run, "untrained") as untrained:
        for episode, turn, texts in islice(candidates_of(run), num_states):
            messages, hidden = episode.prefix(turn), episode.hidden_at(turn)
            questions = sorted({text for text in texts if run.record.answer(text) is None})
            if len(questions) < 2:
                continue
            exactly, credit = (np.array(critic.rank(messages, hidden, questions)) for critic in (exact, untrained))
            better, worse = np.nonzero(np.subtract.outer(exactly, exactly) > _SAME)
            right += (credit[better] > credit[worse]).astype(float).tolist()
            turns += [f"{episode.task_id} {episode.index} {turn}"] * len(better)
    if not right:
        return {"accuracy": None, "pairs": 0, "turns": 0}
    interval = [round(bound, 4) for bound in mean_interval(right, turns)]
    return {"accuracy": round(float(np.mean(right)), 4), "ci95": interval, "pairs": len(right), "turns": len(set(turns))}


def accuracies(run: Run, critic: str, num_tasks: int) -> list[Row]:
    """Results of every task: "split", "task_id", and those of `METRICS` and `KINDS`; None if they are undefined for a task."""
    by_task: dict[tuple[str, str], list[Turn]] = {}
    scores = read_rows(run.artifact(critic, SCORES.format(num_tasks)))
    for state, scored in zip(read_rows(run.path(STATES.format(num_tasks))), scores, strict=True):
        is_answer = [run.record.answer(text) is not None for text in state["texts"]]
        turn = Turn(np.array(state["exact"]), np.array(scored["credit"]), np.array(is_answer))
        by_task.setdefault((state["split"], state["task_id"]), []).append(turn)
    return [
        {
            "split": split,
            "task_id": task_id,
            "rank_correlation": rank_correlation(
                np.concatenate([turn.exact for turn in turns]), np.concatenate([turn.credit for turn in turns])
            ),
            "pair_accuracy": pair_accuracy(turns),
            **{kind: pair_accuracy(turns, pairs) for kind, pairs in KINDS.items()},
        }
        for (split, task_id), turns in by_task.items()
    ]


@dataclass(frozen=True)
class Turn:
    """Candidates of one turn: exact advantages, a critic's scores, and which of them are answers. Arrays of shape (N,)."""

    exact: Any
    credit: Any
    is_answer: Any

    def unlike(self) -> Any:
        """Mask of pairs (better, worse) by exact advantage, shape (N, N)."""
        return np.subtract.outer(self.exact, self.exact) > _SAME

    def question_over_answer(self) -> Any:
        """Mask of pairs in which a question is better than an answer, which is then wrong."""
        return self.unlike() & np.logical_and.outer(~self.is_answer, self.is_answer)

    def question_over_question(self) -> Any:
        """Mask of pairs of two questions."""
        return self.unlike() & np.logical_and.outer(~self.is_answer, ~self.is_answer)

    def answer_over_answer(self) -> Any:
        """Mask of pairs of two answers, a right and a wrong one."""
        return self.unlike() & np.logical_and.outer(self.is_answer, self.is_answer)

    def answer_when_all_is_known(self) -> Any:
        """Mask of pairs of a right answer and a question when nothing is left to ask; both have exact advantage 0."""
        is_known = float(self.exact.max()) < _SAME
        is_right = self.is_answer & (np.abs(self.exact) < _SAME)
        return np.logical_and.outer(is_right, ~self.is_answer) & is_known


#: Kinds of pairs of candidates, for a detailed analysis of critics.
KINDS: dict[str, Callable[[Turn], Any]] = {
    "question_over_wrong_answer": Turn.question_over_answer,
    "useful_over_useless_question": Turn.question_over_question,
    "right_over_wrong_answer": Turn.answer_over_answer,
    "right_answer_when_all_is_known": Turn.answer_when_all_is_known,
}


def rank_correlation(exact: Any, credit: Any) -> float | None:
    """Spearman's rho; 0 if all scores are equal, None if all exact advantages are equal."""
    if np.ptp(exact) < _SAME:
        return None
    return 0.0 if np.ptp(credit) < _SAME else float(stats.spearmanr(exact, credit).statistic)


def pair_accuracy(turns: Sequence[Turn], pairs: Callable[[Turn], Any] = Turn.unlike) -> float | None:
    """Fraction of pairs in which the first candidate has the higher score, ties count one half; None without pairs."""
    right, count = 0.0, 0
    for turn in turns:
        preference = np.subtract.outer(turn.credit, turn.credit)[pairs(turn)]
        right += float((preference > 0).sum()) + 0.5 * float((preference == 0).sum())
        count += preference.size
    return right / count if count else None


def summarize(runs: Sequence[Run], critics: Sequence[str], num_tasks: int) -> dict[str, dict[str, Row]]:
    """Results by critic and split: "n" tasks, "seeds", all of `METRICS` and, in "kinds", all of `KINDS`, each with "mean" and "ci95"; `METRICS` also "by_seed".

    `METRICS` are means over tasks and seeds with intervals over both, on tasks that have a value for every critic and seed;
    "behind_sweet" is the paired difference to SWEET-RL's own critic. Pairs of a kind are rare, so a task is used if it has one for any
    seed, "n" is the number of such tasks, and the intervals hold for the trained critics (over tasks only).
    """
    rows = {(critic, run.seed): accuracies(run, critic, num_tasks) for critic in critics for run in runs}
    found: dict[str, dict[str, Row]] = {critic: {} for critic in critics}
    for split in dict.fromkeys(row["split"] for own in rows.values() for row in own):
        cells = {key: {row["task_id"]: row for row in own if row["split"] == split} for key, own in rows.items()}
        tables = {metric: _tables(cells, metric) for metric in METRICS}
        for critic in critics:
            found[critic][split] = {
                "n": tables[METRICS[0]][critic].shape[1],
                "seeds": len(runs),
                **{metric: _beside_sweet(of, critic) for metric, of in tables.items() if of[critic].size},
                "kinds": _kinds([own for (name, _), own in cells.items() if name == critic]),
            }
    return found


def _tables(cells: dict[tuple[str, int], dict[str, Row]], metric: str) -> dict[str, Scores]:
    """Table of a metric for every critic, on tasks that have a value for all critics and seeds, shape (seeds, tasks)."""
    known = [{task for task, row in own.items() if row[metric] is not None} for own in cells.values()]
    kept = sorted(set.intersection(*known))
    tables: dict[str, list[list[float]]] = {}
    for (critic, _), own in cells.items():
        tables.setdefault(critic, []).append([own[task][metric] for task in kept])
    return {critic: np.array(scores) for critic, scores in tables.items()}


def _beside_sweet(tables: dict[str, Scores], critic: str) -> Row:
    """A critic's mean of a metric, and its difference to SWEET-RL's own critic if that is evaluated too."""
    row = _number(tables[critic], algorithm_interval(tables[critic]))
    row["by_seed"] = [round(float(mean), 4) for mean in tables[critic].mean(axis=1)]
    if "sweet" in tables and critic != "sweet":
        behind = tables["sweet"] - tables[critic]
        row["behind_sweet"] = _number(behind, algorithm_interval(behind))
    return row


def _kinds(by_seed: Sequence[dict[str, Row]]) -> dict[str, Row]:
    """Accuracy of one critic by kind of pair, on tasks that have such a pair for any seed."""
    found: dict[str, Row] = {}
    for kind in KINDS:
        by_task: dict[str, list[float]] = {}
        for own in by_seed:
            for task, row in own.items():
                if row[kind] is not None:
                    by_task.setdefault(task, []).append(row[kind])
        if by_task:
            means = np.array([[np.mean(values) for values in by_task.values()]])
            found[kind] = {**_number(means, agents_interval(means)), "n": len(by_task)}
    return found


def _number(scores: Any, interval: tuple[float, float]) -> Row:
    return {"mean": round(float(scores.mean()), 4), "ci95": [round(min(max(bound, -1.0), 1.0), 4) for bound in interval]}
