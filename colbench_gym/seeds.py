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


def episode_seed(seed: int, stage: str, task_id: str, index: int, *branch: int) -> int:
    """Seed of an episode: of `reset` and, through `turn_seed`, of the policy.

    Args:
        seed: Seed of the run.
        stage: The stage, such as "collect" or "evaluate test". All agents meet the same episodes, so it does not name the agent.
        task_id: Id of the task.
        index: Index of the episode within its task.
        *branch: Turn and number of a branch of that episode; none for the episode itself.
    """
    return derive_seed(seed, stage, task_id, index, *branch)


def turn_seed(seed: int, turn: int) -> int:
    """Seed of the policy in a turn, counted from 1, of the episode with a seed."""
    return derive_seed(seed, "turn", turn)
