"""The command line and YAML files of settings: what is refused before anything runs."""

from __future__ import annotations

import pytest

from sweetrl_agent.config import files
from sweetrl_agent.config.command_line import results_of
from sweetrl_agent.evaluation.main_job import parse
from sweetrl_agent.train import main


@pytest.mark.parametrize("text", ["- num_tasks", "num_tasks: [", "unheard_of: 3"])
def test_a_file_that_holds_no_settings_is_refused(text, tmp_path):
    (tmp_path / "file.yaml").write_text(text)
    with pytest.raises(ValueError, match="`config` (must be a YAML mapping|is not YAML)|Unknown settings: unheard_of"):
        parse(["--config", str(tmp_path / "file.yaml")])


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"stage": "x"}, "`stage` must be one of ('all', 'sft',"),
        ({"sweet.num_candidates": 1}, "`sweet.num_candidates` must be at least 2, got 1."),
        ({"trajectories_per_task": 0}, "`trajectories_per_task` must be at least 1, got 0."),
        (
            {"trajectories_per_task": 1},
            "`trajectories_per_task` must be at least 2 for 'sweet', which learns from pairs of episodes, got 1.",
        ),
        ({"sweet.critic_batch": 3}, "`sweet.critic_batch` must be a multiple of `sweet.critic_micro_batch`, got 3 and 2."),
        ({"tasks": "x.jsonl"}, "`tasks` names no file and no known source: 'x.jsonl'."),
        ({"num_tasks": -3}, "`num_tasks` must be at least 0, got -3."),
        ({"min_best": 80}, "`min_best` must be at most 1, got 80."),
        ({"model": "/no/model"}, "`model` names no folder: '/no/model'."),
        ({"system_prompt": "pages"}, "`system_prompt` 'pages' is for ColBench-Frontend-v0, got `env`='ColBench-Backend-v0'."),
        (
            {"eval_pretrained": "pages"},
            "`eval_pretrained` 'pages' is for ColBench-Frontend-v0, got `env`='ColBench-Backend-v0'.",
        ),
        ({"engine": "server"}, "`engine` 'server' needs `server_urls`, such as http://127.0.0.1:8000/v1."),
        ({"server_urls": "http://127.0.0.1:8000/v1"}, "`server_urls` are for `engine` 'server', got 'transformers'."),
        (
            {"engine": "server", "server_urls": "127.0.0.1:8000"},
            "`server_urls` must be addresses separated by blanks or commas, such as http",
        ),
        (
            {"engine": "server", "server_urls": "http://127.0.0.1:abc/v1"},
            "`server_urls` must be addresses separated by blanks or commas, ",
        ),
        ({"simulator": "{bad"}, "`simulator` must be a name or valid JSON: "),
        ({"simulator": "openai"}, "The 'openai' simulator takes model, base_url, "),
        ({"num_task": 5}, "Unknown settings: num_task. Did you mean `num_tasks`?"),
        ({"config": "no.yaml"}, "`config` names no file: 'no.yaml'; by name the package has full, paper_backend, q"),
        ({"tasks": __file__}, "SFT of the tiny model is available on the embedded tasks only, got `tasks`="),
    ],
)
def test_wrong_settings_are_refused_before_anything_runs(changes, text, tmp_path, capsys):
    given = {"sweet.critic_batch": 2, "sweet.critic_micro_batch": 2, "output": tmp_path / "run", **changes}
    assert main([], given) == 2
    assert capsys.readouterr().err.startswith(f"error: {text}")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("grpo: {tasks: 3}\nseed: 1\ngrpo: {clip: 0.1}", "grpo"),
        ("grpo: {clip: 0.1, clip: 0.2}", "grpo.clip"),
        ("grpo.clip: 0.1\ngrpo: {clip: 0.3}", "grpo.clip"),
    ],
)
def test_a_file_with_a_setting_twice_is_refused(tmp_path, text, name):
    (tmp_path / "twice.yaml").write_text(text)
    with pytest.raises(ValueError, match=f"^`config` has `{name}` twice; a setting is given once.$"):
        files.read(str(tmp_path / "twice.yaml"))


def test_results_are_those_of_the_folder_that_a_file_names(tmp_path):
    (tmp_path / "file.yaml").write_text(f"output: {tmp_path / 'named'}\ndry_run: false\n")
    (tmp_path / "dry.yaml").write_text("dry_run: true\n")
    for folder in ("named", "given"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "results.json").write_text(f'{{"of": "{folder}"}}')
    in_file = {"config": tmp_path / "file.yaml"}
    assert results_of(lambda: 0, in_file, "runs/other") == {"of": "named"}
    assert results_of(lambda: 0, {**in_file, "output": tmp_path / "given"}, "runs/other") == {"of": "given"}
    assert results_of(lambda: 0, {"config": tmp_path / "dry.yaml"}, "runs/other") == {}
