"""Do the tests notice? Small changes to the lines that the results rest on, each against the tests that mirror its module.

    pip install --no-deps --target build/mutation mutmut==3.8.1 libcst==1.9.0
    PYTHONPATH=.:build/mutation HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 python benchmarks/mutation.py [--most 500] [--seed 0] [--workers 2]
        [--only credit.py,pairs.py] [--again] [--output benchmarks/results/mutation.json]

mutmut makes the mutants, of decorated functions too; `swapped` adds one operator. They are sampled with a fixed seed, from every module in proportion
to the square root of its number of mutants, so that a long module does not crowd out a short one. A mutant runs in a forked process that has loaded
torch already; its module is replaced as it is imported, so no file changes. Subprocesses that a test starts run the module as it is.

A mutant is killed where a test fails or time runs out: `SLOWER` times the tests' own time and `LEAST_S`. The tests of `SLOW` are left out.

Not mutated, for no test should hold it: docstrings, texts with a space in them (help, prompts, messages), all below `raise`, annotations and aliases
of types, defaults and bounds of settings, `strict=` of zip, progress bars, an algorithm's name and title, and `__all__`, which ruff checks.

The output has the score, and each survivor with the reason why it is left. A reason is written into the output by hand, and kept by the next run as
long as the mutant survives; a survivor without one is printed.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.abc
import importlib.metadata
import importlib.util
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import libcst as cst
import pytest
from mutmut.mutation.file_mutation import MutationVisitor
from mutmut.mutation.mutators import mutation_operators
from mutmut.mutation.pragma_handling import IgnoredCode

ROOT = Path(__file__).resolve().parents[1]
OUTPUT = ROOT / "benchmarks" / "results" / "mutation.json"
LEAST_S, SLOWER = 15.0, 3.0
#: Tests that learn or count for many seconds; a mutant must be noticed without them.
SLOW = (
    "test_it_finds_the_optimum", "test_it_learns_what_is_rewarded", "test_a_heavy_kl_term", "test_a_run_that_was_killed",
    "test_the_permutation_test_keeps_its_level", "test_the_interval_of_these_agents_covers", "test_any_wire_is", "test_any_bytes_of",
    "test_operations_are_those", "test_the_critic_learns_the_discounted",
)  # fmt: skip
PACKAGES = ("sandboxes", "colbench_gym", "sweetrl_agent")
ALGORITHMS = "tests/sweetrl_agent/algorithms"
#: Modules, and the tests that mirror them.
TARGETS = {
    "sweetrl_agent/algorithms/grpo.py": [f"{ALGORITHMS}/test_grpo.py"],
    "sweetrl_agent/algorithms/reinforce.py": [f"{ALGORITHMS}/test_reinforce.py"],
    "sweetrl_agent/algorithms/turn_ppo.py": [f"{ALGORITHMS}/test_turn_ppo.py"],
    "sweetrl_agent/algorithms/mtdpo.py": [f"{ALGORITHMS}/test_mtdpo.py"],
    "sweetrl_agent/algorithms/rft.py": [f"{ALGORITHMS}/test_rft.py"],
    "sweetrl_agent/algorithms/sweet.py": [f"{ALGORITHMS}/test_sweet.py", f"{ALGORITHMS}/test_turn_pairs.py"],
    "sweetrl_agent/core/batch.py": [
        "tests/sweetrl_agent/trainers/test_on_policy.py",
        f"{ALGORITHMS}/test_grpo.py",
        f"{ALGORITHMS}/test_reinforce.py",
    ],
    "colbench_gym/seeds.py": ["tests/sweetrl_agent/core/test_seeds.py"],
    "sweetrl_agent/trainers/groups.py": ["tests/sweetrl_agent/trainers/test_groups.py"],
    "sweetrl_agent/trainers/critic.py": ["tests/sweetrl_agent/trainers/test_critic.py", "tests/sweetrl_agent/data/test_hidden_by_turn.py"],
    "sweetrl_agent/critics/credit.py": ["tests/sweetrl_agent/critics/test_credit.py", "tests/sweetrl_agent/trainers/test_critic.py"],
    "sweetrl_agent/critics/advantage.py": [
        "tests/sweetrl_agent/critics/test_advantage.py",
        "tests/sweetrl_agent/critics/test_packed.py",
    ],
    "sweetrl_agent/critics/judge.py": ["tests/sweetrl_agent/critics/test_judge.py"],
    "sweetrl_agent/data/pairs.py": ["tests/sweetrl_agent/data/test_pairs.py", "tests/sweetrl_agent/data/test_hidden_by_turn.py"],
    "sweetrl_agent/evaluation/statistics.py": [
        "tests/sweetrl_agent/evaluation/test_statistics.py",
        "tests/sweetrl_agent/evaluation/test_measures.py",
    ],
    "sweetrl_agent/rollouts/scheduler.py": [
        "tests/sweetrl_agent/rollouts/test_scheduler.py",
        "tests/sweetrl_agent/rollouts/test_play.py",
        "tests/sweetrl_agent/rollouts/test_player.py",
    ],
    "sandboxes/client.py": ["tests/sandboxes/test_client.py", "tests/hostile/test_verdict_protocol.py"],
    "colbench_gym/scoring/answer.py": ["tests/colbench_gym/scoring/test_answer.py", "tests/colbench_gym/scoring/test_answer_forms.py"],
    "colbench_gym/scoring/message.py": ["tests/colbench_gym/scoring/test_message.py"],
}  # fmt: skip
SWAPPED = {"mean": "sum", "sum": "mean", "min": "max", "max": "min", "minimum": "maximum"}
#: Calls and keywords that are left as they are.
LEFT_CALLS, LEFT_KEYWORDS = ("setting", "field", "progress_bar", "TypeVar"), ("strict", "desc", "unit", "metadata")


@dataclass
class Mutant:
    """A module with one change.

    Attributes:
        path: Of the module, from the repository's root.
        line: Of the change.
        change: The line, and what became of it.
        source: The whole module.
        outcome: "killed", "timed out" or "survived".
    """

    path: str
    line: int
    change: str
    source: str
    outcome: str = ""


def swapped(node: cst.Call) -> Iterator[cst.Call]:
    """The mistakes of this field: a mean for a sum, a smallest for a largest, one form of a dialogue's score for another."""
    func = node.func
    if isinstance(func, cst.Attribute) and func.attr.value in SWAPPED:
        yield node.with_changes(func=func.with_changes(attr=cst.Name(SWAPPED[func.attr.value])))
    if isinstance(func, cst.Name) and func.value in ("min", "max"):
        yield node.with_changes(func=cst.Name(SWAPPED[func.value]))
    for i, arg in enumerate(node.args):
        if isinstance(arg.value, cst.Name) and arg.value.value == "SUM":
            paper = arg.with_changes(value=cst.SimpleString('"paper"'))
            yield node.with_changes(args=[*node.args[:i], paper, *node.args[i + 1 :]])


