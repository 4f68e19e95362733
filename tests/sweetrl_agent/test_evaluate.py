"""`python -m sweetrl_agent.evaluate`, end to end: policies of all kinds, a kill, and what reads its files."""

from __future__ import annotations

import json
import re
import shutil
import sys

import pytest
from safetensors.torch import load_file, save_file

import colbench_gym.evaluate
import sweetrl_agent
from colbench_gym import grade
from colbench_gym.files import read_rows
from colbench_gym.servers.usage import USAGE
from colbench_gym.stage_records import FILE
from sweetrl_agent import report, run_evaluate, train
from sweetrl_agent.algorithms.settings import make_config
from sweetrl_agent.config.command_line import CommandError
from sweetrl_agent.evaluate import main
from sweetrl_agent.evaluation.held_out import evaluate_agent
from sweetrl_agent.evaluation.win_rate import recorded
from sweetrl_agent.trainers.run import Run
from tests.colbench_gym.simulators.model.chat_servers import fails, serving, url
from tests.colbench_gym.test_evaluate import talks
from tests.killed_jobs import kill_at_rows

from .killed_runs import without_stamps

TASKS = ["--tasks", "embedded:test[:6]", "--sandbox", "embedded", "--threads", "1"]
OWN = """
import gymnasium as gym
class Count(gym.Env):
    observation_space = action_space = gym.spaces.Text(20, charset="abc0123456789")
    def reset(self, *, seed=None, options=None):
        self.turn = 0
        return "abc", {}
    def step(self, action):
        self.turn += 1
        return "b", float(action == "a"), self.turn == 2, False, {}
gym.register("OwnEvaluated-v0", Count)
class Policy:
    def generate(self, dialogues, seeds):
        from sweetrl_agent.core.policy import Utterance
        return [Utterance("a") for _ in dialogues]
def asks(messages):
    return "Why?"
def broken(messages):
    return 3
"""


def run(folder, *words):
    """Run the command; its rows and its results."""
    assert main([*words, "--output", str(folder)]) == 0
    return read_rows(folder / "evaluation.jsonl"), json.loads((folder / "results.json").read_text())


def content(folder):
    """Every file but the two that hold wall times of hidden tests, and that of the requests, which a stop repeats."""
    timed = ("report.html", "explanations.jsonl", USAGE)
    files = {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.name not in timed}
    return files | {name: without_stamps(files[name]) for name in files if name == FILE}


@pytest.fixture(scope="module")
def run_folder(tiny_tokenizer, make_tiny_model, tmp_path_factory):
    """A run folder with an initial policy, a trained one that differs, and the run itself."""
    folder = tmp_path_factory.mktemp("runs") / "first"
    settings = {
        "output": str(folder), "tasks": "embedded:train[:10]", "test_tasks": "embedded:test[:3]", "unseen_tasks": "embedded:unseen[:2]",
        "sandbox": "embedded", "threads": 1, "max_new_tokens": 6, "max_turns": 3, "generation_batch": 2, "seed": 5, "temperature": 0.7,
    }  # fmt: skip
    own = Run(make_config(settings))
    for name, seed in (("initial", 0), ("policy", 1)):
        make_tiny_model(seed).save_pretrained(folder / name)
        tiny_tokenizer.save_pretrained(folder / name)
    return own


