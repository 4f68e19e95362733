"""Wrappers: other views of an episode, and its record."""

from colbench_gym.wrappers.last_message import LastMessage
from colbench_gym.wrappers.recorder import TrajectoryRecorder

__all__ = ["LastMessage", "TrajectoryRecorder"]
