"""The decoders of what a runner says, on generated input: no exception but the documented one.

Three layers, each fed with what the one before it may let through: bytes of a runner that breaks the protocol, payloads of a
program that forges its frames, and wires (parsed JSON) of any shape.
"""

import json
import math

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandboxes import Limits, Outcome, Program, frames
from sandboxes.channel import RunnerError
from sandboxes.client import RunnerClient, _call_result
from sandboxes.runner.encode import TooLarge, Unsupported, to_json
from sandboxes.sandbox import ExecutionResult
from sandboxes.values import MalformedValue, canonical, fingerprint, parse
from tests.sandboxes.runs import Recorded, decode

fuzz = settings(suppress_health_check=[HealthCheck.too_slow])

TAGS = (
    "int", "float", "str", "bytes", "bytearray", "complex", "decimal", "fraction", "range", "type", "datetime", "date", "time",
    "timedelta", "tuple", "set", "frozenset", "deque", "dict", "object", "",
)  # fmt: skip
#: Texts that are nearly, or only just, the body of an atom.
BODIES = (
    "0x1f", "-0x" + "f" * 90, "0x", "ff", "f", "d83d", "nan", "-inf", "infinity", "sNaN", "-sNaN7", "NaN123", "1E+4096", "1e-4096", "1e4097",
    "1e99999999999999999999", "1_0", "٣", "9" * 400, "int", "NoneType", "type", "2024-02-29", "9999-12-31", "0001-01-01T00:00:00+23:59",
    "9999-12-31T23:59:59.999999-23:59:59.999999", "24:00", "12:00:00.5+00:00:01", "2024-W10-1", "T12", "\ud83d", "\0", "é", " 1 ", "1\n",
)  # fmt: skip
NUMBERS = (0, -1, 1, 2, 10**16, (1 << 61) - 1, -(1 << 61) + 1, 0.0, -0.0, 0.5, 1e308, 5e-324, math.inf, math.nan)

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from(NUMBERS),
    st.sampled_from(BODIES),
    st.integers(),
    st.floats(),
    st.text(max_size=12),
)
wires = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.tuples(inner, inner).map(list),
        st.lists(st.tuples(inner, inner).map(list), max_size=3).map(lambda pairs: {"dict": pairs}),
        st.dictionaries(st.sampled_from(TAGS), inner, max_size=2),
        st.builds(lambda tag, body: {tag: body}, st.sampled_from(TAGS), inner),
        st.builds(lambda item, count: [item] * count, inner, st.sampled_from((0, 30, 300))),
    ),
    max_leaves=12,
)
#: What is no JSON at all, but what a Python caller may hand over.
foreign = st.one_of(
    wires, st.builds(lambda key, value: {key: value}, st.one_of(st.integers(), st.none(), st.binary()), wires), st.binary()
)
payloads = st.one_of(
    st.binary(max_size=200),
    st.text(max_size=80).map(lambda text: text.encode("utf-8", "surrogatepass")),
    wires.map(lambda wire: json.dumps(wire).encode()),
    wires.map(lambda wire: json.dumps(wire, ensure_ascii=False).encode("utf-8", "surrogatepass")),
    st.builds(
        lambda opening, count: opening * count, st.sampled_from((b"[", b'{"tuple":[', b'{"a":')), st.sampled_from((70, 5000))
    ),
    st.builds(lambda wire, cut: json.dumps(wire).encode()[:cut], wires, st.integers(0, 60)),
)


@fuzz
@given(foreign)
def test_any_wire_is_a_value_or_malformed(wire):
    try:
        text = canonical(wire)
    except MalformedValue:
        return
    text.encode("ascii")
    assert canonical(wire, nan_equal=True) == canonical(wire, nan_equal=True)


@fuzz
@given(wires)
def test_what_is_rebuilt_crosses_again_as_itself(wire):
    try:
        canonical(wire)
        value = decode(wire)
        honest = json.loads(to_json(value, 1 << 24))
    except (MalformedValue, TooLarge, Unsupported):  # the encoder counts depth inside numbers, and no class has two names there
        return
    again = decode(honest)
    assert type(again) is type(value)
    assert fingerprint(json.loads(to_json(again, 1 << 24))) == fingerprint(honest)