@pytest.fixture
def own_module(tmp_path, monkeypatch):
    (tmp_path / "own_for_evaluate.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "own_for_evaluate"
    sys.modules.pop("own_for_evaluate", None)


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    with serving() as server:
        server.script = [talks]
        yield server


def test_both_packages_play_the_same_episodes_and_find_the_same(server, tmp_path):
    policies = ["random", "oracle", f"openai:m@{url(server)}"]
    sampling = ["--max_new_tokens", "9", "--temperature", "0.5"]
    rows, results = run(tmp_path / "e", *policies, *TASKS, *sampling, "--seeds", "0", "3")
    given = [*policies, *TASKS[:4], *sampling, "--seeds", "0", "3", "--output", str(tmp_path / "g")]
    assert colbench_gym.evaluate.main(given) == 0
    assert rows == read_rows(tmp_path / "g" / "evaluation.jsonl")
    others = json.loads((tmp_path / "g" / "results.json").read_text())
    for name in ("random", "oracle", "m", "differences", "metric", "success_means", "tasks", "seeds", "episodes", "schema"):
        assert results[name] == others[name], name
    assert results["random"]["test"]["success"] < results["oracle"]["test"]["success"] == 1.0


def test_a_run_folder_repeats_its_own_evaluation(run_folder, tmp_path, monkeypatch):
    loaders = {"initial": run_folder.load_policy, "trained": lambda: run_folder.load_policy("policy")}
    for agent, load in loaders.items():
        evaluate_agent(run_folder, agent, load)
    expected = read_rows(run_folder.path("evaluation.jsonl"))
    before = content(run_folder.folder / "policy"), (run_folder.folder / "config.yaml").read_bytes()
    rows, results = run(tmp_path / "e", f"{run_folder.folder}:initial", str(run_folder.folder), "--threads", "1")
    assert list(results["policies"]) == ["first/initial", "first"] and results["seeds"] == [5]
    assert results["policies"]["first"]["temperature"] == 0.7 and results["policies"]["first"]["max_new_tokens"] == 6
    names = {"first/initial": "initial", "first": "trained"}
    shown = [
        {**{name: row[name] for name in old}, "agent": names[row["agent"]]} for row, old in zip(rows, expected, strict=True)
    ]
    assert shown == expected
    assert before == (content(run_folder.folder / "policy"), (run_folder.folder / "config.yaml").read_bytes())
    assert all(row["prompt_tokens"] > row["generated_tokens"] > 0 for row in rows)
    assert (tmp_path / "e" / "report.html").exists()


def test_flags_override_what_a_run_folder_brings(run_folder, tmp_path):
    given = ["--temperature", "0.3", "--max_turns", "1", "--seeds", "1", "--num_tasks", "2"]
    _, results = run(tmp_path / "e", str(run_folder.folder), *TASKS, *given)
    assert results["policies"]["first"]["temperature"] == 0.3 and results["policies"]["first"]["max_new_tokens"] == 6
    assert results["first"]["test"]["turns"] == 1.0 and results["first"]["test"]["n"] == 2 and results["seeds"] == [1]


def test_a_model_folder_alone_gets_our_prompt_and_one_in_a_run_the_runs_settings(run_folder, tiny_model_folder, tmp_path):
    inside = run_folder.folder / "policy"
    rows, results = run(tmp_path / "e", f"alone={tiny_model_folder}", str(inside), *TASKS, "--max_new_tokens", "4")
    assert results["policies"]["alone"]["system_prompt"] == "benchmark" and results["policies"]["policy"]["system_prompt"] == ""
    assert results["policies"]["policy"]["temperature"] == 0.7
    prompts = {row["agent"]: row["prompt_tokens"] / row["turns"] for row in rows}
    assert prompts["alone"] > prompts["policy"] + 100


def test_policies_of_ones_own_and_an_environment_of_ones_own(own_module, tmp_path):
    words = ["--env", f"{own_module}:OwnEvaluated-v0", "--tasks", "seeds:0-9", "--threads", "1"]
    _, results = run(tmp_path / "e", "random", f"{own_module}:Policy", "--num_tasks", "4", *words)
    assert results["metric"] == "return" and results["Policy"]["seeds:0-9"]["return"] == 2.0
    assert results["random"]["seeds:0-9"]["n"] == 4
    rows, _ = run(tmp_path / "f", f"why={own_module}:asks", *TASKS)
    assert rows[0]["dialogue_history"][1]["content"] == "Why?" and rows[0]["agent"] == "why"


def test_a_killed_evaluation_resumes_with_the_same_bytes(run_folder, tmp_path):
    words = [str(run_folder.folder), "random", "--tasks", "embedded:test[:10]", "--threads", "1"]
    killed = tmp_path / "killed"
    assert kill_at_rows(4, main, [*words, "--output", killed], killed / "evaluation.jsonl") < 20
    run(tmp_path / "killed", *words)
    run(tmp_path / "whole", *words)
    assert content(tmp_path / "killed") == content(tmp_path / "whole")


@pytest.mark.parametrize(("seeds", "explained"), [(["0"], True), (["0", "1"], False)])
def test_it_says_why_episodes_fail(seeds, explained, tmp_path, capsys):
    _, results = run(tmp_path / "e", "random", "oracle", *TASKS, "--seeds", *seeds)
    found = {(row["agent"], row["kind"]): row["count"] for row in results["failures"]["rows"]}
    assert found["oracle", "passed"] == results["oracle"]["test"]["n"] and found["oracle", "never_asked"] == 0
    assert (tmp_path / "e" / "explanations.jsonl").exists() == explained
    page, printed = (tmp_path / "e" / "report.html").read_text(), capsys.readouterr().out
    assert "Why episodes fail" in page and "<h2>What was asked, heard and written down" in page
    random, oracle = results["wishes"]
    assert (random["agent"], oracle["agent"], random["n"], oracle["n"]) == ("random", "oracle", 6 * len(seeds), 6 * len(seeds))
    assert random["questions"] > 0 and random["written"] == 1.0, "it hands in what it heard"
    assert (oracle["questions"], oracle["heard"], oracle["written"]) == (0.0, 0.0, None), "it has no need to ask"
    assert "oracle, test: 0.0 questions, 0% of the wishes heard\n" in printed


def test_a_misspelt_folder_names_the_nearest_and_changes_nothing(run_folder, tmp_path, capsys):
    wrong = str(run_folder.folder).replace("first", "frist")
    assert main([wrong, *TASKS, "--output", str(tmp_path / "e")]) == 2
    assert (
        capsys.readouterr().err == f"error: `policies` names no folder: {wrong!r}. Did you mean {str(run_folder.folder)!r}?\n"
    )
    assert not (tmp_path / "e").exists()


def test_a_server_that_is_down_stops_it_and_it_resumes(server, tmp_path, capsys):
    words = [f"openai:m@{url(server)}", *TASKS, "--max_retries", "0", "--generation_batch", "1"]
    server.script = [*[talks] * 9, fails(401)]
    assert main([*words, "--output", str(tmp_path / "e")]) == 2
    assert "error: Expected a message from model 'm' at" in capsys.readouterr().err
    assert len(read_rows(tmp_path / "e" / "evaluation.jsonl")) == 2  # a shard is two episodes
    assert len(read_rows(tmp_path / "e" / "evaluation.unfinished.jsonl")) == 1  # and the third had ended
    count = len(server.requests)
    server.script = [talks]
    rows, _ = run(tmp_path / "e", *words)
    assert len(server.requests) - count == 9  # three episodes of three turns
    assert rows == run(tmp_path / "whole", *words)[0]
    assert [path.name for path in (tmp_path / "e").glob("*unfinished*")] == []


def test_what_reads_its_files(tmp_path, capsys):
    rows, results = run(tmp_path / "e", "random", "oracle", *TASKS)
    file = tmp_path / "e" / "evaluation.jsonl"
    assert recorded(f"{file}:oracle", "tests_passed") == {("test", row["task_id"]): 1.0 for row in rows[6:]}
    assert grade.main([str(file), "--out", str(tmp_path / "scores.jsonl"), "--sandbox", "embedded"]) == 0
    assert [row["success"] for row in read_rows(tmp_path / "scores.jsonl")] == [row["success"] for row in rows]
    page = (tmp_path / "e" / "report.html").read_text()
    assert report.main([str(tmp_path / "e")]) == 0
    assert (tmp_path / "e" / "report.html").read_text() == page
    assert 'id="differences"' in page and 'id="use"' in page and "Missing or unreadable" not in page
    again = tmp_path / "again"
    assert main(["--config", str(tmp_path / "e" / "config.yaml"), "--output", str(again)]) == 0
    assert read_rows(again / "evaluation.jsonl") == rows and "differences" in results


def test_a_model_on_servers(serve, tiny_model_folder, tmp_path):
    server = serve(str(tiny_model_folder))
    words = [*TASKS, "--max_new_tokens", "4", "--num_tasks", "2", "--engine", "server", "--server_urls", server.url]
    rows, _ = run(tmp_path / "e", str(tiny_model_folder), "random", *words)
    assert len(rows) == 4 and len(server.asked) == sum(row["turns"] for row in rows if row["agent"] == "model")


def test_from_python(tmp_path):
    results = run_evaluate(["random"], tasks="embedded:test[:2]", sandbox="embedded", output=str(tmp_path / "e"), threads=1)
    assert results["random"]["test"]["n"] == 2 and sweetrl_agent.run_evaluate is run_evaluate
    with pytest.raises(CommandError, match="names no folder"):
        run_evaluate("/no/such/folder", output=str(tmp_path / "e"))


def test_a_dry_run_prints_the_plan_and_what_is_missing(server, run_folder, tmp_path, capsys):
    words = [str(run_folder.folder), f"openai:m@{url(server)}", "random", "--output", str(tmp_path / "e"), "--dry_run"]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "episodes   5 of each policy, seeds 5; ColBench-Backend-v0" in out and "left       15 episodes" in out
    assert not (tmp_path / "e").exists() and not server.requests
    lines = out.splitlines()
    for name in (run_folder.folder.name, "m", "random"):
        assert any(re.fullmatch(rf"{name}  +5 episodes  +about \d+ \w+", line) for line in lines), out
    assert any(line.startswith("in all ") and ", likely " in line for line in lines)
    assert sum(line.startswith("dialogue   ") for line in lines) and "servers are assumed to sample" in out
    assert main(["openai:m@http://127.0.0.1:9/v1", *TASKS, "--output", str(tmp_path / "e"), "--dry_run"]) == 2
    assert "error: No server answers at http://127.0.0.1:9/v1" in capsys.readouterr().err


def test_a_dry_run_says_how_a_models_template_is_read_as_train_does(tiny_model_folder, tmp_path, capsys):
    given = ["--output", str(tmp_path / "e"), "--dry_run"]
    assert main([f"mine={tiny_model_folder}", "oracle", *TASKS, *given]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("template")]
    assert (
        train.main(["--model", str(tiny_model_folder), "--tasks", "embedded:train[:2]", "--sandbox", "embedded", *given]) == 0
    )
    (of_train,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("template")]
    assert line == of_train.replace("template   ", "template   mine: ")


def test_a_dry_run_times_what_is_left(run_folder, tmp_path, capsys):
    policy, given = f"{run_folder.folder}:initial", [*TASKS, "--output", str(tmp_path / "e")]
    assert main([policy, *given]) == 0
    capsys.readouterr()
    assert main([policy, "random", *given, "--dry_run"]) == 0
    times = capsys.readouterr().out.partition("left ")[2]
    assert "/initial  " not in times and "\nrandom  " in times
    assert main([policy, *given, "--dry_run"]) == 0
    assert "in all" not in capsys.readouterr().out


def test_a_policy_of_ones_own_is_named_as_not_timed(tmp_path, capsys, monkeypatch):
    (tmp_path / "mine.py").write_text("def say(messages):\n    return 'I WANT TO ANSWER: no'\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["mine:say", "random", *TASKS, "--output", str(tmp_path / "e"), "--dry_run"]) == 0
    out = capsys.readouterr().out
    assert "not timed  say: a policy of your own" in out and ", besides say\n" in out


def test_policies_of_a_run_folder_that_are_not_there(run_folder, tmp_path, capsys):
    assert main([f"{run_folder.folder}:rft", *TASKS, "--output", str(tmp_path / "e")]) == 2
    assert f"`policies`: {str(run_folder.folder)!r} has no policy of 'rft': 'rft/agent' is missing." in capsys.readouterr().err
    assert main([f"{run_folder.folder}:nonsense", *TASKS, "--output", str(tmp_path / "e")]) == 2
    assert capsys.readouterr().err.startswith("error: `policies` must be one of ('single_turn', ")
    comparison = tmp_path / "compare"
    shutil.copytree(run_folder.folder, comparison / "seed_0")
    assert main([str(comparison), *TASKS, "--output", str(tmp_path / "e")]) == 2
    assert f"it is a comparison, name one of its seeds, such as {comparison / 'seed_0'}:ALGORITHM" in capsys.readouterr().err


def test_run_folders_of_different_environments_are_refused(run_folder, tmp_path, capsys):
    other = tmp_path / "other"
    shutil.copytree(run_folder.folder, other)
    (other / "config.yaml").write_text((other / "config.yaml").read_text().replace("max_turns: 3", "max_turns: 4"))
    (other / "stages.json").unlink()
    assert main([str(run_folder.folder), str(other), "--output", str(tmp_path / "e")]) == 2
    assert "error: Policies of run folders with different `max_turns`, 3 in" in capsys.readouterr().err


def test_the_weights_are_the_policys_own(run_folder, tmp_path):
    other = tmp_path / "zero"
    shutil.copytree(run_folder.folder / "policy", other)
    weights = load_file(other / "model.safetensors")
    save_file({name: value * 0 for name, value in weights.items()}, other / "model.safetensors", metadata={"format": "pt"})
    rows, _ = run(tmp_path / "e", f"a={run_folder.folder}", f"b={other}", *TASKS, "--max_new_tokens", "6", "--num_tasks", "2")
    assert rows[0]["dialogue_history"][1] != rows[2]["dialogue_history"][1]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([], "Name a policy first, such as random, a run folder, or openai:MODEL"),
        (["/no/such"], "`policies` takes run folders, model folders, hub names, openai:MODEL@URL, random, random_actions, oracle, person"),
        (["openai:m@http://user:pw@127.0.0.1/v1"], "`policies` must not contain a password or key"),
        (["random", "--episodes", "0"], "`episodes` must be at least 1, got 0."),
        (["random", "--seeds", "1", "1"], "`seeds` must not contain duplicates, got [1, 1]."),
        (["randm"], "`policies` names no folder and no policy: 'randm'. Did you mean 'random'?"),
        (["fractions:Fraction", "--tasks", "embedded:test[:1]", "--dry_run"], "A policy of your own must be a function of the messages, an `Agent`, or have"),
        (["random", "--task", "embedded:test"], "Unknown settings: task. Did you mean `tasks`?"),
        (["oracle", "--env", "GymV21Environment-v99"], "`env` must be one of ('ColBench-Backend-v0', 'ColBench-Frontend-v0', 'ColBench-Team-v0', "),
        (["no_such_module:Thing", "--tasks", "embedded:test[:1]"], "`policies` names a module that does not exist: 'no_such_module'."),
    ],
)  # fmt: skip
def test_wrong_settings_are_refused_in_one_sentence(words, text, tmp_path, capsys):
    assert main([*words, "--output", str(tmp_path / "e")]) == 2
    err = capsys.readouterr().err
    assert err.splitlines()[-1].startswith(f"error: {text}"), err
    assert not (tmp_path / "e" / "evaluation.jsonl").exists()
