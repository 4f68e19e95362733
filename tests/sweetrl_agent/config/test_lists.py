"""Lists of settings in every form that a user may write, and what is said where one value was expected."""

from __future__ import annotations

from dataclasses import asdict, fields

import pytest
import yaml

from sweetrl_agent import compare, evaluate, train
from sweetrl_agent.config.evaluation import CompareArguments
from sweetrl_agent.config.job import PARTS
from sweetrl_agent.core.settings import default_of, type_of
from sweetrl_agent.evaluation import comparison_job
from sweetrl_agent.evaluation.checks import seed_numbers

TRAIN, COMPARE, EVALUATE = (f"python -m sweetrl_agent.{name}" for name in ("train", "compare", "evaluate"))


def _flat(given, config):
    return {**asdict(given), **{name: value for part in PARTS for name, value in asdict(getattr(config, part)).items()}}


def _compared(*words):
    given, config = comparison_job.parse([*words, "--credit_tasks", "0"])
    return given.algorithms, [one.run.seed for one in comparison_job.config_of_seeds(given, config)], given


@pytest.mark.parametrize(
    ("words", "seeds"),
    [
        (["--seeds", "3"], [0, 1, 2]),
        (["--seeds", "3", "--seed", "7"], [7, 8, 9]),
        (["--seeds", "0", "1", "4"], [0, 1, 4]),
        (["--seeds", "0,4"], [0, 4]),
        (["--seeds=0, 4"], [0, 4]),
        (["--seeds", "[0,4]"], [0, 4]),
        (["--seeds", "0 4", "--seed", "7"], [0, 4]),
    ],
)
def test_one_number_counts_seeds_and_several_are_the_seeds(words, seeds):
    assert _compared(*words)[1] == seeds


@pytest.mark.parametrize(
    ("seeds", "message"),
    [
        ([0], r"`seeds` must be at least 1, got 0: .*`--seed 0 --seeds 1`"),
        ([10_001], "`seeds` must be at most 10000, got 10001"),
        ([1, 1], r"different seeds from 0 on, got \[1, 1\]"),
        ([0, -1], "different seeds from 0 on"),
        ([], "different seeds from 0 on"),
    ],
)
def test_seeds_that_cannot_be_are_refused(seeds, message):
    with pytest.raises(ValueError, match=message):
        seed_numbers(seeds, 0)


@pytest.mark.parametrize(
    "names", [["sweet", "grpo"], ["sweet,grpo"], ["sweet, grpo"], ["sweet grpo"], ["[sweet, grpo]"], ["sweet,", "grpo"]]
)
def test_algorithms_may_be_separated_by_blanks_or_commas(names):
    assert _compared("--algorithms", *names)[0] == ["sweet", "grpo"]


#: Values of lists that take only some.
VALUES = {
    "algorithms": ["rft", "grpo"], "critics": ["sweet", "no_hidden"], "credit_algorithms": ["gigpo", "grpo"], "report_to": ["tensorboard", "wandb"],
    "server_urls": ["http://a:1/v1", "http://b:2/v1"],
}  # fmt: skip
LISTS = {
    one.name: type_of(one)
    for kind in (CompareArguments, *PARTS.values())
    for one in fields(kind)
    if isinstance(default_of(one), list)
}


@pytest.mark.parametrize("name", LISTS)
def test_every_list_takes_commas_and_a_file_takes_single_values(name, tmp_path):
    file, values = tmp_path / "c.yaml", VALUES.get(name, [1, 2] if LISTS[name] is int else ["a.b:C", "d.e:F"])
    text, engine = ",".join(map(str, values)), ["--engine", "server"] if name == "server_urls" else []

    def read(*words):
        return _flat(*comparison_job.parse([*words, *engine]))[name]

    assert read(f"--{name}", text) == values
    for form in (text, text.replace(",", ", "), yaml.safe_dump(values, default_flow_style=True).strip(), f"[{text}]"):
        file.write_text(f"{name}: {form}\n" if form[0] == "[" else f"{name}: '{form}'\n")
        assert read("--config", str(file)) == values
    file.write_text(f"{name}: {values[0]}\n")
    assert read("--config", str(file)) == values[:1]


def test_a_comparison_writes_a_count_of_seeds_as_a_number(tmp_path):
    for seeds, text in (([5], "seeds: 5\n"), ([0, 2], "seeds:\n- 0\n- 2\n")):
        comparison_job.write_settings(tmp_path, {"seeds": seeds, "workers": 2})
        assert (tmp_path / "config.yaml").read_text() == text


