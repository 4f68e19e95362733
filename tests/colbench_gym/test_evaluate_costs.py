"""`--max-cost` of an evaluation: it ends with what was played, resumes with a higher limit, and needs prices."""

from __future__ import annotations

import json

import pytest

from colbench_gym.evaluate import main
from colbench_gym.files import read_rows
from colbench_gym.servers.usage import USAGE
from tests.colbench_gym.simulators.model.chat_servers import counting, url

TASKS = ["--tasks", "embedded:test[:6]", "--sandbox", "embedded", "--max-turns", "3", "--concurrency", "2"]


@pytest.fixture
def server():
    with counting() as server:
        yield server


@pytest.fixture
def prices(tmp_path):
    """A price of 1 for every request."""
    path = tmp_path / "prices.json"
    path.write_text(json.dumps({name: {"input": 100_000, "output": 100_000} for name in ("m", "h")}))
    return str(path)


@pytest.mark.parametrize("is_human", [False, True], ids=["agent", "human"])
def test_it_ends_at_the_limit_and_resumes_with_a_higher_one(is_human, server, prices, tmp_path, capsys):
    human = json.dumps({"name": "openai", "model": "h", "base_url": url(server)})
    policy = ["random", "--simulator", human] if is_human else [f"openai:m@{url(server)}"]
    words, per_episode = [*policy, *TASKS, "--prices", prices], 2 if is_human else 3
    folder = tmp_path / "e"
    limit = 2.5 * per_episode
    assert main([*words, "--output", str(folder), "--max-cost", str(limit)]) == 2
    sent = len(read_rows(folder / USAGE))
    assert limit <= sent == len(server.requests) <= limit + 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith(f"error: The requests to model servers have cost {sent}, and `--max_cost` is {limit:g}")
    ended = len(read_rows(folder / "evaluation.jsonl")) + len(read_rows(folder / "evaluation.unfinished.jsonl"))
    assert 1 <= ended < 6
    assert main([*words, "--output", str(folder), "--max-cost", str(limit)]) == 2  # what was spent before counts
    assert len(server.requests) == sent
    assert main([*words, "--output", str(folder), "--max-cost", "100"]) == 0
    assert len(server.requests) == sent + per_episode * (6 - ended)  # nothing that had ended was played again
    assert f"cost {len(server.requests)} of at most 100 (server_usage.jsonl)" in capsys.readouterr().err
    assert main([*words, "--output", str(tmp_path / "whole")]) == 0
    rows = [read_rows(place / "evaluation.jsonl") for place in (folder, tmp_path / "whole")]
    assert rows[0] == rows[1] and not any(row["outcome"] == "void" for row in rows[0])


def test_it_is_refused_without_the_prices_of_all_models(server, prices, tmp_path, capsys):
    words = [f"openai:other@{url(server)}", *TASKS, "--output", str(tmp_path / "e"), "--max-cost", "1"]
    for more, named in (([], "of 'other'"), (["--prices", prices], "of 'other'")):
        assert main([*words, *more, "--dry-run"]) == 2
        assert capsys.readouterr().err.startswith(f"error: `max_cost` needs the price {named}: give `--prices FILE`")
    assert main(["random", *TASKS, "--prices", prices, "--max-cost", "nan"]) == 2
    assert "`temperature` and `max_cost` numbers from 0 on" in capsys.readouterr().err
    assert not server.requests and not (tmp_path / "e").exists()
