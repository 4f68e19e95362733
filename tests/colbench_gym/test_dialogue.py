"""The one dialogue type."""

from __future__ import annotations

import pytest

from colbench_gym.dialogue import Dialogue, Message


def test_a_dialogue_grows_by_copies():
    start = Dialogue().add("user", "Hi.")
    whole = start.add("assistant", "What?").add("user", "This.")
    assert len(start.messages) == 1 and whole.num_turns == 1
    assert whole.transcript() == "Human: Hi.\n\nAgent: What?\n\nHuman: This."
    assert Dialogue.from_dicts(whole.to_dicts()) == whole
    assert hash(whole) == hash(Dialogue.from_dicts([{**m, "output": "x"} for m in whole.to_dicts()]))


def test_unknown_roles_are_refused():
    with pytest.raises(ValueError, match=r"^`role` must be 'user' or 'assistant', got 'system'\.$"):
        Message("system", "x")
