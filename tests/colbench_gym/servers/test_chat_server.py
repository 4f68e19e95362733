"""Connections end without a trace, at any point of a request."""

from __future__ import annotations

import gc
import socket
import sys

import pytest

from colbench_gym.servers.chat_server import ChatServer, _Connections
from colbench_gym.servers.errors import RequestError

httpx = pytest.importorskip("httpx", reason="needs the httpx package; run `pip install .[train]`")


@pytest.mark.parametrize("num_tasks", [1, 2])
def test_a_loop_that_ends_before_a_task_has_begun_leaves_no_coroutine(monkeypatch, num_tasks):
    created, unraised = [], []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = ChatServer(f"http://127.0.0.1:{listener.getsockname()[1]}", "", timeout_s=60.0)
        server._connections = _Connections(httpx)
        loop = server._connections._loop
        create = loop.create_task

        def stop_after(*args, **kwargs):
            task = create(*args, **kwargs)
            created.append(task)
            if len(created) == num_tasks:
                with server._lock:  # as `close` does: no request is half begun
                    loop.stop()  # the task's first step would be in the next round
            return task

        monkeypatch.setattr(loop, "create_task", stop_after)  # of this loop alone: the servers of other tests have theirs
        monkeypatch.setattr(sys, "unraisablehook", unraised.append)
        with pytest.raises(RequestError, match="a closed connection"):
            server.call("/models")
        server._connections.close.detach()  # the loop has been stopped
    assert len(created) >= num_tasks
    del created[:]
    gc.collect()
    assert not [one for one in unraised if "never awaited" in str(one.exc_value)]  # garbage of other tests has its own warnings
