"""Composed families of functions that map a list of numbers to one number.

All numbers in the calls are multiples of a quarter, and all factors are powers of two or integers. Results are therefore exact in binary,
and two correct programs never differ in the last digit.
"""

from __future__ import annotations

from colbench_gym.tasks.composed.shape import Base, Shape, Step, wish_topic

_CALLS = (
    "[12.25, -5, 3.5, 1, 1, 2, 8]",
    "[3, 3, 195.25, -20, 41.5, 8, 99]",
    "[60.75, 61.5, 72.25, 61.5, 120, 99.5]",
    "[0.5, 1.25, 99, 2.75, -1, 0.5, 2]",
    "[91, -88, 18.25, 18.25, 4, 33.5]",
    "[44.5, 99, 72, -7.75, 44.5, 10, 150]",
    "[1, 2, 3, 3, 2.5, -4.75, 6.5]",
    "[70.25, 120.75, 120.75, -30, 93, 66, 2]",
    "[-15.25, 15.75, 7.5, 6.5, 6.5, 11]",
    "[2.25, 2.25, -8.5, 9.5, -1, 2.75, 30.25]",
)


def _base(name: str, request: str, core: str) -> Base:
    return Base(
        name, request, f"def {name}(values)", core, tuple(f"{name}({call})" for call in _CALLS), f"{name}([4.5, 20, 7.25])"
    )


