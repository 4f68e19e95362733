"""Electricity and water meters, sensor series, averages and peaks."""

from __future__ import annotations

from colbench_gym.tasks.families.family import Family, Option, Topic
from colbench_gym.tasks.families.topics import empty, floor, rounding
from colbench_gym.tasks.families.travel import in_words, negative

FAMILIES = (
    Family(
        name="usage_bill",
        area="metering",
        request="Add up what a household pays for its meters. Each has an old reading, a new reading and a price "
        "per unit, in this order. "
        "What a meter used is its new reading minus its old one; it costs what it used times its price.",
        signature="def usage_bill(meters)",
        template="""
def usage_bill(meters):
    bill = {start}
    for old, new, price in meters:
        {lower}
        bill += (new - old) * price
        {rent}
    {large}
    {rounding}
    {floor}
    return bill
""",
        topics=(
            Topic(
                "lower",
                ("What if the new reading is lower?", "Can a meter start again from zero?"),
                (
                    Option("A lower new reading just counts against the bill.", {}),
                    Option(
                        "Leave out a meter whose new reading is lower than its old one, and charge nothing at all for it.",
                        {"lower": "if new < old:\n    continue"},
                    ),
                    Option(
                        "When the new reading of a meter is lower than its old one, use zero as its old reading.",
                        {"lower": "if new < old:\n    old = 0"},
                    ),
                ),
            ),
            Topic(
                "rent",
                ("Is there a fixed charge?", "Does having a meter cost extra?"),
                (
                    Option("There is no fixed charge.", {"start": "0"}),
                    Option(
                        "Right after the cost of each meter, add a fixed 2 to the bill for that meter.",
                        {"start": "0", "rent": "bill += 2"},
                    ),
                    Option("Start the bill of the household at a fixed 10 instead of zero.", {"start": "10"}),
                ),
            ),
            Topic(
                "large",
                ("Do large bills change?", "Is heavy use cheaper or dearer?"),
                (
                    Option("Large bills stay the same.", {}),
                    Option(
                        "When the bill, with all meters and before any rounding, is 100 or more, multiply it by 1.25.",
                        {"large": "if bill >= 100:\n    bill = bill * 1.25"},
                    ),
                    Option(
                        "When the bill, with all meters and before any rounding, is more than 200, multiply it by 0.75.",
                        {"large": "if bill > 200:\n    bill = bill * 0.75"},
                    ),
                ),
            ),
            rounding("bill", ("cents", "down")),
            in_words(floor("bill", (20,)), "The finished bill is never less than 20: if it comes out lower, it is 20."),
        ),
        calls=(
            "usage_bill([])",
            "usage_bill([(100, 140, 0.328125)])",
            "usage_bill([(20, 75, 0.609375)])",
            "usage_bill([(0, 100, 1)])",
            "usage_bill([(10, 260, 0.796875), (5, 9, 3.125)])",
            "usage_bill([(980, 30, 1.421875), (0, 1500, 1.015625)])",
            "usage_bill([(50, 45, 2.125), (60, 90, 1.375)])",
            "usage_bill([(300, 900, 0.515625)])",
            "usage_bill([(7, 19, 4.546875), (8, 3, 0.25), (0, 11, 0.875)])",
            "usage_bill([(0, 200, 1)])",
        ),
    ),
    Family(
        name="sensor_average",
        area="metering",
        request="I have a series of values from a temperature sensor, oldest first. I want to know their average.",
        signature="def sensor_average(values)",
        template="""
def sensor_average(values):
    total = 0
    count = 0
    {window}
    for value in values:
        {negative}
        {spikes}
        total += value
        count += 1
    average = total / count
    {offset}
    {rounding}
    return average
""",
        topics=(
            negative("values", "value", ("skip", "zero")),
            Topic(
                "spikes",
                ("What about values that are far too high?", "How do I treat spikes?"),
                (
                    Option("High values count as they are.", {}),
                    Option(
                        "Leave out values above 100 altogether, so that they do not count at all; exactly 100 still counts.",
                        {"spikes": "if value > 100:\n    continue"},
                    ),
                    Option("Count every value above 50 as exactly 50.", {"spikes": "value = min(value, 50)"}),
                ),
            ),
            Topic(
                "window",
                ("Do all values count, or only the latest?", "How far back should I go?"),
                (
                    Option("Use all values.", {}),
                    Option(
                        "First take only the last 5 values of the list, before anything else is left out or changed.",
                        {"window": "values = values[-5:]"},
                    ),
                ),
            ),
            Topic(
                "offset",
                ("Does the sensor need a correction?", "Is the sensor off?"),
                (
                    Option("The sensor needs no correction.", {}),
                    Option(
                        "The sensor shows 2 too little, so add 2 to the finished average, before any rounding.",
                        {"offset": "average += 2"},
                    ),
                ),
            ),
            rounding("average", ("tenths", "whole")),
        ),
        calls=(
            "sensor_average([12.4375])",
            "sensor_average([20.5, 22.25, 19.78125, 21.125])",
            "sensor_average([-3.5, 4.25, 8.125])",
            "sensor_average([30, 120, 41, 22])",
            "sensor_average([60.25, 71.5, 18.3125])",
            "sensor_average([5.5, 6.5, 9.25, 14.75, 11.5, 8.25, 7.125])",
            "sensor_average([100, 35, -12, 101, 17, 48])",
            "sensor_average([-8, -6, 2.5, 3.75, -1.125, 10, 27.25])",
            "sensor_average([55, 45, 65, 200, 33.75, 40, 26])",
            "sensor_average([17.875, 18.375, 18.0625, 17.375])",
        ),
    ),
    Family(
        name="peak_load",
        area="metering",
        request="From a list of pairs, each with first the hour and then the load in kilowatts, find the pair "
        "with the highest load and return that one pair.",
        signature="def peak_load(readings)",
        template="""
def peak_load(readings):
    {empty}
    best = None
    for hour, load in readings:
        {hours}
        {negative}
        if best is None or load {tie} best[1]:
            best = (hour, load)
    {answer}
    return best
""",
        topics=(
            empty(("-1", "[]"), "not readings"),
            Topic(
                "hours",
                ("Should some hours be left out?", "Do all hours of the day count?"),
                (
                    Option("All hours count.", {}),
                    Option(
                        "Leave out all pairs whose hour is less than 5; hour 5 itself counts.",
                        {"hours": "if hour < 5:\n    continue"},
                    ),
                    Option("Leave out all pairs whose hour is 20 or more.", {"hours": "if hour >= 20:\n    continue"}),
                ),
            ),
            negative("loads", "load", ("abs",)),
            Topic(
                "tie",
                ("What if two loads are equally high?", "Which one wins a tie?"),
                (
                    Option("With equally high loads, take the pair that comes first in the list.", {"tie": ">"}),
                    Option("With equally high loads, take the pair that comes last in the list.", {"tie": ">="}),
                ),
            ),
            Topic(
                "answer",
                ("What exactly should come back?", "In which form do you want the answer?"),
                (
                    Option("Give the pair of hour and load as it is.", {}),
                    Option(
                        "Give only the hour of the pair with the highest load, as a plain number.",
                        {"answer": "if best:\n    best = best[0]"},
                    ),
                    Option(
                        "Give the pair turned round, with the load first and the hour second.",
                        {"answer": "if best:\n    best = best[::-1]"},
                    ),
                ),
            ),
        ),
        calls=(
            "peak_load([])",
            "peak_load([(8, 3.5), (12, 5.25), (18, 4)])",
            "peak_load([(2, 9), (7, 6), (21, 8)])",
            "peak_load([(6, 4), (19, 7), (20, 9), (22, 9)])",
            "peak_load([(9, 5), (10, 5), (11, 2)])",
            "peak_load([(5, -7), (13, 3), (17, 6)])",
            "peak_load([(4, 8), (5, 8), (16, 1)])",
            "peak_load([(14, 2.5), (15, -2.5), (1, 2)])",
            "peak_load([(23, 11), (6, 10), (0, 12)])",
            "peak_load([(11, 1), (3, -20), (12, -15), (21, 4)])",
        ),
    ),
    Family(
        name="usage_steps",
        area="metering",
        request="A water meter keeps counting up. From the list of its readings, oldest first, list the steps: "
        "how much was used between "
        "each reading and the next.",
        signature="def usage_steps(readings)",
        template="""
def usage_steps(readings):
    steps = []
    for before, after in zip(readings, readings[1:]):
        step = after - before
        {reset}
        {still}
        {leak}
        steps.append(step)
    {opening}
    {order}
    return steps
""",
        topics=(
            Topic(
                "reset",
                ("What if a reading is lower than before?", "Can the meter jump back?"),
                (
                    Option("A lower reading gives a negative step.", {}),
                    Option(
                        "When a reading is lower than the one before it, the step is zero.",
                        {"reset": "if step < 0:\n    step = 0"},
                    ),
                    Option(
                        "When a reading is lower than the one before it, the step is that lower reading itself.",
                        {"reset": "if step < 0:\n    step = after"},
                    ),
                ),
            ),
            Topic(
                "still",
                ("Should steps without use stay in?", "What if nothing was used?"),
                (
                    Option("Steps of zero stay in.", {}),
                    Option(
                        "Leave out every step that comes to zero, whatever the reason.",
                        {"still": "if step == 0:\n    continue"},
                    ),
                ),
            ),
            Topic(
                "leak",
                ("What about very large steps?", "Is there a limit per step?"),
                (
                    Option("Large steps count in full.", {}),
                    Option("Count a step of more than 100 as 100.", {"leak": "step = min(step, 100)"}),
                    Option("Count a step of more than 50 as 50.", {"leak": "step = min(step, 50)"}),
                ),
            ),
            Topic(
                "opening",
                ("What about the first reading?", "Is the first reading in the list?"),
                (
                    Option("The first reading is not in the list.", {}),
                    Option(
                        "Put the first reading, unchanged, in front of the steps, before the order of the "
                        "list is changed in any way.",
                        {"opening": "steps = readings[:1] + steps"},
                    ),
                ),
            ),
            Topic(
                "order",
                ("In which order do you want the list?", "Should the list be sorted?"),
                (
                    Option("Keep the steps in the order of the readings.", {}),
                    Option("Turn the finished list round, so that its last number comes first.", {"order": "steps.reverse()"}),
                    Option(
                        "Sort the finished list by size, with the largest number first.", {"order": "steps.sort(reverse=True)"}
                    ),
                ),
            ),
        ),
        calls=(
            "usage_steps([10, 25, 32])",
            "usage_steps([5, 5, 9, 20])",
            "usage_steps([100, 40, 55])",
            "usage_steps([0, 120, 180, 195])",
            "usage_steps([30, 31, 31, 35, 34])",
            "usage_steps([7, 77, 80, 85])",
            "usage_steps([250, 0, 60, 60])",
            "usage_steps([12, 15, 400, 3, 8])",
            "usage_steps([1, 2, 4, 8, 16])",
            "usage_steps([500, 520])",
        ),
    ),
)
