"""Embedded pages for ColBench-Frontend: a design is one option for each of a few slots, written as one line of HTML per section."""

from colbench_gym.tasks.designs.design import SLOTS, Design

__all__ = ["SLOTS", "Design"]
