"""About how long each stage of a run takes on this machine: what a run prints before it starts, and `--dry_run`.

The amount of work follows from the settings (`core.work`), the sizes of dialogues from demonstrations or collected episodes (`trainers.lengths`), the speed from
timed steps (`trainers.speeds`). As stages of the run finish, their times correct those of later stages that do the same kind of work.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from sweetrl_agent.core.run import Run
from sweetrl_agent.core.work import Lengths, Speeds, Work
from sweetrl_agent.trainers.lengths import ASSUMED
from sweetrl_agent.trainers.speeds import measure

#: Seconds of a stage that loads and saves a model, and of any other, which no setting changes.
FIXED_S, LEAST_S = 2.0, 0.5
#: Seconds of a finished stage that count as much as its forecast: shorter ones say little about the speed.
AS_SURE_S = 10.0
#: Factor by which a forecast is often wrong, in either direction: other processes, lengths of dialogues, numbers of pairs; and with assumed sizes of dialogues.
UNCERTAIN, UNCERTAIN_SIZES = 2.0, 4.0
#: Expected work and seconds of a stage; None if its time is not known.
Expected = tuple[Work, float | None]


@dataclass(frozen=True)
class Forecast:
    """The forecast of the stages of a run, or of the policies of an evaluation.

    Attributes:
        works: Sizes of dialogues -> the work of each stage now, by name and in order; what finished stages have written is counted.
        lengths: Sizes of an average dialogue.
        speeds: How fast this machine is.
    """

    works: Callable[[Lengths], Mapping[str, Work]]
    lengths: Lengths
    speeds: Speeds

    def expected(self, done: Mapping[str, float]) -> dict[str, Expected]:
        """Work and expected seconds of every stage, in order.

        Args:
            done: Seconds of the finished stages.
        """
        works = self.works(self.lengths)
        seconds = {name: self._seconds(work) for name, work in works.items()}

        def pace(name: str) -> float:
            """How much slower than expected finished stages of the same kind of work were; of all kinds if there is none."""
            known = [other for other in done if seconds.get(other) is not None]
            same = [other for other in known if works[other].is_played == works[name].is_played] or known
            return (sum(done[other] for other in same) + AS_SURE_S) / (sum(seconds[other] or 0.0 for other in same) + AS_SURE_S)

        return {name: (work, None if (value := seconds[name]) is None else value * pace(name)) for name, work in works.items()}

    def _seconds(self, work: Work) -> float | None:
        seconds = self.speeds.seconds(work)
        return None if seconds is None else seconds + (FIXED_S if work.has_amounts else LEAST_S)

    @property
    def uncertainty(self) -> float:
        """Factor by which the times are often wrong, in either direction."""
        return UNCERTAIN_SIZES if self.lengths.source == ASSUMED.source else UNCERTAIN

    def about(self) -> list[str]:
        """Lines that say what the forecast rests on: the sizes of dialogues, and the speed of the machine."""
        sizes = self.lengths
        hidden = f", hidden information of {sizes.hidden:.0f}" if sizes.hidden else ""
        dialogue = f"{sizes.turns:.1f} turns of {sizes.agent:.0f} tokens, replies of {sizes.reply:.0f}, a request of {sizes.request:.0f}"
        return [f"dialogue   {dialogue}{hidden} ({sizes.source})", f"times      {self.speeds.basis}"]


def make_forecast(
    run: Run, works: Callable[[Lengths], Mapping[str, Work]], left: Collection[str], has_model: bool = True
) -> Forecast:
    """Forecast the stages of a run; times on this machine what those that are left need.

    Args:
        run: The run.
        works: As in `Forecast`.
        left: Stages that are left to do.
        has_model: As in `speeds.measure`.
    """

    def needed(lengths: Lengths) -> Work:
        return sum((work for name, work in works(lengths).items() if name in left), Work())

    return Forecast(works, *measure(run, needed, has_model))


def table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Rows as lines with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def as_lines(
    expected: Mapping[str, Expected], left: Collection[str], done: Collection[str], uncertainty: float = UNCERTAIN
) -> list[str]:
    """The plan as a table for the terminal: stage, work, expected time, and the sum of the stages that are left; then why stages have no time.

    Args:
        expected: Work and seconds of each stage.
        left: Requested stages that are not done.
        done: Finished stages.
        uncertainty: As in `Forecast`.
    """

    def state(name: str) -> str:
        if name not in left:
            return "done" if name in done else "not requested"
        return "not timed" if name in untimed else in_words(expected[name][1])

    untimed = {name: work.not_timed for name, (work, _) in expected.items() if name in left and work.not_timed}
    total = time_left(expected, [name for name in left if name not in untimed])
    besides = f", besides {', '.join(untimed)}" if untimed else ""
    between = f", likely {_rounded(total / uncertainty)} to {_rounded(total * uncertainty)}" if total else ""
    rows = [(name, work.text, state(name)) for name, (work, _) in expected.items()]
    why = [f"not timed  {name}: {reason}" for name, reason in untimed.items()]
    return [*table([*rows, ("in all", "", f"{in_words(total)}{between}{besides}")]), *why]


def time_left(expected: Mapping[str, Expected], left: Iterable[str]) -> float | None:
    """Expected seconds of the stages that are left; None if one of them is unknown."""
    seconds = [expected[name][1] for name in left if name in expected]
    return None if None in seconds else sum(filter(None, seconds))


def in_words(seconds: float | None) -> str:
    """A time as "about 40 s" or "about 2.5 min", with at most two digits that say something."""
    return "time not known" if seconds is None else f"about {_rounded(seconds)}"


def _rounded(seconds: float) -> str:
    if seconds < 55:
        return f"{max(1, round(seconds)) if seconds < 10 else 5 * round(seconds / 5)} s"
    amount, unit = (seconds / 60, "min") if seconds < 5400 else (seconds / 3600, "h")
    return f"{amount:.1f} {unit}" if amount < 9.5 else f"{float(f'{amount:.2g}'):,.0f} {unit}"