class Visitor(MutationVisitor):
    """mutmut's, with places, and with the exceptions of this benchmark."""

    def __init__(self) -> None:
        super().__init__([*mutation_operators, (cst.Call, swapped)], IgnoredCode(set(), set(), set()))
        self.lines: list[int] = []

    def _create_mutations(self, node: cst.CSTNode) -> None:
        if isinstance(node, (cst.SimpleString, cst.ConcatenatedString)) and " " in cst.Module([]).code_for_node(node):
            return
        before = len(self.mutations)
        super()._create_mutations(node)
        kept = [m for m in self.mutations[before:] if not _drops_only_a_left_keyword(m.original_node, m.mutated_node)]
        self.mutations[before:] = kept
        position = self.get_metadata(cst.metadata.PositionProvider, node, None)
        self.lines += [position.start.line if position else 0] * len(kept)

    def _skip_node_and_children(self, node: cst.CSTNode) -> bool:
        if isinstance(node, (cst.FunctionDef, cst.ClassDef)):  # mutmut leaves out decorated ones
            return False
        if isinstance(node, (cst.Raise, cst.Decorator, cst.ImportFrom)):
            return True
        if isinstance(node, cst.Arg) and node.keyword is not None and node.keyword.value in LEFT_KEYWORDS:
            return True
        if isinstance(node, (cst.Assign, cst.AnnAssign)) and _is_declaration(node):
            return True
        return (isinstance(node, cst.Call) and _name(node.func) in LEFT_CALLS) or bool(super()._skip_node_and_children(node))


def _name(node: cst.CSTNode | None) -> str:
    return node.value if isinstance(node, cst.Name) else ""


def _is_declaration(node: cst.Assign | cst.AnnAssign) -> bool:
    """A setting, an alias of a type, an algorithm's name and title, or `__all__`."""
    target = node.targets[0].target if isinstance(node, cst.Assign) else node.target
    value = node.value
    if _name(target) == "__all__" or (isinstance(value, cst.Call) and _name(value.func) in LEFT_CALLS):
        return True
    if isinstance(value, cst.Subscript) and _name(target)[:1].isupper():
        return True
    return isinstance(target, cst.Tuple) and _name(target.elements[0].value) in ("name", "Config")


