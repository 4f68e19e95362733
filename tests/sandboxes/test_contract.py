"""Every backend keeps the contract of `Sandbox`: values, semantics, outcomes, limits."""

import datetime as dt
import math
import sys
import textwrap
import time
import tracemalloc
from collections import Counter, deque
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import pytest

from sandboxes import Limits, Outcome, Program
from sandboxes.values import canonical

from .runs import PATIENT, decode, run_one

EXPRESSIONS = {
    "None": None, "True": True, "-7": -7, "1 << 80": 1 << 80, "0.1": 0.1, "-0.0": -0.0, "float('-inf')": -math.inf, "2+3j": 2 + 3j,
    "'h\\u00e9 \\U0001f600'": "hé 😀", "'\\ud83d' + '\\ude00'": "\ud83d" + "\ude00", "b'a\\x00'": b"a\0", "bytearray(b'a')": bytearray(b"a"),
    "[1, [2]]": [1, [2]], "(1, ())": (1, ()), "{1, 2}": {1, 2}, "frozenset('ab')": frozenset("ab"), "{'a': {1: None}}": {"a": {1: None}},
    "range(1, 9, 2)": range(1, 9, 2), "int": int, "type(None)": type(None), "d.datetime(2024, 2, 29, 1)": dt.datetime(2024, 2, 29, 1),
    "d.datetime(2024, 2, 29, tzinfo=d.timezone.utc)": dt.datetime(2024, 2, 29, tzinfo=dt.UTC), "d.date(1, 1, 1)": dt.date.min,
    "d.time(1, 2, 3, 4)": dt.time(1, 2, 3, 4), "d.timedelta(-1, 5)": dt.timedelta(-1, 5), "Decimal('1.50')": Decimal("1.50"),
    "Fraction(-1, 3)": Fraction(-1, 3), "collections.deque([1], 3)": deque([1]), "collections.Counter('aab')": Counter("aab"),
    "collections.namedtuple('P', 'x y')(1, 2)": (1, 2), "[x for x in 'ab']": ["a", "b"], "{k: v for k, v in [(1, 2)]}": {1: 2},
}  # fmt: skip
IMPORTS = "import collections, datetime as d\nfrom decimal import Decimal\nfrom fractions import Fraction\n"


@pytest.mark.parametrize(
    "limits",
    [
        {"memory_mib": 100.5}, {"memory_mib": 0}, {"memory_mib": 10**12}, {"memory_mib": "a"}, {"call_timeout_s": math.nan},
        {"program_timeout_s": 1e12}, {"value_bytes": 1 << 40}, {"output_chars": -1}, {"call_timeout_s": True},
    ],
)  # fmt: skip
def test_limits_that_cannot_be_kept_are_refused_at_once(limits):
    ((name, value),) = limits.items()
    with pytest.raises(ValueError, match=rf"^`{name}` must be an? \w+ above 0 and at most \d+, got .*\.$"):
        Limits(**limits)


def test_programs_that_were_surely_not_meant_are_refused():
    with pytest.raises(
        ValueError, match=r"^`calls` must be a tuple of expressions, got the text 'f\(\)'; write \('f\(\)',\)\.$"
    ):
        Program("", "f()")
    with pytest.raises(ValueError, match=r"^`seed` must be an integer in \[0, 2\*\*32\), got -1\.$"):
        Program("", (), seed=-1)
    with pytest.raises(ValueError, match=r"^`semantics` must be one of \('module', 'released'\), got 'x'\.$"):
        Program("", (), semantics="x")


# ------------------------------------------------------------------------------------------------------------------ values


def test_values_of_every_type_come_back(sandbox):
    (result,) = sandbox.run([Program(IMPORTS, tuple(EXPRESSIONS), PATIENT)])
    for (expression, expected), call in zip(EXPRESSIONS.items(), result.calls, strict=True):
        assert call.outcome is Outcome.OK, (expression, call)
        value = decode(call.value)
        assert value == expected and repr(value) == repr(dict(expected) if type(expected) is Counter else expected)


def test_nan_comes_back(sandbox):
    call = run_one(sandbox, "", "float('nan')")
    assert math.isnan(decode(call.value)) and canonical(call.value) != canonical(call.value)


