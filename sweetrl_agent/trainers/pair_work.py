"""The work of training on pairs of whole dialogues, for the forecast."""

from __future__ import annotations

from dataclasses import replace

from sweetrl_agent.core.run import Run
from sweetrl_agent.core.work import EXPECTED_SHARE, Lengths, Work, reading, training
from sweetrl_agent.data.files import count_rows


def num_outcome_pairs(run: Run) -> tuple[float, str]:
    """Number of outcome pairs and what it is in words: those of the file, or before it is there the expected share of all possible ones."""
    if known := count_rows(run.path("outcome_pairs.jsonl")):
        return known, f"{known:,} pairs"
    most = len(run.tasks) * (run.config.collect.trajectories_per_task - 1)
    return most * EXPECTED_SHARE, f"at most {most:,} pairs"


def pair_work(
    run: Run, lengths: Lengths, batch: int, micro_batch: int, epochs: float, has_reference: bool = True, hidden: float = 0.0
) -> Work:
    """The work of training on the outcome pairs.

    Args:
        run: The run.
        lengths: Sizes of an average dialogue.
        batch: Pairs of an optimizer step.
        micro_batch: Pairs of a pass.
        epochs: Epochs.
        has_reference: Whether the initial model reads all pairs first.
        hidden: Tokens of hidden information in front of each dialogue.
    """
    count, text = num_outcome_pairs(run)
    row = replace(lengths.as_trained(run.config.model.history), hidden=hidden)
    rows = count * lengths.turns / row.turns
    sizes = row.dialogue + hidden, row.spoken
    parts = (training(rows, batch, micro_batch, epochs, *sizes, sides=2),)
    if has_reference:
        parts = (reading(rows, micro_batch, *sizes, sides=2), *parts)
    return Work(f"{text}, {epochs:g} epochs", parts)
