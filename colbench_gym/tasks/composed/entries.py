"""Composed families of functions that map a list of (name, amount) tuples to a list of (name, number) rows, one for each entry.

All amounts in the calls are multiples of a quarter, and all factors are powers of two or integers. Results are therefore exact in binary,
and two correct programs never differ in the last digit.
"""

from __future__ import annotations

from colbench_gym.tasks.composed.shape import Base, Shape, Step, wish_topic

_CALLS = (
    '[("ann", 12.5), ("Ann", 4), ("bob", -8), ("", 8.25), ("dan", 20), ("bob", 2), ("ann", 9)]',
    '[("test", 5), ("eve", 30.25), (" ann", 7), ("ann", 14), ("eve", 30.25), ("kim", -10), ("rob", 3)]',
    '[("bob", 1.5), ("rob", 16), ("demo", 40), ("", -8), ("zoe", 6), ("zoe", 6), ("EVE", 11.75)]',
    '[("#1", 9), ("joe", 22), ("bob ", 5.25), ("bob", 18), ("liz", 0.5), ("eve", 13), ("test2", 4)]',
    '[("tom", 50), ("", 2.5), ("ann", -14.5), ("ann", -14.5), ("tony", 10), ("max", 28), ("Ann", 6)]',
    '[("dan", 3), ("ann lee", 24), ("demo", 8), ("ann", 61.5), ("dan", 15), ("ann lee", 1)]',
    '[("eve", -12), ("Eve", 35), ("liz", 19.25), ("test", 26), ("", 5), ("annie", 7.5), ("ann", 44)]',
    '[("kim", 17), ("bob", 2.25), ("kim", 17), ("ann ", 33), ("joe", -20), ("bob", 2.25), ("", 12), ("#2", 6.5)]',
    '[("zoe", 4.75), ("tony", -9), ("tom", 21), ("Max", 38), ("test2", 10), ("rob", 55), ("bob", 0)]',
    '[("ann", 10), ("annie", 15.5), ("joe", 3), ("", 27), (" eve", -16), ("eve", 70.5), ("demo", 2), ("ann", 10)]',
)


def _base(name: str, task: str, number: str, code: str) -> Base:
    """A base function that turns each entry into a row."""
    request = (
        f"Write a function that {task}. It takes a list of entries, (name, amount) tuples, and returns a list of rows, (name, number) tuples: "
        f"for each entry a row with the same name, whose number is {number}, in the same order."
    )
    core = f"rows = [(name, {code}) for name, amount in entries]"
    example = f'{name}([("cleo", 10.5), ("ben", 20), ("cleo", 7.25)])'
    return Base(name, request, f"def {name}(entries)", core, tuple(f"{name}({call})" for call in _CALLS), example)


def _only(condition: str) -> str:
    """Code that keeps the entries that satisfy a condition."""
    return f"entries = [(name, amount) for name, amount in entries if {condition}]"


def _named(name: str) -> str:
    """Code that gives every entry a new name."""
    return f"entries = [({name}, amount) for name, amount in entries]"


def _counted(amount: str) -> str:
    """Code that gives every entry a new amount."""
    return f"entries = [(name, {amount}) for name, amount in entries]"


def _renamed(name: str) -> str:
    """Code that gives every row a new name."""
    return f"rows = [({name}, number) for name, number in rows]"


def _numbered(number: str) -> str:
    """Code that gives every row a new number."""
    return f"rows = [(name, {number}) for name, number in rows]"