def test_numpy_scalars_come_back_and_arrays_do_not(sandbox):
    pytest.importorskip("numpy")
    calls = (
        "np.float64(0.5)",
        "[np.int32(3), np.bool_(True)]",
        "np.arange(3).tolist()",
        "np.ones((50, 50)).dot(np.ones(50)).sum()",
        "np.ones(3)",
    )
    (result,) = sandbox.run([Program("import numpy as np", calls, PATIENT)])
    assert [call.value for call in result.calls] == [0.5, [3, True], [0, 1, 2], 2500.0, None]
    assert result.calls[-1].outcome is Outcome.NOT_SERIALISABLE


def test_packages_are_there_for_programs_that_name_them(sandbox):
    calls = ("__import__('numpy').__name__", "__import__('num' + 'py')")
    named, unnamed = sandbox.run([Program("", (call,), PATIENT) for call in calls])
    assert named.calls[0].value == "numpy"
    assert (unnamed.calls[0].outcome, unnamed.calls[0].error) == (Outcome.EXCEPTION, "ModuleNotFoundError")


def test_random_numbers_and_sets_are_the_same_every_time(sandbox, make_sandbox):
    calls = ("random.random()", "random.random()", "list({'a', 'b', 'c', 'd', 'e', 'f'})", "hash('a')")
    program = Program("import random", calls, PATIENT)
    first, second = sandbox.run([program] * 2)
    assert [call.value for call in first.calls] == [call.value for call in second.calls]
    assert first.calls[0].value == first.calls[1].value
    with make_sandbox(workers=1, packages=()) as other:
        assert [call.value for call in other.run([program])[0].calls] == [call.value for call in first.calls]


# --------------------------------------------------------------------------------------------------------------- semantics

IDIOMATIC = "import math\ndef root(x): return math.sqrt(x)\ndef f(n): return 0 if n == 0 else root(4) + f(n - 1)"


def test_numpys_random_numbers_are_the_same_every_time(sandbox):
    pytest.importorskip("numpy")
    source = "import numpy as np\ndef draw():\n    return float(np.random.rand())"
    first, second = sandbox.run([Program(source, ("draw()", "draw()"), PATIENT)] * 2)
    values = [call.value for result in (first, second) for call in result.calls]
    assert len(set(values)) == 1 and 0.0 < values[0] < 1.0


def test_the_seed_is_the_programs(sandbox):
    source = (
        "import random, statistics\nfirst = random.random()\ndef draw():\n    return first, statistics.NormalDist().samples(2)"
    )
    results = sandbox.run([Program(source, ("draw()", "draw()"), PATIENT, seed=seed) for seed in (0, 0, 1)])
    zero, again, other = ([call.value for call in result.calls] for result in results)
    assert zero == again and zero[0] == zero[1] and other[0] == other[1] != zero[0]


def test_many_threads_fit_into_the_memory(sandbox):
    source = "import concurrent.futures as f, time\ndef run():\n    with f.ThreadPoolExecutor(32) as pool:\n"
    source += "        return sum(pool.map(lambda x: time.sleep(0.05) or x, range(32)))"
    assert run_one(sandbox, source, "run()").value == 496


def test_module_semantics_let_functions_see_imports_helpers_and_themselves(sandbox):
    assert run_one(sandbox, IDIOMATIC, "f(3)").value == 6.0


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="The released grader scores everything 0 on Python 3.13.")
def test_released_semantics_do_not(sandbox):
    call = run_one(sandbox, IDIOMATIC, "f(3)", semantics="released")
    assert (call.outcome, call.error) == (Outcome.EXCEPTION, "NameError")
    assert run_one(sandbox, "def f(x):\n    import math\n    return math.sqrt(x)", "f(4)", semantics="released").value == 2.0
    leaked = "def f(): return [multiprocessing.__name__, signal.__name__, Empty.__name__]"
    assert run_one(sandbox, leaked, "f()", semantics="released").value == ["multiprocessing", "signal", "Empty"]
    assert run_one(sandbox, leaked, "f()").error == "NameError"


