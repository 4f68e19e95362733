"""What of a dialogue an agent reads."""

import pytest

from sweetrl_agent.core.messages import as_read

SYSTEM = {"role": "system", "content": "s"}
DIALOGUE = [{"role": role, "content": f"{role[0]}{i}"} for i in range(3) for role in ("user", "assistant")]  # u0 a0 u1 a1 u2 a2


def _said(messages):
    return " ".join(message["content"] for message in messages)


@pytest.mark.parametrize(
    ("history", "expected"),
    [(-1, "s u0 a0 u1 a1 u2"), (0, "s u2"), (1, "s u1 a1 u2"), (2, "s u0 a0 u1 a1 u2"), (9, "s u0 a0 u1 a1 u2")],
)
def test_an_agent_reads_its_instructions_and_the_latest_turns(history, expected):
    assert _said(as_read([SYSTEM, *DIALOGUE[:-1]], history)) == expected
    assert _said(as_read(DIALOGUE[:-1], history)) == expected[2:]
    world = {"role": "system", "content": "w"}
    assert _said(as_read([SYSTEM, world, *DIALOGUE[:-1]], history)) == f"s w{expected[1:]}", (
        "what an environment begins with is no turn"
    )


@pytest.mark.parametrize(("history", "expected"), [(-1, "u0 a1 n u1"), (0, "n u1"), (1, "u0 a1 n u1"), (2, "u0 a1 n u1")])
def test_a_turn_is_read_with_all_that_the_user_says_before_it(history, expected):
    """An environment may speak twice in a row: a notice, and the human."""
    said = [("user", "u0"), ("assistant", "a1"), ("user", "n"), ("user", "u1")]
    assert _said(as_read([{"role": role, "content": content} for role, content in said], history)) == expected
