"""Credit accuracy: critics are compared with the exact advantage (`envs.backend_exact_credit`), independently of training an agent.

The initial policy plays held-out tasks. At every turn candidates are sampled from it, and all critics of a run score the same candidates.
There are two numbers per task: Spearman's rank correlation of scores and exact advantages over all candidates of all its turns, and pair
accuracy, the fraction of pairs of candidates of one turn with different exact advantage in which the critic prefers the better one (ties
count one half). Chance level is 0 and 0.5.

The rules of on-policy algorithms score the same candidates (`algorithm_credit`). Where the oracle "marginal" is among the critics, its scores are a second truth: the
advantage for one who knows the dialogue and not the task.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from colbench_gym.files import Row, read_rows, write_rows
from colbench_gym.scoring.intervals import mean_interval
from colbench_gym.seeds import derive_seed
from sweetrl_agent.algorithms.critics import CRITICS, kind_of, open_critic
from sweetrl_agent.algorithms.ranking import Candidates, Ranking, State, open_ranker
from sweetrl_agent.algorithms.sweet_turns import candidates_of
from sweetrl_agent.core.episode import EpisodeKey
from sweetrl_agent.core.policy import sample_each
from sweetrl_agent.core.progress import progress_bar
from sweetrl_agent.critics.gain import NoNoiseError
from sweetrl_agent.evaluation.statistics import Scores, agents_interval, algorithm_interval
from sweetrl_agent.models.loading import load_policy
from sweetrl_agent.rollouts.play import episodes_of, play
from sweetrl_agent.rollouts.replies import NotRepeatedError
from sweetrl_agent.trainers.run import Run

_log = logging.getLogger(__name__)

STATES, SCORES = "credit_states_{}.jsonl", "credit_scores_{}.jsonl"
METRICS = ("rank_correlation", "pair_accuracy")
UNTRAINED = "untrained"
_SAME = 1e-9
#: The oracle whose scores are the second truth, and the key of its measures.
MARGINAL = "marginal"
#: Passes of a model over a dialogue that a critic needs for a candidate, by `CriticKind.scoring`. Candidates of a turn may share those over its prompt.
_PASSES = {"ratios": 2.0, "head": 1.0, "judge": 4.0, "oracle": 0.0}


def sample_states(run: Run, num_tasks: int, num_candidates: int) -> None:
    """Sample turns of the initial policy on the first held-out tasks of each split, with candidates and exact advantages: credit_states_N.jsonl."""
    policy = load_policy(run.initial_model, run.initial_model, run.config.model)
    rows: list[Row] = []
    for split, tasks in run.held_out.items():
        tasks = tasks[:num_tasks]
        by_id = {task.id: task for task in tasks}
        with closing(run.environment(tasks, min(len(tasks), run.config.model.generation_batch))) as env:
            played = [t for batch in play(policy, env, episodes_of(list(by_id), 1), run.seed, f"credit {split}") for t in batch]
        states = [(t, turn) for t in played if not t.is_void for turn in range(1, len(t.turns) + 1)]
        seeds = [
            [derive_seed(run.seed, "credit candidates", t.task_id, turn, i) for i in range(num_candidates)]
            for t, turn in states
        ]
        sampled = sample_each(policy, [t.prefix(turn) for t, turn in states], seeds)
        rows += [
            {
                "split": split,
                "task_id": t.task_id,
                "turn": turn,
                "messages": t.prefix(turn),
                "reference": t.hidden_at(turn),
                "texts": [utterance.text for utterance in candidates],
                **({"cut": cut} if any(cut := [utterance.is_cut for utterance in candidates]) else {}),
                **({"was_cut": was_cut} if any(was_cut := [past.is_cut for past in t.turns[: turn - 1]]) else {}),
            }
            for (t, turn), candidates in zip(states, sampled, strict=True)
        ]
    with open_critic(run, "exact") as exact:
        for row in progress_bar(rows, desc="exact advantages", unit="turn"):
            row["exact"] = exact.rank(row["messages"], row["reference"], row["texts"])
    write_rows(run.path(STATES.format(num_tasks)), rows)


def state_of(seed: int, row: Row) -> State:
    """The state of a row of `sample_states` in a run with a seed."""
    episode_seed = EpisodeKey(row["task_id"]).seed(seed, f"credit {row['split']}")
    return State(row["task_id"], episode_seed, row["messages"], row.get("was_cut", ()))


def score(run: Run, critic: str, num_tasks: int) -> None:
    """Score the same candidates with a critic; writes the critic's credit_scores_N.jsonl."""
    with open_ranker(run, critic) as rank:
        write_rows(
            run.artifact(critic, SCORES.format(num_tasks)),
            [
                {"credit": rank(state_of(run.seed, row), row["reference"], Candidates.of(row))}
                for row in progress_bar(read_rows(run.path(STATES.format(num_tasks))), desc=f"credit of {critic}", unit="turn")
            ],
        )


