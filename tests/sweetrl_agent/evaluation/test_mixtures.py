"""`collab:RUN1+RUN2` as a policy of `evaluate`, and `collab` in `compare`: end to end, a kill, and what is refused."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
import yaml

from colbench_gym.files import read_rows
from sweetrl_agent import compare
from sweetrl_agent.algorithms.collab_values import utterance_score
from sweetrl_agent.algorithms.settings import make_config
from sweetrl_agent.core.policy import Utterance
from sweetrl_agent.critics.utterance_values import make_values
from sweetrl_agent.evaluate import main
from sweetrl_agent.evaluation import evaluation_job
from sweetrl_agent.models.tiny import build_tokenizer
from sweetrl_agent.trainers.run import Run
from tests.killed_jobs import kill_at_rows
from tests.sweetrl_agent import menu_lock
from tests.sweetrl_agent.killed_runs import without_stamps

TASKS = ["--tasks", "embedded:test[:2]", "--sandbox", "embedded", "--threads", "1"]
SMALL = ["--collab.m", "2", "--collab.horizon", "1"]


def run(folder, *words):
    """Run the command; its rows and its results."""
    assert main([*words, "--output", str(folder)]) == 0
    return read_rows(folder / "evaluation.jsonl"), json.loads((folder / "results.json").read_text())


@pytest.fixture(scope="module")
def runs(tiny_tokenizer, make_tiny_model, tmp_path_factory):
    """Two run folders with an initial policy, SWEET-RL's and multi-turn DPO's policies, and of the first ArCHer's critic."""
    folders = [tmp_path_factory.mktemp("runs") / name for name in ("first", "second")]
    for number, folder in enumerate(folders):
        settings = {
            "output": str(folder), "tasks": "embedded:train[:10]", "test_tasks": "embedded:test[:3]", "unseen_tasks": "", "sandbox": "embedded", "threads": 1,
            "max_new_tokens": 6, "max_turns": 3, "generation_batch": 4, "seed": 5, "temperature": 0.7,
        }  # fmt: skip
        made = Run(make_config(settings))
        for name, seed in (("initial", 0), ("policy", 1 + number), ("mtdpo/agent", 3)):
            make_tiny_model(seed).save_pretrained(folder / name)
            tiny_tokenizer.save_pretrained(folder / name)
        if not number:
            torch.manual_seed(0)
            make_values(made, "frozen", 64, 512).save(folder / "archer" / "critic")
    return folders


@pytest.fixture
def changed(runs, tmp_path):
    """Function: changes of the settings -> a copy of the second run folder with them."""

    def copy(**changes):
        folder = shutil.copytree(runs[1], tmp_path / "changed")
        settings = yaml.safe_load((folder / "config.yaml").read_text()) | changes
        (folder / "config.yaml").write_text(yaml.safe_dump(settings))
        (folder / "stages.json").unlink()
        return folder

    return copy


@pytest.mark.parametrize("q", ["rollout", "vote", "mtdpo", "archer", "untrained"])
def test_a_mixture_is_evaluated_beside_its_agents(runs, q, tmp_path, capsys):
    one, two = map(str, runs)
    rows, results = run(tmp_path / "e", one, two, f"collab:{one}+{two}", *TASKS, *SMALL, "--collab.q", q)
    label = {"rollout": " (rollouts with simulator access)", "untrained": " (oracle: Q sees the hidden information)"}.get(q, "")
    name = f"collab:first+second{label}"
    assert list(results["policies"]) == ["first", "second", name] and name in capsys.readouterr().out
    assert results["policies"][name]["collab"] == {
        "granularity": "utterance", "alpha": 0.01, "p": 10, "m": 2, "q": q, "rollouts": 1, "horizon": 1
    }  # fmt: skip
    mixed, alone = ([row for row in rows if (row["agent"] == name) == is_mixture] for is_mixture in (True, False))
    assert all(("simulated_turns" in row) == (q == "rollout") for row in mixed)
    tokens = [sum(row["generated_tokens"] / row["turns"] for row in of) / len(of) for of in (mixed, alone)]
    assert tokens[0] > 3 * tokens[1], "two agents have two samples each"
    again = tmp_path / "again"
    assert main(["--config", str(tmp_path / "e" / "config.yaml"), "--output", str(again)]) == 0
    assert read_rows(again / "evaluation.jsonl") == rows


