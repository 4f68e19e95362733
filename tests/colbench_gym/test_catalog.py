"""`python -m colbench_gym`: the ids, and the page of the documentation that is generated from them."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import gymnasium as gym
import pytest

import colbench_gym
from colbench_gym.__main__ import main
from colbench_gym.catalog import entry, ids, page
from colbench_gym.simulators import SIMULATORS
from colbench_gym.tasks import load_tasks
from sandboxes.named import load_named

PAGE = Path(__file__).resolve().parents[2] / "docs" / "environment_ids.md"


@pytest.fixture(scope="module")
def entries():
    return {name: entry(name) for name in ids()}


def test_the_page_is_current(entries):
    assert PAGE.read_text(encoding="utf-8").rstrip("\n") == page(entries.values()).rstrip("\n"), (
        "run `python -m colbench_gym --markdown > docs/environment_ids.md`"
    )


def test_every_argument_of_every_id_is_documented(entries):
    games = [f"LMRL-{name}-v0" for name in sorted(colbench_gym.LMRL_GAMES)]
    assert list(entries) == [*(f"ColBench-{name}-v0" for name in ("AnyTeam", "Backend", "Frontend", "Split", "Team")), *games]
    for name, text in entries.items():
        made_by = load_named("env", gym.spec(name).entry_point)
        bullets = " ".join(re.findall(r"^\* (`\w+`(?:, `\w+`)*): .", text, re.MULTILINE))
        assert not [argument for argument in inspect.signature(made_by).parameters if f"`{argument}`" not in bullets], name
    assert not any("embedded:" in text or "imulated humans" in text for text in map(entries.get, games))
    for name, kind in {"ColBench-Backend-v0": "program", "ColBench-Frontend-v0": "page"}.items():
        assert f"`embedded:test`: {len(load_tasks('embedded:test', kind=kind)):,} tasks" in entries[name]
    humans = entries["ColBench-Backend-v0"].split("\n### Backend: ")[1:]
    assert [human.partition("\n")[0] for human in humans] == ["scripted", "openai", "person"]
    openai = inspect.signature(load_named("simulator", SIMULATORS["openai"])).parameters
    assert len(re.findall(r"^\* `\w+: .+?`: .", humans[1], re.MULTILINE)) == len(openai)


def test_the_command_prints_signature_tasks_and_humans(capsys):
    assert main(["ColBench-Backend-v0"]) == 0
    printed = capsys.readouterr().out
    assert "    simulator: str | Mapping[str, Any] | Simulator = 'scripted'," in printed
    assert "`embedded:train`: 2,037 tasks" in printed and "### Backend: openai" in printed and "Frontend" not in printed


def test_an_unknown_id_names_the_nearest(capsys):
    with pytest.raises(SystemExit):
        main(["ColBench-Backnd-v0"])
    assert "Did you mean 'ColBench-Backend-v0'?" in capsys.readouterr().err
