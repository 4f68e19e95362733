"""Record and replay of a model's replies, so that a run can be repeated without the model.

The file is an SQLite database, which many threads and processes of one machine may share; over a network file system they need its locks. The key is
the SHA-256 of the whole request in canonical JSON, so a reply is found only if model, messages, sampling settings and seed are all the same.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from colbench_gym.errors import SimulatorError

#: Prompt and generated tokens of a reply.
Usage = tuple[int, int]
CacheMode = Literal["record", "replay"]
#: Seconds to wait for another process that writes.
PATIENCE_S = 60.0


class Recorded(NamedTuple):
    """A recorded reply, and the tokens that it took; None if they are unknown."""

    reply: str
    usage: Usage | None


def request_key(request: Mapping[str, Any]) -> str:
    """SHA-256 of a request in canonical JSON: keys sorted, no spaces, characters beyond ASCII escaped.

    Raises:
        TypeError: If the request holds a value that JSON cannot represent.
        ValueError: If it holds NaN or an infinity.
    """
    text = json.dumps(request, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


class ReplyCache:
    """Replies by request. The first reply to a request is kept. Replies are returned exactly as they were stored, lone surrogates included.

    Args:
        path: The file. It and its folder are created in the mode "record".
        mode: "record": `get` returns stored replies and `put` adds replies. "replay": a missing reply is an error.

    Raises:
        ValueError: If the mode is unknown.
        SimulatorError: If the file is no such database or cannot be opened, or the file to replay does not exist.
    """

    def __init__(self, path: str | os.PathLike[str], mode: CacheMode = "record") -> None:
        if mode not in get_args(CacheMode):
            raise ValueError(f"`mode` must be 'record' or 'replay', got {mode!r}.")
        self.path, self.mode = Path(path), mode
        if mode == "replay" and not self.path.exists():
            raise SimulatorError(
                f"Expected recorded replies in {str(path)!r}, found no such file; run once with cache_mode='record'."
            )
        with self._opened() as database:
            database.execute("CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, entry TEXT NOT NULL)")

    def get(self, request: Mapping[str, Any]) -> Recorded | None:
        """The stored reply to a request; None if there is none and the mode allows a request to the server.

        Raises:
            SimulatorError: If the mode is "replay" and the request is not stored, or the file cannot be read.
        """
        key = request_key(request)
        with self._opened() as database:
            row = database.execute("SELECT entry FROM replies WHERE key = ?", (key,)).fetchone()
        if row is None and self.mode == "replay":
            raise SimulatorError(
                f"Expected a recorded reply for request {key} in {str(self.path)!r}, found none; "
                "run once with cache_mode='record' and the same tasks, seeds and settings."
            )
        return row and _recorded(row)

    def put(self, request: Mapping[str, Any], reply: str, usage: Usage | None = None) -> Recorded:
        """Store a reply with its prompt and generated tokens, if they are known. An existing one is not overwritten.

        Returns:
            The stored reply. The caller must use it, so that a replay gives the same reply.

        Raises:
            SimulatorError: If the file cannot be written.
        """
        key = request_key(request)
        with self._opened() as database:  # JSON in ASCII, because SQLite stores no lone surrogates
            database.execute("INSERT OR IGNORE INTO replies VALUES (?, ?)", (key, json.dumps([reply, usage])))
            return _recorded(database.execute("SELECT entry FROM replies WHERE key = ?", (key,)).fetchone())

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        """The database, in a transaction that ends with the block."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.path, timeout=PATIENCE_S)) as database, database:
                yield database
        except (OSError, sqlite3.Error) as error:
            raise SimulatorError(
                f"The recorded replies in {str(self.path)!r} cannot be used ({error}); pass another `cache` path."
            ) from error


def _recorded(row: tuple[str]) -> Recorded:
    reply, usage = json.loads(row[0])
    return Recorded(reply, usage and (usage[0], usage[1]))
