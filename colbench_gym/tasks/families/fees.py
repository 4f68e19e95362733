"""Card fees, shared bills and invoice codes."""

from __future__ import annotations

from colbench_gym.tasks.families.billing import blanks, letters, negatives
from colbench_gym.tasks.families.family import Family, Option, Topic
from colbench_gym.tasks.families.topics import cap, rounding

FAMILIES = (
    Family(
        name="card_fees",
        area="billing",
        request="How much do card payments cost us? The bank takes two percent of each payment, "
        "I want the sum for a list of amounts.",
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
            negatives("amount", ("skip", "plus")),
            Topic(
                "large",
                ("Is the rate lower for large payments?", "Do big payments cost the same percentage?"),
                (
                    Option("Large payments cost the same rate.", {}),
                    Option("One percent only from 200 upwards.", {"large": "if amount >= 200:\n    fee = amount * 0.01"}),
                    Option("Payments above 500 are free.", {"large": "if amount > 500:\n    fee = 0"}),
                ),
                ("large", "big", "rate", "percent", "percentage"),
            ),
            Topic(
                "fixed",
                ("Is there a fixed part per payment?", "Does each payment cost something extra?"),
                (
                    Option("There is no fixed part.", {}),
                    Option("Add 2 for each payment.", {"fixed": "fee += 2"}),
                ),
                ("fixed", "extra", "each", "base"),
            ),
            rounding("total", ("cents", "up")),
            cap("total", (10,)),
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
        area="billing",
        request="A group wants to share a bill equally; from the total and the list of names, tell me what each one pays.",
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
                    Option("Add ten percent for service.", {"service": "total = total * 1.1"}),
                    Option("Add 20 for service when the total is above 200.", {"service": "if total > 200:\n    total += 20"}),
                ),
                ("service", "tip", "add", "charge"),
            ),
            rounding("share", ("cents", "up")),
            cap("share", (100,)),
            letters("name"),
            Topic(
                "twice",
                ("What if someone is on the list twice?", "How do I treat a repeated name?"),
                (
                    Option("Someone listed twice pays two shares.", {"twice": "bill.get(name, 0) + share"}),
                    Option("Someone listed twice pays one share.", {"twice": "share"}),
                ),
                ("twice", "repeated", "duplicate", "same"),
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
        area="billing",
        request="We want short codes for invoices, made of the customer's name, a dash and the running number.",
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
            blanks("name", ("other",)),
            Topic(
                "spaces",
                ("What about spaces in the name?", "May the code have spaces in it?"),
                (
                    Option("Spaces stay in.", {}),
                    Option("Leave out all spaces.", {"spaces": 'name = name.replace(" ", "")'}),
                ),
                ("spaces", "space", "gaps"),
            ),
            Topic(
                "length",
                ("How long may the name be?", "Should I shorten long names?"),
                (
                    Option("Use the whole name.", {}),
                    Option("Use only the first 3 letters of the name.", {"length": "name = name[:3]"}),
                    Option("Use only the first 10 letters of the name.", {"length": "name = name[:10]"}),
                ),
                ("long", "short", "shorten", "length", "whole"),
            ),
            letters("name"),
            Topic(
                "digits",
                ("How many digits should the number have?", "Does the number need zeros in front?"),
                (
                    Option("The number stays as it is.", {}),
                    Option("Fill the number with zeros to 5 digits.", {"digits": "digits = digits.zfill(5)"}),
                    Option("Use only the last 2 digits of the number.", {"digits": "digits = digits[-2:]"}),
                ),
                ("digits", "zeros", "fill", "front"),
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
