"""A user-defined algorithm: named by its module, with settings of its own, trained and compared without an edit anywhere."""

from __future__ import annotations

import pickle
import subprocess
import sys
from dataclasses import dataclass

import pytest

from sweetrl_agent import Algorithm, compare, run_train, train
from sweetrl_agent.algorithms import registry
from sweetrl_agent.algorithms.grpo import GRPO
from sweetrl_agent.algorithms.settings import make_config
from sweetrl_agent.config.pipeline import STAGES, stages_of
from sweetrl_agent.core.algorithm import START
from sweetrl_agent.core.episode import Episode
from sweetrl_agent.core.settings import setting
from sweetrl_agent.trainers.groups import in_groups


@dataclass(frozen=True)
class NothingConfig:
    count: int = setting(3, "How often nothing is done; 7 in the paper.", least=1)


class Nothing(Algorithm):
    """Saves the initial policy as its own."""

    name, title, Config, shared = "nothing", "Nothing", NothingConfig, START

    def train(self, run):
        from sweetrl_agent.models.loading import load_model, load_tokenizer
        from sweetrl_agent.trainers.running import save_model

        assert self.config == NothingConfig(5)
        model = load_model(run.initial_model, run.initial_model, run.config.model)
        save_model(model, load_tokenizer(run.initial_model, run.config.model), run.path(*self.folders))


class Seer(Nothing):
    name, requires = "seer", frozenset({"hidden", "snapshot"})


class Here(Nothing):
    name, engines = "here", ("transformers",)


class Impostor(Nothing):
    name = "grpo"


TINY = {
    "sft_dialogues": 64, "sft_epochs": 1, "tiny_hidden_size": 32, "tiny_layers": 1, "tiny_vocab_size": 600, "num_tasks": 4,
    "eval_tasks": 3, "max_new_tokens": 8, "max_turns": 2, "generation_batch": 4, "sandbox": "embedded", "threads": 1, "nothing.count": 5,
}  # fmt: skip


def words(**settings):
    return [
        word
        for name, value in settings.items()
        for word in (f"--{name}", *map(str, value if isinstance(value, list) else [value]))
    ]


def test_it_trains_and_resumes_by_its_module(tmp_path):
    named = f"{__name__}:Nothing"
    results = run_train(**TINY, algorithm=named, output=tmp_path / "run")
    assert results["algorithm"] == "nothing" and list(results["seconds"]) == ["sft", "nothing", "evaluate"]
    start, result = results["initial"], results["trained"]
    assert start == result and start["test"]["n"] == 3
    assert run_train(config=tmp_path / "run" / "config.yaml", output=tmp_path / "run", threads=1) == results


def test_it_stands_in_a_comparison(tmp_path):
    asked = words(
        **TINY,
        algorithms=["initial", f"{__name__}:Nothing"],
        seeds=2,
        workers=2,
        credit_tasks=0,
        critics="sweet",
        output=tmp_path,
    )
    assert compare.main(asked) == 0
    assert (tmp_path / "seed_1" / "nothing" / "agent" / "model.safetensors").exists()


def test_its_settings_are_shown_checked_and_its_own_stages(capsys):
    with pytest.raises(SystemExit):
        train.main(["--algorithm", f"{__name__}:Nothing", "--help"])
    assert "How often nothing is done; 7 in the paper." in " ".join(capsys.readouterr().out.split())
    named = {"algorithm": f"{__name__}:Nothing"}
    assert make_config(named).first_stage("nothing.count") == "nothing"
    with pytest.raises(ValueError, match="^`nothing.count` must be at least 1, got 0.$"):
        make_config({**named, "nothing": {"count": 0}})


def test_settings_are_pickled_with_the_class():
    """The seeds of the comparison above read them in processes of their own, where `train` checks them."""
    config = make_config({"algorithm": f"{__name__}:Nothing", "nothing.count": 5})
    again = pickle.loads(pickle.dumps(config))
    assert again.algorithm.config.count == 5 and again.settings() == config.settings()


def test_the_package_loads_no_torch():
    assert (
        subprocess.run([sys.executable, "-c", "import sweetrl_agent, sys; assert 'torch' not in sys.modules"]).returncode == 0
    )


