"""Composed families over a list of numbers that give one number.

All numbers of the calls are multiples of a quarter, and all factors are powers of two or whole numbers: results are exact in binary,
so that two right programs never differ in a last digit.
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
            ("First of all, drop the first two numbers of the list: they are headers.", "values = values[2:]"),
        ),
        order=-2,
    ),
    Step(
        wish_topic(
            "unmeasured",
            ("Is there a code for a failed measurement?", "How is a number marked that could not be taken?"),
            "No number stands for anything else.",
            (
                "A 99 in the list means that nothing was measured; leave it out before you do anything with the numbers.",
                "values = [v for v in values if v != 99]",
            ),
            (
                "A -1 in the list means that nothing was measured; leave it out before you do anything with the numbers.",
                "values = [v for v in values if v != -1]",
            ),
            (
                "A 2 in the list means that nothing was measured; leave it out before you do anything with the numbers.",
                "values = [v for v in values if v != 2]",
            ),
            (
                "An 8 in the list means that nothing was measured; leave it out before you do anything with the numbers.",
                "values = [v for v in values if v != 8]",
            ),
        ),
        order=-2,
    ),
    Step(
        wish_topic(
            "unit",
            ("In which unit are the numbers?", "Do I have to convert the unit?"),
            "The unit stays as it is.",
            ("The numbers count dozens: multiply every one by 12 before you use it.", "values = [v * 12 for v in values]"),
            (
                "The numbers count weeks: multiply every one by 7 to have days before you use it.",
                "values = [v * 7 for v in values]",
            ),
            ("The numbers count halves: divide every one by 2 before you use it.", "values = [v / 2 for v in values]"),
            ("The numbers count quarters: divide every one by 4 before you use it.", "values = [v / 4 for v in values]"),
        )
    ),
    Step(
        wish_topic(
            "negative",
            ("What about negative numbers?", "Can a number be below zero, and what then?"),
            "Negative numbers count as they are.",
            ("Leave out all numbers below zero.", "values = [v for v in values if v >= 0]"),
            ("Count a number below zero without its minus, so -3 counts as 3.", "values = [abs(v) for v in values]"),
            ("Double every number below zero, so -3 counts as -6.", "values = [v * 2 if v < 0 else v for v in values]"),
            ("Halve every number below zero, so -3 counts as -1.5.", "values = [v / 2 if v < 0 else v for v in values]"),
        )
    ),
    Step(
        wish_topic(
            "outlier",
            ("What about huge outliers?", "Do I treat unusually large numbers differently?"),
            "Very large numbers are nothing special.",
            ("Leave out all numbers above 90.", "values = [v for v in values if v <= 90]"),
            ("Leave out all numbers above 60.", "values = [v for v in values if v <= 60]"),
            ("A number above 90 counts as exactly 90.", "values = [min(v, 90) for v in values]"),
            ("A number above 60 counts as exactly 60.", "values = [min(v, 60) for v in values]"),
        )
    ),
    Step(
        wish_topic(
            "duplicate",
            ("What about duplicates?", "Does a number count twice if it is there twice?"),
            "Repeated numbers count every time.",
            ("A number that is in the list several times counts only once.", "values = list(dict.fromkeys(values))"),
            (
                "Leave out every number that is in the list more than once, all of its copies.",
                "values = [v for v in values if values.count(v) == 1]",
            ),
            (
                "Use only the numbers that are in the list more than once, with all of their copies.",
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
                "Take a discount of 25 percent off the result if it is above 100.",
                "if result > 100:\n    result = result * 0.75",
            ),
            ("Take a discount of 10, not percent, off the result.", "result = result - 10"),
        )
    ),
    Step(
        wish_topic(
            "tax",
            ("Do I add tax?", "Is tax already included?"),
            "Tax is not our concern.",
            ("Add 25 percent of tax to the result.", "result = result * 1.25"),
            ("Add 50 percent of tax to the result.", "result = result * 1.5"),
            ("Add 12.5 percent of tax to the result.", "result = result * 1.125"),
            ("Add 25 percent of tax to the result if it is above 50.", "if result > 50:\n    result = result * 1.25"),
        )
    ),
    Step(
        wish_topic(
            "fee",
            ("Is there a handling fee?", "Which fees come on top?"),
            "No fee comes on top.",
            ("A fee of 3 comes on top of the result, after any tax or discount.", "result = result + 3"),
            ("A fee of 7 comes on top of the result, after any tax or discount.", "result = result + 7"),
            ("A fee of 12 comes on top of the result, after any tax or discount.", "result = result + 12"),
            (
                "A fee of 5 comes on top of the result, after any tax or discount, where the result is under 50.",
                "if result < 50:\n    result = result + 5",
            ),
        ),
        order=1,
    ),
    Step(
        wish_topic(
            "floor",
            ("Is there a minimum?", "What is the lowest result that is possible?"),
            "There is no minimum.",
            ("If the final result is below 20, give 20.", "result = max(result, 20)"),
            ("If the final result is below 25, give 25.", "result = max(result, 25)"),
            ("If the final result is below 0, give 0.", "result = max(result, 0)"),
            ("If the final result is below 10, give 10.", "result = max(result, 10)"),
        ),
        order=2,
    ),
    Step(
        wish_topic(
            "cap",
            ("Is there an upper limit?", "Should I cap it at a maximum?"),
            "There is no upper limit.",
            ("If the final result is above 30, give 30.", "result = min(result, 30)"),
            ("If the final result is above 40, give 40.", "result = min(result, 40)"),
            ("If the final result is above 100, give 100.", "result = min(result, 100)"),
            ("If the final result is above 50, give 50.", "result = min(result, 50)"),
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
            ("Round the final result down to a whole number.", "result = int(result // 1)"),
            ("Round the final result up to a whole number.", "result = int(-(-result // 1))"),
        ),
        order=2,
    ),
    Step(
        wish_topic(
            "text",
            ("Do you want a text or a plain number back?", "Should the result be written out in some way?"),
            "Give a plain number.",
            ("Give the finished result as a text, as Python's str writes it.", "result = str(result)"),
            (
                "Give the finished result as a text, as Python's str writes it, with a star behind it.",
                'result = str(result) + "*"',
            ),
            (
                "Give the finished result as a text, as Python's str writes it, with a dollar sign in front.",
                'result = "$" + str(result)',
            ),
            (
                "Give the finished result as a text, as Python's str writes it, with a blank and EUR behind it.",
                'result = str(result) + " EUR"',
            ),
        ),
        order=3,
    ),
)
FIGURES = Shape(
    name="figures",
    bases=(
        _base("total", "Write a function that adds up a list of numbers.", "result = sum(values)"),
        _base(
            "average",
            "Write a function that gives the average of a list of numbers, their sum divided by how many there are.",
            "result = sum(values) / len(values)",
        ),
        _base(
            "what_is_left",
            "Write a function that says what is left of 200 when a list of numbers is taken away from it.",
            "result = 200 - sum(values)",
        ),
        _base(
            "price",
            "Write a function that gives the price of a list of quantities, at 1.5 for one unit: 1.5 times their sum.",
            "result = 1.5 * sum(values)",
        ),
    ),
    before=_BEFORE,
    after=_AFTER,
)
