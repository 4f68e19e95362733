"""The main job on pages, end to end on a very small setting, and the demonstrations that its start learns from."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("playwright")

from colbench_gym.files import read_rows
from colbench_gym.scoring.answer import ANSWER_MARKER
from colbench_gym.scoring.pages import current_page
from colbench_gym.tasks import load_tasks
from colbench_gym.tasks.designs.embedded import design_of
from sweetrl_agent.core.hint import hint_message
from sweetrl_agent.envs.frontend_demonstrations import Demonstrator, demonstrations
from sweetrl_agent.evaluation.main_job import parse
from sweetrl_agent.train import main
from tests.sweetrl_agent.killed_runs import record_again
from tests.words import words

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("needs_browser")]
TASKS = load_tasks("embedded:train[:12]", kind="page")


@pytest.fixture(scope="module")
def shown(needs_browser):
    return demonstrations(TASKS, 60, seed=0)


def test_demonstrations_are_dialogues_that_end_in_a_page(shown):
    assert {len(dialogue) % 2 for dialogue in shown} == {0, 1}  # with and without a leading hint
    for i, dialogue in enumerate(shown):
        talk = dialogue[1:] if dialogue[0]["role"] == "system" else dialogue
        assert [message["role"] for message in talk] == ["user", "assistant"] * (len(talk) // 2)
        assert talk[0]["content"] == TASKS[i % 12].description
        said = [message["content"] for message in talk if message["role"] == "assistant"]
        assert [ANSWER_MARKER in text for text in said] == [False] * (len(said) - 1) + [True]
        assert current_page(said).startswith("<html>")


def test_what_the_person_says_moves_the_page_towards_the_one_in_mind(shown):
    ends = {True: 0, False: 0}
    for i, dialogue in enumerate(shown):
        if dialogue[0]["role"] != "system" and len(dialogue) >= 6:
            wanted = design_of(TASKS[i % 12]).html().splitlines()
            said = [message["content"] for message in dialogue if message["role"] == "assistant"]
            first, last = (set(current_page(shown_so_far).splitlines()) for shown_so_far in (said[:1], said))
            ends[len(set(wanted) & last) >= len(set(wanted) & first)] += 1
    assert ends[True] > 5 * max(ends[False], 1)


def test_a_hinted_demonstrator_shows_the_page_in_mind_at_once():
    for i, dialogue in enumerate(demonstrations(TASKS, 12, 1, Demonstrator(hinted_fraction=1.0))):
        assert dialogue[:1] == hint_message(TASKS[i].hidden.reference, noun="page")
        assert current_page([dialogue[2]["content"]]) == TASKS[i].hidden.reference
        assert dialogue[0]["content"].startswith("The page that the person has in mind")


def test_the_shares_are_as_asked():
    hinted = sum(
        d[0]["role"] == "system" for d in demonstrations(TASKS, 200, 2, Demonstrator(rounds=(1.0,), hinted_fraction=0.3))
    )
    assert 40 < hinted < 80


SETTINGS = {
    "env": "ColBench-Frontend-v0", "tasks": "embedded:train[:12]", "test_tasks": "embedded:test[:2]", "unseen_tasks": "",
    "sft_dialogues": 16, "sft_epochs": 1, "tiny_hidden_size": 32, "tiny_layers": 1, "tiny_vocab_size": 600,
    "num_tasks": 4, "trajectories_per_task": 2, "sweet.num_states": 4, "sweet.num_candidates": 3, "shown_dialogues": 2, "max_new_tokens": 24,
    "max_turns": 3, "min_difference": 0.0, "generation_batch": 8, "sweet.critic_batch": 2, "sweet.critic_micro_batch": 2, "sandbox": "embedded", "threads": 1,
}  # fmt: skip


def test_the_main_job_runs_on_pages(tmp_path, capsys):
    folder = tmp_path / "run"
    given = words(SETTINGS, output=folder)
    assert main([*given, "--stage", "sft"]) == main([*given, "--stage", "collect"]) == 0
    rows = read_rows(folder / "trajectories.jsonl")
    assert len(rows) == 8
    for i, row in enumerate(rows):  # a model this small shows no page, so chance must make the difference
        row["metrics"]["similarity"] = 0.1 + 0.5 * (i % 2)
    (folder / "trajectories.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    record_again(folder, "collect")
    assert main(given) == 0
    assert "similarity" in capsys.readouterr().out
    results = json.loads((folder / "results.json").read_text())
    assert results["metric"] == "similarity"
    assert {name for agent in ("initial", "trained") for name in results[agent]["test"]["ci95"]} == {"success", "similarity"}
    report = (folder / "report.html").read_text()
    assert "Similarity" in report and report.count("data:image/jpeg;base64,") >= 4


def test_pages_have_defaults_of_their_own():
    page = parse(["--env", "ColBench-Frontend-v0"])
    assert (page.collect.min_best, page.collect.min_difference) == (0.0, 0.1)
    assert parse(["--env", "ColBench-Frontend-v0", "--min_difference", "0.2"]).collect.min_difference == 0.2
    assert parse([]).collect.min_difference == 0.0
