"""Seeds derived from addresses.

The seed of an episode, a turn or a candidate is a hash of its address (run seed, stage, task, index). Results therefore do
not depend on the order, on the batch size, or on where an interrupted run resumed.
"""

from __future__ import annotations

import hashlib


def derive_seed(*address: int | str) -> int:
    """A seed in [0, 2**63) from an address, equal on every machine."""
    digest = hashlib.sha256("/".join(map(str, address)).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
