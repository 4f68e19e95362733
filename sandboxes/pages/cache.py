"""A cache of renderings by the content of their pages, in memory and optionally on disk."""

from __future__ import annotations

import os
import tempfile
import threading
from collections import OrderedDict
from pathlib import Path

from sandboxes.pages.page import Rendering


class RenderingCache:
    """A cache of renderings. Thread-safe; several processes may share its folder.

    Args:
        folder: Folder of pictures and boxes; None to cache in memory only. Renderings depend on the browser and its fonts: use a folder
            on one machine only.
        most: Maximal number of renderings in memory. The least recently used one is dropped.
    """

    def __init__(self, folder: str | Path | None = None, most: int = 2_000) -> None:
        """The folder is created by the first `put`."""
        self.folder, self.most = (Path(folder) if folder else None), most
        self._held: OrderedDict[str, Rendering] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: str) -> Rendering | None:
        """The rendering for a page's key; None if it is not cached."""
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
                return self._held[key]
        rendering = self._read(key)
        if rendering is not None:
            self._hold(key, rendering)
        return rendering

    def put(self, key: str, rendering: Rendering) -> None:
        """Store a rendering."""
        self._hold(key, rendering)
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_whole(self.folder / f"{key}.png", rendering.picture)
            write_whole(
                self.folder / f"{key}.json", rendering.to_json().encode()
            )  # last, so that an existing entry is complete

    def _hold(self, key: str, rendering: Rendering) -> None:
        with self._lock:
            self._held[key] = rendering
            while len(self._held) > self.most:
                self._held.popitem(last=False)

    def _read(self, key: str) -> Rendering | None:
        if self.folder is None:
            return None
        try:
            return Rendering.from_json((self.folder / f"{key}.json").read_text(), (self.folder / f"{key}.png").read_bytes())
        except FileNotFoundError:
            return None

    def __getstate__(self) -> dict[str, object]:
        return {"folder": self.folder, "most": self.most}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__init__(**state)  # type: ignore[misc]


def write_whole(path: Path, content: bytes) -> None:
    """Write a file atomically."""
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as part:
        part.write(content)
    os.replace(part.name, path)
