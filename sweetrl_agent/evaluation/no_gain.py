"""Why training shows no gain: the usual causes, each with the number that a run has measured and the setting that changes it.

A gain is shown if the interval of the difference from the initial policy, in success or in the environment's metric, is above 0. The causes are hints, not
proofs: each names a number that is unusual in runs that learn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from colbench_gym.agents.agent import CUT_TURNS, SILENT_TURNS
from colbench_gym.evaluation.table import change
from colbench_gym.files import Row
from colbench_gym.scoring.intervals import SHARES
from sweetrl_agent.trainers.running import TRAINED_TOKENS

#: Success of collected or played dialogues below which hardly any differ in their outcome.
RARE = 0.03
#: Pairs of dialogues with different outcomes, and steps of the policy, below which there is little to learn from.
FEWEST_PAIRS, FEWEST_STEPS = 50, 10
#: Share of the agent's turns that may be cut, or silent.
MOST_LOST = 0.1
#: Change of a share that is worth a sentence, and half the width of an interval that is too wide to see one.
NOTABLE = 0.1
#: Rows that the beginning and the end of a training are compared by; with fewer rows there is no trend.
TREND = 5


def no_gain(
    results: Row, algorithm: str, metrics: Sequence[Row], collected: Row, more: str = "more dialogues (`--num_tasks`) or epochs"
) -> list[str]:
    """Sentences on a run whose training shows no gain, the first on the difference; [] if it shows one, or has no initial policy to compare with.

    Args:
        results: The content of results.json.
        algorithm: Name of the algorithm, as in its settings.
        metrics: Rows of metrics.jsonl, of the stage that trains the policy.
        collected: The content of pairs_summary.json; {} without collected dialogues.
        more: What gives more optimizer steps, for an algorithm that does not play while it trains.
    """
    changes = [pair for pair in results.get("differences", ()) if (pair["from"], pair["to"]) == ("initial", "trained")]
    if not changes:
        return []
    pair, metric = changes[0], results["metric"]
    if max(pair[name]["ci95"][0] for name in ("success", metric)) > 0:
        return []
    initial, trained = (results[agent][pair["split"]] for agent in ("initial", "trained"))
    causes = [
        *_of_collection(collected, metric),
        *_of_training(metrics, algorithm, metric, more),
        *_of_dialogues(initial, trained),
        *_of_evaluation(pair, metric),
    ]
    shown = [change(name, pair[name]) for name in dict.fromkeys(("success", metric))]
    lead = f"Training shows no gain on {pair['split']}: {'; '.join(shown)}."
    return [lead, *(causes or ["None of the usual causes is seen in the run's numbers; docs/troubleshooting.md has others."])]


def _of_collection(collected: Row, metric: str) -> Iterator[str]:
    if not collected:
        return
    number, success = collected["trajectories"] - collected["void"], collected["success"]
    if metric in SHARES and success < RARE:
        yield (
            f"{success:.1%} of the {number} collected dialogues succeeded. Easier tasks (`--tasks`), a better start (more or better demonstrations, a larger "
            "`--model`) or more dialogues of each task (`--trajectories_per_task`) give more to learn from."
        )
    if (pairs := collected["outcome_pairs"]) < FEWEST_PAIRS:
        yield f"The {number} collected dialogues have {pairs} pairs of different outcomes, which are few: `--num_tasks`, `--trajectories_per_task`."


def _of_training(rows: Sequence[Row], name: str, metric: str, more: str) -> Iterator[str]:
    played = [row for row in rows if "return" in row]
    if any("loss" in row for row in rows):  # neither rounds nor trees, whose rows do not count steps
        if played:
            steps = _trained(played)
            what, more = f"in {steps} of {len(played)} iterations", f"`--{name}.iterations`"
        else:
            steps = rows[-1]["step"]
            what = f"for {steps} optimizer step{'s' * (steps != 1)}"
        if steps < FEWEST_STEPS:
            yield f"The policy was trained {what}, which {'is' if steps == 1 else 'are'} few: {more}."
    rates = [row["success"] for row in played if row.get("success") is not None]
    if rates and metric in SHARES and (rate := sum(rates) / len(rates)) < RARE:
        yield (
            f"{rate:.1%} of the episodes that it played in training succeeded. Episodes that fail alike give hardly any gradient: easier tasks "
            f"(`--tasks`), larger groups (`--{name}.group`), or a better start."
        )
    if len(played) >= 2 * TREND:
        first, last = (sum(row["return"] for row in part) / TREND for part in (played[:TREND], played[-TREND:]))
        if last < first:
            yield (
                f"The return of its own episodes fell in training, from {first:.3g} (mean of the first {TREND} iterations) to {last:.3g} (the last {TREND}): "
                f"a lower `--{name}.learning_rate`, or an earlier end."
            )


def _trained(rows: Sequence[Row]) -> int:
    """Number of the rows with more trained tokens than before: in the others a critic alone was trained, or no episode had an advantage."""
    tokens = [0, *(row.get(TRAINED_TOKENS, 0) for row in rows)]
    return sum(after > before for before, after in pairwise(tokens))


def _of_dialogues(initial: Row, trained: Row) -> Iterator[str]:
    if trained["answered"] < initial["answered"] - NOTABLE:
        yield (
            f"The trained policy ends {trained['answered']:.0%} of its dialogues before the limit of turns, the initial one {initial['answered']:.0%}: "
            "it ends fewer of them by itself, such as by an answer."
        )
    turns = trained["turns"] * trained["n"]
    for count, what in (
        (CUT_TURNS, "were cut by the limit of tokens: `--max_new_tokens`"),
        (SILENT_TURNS, "said nothing, since the model only thought: `--max_new_tokens`, `--reasoning`"),
    ):
        if turns and (share := trained.get(count, 0) / turns) > MOST_LOST:
            yield f"{share:.0%} of the trained policy's turns {what}."


def _of_evaluation(pair: Row, metric: str) -> Iterator[str]:
    name = metric if metric in SHARES else "success"
    low, high = pair[name]["ci95"]
    if (half := (high - low) / 2) > NOTABLE / 2:
        tasks = pair["tasks"]
        yield (
            f"{tasks} task{'s' * (tasks > 1)} cannot show a small gain: the interval is {100 * half:.3g} points to either side. More: `--eval_tasks`, or several seeds "
            "with `python -m sweetrl_agent.compare`."
        )
