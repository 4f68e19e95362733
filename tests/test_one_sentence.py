"""An error about the world is one sentence; the usage is for options that a command does not have."""

from __future__ import annotations

import pytest

import colbench_gym.__main__
import colbench_gym.evaluate
import colbench_gym.grade
import colbench_gym.lmrl.data
import colbench_gym.play
import sandboxes.__main__
import sweetrl_agent.config.__main__
import sweetrl_agent.report
from sweetrl_agent import compare, evaluate, train

pytestmark = pytest.mark.usefixtures("untimed")

COMMANDS = {
    "list": colbench_gym.__main__.main, "evaluate": colbench_gym.evaluate.main, "grade": colbench_gym.grade.main, "play": colbench_gym.play.main,
    "data": colbench_gym.lmrl.data.main, "sandboxes": sandboxes.__main__.main, "config": sweetrl_agent.config.__main__.main,
    "report": sweetrl_agent.report.main, "compare": compare.main, "evaluate models": evaluate.main, "train": train.main,
}  # fmt: skip


@pytest.mark.parametrize(
    ("command", "words", "part"),
    [
        ("list", ["ColBench-Backend"], "got 'ColBench-Backend'. Did you mean 'ColBench-Backend-v0'?"),
        ("evaluate", ["nobody"], "A policy must be one of"),
        ("evaluate", ["random", "--tasks", "no.jsonl"], "no.jsonl"),
        ("evaluate", ["random", "--seeds", "-1"], "`seeds` must be different numbers"),
        ("grade", ["no.jsonl", "--out", "s.jsonl"], "no.jsonl"),
        ("grade", ["no.jsonl", "--out", "."], "--out must name a file of its own"),
        ("grade", ["no.jsonl", "--out", "s.jsonl", "--workers", "0"], "--workers must be from 1 to 1024, got 0"),
        ("grade", ["no.jsonl", "--out", "s.jsonl", "--sandbox", "dcker"], "Did you mean 'docker'?"),
        ("play", ["--tasks", "no.jsonl"], "no.jsonl"),
        ("play", ["--seed", "-1"], "--seed must be at least 0, got -1."),
        ("play", ["--sandbox", "dcker"], "Did you mean 'docker'?"),
        ("play", ["--env", "LMRL-Maze-v0", "--tasks", "x"], "LMRL-Maze-v0 has no --tasks."),
        ("data", ["LMRL-Maze-v0", "--env_kwargs", "["], "Expecting value"),
        ("sandboxes", ["check", "dcker"], "Did you mean 'docker'?"),
        ("config", ["--show", "qick"], "Did you mean 'quick'?"),
        ("report", ["no/folder"], "'no/folder', which is not a folder."),
        ("report", [""], "got nothing; '.' is the current folder."),
        ("report", [".", "--title", "x"], "are for --chart"),
        ("report", [".", "--chart", "x"], ""),
        ("compare", ["--algorithms", "swet"], "Did you mean 'sweet'?"),
        ("compare", ["--algorithms", "rft", "--algorithm", "grpo"], "`compare` takes `--algorithms grpo`."),
        ("compare", ["--credit_algorithms", "gigpo", "--credit_tasks", "0"], "give their number by `--credit_tasks N`"),
        ("train", ["--grpo", "3"], "`grpo` takes settings of its own, such as `--grpo.learning_rate`"),
        ("train", ["--algorithm", "slinvit", "--slinvit.leaf", "critic"], "`compare --algorithms value_head slinvit`"),
        (
            "compare",
            ["--algorithms", "collab", "mtdpo", "--collab.agents", "rft", "--collab.q", "mtdpo"],
            "'collab' uses 'rft' and 'mtdpo', to be trained in the same run before it: `compare --algorithms rft mtdpo collab`.",
        ),
        (
            "train",
            ["--algorithm", "turn_ppo", "--turn_ppo.asymmetric", "true", "--env", "LMRL-Maze-v0"],
            "`turn_ppo.asymmetric` of 'turn_ppo' requires an environment with hidden information",
        ),
        ("train", ["--algorithm", "igpo", "--env", "LMRL-Maze-v0"], "'igpo' requires an environment with hidden information"),
        ("train", ["--algorithm", "grpo", "--env", "examples.own_environment:Gues-v0"], "cannot be made"),
        ("compare", ["--config", "no.yaml"], "`config` names no file"),
        ("evaluate models", ["./no"], "names no folder"),
        ("train", ["--tasks", "no.jsonl"], "`tasks` names no file"),
        ("train", ["--output", "\0"], ""),
    ],
)
def test_an_error_about_the_world_is_one_sentence(command, words, part, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    try:
        status = COMMANDS[command](words)
    except SystemExit as end:
        status = end.code
    said = capsys.readouterr().err.splitlines()
    said = [line for line in said if not line.startswith("sandbox: ")]  # grade says first where it runs
    assert status in (1, 2) and len(said) == 1 and said[0].startswith("error: ") and part in said[0], said


@pytest.mark.parametrize("command", ["list", "evaluate", "grade", "play", "data", "sandboxes", "config", "report"])
def test_the_usage_is_for_options_that_do_not_exist(command, capsys):
    with pytest.raises(SystemExit) as caught:
        COMMANDS[command](["--no-such-option"])
    assert caught.value.code == 2 and capsys.readouterr().err.startswith("usage: ")
