"""Card fees, shared bills and invoice codes."""

from __future__ import annotations

from colbench_gym.tasks.families.billing import blanks, letters, negatives, reworded
from colbench_gym.tasks.families.family import Family, Option, Topic
from colbench_gym.tasks.families.topics import cap, rounding

FAMILIES = (
    Family(
        name="card_fees",
        area="fees",
        request="How much do card payments cost us? The bank takes two percent of each payment; "
        "I want the sum of what it takes for a list of amounts.",
        signature="def card_fees(payments)",
        template="""
def card_fees(payments):
    total = 0
    for amount in payments:
        {negative}
        fee = amount * 0.02
        {large}
        {fixed}
        total += fee
    {rounding}
    {cap}
    return total
""",
        topics=(
            reworded(
                negatives("amount", ("skip", "plus")),
                "Negative amounts count as they are and make the sum smaller.",
                "Skip negative amounts, they cost nothing at all.",
                "Treat a negative amount as if it were positive.",
            ),
            Topic(
                "large",
                ("Is the rate lower for large payments?", "Do big payments cost the same percentage?"),
                (
                    Option("Large payments cost the same two percent.", {}),
                    Option(
                        "For a payment of 200 or more the bank takes only one percent of it.",
                        {"large": "if amount >= 200:\n    fee = amount * 0.01"},
                    ),
                    Option(
                        "For a payment above 500 the bank takes no percentage, only the fixed part if there is one.",
                        {"large": "if amount > 500:\n    fee = 0"},
                    ),
                ),
            ),
            Topic(
                "fixed",
                ("Is there a fixed part per payment?", "Does each payment cost something extra?"),
                (
                    Option("There is no fixed part.", {}),
                    Option("Add 2 for each payment that counts, on top of the percentage.", {"fixed": "fee += 2"}),
                ),
            ),
            reworded(
                rounding("total", ("cents", "up")),
                "No rounding, give the exact sum.",
                "Round only the final sum, to two decimals.",
                "Round only the final sum, up to a whole number, so that -1.5 becomes -1.",
            ),
            reworded(
                cap("total", (10,)), "There is no upper limit.", "The final sum is never above 10; a higher one becomes 10."
            ),
        ),
        calls=(
            "card_fees([-743, 247.9])",
            "card_fees([140, 539, -123.01, -197.03])",
            "card_fees([201.7, -283])",
            "card_fees([490, 59.26, 575, -311])",
            "card_fees([-200, 40.6])",
            "card_fees([191.9, 641])",
            "card_fees([200, 311, 647])",
            "card_fees([-97.6, 200])",
            "card_fees([200, 322])",
            "card_fees([115, 787])",
        ),
    ),
    Family(
        name="split_bill",
        area="fees",
        request="A group wants to share a bill equally. From the total and the list of names, "
        "make a table that tells for each name what to pay.",
        signature="def split_bill(total, names)",
        template="""
def split_bill(total, names):
    {service}
    share = total / len(names)
    {rounding}
    {cap}
    bill = {}
    for name in names:
        {letters}
        bill[name] = {twice}
    return bill
""",
        topics=(
            Topic(
                "service",
                ("Is there a service charge on the bill?", "Should I add a tip?"),
                (
                    Option("Add nothing to the bill.", {}),
                    Option("Add ten percent of the total for service before it is shared.", {"service": "total = total * 1.1"}),
                    Option(
                        "When the total is above 200, add 20 for service before it is shared.",
                        {"service": "if total > 200:\n    total += 20"},
                    ),
                ),
            ),
            reworded(
                rounding("share", ("cents", "up")),
                "No rounding, give exact shares.",
                "Round each single share to two decimals.",
                "Round each single share up to a whole number.",
            ),
            reworded(
                cap("share", (100,)),
                "There is no upper limit.",
                "A single share is never above 100; a higher one becomes 100, before one person's shares are added.",
            ),
            reworded(
                letters("name"),
                "Leave the letters as they are, Ann and ANN are two people.",
                "Write names in small letters; entries that become the same name are one person listed more than once.",
                "Write names in capital letters; entries that become the same name are one person listed more than once.",
            ),
            Topic(
                "twice",
                ("What if someone is on the list twice?", "How do I treat a repeated name?"),
                (
                    Option(
                        "Someone listed more than once pays one share for each entry, added up.",
                        {"twice": "bill.get(name, 0) + share"},
                    ),
                    Option(
                        "Someone listed more than once pays a single share, though the total is still divided by the number of all entries.",
                        {"twice": "share"},
                    ),
                ),
            ),
        ),
        calls=(
            "split_bill(244.1, ['bob', 'Ann', 'Ann'])",
            "split_bill(360.7, ['tom', 'Eve', 'tom'])",
            "split_bill(212.9, ['Ann', 'ANN', 'Ann'])",
            "split_bill(283, ['tom', 'Ann', 'tom'])",
            "split_bill(250.1, ['tom', 'Eve', 'tom'])",
            "split_bill(499, ['Ann', 'Ann'])",
            "split_bill(473, ['Eve', 'Eve'])",
            "split_bill(266, ['tom', 'Ann', 'ANN'])",
            "split_bill(245, ['eve'])",
            "split_bill(90.4, ['bob'])",
        ),
    ),
    Family(
        name="invoice_code",
        area="fees",
        request="We want short codes for invoices: the customer's name, right after it a dash and then the running number.",
        signature="def invoice_code(customer, number)",
        template="""
def invoice_code(customer, number):
    name = customer
    {blank}
    {spaces}
    {length}
    {letters}
    digits = str(number)
    {digits}
    code = name + "-" + digits
    return code
""",
        topics=(
            reworded(
                blanks("name", ("other",)),
                "A blank name stays blank, the code then begins with the dash.",
                "For a blank name take the word other and treat it like any name.",
            ),
            Topic(
                "spaces",
                ("What about spaces in the name?", "May the code have spaces in it?"),
                (
                    Option("Spaces in the name stay.", {}),
                    Option(
                        "Remove all spaces from the name before anything is cut off.",
                        {"spaces": 'name = name.replace(" ", "")'},
                    ),
                ),
            ),
            Topic(
                "length",
                ("How long may the name be?", "Should I shorten long names?"),
                (
                    Option("Use the whole name.", {}),
                    Option("Use only the first 3 characters of the name.", {"length": "name = name[:3]"}),
                    Option("Use only the first 10 characters of the name.", {"length": "name = name[:10]"}),
                ),
            ),
            reworded(
                letters("name"),
                "Leave the letters as they are.",
                "Write the name in small letters.",
                "Write the name in capital letters.",
            ),
            Topic(
                "digits",
                ("How many digits should the number have?", "Does the number need zeros in front?"),
                (
                    Option("The number stays as it is.", {}),
                    Option("Fill the number with zeros in front to 5 digits.", {"digits": "digits = digits.zfill(5)"}),
                    Option(
                        "Use only the last 2 digits of the number; a single digit stays single.",
                        {"digits": "digits = digits[-2:]"},
                    ),
                ),
            ),
        ),
        calls=(
            "invoice_code('The Big Bakery', 877)",
            "invoice_code('Jo Fox', 739)",
            "invoice_code('', 696)",
            "invoice_code('The Big Bakery', 585)",
            "invoice_code('', 890)",
            "invoice_code('Jo Fox', 809)",
            "invoice_code('The Big Bakery', 987)",
            "invoice_code('', 2)",
            "invoice_code('Jo Fox', 2)",
            "invoice_code('', 4)",
        ),
    ),
)
