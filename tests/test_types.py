"""The types of the code hold: mypy, which takes a core for a minute while other tests have the other one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_mypy_accepts_the_code():
    done = subprocess.run(
        [sys.executable, "-m", "mypy"], cwd=Path(__file__).parents[1], capture_output=True, text=True, timeout=1800
    )
    assert done.returncode == 0, done.stdout + done.stderr
