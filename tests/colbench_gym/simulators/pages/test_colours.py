"""What people call colours."""

from __future__ import annotations

import pytest

from colbench_gym.simulators.pages.colours import colour_name


@pytest.mark.parametrize(
    ("colour", "name"),
    [
        ((255, 255, 255), "white"), ((0, 0, 0), "black"), ((128, 128, 128), "grey"), ((243, 244, 246), "light grey"), ((249, 250, 251), "white"), ((229, 231, 235), "light grey"),
        ((31, 41, 55), "dark grey"), ((239, 68, 68), "red"), ((153, 27, 27), "dark red"), ((254, 202, 202), "light red"), ((16, 185, 129), "green"),
        ((6, 95, 70), "dark green"), ((59, 130, 246), "blue"), ((191, 219, 254), "light blue"), ((236, 72, 153), "pink"),
        ((139, 92, 246), "purple"), ((146, 64, 14), "brown"), ((245, 158, 11), "orange"), ((255, 251, 235), "light yellow"),
        ((250, 240, 60), "light yellow"), ((0, 150, 160), "teal"),
    ],
)  # fmt: skip
def test_colours_have_the_names_that_people_give_them(colour, name):
    assert colour_name(colour) == name