def test_the_source_is_executed_afresh_for_every_call(sandbox):
    source = "seen = []\ndef f(x):\n    seen.append(x)\n    return seen"
    for semantics in ("module", "released"):
        (result,) = sandbox.run(
            [Program(source.replace("seen = []", "") if semantics == "released" else source, (), semantics=semantics)]
        )
        assert result.calls == ()
    (result,) = sandbox.run([Program(source, ("f(1)", "f(2)"), PATIENT)])
    assert [call.value for call in result.calls] == [[1], [2]]


def test_dataclasses_enums_and_annotations_work(sandbox):
    source = """
    from __future__ import annotations
    import dataclasses, enum, typing
    @dataclasses.dataclass
    class P:
        x: int = 1
        y: typing.ClassVar[int] = 2
    class E(enum.IntEnum):
        A = 3
    def f():
        return [dataclasses.astuple(P()), E.A, str(typing.get_type_hints(P)['x']), __name__]
    """
    assert decode(run_one(sandbox, textwrap.dedent(source), "f()").value) == [(1,), 3, "<class 'int'>", "program"]


def test_asyncio_and_threads_work(sandbox):
    source = """
    import asyncio, concurrent.futures
    async def add(x):
        await asyncio.sleep(0.001)
        return x + 1
    def f():
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            return sum(pool.map(abs, range(-5, 5))) + asyncio.run(add(1))
    """
    assert run_one(sandbox, textwrap.dedent(source), "f()").value == 27


# ---------------------------------------------------------------------------------------------------------------- outcomes


@pytest.mark.parametrize(
    ("source", "call", "outcome", "error"),
    [
        ("", "1 + 1", Outcome.OK, ""),
        ("", "  1", Outcome.OK, ""),
        ("", "1 / 0", Outcome.EXCEPTION, "ZeroDivisionError"),
        ("class Odd(Exception): pass\ndef f(): raise Odd('text')", "f()", Outcome.EXCEPTION, "Odd"),
        ("def f(:", "f()", Outcome.EXCEPTION, "SyntaxError"),
        ("  x = 1", "x", Outcome.EXCEPTION, "IndentationError"),
        ("x = '\0'", "x", Outcome.EXCEPTION, None),
        ("x = '\ud800'", "x", Outcome.EXCEPTION, "UnicodeEncodeError"),
        ("", "x = 1", Outcome.EXCEPTION, "SyntaxError"),
        ("1 / 0", "1", Outcome.EXCEPTION, "ZeroDivisionError"),
        ("import sys", "sys.exit()", Outcome.EXCEPTION, "SystemExit"),
        ("", "exit()", Outcome.EXCEPTION, "NameError"),
        ("import no_such_module", "1", Outcome.EXCEPTION, "ModuleNotFoundError"),
        ("def f(): return f()", "f()", Outcome.EXCEPTION, "RecursionError"),
        ("def f():\n    while True: pass", "f()", Outcome.TIMEOUT, ""),
        ("", "bytearray(1 << 40)", Outcome.MEMORY, "MemoryError"),
        ("def f():\n    x = []\n    while True: x.append(' ' * 900)", "f()", Outcome.MEMORY, "MemoryError"),
        ("x = []\ndef f():\n    while True: x.append(' ' * 900)", "f()", Outcome.MEMORY, "MemoryError"),
        ("", "'x' * 2_000_000", Outcome.OUTPUT_LIMIT, ""),
        ("import os", "os._exit(3)", Outcome.CRASH, ""),
        ("import ctypes", "ctypes.string_at(0)", Outcome.CRASH, ""),
        ("", "open('new', 'w')", Outcome.FORBIDDEN, None),
        ("import os", "os.fork()", Outcome.FORBIDDEN, "PermissionError"),
        ("", "object()", Outcome.NOT_SERIALISABLE, ""),
        ("", "lambda: 0", Outcome.NOT_SERIALISABLE, ""),
    ],
)
def test_outcomes(sandbox, source, call, outcome, error):
    result = run_one(
        sandbox,
        source,
        call,
        call_timeout_s=0.5 if outcome is Outcome.TIMEOUT else 60.0,
        program_timeout_s=60.0,
        memory_mib=160,
    )
    assert result.outcome is outcome, result
    assert error is None or result.error == error
    assert (result.value is None) or outcome is Outcome.OK


