"""Bad input to the commands: every option of train, compare, grade, play and report ends in one sentence and status 1 or 2, never in a traceback.

Where a value may be valid, such as any text for the name of a hub's model, the command may also end well.
"""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from colbench_gym import grade, play
from colbench_gym.stage_records import StageRecords
from sweetrl_agent import compare, report, train
from sweetrl_agent.config.evaluation import CompareArguments
from sweetrl_agent.config.job import PARTS

pytestmark = pytest.mark.usefixtures("untimed")

WORDS = (
    "", "abc", "-1", "0", "1.5", "nan", "inf", "1e400", "9" * 30, "true", "null", "{", "[]", "{}", "[" * 2_000, '{"name": []}', '{"name": {}}', '{"a": 1}',
    '{"name": "scripted", "level": 7}', '{"name": "openai", "model": 5, "max_tokens": "x"}', "\udcff", "a\0b", "a" * 5000, "/", ".", "~nobody/x",
    "http://[::1", "embedded:nowhere", "embedded:train[5:1]", "embedded:train?topics=x", f"embedded:test[{'9' * 30}:]", "hub:", "hub:x/y:z", "x.jsonl:",
)  # fmt: skip
ROW = {"problem_description": "x", "ground_truth": "def f(a):\n    return a", "test_cases": {"t": "f(1)"}}
FILES = {
    "empty": b"", "binary": bytes(range(256)) * 8, "bad": b'{"a": \n[1,2\n', "values": b'1\n"x"\nnull\n[]\n{}\n', "deep": b"[" * 100_000 + b"\n",
    "twice": (json.dumps(ROW) + "\n").encode() * 6, "nul": b"\0" * 100 + b"\n", "number": b"3\n", "list": b"[1]\n",
    "results": json.dumps({"tasks": 1, "algorithms": [], "paired": {}}).encode() + b"\n",
}  # fmt: skip
SMALL = ["--tasks", "embedded:train[:10]", "--test_tasks", "embedded:test[:3]", "--unseen_tasks", "", "--sandbox", "embedded"]
#: Options of the main job that name tasks, models, programs to run or addresses; the others take words and numbers alone.
NAMES_FILES = {
    "output",
    "tasks",
    "test_tasks",
    "simulator",
    "model",
    "server_urls",
    "baseline",
    "dials",
    "config",
}
#: Where any text is a name, and a hub would be asked for it.
ASKS_HUB = {"model"}
#: Where any text is valid, so that a whole plan is made for each; and text that no file, terminal or model takes.
ANY_TEXT = {"system_prompt", "revision", "ray_address", "eval_pretrained"}
ODD_TEXT = ("", "a\0b", "\udcff", "a" * 5000)
#: What is no number, or none that any setting may have, but for some -1.
NO_NUMBERS = ("", "abc", "-1", "nan", "1e400", "9" * 30)

#: What no file can be called.
NO_OUT = ("", ".", "/", "a" * 5000, "[" * 2_000, "a\0b")


@pytest.fixture(scope="module")
def bad_paths(tmp_path_factory):
    """Files and folders that hold nothing of use, and one that is missing."""
    folder = tmp_path_factory.mktemp("bad")
    for name, content in FILES.items():
        (folder / f"{name}.jsonl").write_bytes(content)
        (folder / name).mkdir()
        (folder / name / "results.json").write_bytes(content)
    (folder / "folder.jsonl").mkdir()
    return [*map(str, folder.iterdir()), str(folder / "missing.jsonl")]


