"""What the requests of a command to model servers use and cost: one row for each in `server_usage.jsonl`, and no request after the limit.

`ChatServer` asks `check` before a request and calls `count` after its reply, so simulated humans, agents and retries are all counted, also those of
episodes that a kill or a stop has lost. All processes of a command append to the same file and read what the others have appended, and a
resumed command reads the rows of the earlier ones. Rows have tokens and no cost: the cost is by the prices of the command that reads them.
"""

from __future__ import annotations

import json
import logging
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from colbench_gym.errors import ColBenchError, CostError
from colbench_gym.evaluation.prices import Prices, cost_of
from colbench_gym.files import append_rows
from colbench_gym.outside_text import printable

USAGE = "server_usage.jsonl"
_log = logging.getLogger(__name__)


class Meter:
    """Counts tokens, and refuses requests once all before have cost `max_cost`. Picklable, for other processes.

    Args:
        path: File of the rows.
        prices: Price of every model; {} for none.
        max_cost: The limit, in the currency of the prices; 0 for none.
        served: Models of `--engine server`. Its servers know adapters by other names, which have the highest of their prices.
    """

    def __init__(self, path: Path, prices: Prices, max_cost: float = 0.0, served: Sequence[str] = ()) -> None:
        self._given = (path.absolute(), prices, max_cost, served)
        self.path, self.prices, self.max_cost, _ = self._given
        of_served = [prices[model] for model in served if model in prices]
        self._highest = (max(price[0] for price in of_served), max(price[1] for price in of_served)) if of_served else None
        self._lock, self._end = threading.Lock(), 0
        self.requests, self._read, self._generated = Counter[str](), Counter[str](), Counter[str]()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._given

    def check(self, model: str) -> None:
        """Refuse a request that could exceed the limit. A model that costs nothing is never refused.

        Raises:
            CostError: If the model has no price, or the requests before have reached the limit.
        """
        if not self.max_cost:
            return
        price = self._price(model)
        if price is None:
            raise CostError(
                f"`prices` has no price of {printable(model)[:100]!r}, and `--max_cost` is {self.max_cost:g}: add it to the file, with zeros for a server of "
                "your own, and give the same command to resume."
            )
        if any(price) and (cost := self.cost()) >= self.max_cost:
            raise CostError(
                f"The requests to model servers have cost {cost:.4g}, and `--max_cost` is {self.max_cost:g}, so no more are sent. What has ended is kept: "
                "the same command with a higher `--max_cost` resumes."
            )

    def count(self, model: str, usage: tuple[int, int] | None) -> None:
        """Append the row of a reply.

        Args:
            model: Name of the model.
            usage: Prompt and generated tokens; None if the server reports none.

        Raises:
            CostError: If there is a limit, and the server reports no tokens of a model that has a price above 0.
        """
        read, generated = usage or (None, None)
        line = json.dumps({"model": model, "prompt_tokens": read, "generated_tokens": generated}) + "\n"
        with self._lock, self.path.open("ab", buffering=0) as file:
            file.write(line.encode())  # one write at the end of the file: processes do not mix their rows
        if self.max_cost and usage is None and any(self._price(model) or ()):
            raise CostError(
                f"The server of {printable(model)[:100]!r} does not report the tokens of its replies, so `--max_cost` cannot be kept. Take a server that "
                "reports them, or leave `--max_cost` out; the same command resumes."
            )

    def cost(self) -> float:
        """Cost of all requests so far; those of models without a price, or without tokens, cost nothing."""
        with self._lock:
            self._catch_up()
            prices = {model: price for model in self.requests if (price := self._price(model))}
            return sum(cost_of(prices, model, self._read[model], self._generated[model]) or 0.0 for model in prices)

    def sentence(self) -> str:
        """What has been used, for the screen; "" without a request."""
        cost, count = self.cost(), self.requests.total()
        tokens = f"{self._read.total():,} prompt tokens, {self._generated.total():,} generated tokens"
        price = f", cost {cost:.4g}" + (f" of at most {self.max_cost:g}" if self.max_cost else "") if self.prices else ""
        return f"{count:,} requests, {tokens}{price}" if count else ""

    def _price(self, model: str) -> tuple[float, float] | None:
        return self.prices.get(model, self._highest)

    def _catch_up(self) -> None:
        """Read the rows that this and other processes have appended."""
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self._end)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._end += len(line)
                self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            row = json.loads(line)
            model, read, generated = str(row["model"]), int(row["prompt_tokens"] or 0), int(row["generated_tokens"] or 0)
        except (ValueError, TypeError, KeyError):
            raise ColBenchError(
                f"{self.path}: expected the tokens of a request in each line, got {line[:60]!r}; restore or remove the file."
            ) from None
        self.requests[model] += 1
        self._read[model] += read
        self._generated[model] += generated


class _Process:
    """The meter of this process; None outside of a command that counts."""

    meter: Meter | None = None


def current() -> Meter | None:
    """The meter of this process, to be handed to another one."""
    return _Process.meter


@contextmanager
def metered(meter: Meter | None) -> Iterator[None]:
    """Count the requests of this process, of all its threads, for as long as the block runs; None counts nothing."""
    before, _Process.meter = _Process.meter, meter
    try:
        yield
    finally:
        _Process.meter = before


@contextmanager
def metered_command(meter: Meter) -> Iterator[None]:
    """`metered`, with what was used on the screen at the end.

    Raises:
        ColBenchError: If the file is not as a command wrote it.
    """
    if meter.path.exists():
        append_rows(meter.path, ())  # removes a line that a kill has cut
    meter.cost()
    try:
        with metered(meter):
            yield
    finally:
        if sentence := meter.sentence():
            _log.info("model servers: %s (%s)", sentence, USAGE)
