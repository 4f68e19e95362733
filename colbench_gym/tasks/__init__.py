"""Tasks, with public and hidden information, and their sources."""

from colbench_gym.tasks.sources import load_tasks
from colbench_gym.tasks.task import Fact, HiddenTask, PublicTask, Task

__all__ = ["Fact", "HiddenTask", "PublicTask", "Task", "load_tasks"]
