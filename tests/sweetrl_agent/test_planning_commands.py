"""The commands of docs/planning.md would run: each by `--dry_run`, with a tiny model, embedded tasks and a server of this process."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest
import torch

from sweetrl_agent.config import files
from sweetrl_agent.train import main
from tests.docs.blocks import ROOT, blocks_of, modules

BLOCKS = [block for block in blocks_of(ROOT / "docs" / "planning.md") if "test_planning_commands.py" in block.reason]
LACKS = "This machine lacks vllm (`pip install vllm`) and a CUDA GPU, for `--engine vllm`."


def test_the_page_has_a_command_for_each_way():
    assert len(BLOCKS) == 4


def _without(own, words):
    """The words of a command line without those settings and their values."""
    kept, is_own = [], False
    for word in words:
        if word.startswith("--"):
            is_own = word.removeprefix("--").partition("=")[0] in own
        if not is_own:
            kept.append(word)
    return kept


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_a_command_would_run(block, tiny_model_folder, serve, tmp_path, capsys, monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, package=None: None if name == "vllm" else real(name, package))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    ((module, words),) = modules(block.code)
    assert module == "sweetrl_agent.train"
    own = {
        "model": tiny_model_folder, "tasks": "embedded:train[:10]", "test_tasks": "embedded:test[:3]", "simulator": "scripted",
        "output": tmp_path / "run",
    }  # fmt: skip
    if "--server_urls" in words:
        own["server_urls"] = serve("agent").url
    if "--ray_workers" in words:
        if real("ray") is None:
            pytest.skip("Ray is missing: pip install .[ray].")
        own["ray_address"] = ""  # no cluster is here
    has_engine = "transformers" in words or "server" in words
    given = [*(f"--{name}={value}" for name, value in own.items()), *_without(own, words)]
    status, printed = main([*given, *(["--dry_run"] if "--dry_run" not in words else [])]), capsys.readouterr()
    expected = (0, []) if has_engine else (2, [LACKS])
    assert (
        status,
        [line.removeprefix("error: ") for line in printed.err.splitlines() if line.startswith("error: ")],
    ) == expected
    assert "paper form, 4 epochs" in printed.out and ("LoRA" if "--lora" in words else "all weights") in printed.out


@pytest.mark.slow
def test_the_command_of_eight_gpus_would_run_under_accelerate(tiny_model_folder, tmp_path):
    launcher = ["-m", "accelerate.commands.launch", "--config_file", files.find("accelerate/fsdp"), "--num_processes", "1"]
    own = ["-m", "sweetrl_agent.train", "--config", "paper_backend", "--engine", "transformers", "--model", tiny_model_folder]
    own += ["--tasks", "embedded:train[:10]", "--test_tasks", "embedded:test[:3]", "--simulator", "scripted", "--dry_run"]
    command = [sys.executable, *map(str, [*launcher, *own, "--output", tmp_path / "run"])]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "The settings are valid; nothing was run." in done.stdout
