"""Invoices, late fees and accounts; also builders of topics that recur in several trades."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from colbench_gym.tasks.families.family import Family, Option, Topic
from colbench_gym.tasks.families.topics import cap, empty, floor, rounding


def reworded(topic: Topic, *says: str) -> Topic:
    """The same topic with sentences that fit the family, one per option."""
    return replace(topic, options=tuple(replace(option, says=text) for option, text in zip(topic.options, says, strict=True)))


def negatives(variable: str, kinds: Sequence[str] = ("skip", "zero")) -> Topic:
    """Handling of negative numbers; its code belongs inside a loop."""
    wishes = {
        "skip": Option("Skip negative numbers.", {"negative": f"if {variable} < 0:\n    continue"}),
        "zero": Option("Treat negative numbers as zero.", {"negative": f"{variable} = max({variable}, 0)"}),
        "plus": Option("Count negative numbers as positive.", {"negative": f"{variable} = abs({variable})"}),
    }
    return Topic(
        "negative",
        ("What about negative numbers?", "Can a number be below zero, and what then?"),
        (Option("Negative numbers count as they are.", {}), *(wishes[kind] for kind in kinds)),
    )


def letters(variable: str) -> Topic:
    """Capital or small letters."""
    return Topic(
        "letters",
        ("Should names be in capital or small letters?", "Does upper and lower case matter?"),
        (
            Option("Leave the letters as they are.", {}),
            Option("Write names in small letters.", {"letters": f"{variable} = {variable}.lower()"}),
            Option("Write names in capital letters.", {"letters": f"{variable} = {variable}.upper()"}),
        ),
    )


def blanks(variable: str, kinds: Sequence[str] = ("skip", "other")) -> Topic:
    """Handling of blank names; the code of "skip" belongs inside a loop."""
    wishes = {
        "skip": Option("Skip blank names.", {"blank": f"if not {variable}:\n    continue"}),
        "other": Option("Write other for a blank name.", {"blank": f'{variable} = {variable} or "other"'}),
    }
    return Topic(
        "blank",
        ("What if the name is blank?", "How do I treat entries without a name?"),
        (Option("Blank names stay blank.", {}), *(wishes[kind] for kind in kinds)),
    )


def zeros(variable: str) -> Topic:
    """Whether entries of zero are listed; its code belongs inside a loop."""
    return Topic(
        "zero",
        ("Should entries of zero be listed?", "What about entries where the number is zero?"),
        (
            Option("Entries of zero stay in.", {}),
            Option("Leave out entries of zero.", {"zero": f"if {variable} == 0:\n    continue"}),
        ),
    )


def order(variable: str, kinds: Sequence[str] = ("name", "largest")) -> Topic:
    """Order of a list of pairs of name and number; "last" works for any list."""
    wishes = {
        "name": Option("Sort by name, capital letters before small ones.", {"order": f"{variable}.sort()"}),
        "largest": Option(
            "Put the largest number first; equal numbers keep their order.",
            {"order": f"{variable}.sort(key=lambda pair: -pair[1])"},
        ),
        "last": Option("Turn the order around, last one first.", {"order": f"{variable}.reverse()"}),
    }
    return Topic(
        "order",
        ("In which order do you want them?", "Should the result be sorted?"),
        (Option("Keep the order as it is.", {}), *(wishes[kind] for kind in kinds)),
    )


def first(variable: str, counts: Sequence[int]) -> Topic:
    """How many entries of a list are returned; one special wish per count."""
    wishes = (
        Option(f"Give only the first {count}, counted in the final order.", {"first": f"{variable} = {variable}[:{count}]"})
        for count in counts
    )
    return Topic(
        "first",
        ("How many of them do you want at most?", "How many entries should come back?"),
        (Option("Give all of them.", {}), *wishes),
    )


FAMILIES = (
    Family(
        name="invoice_total",
        area="billing",
        request="I need something that adds up what a customer owes us for the lines of an invoice. "
        "Each line has a quantity and the price of one piece.",
        signature="def invoice_total(lines)",
        template="""
def invoice_total(lines):
    total = 0
    for quantity, price in lines:
        {returns}
        total += quantity * price
    {discount}
    {shipping}
    {rounding}
    {cap}
    return total
""",
        topics=(
            Topic(
                "returns",
                ("What about lines with a negative quantity?", "How do I treat returned goods?"),
                (
                    Option("A line with a negative quantity counts against the total at its full price.", {}),
                    Option("Skip every line with a negative quantity.", {"returns": "if quantity < 0:\n    continue"}),
                    Option(
                        "A line with a negative quantity counts against the total at half its price.",
                        {"returns": "if quantity < 0:\n    price = price / 2"},
                    ),
                ),
            ),
            Topic(
                "discount",
                ("Is there a discount on large invoices?", "Do big orders get a discount?"),
                (
                    Option("We give no discount.", {}),
                    Option(
                        "Take ten percent off the total of all lines when it is 100 or more.",
                        {"discount": "if total >= 100:\n    total = total * 0.9"},
                    ),
                    Option(
                        "Take five percent off the total of all lines when it is more than 200.",
                        {"discount": "if total > 200:\n    total = total * 0.95"},
                    ),
                ),
            ),
            Topic(
                "shipping",
                ("Does shipping cost extra?", "Should I add shipping?"),
                (
                    Option("Shipping is free.", {}),
                    Option(
                        "Add 5 for shipping whenever the total is below 50, also when it is zero or negative.",
                        {"shipping": "if total < 50:\n    total += 5"},
                    ),
                ),
            ),
            reworded(
                rounding("total", ("cents", "down")),
                "No rounding, give the exact total.",
                "Round the final total to two decimals.",
                "Round the final total down to a whole number, so that -1.5 becomes -2.",
            ),
            reworded(
                cap("total", (250,)),
                "There is no upper limit.",
                "The final total, with everything included, is never above 250; a higher one becomes 250.",
            ),
        ),
        calls=(
            "invoice_total([])",
            "invoice_total([(1, 20.255)])",
            "invoice_total([(2, 30.111), (-1, 9.5)])",
            "invoice_total([(10, 10)])",
            "invoice_total([(4, 50)])",
            "invoice_total([(3, 70.337)])",
            "invoice_total([(5, 99.99), (-2, 10.01)])",
            "invoice_total([(-3, 4.4)])",
            "invoice_total([(1, 49.999), (1, 0.017)])",
            "invoice_total([(7, 18.123), (-1, 33.3)])",
        ),
    ),
    Family(
        name="late_fee",
        area="billing",
        request="I need the fee for an unpaid invoice, from its amount and the days it is late. "
        "We charge one percent of the amount per day.",
        signature="def late_fee(amount, days)",
        template="""
