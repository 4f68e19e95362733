"""`python -m colbench_gym`: the ids, and the page of the documentation that is generated from them."""

from __future__ import annotations

import inspect
from pathlib import Path

import gymnasium as gym
import pytest

import colbench_gym
from colbench_gym.__main__ import main
from colbench_gym.catalog import as_markdown, entry, ids
from colbench_gym.tasks import load_tasks
from sandboxes.named import load_named

PAGE = Path(__file__).resolve().parents[2] / "docs" / "environment_ids.md"


@pytest.fixture(scope="module")
def entries():
    return [entry(name) for name in ids()]


def test_the_page_is_current(entries):
    assert PAGE.read_text(encoding="utf-8").rstrip("\n") == as_markdown(entries).rstrip("\n"), (
        "run `python -m colbench_gym --markdown > docs/environment_ids.md`"
    )


def test_every_argument_of_every_id_is_documented(entries):
    games = [f"LMRL-{name}-v0" for name in sorted(colbench_gym.LMRL_GAMES)]
    assert [one.id for one in entries] == ["ColBench-Backend-v0", "ColBench-Frontend-v0", *games]
    for one in entries:
        made_by = load_named("env", gym.spec(one.id).entry_point)
        assert [argument.name for argument in one.arguments] == list(inspect.signature(made_by).parameters)
        assert not [argument.name for argument in one.arguments if not argument.text], one.id
    assert not any(one.tasks or one.humans for one in entries[2:])
    for one in entries[:2]:
        assert one.tasks["embedded:test"] == len(
            load_tasks("embedded:test", kind="program" if one.id == "ColBench-Backend-v0" else "page")
        )
    humans = entries[0].humans
    assert list(humans) == ["scripted", "openai", "person"] and humans["openai"][0].default == ""
    assert not [argument.name for argument in humans["openai"] if not argument.text]


def test_the_command_prints_signature_tasks_and_humans(capsys):
    assert main(["ColBench-Backend-v0"]) == 0
    said = capsys.readouterr().out
    assert "    simulator: str | Mapping[str, Any] | Simulator = 'scripted'," in said
    assert "embedded:train     2,037 tasks" in said and "unsafe-no-isolation" in said and "Frontend" not in said


def test_an_unknown_id_names_the_nearest(capsys):
    with pytest.raises(SystemExit):
        main(["ColBench-Backnd-v0"])
    assert "Did you mean 'ColBench-Backend-v0'?" in capsys.readouterr().err
