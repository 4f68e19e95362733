"""Every setting reads back: from the file that a run writes, from a YAML file, and from Python."""

from __future__ import annotations

import re
from dataclasses import asdict, fields

import pytest
import yaml

from sweetrl_agent.algorithms.critics import CRITICS
from sweetrl_agent.algorithms.registry import ALGORITHMS
from sweetrl_agent.algorithms.settings import make_config, read
from sweetrl_agent.config.evaluation import CompareArguments
from sweetrl_agent.config.job import PARTS
from sweetrl_agent.config.pipeline import STAGES
from sweetrl_agent.core.settings import default_of
from sweetrl_agent.evaluation import comparison_job, main_job
from sweetrl_agent.trainers.run import Run
from tests.words import words as words_of

#: Values for settings that take only some; every other setting gets a value that its type and bounds allow.
CHOSEN = {
    "algorithm": "grpo", "critic": "sweet", "env": "ColBench-Backend-v0", "env_kwargs": '{"semantics": "released"}', "env_record": "",
    "demonstrations": "", "tasks": "embedded:train?preset=hard[:9]", "test_tasks": "", "unseen_tasks": "",
    "novel_tasks": "embedded:novel[:3]", "simulator": '{"name": "scripted", "level": "terse"}', "sandbox": "embedded", "on_error": "skip",
    "model": "org/model", "dtype": "bfloat16", "engine": "server", "server_urls": ["http://127.0.0.1:1/v1", "http://127.0.0.1:2/v1"],
    "reasoning": "<plan> </plan>", "system_prompt": "- no: yes, 'null' and {}\nnext line", "stage": "collect", "lora": True,
    "algorithms": ["initial", "grpo"], "critics": ["no_hidden"], "credit_algorithms": ["gigpo"], "best_of": [1, 2], "seeds": [0, 2], "scaling": [9, 18],
    "simulators": ["terse", '{"name": "scripted"}'], "dials": ["a b", "c"], "against": "PAPER", "max_turns": 4,
    "initial_policy": "sft", "sft_hinted": 0.25, "report_to": ["tensorboard", "mlflow"], "redo": ["rank", "evaluate rft"],
    "callbacks": ["my_package:MyCallback", "other:Callback"], "log_level": "debug", "isolate_generators": "true",
}  # fmt: skip
#: The same of algorithms, by field.
CHOSEN_OF_ALGORITHMS = dict(
    form="released", actor_loss="sigmoid", pair_quantile=0.1, critic_batch=16, actor_batch=16, critic_micro_batch=4, actor_micro_batch=4,
    norm="std", anchor="dialogue", reference="initial",
    gain_rule="largest", gain_tokens="differing", answers="apart", gain="prob", normalisation="joint", tokens="differing",
    values="table", explore="gap", leaf="critic", critic="judge",
    advice="feature", feedback="sft", plays="teacher", encoder="lora", merge="state",
    agents=["rft", "grpo"], granularity="chunk:16", q="vote",
    policies="one", bonus_rule="released", roles=["first", "second"],
)  # fmt: skip
ALL = {one.name: one for kind in (CompareArguments, *PARTS.values()) for one in fields(kind)}
OF_COMPARE = {one.name for one in fields(CompareArguments)}


def _other(one, chosen=CHOSEN):
    """A valid value that is not the default."""
    if one.name in chosen:
        return chosen[one.name]
    value, least, most = default_of(one), one.metadata.get("ge") or 0, one.metadata.get("le")
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        raised = value + 1 if isinstance(value, int) else value * 1.25 + 1e-7
        return raised if most is None or raised <= most else type(value)(max(least, value / 2))
    return f"{one.name}: '1e3' # x"


VALUES = {name: _other(one) for name, one in ALL.items()}
SAME = {"critic", "env", "env_record", "demonstrations"}  # have no other value that stands alone


def test_the_values_differ_from_the_defaults():
    assert {name for name, value in VALUES.items() if value == default_of(ALL[name])} == SAME


def _flat(config):
    return {name: value for part in PARTS for name, value in asdict(getattr(config, part)).items()}


OF_TRAIN = {name: value for name, value in VALUES.items() if name not in OF_COMPARE}


def test_every_setting_of_train_reads_back_from_yaml_and_python(tmp_path):
    path = tmp_path / "settings.yaml"
    path.write_text(yaml.safe_dump(OF_TRAIN))
    assert _flat(main_job.parse(["--config", str(path)])) == OF_TRAIN
    assert _flat(main_job.parse([], OF_TRAIN)) == OF_TRAIN


def test_every_setting_of_compare_reads_back_from_yaml_and_python(tmp_path):
    path, values = tmp_path / "settings.yaml", {**VALUES, "stage": "all", "algorithm": "sweet"}
    path.write_text(yaml.safe_dump(values))
    given_in_python = {name: value for name, value in values.items() if name != "algorithm"}
    for words, defaults in ((["--config", str(path)], {}), ([], given_in_python)):
        given, config = comparison_job.parse(words, defaults)
        assert {**asdict(given), **_flat(config)} == values