def late_fee(amount, days):
    {small}
    percent = 1
    {rate}
    {grace}
    fee = amount * days * percent / 100
    {rounding}
    {cap}
    return fee
""",
        topics=(
            Topic(
                "small",
                ("Do small invoices pay a fee as well?", "Is there an amount under which nothing is charged?"),
                (
                    Option("Small amounts pay like all others.", {}),
                    Option("Charge an amount below 50 as if it were 50.", {"small": "amount = max(amount, 50)"}),
                    Option("There is no fee for an amount below 20: return zero.", {"small": "if amount < 20:\n    return 0"}),
                ),
            ),
            Topic(
                "grace",
                ("Are the first days free?", "Is there a grace period?"),
                (
                    Option("Every day counts.", {}),
                    Option(
                        "The first 3 days are free, only the days after them are charged.", {"grace": "days = max(days - 3, 0)"}
                    ),
                    Option(
                        "The first 10 days are free, only the days after them are charged.",
                        {"grace": "days = max(days - 10, 0)"},
                    ),
                ),
            ),
            Topic(
                "rate",
                ("Is the rate higher for very late payers?", "Does the percentage ever change?"),
                (
                    Option("The rate is always the same.", {}),
                    Option(
                        "Every charged day costs two percent when the invoice, counting any free days, is more than 20 days late.",
                        {"rate": "if days > 20:\n    percent = 2"},
                    ),
                ),
            ),
            reworded(
                rounding("fee", ("cents", "up")),
                "No rounding, give the exact fee.",
                "Round the fee to two decimals.",
                "Round the fee up to a whole number.",
            ),
            reworded(cap("fee", (50,)), "There is no upper limit.", "The fee is never above 50; a higher one becomes 50."),
        ),
        calls=(
            "late_fee(32.34, 21)",
            "late_fee(80.81, 37)",
            "late_fee(19.12, 39)",
            "late_fee(230.1, 37)",
            "late_fee(21.1, 36)",
            "late_fee(324.9, 26)",
            "late_fee(73.05, 34)",
            "late_fee(9, 19)",
            "late_fee(345.1, 34)",
            "late_fee(87.3, 14)",
        ),
    ),
    Family(
        name="account_statement",
        area="billing",
        request="Show how a customer's account develops. Each booking is a pair of text and amount; "
        "list for each the text and the new balance.",
        signature="def account_statement(bookings)",
        template="""
def account_statement(bookings):
    {empty}
    balance = {opening}
    rows = []
    for text, amount in bookings:
        balance += amount
        {floor}
        rows.append((text, balance))
    {order}
    {first}
    return rows
""",
        topics=(
            Topic(
                "opening",
                ("What is on the account at the start?", "Which balance does it begin with?"),
                (
                    Option("The balance before the first booking is zero.", {"opening": "0"}),
                    Option("The balance before the first booking is 50.", {"opening": "50"}),
                    Option("The balance before the first booking is 200.", {"opening": "200"}),
                ),
            ),
            reworded(
                empty(("None",), "not bookings"),
                "Nothing special: without bookings the list is empty.",
                "When there are no bookings at all, return None instead of a list.",
            ),
            reworded(
                floor("balance", (0,)),
                "There is no minimum, the balance may fall below zero.",
                "A balance that would fall below zero becomes zero at once, and later bookings go on from zero.",
            ),
            reworded(
                order("rows", ("last",)),
                "Keep the order of the bookings.",
                "Turn the finished list around, so that the last booking comes first.",
            ),
            reworded(
                first("rows", (2, 3)),
                "List all of them.",
                "List only the first 2 rows, as they stand in the final order.",
                "List only the first 3 rows, as they stand in the final order.",
            ),
        ),
        calls=(
            "account_statement([('card', 3), ('pay', -4), ('gift', 3), ('fee', -204)])",
            "account_statement([('fee', -4), ('fee', -221), ('gift', 4), ('food', 51)])",
            "account_statement([('rent', 38), ('fee', -112), ('pay', -3), ('fee', -134)])",
            "account_statement([('card', -1), ('gift', 27), ('card', -34), ('card', -231)])",
            "account_statement([])",
            "account_statement([('fee', -46), ('fee', -164), ('rent', 1)])",
            "account_statement([('fee', 2), ('fee', -243)])",
            "account_statement([('card', -3), ('food', -227), ('gift', 4), ('rent', 2)])",
            "account_statement([('pay', 4)])",
            "account_statement([('pay', 3)])",
        ),
    ),
)
