"""Tasks: what the agent may see and what it may not, and where they come from."""

from colbench_gym.tasks.sources import load_tasks
from colbench_gym.tasks.task import Fact, HiddenTask, PublicTask, Task

__all__ = ["Fact", "HiddenTask", "PublicTask", "Task", "load_tasks"]