_BEFORE = (
    Step(
        wish_topic(
            "window",
            ("Do all entries count, old ones too?", "How far back should I go?"),
            "All entries count, old and new.",
            ("Before anything else, take only the last three entries of the list.", "entries = entries[-3:]"),
            ("Before anything else, take only the last four entries of the list.", "entries = entries[-4:]"),
            ("Before anything else, take only the last five entries of the list.", "entries = entries[-5:]"),
        ),
        order=-1,
    ),
    Step(
        wish_topic(
            "trial",
            ("Are there test entries in the list?", "Could some entries be made up, just for trying things out?"),
            "There are no test entries, all of them are real.",
            ('Leave out every entry whose name is exactly "test", since it is only a trial.', _only('name != "test"')),
            ('Leave out every entry whose name is exactly "demo", since it is only a trial.', _only('name != "demo"')),
            (
                'Leave out every entry whose name begins with "test", since it is only a trial.',
                _only('not name.startswith("test")'),
            ),
        )
    ),
    Step(
        wish_topic(
            "nameless",
            ("What about an entry with an empty name?", "What if nobody's name is given?"),
            "An empty name is a name like any other.",
            ("Leave out every entry whose name is empty.", _only('name != ""')),
            ('Replace an empty name by "other".', _named('name or "other"')),
            ('Replace an empty name by "guest".', _named('name or "guest"')),
        )
    ),
    Step(
        wish_topic(
            "alias",
            ("Does anybody have two names?", "Do different names stand for the same person?"),
            "Different names are different people.",
            (
                'Replace the name "rob" by "bob" wherever it stands: both are the same person.',
                _named('"bob" if name == "rob" else name'),
            ),
            (
                'Replace the name "liz" by "eve" wherever it stands: both are the same person.',
                _named('"eve" if name == "liz" else name'),
            ),
            (
                'Replace the name "tony" by "tom" wherever it stands: both are the same person.',
                _named('"tom" if name == "tony" else name'),
            ),
        )
    ),
    Step(
        wish_topic(
            "blanks",
            ("What about blanks in the names?", "Do spaces around a name matter?"),
            "Blanks are part of the name.",
            ("Strip the blanks off the start and the end of every name.", _named("name.strip()")),
            ('Remove all blanks from every name, inside it too: " ann lee" becomes "annlee".', _named('name.replace(" ", "")')),
            ('Replace every blank in a name by an underscore: "ann lee" becomes "ann_lee".', _named('name.replace(" ", "_")')),
        )
    ),
    Step(
        wish_topic(
            "duplicate",
            ("What about duplicate entries?", "Does an entry count twice if it is there twice?"),
            "Repeated entries count every time.",
            (
                "If several entries have the same name and the same amount, keep only the first of them.",
                "entries = list(dict.fromkeys(entries))",
            ),
            (
                "If a name comes several times in the list, keep only its first entry.",
                "first = {}\nfor name, amount in entries:\n    first.setdefault(name, amount)\nentries = list(first.items())",
            ),
            (
                "If a name comes several times in the list, leave out all of its entries.",
                f"names = [name for name, amount in entries]\n{_only('names.count(name) == 1')}",
            ),
        )
    ),
    Step(
        wish_topic(
            "negative",
            ("What about negative amounts?", "Can an amount be below zero, and what then?"),
            "Negative amounts count as they are.",
            ("Before you use the amounts, leave out every entry whose amount is below zero.", _only("amount >= 0")),
            ("Before you use the amounts, take the minus off those below zero, so -3 becomes 3.", _counted("abs(amount)")),
            ("Before you use the amounts, replace those below zero by 0.", _counted("max(amount, 0)")),
        )
    ),
)
_AFTER = (
    Step(
        wish_topic(
            "case",
            ("Do upper and lower case matter in the names?", "Are Cleo and cleo the same name?"),
            "Upper and lower case stay as they are and make different names.",
            ("Write the name of every row in lower case.", _renamed("name.lower()")),
            ("Write the name of every row in upper case.", _renamed("name.upper()")),
            ("Write the name of every row as Python's capitalize does.", _renamed("name.capitalize()")),
        )
    ),
    Step(
        wish_topic(
            "rounding",
            ("How should the numbers be rounded?", "How many decimals do you want?"),
            "No rounding, give the exact numbers.",
            ("Round the number of every row to a whole number, as Python's round does.", _numbered("round(number)")),
            ("Round the number of every row to one decimal, as Python's round does.", _numbered("round(number, 1)")),
            (
                "Convert the number of every row to a whole number, as Python's int does: 2.75 becomes 2.",
                _numbered("int(number)"),
            ),
        ),
        order=1,
    ),
    Step(
        wish_topic(
            "threshold",
            ("Does every row have to be shown, whatever its number?", "Is there a number from which on a row is shown?"),
            "A row is shown whatever its number is.",
            (
                "Once the rows have their final numbers, leave out every row whose number is under 10.",
                "rows = [row for row in rows if row[1] >= 10]",
            ),
            (
                "Once the rows have their final numbers, leave out every row whose number is under 20.",
                "rows = [row for row in rows if row[1] >= 20]",
            ),
            (
                "Once the rows have their final numbers, leave out every row whose number is above 25.",
                "rows = [row for row in rows if row[1] <= 25]",
            ),
        ),
        order=2,
    ),
    Step(
        wish_topic(
            "order",
            ("In which order do you want the rows?", "Should the result be sorted?"),
            "The rows stay in the order described.",
            (
                "Sort the complete rows by name, as Python sorts texts.",
                "rows = sorted(rows, key=lambda row: row[0])",
            ),
            (
                "Sort the complete rows by number, the smallest first.",
                "rows = sorted(rows, key=lambda row: row[1])",
            ),
            (
                "Sort the complete rows by number, the largest first.",
                "rows = sorted(rows, key=lambda row: -row[1])",
            ),
        ),
        order=4,
    ),
    Step(
        wish_topic(
            "limit",
            ("How many rows do you want at most?", "Is the length of the result limited?"),
            "Give all rows, however many there are.",
            ("Of the rows in their final order, give only the first two.", "rows = rows[:2]"),
            ("Of the rows in their final order, give only the first three.", "rows = rows[:3]"),
            ("Of the rows in their final order, give only the last two.", "rows = rows[-2:]"),
        ),
        order=5,
    ),
    Step(
        wish_topic(
            "total",
            ("Do you want a total row?", "Should there be a summary row as well?"),
            "No total row, only the rows described.",
            (
                'When all other rows are done, add the row ("total", sum of their numbers) behind them.',
                'rows = rows + [("total", sum(number for name, number in rows))]',
            ),
            (
                'When all other rows are done, put the row ("total", sum of their numbers) in front of them.',
                'rows = [("total", sum(number for name, number in rows))] + rows',
            ),
            (
                'When all other rows are done, add the row ("rows", how many of them there are) behind them.',
                'rows = rows + [("rows", len(rows))]',
            ),
        ),
        order=7,
    ),
    Step(
        wish_topic(
            "form",
            ("Do you want a list of tuples back, or something else?", "Which type should the result have?"),
            "Give a list of tuples.",
            (
                "Return the finished rows as a dictionary from name to number; of several rows with the same name, the last one counts.",
                "rows = dict(rows)",
            ),
            (
                "Return the finished rows as (number, name) tuples, the other way round: the number first, then the name.",
                "rows = [(number, name) for name, number in rows]",
            ),
            (
                "Return only the names of the finished rows, as a list without the numbers.",
                "rows = [name for name, number in rows]",
            ),
        ),
        order=8,
    ),
)
ENTRIES = Shape(
    name="entries",
    bases=(
        _base("add_deposit", "adds a deposit of 2 to every amount", "the amount plus 2", "amount + 2"),
        _base("double_amounts", "doubles every amount", "the amount times 2", "amount * 2"),
        _base("halve_amounts", "cuts every amount in half", "the amount divided by 2", "amount / 2"),
        _base("triple_amounts", "triples every amount", "the amount times 3", "amount * 3"),
    ),
    before=_BEFORE,
    after=_AFTER,
    result="rows",
)