def _drops_only_a_left_keyword(original: cst.CSTNode, mutated: cst.CSTNode) -> bool:
    if not isinstance(original, cst.Call) or not isinstance(mutated, cst.Call):
        return False
    changed = [arg for arg in original.args if not any(arg is other for other in mutated.args)]
    return bool(changed) and all(arg.keyword is not None and arg.keyword.value in LEFT_KEYWORDS for arg in changed)


def sampled(paths: Sequence[str], most: int, seed: int) -> list[Mutant]:
    """At most so many mutants of the modules, each module's share as the square root of its number."""
    visited = {path: _visited((ROOT / path).read_text("utf-8")) for path in paths}
    numbers = {path: len(visitor.mutations) for path, (_, visitor) in visited.items()}
    weights = {path: math.sqrt(number) for path, number in numbers.items()}
    left, mutants = most, []
    for path in sorted(numbers, key=lambda path: numbers[path]):
        count = min(numbers[path], int(left * weights[path] / sum(weights.values())))
        left -= count
        del weights[path]
        drawn = random.Random(f"{seed} {path}").sample(range(numbers[path]), count)
        mutants += [_mutant(path, *visited[path], i) for i in sorted(drawn)]
    return mutants


def _visited(code: str) -> tuple[cst.Module, Visitor]:
    visitor = Visitor()
    return cst.metadata.MetadataWrapper(cst.parse_module(code)).visit(visitor), visitor


def _mutant(path: str, module: cst.Module, visitor: Visitor, number: int) -> Mutant:
    mutation = visitor.mutations[number]
    source = module.deep_replace(mutation.original_node, mutation.mutated_node).code
    before, after = module.code.splitlines(), source.splitlines()
    while before and after and before[0] == after[0]:
        before, after = before[1:], after[1:]
    while before and after and before[-1] == after[-1]:
        before, after = before[:-1], after[:-1]
    change = "  ->  ".join(" ".join(line.strip() for line in lines) for lines in (before, after))
    return Mutant(path, visitor.lines[number], change, source)


class Replaced(importlib.abc.MetaPathFinder, importlib.abc.SourceLoader):
    """Imports one module from a mutant's source."""

    def __init__(self, mutant: Mutant) -> None:
        self.path, self.source = str(ROOT / mutant.path), mutant.source

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if self.path != str(ROOT / fullname.replace(".", "/")) + ".py":
            return None
        return importlib.util.spec_from_file_location(fullname, self.path, loader=self)

    def get_filename(self, fullname: str) -> str:
        return self.path

    def get_data(self, path: str) -> bytes:
        return self.source.encode()


@dataclass(eq=False)  # pytest keeps its plugins in a set
class Timed:
    """Plugin of pytest: no slow tests, and the fastest first where it is known how long each takes."""

    seconds: dict[str, float] = field(default_factory=dict)

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        kept = [item for item in items if not item.name.startswith(SLOW)]
        items[:] = sorted(kept, key=lambda item: self.seconds.get(item.nodeid, 0.0))

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration


def in_fork(tests: Sequence[str], plugin: Timed, mutant: Mutant | None = None, report: Path | None = None) -> int:
    """Start the tests in a forked process, on a mutant or on the modules as they are; the process, which ends with pytest's status."""
    pid = os.fork()
    if pid:
        return pid
    os.setsid()
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    status = 1
    folder = tempfile.mkdtemp(prefix="mutation-")
    try:
        if mutant is not None:
            sys.meta_path.insert(0, Replaced(mutant))
        words = [
            "-x",
            "-q",
            "-p",
            "no:cacheprovider",
            "-W",
            "ignore::pytest.PytestAssertRewriteWarning",
            f"--basetemp={folder}/t",
        ]
        status = int(pytest.main([*words, *tests], plugins=[plugin]))
        if report is not None:
            report.write_text(json.dumps(plugin.seconds))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(status)


def load() -> None:
    """Load what the tests load of other people's, and then forget our own modules, which each fork imports anew."""
    from gymnasium.envs.registration import registry

    before = set(registry)
    for path in TARGETS:
        importlib.import_module(path.removesuffix(".py").replace("/", "."))
    for name in (
        "sweetrl_agent.compare",
        "sweetrl_agent.envs.colbench_backend",
        "hypothesis.strategies",
        "peft",
        "sandboxes.embedded",
    ):
        importlib.import_module(name)
    for name in [name for name in sys.modules if name.split(".")[0] in PACKAGES]:
        del sys.modules[name]
    for name in set(registry) - before:
        del registry[name]


