"""Results of an evaluation as lines for the screen. Names of agents and splits come from files and settings: they are escaped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from colbench_gym.agents.agent import CUT_TURNS, SILENT_TURNS, SIMULATED_TURNS
from colbench_gym.evaluation.summary import ANSWER_CUT
from colbench_gym.files import Row
from colbench_gym.outside_text import printable
from colbench_gym.scoring.intervals import SHARES

#: What is counted of the agent's turns, in words.
COUNTED = {
    SILENT_TURNS: "turns that said nothing, since the model only thought or was not allowed to speak: {}",
    CUT_TURNS: "turns that the limit of tokens (`--max_new_tokens`) cut: {}",
    SIMULATED_TURNS: "search with simulator access, not comparable with an agent that only talks; turns that it took in the simulator: {}",
    ANSWER_CUT: "answers that it cut, which are not graded and count as failures: {}",
}


#: Most paired differences of a split that are all shown: those of five agents.
MOST_PAIRS = 10


def table(results: Mapping[str, Any], agents: Sequence[str] = ()) -> str:
    """One line for every agent and split, then one for every paired difference. Tokens and cost are shown where they were counted.

    Args:
        results: The content of `results.json`.
        agents: The agents, in order; those of "policies" if there are none given.
    """
    metric = str(results["metric"])
    agents = [name for name in agents or results["policies"] if name in results]
    has_tokens = any("tokens" in score for agent in agents for score in results[agent].values())
    width = max([6, *(len(_name(agent)) for agent in agents)])
    across = max([5, *(len(_name(split)) for agent in agents for split in results[agent])])
    lines = [
        f"\n{'policy':{width}} {'split':{across}} {'n':>5} {'void':>5} {'success':>8} {'95% interval':>16} "
        f"{metric.replace('_', ' '):>13} {'95% interval':>16} {'turns':>6}"
        + (f" {'tokens':>17} {'cost':>9}" if has_tokens else "")
    ]
    for agent in agents:
        for split, score in results[agent].items():
            head = f"{_name(agent):{width}} {_name(split):{across}} {score['n']:5} {score['void']:5}"
            use = f" {_tokens(score):>17} {_cost(score):>9}" if has_tokens else ""
            lines.append(f"{head} {_scores(score, metric)}{use}")
            lines += count_lines(score, f"{_name(agent)}, {_name(split)}")
    lines += difference_lines(results.get("differences", []), metric)
    return "\n".join(lines)


def _scores(score: Mapping[str, Any], metric: str) -> str:
    if not score["n"]:
        return f"{'every episode was void':>69}"
    cells = []
    for name, width in (("success", 8), (metric, 13)):
        low, high = score["ci95"][name]
        cells.append(f"{_value(name, score[name]):>{width}} {_value(name, low) + ' to ' + _value(name, high):>16}")
    return f"{' '.join(cells)} {score['turns']:6.1f}"


def count_lines(score: Mapping[str, Any], name: str = "") -> list[str]:
    """Lines on turns that said nothing and on turns and answers that the limit of tokens cut, of a row of results; [] if there are none."""
    return [f"  {name}: {words.format(score[key])}" for key, words in COUNTED.items() if score.get(key)]


def shown_pairs(differences: Sequence[Row], intervals: Callable[[Row], Iterable[Sequence[float]]]) -> list[Row]:
    """The paired differences for a screen: those of a split with at most `MOST_PAIRS`, and of any other those of which an interval excludes 0.

    Args:
        differences: Those of all splits, in order.
        intervals: The intervals of a difference.
    """
    pairs = Counter(pair["split"] for pair in differences)
    return [
        pair
        for pair in differences
        if pairs[pair["split"]] <= MOST_PAIRS or any(low > 0 or high < 0 for low, high in intervals(pair))
    ]


def left_out(differences: Sequence[Row], shown: Sequence[Row]) -> list[str]:
    """A line on the differences that are not shown; [] if all are."""
    left = len(differences) - len(shown)
    return (
        [f"\nnot shown, since their intervals include 0: {left} of {len(differences)} differences (all: results.json)"]
        if left
        else []
    )


def difference_lines(differences: Sequence[Row], metric: str) -> list[str]:
    """An empty line, then one for every paired difference; [] if there are none.

    Args:
        differences: The differences; see `summary.differences`.
        metric: Name of the metric.
    """
    pairs = Counter(pair["split"] for pair in differences)  # p is corrected for the pairs of a split, if there are several
    shown = shown_pairs(differences, lambda pair: (pair["success"]["ci95"], pair[metric]["ci95"]))
    lines = [_difference(pair, metric, pairs[pair["split"]] > 1) for pair in shown]
    return ["", *lines, *left_out(differences, shown)] if differences else []


def _difference(pair: Row, metric: str, is_corrected: bool) -> str:
    parts = []
    for name in dict.fromkeys(("success", metric)):
        p = f"p (Holm) = {pair[name]['p_holm']:.4f}" if is_corrected else f"p = {pair[name]['p']:.4f}"
        parts.append(f"{change(name, pair[name])}, {p}")
    return f"{_name(pair['split'])}: {_name(pair['to'])} minus {_name(pair['from'])}: {'; '.join(parts)}; {pair['tasks']} tasks"


def change(name: str, difference: Mapping[str, Any]) -> str:
    """The difference of a metric and its interval, such as "success +17.7 (+12.3 to +23.0)"; shares are in points."""
    low, high = (_signed(name, bound) for bound in difference["ci95"])
    return f"{name.replace('_', ' ')} {_signed(name, difference['difference'])} ({low} to {high})"


def _tokens(score: Mapping[str, Any]) -> str:
    tokens = score.get("tokens", {})
    sums = [tokens.get(name) for name in ("prompt_tokens", "generated_tokens")]
    return " + ".join("?" if value is None else f"{value:,}" for value in sums)


def _cost(score: Mapping[str, Any]) -> str:
    if "cost" not in score:
        return "-"
    total = score["cost"]["total"]
    return "?" if total is None else f"{total:.4f}"


def _value(name: str, value: float) -> str:
    return f"{100 * value:.1f}%" if name in SHARES else f"{value:.4g}"


def _signed(name: str, value: float) -> str:
    return f"{100 * value:+.1f}" if name in SHARES else f"{value:+.4g}"


def _name(text: object) -> str:
    return printable(str(text)).replace("\n", "\\n").replace("\t", "\\t")
