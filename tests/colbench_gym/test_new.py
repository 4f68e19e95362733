"""`python -m colbench_gym.new`: the package that it writes passes its own tests, and `train --env` takes it at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from colbench_gym import new

ROOT = Path(__file__).parents[2]


@pytest.fixture
def package(tmp_path, capsys):
    assert new.main(["price_talks", "--folder", str(tmp_path)]) == 0
    assert str(tmp_path / "price_talks" / "README.md") in capsys.readouterr().out
    return tmp_path / "price_talks"


def run(folder, *words):
    path = os.pathsep.join([str(folder), str(ROOT)])
    given = {**os.environ, "PYTHONPATH": path, "HF_HUB_OFFLINE": "1"}
    return subprocess.run([sys.executable, *words], cwd=folder, env=given, capture_output=True, text=True, timeout=600)


def test_the_package_passes_its_own_tests(package):
    done = run(package, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests")
    assert done.returncode == 0 and "5 passed" in done.stdout, done.stdout + done.stderr


def test_its_tests_pass_inside_of_another_checkout_with_settings_of_its_own(package):
    (package.parent / "tox.ini").write_text("[pytest]\naddopts = --no-such-option\n")
    test_the_package_passes_its_own_tests(package)


def test_train_takes_its_environment_at_once(package):
    (command,) = [line.split() for line in (package / "README.md").read_text().splitlines() if "sweetrl_agent.train" in line]
    done = run(package, *command[1:], "--dry_run", "true")
    assert done.returncode == 0 and "The settings are valid" in done.stdout, done.stdout + done.stderr


def test_its_oracle_has_the_most_that_an_agent_can_have(package):
    words = [
        "--env",
        "price_talks:PriceTalks-v0",
        "--env_record",
        "price_talks.record:PriceTalksRecord",
        "--tasks",
        "seeds:0-9",
    ]
    done = run(package, "-m", "sweetrl_agent.evaluate", "oracle", *words, "--output", "evaluation")
    assert done.returncode == 0 and "100.0%" in done.stdout, done.stdout + done.stderr


def test_nothing_of_the_template_is_left(package):
    text = "".join(path.read_text() for path in package.rglob("*.*") if path.is_file())
    assert not [word for word in ("PACKAGE", "ENV_ID", "CLASS", "RECORD") if word in text]
    assert "PriceTalks-v0" in text and "PriceTalksEnv" in text


@pytest.mark.parametrize("name", ["Price", "price-talks", "class", "../x", "1st", ""])
def test_what_is_no_name_is_refused(tmp_path, capsys, name):
    with pytest.raises(SystemExit) as ended:
        new.main([name, "--folder", str(tmp_path)])
    assert ended.value.code == 2 and "name of a Python package" in capsys.readouterr().err and not [*tmp_path.iterdir()]


def test_a_folder_that_exists_is_left_alone(package, capsys):
    (package / "README.md").write_text("mine")
    with pytest.raises(SystemExit):
        new.main(["price_talks", "--folder", str(package.parent)])
    assert "exists" in capsys.readouterr().err and (package / "README.md").read_text() == "mine"