def timed(path: str, folder: Path) -> dict[str, float]:
    """Seconds of each test of a module, which must pass on the module as it is."""
    report = folder / "seconds.json"
    pid = in_fork(TARGETS[path], Timed(), report=report)
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
        raise SystemExit(f"The tests of {path} fail without a mutation.")
    seconds: dict[str, float] = json.loads(report.read_text())
    return seconds


def judge(mutants: Sequence[Mutant], seconds: dict[str, dict[str, float]], workers: int) -> None:
    """Set the outcomes, so many mutants side by side."""
    left, running = list(reversed(mutants)), {}
    while left or running:
        while left and len(running) < workers:
            mutant = left.pop()
            own_seconds = sum(seconds[mutant.path].values())
            pid = in_fork(TARGETS[mutant.path], Timed(dict(seconds[mutant.path])), mutant)
            running[pid] = mutant, time.monotonic() + SLOWER * own_seconds + LEAST_S
        time.sleep(0.02)
        for pid, (mutant, deadline) in list(running.items()):
            is_late = time.monotonic() > deadline
            if is_late:
                os.killpg(pid, signal.SIGKILL)
            ended, status = os.waitpid(pid, 0 if is_late else os.WNOHANG)
            if ended:
                del running[pid]
                mutant.outcome = "timed out" if is_late else "killed" if status else "survived"
                done = len(mutants) - len(left) - len(running)
                print(f"{done:4} {mutant.outcome:9} {mutant.path}:{mutant.line}  {mutant.change[:160]!r}", flush=True)


def main() -> int:
    """Mutate, run, and write the score."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--only", default="", help="Modules with one of these in their path, separated by commas; nothing is written."
    )
    parser.add_argument(
        "--again", action="store_true", help="Run the survivors of the output alone; the others stay what they were."
    )
    parser.add_argument("--output", type=Path, default=OUTPUT)
    given = parser.parse_args()
    os.chdir(ROOT)
    os.environ |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": "-p pytest_timeout -p _hypothesis_pytestplugin"}
    load()
    mutants = [
        m for m in sampled(list(TARGETS), given.most, given.seed) if any(part in m.path for part in given.only.split(","))
    ]
    known = json.loads(given.output.read_text()) if given.output.exists() else {"survivors": [], "late": []}
    whys = {(row["file"], row["change"]): row["why"] for row in known["survivors"]}
    if given.again:
        late = {(row["file"], row["change"]) for row in known["late"]}
        for mutant in mutants:
            key = mutant.path, mutant.change
            mutant.outcome = "" if key in whys else "timed out" if key in late else "killed"
    run = [m for m in mutants if not m.outcome]
    with tempfile.TemporaryDirectory() as folder:
        seconds = {path: timed(path, Path(folder)) for path in dict.fromkeys(m.path for m in run)}
    judge(run, seconds, given.workers)
    result = summary(mutants, whys)
    print(json.dumps({name: result[name] for name in ("mutants", "killed", "timed_out", "survived", "score")}))
    for row in result["survivors"]:
        if not row["why"]:
            print(f"survives without a reason: {row['file']}:{row['line']}  {row['change']}")
    if not given.only:
        given.output.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    return 0


def summary(mutants: Sequence[Mutant], whys: dict[tuple[str, str], str]) -> dict[str, Any]:
    """The score, numbers of each module, the survivors with their reasons, and those that timed out."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    paths = dict.fromkeys(m.path for m in mutants)
    counts = {path: Counter(m.outcome for m in mutants if m.path == path) for path in paths}
    names = {"killed": "killed", "timed_out": "timed out", "survived": "survived"}
    total = {name: sum(of_module[outcome] for of_module in counts.values()) for name, outcome in names.items()}
    places = [(m, {"file": m.path, "line": m.line, "change": m.change}) for m in mutants]
    return {
        "tool": f"mutmut {importlib.metadata.version('mutmut')}: its operators, and `swapped` of benchmarks/mutation.py",
        "command": f"python benchmarks/mutation.py {' '.join(sys.argv[1:])}".strip(),
        "commit": commit.stdout.strip(),
        "mutants": len(mutants),
        **total,
        "score": round(1 - total["survived"] / max(len(mutants), 1), 4),
        "files": {
            path: {"mutants": of_module.total(), **{name: of_module[outcome] for name, outcome in names.items()}}
            for path, of_module in counts.items()
        },
        "survivors": [{**place, "why": whys.get((m.path, m.change), "")} for m, place in places if m.outcome == "survived"],
        "late": [place for m, place in places if m.outcome == "timed out"],
    }


if __name__ == "__main__":
    sys.exit(main())
