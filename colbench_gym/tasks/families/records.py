"""Cleaning and merging records."""

from __future__ import annotations

from colbench_gym.tasks.families.family import Family, Option, Topic
from colbench_gym.tasks.families.text import letter_case, order

FAMILIES = (
    Family(
        name="clean_customers",
        area="records",
        request="Our old shop left us a messy list of customers, pairs of name and email. "
        "Trim the blanks at both ends of every name and email and give me the clean list of pairs.",
        signature="def clean_customers(customers)",
        template="""
def clean_customers(customers):
    clean = []
    for name, email in customers:
        name, email = name.strip(), email.strip()
        {missing}
        {case}
        {staff}
        {again}
        clean.append((name, email))
    {order}
    return clean
""",
        topics=(
            Topic(
                "missing",
                ("What if the email is missing?", "Do you want customers without an email?"),
                (
                    Option("Customers without an email stay in, with the email left empty.", {}),
                    Option("Skip customers whose email is empty after trimming.", {"missing": "if not email:\n    continue"}),
                    Option(
                        "Where the email is empty after trimming, write the word unknown in its place.",
                        {"missing": 'email = email or "unknown"'},
                    ),
                ),
            ),
            letter_case("name", "the name", ("title", "upper")),
            Topic(
                "staff",
                ("Are there addresses to leave out?", "Should test customers be skipped?"),
                (
                    Option("No email address is left out.", {}),
                    Option(
                        "Skip customers whose email contains test, in small letters, anywhere before or after the at sign.",
                        {"staff": 'if "test" in email:\n    continue'},
                    ),
                ),
            ),
            Topic(
                "again",
                ("What about the same customer listed twice?", "Can the same name come again?"),
                (
                    Option("The same name may come again, every customer stays in.", {}),
                    Option(
                        "Skip a customer whose name, written as in the clean list, is already in it.",
                        {"again": "if name in [row[0] for row in clean]:\n    continue"},
                    ),
                ),
            ),
            order("clean", ("sorted",), "by name and then email, capital letters before small ones"),
        ),
        calls=(
            "clean_customers([('tom hill ', 'tom@hill.com'), ('ann', '')])",
            "clean_customers([('Lee', 'lee@test.com'), ('Bo', ' bo@mail.com'), ('Al', 'al@mail.com')])",
            "clean_customers([('Kim', 'kim@a.org'), ('Kim', 'kim@b.org'), ('Jo', ' ')])",
            "clean_customers([(' zoe', 'zoe@z.com'), ('max', 'test'), ('zoe', '')])",
            "clean_customers([('ida', 'ida@post.net'), ('ida', 'ida@post.net'), ('gus', 'gus@post.net')])",
            "clean_customers([('Eve Moor', ''), ('Dan', 'dan@moor.com')])",
            "clean_customers([('sam', 'sam@x.com'), ('tim', 'tim@test.net'), ('sam', 'sam@y.com')])",
            "clean_customers([('ray', 'ray@ray.it'), ('pia', ''), ('ray', '')])",
            "clean_customers([('Hal', ' hal@shop.com '), ('fay', 'fay@shop.com')])",
            "clean_customers([('una', 'una@u.org'), ('una', 'una@test.org'), ('BOB', 'bob@u.org')])",
        ),
    ),
    Family(
        name="merge_gifts",
        area="records",
        request="The same donor shows up several times in our list of gifts, pairs of name and amount. "
        "Make it a table from each name to one number.",
        signature="def merge_gifts(gifts)",
        template="""
def merge_gifts(gifts):
    totals = {}
    for name, amount in gifts:
        {negative}
        {unnamed}
        {case}
        totals[name] = {combine}
    {little}
    return totals
""",
        topics=(
            Topic(
                "combine",
                ("How do I combine gifts of the same donor?", "Should all gifts of a donor be added up?"),
                (
                    Option("Add up the amounts of all gifts of a donor.", {"combine": "totals.get(name, 0) + amount"}),
                    Option(
                        "Do not add up: for each donor show the amount of the last gift in the list.", {"combine": "amount"}
                    ),
                    Option(
                        "Do not add up: for each donor show the amount of the largest gift.",
                        {"combine": "max(totals.get(name, amount), amount)"},
                    ),
                ),
            ),
            letter_case("name", "the name", ("lower", "upper")),
            Topic(
                "negative",
                ("What about negative amounts?", "Can an amount be below zero?"),
                (
                    Option("Negative amounts count as they are.", {}),
                    Option(
                        "A minus sign is a typing mistake: first of all turn negative amounts into positive ones.",
                        {"negative": "amount = abs(amount)"},
                    ),
                ),
            ),
            Topic(
                "unnamed",
                ("What if there is no name?", "How do I treat gifts without a donor?"),
                (
                    Option("Gifts without a name go into the table under the empty name.", {}),
                    Option(
                        "Skip gifts whose name is empty, so that they are not in the table.",
                        {"unnamed": "if not name:\n    continue"},
                    ),
                ),
            ),
            Topic(
                "little",
                ("Should small totals be left out?", "Is there a smallest total to show?"),
                (
                    Option("Show every donor, however little the number.", {}),
                    Option(
                        "At the end leave out donors whose number in the table is under 10; exactly 10 stays.",
                        {"little": "totals = {name: totals[name] for name in totals if totals[name] >= 10}"},
                    ),
                ),
            ),
        ),
        calls=(
            "merge_gifts([('Ann', 20), ('Bob', 5), ('Ann', 10)])",
            "merge_gifts([('', 50), ('Kim', 100)])",
            "merge_gifts([('lee', 30), ('LEE', 20), ('Lee', -5), ('Max', 12)])",
            "merge_gifts([('Zoe', 200), ('', 3), ('Zoe', 250)])",
            "merge_gifts([('Ida', 10), ('ida', 2), ('Gus', 9.5), ('Gus', 11)])",
            "merge_gifts([('Roy', 20), ('Roy', -50), ('Amy', 15.5)])",
            "merge_gifts([('Tim', 40), ('Sam', 25), ('Tim', -10)])",
            "merge_gifts([('', 20), ('', 12), ('Eve', 5), ('Eve', 4)])",
            "merge_gifts([('Jon', 500), ('JON', 100), ('Kay', 10)])",
            "merge_gifts([('Pia', 14), ('Una', 30), ('Pia', 13), ('Una', 2)])",
        ),
    ),
    Family(
        name="parse_settings",
        area="records",
        request="Our settings come as one line such as size=10; color=red. "
        "Turn the line into a table from name to value, cut at the semicolons and at the first equals sign of each part. "
        "Trim the blanks around names and values.",
        signature="def parse_settings(line)",
        template="""
def parse_settings(line):
    settings = {}
    for part in line.split(";"):
        if "=" not in part:
            {bare}
        key, value = part.split("=", 1)
        key, value = key.strip(), value.strip()
        {case}
        {blank}
        {again}
        {numbers}
        settings[key] = value
    return settings
""",
        topics=(
            Topic(
                "bare",
                ("What about parts without an equals sign?", "What if a setting is only a word?"),
                (
                    Option("Skip parts without an equals sign.", {"bare": "continue"}),
                    Option(
                        "A part without an equals sign is the name of a setting whose value is the word yes.",
                        {"bare": 'part = part + "=yes"'},
                    ),
                ),
            ),
            letter_case("key", "the names of settings", ("lower", "upper")),
            Topic(
                "blank",
                ("What if the value is missing?", "Do you want settings without a value?"),
                (
                    Option("Settings without a value stay in, with an empty text as their value.", {}),
                    Option(
                        "Skip a setting with nothing after the equals sign, as if it were not in the line.",
                        {"blank": "if not value:\n    continue"},
                    ),
                    Option(
                        "With nothing after the equals sign the value is the word unknown, which then counts like any value.",
                        {"blank": 'value = value or "unknown"'},
                    ),
                ),
            ),
            Topic(
                "again",
                ("What about the same setting given twice?", "Which value counts when a setting comes again?"),
                (
                    Option("When the same name comes again, its last value counts.", {}),
                    Option(
                        "When the same name, as written in the table, comes again, its first value counts.",
                        {"again": "if key in settings:\n    continue"},
                    ),
                ),
            ),
            Topic(
                "numbers",
                ("Should values be turned into numbers?", "Are all values texts?"),
                (
                    Option("All values stay texts, even those that look like numbers.", {}),
                    Option(
                        "Turn values made up of nothing but digits into whole numbers; all other values stay texts.",
                        {"numbers": "if value.isdigit():\n    value = int(value)"},
                    ),
                ),
            ),
        ),
        calls=(
            "parse_settings('size=10; color=red')",
            "parse_settings('Mode=fast; debug; level=3')",
            "parse_settings('host=; port=200')",
            "parse_settings('a=1; b=2; a=3')",
            "parse_settings('Title=My shop; lines=50; title=Sale')",
            "parse_settings('user=ann; verbose')",
            "parse_settings('tax=; tax=5; Rate=2')",
            "parse_settings('path=x=y; depth=20')",
            "parse_settings('quiet; Limit=100; Limit=')",
            "parse_settings('Lang=en; lang=de; theme=')",
        ),
    ),
)
