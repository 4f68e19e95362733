"""What a watched page shows of a real run while it trains, and that a browser follows it."""

from __future__ import annotations

import threading

import pytest

from colbench_gym.files import append_rows, locked, write_json
from colbench_gym.progress import PROGRESS
from sweetrl_agent import Callback, run_train
from sweetrl_agent.reporting.live import live_lines
from sweetrl_agent.reporting.watch import Watch, make_server

from .made_up import write_run_folder

SETTINGS = {
    "tasks": "embedded:train[:4]", "test_tasks": "embedded:test[:1]", "unseen_tasks": "", "sft_dialogues": 0, "system_prompt": "", "dtype": "float32",
    "max_new_tokens": 4, "max_turns": 2, "threads": 1, "sandbox": "embedded", "algorithm": "grpo", "eval_tasks": 1,
    "grpo": {"iterations": 2, "tasks": 2, "group": 2},
}  # fmt: skip


def _names():
    return {}, {}, {}


class Spectator(Callback):
    """Looks at the run after each iteration."""

    def __init__(self):
        self.seen = []

    def on_iteration(self, run, stage, step, episodes):
        self.seen.append((live_lines(run.folder), Watch(run.folder, _names).html()))


def test_a_run_is_seen_at_work(tiny_model_folder, tmp_path):
    spectator = Spectator()
    run_train([spectator], model=str(tiny_model_folder), output=str(tmp_path / "run"), **SETTINGS)
    (state, lines), html = spectator.seen[-1]
    assert state == "running" and lines[1].startswith("Stage grpo (2 of 4)") and lines[-1].startswith("Done: sft ")
    assert "In progress." in html and lines[-1] in html
    state, lines = live_lines(tmp_path / "run")
    assert state == "finished" and ", report " in lines[1] and not (tmp_path / "run" / PROGRESS).exists()


@pytest.mark.browser
@pytest.mark.usefixtures("needs_browser")
def test_a_browser_follows_the_run(tmp_path):
    sync_api = pytest.importorskip("playwright.sync_api")
    from sandboxes.pages.chromium import find_chromium

    folder, troubles = write_run_folder(tmp_path / "run"), []
    server = make_server(folder, 0, _names)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        with sync_api.sync_playwright() as playwright, locked(folder):
            browser = playwright.chromium.launch(
                executable_path=find_chromium(), args=["--no-sandbox", "--no-proxy-server"], timeout=120_000
            )
            page = browser.new_page()
            page.set_default_timeout(120_000)
            page.on("pageerror", lambda error: troubles.append(str(error)))
            page.on("console", lambda message: troubles.append(message.text))
            page.goto(f"http://127.0.0.1:{server.server_port}/")
            page.evaluate("window.isFirst = true")
            write_json(folder / PROGRESS, {"stage": "<b>sft</b>", "since": 0.0, "done": 1, "total": 2, "unit": "steps"})
            page.locator("#live-lines li", has_text="Stage <b>sft</b>, 1 of 2 steps (50%)").wait_for()
            assert page.evaluate("window.isFirst")  # the page was not loaded again for it
            with page.expect_event("load"):
                append_rows(folder / "evaluation.jsonl", [{"agent": "initial"}])
            page.locator("figure.drawn").first.wait_for()
            assert not troubles and page.locator("b").count() == 0
            browser.close()
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
