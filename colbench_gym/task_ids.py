"""Ids of tasks that an agent, or a reader of its data, may see."""

from __future__ import annotations

import hashlib


def public_id(task_id: str) -> str:
    """A task's id as an agent may read it: that of an embedded task spells its family's topics and the choices on them, and becomes a digest."""
    source, _, rest = task_id.partition("/")
    if source != "embedded":
        return task_id
    return f"{source}/{rest.partition('/')[0]}/{hashlib.sha256(task_id.encode()).hexdigest()[:16]}"
