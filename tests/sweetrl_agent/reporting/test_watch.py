"""The page of a run that works: what it says of every state, when it is made again, and whom the server answers."""

from __future__ import annotations

import http.client
import json
import math
import os
import re
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from functools import partial

import pytest

from colbench_gym.files import append_rows, is_locked, locked, write_json
from colbench_gym.progress import PROGRESS, progress_file, tell_progress, tell_stage
from colbench_gym.stage_records import COMPARISON, RUN, StageRecords
from sweetrl_agent.report import main
from sweetrl_agent.reporting.live import live_lines
from sweetrl_agent.reporting.watch import REMAKE_S, Watch, make_server

from .made_up import ATTACK, write_comparison_folder, write_run_folder

NAMES = lambda: ({}, {}, {})
NONE = "There is no run in this folder yet. This page shows it when it begins."
STOPPED = "Stopped: no process of this machine works in the folder. The command that began it resumes it."


def begin(folder, kind=RUN, **seconds):
    """Records of a folder with finished stages."""
    folder.mkdir(parents=True, exist_ok=True)
    records = StageRecords(folder, kind=kind)
    for name, value in seconds.items():
        records.begin(name, (), (), ())
        records.finish(name, seconds=value)
    records.save()


def test_a_run_is_awaited_in_progress_stopped_and_finished(tmp_path):
    folder = tmp_path / "run"
    assert live_lines(folder) == ("none", [NONE])
    begin(folder, sft=41.0, collect=200.0)
    with locked(folder):
        with pytest.raises(KeyError), progress_file(folder):
            tell_stage("grpo", "3 of 5")
            state, lines = live_lines(folder)
            assert state == "running" and lines[::2] == ["In progress.", "Done: sft 41 s, collect 3 min 20 s."]
            assert re.fullmatch(r"Stage grpo \(3 of 5\), \d.\d s\.", lines[1])
            told = {"what": "grpo", "done": 12, "total": 30, "unit": "steps", "since": 0.0, "stage": "grpo", "place": "3 of 5"}
            write_json(folder / PROGRESS, {**told, "step": 12, "metrics": {"lr": 0.1, "return": 0.25, "loss": 1.5, "x": None}})
            _, lines = live_lines(folder)
            assert lines[1].startswith("Stage grpo (3 of 5), 12 of 30 steps (40%), ") and lines[1].endswith(" min.")
            assert lines[2] == "Last metrics, step 12: return 0.25, loss 1.5, lr 0.1."
            raise KeyError("the disk is full")
        assert [line[:10] for line in live_lines(folder)[1]] == ["In progres", "Stage grpo", "Done: sft "]
    state, lines = live_lines(folder)
    assert (
        state == "stopped"
        and lines[0] == STOPPED
        and lines[2] == "Why: 'the disk is full'"
        and lines[1].startswith("Stage grpo")
    )
    begin(folder, report=1.0)
    assert live_lines(folder) == ("finished", ["Finished.", "Done: sft 41 s, collect 3 min 20 s, report 1.0 s."])


def test_progress_is_written_while_a_command_works_and_not_outside(tmp_path, monkeypatch):
    monkeypatch.setattr("colbench_gym.progress.WRITE_EVERY_S", math.inf)
    tell_progress(done=1)
    with progress_file(tmp_path):
        tell_stage("sft")
        tell_progress(done=1)  # too soon after the stage
        assert "done" not in json.loads((tmp_path / PROGRESS).read_text())
    assert not (tmp_path / PROGRESS).exists()


def test_a_comparison_has_lines_for_each_seed(tmp_path):
    begin(tmp_path, COMPARISON)
    begin(tmp_path / "seed_10", sft=2.0)
    begin(tmp_path / "seed_9", sft=1.0)
    write_json(
        tmp_path / "seed_10" / PROGRESS,
        {"stage": "evaluate rft", "since": 0.0, "done": 3, "total": 4, "unit": "episodes", "what": "evaluate test"},
    )
    with locked(tmp_path):
        state, lines = live_lines(tmp_path)
        assert is_locked(tmp_path / "seed_9")
    assert state == "running" and lines[:2] == ["In progress.", "seed 9: Done: sft 1.0 s."]
    assert lines[2].startswith("seed 10: Stage evaluate rft, evaluate test: 3 of 4 episodes (75%), ")
    html = Watch(tmp_path, NAMES).html()
    assert STOPPED in html and "Learning curves" in html


def test_watching_disturbs_no_run_that_begins(tmp_path):
    is_over = threading.Event()

    def look():
        while not is_over.is_set():
            is_locked(tmp_path)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        for _ in range(50):
            with locked(tmp_path):
                assert is_locked(tmp_path)
    finally:
        is_over.set()
        thread.join()
    assert is_locked(tmp_path) is False