def hint_reading(run: Run, num_states: int = 80) -> Row:
    """How often critics prefer a useful to a useless question, on pairs of questions among the candidates of the first `num_states` turns.

    The first is the *untrained* critic: how well the initial policy reads the hidden information as context. If it cannot, a critic initialised from it
    cannot benefit from it. Beside it are the run's own critic, if it is trained, and the information gain, which uses the hidden information as a target.

    Returns:
        "accuracy" of the untrained critic over pairs with "ci95" (bootstrap over turns), number of "pairs" and of "turns" with pairs, and "critics" with
        accuracy and interval of the others by name; accuracy is None without pairs.
    """
    right: dict[str, list[float]] = {name: [] for name in _read_by(run)}
    turns: list[str] = []
    with ExitStack() as opened:
        exact = opened.enter_context(open_critic(run, "exact"))
        rankers = dict[str, Ranking]()
        for name in right:
            with _left_out(name, rankers):
                rankers[name] = opened.enter_context(open_ranker(run, name))
        for episode, turn, candidates in islice(candidates_of(run, run.config.algorithm.critic), num_states):
            state, hidden = State.collected(run, episode, turn), episode.hidden_at(turn)
            questions = sorted({text for text in candidates.texts if run.record.answer(text) is None})
            exactly = np.array(exact.rank(state.messages, hidden, questions)) if len(questions) > 1 else np.zeros(0)
            better, worse = np.nonzero(np.subtract.outer(exactly, exactly) > _SAME)
            for name, rank in [*rankers.items()] if len(better) else ():
                with _left_out(name, rankers):
                    credit = np.array(rank(state, hidden, Candidates.of({"texts": questions})))
                    right[name] += ((np.sign(credit[better] - credit[worse]) + 1) / 2).tolist()  # a tie is half right
            turns += [f"{episode.task_id} {episode.index} {turn}"] * len(better)
    if not turns:
        return {"accuracy": None, "pairs": 0, "turns": 0}
    measured = {
        name: {"accuracy": round(float(np.mean(row)), 4), "ci95": [round(bound, 4) for bound in mean_interval(row, turns)]}
        for name, row in right.items()
        if name in rankers
    }
    return {**measured.pop(UNTRAINED), "pairs": len(turns), "turns": len(set(turns)), "critics": measured}


@contextmanager
def _left_out(name: str, rankers: dict[str, Ranking]) -> Iterator[None]:
    """Leaves a critic out whose replies or noise level cannot be had: the measurement is beside the run, which goes on."""
    try:
        yield
    except (NotRepeatedError, NoNoiseError) as error:
        _log.warning("hint reading is without the critic %s. %s", name, error)
        rankers.pop(name, None)


def _read_by(run: Run) -> list[str]:
    """The critics whose reading is measured."""
    own = run.config.algorithm.critic
    names = [UNTRAINED, *([own] if kind_of(run, own).train is not None else [])]
    return [*names, *(["gain"] if "snapshot" in run.record.capabilities(run.config) else [])]


def folder_of_algorithm(run: Any, name: str) -> Path:
    """Folder of what an algorithm's rule gives the candidates: apart from the algorithm's own, which its stages write."""
    folder: Path = run.path("credit") / name
    return folder


def scores_of(run: Run, rule: str, num_tasks: int) -> list[Row]:
    """The scores of a critic or of an algorithm, by its name, one row for each turn."""
    own = folder_of_algorithm(run, rule) / SCORES.format(num_tasks)
    return read_rows(run.artifact(rule, SCORES.format(num_tasks)) if rule in CRITICS else own)


def accuracies(run: Run, rule: str, num_tasks: int, truth: str = "") -> list[Row]:
    """Results of every task: "split", "task_id", and those of `METRICS` and `KINDS`; None if they are undefined for a task.

    Args:
        run: The run.
        rule: A critic, or an algorithm.
        num_tasks: Tasks of a split.
        truth: The oracle that it is compared with, a critic with scores; "" for the exact advantage.
    """
    by_task: dict[tuple[str, str], list[Turn]] = {}
    states, scores = read_rows(run.path(STATES.format(num_tasks))), scores_of(run, rule, num_tasks)
    truths = [row["credit"] for row in scores_of(run, truth, num_tasks)] if truth else [state["exact"] for state in states]
    for state, scored, true in zip(states, scores, truths, strict=True):
        is_answer = [run.record.answer(text) is not None for text in state["texts"]]
        turn = Turn(np.array(true), np.array(scored["credit"]), np.array(is_answer))
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
        """Mask of pairs of a right answer and a question when nothing is left to ask; both have exact advantage 0.

        A wrong answer shows that: it loses the value of the turn, which is 1. Where nothing can succeed any more, every advantage is 0.
        """
        is_known = float(self.exact.max()) < _SAME and bool((self.exact[self.is_answer] < _SAME - 1).any())
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
    from scipy import stats  # takes a second to load

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