@pytest.mark.parametrize(
    ("main", "words", "message"),
    [
        (train.main, ["--algorithm", "sweet,grpo", "--output", "a b"], f"`algorithm` takes one value, got sweet grpo; several are compared by `{COMPARE} --algorithms sweet grpo`."),
        (train.main, ["--algorithm=sweet", "grpo"], f"`algorithm` takes one value, got sweet grpo; several are compared by `{COMPARE} --algorithms sweet grpo`."),
        (train.main, ["--critic", "sweet no_hidden"], f"`critic` takes one value, got sweet no_hidden; several are compared by `{COMPARE} --algorithms sweet no_hidden`."),
        (train.main, ["--seed", "0", "1", "--algorithm", "grpo"], f"`seed` takes one value, got 0 1; several are compared by `{COMPARE} --seeds 0 1`."),
        (train.main, ["--seed=0,1"], f"`seed` takes one value, got 0 1; several are compared by `{COMPARE} --seeds 0 1`."),
        (train.main, ["--algorithms", "sweet,grpo"], "Unknown settings: algorithms. `algorithms` is a setting of `compare`."),
        (train.main, ["--seeds", "3", "--algorithm", "grpo"], "Unknown settings: seeds. `seeds` is a setting of `compare`."),
        (train.main, ["--num_tasks", "3", "4"], "`num_tasks` takes one value, got 3 4."),
        (train.main, ["--num_tasks"], "`num_tasks` needs a value."),
        (train.main, ["--config"], "`config` takes one value, got none."),
        (train.main, ["--tasks", "a.jsonl", "b.jsonl"], "`tasks` takes one value, got a.jsonl b.jsonl; quote a value with blanks."),
        (train.main, ["--tasks", "embedded:train,embedded:test", "--dry_run"], "`tasks` takes one value, got 'embedded:train' and 'embedded:test': put the rows"),
        (train.main, ["--tasks", "a.jsonl,b.jsonl", "--dry_run"], "`tasks` takes one value, got 'a.jsonl' and 'b.jsonl': put the rows"),
        (train.main, ["runs/first"], "Expected `--SETTING VALUE`, got runs/first."),
        (compare.main, ["--algorithm", "grpo"], "`algorithm` is a setting of `train`; `compare` takes `--algorithms grpo`."),
        (compare.main, ["--seed", "0,1", "--algorithms", "rft"], f"`seed` takes one value, got 0 1; several are compared by `{COMPARE} --seeds 0 1`."),
        (compare.main, ["--algorithms", "sweet,grp"], "`algorithms` must be one of ("),
        (evaluate.main, ["--num_tasks", "2", "random"], "`num_tasks` takes one value, got 2 random; policies come first."),
    ],
)  # fmt: skip
def test_several_where_one_is_expected_are_answered_with_the_setting(main, words, message, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    assert capsys.readouterr().err.startswith(f"error: {message}")


@pytest.mark.parametrize("main", [train.main, compare.main, evaluate.main])
@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["--num_tasks", "1", "--num_tasks", "2"], "num_tasks"),
        (["--num_tasks=1", "--num-tasks", "1"], "num_tasks"),
        (["--temperature", "1", "--num_tasks=1", "--temperature=1"], "temperature"),
        (["--dry_run", "--dry_run", "false"], "dry_run"),
        (["--config", "quick", "--config", "full"], "config"),
        (["--server_urls", "http://a:1/v1", "--server_urls", "http://b:1/v1"], "server_urls"),
    ],
)
def test_a_setting_that_is_given_twice_is_refused(main, words, name, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    assert (
        capsys.readouterr().err
        == f"error: `{name}` is given more than once, and one of its values would be ignored; give it once.\n"
    )


def test_the_seeds_of_a_comparison_may_stand_beside_its_other_settings():
    assert comparison_job.parse(["--seeds", "0", "1", "--seed", "3"])[0].seeds == [0, 1]


@pytest.mark.parametrize(
    ("words", "name", "option"),
    [
        (["--seed", "0"], "seed", "--seeds"),
        (["--seed=3", "--temperature", "1"], "seed", "--seeds"),
        (["--eval_tasks", "20"], "eval_tasks", "--num_tasks"),
        (["--eval_episodes", "2"], "eval_episodes", "--episodes"),
        (["--test_tasks", "embedded:test[:9]"], "test_tasks", "--tasks"),
        (["--model", "Qwen/Qwen3-0.6B"], "model", "--policies"),
    ],
)
def test_evaluate_names_its_setting_for_one_of_train(words, name, option, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert evaluate.main(["random", *words] if name != "model" else words) == 2
    assert (
        capsys.readouterr().err
        == f"error: Unknown settings: {name}. `{name}` is a setting of `train`; `evaluate` takes `{option}`.\n"
    )


def test_numbers_of_a_file_may_be_written_as_1e_4_everywhere(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text(
        "sweet: {actor_learning_rate: 1e-4}\nno_hidden.critic_beta: 1e-2\nalgorithms: [sweet, no_hidden, grpo]\ngrpo: {learning_rate: 2E-3}\n"
    )
    _, config = comparison_job.parse(["--config", str(path)])
    own = {name: algorithm.config for name, algorithm in config.algorithms.items()}
    assert (own["sweet"].actor_learning_rate, own["grpo"].learning_rate, own["no_hidden"].critic_beta) == (1e-4, 2e-3, 1e-2)
