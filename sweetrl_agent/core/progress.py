"""Progress bars of the stages, on standard error; quiet where `--log_level` is above info."""

from __future__ import annotations

import logging
from typing import Any

from tqdm import tqdm


def progress_bar(*iterables: Any, disable: bool = False, **settings: Any) -> Any:
    """A bar of tqdm, which documents the arguments; disabled where the package's logger was set to a level above info."""
    is_quiet = logging.getLogger("sweetrl_agent").level > logging.INFO
    return tqdm(*iterables, disable=disable or is_quiet, **settings)
