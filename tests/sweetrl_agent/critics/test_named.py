"""The critics that have names: the form each is trained in, the reference each ranks against, and what the oracles know."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch

import sandboxes
from colbench_gym.files import write_rows
from colbench_gym.scoring.unit_tests import UnitTests
from sweetrl_agent import compare
from sweetrl_agent.algorithms import critic_training
from sweetrl_agent.algorithms.critic_settings import critic_folder
from sweetrl_agent.algorithms.critics import CRITICS, ORACLES, hidden_for, open_critic
from sweetrl_agent.core.episode import Episode, Turn
from sweetrl_agent.envs.backend_exact_credit import marginal_advantages, task_advantages
from sweetrl_agent.evaluation import checks, comparison_job


@pytest.mark.parametrize(
    ("name", "configured", "is_normalised", "sees_hidden"),
    [
        ("sweet", False, True, False),
        ("sweet", True, True, True),
        ("no_hidden", True, True, True),
        ("no_normalisation", False, False, False),
        ("no_normalisation", True, False, True),
        ("paper", False, True, True),
        ("paper_plain", True, True, False),
        ("released", True, True, False),
        ("untrained", True, True, False),
    ],
)
def test_a_critic_ranks_against_its_reference(
    name, configured, is_normalised, sees_hidden, make_run, make_tiny_model, tiny_model_folder
):
    run = make_run(model=str(tiny_model_folder), sft_dialogues=0, **{"sweet.reference_hidden": configured})
    folder = critic_folder(run, name)
    shutil.copytree(tiny_model_folder, folder)
    make_tiny_model(7).save_pretrained(folder)  # what training made of it
    with open_critic(run, name) as critic:
        assert (critic.is_normalised, critic.reference_sees_hidden) == (is_normalised, sees_hidden)
        weights = [model.get_input_embeddings().weight for model in (critic.model, critic.reference)]
    assert torch.equal(*weights) == (name == "untrained")


@pytest.mark.parametrize(
    ("name", "configured", "form", "uses_hidden"),
    [
        ("sweet", "released", "released", True),
        ("no_hidden", "paper", "paper", False),
        ("no_normalisation", "paper", "sum", True),
        ("paper", "released", "paper", True),
        ("paper_plain", "released", "paper", True),
        ("released", "paper", "released", True),
        ("no_replies", "paper", "paper", True),
    ],
)
def test_a_critic_is_trained_in_its_form(name, configured, form, uses_hidden, make_run, monkeypatch):
    class Stop(Exception):
        """Raised in place of the training."""

    def pair_trainer(model, arguments, pairs, folder, *_, **given):
        seen.append((given["form"], folder, [row["hidden"] for row in pairs], given["skips_last"]))
        raise Stop

    seen = []
    monkeypatch.setattr(critic_training, "pair_trainer", pair_trainer)
    run = make_run(**{"sweet.form": configured})
    write_rows(run.path("outcome_pairs.jsonl"), [{"task_id": "a", "hidden": "secret", "chosen": [], "rejected": []}])
    with pytest.raises(Stop):
        CRITICS[name].train(run, name)
    assert seen == [(form, critic_folder(run, name), ["secret" if uses_hidden else ""], name == "no_replies")]


@pytest.mark.parametrize("sees", [True, False])
@pytest.mark.parametrize("name", ["sweet", "regression_head", "value_head"])
def test_the_setting_hides_what_is_hidden_in_training_as_in_ranking(name, sees, make_run, monkeypatch, tiny_model_folder):
    class Stop(Exception):
        """Raised in place of the training."""

    def pair_trainer(model, arguments, pairs, *_, **given):
        seen.extend(row["hidden"] for row in pairs)
        raise Stop

    def encoded_rows(groups, *_):
        seen.extend(hidden for group in groups for row in group for hidden in np.atleast_1d(row["hidden"]).tolist())
        raise Stop

    seen = []
    monkeypatch.setattr(critic_training, "pair_trainer", pair_trainer)
    monkeypatch.setattr(critic_training, "encoded_rows", encoded_rows)
    run = make_run(model=str(tiny_model_folder), sft_dialogues=0, **{"sweet.critic_hidden": sees})
    talk = [{"role": "user", "content": "Sum."}, {"role": "assistant", "content": "Tax?"}]
    write_rows(run.path("outcome_pairs.jsonl"), [{"task_id": "a", "hidden": "secret", "chosen": talk, "rejected": talk}])
    played = Episode("a", 0, talk, [Turn("Tax?")], {"outcome": "wrong", "success": 0}, 0.0, "secret")
    write_rows(run.path("trajectories.jsonl"), [played.to_row()])
    with pytest.raises(Stop):
        CRITICS[name].train(run, name)
    assert set(seen) == {hidden_for(run, name, "secret")} == {"secret" if sees else ""}


@pytest.mark.parametrize(("name", "given"), [("no_replies", {}), ("sweet", {"sweet.critic_replies": False}), ("sweet", {})])
def test_replies_are_hidden_from_a_critic_in_training_and_in_ranking(name, given, make_run, monkeypatch, tiny_model_folder):
    class Stop(Exception):
        """Raised in place of the training."""

    def pair_trainer(model, arguments, pairs, folder, training, held_out, **loss):
        seen.extend(sorted(row["chosen"][2]["content"] for row in rows) for rows in (pairs, held_out))
        raise Stop

    seen = []
    monkeypatch.setattr(critic_training, "pair_trainer", pair_trainer)
    run = make_run(model=str(tiny_model_folder), sft_dialogues=0, **{"sweet.critic_held_out": 0.25, **given})
    talk = [{"role": role, "content": text} for role, text in (("user", "Sum."), ("assistant", "Tax?"), ("user", "19%"))]
    pairs = [{"task_id": task, "hidden": "", "chosen": talk, "rejected": talk} for task in "aabbccdd"]
    write_rows(run.path("outcome_pairs.jsonl"), pairs)
    with pytest.raises(Stop):
        CRITICS[name].train(run, name)
    reads = name == "sweet" and not given
    assert seen == [["19%" if reads else "Noted."] * 6, ["19%" if reads else "Noted."] * 2]
    shutil.copytree(tiny_model_folder, critic_folder(run, name))
    with open_critic(run, name) as critic:
        assert critic.reads_replies is reads


@pytest.mark.parametrize(("name", "advantages"), [("exact", task_advantages), ("marginal", marginal_advantages)])
def test_an_oracle_knows_the_tasks_of_every_split(name, advantages, make_run):
    run = make_run(novel_tasks="embedded:novel[:1]", unseen_tasks="embedded:unseen[:1]", max_turns=4)
    texts = ["Hello there.", "I WANT TO ANSWER:\nNone"]
    with open_critic(run, name) as oracle, sandboxes.make("embedded", workers=1) as sandbox:
        for task in (run.train[0], *(tasks[0] for tasks in run.held_out.values())):
            texts[0] = next(fact.phrases[0] for fact in task.hidden.facts if fact.is_special)
            talk = [{"role": "user", "content": task.description}]
            expected = advantages(task, talk, texts, UnitTests(sandbox), 4)
            assert oracle.rank(talk, task.hidden.reference, texts) == expected and expected[0] > 0 > expected[1]
            whole = [*talk, {"role": "assistant", "content": texts[0]}]
            assert oracle.dialogue_advantages(whole, task.hidden.reference) == expected[:1]


def test_the_oracles_differ_in_what_they_know(make_run):
    run = make_run()
    task = run.train[0]
    talk = [{"role": "user", "content": task.description}]
    right = f"I WANT TO ANSWER:\n{task.hidden.reference}"
    with open_critic(run, "exact") as exact, open_critic(run, "marginal") as marginal:
        (known,), (guessed,) = (oracle.rank(talk, task.hidden.reference, [right]) for oracle in (exact, marginal))
    assert known > 0.8 > guessed  # before a word is said nobody but the one who knows can know that it is right


@pytest.mark.parametrize(
    "named", [["--algorithms", "exact"], ["--algorithms", "marginal"], ["--critics", "marginal", "--best_of", "2"]]
)
def test_an_oracle_of_tasks_that_are_not_embedded_is_refused(named, tmp_path, capsys):
    rows, name = tmp_path / "rows.jsonl", next(word for word in named if word in ORACLES)
    rows.write_text(json.dumps({}))
    settings = ["--tasks", str(rows), "--credit_tasks", "0", "--model", "org/model", "--output", str(tmp_path / "run")]
    assert compare.main([*settings, *named]) == 2
    assert capsys.readouterr().err == (
        f"error: {name!r} needs an oracle that `tasks`={str(rows)!r} of ColBench-Backend-v0 does not have (it has none); "
        f"leave {name} out, and give `--credit_tasks 0`.\n"
    )


def test_credit_accuracy_is_left_out_where_it_is_not_known_and_refused_where_it_is_asked_for(tmp_path, capsys):
    rows = tmp_path / "rows.jsonl"
    rows.write_text(json.dumps({}))
    settings = ["--tasks", str(rows), "--algorithms", "sweet", "--output", str(tmp_path / "run"), "--model", "org/model"]
    given, config = comparison_job.parse(settings)
    checks.chosen_critics(given, config)
    assert given.credit_tasks == 0
    assert compare.main([*settings, "--credit_tasks", "2"]) == 2
    assert capsys.readouterr().err == (
        f"error: 'credit_tasks' needs an oracle that `tasks`={str(rows)!r} of ColBench-Backend-v0 does not have (it has none); "
        "give `--credit_tasks 0`.\n"
    )
