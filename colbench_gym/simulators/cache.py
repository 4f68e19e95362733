"""Record and replay of a model's replies, so that a run can be repeated without the model.

The file is JSONL, one reply per line, only ever appended to. The key is the SHA-256 of the whole request in canonical JSON,
so a reply is found again only where model, messages, sampling settings and seed are all the same.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, Literal, get_args

from colbench_gym.errors import SimulatorError

CacheMode = Literal["record", "replay", "off"]
#: A server's reply has no more, see `chat_server.MAX_REPLY_BYTES`; in ASCII JSON a character takes up to twelve bytes.
MAX_REPLY_CHARS = 2**20
MAX_LINE_BYTES = 12 * MAX_REPLY_CHARS + 100
_KEY = re.compile(r"[0-9a-f]{64}")


def request_key(request: Mapping[str, Any]) -> str:
    """SHA-256 of a request in canonical JSON: keys sorted, no spaces, characters beyond ASCII escaped.

    Raises:
        TypeError: If the request holds something JSON cannot.
        ValueError: If it holds NaN or an infinity.
    """
    text = json.dumps(request, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


class ReplyCache:
    """Replies by request, for many threads and processes on one file at once.

    Whoever reads or appends holds a lock on the file (`flock`, also over NFS), reads first what others have added, and appends one whole
    line. The first reply to a request stays, whoever asked. A torn last line, which a crash in the middle of a write leaves, is ignored and cut off before the next
    write. Every line is checked when it is read. Replies come back exactly as they were stored, lone surrogates included.

    Args:
        path: The JSONL file; it and its folder are made at the first write.
        mode: "record": `get` finds what is stored and `put` adds to it. "replay": what is not stored is an error. "off":
            nothing is read or written.

    Raises:
        ValueError: If the mode is unknown.
        SimulatorError: If a whole line is no entry, the file cannot be read, or the file to replay does not exist.
    """

    def __init__(self, path: str | os.PathLike[str], mode: CacheMode = "record") -> None:
        if mode not in get_args(CacheMode):
            raise ValueError(f"`mode` must be 'record', 'replay' or 'off', got {mode!r}.")
        self.path = Path(path)
        self.mode = mode
        self._lock = threading.Lock()
        self._replies: dict[str, str] = {}
        self._num_lines = self._num_bytes = 0  # whole lines that have been read
        if mode == "replay" and not self.path.exists():
            raise SimulatorError(
                f"Expected recorded replies in {str(self.path)!r}, found no such file; run once with cache_mode='record'."
            )
        if mode != "off":
            self._read()

    def __len__(self) -> int:
        return len(self._replies)

    def get(self, request: Mapping[str, Any]) -> str | None:
        """The stored reply to a request; None where there is none and the mode allows a call.

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

    def put(self, request: Mapping[str, Any], reply: str) -> str:
        """Store a reply, if the mode is "record"; one that is stored already stays as it is.

        Returns:
            The reply to use: the one that is stored, so that a replay says the same.

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
                    self._append(key, reply)
                except OSError as error:
                    raise SimulatorError(
                        f"Expected to add a reply to {str(self.path)!r}, got {error}; free the disk or pass another `cache` path."
                    ) from error
            return self._replies[key]

    def _append(self, key: str, reply: str) -> None:
        """Add an entry after the last whole line, unless another has added it; flushed, so that a crash loses one at most."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            self._read_added(file)
            if key in self._replies:
                return
            line = json.dumps({"key": key, "reply": reply}, ensure_ascii=True).encode("ascii") + b"\n"
            file.truncate(self._num_bytes)
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
            self._take(line, key, reply)

    def _read(self) -> None:
        """Read what has been added to the file, if there is one."""
        try:
            with open(self.path, "rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH)
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

    def _take(self, line: bytes, key: str, reply: str) -> None:
        self._num_bytes += len(line)
        self._num_lines += 1
        self._replies.setdefault(key, reply)

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "mode": self.mode}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["path"], state["mode"])  # type: ignore[misc]


def _entry(line: bytes) -> tuple[str, str] | None:
    """Key and reply of a line; None if it is not an entry as `put` writes them."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict) or entry.keys() != {"key", "reply"}:
        return None
    key, reply = entry["key"], entry["reply"]
    if not (isinstance(key, str) and isinstance(reply, str) and _KEY.fullmatch(key) and len(reply) <= MAX_REPLY_CHARS):
        return None
    return key, reply
