"""Fuzzing of every parser on the host: does it accept all generated inputs, or refuse them with the documented error?

    python benchmarks/fuzz.py [--examples 100000] [--only NAME] [--output benchmarks/results/fuzz.json]

The properties are those of the test suite, which tries 100 inputs for each. Exits with status 1 if a property fails.
`benchmarks/hostile_text.py` measures the time of the parsers.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import sys
import time
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
OUTPUT = ROOT / "benchmarks" / "results" / "fuzz.json"
SUITES = (
    "tests/hostile/test_fuzz_text_and_pages.py",
    "tests/hostile/test_verdict_protocol.py",
    "tests/colbench_gym/simulators/model/test_hostile_server.py",
    "tests/colbench_gym/simulators/model/test_reply_cache.py",
    "tests/colbench_gym/simulators/model/test_agent_text.py",
)
COUNTS = re.compile(r"(\d+) passing, (\d+) failing, and (\d+) invalid")


class Tally:
    """Collects the results of pytest and hypothesis for every property, and prints and writes them at once.

    Args:
        output: The output file. Its results of other properties with the same number of examples are kept.
        examples: Number of inputs per property.

    Attributes:
        found: Property -> number of "inputs", number "discarded" by the generator, "seconds", and whether it "holds".
    """

    def __init__(self, output: Path, examples: int) -> None:
        self._output = output
        self._head = {"command": "python benchmarks/fuzz.py", "examples": examples, "python": platform.python_version()}
        self.found: dict[str, dict[str, Any]] = {}
        self._began = 0.0

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Start the clock."""
        self._began = time.monotonic()

    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        """Read the counts, which hypothesis only reports as text."""
        phases = COUNTS.findall(item.hypothesis_statistics)  # type: ignore[attr-defined]
        passing, failing, invalid = (sum(map(int, counts)) for counts in zip(*phases, strict=True))
        name = f"{Path(item.path).stem}::{item.name}"
        seconds = round(time.monotonic() - self._began, 1)
        self.found[name] = {"inputs": passing + failing, "discarded": invalid, "seconds": seconds, "holds": failing == 0}
        print(f"{name}: {self.found[name]}", flush=True)
        earlier = json.loads(self._output.read_text(encoding="utf-8")) if self._output.exists() else {}
        kept = earlier["properties"] if earlier.get("examples") == self._head["examples"] else {}
        self._output.write_text(json.dumps({**self._head, "properties": kept | self.found}, indent=1) + "\n")


def main() -> int:
    """Fuzz and write the results. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=100_000, help="inputs per property")
    parser.add_argument("--only", default="", help="properties whose name matches, as pytest's -k")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    arguments = parser.parse_args()
    os.environ["COLBENCH_FUZZ_EXAMPLES"] = str(arguments.examples)
    os.chdir(ROOT)
    tally = Tally(arguments.output, arguments.examples)
    chosen = ["-k", arguments.only] if arguments.only else []
    # Properties with their own number of examples do not test parsers: 100,000 files synchronised to the disk are not needed.
    options = ["-q", "-s", "-m", "hypothesis", "-p", "no:cacheprovider", "--timeout", "0", "--deselect", f"{SUITES[3]}::test_replies_come_back_bit_for_bit"]  # fmt: skip
    return int(pytest.main([*options, *chosen, *SUITES], plugins=[tally]))


if __name__ == "__main__":
    sys.exit(main())