def test_a_page_is_made_again_when_files_have_changed_and_nothing_is_written(tmp_path):
    folder, now = write_run_folder(tmp_path / "run"), [0.0]
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    watch = Watch(folder, NAMES, lambda: now[0])
    assert watch.status()["version"] == ""
    first = watch.html()
    version = watch.status()["version"]
    assert f'"version":"{version}"' in first and "connect-src 'self'" in first and ATTACK not in first
    now[0] += 10 * REMAKE_S
    assert watch.html() is first and watch.status()["version"] == version
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
    append_rows(folder / "evaluation.jsonl", [{"agent": "initial"}])
    assert watch.status()["version"] == ""
    now[0] += REMAKE_S / 2
    second = watch.html()
    assert second is not first and "1 of " in second
    append_rows(folder / "evaluation.jsonl", [{"agent": "initial"}])
    assert watch.html() is second and watch.status()["version"]  # too soon
    with locked(folder):
        assert watch.status()["version"] == "" and "In progress." in watch.html()  # another state


def test_a_file_that_is_half_written_is_said_and_tried_again(tmp_path):
    folder = write_run_folder(tmp_path / "run")
    begin(folder, sft=1.0)
    whole = (folder / "stages.json").read_text()
    watch = Watch(folder, NAMES)
    (folder / "stages.json").write_text(whole[:20])
    assert (
        "stages.json cannot be read now: " in watch.html() and "the next refresh tries again. ColBenchError: " in watch.html()
    )
    assert watch.status()["version"] == ""
    (folder / "stages.json").write_text(whole)
    assert "cannot be made now" not in watch.html() and watch.status()["version"]


def test_a_finished_comparison_has_its_report(tmp_path):
    folder = write_comparison_folder(tmp_path / "compare")
    begin(folder, COMPARISON, results=1.0)
    before = sorted(folder.rglob("*"))
    html = Watch(folder, NAMES).html()
    assert "Finished." in html and 'id="paired"' in html and sorted(folder.rglob("*")) == before


@contextmanager
def serving(folder):
    server = make_server(folder, 0, NAMES)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def ask(port, path="/", method="GET", host=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request(method, path, headers={} if host is None else {"Host": host})
    response = connection.getresponse()
    body = response.read().decode()
    connection.close()
    return response.status, body, response


def test_only_known_paths_are_answered_and_only_to_this_machine(tmp_path):
    with serving(tmp_path / "run") as port:
        status, body, response = ask(port)
        assert status == 200 and NONE in body and response.headers["Cache-Control"] == "no-store"
        status, body, _ = ask(port, "/status.json")
        assert status == 200 and json.loads(body)["lines"] == [NONE]
        for host in ("localhost:9", "127.0.0.1", "[::1]:80"):  # other ports are those of tunnels
            assert ask(port, "/status.json", host=host)[0] == 200
        for host in ("evil.example", f"evil.example:{port}", "127.0.0.1.evil.example", "", "[", "127.0.0.1@evil.example"):
            assert ask(port, host=host)[0] == 403
        for path in ("/report.html", "/../run/config.yaml", "/status.json?x", "/stages.json"):
            assert ask(port, path)[0] == 404
        for method in ("POST", "PUT", "DELETE", "HEAD", "OPTIONS"):
            assert ask(port, method=method)[0] == 404
    assert not (tmp_path / "run").exists()


def test_what_cannot_be_watched_is_refused(tmp_path, capsys):
    write_run_folder(tmp_path / "runs" / "one")
    with serving(tmp_path / "x") as port:
        for words, expected in (
            ([tmp_path / "runs", "--watch"], "`--watch` takes one run or comparison, and "),
            ([tmp_path / "x", "--watch", "--port", port], f"`--port` must be a free port, got {port}: "),
            ([tmp_path / "x", "--watch", "--port", "70000"], "must be from 0 to 65535"),
            ([tmp_path / "x", "--port", "1"], "`--port` is for --watch"),
            ([tmp_path / "x", "--watch", "--chart", "scores"], "`--port` is for --watch, and --chart is not"),
        ):
            with pytest.raises(SystemExit) as ended:
                main([str(word) for word in words])
            assert ended.value.code == 2 and expected in capsys.readouterr().err


def test_the_command_names_its_address_and_ends_quietly(tmp_path):
    command = [sys.executable, "-m", "sweetrl_agent.report", str(tmp_path / "run"), "--watch"]
    # A shell starts a job in the background with SIGINT ignored, and a process inherits that: the tests may be such a job.
    heeds = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=heeds) as process:
        try:
            address = process.stdout.readline().split()[1]
            assert NONE in ask(int(address.split(":")[2].strip("/")))[1]
            os.kill(process.pid, signal.SIGINT)
            out, err = process.communicate(timeout=120)
        finally:
            process.kill()
    assert (process.returncode, out, err) == (0, "", "")
