"""Record and replay of a model's replies, so that a run can be repeated without the model.

The file is append-only JSONL, one reply per line. The key is the SHA-256 of the whole request in canonical JSON, so a reply is
found only if model, messages, sampling settings and seed are all the same.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, Literal, get_args

from colbench_gym.errors import SimulatorError
from colbench_gym.locks import lock

#: Prompt and generated tokens of a reply.
Usage = tuple[int, int]
CacheMode = Literal["record", "replay", "off"]
#: Upper limit of a server's reply, see `chat_server.MAX_REPLY_BYTES`. In ASCII JSON a character takes up to twelve bytes.
MAX_REPLY_CHARS = 2**20
MAX_LINE_BYTES = 12 * MAX_REPLY_CHARS + 100
_KEY = re.compile(r"[0-9a-f]{64}")


def request_key(request: Mapping[str, Any]) -> str:
    """SHA-256 of a request in canonical JSON: keys sorted, no spaces, characters beyond ASCII escaped.

    Raises:
        TypeError: If the request holds a value that JSON cannot represent.
        ValueError: If it holds NaN or an infinity.
    """
    text = json.dumps(request, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


class ReplyCache:
    """Replies by request. Many threads and processes may share one file.

    Reads and writes hold a lock on the file (`colbench_gym.locks`, also over NFS). A write first reads the lines that others have added, then appends
    one whole line. The first reply to a request is kept. An incomplete last line, left by a crash during a write, is ignored and removed
    before the next write. Every line is checked when it is read. Replies are returned exactly as they were stored, including lone
    surrogates.

    Args:
        path: The JSONL file. It and its folder are created at the first write.
        mode: "record": `get` returns stored replies and `put` adds replies. "replay": a missing reply is an error. "off": nothing is
            read or written.

    Raises:
        ValueError: If the mode is unknown.
        SimulatorError: If a complete line is not an entry, the file cannot be read, or the file to replay does not exist.
    """

    def __init__(self, path: str | os.PathLike[str], mode: CacheMode = "record") -> None:
        if mode not in get_args(CacheMode):
            raise ValueError(f"`mode` must be 'record', 'replay' or 'off', got {mode!r}.")
        self.path = Path(path)
        self.mode = mode
        self._lock = threading.Lock()
        self._replies: dict[str, str] = {}
        self._usage: dict[str, Usage] = {}
        self._num_lines = self._num_bytes = 0  # complete lines read so far
        if mode == "replay" and not self.path.exists():
            raise SimulatorError(
                f"Expected recorded replies in {str(self.path)!r}, found no such file; run once with cache_mode='record'."
            )
        if mode != "off":
            self._read()

    def __len__(self) -> int:
        return len(self._replies)

    def get(self, request: Mapping[str, Any]) -> str | None:
        """The stored reply to a request; None if there is none and the mode allows a request to the server.

        Raises:
            SimulatorError: If the mode is "replay" and the request is not stored.
        """
        if self.mode == "off":
            return None
        key = request_key(request)
        with self._lock:
            if key not in self._replies and self.mode == "record":
                self._read()
            reply = self._replies.get(key)
        if reply is None and self.mode == "replay":
            raise SimulatorError(
                f"Expected a recorded reply for request {key} in {str(self.path)!r}, found none; "
                f"run once with cache_mode='record' and the same tasks, seeds and settings."
            )
        return reply

    def usage(self, request: Mapping[str, Any]) -> Usage | None:
        """Prompt and generated tokens that a stored reply took; None if they were not recorded."""
        return self._usage.get(request_key(request))

    def put(self, request: Mapping[str, Any], reply: str, usage: Usage | None = None) -> str:
        """Store a reply if the mode is "record", with its prompt and generated tokens if they are known. An existing one is not overwritten.

        Returns:
            The stored reply. The caller must use it, so that a replay gives the same reply.

        Raises:
            ValueError: If the reply has more than `MAX_REPLY_CHARS`.
            SimulatorError: If the file cannot be written.
        """
        if self.mode != "record":
            return reply
        if len(reply) > MAX_REPLY_CHARS:
            raise ValueError(f"`reply` must have at most {MAX_REPLY_CHARS} characters, got {len(reply)}.")
        key = request_key(request)
        with self._lock:
            if key not in self._replies:
                try:
                    self._append(key, reply, usage)
                except OSError as error:
                    raise SimulatorError(
                        f"Expected to add a reply to {str(self.path)!r}, got {error}; free the disk or pass another `cache` path."
                    ) from error
            return self._replies[key]

    def _append(self, key: str, reply: str, usage: Usage | None) -> None:
        """Add an entry after the last complete line, unless another process has added it. It is flushed: a crash loses at most one."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "a+b") as file:
            lock(file)
            self._read_added(file)
            if key in self._replies:
                return
            entry = {"key": key, "reply": reply, **({"usage": usage} if usage else {})}
            line = json.dumps(entry, ensure_ascii=True).encode("ascii") + b"\n"
            file.truncate(self._num_bytes)
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
            self._take(line, key, reply, usage)

    def _read(self) -> None:
        """Read the lines that were added to the file, if the file exists."""
        try:
            with open(self.path, "rb") as file:
                lock(file, is_shared=True)
                self._read_added(file)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise SimulatorError(
                f"Expected to read replies from {str(self.path)!r}, got {error}; pass another `cache` path."
            ) from error

    def _read_added(self, file: BinaryIO) -> None:
        size = os.fstat(file.fileno()).st_size
        if size < self._num_bytes:
            raise SimulatorError(
                f"Expected {str(self.path)!r} to have grown only, got {size} bytes where there were {self._num_bytes}; "
                f"start again, with one file for each run that deletes it."
            )
        file.seek(self._num_bytes)
        while line := file.readline(MAX_LINE_BYTES + 1):
            is_too_long = len(line) > MAX_LINE_BYTES
            if not (line.endswith(b"\n") or is_too_long):
                return
            entry = None if is_too_long else _entry(line)
            if entry is None:
                raise SimulatorError(
                    f"Expected a JSON object with key and reply in line {self._num_lines + 1} of {str(self.path)!r}, "
                    f"got {line[:80]!r}; remove the line or use another file."
                )
            self._take(line, *entry)

    def _take(self, line: bytes, key: str, reply: str, usage: Usage | None) -> None:
        self._num_bytes += len(line)
        self._num_lines += 1
        if key not in self._replies:
            self._replies[key] = reply
            if usage:
                self._usage[key] = usage

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "mode": self.mode}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["path"], state["mode"])  # type: ignore[misc]


def _entry(line: bytes) -> tuple[str, str, Usage | None] | None:
    """Key, reply and tokens of a line; None if the line is not an entry in the format of `put`."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict) or entry.keys() - {"usage"} != {"key", "reply"}:
        return None
    key, reply, usage = entry["key"], entry["reply"], entry.get("usage")
    if not (isinstance(key, str) and isinstance(reply, str) and _KEY.fullmatch(key) and len(reply) <= MAX_REPLY_CHARS):
        return None
    if usage is None:
        return key, reply, None
    is_usage = isinstance(usage, list) and len(usage) == 2 and all(type(count) is int and count >= 0 for count in usage)
    return (key, reply, (usage[0], usage[1])) if is_usage else None
