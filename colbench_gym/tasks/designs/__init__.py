"""Pages of our own for ColBench-Frontend: a design is a choice in each of a few slots, and is written as one line of HTML per section."""

from colbench_gym.tasks.designs.design import SLOTS, Design

__all__ = ["SLOTS", "Design"]
