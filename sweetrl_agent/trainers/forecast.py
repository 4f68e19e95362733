"""About how long each stage of a run takes on this machine: what a run prints before it starts, and `--dry_run`.

The amount of work follows from the settings (`core.work`), the sizes of dialogues from demonstrations or collected episodes (`trainers.lengths`), the speed from
timed steps of a model of the same shape (`trainers.timing`) and from trial episodes of the environment. As stages of the run finish, their times correct
those of later stages that do the same kind of work.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sweetrl_agent.config.pipeline import STAGES
from sweetrl_agent.core.run import Run
from sweetrl_agent.core.stage import Stage
from sweetrl_agent.core.work import Lengths, Work
from sweetrl_agent.trainers.lengths import ASSUMED
from sweetrl_agent.trainers.machine import Machine, machine_of
from sweetrl_agent.trainers.stage_work import works_of

#: Seconds of a stage that loads and saves a model, and of any other, which no setting changes.
FIXED_S, LEAST_S = 2.0, 0.5
#: Seconds of a finished stage that count as much as its forecast: shorter ones say little about the speed.
AS_SURE_S = 10.0
#: Factor by which a forecast is often wrong, in either direction: other processes, lengths of dialogues, numbers of pairs.
UNCERTAIN = 2.0
#: The same where the sizes of dialogues are assumed.
UNCERTAIN_SIZES = 4.0
#: Expected work and seconds of a stage; None if its time is not known.
Expected = tuple[Work, float | None]


@dataclass
class Forecast:
    """The forecast of a run's stages.

    Attributes:
        run: The run.
        stages: Its stages by name.
        algorithms: The algorithms that have stages of their own among them.
        lengths: Sizes of an average dialogue.
        machine: How fast this machine is.
    """

    run: Run
    stages: Mapping[str, Stage]
    algorithms: Sequence[object]
    lengths: Lengths
    machine: Machine
    _first: dict[str, float] = field(default_factory=dict)

    def expected(self, done: Mapping[str, float]) -> dict[str, Expected]:
        """Work and expected seconds of every stage, in order. What finished stages have written is counted, no longer estimated.

        Args:
            done: Seconds of the finished stages.
        """
        works = works_of(self.run, self.stages, self.algorithms, self.lengths)
        seconds = {name: seconds_of(work, self.machine) for name, work in works.items()}
        for name, value in seconds.items():
            if value is not None and name not in done:
                self._first[name] = value  # the forecast that a stage is compared with is the last one before it ran
        forecast_of_done = {name: self._first.get(name, seconds.get(name)) for name in done}
        found: dict[str, Expected] = {}
        for name, work in works.items():
            value = seconds[name]
            found[name] = work, None if value is None else value * self._pace(name, done, forecast_of_done)
        return found

    def _pace(self, name: str, done: Mapping[str, float], forecast_of_done: Mapping[str, float | None]) -> float:
        """How much slower than expected finished stages of the same kind of work were; of all kinds if there is none."""
        expected = {other: value for other, value in forecast_of_done.items() if value is not None}
        same = {other for other in expected if _needs(self.stages, other) & _needs(self.stages, name)} or {*expected}
        return (sum(done[other] for other in same) + AS_SURE_S) / (sum(expected[other] for other in same) + AS_SURE_S)

    @property
    def uncertainty(self) -> float:
        """Factor by which the times are often wrong, in either direction."""
        return uncertainty_of(self.lengths)

    def about(self) -> list[str]:
        """Lines that say what the forecast rests on."""
        return about(self.lengths, self.machine)


def seconds_of(work: Work, machine: Machine) -> float | None:
    """Expected seconds of some work; None if they are not known."""
    if work.not_timed:
        return None
    fixed = FIXED_S if any(work.parts) else LEAST_S
    parts = [machine.seconds(part) for part in work.parts]
    known = [value for value in parts if value is not None]
    return fixed + sum(known) if len(known) == len(parts) else None


def uncertainty_of(lengths: Lengths) -> float:
    """Factor by which times that follow from these sizes are often wrong, in either direction."""
    return UNCERTAIN_SIZES if lengths.source == ASSUMED else UNCERTAIN


def about(lengths: Lengths, machine: Machine) -> list[str]:
    """Lines that say what times rest on: the sizes of dialogues, and the speed of the machine."""
    sizes = lengths
    dialogue = (
        f"{sizes.turns:.1f} turns of {sizes.agent:.0f} tokens, replies of {sizes.reply:.0f}, a request of {sizes.request:.0f}"
    )
    hidden = f", hidden information of {sizes.hidden:.0f}" if sizes.hidden else ""
    return [f"dialogue   {dialogue}{hidden} ({sizes.source})", f"times      {machine.basis}"]


def make_forecast(run: Run, stages: Mapping[str, Stage], algorithms: Sequence[object], left: Collection[str]) -> Forecast:
    """Forecast the stages of a run; times some steps on this machine if stages are left, see `machine.machine_of`.

    Args:
        run: The run.
        stages: Its stages by name.
        algorithms: The algorithms that have stages of their own among them.
        left: Stages that are left to do.
    """
    subject = machine_of(run, lambda lengths: _parts(works_of(run, stages, algorithms, lengths), left))
    return Forecast(run, stages, algorithms, *subject)


def _parts(works: Mapping[str, Work], left: Collection[str]) -> list[object]:
    return [part for name, work in works.items() if name in left for part in work.parts]


def _needs(stages: Mapping[str, Stage], name: str) -> frozenset[str]:
    stage = stages.get(name) or STAGES.get(name)
    return frozenset(stage.needs) if stage is not None else frozenset()


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
    rows = [
        (name, work.text, _in_table(work, seconds) if name in left else "done" if name in done else "not requested")
        for name, (work, seconds) in expected.items()
    ]
    untimed = {name: work.not_timed for name, (work, _) in expected.items() if name in left and work.not_timed}
    widths = [max(len(row[i]) for row in rows) for i in range(2)]
    lines = [f"{name:{widths[0]}}  {text:{widths[1]}}  {seconds}" for name, text, seconds in rows]
    total = time_left(expected, [name for name in left if name not in untimed])
    besides = f", besides {', '.join(untimed)}" if untimed else ""
    between = f", likely {_rounded(total / uncertainty)} to {_rounded(total * uncertainty)}" if total else ""
    why = [f"not timed  {name}: {reason}" for name, reason in untimed.items()]
    return [*lines, f"{'in all':{widths[0]}}  {'':{widths[1]}}  {in_words(total)}{between}{besides}", *why]


def _in_table(work: Work, seconds: float | None) -> str:
    return "not timed" if work.not_timed else in_words(seconds)


def time_left(expected: Mapping[str, Expected], left: Iterable[str]) -> float | None:
    """Expected seconds of the stages that are left; None if one of them is unknown."""
    found = [expected[name][1] for name in left if name in expected]
    return None if None in found else sum(filter(None, found))


def in_words(seconds: float | None) -> str:
    """A time as "about 40 s" or "about 2.5 min", with at most two digits that say something."""
    return "time not known" if seconds is None else f"about {_rounded(seconds)}"


def _rounded(seconds: float) -> str:
    if seconds < 55:
        return f"{max(1, round(seconds)) if seconds < 10 else 5 * round(seconds / 5)} s"
    amount, unit = (seconds / 60, "min") if seconds < 5400 else (seconds / 3600, "h")
    return f"{amount:.1f} {unit}" if amount < 9.5 else f"{float(f'{amount:.2g}'):,.0f} {unit}"
