"""A dry run: what it checks, what it says, and that it runs nothing."""

from __future__ import annotations

import importlib.util
import sys
import types

import torch

from sweetrl_agent.train import main


def test_a_dry_run_checks_and_runs_nothing(tmp_path, capsys):
    folder = tmp_path / "run"
    asked = ["--output", str(folder), "--dry_run", "true"]
    assert main(asked) == 0
    assert capsys.readouterr().out.endswith("The settings are valid; nothing was run.\n")
    assert not folder.exists()
    assert main([*asked, "--sandbox", "none"]) == 2
    assert "`sandbox` must be one of" in capsys.readouterr().err


def test_it_says_what_an_engine_lacks_here(tmp_path, capsys, monkeypatch):
    asked = ["--output", str(tmp_path / "run"), "--dry_run", "true", "--engine", "vllm"]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setitem(sys.modules, "vllm", None)
    assert main(asked) == 0
    assert "(vllm, for which this machine lacks vLLM and a GPU, all weights)" in capsys.readouterr().out
    module = types.ModuleType("vllm")
    module.__spec__ = importlib.util.spec_from_loader("vllm", None)
    monkeypatch.setitem(sys.modules, "vllm", module)
    assert main(asked) == 0
    assert "(vllm, for which this machine lacks a GPU, all weights)" in capsys.readouterr().out
    assert main([*asked, "--engine", "transformers"]) == 0
    assert "(transformers, all weights)" in capsys.readouterr().out