_BEFORE = (
    Step(
        wish_topic(
            "header",
            ("Is there a header entry in the list?", "Do the first and the last entry count like the others?"),
            "Every place in the list counts alike, the first and the last one too.",
            ("First of all, drop the first number of the list: it is a header.", "values = values[1:]"),
            ("First of all, drop the last number of the list: it is a footer.", "values = values[:-1]"),
            ("First of all, drop the first and the last number of the list.", "values = values[1:-1]"),
        ),
        order=-2,
    ),
    Step(
        wish_topic(
            "unmeasured",
            ("Is there a code for a failed measurement?", "How is a number marked that could not be taken?"),
            "No number stands for anything else.",
            (
                "A 99 means that nothing was measured: before you use the numbers, leave out those equal to 99.",
                "values = [v for v in values if v != 99]",
            ),
            (
                "A -1 means that nothing was measured: before you use the numbers, leave out those equal to -1.",
                "values = [v for v in values if v != -1]",
            ),
            (
                "A 2 means that nothing was measured: before you use the numbers, leave out those equal to 2.",
                "values = [v for v in values if v != 2]",
            ),
        ),
        order=-2,
    ),
    Step(
        wish_topic(
            "unit",
            ("In which unit are the numbers?", "Do I have to convert the unit?"),
            "The unit stays as it is.",
            (
                "The numbers count dozens: multiply each of them by 12 before you use them.",
                "values = [v * 12 for v in values]",
            ),
            (
                "The numbers count weeks: multiply each of them by 7 before you use them.",
                "values = [v * 7 for v in values]",
            ),
            (
                "The numbers count halves: divide each of them by 2 before you use them.",
                "values = [v / 2 for v in values]",
            ),
        )
    ),
    Step(
        wish_topic(
            "negative",
            ("What about negative numbers?", "Can a number be below zero, and what then?"),
            "Negative numbers count as they are.",
            ("Leave out every number below zero.", "values = [v for v in values if v >= 0]"),
            ("Use every number below zero without its minus, so -3 becomes 3.", "values = [abs(v) for v in values]"),
            ("Replace every number below zero by 10.", "values = [10 if v < 0 else v for v in values]"),
        )
    ),
    Step(
        wish_topic(
            "outlier",
            ("What about huge outliers?", "Do I treat unusually large numbers differently?"),
            "Very large numbers are nothing special.",
            ("Leave out every number above 90.", "values = [v for v in values if v <= 90]"),
            ("Leave out every number above 60.", "values = [v for v in values if v <= 60]"),
            ("Replace every number above 90 by 90.", "values = [min(v, 90) for v in values]"),
        )
    ),
    Step(
        wish_topic(
            "duplicate",
            ("What about duplicates?", "Does a number count twice if it is there twice?"),
            "Repeated numbers count every time.",
            (
                "Remove duplicates, so that each different number of the list counts only once.",
                "values = list(dict.fromkeys(values))",
            ),
            (
                "Leave out every number that occurs more than once in the list, with all of its copies.",
                "values = [v for v in values if values.count(v) == 1]",
            ),
            (
                "Keep only the numbers that occur more than once in the list, with all of their copies.",
                "values = [v for v in values if values.count(v) > 1]",
            ),
        )
    ),
)
_AFTER = (
    Step(
        wish_topic(
            "discount",
            ("Is there a discount?", "Do I take anything off?"),
            "There is no discount.",
            ("Take a discount of 25 percent off the result.", "result = result * 0.75"),
            ("Take a discount of 50 percent off the result.", "result = result * 0.5"),
            (
                "If the result is above 100, take a discount of 25 percent off it.",
                "if result > 100:\n    result = result * 0.75",
            ),
        )
    ),
    Step(
        wish_topic(
            "tax",
            ("Do I add tax?", "Is tax already included?"),
            "Tax is not our concern.",
            ("Raise the result by 25 percent for tax.", "result = result * 1.25"),
            ("Raise the result by 50 percent for tax.", "result = result * 1.5"),
            ("Raise the result by 12.5 percent for tax.", "result = result * 1.125"),
        )
    ),
    Step(
        wish_topic(
            "fee",
            ("Is there a handling fee?", "Which fees come on top?"),
            "No fee comes on top.",
            ("Add a fee of 3 to the result, after any tax or discount.", "result = result + 3"),
            ("Add a fee of 7 to the result, after any tax or discount.", "result = result + 7"),
            ("Add a fee of 12 to the result, after any tax or discount.", "result = result + 12"),
        ),
        order=1,
    ),
    Step(
        wish_topic(
            "floor",
            ("Is there a minimum?", "What is the lowest result that is possible?"),
            "There is no minimum.",
            ("If the final result is below 20, return 20 instead.", "result = max(result, 20)"),
            ("If the final result is below 25, return 25 instead.", "result = max(result, 25)"),
            ("If the final result is below 0, return 0 instead.", "result = max(result, 0)"),
        ),
        order=2,
    ),
    Step(
        wish_topic(
            "cap",
            ("Is there an upper limit?", "Should I cap it at a maximum?"),
            "There is no upper limit.",
            ("If the final result is above 30, return 30 instead.", "result = min(result, 30)"),
            ("If the final result is above 40, return 40 instead.", "result = min(result, 40)"),
            ("If the final result is above 100, return 100 instead.", "result = min(result, 100)"),
        ),
        order=2,
    ),
    Step(
        wish_topic(
            "rounding",
            ("How should the result be rounded?", "How many decimals do you want?"),
            "No rounding, give the exact number.",
            ("Round the final result to the nearest whole number, as Python's round does.", "result = round(result)"),
            ("Round the final result to one decimal, as Python's round does.", "result = round(result, 1)"),
            ("Round the final result down to a whole number: 2.5 becomes 2 and -2.5 becomes -3.", "result = int(result // 1)"),
        ),
        order=2,
    ),
    Step(
        wish_topic(
            "text",
            ("Do you want a text or a plain number back?", "Should the result be written out in some way?"),
            "Give a plain number.",
            ('Return the finished result as a string, as Python\'s str gives it: 7.5 becomes "7.5".', "result = str(result)"),
            (
                'Return the finished result as a string, as Python\'s str gives it, with a star behind it: 7.5 becomes "7.5*".',
                'result = str(result) + "*"',
            ),
            (
                'Return the finished result as a string, as Python\'s str gives it, with a dollar sign in front: 7.5 becomes "$7.5".',
                'result = "$" + str(result)',
            ),
        ),
        order=3,
    ),
)
FIGURES = Shape(
    name="figures",
    bases=(
        _base("total", "Write a function that adds up a list of numbers: its result is their sum.", "result = sum(values)"),
        _base(
            "average",
            "Write a function that gives the average of a list of numbers: its result is their sum divided by how many there are.",
            "result = sum(values) / len(values)",
        ),
        _base(
            "what_is_left",
            "Write a function that says what is left of 200 when a list of numbers is taken away from it: its result is 200 minus their sum.",
            "result = 200 - sum(values)",
        ),
        _base("largest", "Write a function that gives the largest of a list of numbers.", "result = max(values)"),
    ),
    before=_BEFORE,
    after=_AFTER,
)