@pytest.mark.parametrize(
    ("named", "error"),
    [
        ("nobody", r"`algorithm` must be one of \('single_turn', .*, or 'package.module:Class', got 'nobody'"),
        (f"{__name__}:NothingConfig", "`algorithm` must name an `Algorithm`"),
        (f"{__name__}:Impostor", "The `name` of .* must be an identifier that no other algorithm has, got 'grpo'"),
        ("nowhere.at_all:Mine", "`algorithm` names a module that does not exist: 'nowhere.at_all'"),
    ],
)
def test_what_is_no_algorithm_is_refused(named, error, capsys, tmp_path):
    assert train.main(words(algorithm=named, output=tmp_path / "run")) == 2
    import re

    assert re.match(f"error: {error}", capsys.readouterr().err)
    assert not (tmp_path / "run").exists()


def test_an_environment_without_what_it_requires_is_refused_before_anything_runs(capsys, tmp_path):
    given = words(
        env="examples.frozen_lake:FrozenLakeInWords-v0", model="hub/name", algorithm=f"{__name__}:Seer", output=tmp_path / "run"
    )
    assert train.main(given) == 2
    assert capsys.readouterr().err == (
        "error: 'seer' requires an environment with hidden information (an attribute `hidden_information`) and snapshots (methods `get_state` "
        "and `set_state`), which examples.frozen_lake:FrozenLakeInWords-v0 does not have.\n"
    )
    assert not (tmp_path / "run").exists()


def test_sweet_requires_hidden_information(capsys, tmp_path):
    given = words(env="examples.frozen_lake:FrozenLakeInWords-v0", model="hub/name", output=tmp_path / "run")
    assert train.main(given) == 2
    assert "'sweet' requires an environment with hidden information" in capsys.readouterr().err


def test_the_stages_of_the_main_job_are_those_of_its_algorithm():
    assert list(stages_of(registry.ALGORITHMS["sweet"])) == list(STAGES)
    assert list(stages_of(GRPO())) == ["sft", "grpo", "evaluate", "report"]
    assert list(stages_of(registry.ALGORITHMS["rft"])) == ["sft", "collect", "pairs", "rft", "evaluate", "report"]


def test_an_engine_that_an_algorithm_cannot_use_is_refused(capsys, tmp_path):
    given = {"model": "hub/name", "engine": "server", "server_urls": "http://127.0.0.1:9/v1", "output": tmp_path / "run"}
    assert train.main(words(**given, algorithm="grpo")) == 2
    needs = "sends its new weights to servers as LoRA adapters: add `--lora true`, or sample in this process with `--engine transformers` or `vllm`."
    assert capsys.readouterr().err == f"error: 'grpo' {needs}\n"
    assert compare.main(words(**given, algorithms=["initial", "turn_ppo"])) == 2
    assert capsys.readouterr().err == f"error: 'turn_ppo' {needs}\n"
    given = {"model": "hub/name", "engine": "vllm", "output": tmp_path / "run"}
    assert train.main(words(**given, algorithm=f"{__name__}:Here")) == 2
    assert capsys.readouterr().err == "error: 'here' takes `--engine transformers`, got 'vllm'.\n"


def test_a_module_that_fails_is_named_with_the_setting_and_the_line(capsys, tmp_path, monkeypatch):
    (tmp_path / "broken_algorithm.py").write_text("\nimport no_such_package\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert train.main(words(model="hub/name", algorithm="broken_algorithm:GRPO", output=tmp_path / "run")) == 2
    at = f"{tmp_path}/broken_algorithm.py, line 2: ModuleNotFoundError: No module named 'no_such_package'"
    assert capsys.readouterr().err == f"error: `algorithm`: the module 'broken_algorithm' cannot be imported ({at}).\n"


def test_from_python_the_error_says_what_is_wrong(tmp_path):
    with pytest.raises(ValueError, match="^`algorithm` must be one of "):
        run_train(algorithm="gropo", output=tmp_path / "run")


def test_a_group_of_one_is_refused():
    with pytest.raises(ValueError, match="set the algorithm's `group` to 2 or more"):
        in_groups([Episode("a", 0, [], [], {}, 1.0), Episode("b", 0, [], [], {}, 1.0)], list)