def test_a_failed_compilation_fails_every_call(sandbox):
    (result,) = sandbox.run([Program("def f(:", ("1", "2", "3"), PATIENT)])
    assert [(call.outcome, call.error) for call in result.calls] == [(Outcome.EXCEPTION, "SyntaxError")] * 3


def test_a_program_too_long_to_send_is_an_outcome(sandbox):
    assert run_one(sandbox, "#" * (9 << 20), "1").outcome is Outcome.OUTPUT_LIMIT
    assert run_one(sandbox, "#" * (7 << 20) + "\nx = 1", "x").value == 1


# ------------------------------------------------------------------------------------------------------------------ limits


def test_time_limits_are_those_of_the_program(sandbox):
    source = "import time\ndef f(s):\n    time.sleep(s)\n    return s"
    (result,) = sandbox.run(
        [Program(source, ("f(0)", "f(900)", "f(0.01)", *["f(900)"] * 5), Limits(call_timeout_s=5.0, program_timeout_s=15.0))]
    )
    assert [call.outcome.value for call in result.calls] == ["ok", "timeout", "ok"] + ["timeout"] * 5
    assert result.calls[1].wall_s >= 5.0


def test_memory_limit_is_that_of_the_program_and_the_next_call_starts_clean(sandbox):
    keep = "import json\ndef f(mib):\n    json.kept = bytearray(mib << 20)\n    return len(json.kept) >> 20"
    (result,) = sandbox.run([Program(keep, ("f(100)", "f(1000)", "f(100)"), Limits(60.0, 180.0, memory_mib=300))])
    assert [call.outcome.value for call in result.calls] == ["ok", "memory", "ok"]
    assert 100 < result.peak_mib < 300
    assert run_one(sandbox, keep, "f(500)", memory_mib=1000, call_timeout_s=60.0).value == 500


def test_value_limit_is_that_of_the_program(sandbox):
    assert run_one(sandbox, "", "'x' * 98", value_bytes=100).value == "x" * 98
    assert run_one(sandbox, "", "'x' * 99", value_bytes=100).outcome is Outcome.OUTPUT_LIMIT
    assert len(run_one(sandbox, "", "'x' * 3_000_000", value_bytes=4_000_000).value) == 3_000_000
    assert run_one(sandbox, "", "'x' * 2_000_000").outcome is Outcome.OUTPUT_LIMIT


def test_output_is_captured_in_order_and_cut(sandbox):
    source = "import os, sys\ndef f(x):\n    print('out', x)\n    print('err', x, file=sys.stderr)\n    os.write(1, b'raw\\n')"
    (result,) = sandbox.run([Program(source, ("f(1)", "f(2)"), PATIENT)])
    assert result.stdout == "raw\nout 1\nraw\nout 2\n" and result.stderr == "err 1\nerr 2\n"
    (result,) = sandbox.run(
        [Program("def f():\n    print('é' * 100_000)\n    return 1", ("f()", "f()"), replace(PATIENT, output_chars=50))]
    )
    assert result.stdout == "é" * 50 and [call.value for call in result.calls] == [1, 1]
    (result,) = sandbox.run([Program("import os", ("os.write(1, bytes([255]))", "os.close(1)", "print('x')", "1"), PATIENT)])
    assert result.stdout == "\ufffd" and result.calls[-1].value == 1


def test_usage_is_measured(sandbox):
    (result,) = sandbox.run([Program("def f():\n    return sum(range(3_000_000))", ("f()", "f()"), PATIENT)])
    assert 0.01 < result.cpu_s < 5.0 and 5.0 < result.peak_mib < 200.0
    assert all(call.wall_s > 0.001 for call in result.calls)


# ----------------------------------------------------------------------------------------------------------------- batches


def test_results_come_one_by_one(sandbox, make_sandbox):
    one, two = Program("import time", ("1",), PATIENT), Program("", ("2",), PATIENT)
    slow = Program("import time", ("time.sleep(120)",))
    assert [result.calls[0].value for result in sandbox.stream([one, slow, two])] == [1, None, 2]
    with make_sandbox(workers=1) as other:  # which ends what runs there
        started = time.monotonic()
        results = other.stream([one, replace(slow, limits=Limits(240.0, 240.0)), two])
        assert next(results).calls[0].value == 1
        assert time.monotonic() - started < 120, "the first result waited for the others"


