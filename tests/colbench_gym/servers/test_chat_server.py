"""Connections end without a trace, at any point of a request."""

from __future__ import annotations

import asyncio
import gc
import socket
import sys

import pytest

from colbench_gym.servers.chat_server import ChatServer
from colbench_gym.servers.errors import RequestError


@pytest.mark.parametrize("num_tasks", [1, 2])
def test_a_loop_that_ends_before_a_task_has_begun_leaves_no_coroutine(monkeypatch, num_tasks):
    created, unraised = [], []
    create = asyncio.BaseEventLoop.create_task

    def stop_after(loop, *args, **kwargs):
        task = create(loop, *args, **kwargs)
        if loop is server._connections._loop:  # servers of other tests have theirs
            created.append(task)
            if len(created) == num_tasks:
                with server._lock:  # as `close` does: no request is half begun
                    loop.stop()  # the task's first step would be in the next round
        return task

    monkeypatch.setattr(asyncio.BaseEventLoop, "create_task", stop_after)
    monkeypatch.setattr(sys, "unraisablehook", unraised.append)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = ChatServer(f"http://127.0.0.1:{listener.getsockname()[1]}", "", timeout_s=60.0)
        with pytest.raises(RequestError, match="a closed connection"):
            server.call("/models")
        server._connections.close.detach()  # the loop has been stopped
    assert len(created) >= num_tasks
    del created[:]
    gc.collect()
    assert not [one for one in unraised if "never awaited" in str(one.exc_value)]  # garbage of other tests has its own warnings
