"""What the training of a critic shows, from its metrics: whether it was long enough, and in which turns the critic finds the difference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from colbench_gym.files import Row

#: Optimizer steps below which a critic has hardly left the initial policy. On `standard`, 8 steps changed the accuracy of its credit by nothing.
FEWEST_STEPS = 50
#: Share of the difference between better and worse dialogues that lies in the second half of their turns, above which the outcome is read there.
LATE = 0.75
PAIRS, HELD_OUT_PAIRS = "pairs", "held_out_pairs"
#: Metric of a turn: the mean advantage of the chosen dialogues in it minus that of the rejected ones.
GAP = "gap/turn_"
_ACCURACY = "rewards/accuracies"


def summarize(rows: Sequence[Row], reads_replies: bool) -> dict[str, Any]:
    """A summary of the training of a critic of pairs.

    Args:
        rows: Metrics of its stage; the last has `PAIRS` and `HELD_OUT_PAIRS`.
        reads_replies: Whether it reads the other side's replies.

    Returns:
        "pairs" and "held_out_pairs", "steps"; "epoch" whose model was kept and "accuracy" on held-out pairs there, or else that on the pairs of the last
        "last_steps" steps, before each of them; "by_turn", the mean advantage of the better dialogue minus that of the worse one, by turn; and "warnings", sentences.
    """
    evaluated = [row for row in rows if "eval_loss" in row]
    best = min(evaluated, key=lambda row: row["eval_loss"]) if evaluated else {}
    logged = [row for row in rows if _ACCURACY in row]
    measured = {name.removeprefix("eval_"): value for name, value in best.items()} or (logged[-1] if logged else {})
    by_turn = {int(name.removeprefix(GAP)): value for name, value in measured.items() if name.startswith(GAP)}
    steps = max((row["step"] for row in rows), default=0)
    counts = {name: next((row[name] for row in reversed(rows) if name in row), 0) for name in (PAIRS, HELD_OUT_PAIRS)}
    summary = {**counts, "steps": steps, "by_turn": [by_turn[turn] for turn in sorted(by_turn)]}
    if _ACCURACY in measured:
        summary["accuracy"] = measured[_ACCURACY]
    if best:
        summary["epoch"] = best["epoch"]
    elif logged:
        summary["last_steps"] = logged[-1]["step"] - (logged[-2]["step"] if len(logged) > 1 else 0)
    return {**summary, "warnings": _warnings(summary, reads_replies)}


def late_share(by_turn: Sequence[float]) -> float:
    """Share of the difference that lies in the second half of the turns; 0 without a difference."""
    total = sum(by_turn)
    return sum(by_turn[(len(by_turn) + 1) // 2 :]) / total if total > 0 else 0.0


def _warnings(summary: Row, reads_replies: bool) -> list[str]:
    warnings = []
    if summary["steps"] < FEWEST_STEPS:
        warnings.append(
            f"{summary['steps']} optimizer steps on {summary[PAIRS]} pairs are few: below {FEWEST_STEPS} a critic stays close to the initial policy. "
            "More: `--num_tasks`, `--trajectories_per_task`, `--sweet.critic_epochs` with `--sweet.critic_held_out`."
        )
    if reads_replies and len(summary["by_turn"]) > 2 and (share := late_share(summary["by_turn"])) > LATE:
        warnings.append(
            f"{share:.0%} of the difference between better and worse dialogues is in the later turns, which see the replies: the outcome is read there, "
            "not in the questions. `--sweet.critic_replies false` hides the replies."
        )
    return warnings


def line(summary: Row) -> str:
    """The summary in a line, with its warnings."""
    if "accuracy" not in summary:
        return ""
    if "epoch" in summary:
        where = f"{summary[HELD_OUT_PAIRS]} held-out pairs, epoch {summary['epoch']:g}"
    else:
        where = (
            f"the pairs of its last {summary['last_steps']} steps"
            if summary["last_steps"] > 1
            else "the pairs of its last step"
        )
    turns = ", ".join(f"{value:+.2f}" for value in summary["by_turn"])
    text = (
        f"Critic: {summary['steps']} steps on {summary[PAIRS]} pairs; the better dialogue has the higher score in {summary['accuracy']:.0%} of "
        f"{where}. Advantage of the better minus the worse, by turn: {turns}."
    )
    return " ".join([text, *summary["warnings"]])
