"""Files of settings of the package, by name and by path."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from sweetrl_agent.config import files
from sweetrl_agent.config.__main__ import main
from sweetrl_agent.config.job import PARTS
from sweetrl_agent.config.reading import flat
from sweetrl_agent.evaluation.main_job import parse

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("name", files.names())
def test_every_file_of_the_package_is_found_and_parses(name):
    assert files.find(name) == files.find(f"{name}.yaml") == ROOT / "sweetrl_agent" / "configs" / f"{name}.yaml"
    config = parse(["--config", name, "--model", "org/model"])
    parts = {one: value for part in PARTS for one, value in vars(getattr(config, part)).items()}
    given = {**flat(files.read(name)), "model": "org/model"}
    own = {f"sweet.{one}": value for one, value in vars(config.algorithm.config).items()}
    others = {one for one in given if "." in one} - {*own}
    assert {one: {**parts, **own}[one] for one in given if one not in others} == {
        one: given[one] for one in given if one not in others
    }
    assert files.describe(name)


def test_a_path_comes_before_a_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert parse(["--config", "quick"]).collect.num_tasks == 300
    Path("quick.yaml").write_text("num_tasks: 4")
    assert parse(["--config", "quick.yaml"]).collect.num_tasks == 4
    assert parse(["--config", str(tmp_path / "quick.yaml")]).collect.num_tasks == 4


@pytest.mark.parametrize("name", ["../setup", "accelerate", "x" * 5000, "no\0file", "/no/file.yaml", ""])
def test_a_file_that_is_not_there_names_those_of_the_package(name):
    with pytest.raises(
        ValueError,
        match="^`config` names no file: .*; by name the package has full, paper_backend, quick, qwen_0.5b_cpu, qwen_1.5b_cpu, qwen_rows_cpu",
    ):
        files.read(name)


def test_the_command_lists_shows_and_places_them(capsys):
    assert main([]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == files.names()
    assert main(["--path", "accelerate/zero3"]) == 0
    assert "distributed_type" in yaml.safe_load(Path(capsys.readouterr().out.strip()).read_text())
    assert main(["--show", "quick"]) == 0
    assert yaml.safe_load(capsys.readouterr().out) == files.read("quick")


def test_the_package_data_has_them():
    declared = (ROOT / "setup.py").read_text()
    assert '"**/*.yaml"' in declared and '"sweetrl_agent": DATA' in declared
