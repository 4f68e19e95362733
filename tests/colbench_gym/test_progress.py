"""The lines that show how far a command is."""

from __future__ import annotations

import io

from colbench_gym import progress
from colbench_gym.progress import Progress


def test_the_rest_is_estimated_when_a_quarter_is_done(monkeypatch):
    """Dialogues that are played at once end together: of 50, the first to end would announce hours."""
    now, stream = [100.0], io.StringIO()
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    shown = Progress(60, stream, "evaluate test:", "episodes", done=10)
    for done, seconds in ((11, 100), (23, 130), (24, 135), (24, 136), (60, 150)):
        now[0] = 100.0 + seconds
        shown.show(done)
    assert stream.getvalue().splitlines() == [
        "evaluate test: 11 of 60 episodes, 0.01 episodes/s",
        "evaluate test: 23 of 60 episodes, 0.10 episodes/s, 370 s left",
        "evaluate test: 24 of 60 episodes, 0.10 episodes/s, 347 s left",
        "evaluate test: 60 of 60 episodes, 0.33 episodes/s in 150.0 s",
    ]
