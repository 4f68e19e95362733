"""The global random generators of Python, numpy and torch, which our own code does not draw from but libraries do (dropout, for example)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


@contextmanager
def untouched_generators() -> Iterator[None]:
    """Restore the global generators at the end of a block, so that what it draws changes nothing after it."""
    python, numpy = random.getstate(), np.random.get_state()
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_available() else []
    with torch.random.fork_rng(devices):
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)
