"""The README of a run folder names every file that a run leaves."""

from __future__ import annotations

import pytest

from sweetrl_agent.algorithms.registry import ALGORITHMS
from sweetrl_agent.algorithms.settings import make_algorithms
from sweetrl_agent.config.pipeline import MAIN_JOB, stages_of, trained_folders
from sweetrl_agent.data.folder_guide import folder_guide


def test_it_names_every_file_and_its_stage():
    text = folder_guide("SWEET-RL", {stage.name: stage for stage in MAIN_JOB}, "policy")
    for stage in MAIN_JOB:
        for file in stage.files:
            assert any(line.startswith(f"| `{file}` | ") and line.endswith(f"| {stage.name} |") for line in text.split("\n")), (
                file
            )
    for file in ("config.yaml", "versions.json", "metrics.jsonl"):
        assert f"`{file}`" in text
    assert "    python -m sweetrl_agent.train --config config.yaml --output ." in text.split("\n")


def test_the_policy_of_another_algorithm_stands_in_its_folder():
    algorithm = ALGORITHMS["grpo"]
    text = folder_guide(algorithm.title, stages_of(algorithm), algorithm.folders)
    assert f"The trained policy is in `{algorithm.folders[0]}/`." in text
    assert "candidates.jsonl" not in text


@pytest.mark.parametrize(
    ("name", "folder"), [("linvit", "linvit"), ("ppo", "ppo"), ("bidirectional", "bidirectional"), ("grpo", "grpo/agent")]
)
def test_every_algorithm_names_the_folder_of_what_it_trains(name, folder):
    algorithm = ALGORITHMS[name]
    text = folder_guide(algorithm.title, stages_of(algorithm), trained_folders(algorithm))
    assert f"The trained policy is in `{folder}/`." in text


def test_an_algorithm_that_trains_nothing_names_no_folder():
    algorithm = ALGORITHMS["initial"]
    text = folder_guide(algorithm.title, stages_of(algorithm), trained_folders(algorithm))
    assert "Nothing is trained after the initial policy." in text and "trained policy is in" not in text


def test_the_files_of_a_critic_are_described_and_only_a_gain_has_a_noise_level():
    algorithm = make_algorithms(["gain"], {})["gain"]
    lines = folder_guide(algorithm.title, stages_of(algorithm), algorithm.folders).split("\n")
    described = {file: text for line in lines if line.startswith("| `gain/") for file, text in [line.split("|")[1:3]]}
    assert described[" `gain/scores.jsonl` "] == " the critic's advantage of each candidate "
    assert "noise level" in described[" `gain/noise_level.json` "]
    assert not any("noise_level.json" in file for file in stages_of(ALGORITHMS["sweet"])["rank"].files)
    untrained = make_algorithms(["untrained"], {})["untrained"]
    assert not any("noise_level.json" in file for file in stages_of(untrained)["rank untrained"].files)
