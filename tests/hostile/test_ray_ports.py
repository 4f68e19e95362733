"""A Ray cluster of this machine: out of the network's reach, and no token in a file. In processes of their own, for Ray reads its environment once."""

from __future__ import annotations

import importlib.util
import ipaddress
import json
import os
import subprocess
import sys

import pytest

if importlib.util.find_spec("ray") is None:
    pytest.skip("Ray is missing: `pip install .[ray]`.", allow_module_level=True)

from sweetrl_agent.rollouts.workers import prepare_local_ray

BEFORE = "import ray"
PROGRAM = """
import contextlib, json, os, psutil
{before}
from sweetrl_agent.config.run import RunArguments
from sweetrl_agent.rollouts.workers import ordered_map

@contextlib.contextmanager
def make_worker():
    yield lambda number: (number**2, os.environ.get("RAY_AUTH_TOKEN", ""))

if __name__ == "__main__":
    found = list(ordered_map(make_worker, [2, 3], RunArguments(ray_workers=1)))
    processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
    ports = [(p.name(), c.laddr.ip) for p in processes for c in p.net_connections("inet") if c.status == psutil.CONN_LISTEN]
    print(json.dumps([found, ports]))
"""


def _run(tmp_path, before=""):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    (tmp_path / "program.py").write_text(PROGRAM.format(before=before))
    return subprocess.run(
        [sys.executable, tmp_path / "program.py"], capture_output=True, text=True, check=False,
        env={**clean, "HOME": str(tmp_path), "PYTHONPATH": os.getcwd(), "RAY_worker_niceness": "0"},
    )  # fmt: skip


def _ip(text):
    address = ipaddress.ip_address(text)
    return getattr(address, "ipv4_mapped", None) or address


def test_all_ports_are_bound_to_loopback_and_the_token_is_in_no_file(tmp_path):
    done = _run(tmp_path)
    assert done.returncode == 0, done.stderr
    squares, ports = json.loads(done.stdout)
    assert [square for square, _ in squares] == [4, 9]
    names = {name for name, _ in ports}
    assert {"gcs_server", "raylet"} <= names, "the ports of Ray's processes are seen"
    assert [port for port in ports if not _ip(port[1]).is_loopback] == []
    (token,) = {token for _, token in squares}
    assert len(token) == 64
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [tmp_path / "program.py"], "nothing in the home folder"


def test_a_token_of_the_user_stays(monkeypatch):
    monkeypatch.delitem(sys.modules, "ray", raising=False)
    monkeypatch.setattr(os, "environ", {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "b" * 64})
    prepare_local_ray()
    assert os.environ["RAY_AUTH_TOKEN"] == "b" * 64


def test_a_ray_that_was_imported_before_is_ended_where_it_would_listen_on_the_network(tmp_path):
    done = _run(tmp_path, BEFORE)
    if done.returncode == 0:  # a machine without a network: its only address is that of loopback
        assert all(_ip(ip).is_loopback for _, ip in json.loads(done.stdout)[1])
    else:
        assert "ColBenchError: Ray was imported before and listens at" in done.stderr