def summarize(
    runs: Sequence[Run], critics: Sequence[str], num_tasks: int, algorithms: Sequence[str] = ()
) -> dict[str, dict[str, Row]]:
    """Results by critic (then algorithm) and split: "n" tasks, "seeds", all of `METRICS` and, in "kinds", all of `KINDS`, each with "mean" and "ci95"; `METRICS` also "by_seed".

    `METRICS` are means over tasks and seeds with intervals over both, on tasks that have a value for every critic and seed;
    "behind_sweet" is the paired difference to SWEET-RL's own critic. Pairs of a kind are rare, so a task is used if it has one for any
    seed, "n" is the number of such tasks, and the intervals hold for the trained critics (over tasks only). With algorithms, "cost" is the mean cost
    of a candidate, and "fit" that of training an algorithm's critic. With the oracle "marginal", "marginal" has `METRICS` against it.
    """
    rules = [*critics, *algorithms]
    rows = {(rule, run.seed): accuracies(run, rule, num_tasks) for rule in rules for run in runs}
    found = _by_split(rows, rules, runs)
    if algorithms:
        for rule in rules:
            costs = _costs(runs, rule, num_tasks)
            for of_split in found[rule].values():
                of_split |= costs
    if MARGINAL in critics and algorithms:
        others = {
            (rule, run.seed): accuracies(run, rule, num_tasks, MARGINAL) for rule in rules if rule != MARGINAL for run in runs
        }
        for rule, by_split in _by_split(others, [rule for rule in rules if rule != MARGINAL], runs).items():
            for split, row in by_split.items():
                found[rule][split][MARGINAL] = {metric: row[metric] for metric in METRICS if metric in row}
    return found


def _costs(runs: Sequence[Run], rule: str, num_tasks: int) -> Row:
    """The mean cost of a candidate, as "cost", and that of training an algorithm's critic, as "fit"."""
    if rule in CRITICS:
        kind = kind_of(runs[0], rule)
        cost = {"passes": _PASSES.get(kind.scoring), "environment_steps": float(kind.has_replies), "generated_tokens": 0.0}
        return {"cost": cost}
    rows = [scores_of(run, rule, num_tasks) for run in runs]
    means = {name: [row["cost"][name] for of_run in rows for row in of_run] for name in rows[0][0]["cost"]}
    fits = [of_run[0]["fit"] for of_run in rows if "fit" in of_run[0]]
    fit = {"fit": {name: round(float(np.mean([one[name] for one in fits]))) for name in fits[0]}} if fits else {}
    return {"cost": {name: round(float(np.mean(values)), 2) for name, values in means.items()}, **fit}


def _by_split(rows: dict[tuple[str, int], list[Row]], critics: Sequence[str], runs: Sequence[Run]) -> dict[str, dict[str, Row]]:
    """See `summarize`."""
    found: dict[str, dict[str, Row]] = {critic: {} for critic in critics}
    for split in dict.fromkeys(row["split"] for own in rows.values() for row in own):
        cells = {key: {row["task_id"]: row for row in own if row["split"] == split} for key, own in rows.items()}
        tables = {metric: _tables(cells, metric) for metric in METRICS}
        for critic in critics:
            found[critic][split] = {
                "n": tables[METRICS[0]][critic].shape[1],
                "seeds": len(runs),
                **{
                    metric: _beside_sweet(of, critic, -1.0 if metric == METRICS[0] else 0.0)
                    for metric, of in tables.items()
                    if of[critic].size
                },
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


def _beside_sweet(tables: dict[str, Scores], critic: str, least: float) -> Row:
    """A critic's mean of a metric, and its difference to SWEET-RL's own critic if that is evaluated too."""
    row = _number(tables[critic], algorithm_interval(tables[critic]), least)
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
            found[kind] = {**_number(means, agents_interval(means), 0.0), "n": len(by_task)}
    return found


def _number(scores: Any, interval: tuple[float, float], least: float = -1.0) -> Row:
    """The mean of values from `least` to 1, with an interval that stays there."""
    return {"mean": round(float(scores.mean()), 4), "ci95": [round(min(max(bound, least), 1.0), 4) for bound in interval]}
