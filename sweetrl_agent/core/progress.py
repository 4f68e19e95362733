"""Progress bars of the stages, on standard error; quiet where `--log_level` is above info. `report --watch` shows them too."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from tqdm import tqdm

from colbench_gym.progress import tell_progress


class _Bar(tqdm):  # type: ignore[misc]
    """A bar that also counts, and tells, where it is not shown."""

    told: dict[str, Any]

    def update(self, n: float = 1) -> Any:
        """See tqdm."""
        shown = super().update(n)
        self.n += n if self.disable else 0
        tell_progress(**self.told, done=self.n)
        return shown

    def __iter__(self) -> Iterator[Any]:
        for done, item in enumerate(super().__iter__()):
            tell_progress(**self.told, done=done)
            yield item


def progress_bar(*iterables: Any, disable: bool = False, **settings: Any) -> Any:
    """A bar of tqdm, which documents the arguments; disabled where the package's logger was set to a level above info."""
    is_quiet = logging.getLogger("sweetrl_agent").level > logging.INFO
    bar = _Bar(*iterables, disable=disable or is_quiet, **settings)
    bar.told = {"what": settings.get("desc", ""), "total": bar.total, "unit": f"{settings.get('unit', 'it')}s"}
    return bar
