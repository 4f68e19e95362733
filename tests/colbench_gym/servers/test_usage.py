"""What requests to model servers use is counted over threads, objects and commands, and a limit of costs ends them."""

from __future__ import annotations

import json
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest

from colbench_gym.errors import ColBenchError, CostError
from colbench_gym.evaluation.prices import check_limit
from colbench_gym.files import read_rows
from colbench_gym.servers.chat_server import ChatServer
from colbench_gym.servers.errors import RequestError
from colbench_gym.servers.usage import USAGE, Meter, current, metered, metered_command
from tests.colbench_gym.simulators.model.chat_servers import fails, returns, says, serving, url

#: A request of `paid` costs 0.3: 10 prompt tokens and 20 generated ones.
PRICES = {"paid": (10_000.0, 10_000.0), "free": (0.0, 0.0)}


def uses(read, generated, **message):
    choice = {"message": {"role": "assistant", "content": "Hello.", **message}}
    usage = {"prompt_tokens": read, "completion_tokens": generated}
    return returns(json.dumps({"choices": [choice], "usage": usage}).encode())


@pytest.fixture
def server():
    with serving() as server:
        server.script = [uses(10, 20)]
        yield server


def ask(server, model="paid"):
    chat = ChatServer(url(server), "", 5.0)
    try:
        return chat.complete({"model": model, "messages": []})
    finally:
        chat.close()


def test_requests_end_at_the_limit_and_a_higher_one_counts_those_before(server, tmp_path):
    with metered(Meter(tmp_path / USAGE, PRICES, 1.0)):
        for _ in range(4):
            ask(server)
        with pytest.raises(
            CostError,
            match=r"^The requests to model servers have cost 1.2, and `--max_cost` is 1, .* higher `--max_cost` resumes",
        ):
            ask(server)
        ask(server, "free")
    assert [row["model"] for row in read_rows(tmp_path / USAGE)] == ["paid"] * 4 + ["free"] and len(server.requests) == 5
    with metered(Meter(tmp_path / USAGE, PRICES, 1.5)):
        ask(server)
        with pytest.raises(CostError, match=r"have cost 1\.5, and `--max_cost` is 1\.5"):
            ask(server)
    ask(server)  # nothing is counted outside of a command
    assert len(read_rows(tmp_path / USAGE)) == 6 and current() is None


def test_threads_and_processes_exceed_it_by_the_requests_in_flight_at_most(server, tmp_path):
    first = Meter(tmp_path / USAGE, PRICES, 3.0)
    second = pickle.loads(pickle.dumps(first))  # as another process has it
    for _ in range(2):
        first.count("paid", (10, 20))
        second.count("paid", (10, 20))
    assert first.cost() == second.cost() == pytest.approx(1.2)

    def once(_):
        try:
            ask(server)
        except CostError:
            return False
        return True

    with metered(first), ThreadPoolExecutor(4) as threads:
        sent = sum(threads.map(once, range(30)))
    assert 6 <= sent <= 9 and len(server.requests) == sent
    with pytest.raises(CostError):
        second.check("paid")


def test_replies_of_no_use_are_paid_and_refused_requests_are_not(server, tmp_path):
    server.script = [fails(400), uses(10, 20, content=3), uses(10, 20)]
    with metered(Meter(tmp_path / USAGE, PRICES, 1.0)):
        for _ in range(2):
            with pytest.raises(RequestError):
                ask(server)
        ask(server)
    assert len(read_rows(tmp_path / USAGE)) == 2


def test_a_server_that_reports_no_tokens_ends_the_command_only_where_there_is_a_limit_and_a_price(server, tmp_path):
    server.script = [says("Hello.")]
    with metered(Meter(tmp_path / USAGE, PRICES)):
        ask(server)
    with metered(Meter(tmp_path / USAGE, PRICES, 1.0)):
        ask(server, "free")
        with pytest.raises(CostError, match=r"^The server of 'paid' does not report the tokens of its replies"):
            ask(server)
    assert [row["prompt_tokens"] for row in read_rows(tmp_path / USAGE)] == [None] * 3


def test_a_model_without_a_price_is_not_asked_and_adapters_have_the_highest_of_their_engine(server, tmp_path):
    with (
        metered(Meter(tmp_path / USAGE, PRICES, 1.0)),
        pytest.raises(CostError, match=r"^`prices` has no price of 'run/policy'"),
    ):
        ask(server, "run/policy")
    with metered(Meter(tmp_path / USAGE, PRICES, 0.2, ["free", "paid"])):
        ask(server, "run/policy")
        with pytest.raises(CostError, match=r"have cost 0\.3"):
            ask(server, "run/policy")
    assert len(server.requests) == 1


def test_a_command_says_what_was_used_and_lives_with_a_line_that_a_kill_has_cut(tmp_path, caplog):
    path = tmp_path / USAGE
    meter = Meter(path, PRICES, 2.0)
    with caplog.at_level("INFO"):
        with metered_command(meter):
            assert current() is meter
        assert not caplog.messages and not path.exists()
        meter.count("paid", (10, 20))
        path.write_bytes(path.read_bytes() + b'{"model": "paid", "prom')
        with metered_command(Meter(path, PRICES, 2.0)):
            current().count("paid", (10, 20))
    expected = "model servers: 2 requests, 20 prompt tokens, 40 generated tokens, cost 0.6 of at most 2 (server_usage.jsonl)"
    assert caplog.messages == [expected]
    path.write_text("{}\n")
    with pytest.raises(ColBenchError, match=r"server_usage.jsonl: expected the tokens of a request in each line, got b'\{\}"):
        meter = Meter(path, PRICES)
        meter.cost()


def test_a_limit_needs_the_price_of_every_model():
    check_limit(0.0, {}, ["m"])
    check_limit(1.0, PRICES, ["paid", "", "free"])
    for prices, models, named in (
        (PRICES, ["paid", "m"], "of 'm'"),
        ({}, ["m"], "of 'm'"),
        ({}, [""], "of every model on a server"),
    ):
        with pytest.raises(
            ValueError, match=f"^`max_cost` needs the price {named}: give `--prices FILE`, JSON or YAML such as "
        ):
            check_limit(1.0, prices, models)
