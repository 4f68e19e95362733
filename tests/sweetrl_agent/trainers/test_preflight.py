"""A dry run: it fails where the run would fail, says why, and runs nothing."""

from __future__ import annotations

import importlib.util
import json
import shutil
import socket
import sys
import threading
import types
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import torch

from sandboxes.extras import pip_install
from sweetrl_agent import compare, train
from sweetrl_agent.algorithms.settings import make_config
from sweetrl_agent.config.pipeline import STAGES
from sweetrl_agent.trainers.run import Run
from tests.sweetrl_agent.killed_runs import mark_done
from tests.words import with_defaults

TASKS = {"tasks": "embedded:train[:10]", "test_tasks": "embedded:test[:3]", "unseen_tasks": "", "sandbox": "embedded"}
VALID = "The settings are valid; nothing was run.\n"
BOTH = pytest.mark.parametrize("main", [train.main, compare.main], ids=["train", "compare"])
ROW = {"problem_description": "x", "ground_truth": "def f(a):\n    return a", "test_cases": {"t": "f(1)"}}


def _arguments(tmp_path, *more):
    return with_defaults({**TASKS, "output": tmp_path / "run", "dry_run": "true"}, [*map(str, more)])


def _errors(capsys):
    said = capsys.readouterr()
    assert VALID not in said.out
    return [line.removeprefix("error: ") for line in said.err.splitlines() if line.startswith("error: ")]


@contextmanager
def _server(status=200, body=b'{"data": []}'):
    """Address of a server that answers everything alike."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def nobody():
    """An address at which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    return f"http://127.0.0.1:{port}/v1"


@BOTH
def test_it_checks_and_runs_nothing(main, tmp_path, capsys):
    assert main(_arguments(tmp_path)) == 0
    assert capsys.readouterr().out.endswith(VALID)
    assert not (tmp_path / "run").exists()


@BOTH
@pytest.mark.parametrize(
    ("given", "text"),
    [
        (["--sandbox", "none"], "`sandbox` must be one of"),
        (["--tasks", "embedded:nowhere"], "The embedded split must be one of"),
        (["--test_tasks", "embedded:nowhere"], "The embedded split must be one of"),
        (["--novel_tasks", "nowhere.jsonl"], "Expected a JSONL file of tasks at 'nowhere.jsonl', found none"),
        (["--test_tasks", "embedded:test[5:5]"], "The slice of 'embedded:test[5:5]' is empty"),
        (
            ["--tasks", "embedded:train[:3]", "--test_tasks", ""],
            "Expected at least 5 tasks to keep a fifth for the test, got 3: give more, or `--test_tasks`.",
        ),
        (["--ray_workers", "1", "--ray_address", "127.0.0.1:1"], "No Ray cluster answers at '127.0.0.1:1'"),
    ],
)
def test_settings_that_would_end_the_run_end_it(main, given, text, tmp_path, capsys):
    if (
        "--ray_workers" in given and importlib.util.find_spec("ray") is None
    ):  # an import here would come before our settings of Ray
        pytest.skip("Ray is missing: pip install .[ray].")
    assert main(_arguments(tmp_path, *given)) == 2
    (error,) = _errors(capsys)
    assert error.startswith(text)


@BOTH
def test_rows_that_cannot_be_read(main, tmp_path, capsys, tiny_model_folder):
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({**ROW, "test_cases": i or {"t": "f(1)"}}) + "\n" for i in (0, 0, 7, 0, 0)))
    given = ["--tasks", rows, "--test_tasks", "", "--model", tiny_model_folder, *_no_credit(main)]
    assert main(_arguments(tmp_path, *given)) == 2
    (error,) = _errors(capsys)
    assert error.startswith(f"{rows}, line 3, field 'test_cases': expected a table of test name to call, got 7.")


def _no_credit(main):
    return ["--credit_tasks", "0", "--critics", "sweet"] if main is compare.main else []