def _said(main, arguments):
    """Status and error lines of a command; fails by any exception that gets out."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main(arguments)
        except SystemExit as ended:
            status = ended.code
    return status, [line for line in err.getvalue().splitlines() if "error: " in line], out.getvalue()


def _assert_one_sentence(main, arguments):
    status, errors, _ = _said(main, arguments)
    assert status in (0, 1, 2), (arguments, status)
    assert (len(errors) >= 1) == (status != 0), (arguments, errors)
    assert all(len(error) < 8000 for error in errors)


def _options(main, parts):
    """Command, option and its words."""
    settings = [(setting.name, setting.type) for part in parts for setting in fields(part) if setting.name != "dry_run"]
    for name, kind in [*settings, ("config", "str")]:
        words = (
            NO_NUMBERS
            if kind in ("int", "float", "bool")
            else ODD_TEXT
            if name in ANY_TEXT
            else ()
            if name in ASKS_HUB
            else WORDS
        )
        yield pytest.param(main, name, words, id=f"{main.__module__.split('.')[1]}-{name}")


@pytest.mark.parametrize(
    ("main", "name", "words"), [*_options(train.main, PARTS.values()), *_options(compare.main, [CompareArguments])]
)
def test_options_of_train_and_compare(main, name, words, bad_paths, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.chdir(tmp_path)
    more = {"tasks": ["--model", str(tmp_path)], "server_urls": ["--engine", "server"]}.get(name, [])
    for value in (*words, *(bad_paths if name in NAMES_FILES else ())):
        _assert_one_sentence(main, [*SMALL, *more, "--output", str(tmp_path / "run"), "--dry_run", "true", f"--{name}={value}"])
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "value",
    [
        "abc",
        "[1, 2]",
        "{a: 1}",
        "null",
        "2020-13-45",
        "true",
        ".nan",
        ".inf",
        "1e999",
        "'\\ud800'",
        "!!python/object:os.system x",
    ],
)
@pytest.mark.parametrize("name", ["num_tasks", "sweet.critic_beta", "lora", "model", "server_urls", "algorithms", "1"])
def test_values_of_a_settings_file(name, value, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (tmp_path / "file.yaml").write_text(f"{name}: {value}\n")
    asked = ["--output", str(tmp_path / "run"), "--dry_run", "true", "--config", str(tmp_path / "file.yaml")]
    small = [word for pair in zip(SMALL[::2], SMALL[1::2], strict=True) if pair[0] != f"--{name}" for word in pair]
    for main in (train.main, compare.main):
        _assert_one_sentence(main, [*small, *asked])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seed: 0x" + "9" * 10_000, f"`seed` must be at most {2**31 - 1}."),
        ("a: &a [x, x]\nb: &b [*a, *a]\nseed: [*b, *b]", "`b` must be a setting or a list of settings, got a nested list."),
        ("seed: {a: 1}", "Unknown settings: seed.a. Did you mean `seed`?"),
    ],
)
def test_a_settings_file_is_refused_in_one_short_line(text, message, tmp_path, monkeypatch, capsys):
    from sweetrl_agent.train import main

    monkeypatch.chdir(tmp_path)
    (tmp_path / "file.yaml").write_text(text)
    assert main(["--output", str(tmp_path / "run"), "--dry_run", "true", "--config", "file.yaml"]) == 2
    assert capsys.readouterr().err == f"error: {message}\n"


@pytest.mark.skipif(
    not Path("/proc/self").exists(), reason="needs /proc, in which root may make no folder although `access` says so"
)
def test_a_dry_run_tries_to_make_a_folder(tmp_path, capsys):
    from sweetrl_agent.train import main

    assert main(["--output", "/proc/run", "--dry_run", "true"]) == 2
    assert capsys.readouterr().err.startswith("error: `output` must name a folder that can be written, got '/proc/run': ")


def test_a_report_of_nothing(tmp_path, monkeypatch, capsys):
    from sweetrl_agent.report import main

    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="2"):
        main([""])
    assert "`folder` must be the folder of a run, got nothing; '.' is the current folder" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


RUN_FILES = ("config.yaml", "stages.json", "evaluation.jsonl", "metrics.jsonl", "hint_reading.json")


@pytest.mark.parametrize("content", ["empty", "binary", "values", "deep", "list", "results"])
@pytest.mark.parametrize("name", RUN_FILES)
def test_broken_files_of_a_run_folder(name, content, tmp_path):
    stages = ["sft", "collect", "pairs", "critic", "candidates", "rank", "actor", "evaluate"]
    for folder in (tmp_path / "run", tmp_path / "compare" / "seed_0"):
        folder.mkdir(parents=True)
        records = StageRecords(folder)
        for stage in (*stages, "evaluate initial"):
            records.begin(stage, (), (), ())
            records.finish(stage, seconds=1.0, peak_mib=1.0)
        (folder / name).unlink(missing_ok=True)
        (folder / name).write_bytes(FILES[content])
    _assert_one_sentence(train.main, [*SMALL, "--output", str(tmp_path / "run"), "--stage", "report"])
    _assert_one_sentence(report.main, [str(tmp_path / "run")])
    asked = ["--algorithms", "initial", "--seeds", "1", "--credit_tasks", "0", "--output", str(tmp_path / "compare")]
    _assert_one_sentence(compare.main, [*SMALL, *asked])


@pytest.mark.parametrize("name", RUN_FILES)
def test_a_folder_in_place_of_a_file_of_a_run(name, tmp_path):
    (tmp_path / "run" / name).mkdir(parents=True)
    _assert_one_sentence(train.main, [*SMALL, "--output", str(tmp_path / "run"), "--stage", "report"])
    _assert_one_sentence(report.main, [str(tmp_path / "run")])


def test_folders_of_report(bad_paths, tmp_path):
    for path in (*WORDS, *bad_paths):
        if path in ("", "/", ".", "-1"):  # real folders, and no argument
            continue
        _assert_one_sentence(report.main, [path])


@pytest.mark.parametrize("option", ["env", "tasks", "task-id", "simulator", "sandbox", "max-turns", "seed"])
def test_options_of_play(option, bad_paths, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    defaults = {"--tasks": "embedded:test[:2]", "--sandbox": "embedded"}
    for value in (*WORDS, *bad_paths):
        monkeypatch.setattr(sys, "stdin", io.StringIO(""))
        settings = {**defaults, f"--{option}": value}
        status, _, out = _said(play.main, [f"{name}={text}" for name, text in settings.items()])
        assert status in (1, 2), (option, value)


@pytest.mark.parametrize("text", [b"\xff\xfe\n\n", b"\0\n\n", b"```" * 1000 + b"\n\n", b"\xed\xa0\x80\n\n"])
def test_what_is_typed_into_play(text, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text), encoding="utf-8"))
    status, _, _ = _said(play.main, ["--tasks", "embedded:test[:2]", "--sandbox", "embedded"])
    assert status == 1


@pytest.mark.parametrize("option", ["file", "out", "sandbox", "semantics", "workers", "on-error"])
def test_options_of_grade(option, bad_paths, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.jsonl").write_text(json.dumps(ROW) + "\n")
    for value in NO_NUMBERS if option == "workers" else (*WORDS, *bad_paths):
        defaults = {"--out": str(tmp_path / "scores.jsonl"), "--sandbox": "embedded", "--workers": "1"}
        file = value if option == "file" else str(tmp_path / "rows.jsonl")
        options = {**defaults, **({} if option == "file" else {f"--{option}": value})}
        _assert_one_sentence(grade.main, [*(f"{name}={text}" for name, text in options.items()), "--", file])


@pytest.mark.parametrize("out", NO_OUT)
def test_a_folder_for_the_scores_of_grade(out, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.jsonl").write_text(json.dumps(ROW) + "\n")
    _assert_one_sentence(grade.main, ["rows.jsonl", f"--out={out}", "--sandbox", "embedded", "--workers", "1"])


@pytest.mark.parametrize("redirection", ["<&-", ">/dev/full", "| true"])
def test_play_without_a_terminal_on_one_side_ends_in_a_sentence(redirection):
    command = f"{sys.executable} -m colbench_gym.play --sandbox embedded </dev/null {redirection}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=900)
    assert "Traceback" not in done.stderr and done.returncode in (0, 1)
