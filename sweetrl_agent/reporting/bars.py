"""Bar charts: outcomes of episodes, and wall time of stages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from sweetrl_agent.reporting.figures import duration, number
from sweetrl_agent.reporting.markup import Html, bar, clip, missing, note, section, tag
from sweetrl_agent.reporting.run_folder import EVALUATION, RESULTS, RunFolder

LEADING_OUTCOMES = ("passed", "wrong")
MAX_OUTCOMES = 12


def outcomes_section(run: RunFolder, colours: Mapping[str, str]) -> Html:
    """Outcomes of the episodes of each agent, by split."""
    if not run.evaluation:
        return section("outcomes", "Outcomes", missing(run.trouble(EVALUATION)))
    counts: dict[str, dict[str, Counter[str]]] = {}
    for record in run.evaluation:
        agents = counts.setdefault(str(record.get("split", "?")), {})
        agents.setdefault(str(record.get("agent", "?")), Counter())[str(record.get("outcome") or "unknown")] += 1
    splits = [_split(name, agents, colours) for name, agents in counts.items()]
    return section(
        "outcomes",
        "Outcomes",
        tag("div", *splits, class_="columns"),
        note("Episodes of evaluation.jsonl, including void ones, in percent of the agent's episodes on the split."),
    )


def seconds_section(run: RunFolder) -> Html:
    """Wall time of each stage, and the most memory that it had."""
    raw = run.results.get("seconds")
    stages = {str(k): s for k, v in (raw.items() if isinstance(raw, dict) else ()) if (s := number(v)) is not None and s >= 0}
    if not stages:
        reason = f'{RESULTS} has no "seconds" of any stage.' if run.results else run.trouble(RESULTS)
        return section("seconds", "Wall time", missing(reason))
    longest, total = max(stages.values()) or 1.0, sum(stages.values())
    peaks = {name: f", {peak / 1024:.1f} GiB" for name, value in run.peaks.items() if (peak := number(value)) is not None}
    rows = [
        bar(name, s / longest, f"{duration(s)} ({100 * s / (total or 1.0):.0f}%){peaks.get(name, '')}")
        for name, s in stages.items()
    ]
    text = f"All stages together: {duration(total)}." + (" GiB: the most memory that a stage had." if peaks else "")
    return section("seconds", "Wall time", tag("div", *rows, class_="bars"), note(text))


def _split(name: str, agents: Mapping[str, Counter[str]], colours: Mapping[str, str]) -> Html:
    total: Counter[str] = sum(agents.values(), Counter())
    leading = [outcome for outcome in LEADING_OUTCOMES if outcome in total]
    ordered = leading + [outcome for outcome, _ in total.most_common() if outcome not in leading]
    shown, rest = ordered[:MAX_OUTCOMES], ordered[MAX_OUTCOMES:]
    rows = [_outcome(outcome, {agent: c[outcome] for agent, c in agents.items()}, agents, colours) for outcome in shown]
    if rest:
        others = {agent: sum(c[outcome] for outcome in rest) for agent, c in agents.items()}
        rows.append(_outcome(f"{len(rest)} other outcomes", others, agents, colours))
    return tag("div", tag("h3", name), *rows, class_="bars")


def _outcome(outcome: str, count: Mapping[str, int], agents: Mapping[str, Counter[str]], colours: Mapping[str, str]) -> Html:
    shares = {agent: number_of / agents[agent].total() for agent, number_of in count.items()}
    rows = [
        bar(agent, share, f"{count[agent]} ({100 * share:.1f}%)", colours.get(agent, "")) for agent, share in shares.items()
    ]
    return tag("div", tag("div", clip(outcome), class_="group"), *rows)