@pytest.mark.parametrize("name", [name for name, algorithm in ALGORITHMS.items() if fields(algorithm.Config)])
def test_every_setting_of_an_algorithm_reads_back_in_a_mapping_and_by_its_full_name(name, tmp_path):
    settings = {one.name: _other(one, CHOSEN_OF_ALGORITHMS) for one in fields(ALGORITHMS[name].Config)}
    defaults = {one.name: default_of(one) for one in fields(ALGORITHMS[name].Config)}
    assert all(settings[one] != defaults[one] for one in settings)
    if name in CRITICS and CRITICS[name].needs_hidden:
        settings["critic_hidden"] = True  # it cannot be off
    path = tmp_path / "settings.yaml"
    path.write_text(yaml.safe_dump({name: settings}))
    full = {f"{name}.{one}": value for one, value in settings.items()}
    for words, defaults in ((["--config", str(path)], {}), ([], {name: settings}), (words_of(full), {})):
        settled = make_config(read(words, "python -m sweetrl_agent.train", "", defaults=defaults), [name])
        assert asdict(settled.algorithm.config) == settings and settled.settings()[name] == settings


@pytest.mark.parametrize("name", sorted({*OF_TRAIN} - SAME - {"server_urls", "engine"}))
def test_a_single_setting_reads_back(name, tmp_path):
    """Alone, so that no other setting hides a value that is not taken."""
    path, given = tmp_path / "settings.yaml", {"model": "org/model", name: OF_TRAIN[name]}
    path.write_text(yaml.safe_dump(given))
    assert _flat(main_job.parse(["--config", str(path)]))[name] == OF_TRAIN[name]


def test_settings_of_sweet_are_the_defaults_of_its_other_critics():
    words = [
        "--algorithms",
        "sweet",
        "no_hidden",
        "grpo",
        "--credit_tasks",
        "0",
        "--sweet.critic_epochs",
        "3",
        "--sweet.num_states",
        "9",
    ]
    _, config = comparison_job.parse([*words, "--no_hidden.critic_epochs", "4"])
    epochs = {name: config.algorithms[name].config.critic_epochs for name in ("sweet", "no_hidden")}
    assert epochs == {"sweet": 3.0, "no_hidden": 4.0} and config.algorithms["no_hidden"].config.num_states == 9
    assert [name for name, value in config.settings().items() if isinstance(value, dict)] == ["sweet", "no_hidden", "grpo"]
    with pytest.raises(
        ValueError, match="^`no_hidden.num_states` must be 9, as of 'sweet', got 5: candidates are the same for all critics"
    ):
        comparison_job.parse([*words, "--no_hidden.num_states", "5"])


def test_a_run_has_the_settings_of_its_own_algorithm_alone():
    config = main_job.parse(["--config", "paper_backend", "--algorithm", "rft", "--sft_dialogues", "0"])
    assert [name for name, value in config.settings().items() if isinstance(value, dict)] == ["rft"]
    assert config.algorithm.config.learning_rate == 2e-7
    config = main_job.parse(["--critic", "no_hidden", "--sweet.critic_epochs", "2"])
    assert config.settings()["no_hidden"]["critic_epochs"] == 2.0 and "sweet" not in config.settings()
    with pytest.raises(ValueError, match="^`grpo.clip` must be at least 0, got -1.$"):
        main_job.parse(["--grpo.clip", "-1"])


def test_what_a_run_writes_reads_back_for_every_stage(tmp_path):
    shaping = {name: value for name, value in OF_TRAIN.items() if name not in ("stage", "demonstrations", "tasks")}
    config = main_job.parse([], {**shaping, "tasks": "embedded:train[:12]", "novel_tasks": "", "output": tmp_path / "run"})
    Run(config)
    file = tmp_path / "run" / "config.yaml"
    again = main_job.parse(["--config", str(file)], {"server_urls": config.model.server_urls})
    assert again.settings() == config.settings()
    for stage in ("all", *(name for name in STAGES if name in config.algorithm.shared), "grpo", "evaluate", "report"):
        other = main_job.parse(["--config", str(file), "--stage", stage], {"server_urls": config.model.server_urls})
        assert other.settings() == config.settings() and other.run.stage == stage


def test_what_a_comparison_writes_reads_back(tmp_path):
    asked = {"algorithms": ["initial", "rft"], "seeds": 2, "best_of": (2, 4), "num_tasks": 7, "workers": 2}
    given, config = comparison_job.parse([], asked)
    comparison_job.write_settings(tmp_path, {**asdict(given), **config.settings()})
    again, other = comparison_job.parse(["--config", str(tmp_path / "config.yaml")])
    assert {**asdict(again), "workers": 2} == asdict(given) and other.settings() == config.settings()
    with pytest.raises(ValueError, match="`algorithms` is a setting of `compare`"):
        main_job.parse(["--config", str(tmp_path / "config.yaml")])


def test_settings_of_an_algorithm_are_no_arguments_of_its_name():
    message = "`algorithms` 'grpo': give its settings as `--grpo.SETTING VALUE`, got ['clip']"
    with pytest.raises(ValueError, match=re.escape(message)):
        comparison_job.parse(["--algorithms", '{"name": "grpo", "clip": 0.1}'])


def test_mappings_in_a_file_are_json(tmp_path):
    path = tmp_path / "settings.yaml"
    path.write_text("simulator:\n  name: scripted\n  level: terse\nenv_kwargs: {semantics: released}\n")
    config = main_job.parse(["--config", str(path)])
    assert config.task.simulator_spec() == {"name": "scripted", "level": "terse"}
    assert config.task.keyword_arguments() == {"semantics": "released"}


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"num_taks": 3}, "Unknown settings: num_taks. Did you mean `num_tasks`?"),
        ({"seeds": 3}, "Unknown settings: seeds. `seeds` is a setting of `compare`."),
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
        main_job.parse([], settings)
    assert error in str(caught.value)