@BOTH
def test_what_vllm_lacks_here(main, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(importlib.util, "find_spec", _hidden("vllm"))
    assert main(_arguments(tmp_path, "--engine", "vllm")) == 2
    assert _errors(capsys) == ["This machine lacks vllm (`pip install vllm`) and a CUDA GPU, for `--engine vllm`."]
    monkeypatch.undo()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    module = types.ModuleType("vllm")
    module.__spec__ = importlib.util.spec_from_loader("vllm", None)
    monkeypatch.setitem(sys.modules, "vllm", module)
    assert main(_arguments(tmp_path, "--engine", "vllm")) == 2
    assert _errors(capsys) == ["This machine lacks a CUDA GPU, for `--engine vllm`."]
    platforms = types.ModuleType("vllm.platforms")
    monkeypatch.setitem(sys.modules, "vllm.platforms", platforms)
    for is_cpu in (False, True):
        platforms.current_platform = types.SimpleNamespace(is_cpu=lambda is_cpu=is_cpu: is_cpu)
        assert main(_arguments(tmp_path, "--engine", "vllm")) == (0 if is_cpu else 2)
    if main is train.main:
        capsys.readouterr()
        assert main(_arguments(tmp_path, "--engine", "vllm", "--algorithm", "grpo")) == 2
        (error,) = _errors(capsys)
        assert error.startswith("This machine lacks a CUDA GPU, for on-policy training of all weights with `--engine vllm`")


def _hidden(*names):
    """`find_spec` for which these packages are not installed."""
    real = importlib.util.find_spec
    return lambda name, package=None: None if name in names else real(name, package)


@BOTH
@pytest.mark.parametrize(
    ("given", "module", "how"),
    [
        (["--ray_workers", "2"], "ray", "[ray]"),
        (["--algorithms", "ppo"], "stable_baselines3", "[sb3]"),
    ],
)
def test_a_missing_package_is_named_by_the_dry_run_and_by_the_run(main, given, module, how, tmp_path, capsys, monkeypatch):
    if "--algorithms" in given and main is train.main:
        pytest.skip("`--algorithms` is an option of compare.")
    monkeypatch.setattr(importlib.util, "find_spec", _hidden(module))
    for is_dry in ("true", "false"):
        assert main(_arguments(tmp_path, *given, "--dry_run", is_dry)) == 2
        who = ", for 'ppo'" if "ppo" in given else ""
        assert _errors(capsys) == [f"This machine lacks {module} (`{pip_install(how)}`{who})."]
    monkeypatch.undo()
    assert not (tmp_path / "run" / "initial").exists()


def _human(url, **more):
    return ["--simulator", json.dumps({"name": "openai", "model": "m", "base_url": url, **more})]


@BOTH
def test_servers_that_nobody_can_reach(main, tmp_path, capsys, nobody):
    servers = ["--engine", "server", "--server_urls", nobody]
    for given in (_human(nobody), servers):
        assert main(_arguments(tmp_path, *given)) == 2
        (error,) = _errors(capsys)
        assert error.startswith(f"No server answers at {nobody} (")
    assert main(_arguments(tmp_path, *_human(nobody), *servers)) == 2
    assert len(_errors(capsys)) == 2, "all that is missing is named"


def test_what_only_a_comparison_needs(tmp_path, capsys, nobody):
    human = json.dumps({"name": "openai", "model": "m", "base_url": nobody})
    given = ["--simulators", "terse", human, "--algorithms", "judge", "--sweet.judge_model", tmp_path]
    assert compare.main(_arguments(tmp_path, *given)) == 2
    model, server = _errors(capsys)
    assert model.startswith("`sweet.judge_model` must be a folder or hub name of a chat model, got ")
    assert server.startswith(f"No server answers at {nobody} (")
    assert train.main(_arguments(tmp_path, "--sweet.judge_model", tmp_path)) == 0, "the main job has no judge"
    assert train.main(_arguments(tmp_path, "--sweet.gain_model", tmp_path)) == 2, "its hint reading has the gain"
    assert "`sweet.gain_model` must be a folder or hub name of a chat model" in capsys.readouterr().err
    assert train.main(_arguments(tmp_path, "--sweet.gain_model", tmp_path, "--hint_turns", 0)) == 0


@pytest.mark.parametrize("name", ["qwen_0.5b_cpu", "qwen_1.5b_cpu", "qwen_rows_cpu"])
def test_the_recipes_of_pretrained_models_would_run(name, tiny_model_folder, tmp_path, capsys):
    rows = [] if name != "qwen_rows_cpu" else ["--tasks", "embedded:train[:10]"]
    given = ["--config", name, "--model", tiny_model_folder, "--output", tmp_path / "run", "--dry_run", *rows]
    assert train.main([*map(str, given)]) == 0
    printed = capsys.readouterr().out
    assert ("critic     information gain, not trained\n" in printed) == (not rows) and printed.endswith(VALID)


@pytest.mark.parametrize("status", [401, 403])
def test_a_server_that_refuses_the_key(status, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("MY_KEY", "hunter2")
    with _server(status, b'{"error": "hunter2 is wrong"}') as url:
        assert train.main(_arguments(tmp_path, *_human(url, api_key_env="MY_KEY"))) == 2
        assert _errors(capsys) == [f"The server at {url} refuses the key in MY_KEY (status {status})."]


@pytest.mark.parametrize(("status", "body"), [(200, b'{"data": []}'), (200, b"<html>"), (404, b""), (500, b"[]")])
def test_a_server_that_answers_is_there(status, body, tmp_path):
    with _server(status, body) as url:
        assert train.main(_arguments(tmp_path, *_human(url))) == 0
        assert train.main(_arguments(tmp_path, "--engine", "server", "--server_urls", url)) == 0


def test_recorded_replies_need_no_server(tmp_path, nobody):
    (tmp_path / "cache.jsonl").touch()
    given = _human(nobody, cache=str(tmp_path / "cache.jsonl"), cache_mode="replay")
    assert train.main(_arguments(tmp_path, *given)) == 0


@pytest.mark.parametrize("missing", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_folder_that_is_no_model(missing, tmp_path, capsys, tiny_model_folder):
    folder = tmp_path / "model"
    shutil.copytree(tiny_model_folder, folder)
    assert train.main(_arguments(tmp_path, "--model", folder)) == 0
    capsys.readouterr()
    (folder / missing).unlink()
    if missing == "tokenizer.json":
        (folder / "tokenizer_config.json").unlink()
    assert train.main(_arguments(tmp_path, "--model", folder)) == 2
    (error,) = _errors(capsys)
    assert error.startswith(("`model` must be a folder or hub name of a chat model", "`model` names a folder without weights"))


@BOTH
def test_an_output_that_cannot_be_written(main, tmp_path, capsys):
    (tmp_path / "file").touch()
    assert main(_arguments(tmp_path, "--output", tmp_path / "file" / "run")) == 2
    assert _errors(capsys)[0].startswith("`output` must name a folder that can be written, got")


@BOTH
def test_a_folder_with_another_run(main, tmp_path, capsys):
    folder = tmp_path / "run" / ("seed_0" if main is compare.main else "")
    given = {"tasks": "embedded:train[:10]", "test_tasks": "embedded:test[:3]", "unseen_tasks": "", "sandbox": "embedded"}
    with Run(make_config({**given, "output": str(folder)})).stage(STAGES["sft"]):
        pass
    assert main(_arguments(tmp_path)) == 0
    capsys.readouterr()
    assert main(_arguments(tmp_path, "--sft_epochs", "1")) == 2
    (error,) = _errors(capsys)
    assert "has other settings" in error and "sft_epochs: 2 there, 1 here" in error


def test_a_stage_before_its_turn(tmp_path, capsys):
    assert train.main(_arguments(tmp_path, "--stage", "pairs")) == 2
    assert _errors(capsys)[0].startswith("Stage 'pairs' needs the files of ['sft', 'collect']")


def test_more_trajectories_than_there_will_be(tmp_path, capsys):
    assert compare.main(_arguments(tmp_path, "--scaling", "33", "--num_tasks", "0")) == 2
    assert _errors(capsys) == ["`scaling` takes counts up to 30, the trajectories of 10 tasks, got 33."]


def test_what_the_asked_stages_do_not_need_may_be_missing(tmp_path, capsys, nobody):
    """A report of what is there needs neither a server nor a GPU."""
    (tmp_path / "run").mkdir()
    mark_done(tmp_path / "run", *list(STAGES)[:-1])
    assert train.main(_arguments(tmp_path, *_human(nobody), "--stage", "report")) == 0
