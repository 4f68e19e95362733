"""No program holds anything of another: no source, value, output or exception name, of an earlier or a later one, at any time in a batch."""

import pytest

from .memory_spy import assert_isolated, spies

#: Length of the values in marks, and whether the program goes to a plain runner, which has loaded no modules.
KINDS = {"short replies": (1, False), "long replies, plain runner": (10_000, True)}


@pytest.fixture(scope="module", params=[1, 2], ids=["one worker", "two workers"])
def pool(request, make_sandbox):
    """A sandbox of every backend, with one and with two runners."""
    with make_sandbox(workers=request.param) as sandbox:
        yield sandbox


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [1, 2, 16])
def test_a_program_holds_nothing_of_its_neighbours(count, kind, pool):
    programs, pattern = spies(count, *KINDS[kind])
    assert_isolated(pool.run, programs, pattern)
