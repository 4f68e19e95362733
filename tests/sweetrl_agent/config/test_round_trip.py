"""Every setting reads back: from the file that a run writes, from a YAML file, and from Python."""

from __future__ import annotations

from dataclasses import MISSING, asdict, fields

import pytest
import yaml

from sweetrl_agent import compare, train
from sweetrl_agent.config.command_line import as_words
from sweetrl_agent.config.evaluation import CompareArguments
from sweetrl_agent.config.job import Config
from sweetrl_agent.config.pipeline import STAGES
from sweetrl_agent.data.run import Run

#: Values for settings that take only some; every other setting gets a value that its type and bounds allow.
CHOSEN = {
    "algorithm": "grpo", "critic": "sweet", "env": "ColBench-Backend-v0", "env_kwargs": '{"semantics": "released"}', "env_record": "",
    "demonstrations": "", "tasks": "embedded:train?preset=hard[:9]", "test_tasks": "", "unseen_tasks": "",
    "novel_tasks": "embedded:novel[:3]", "simulator": '{"name": "scripted", "level": "terse"}', "sandbox": "embedded", "on_error": "skip",
    "model": "org/model", "dtype": "bfloat16", "engine": "server", "server_urls": ["http://127.0.0.1:1/v1", "http://127.0.0.1:2/v1"],
    "reasoning": "<plan> </plan>", "system_prompt": "- no: yes, 'null' and {}\nnext line", "form": "released", "actor_loss": "sigmoid", "stage": "collect", "lora": True,
    "algorithms": ["zero_shot", "grpo"], "critics": ["no_hidden"], "best_of": [1, 2], "seeds": [0, 2], "scaling": [9, 18],
    "simulators": ["terse", '{"name": "scripted"}'], "own_settings": '{"sweet": {"critic_epochs": 2}}', "dials": ["a b", "c"],
    "against": "PAPER", "pair_quantile": 0.1, "critic_batch": 16, "actor_batch": 16, "rft_batch": 32, "mtdpo_batch": 16, "max_turns": 4,
    "critic_micro_batch": 4, "actor_micro_batch": 4, "initial_policy": "sft", "report_to": ["tensorboard", "mlflow"], "redo": ["rank", "evaluate rft"],
    "callbacks": ["my_package:MyCallback", "other:Callback"], "log_level": "debug", "isolate_generators": "true",
}  # fmt: skip
PARTS = (CompareArguments, *Config.parts())
ALL = {one.name: one for part in PARTS for one in fields(part)}
OF_COMPARE = {one.name for one in fields(CompareArguments)}


def _default(one):
    return one.default if one.default_factory is MISSING else one.default_factory()


def _other(one):
    """A valid value that is not the default."""
    if one.name in CHOSEN:
        return CHOSEN[one.name]
    value, given = _default(one), one.metadata["help"]
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        least = given.least or 0
        raised = value + 1 if isinstance(value, int) else value * 1.25 + 1e-7
        return raised if given.most is None or raised <= given.most else type(value)(max(least, value / 2))
    return f"{one.name}: '1e3' # x"


VALUES = {name: _other(one) for name, one in ALL.items()}
SAME = {"critic", "env", "env_record", "demonstrations"}  # have no other value that stands alone


def test_the_values_differ_from_the_defaults():
    assert {name for name, value in VALUES.items() if value == _default(ALL[name])} == SAME


def _flat(config):
    return {name: value for part in asdict(config).values() for name, value in part.items()}


OF_TRAIN = {name: value for name, value in VALUES.items() if name not in OF_COMPARE}


def test_every_setting_of_train_reads_back_from_yaml_and_python(tmp_path):
    path = tmp_path / "settings.yaml"
    path.write_text(yaml.safe_dump(OF_TRAIN))
    assert _flat(train.parse(["--config", str(path)])) == OF_TRAIN
    assert _flat(train.parse(as_words(OF_TRAIN))) == OF_TRAIN


def test_every_setting_of_compare_reads_back_from_yaml_and_python(tmp_path):
    path = tmp_path / "settings.yaml"
    path.write_text(yaml.safe_dump({**VALUES, "stage": "all"}))
    for words in (["--config", str(path)], as_words({**VALUES, "stage": "all"})):
        given, config = compare.parse(words)
        assert {**asdict(given), **_flat(config)} == {**VALUES, "stage": "all"}


@pytest.mark.parametrize("name", sorted({*OF_TRAIN} - SAME - {"server_urls", "engine"}))
def test_a_single_setting_reads_back(name, tmp_path):
    """Alone, so that no other setting hides a value that is not taken."""
    path, given = tmp_path / "settings.yaml", {"model": "org/model", name: OF_TRAIN[name]}
    path.write_text(yaml.safe_dump(given))
    assert _flat(train.parse(["--config", str(path)]))[name] == OF_TRAIN[name]