def test_a_stream_that_nobody_reads_to_its_end_holds_nobody_up(sandbox):
    results = sandbox.stream([Program("import time", ("time.sleep(0.2)",))] * 1000)
    next(results)
    started = time.monotonic()
    results.close()
    assert run_one(sandbox, "", "1").value == 1
    assert time.monotonic() - started < 100  # not the 200 seconds of all of them, which sleep whatever else the machine does


def test_large_programs_and_large_values_pass_each_other(sandbox):
    """Programs are sent ahead of need: what waits must not block a runner that has much to say."""
    small = Program("", ("'small'",), PATIENT)
    wordy = Program("", ("'x' * 1_000_000",) * 4, PATIENT)
    long = Program(f"text = {'y' * 3_000_000!r}", ("len(text)",), PATIENT)
    results = sandbox.run([wordy, small, long, wordy, small, wordy, long, wordy, wordy, small])
    values = [call.value for result in results for call in result.calls if call.value != "x" * 1_000_000]
    assert values == ["small", 3_000_000, "small", 3_000_000, "small"]
    assert sum(len(result.calls) for result in results) == len(values) + 5 * 4


def test_what_has_been_handed_over_is_not_kept(sandbox):
    """A batch of thousands of large values must not be in memory at once."""
    programs = [Program("", (f"'x' * {1_000_000 + i}",), PATIENT) for i in range(40)]
    tracemalloc.start()
    stream = sandbox.stream(programs)
    lengths = [len(next(stream).calls[0].value) for _ in programs]
    kept, _ = tracemalloc.get_traced_memory()  # not the peak, which counts what waited to be handed over
    tracemalloc.stop()
    stream.close()
    assert lengths == list(range(1_000_000, 1_000_040))
    assert kept < 20e6


def test_a_program_loses_only_the_call_that_is_killed(sandbox):
    source = "import os, time\ndef run(x):\n    if x == 1: os._exit(0)\n    if x == 2: time.sleep(60)\n    return x"
    (result,) = sandbox.run([Program(source, tuple(f"run({x})" for x in range(5)), Limits(5.0, 120.0))])
    assert [call.outcome for call in result.calls] == [Outcome.OK, Outcome.CRASH, Outcome.TIMEOUT, Outcome.OK, Outcome.OK]
    assert [call.value for call in result.calls] == [0, None, None, 3, 4]


def test_no_mark_can_be_left_on_the_standard_input(sandbox):
    mark = Program("import fcntl, os", ("fcntl.fcntl(0, fcntl.F_SETFL, os.O_APPEND | os.O_NONBLOCK)",), PATIENT)
    look = Program("import fcntl, os", ("fcntl.fcntl(0, fcntl.F_GETFL) & (os.O_APPEND | os.O_NONBLOCK)",), PATIENT)
    assert [result.calls[0].value for result in sandbox.run([look, mark, look])] == [0, 0, 0]


def test_nothing_but_the_program_runs_after_a_fork(sandbox):
    """What `random` and `threading` do after a fork would touch a third of what a program's process costs."""
    unseeded = Program("import math", ("__import__('ran' + 'dom').random()",), PATIENT)
    first, second = sandbox.run([unseeded, unseeded])
    assert first.calls[0].value == second.calls[0].value


def test_the_time_of_a_call_is_never_more_than_was_seen(sandbox):
    source = "import os, struct\ndef lie(wall_s):\n    os.write(3, struct.pack('!BdI', 0, wall_s, 1) + b'9')\n    os._exit(0)"
    started = time.monotonic()
    results = sandbox.run([Program(source, (f"lie(float('{lie}'))",), PATIENT) for lie in ("nan", "inf", "-1", "1e9")])
    seen = time.monotonic() - started
    assert [result.calls[0].value for result in results] == [9] * 4
    assert all(0.0 <= result.calls[0].wall_s <= seen for result in results)
