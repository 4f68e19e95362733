"""Seeds derived from addresses; see `colbench_gym.seeds`, so that both packages play the same episodes."""

from __future__ import annotations

from colbench_gym.seeds import derive_seed

__all__ = ["derive_seed"]
