"""Wrappers: other observations of an episode, a recorder, and discrete actions for agents that are not language models."""

from colbench_gym.wrappers.discrete_actions import DialogueActions, DiscreteActions
from colbench_gym.wrappers.last_message import LastMessage
from colbench_gym.wrappers.question_actions import QuestionActions
from colbench_gym.wrappers.recorder import TrajectoryRecorder
from colbench_gym.wrappers.slot_actions import SlotActions

__all__ = ["DialogueActions", "DiscreteActions", "LastMessage", "QuestionActions", "SlotActions", "TrajectoryRecorder"]
