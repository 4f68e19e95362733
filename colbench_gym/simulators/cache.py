"""Record and replay of a model's replies, so that a run can be repeated without the model.

The file is JSONL, one reply per line, only ever appended to. The key is the SHA-256 of the whole request in canonical JSON,
so a reply is found again only where model, messages, sampling settings and seed are all the same.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from colbench_gym.errors import SimulatorError

CacheMode = Literal["record", "replay", "off"]


def request_key(request: Mapping[str, Any]) -> str:
    """SHA-256 of a request in canonical JSON: keys sorted, no spaces, characters beyond ASCII escaped.

    Raises:
        TypeError: If the request holds something JSON cannot.
        ValueError: If it holds NaN or an infinity.
    """
    text = json.dumps(request, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


class ReplyCache:
    """Replies by request. One object may be used from many threads; the file belongs to one process at a time.

    A torn last line, which a crash in the middle of a write leaves, is ignored and cut off before the next write. Replies come
    back exactly as they were stored, lone surrogates included.

    Args:
        path: The JSONL file; it and its folder are made at the first write.
        mode: "record": `get` finds what is stored and `put` adds to it. "replay": what is not stored is an error. "off":
            nothing is read or written.

    Raises:
        ValueError: If the mode is unknown.
        SimulatorError: If a line other than the last is damaged, or the file to replay does not exist.
    """

    def __init__(self, path: str | os.PathLike[str], mode: CacheMode = "record") -> None:
        if mode not in get_args(CacheMode):
            raise ValueError(f"`mode` must be 'record', 'replay' or 'off', got {mode!r}.")
        self.path = Path(path)
        self.mode = mode
        self._lock = threading.Lock()
        self._replies: dict[str, str] = {}
        self._good_bytes = 0
        if mode != "off":
            self._load()

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
            reply = self._replies.get(key)
        if reply is None and self.mode == "replay":
            raise SimulatorError(
                f"Expected a recorded reply for request {key} in {str(self.path)!r}, found none; "
                f"run once with cache_mode='record' and the same tasks, seeds and settings."
            )
        return reply

    def put(self, request: Mapping[str, Any], reply: str) -> None:
        """Store a reply; one that is stored already stays as it is. Does nothing unless the mode is "record".

        Raises:
            SimulatorError: If the file cannot be written.
        """
        if self.mode != "record":
            return
        key = request_key(request)
        line = json.dumps({"key": key, "reply": reply}, ensure_ascii=True).encode("ascii") + b"\n"
        with self._lock:
            if key in self._replies:
                return
            try:
                self._append(line)
            except OSError as error:
                raise SimulatorError(
                    f"Expected to add a reply to {str(self.path)!r}, got {error}; free the disk or pass another `cache` path."
                ) from error
            self._replies[key] = reply

    def _append(self, line: bytes) -> None:
        """Write one line after the last whole one, so that a torn line is cut; flushed, so that a crash loses one at most."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "r+b" if self.path.exists() else "w+b") as file:
            file.truncate(self._good_bytes)
            file.seek(self._good_bytes)
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        self._good_bytes += len(line)

    def _load(self) -> None:
        if not self.path.exists():
            if self.mode == "replay":
                raise SimulatorError(
                    f"Expected recorded replies in {str(self.path)!r}, found no such file; run once with cache_mode='record'."
                )
            return
        data = self.path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                entry = json.loads(line)
                self._replies.setdefault(entry["key"], entry["reply"])
            except (ValueError, TypeError, KeyError) as error:
                raise SimulatorError(
                    f"Expected a JSON object with key and reply in line {number} of {str(self.path)!r}, got {line[:80]!r}; "
                    f"remove the line or use another file."
                ) from error
        self._good_bytes = len(whole)

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "mode": self.mode}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["path"], state["mode"])  # type: ignore[misc]