def test_what_a_run_writes_reads_back_for_every_stage(tmp_path):
    shaping = {name: value for name, value in OF_TRAIN.items() if name not in ("stage", "demonstrations", "tasks")}
    config = train.parse(as_words({**shaping, "tasks": "embedded:train[:12]", "novel_tasks": "", "output": tmp_path / "run"}))
    Run(config)
    file = tmp_path / "run" / "config.yaml"
    again = train.parse(["--config", str(file), *as_words({"server_urls": config.model.server_urls})])
    assert again.settings() == config.settings()
    for stage in ("all", *(name for name in STAGES if name in config.algorithm.shared), "grpo", "evaluate", "report"):
        other = train.parse(["--config", str(file), "--stage", stage, *as_words({"server_urls": config.model.server_urls})])
        assert other.settings() == config.settings() and other.run.stage == stage


def test_what_a_comparison_writes_reads_back(tmp_path):
    words = as_words({"algorithms": ["zero_shot", "rft"], "seeds": 2, "best_of": [2, 4], "num_tasks": 7, "workers": 2})
    given, config = compare.parse(words)
    compare.write_settings(tmp_path, {**asdict(given), **config.settings()})
    again, other = compare.parse(["--config", str(tmp_path / "config.yaml")])
    assert {**asdict(again), "workers": 2} == asdict(given) and other.settings() == config.settings()
    with pytest.raises(ValueError, match="`algorithms` is a setting of `compare`: `python -m sweetrl_agent.compare --config "):
        train.parse(["--config", str(tmp_path / "config.yaml")])


def test_arguments_of_an_algorithm_are_its_settings(tmp_path):
    config = train.parse(as_words({"algorithm": {"name": "grpo", "clip": 0.1, "tasks": 7}, "grpo_tasks": 8}))
    assert (config.run.algorithm, config.algorithms.grpo_clip, config.algorithms.grpo_tasks) == ("grpo", 0.1, 8)
    given, other = compare.parse(as_words({"algorithms": ["zero_shot", '{"name": "rft", "epochs": 3}']}))
    assert given.algorithms == ["zero_shot", "rft"] and other.algorithms.rft_epochs == 3
    with pytest.raises(ValueError, match=r"`algorithm`: 'grpo' has the settings .*, got 'clib'\. Did you mean 'clip'\?"):
        train.parse(as_words({"algorithm": {"name": "grpo", "clib": 0.1}}))


def test_mappings_in_a_file_are_json(tmp_path):
    path = tmp_path / "settings.yaml"
    path.write_text(
        "simulator:\n  name: scripted\n  level: terse\nenv_kwargs: {semantics: released}\nalgorithm: {name: grpo, clip: 0.1}\n"
    )
    config = train.parse(["--config", str(path)])
    assert config.task.simulator_spec() == {"name": "scripted", "level": "terse"}
    assert config.task.keyword_arguments() == {"semantics": "released"}
    assert (config.run.algorithm, config.algorithms.grpo_clip) == ("grpo", 0.1)


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"num_taks": 3}, "Unknown settings: num_taks. Did you mean `num_tasks`?"),
        ({"seeds": 3}, "Unknown settings: seeds. `seeds` is a setting of `compare`: `python -m sweetrl_agent.compare --algorithms sweet --seeds=3`."),
        ({"algorithm": "gropo"}, "got 'gropo'. Did you mean 'grpo'?"),
        ({"critic": "no_hiden"}, "got 'no_hiden'. Did you mean 'no_hidden'?"),
        ({"env": "ColBench-Backend-v1"}, "got 'ColBench-Backend-v1'. Did you mean 'ColBench-Backend-v0'?"),
        ({"sandbox": "embeded"}, "got 'embeded'. Did you mean 'embedded'?"),
        ({"engine": "transformer"}, "got 'transformer'. Did you mean 'transformers'?"),
        ({"stage": "cands"}, "got 'cands'. Did you mean 'candidates'?"),
        ({"dtype": "bfloat"}, "got 'bfloat'. Did you mean 'bfloat16'?"),
        ({"config": "quik"}, "`config` names no file: 'quik'; by name the package has full, paper_backend, quick, qwen_0.5b_cpu, qwen_1.5b_cpu, qwen_rows_cpu. Did you mean 'quick'?"),
        ({"algorithm": "rft", "critic": "judge"}, "`critic` is a setting of `--algorithm sweet`, got `--algorithm rft`"),
    ],
)  # fmt: skip
def test_what_is_unknown_names_the_nearest(settings, error):
    with pytest.raises(ValueError) as caught:
        train.parse(as_words(settings))
    assert error in str(caught.value)
