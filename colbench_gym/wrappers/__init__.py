"""Wrappers: other views of an episode, its record, and acts for agents that are no language models."""

from colbench_gym.wrappers.acts import Acts, DiscreteActs
from colbench_gym.wrappers.last_message import LastMessage
from colbench_gym.wrappers.question_acts import QuestionActs
from colbench_gym.wrappers.recorder import TrajectoryRecorder

__all__ = ["Acts", "DiscreteActs", "LastMessage", "QuestionActs", "TrajectoryRecorder"]