@fuzz
@given(payloads, st.sampled_from(list(Outcome)), st.floats())
def test_any_payload_of_a_call_is_a_result(payload, outcome, wall_s):
    result = _call_result(outcome, payload, wall_s)
    assert result.outcome is outcome or (outcome is Outcome.OK and result.outcome in (Outcome.CRASH, Outcome.OUTPUT_LIMIT))
    assert bool(result.fingerprint) == (result.outcome is Outcome.OK)
    assert len(result.error) <= frames.MAX_NAME_CHARS
    if result.outcome is Outcome.OK:
        assert fingerprint(result.value) == result.fingerprint
        assert parse(payload) == result.value


READY = b"3.11.7\n6\nmath"
HELLO = frames.LENGTH.pack(len(READY)) + READY
LIMITS = Limits(output_chars=8, value_bytes=256)
any_payload = st.one_of(payloads, st.just(b""), st.binary(min_size=frames.USAGE.size, max_size=frames.USAGE.size))


@st.composite
def replies(draw):
    """Frames of a runner: mostly well formed, with any payload, kind, outcome and time."""
    kind = draw(st.sampled_from((b"C", b"C", b"C", b"O", b"E", b"D", b"D", b"X", b"\xff")))
    payload = draw(any_payload)
    length = draw(st.sampled_from((len(payload), len(payload), len(payload), 0, 1 << 31, len(payload) + 1)))
    return frames.REPLY.pack(kind, length, draw(st.integers(0, 9)), draw(st.floats())) + payload


def results(stream, chunk_bytes, programs):
    """What the host makes of a runner that says this: results, as long as it keeps to the protocol."""
    runner = RunnerClient(Recorded(HELLO + stream, chunk_bytes), {})
    for program in programs:
        runner.send(program, b"")
    return [runner.receive() for _ in programs]


@fuzz
@given(st.one_of(st.binary(max_size=300), st.lists(replies(), max_size=6).map(b"".join)), st.sampled_from((1, 7, 1 << 16)))
def test_any_bytes_of_a_runner_are_results_or_an_error_of_the_runner(stream, chunk_bytes):
    programs = [Program("", ("f()",), LIMITS), Program("", ("f()", "g()"), LIMITS)]
    try:
        returned = results(stream, chunk_bytes, programs)
    except RunnerError:
        return
    for program, result in zip(programs, returned, strict=True):
        assert isinstance(result, ExecutionResult) and len(result.calls) == len(program.calls)
        assert len(result.stdout) <= LIMITS.output_chars and len(result.stderr) <= LIMITS.output_chars
        numbers = (result.cpu_s, result.peak_mib, *(call.wall_s for call in result.calls))
        assert all(math.isfinite(number) and number >= 0.0 for number in numbers)


def test_all_values_of_a_program_have_a_budget():
    """The host holds them all: a thousand values of the largest size were 755 MiB."""
    value = b'"' + b"x" * 254 + b'"'
    assert len(value) == LIMITS.value_bytes
    ok = frames.OUTCOMES.index("ok")
    call = frames.REPLY.pack(frames.CALL, len(value), ok, 0.0) + value
    done = frames.REPLY.pack(frames.DONE, frames.USAGE.size, 0, 0.0) + frames.USAGE.pack(0.0, 0.0)
    (result,) = results(call * 20 + done, 1 << 16, [Program("", ("f()",) * 20, LIMITS)])
    assert [call.outcome for call in result.calls] == [Outcome.OK] * 16 + [Outcome.OUTPUT_LIMIT] * 4
    assert all(call.value is None for call in result.calls[16:])


@fuzz
@given(st.one_of(st.binary(max_size=60), st.binary(max_size=60).map(lambda text: frames.LENGTH.pack(len(text)) + text)))
def test_any_greeting_of_a_runner_is_understood_or_refused(stream):
    channel = Recorded(stream, 16)
    try:
        runner = RunnerClient(channel, {})
    except RunnerError as error:
        assert str(error).startswith("The runner did not start: ") and channel.is_closed
    else:
        assert isinstance(runner.ready["landlock"], int) and isinstance(runner.ready["python"], str)