def test_a_killed_evaluation_resumes_with_the_same_bytes(runs, tmp_path):
    words = [f"collab:{runs[0]}+{runs[1]}", "--tasks", "embedded:test[:6]", *SMALL, "--collab.granularity", "chunk:3"]
    words += ["--generation_batch", "2", "--max_turns", "2", "--threads", "1"]  # a shard is four episodes
    killed = tmp_path / "killed"
    assert kill_at_rows(4, main, [*words, "--output", killed], killed / "evaluation.jsonl") < 6
    run(tmp_path / "killed", *words)
    run(tmp_path / "whole", *words)
    for name in ("evaluation.jsonl", "results.json", "settings.json", "config.yaml"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name
    one, two = (without_stamps((tmp_path / name / "stages.json").read_bytes()) for name in ("killed", "whole"))
    assert one == two


def test_rows_of_other_settings_and_of_a_changed_critic_are_noticed(runs, tmp_path, capsys):
    folder = shutil.copytree(runs[0], tmp_path / "first")
    words = [f"mixed=collab:{folder}:initial+{runs[1]}", *TASKS, "--num_tasks", "1", *SMALL, "--collab.q", "archer"]
    assert main([*words, "--output", str(tmp_path / "e"), "--dry_run"]) == 0
    assert "not timed  mixed: a mixture" in capsys.readouterr().out
    run(tmp_path / "e", *words)
    assert main([*words, "--collab.alpha", "0.5", "--output", str(tmp_path / "e")]) == 2
    assert "collab" in capsys.readouterr().err
    with (folder / "archer" / "critic" / "values.safetensors").open("ab") as file:
        file.write(b"\0")
    assert main([*words, "--output", str(tmp_path / "e")]) == 2
    assert "archer" in capsys.readouterr().err


def test_a_mixture_with_a_name_keeps_its_label(runs):
    words = [f"mine=collab:{runs[0]}:initial+{runs[1]}", *TASKS, "--collab.q", "untrained"]
    assert [spec.name for spec in evaluation_job.parse(words).policies] == ["mine (oracle: Q sees the hidden information)"]


def test_archers_critic_scores_as_it_did_in_training(runs):
    own = Run(
        make_config(
            {**yaml.safe_load((runs[0] / "config.yaml").read_text()), "output": str(runs[0]), "archer.reward_scale": 4.0},
            ["archer"],
        ),
        is_dry=True,
    )
    torch.manual_seed(0)
    values = make_values(own, "frozen", 64, 512)
    messages = [{"role": "user", "content": "I need it."}]
    said = [Utterance("a", [5, 6, 7]), Utterance("b", [8])]
    state = utterance_score(own, "archer")
    expected = values.advantages([own.load_policy().speaker.prompt(messages)] * 2, [[5, 6, 7], [8]])
    assert state(messages, "", said) == pytest.approx([4 * value for value in expected]) and expected[0] != expected[1]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["collab:{0}+{0}"], "`policies`: a mixture names different agents, as in collab:runs/a+runs/b:rft, got "),
        (["collab:{0}+"], "`policies`: a mixture names different agents"),
        (["collab:{0}+{0}:nonsense"], "`policies` must be one of ('single_turn', "),
        (["collab:{0}+{0}x"], "`policies` names no folder: "),
        (["{0}", "--collab.alpha", "1"], "`collab.alpha` is for a mixture: name one, such as collab:RUN1+RUN2, or leave it out."),
        (["collab:{0}+{1}", "--collab.alpha", "-1"], "`collab.alpha` must be at least 0"),
        (["collab:{0}+{1}", "--collab.agents", "rft"], "Unknown settings: collab.agents."),
        (["collab:{1}+{0}:initial", "--collab.q", "archer_offline"], "`collab.q` 'archer_offline' needs a run that has trained it, and 'collab:"),
        (["collab:{0}+{1}", "--engine", "vllm"], "'collab' takes `--engine transformers`, got 'vllm'."),
    ],
)  # fmt: skip
def test_a_wrong_mixture_is_refused_in_one_sentence(runs, words, text, tmp_path, capsys):
    given = [word.format(*runs) for word in words]
    assert main([*given, *TASKS, "--output", str(tmp_path / "e")]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ") and text in said and said.count("\n") == 1 and not (tmp_path / "e").exists()


def test_agents_that_are_sampled_otherwise_are_refused(runs, changed, tmp_path, capsys):
    words = [
        f"collab:{runs[0]}+{changed(temperature=0.9)}",
        *TASKS,
        *SMALL,
        "--num_tasks",
        "1",
        "--output",
        str(tmp_path / "e"),
    ]
    assert main(words) == 2
    assert "error: Policies of run folders with different `temperature`, 0.7 in" in capsys.readouterr().err
    assert main([*words, "--temperature", "0.9"]) == 0


def test_agents_with_another_tokenizer_are_refused(runs, changed, tmp_path, capsys):
    folder = changed()
    build_tokenizer(["Some other words, which are not those of the first one."], 400).save_pretrained(folder / "policy")
    assert main([f"collab:{runs[0]}+{folder}", *TASKS, "--output", str(tmp_path / "e")]) == 2
    assert "error: Agents that are mixed must have the same tokenizer, got other tokens in" in capsys.readouterr().err


def test_a_critic_needs_the_information_that_it_sees(runs, changed, tmp_path, capsys):
    folder = changed(env="MenuLock-v0", tasks="seeds:0-9", test_tasks="seeds:10-12", sandbox="")
    words = [f"collab:{folder}+{folder}:initial", "--threads", "1", "--output", str(tmp_path / "e")]
    assert main([*words, "--collab.q", "untrained"]) == 2
    assert "`collab.q` of 'collab' requires an environment with hidden information" in capsys.readouterr().err


# ---- compare ---------------------------------------------------------------------------------------------------------------


def test_a_comparison_mixes_the_agents_of_a_run_and_says_how(tmp_path, tiny_model_folder, capsys):
    given = {
        **menu_lock.settings(tmp_path / "run", tiny_model_folder),
        "seeds": 1,
        "collab.m": 2,
        "collab.agents": ["initial", "reinforce"],
    }
    given |= {"reinforce.iterations": 1, "reinforce.tasks": 2, "reinforce.group": 2}
    algorithms = ["--algorithms", "initial", "reinforce", "collab"]
    assert compare.main(algorithms, given) == 0
    assert "Collab (rollouts with simulator access)" in capsys.readouterr().out
    folder = tmp_path / "run" / "seed_0"
    rows = [row for row in read_rows(folder / "evaluation.jsonl") if row["agent"] == "collab"]
    assert all(row["simulated_turns"] > 0 for row in rows)
    reads = json.loads((folder / "stages.json").read_text())["stages"]["evaluate collab"]["reads"]
    assert "reinforce/" in reads
    again, _ = run(tmp_path / "e", f"{folder}:collab", "--threads", "1")
    assert [row["dialogue_history"] for row in again] == [row["dialogue_history"] for row in rows]

    capsys.readouterr()
    voted = {**given, "output": tmp_path / "voted", "collab.q": "vote"}
    assert compare.main(algorithms, voted) == 0
    assert "simulator access" not in capsys.readouterr().out + (tmp_path / "voted" / "report.md").read_text()
    assert json.loads((tmp_path / "voted" / "results.json").read_text())["titles"] == {"collab": "Collab"}
    assert "titles" not in json.loads((tmp_path / "run" / "results.json").read_text())
