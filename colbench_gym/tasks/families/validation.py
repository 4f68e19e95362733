"""Checking forms and orders, reading phone numbers and amounts."""

from __future__ import annotations

from colbench_gym.tasks.families.family import Family, Option, Topic
from colbench_gym.tasks.families.text import duplicates, order
from colbench_gym.tasks.families.topics import cap, rounding

FAMILIES = (
    Family(
        name="form_problems",
        area="validation",
        request="List what is wrong with a sign-up form, a table with name, email and age. "
        'Say "no name" where the name is empty and then "bad email" where the email cannot be right.',
        signature="def form_problems(form)",
        template="""
def form_problems(form):
    problems = []
    if not form["name"]:
        problems.append("no name")
    {long}
    if "@" not in form["email"]{email}:
        problems.append("bad email")
    {age}
    {order}
    {fine}
    return problems
""",
        topics=(
            Topic(
                "long",
                ("Can a name be too long?", "How long may the name be?"),
                (
                    Option("Names can be as long as they like.", {}),
                    Option(
                        'If the name has more than 20 letters, counting blanks, say "long name" ahead of "bad email".',
                        {"long": 'if len(form["name"]) > 20:\n    problems.append("long name")'},
                    ),
                ),
            ),
            Topic(
                "email",
                ("What makes an email bad?", "Is a missing at sign the only thing that makes an email wrong?"),
                (
                    Option("Only a missing at sign makes an email bad.", {"email": ""}),
                    Option(
                        "An email without a dot anywhere in it is bad too, and is listed once only.",
                        {"email": ' or "." not in form["email"]'},
                    ),
                    Option(
                        "An email with a blank anywhere in it is bad too, and is listed once only.",
                        {"email": ' or " " in form["email"]'},
                    ),
                ),
            ),
            Topic(
                "age",
                ("Is there a minimum age?", "Should I check the age?"),
                (
                    Option("Any age is fine.", {}),
                    Option(
                        'If the age is under 20, say "too young" behind all other problems.',
                        {"age": 'if form["age"] < 20:\n    problems.append("too young")'},
                    ),
                    Option(
                        'If the age is above 100, say "check age" behind all other problems.',
                        {"age": 'if form["age"] > 100:\n    problems.append("check age")'},
                    ),
                ),
            ),
            order("problems", ("sorted",), "not by the fields of the form"),
            Topic(
                "fine",
                ("What do you want when nothing is wrong?", "What comes back for a good form?"),
                (
                    Option("A good form gives an empty list.", {}),
                    Option(
                        'For a good form give just the text "ok" instead of a list.',
                        {"fine": 'if not problems:\n    return "ok"'},
                    ),
                ),
            ),
        ),
        calls=(
            "form_problems({'name': 'Ann Lee', 'email': 'ann@lee.com', 'age': 34})",
            "form_problems({'name': '', 'email': 'nobody', 'age': 41})",
            "form_problems({'name': 'Bo', 'email': 'bo.com', 'age': 15})",
            "form_problems({'name': '', 'email': 'joe at home.org', 'age': 120})",
            "form_problems({'name': '', 'email': 'kim@home', 'age': 20})",
            "form_problems({'name': 'Bartholomew Montgomery', 'email': 'bart', 'age': 19})",
            "form_problems({'name': '', 'email': 'a b@mail.com', 'age': 100})",
            "form_problems({'name': 'Wilhelmina Featherstone', 'email': 'none.', 'age': 105})",
            "form_problems({'name': 'Al', 'email': 'al', 'age': 200})",
            "form_problems({'name': '', 'email': 'x@y.z', 'age': 10})",
        ),
    ),
    Family(
        name="wrong_items",
        area="validation",
        request="List the items of an order that cannot be right. "
        "Each line of it is item, quantity and price, and a quantity under 1 is wrong.",
        signature="def wrong_items(lines)",
        template="""
def wrong_items(lines):
    wrong = []
    for item, quantity, price in lines:
        if quantity < 1{many}{price}:
            wrong.append({show})
    {duplicates}
    {order}
    return wrong
""",
        topics=(
            Topic(
                "many",
                ("Can a quantity be too large?", "Is there a highest quantity?"),
                (
                    Option("Large quantities are fine.", {"many": ""}),
                    Option("A quantity above 100 makes a line wrong too.", {"many": " or quantity > 100"}),
                    Option("A quantity above 20 makes a line wrong too.", {"many": " or quantity > 20"}),
                ),
            ),
            Topic(
                "price",
                ("Can a price be wrong as well?", "Should I look at the price?"),
                (
                    Option("Any price is fine.", {"price": ""}),
                    Option("A price of zero or less makes a line wrong too.", {"price": " or price <= 0"}),
                    Option("A price above 500 makes a line wrong too.", {"price": " or price > 500"}),
                ),
            ),
            Topic(
                "show",
                ("Do you want more than the item?", "Should the quantity be shown with the item?"),
                (
                    Option("Show only the item.", {"show": "item"}),
                    Option("For each wrong line give a pair of item and quantity.", {"show": "(item, quantity)"}),
                ),
            ),
            duplicates("wrong", "entries in the result"),
            order("wrong", ("sorted",), "and the same item by its quantity if that is given"),
        ),
        calls=(
            "wrong_items([('pen', 0, 2.5), ('cup', 2, 4), ('bag', -1, 20)])",
            "wrong_items([('tea', 50, 3), ('jam', 0, 2), ('tea', 0, 3)])",
            "wrong_items([('hat', 0, 10), ('hat', 0, 10), ('cap', 120, 8)])",
            "wrong_items([('sofa', 1, 700), ('lamp', -2, 40), ('desk', 3, 0)])",
            "wrong_items([('nut', 500, 0.1), ('bolt', 0, 0.2), ('nut', 101, 0.1)])",
            "wrong_items([('ring', 1, 501), ('clip', -5, 1), ('ring', 0, 500)])",
            "wrong_items([('milk', 21, 1), ('eggs', 0, 2), ('milk', 0, -1)])",
            "wrong_items([('rug', 0, 90), ('mat', 2, 0), ('mat', 0, 15)])",
            "wrong_items([('box', 100, 5), ('axe', -3, 30), ('box', -3, 5)])",
            "wrong_items([('sock', 0, 4), ('coat', 1, 900), ('belt', 30, 12), ('sock', 0, 4)])",
        ),
    ),
    Family(
        name="clean_phone",
        area="validation",
        request="Bring a phone number that a customer typed in into the form that we use everywhere. "
        "I think of its digits only, as a text.",
        signature="def clean_phone(number)",
        template="""
def clean_phone(number):
    {cutoff}
    signs = [sign for sign in number if sign.isdigit()]
    digits = "".join(signs)
    {country}
    {few}
    {group}
    {plus}
    return digits
""",
        topics=(
            Topic(
                "cutoff",
                ("Are there extra numbers that do not belong?", "Should any part of the text be ignored?"),
                (
                    Option("All digits in the text count.", {}),
                    Option("Ignore everything from the first small letter x on.", {"cutoff": 'number = number.split("x")[0]'}),
                    Option("Ignore everything from the first slash on.", {"cutoff": 'number = number.split("/")[0]'}),
                ),
            ),
            Topic(
                "country",
                ("What about a zero at the start?", "Do you want the country code?"),
                (
                    Option("Zeros at the start stay.", {}),
                    Option("Drop all zeros at the start of the digits.", {"country": 'digits = digits.lstrip("0")'}),
                    Option(
                        "If the digits start with a zero, that one zero becomes 50, our country code.",
                        {"country": 'if digits.startswith("0"):\n    digits = "50" + digits[1:]'},
                    ),
                ),
            ),
            Topic(
                "few",
                ("What about numbers with too few digits?", "Is there a smallest length for a number?"),
                (
                    Option("Short numbers are fine.", {}),
                    Option(
                        "If in the end there are fewer than 5 digits, return nothing at all, not even an empty text.",
                        {"few": "if len(digits) < 5:\n    return None"},
                    ),
                ),
            ),
            Topic(
                "group",
                ("Should the digits be grouped?", "Do you want dashes between the digits?"),
                (
                    Option("All digits stay together.", {}),
                    Option(
                        "Put a dash after the first 3 digits of the finished number.",
                        {"group": 'digits = digits[:3] + "-" + digits[3:]'},
                    ),
                ),
            ),
            Topic(
                "plus",
                ("Does a plus go in front?", "Should the number start with a sign?"),
                (
                    Option("Put nothing in front.", {}),
                    Option("Put a plus in front of every finished number.", {"plus": 'digits = "+" + digits'}),
                ),
            ),
        ),
        calls=(
            "clean_phone('030 123 456')",
            "clean_phone('(555) 010-2030 x12')",
            "clean_phone('+49 171 5550100')",
            "clean_phone('017112/555 22')",
            "clean_phone('12 34')",
            "clean_phone('00 41 22 730 51/11')",
            "clean_phone('555-1000x7')",
            "clean_phone('call 0800 500 600 x 3')",
            "clean_phone('+1 (212) 555 2000')",
            "clean_phone('77 88 99/5')",
        ),
    ),
    Family(
        name="parse_amount",
        area="validation",
        request="People type amounts such as $ 50 or 20 EUR into a text field. "
        "Find the amount in such a text and give it to me as a number.",
        signature="def parse_amount(text)",
        template="""
def parse_amount(text):
    {comma}
    digits = "".join(sign for sign in text if sign.isdigit() or sign == ".")
    amount = float(digits or 0)
    {thousand}
    {brackets}
    {rounding}
    {cap}
    return amount
""",
        topics=(
            Topic(
                "comma",
                ("What does a comma mean?", "Is the comma or the dot the decimal sign?"),
                (
                    Option("Commas mean nothing, and a dot starts the decimals.", {}),
                    Option(
                        "A comma starts the decimals, while dots mean nothing.",
                        {"comma": 'text = text.replace(".", "").replace(",", ".")'},
                    ),
                ),
            ),
            Topic(
                "thousand",
                ("What about a letter k behind the number?", "Are there short forms for large amounts?"),
                (
                    Option("Letters in the text mean nothing.", {}),
                    Option(
                        "A small letter k anywhere in the text means thousand, so 2k is 2000.",
                        {"thousand": 'if "k" in text:\n    amount = amount * 1000'},
                    ),
                ),
            ),
            Topic(
                "brackets",
                ("How do people write negative amounts?", "What about brackets or a minus?"),
                (
                    Option("Brackets and minus signs mean nothing, so no amount is negative.", {}),
                    Option(
                        "An amount in brackets is negative, and that comes before any rounding or limit.",
                        {"brackets": 'if "(" in text:\n    amount = -amount'},
                    ),
                    Option(
                        "An amount with a minus in the text is negative, and that comes before any rounding or limit.",
                        {"brackets": 'if "-" in text:\n    amount = -amount'},
                    ),
                ),
            ),
            rounding("amount", ("down", "up")),
            cap("amount", (500,)),
        ),
        calls=(
            "parse_amount('$ 1,200.50')",
            "parse_amount('19.95')",
            "parse_amount('(45.20)')",
            "parse_amount('-12.75 EUR')",
            "parse_amount('2.2k')",
            "parse_amount('EUR 7,25')",
            "parse_amount('0,02k')",
            "parse_amount('(3,125.5)')",
            "parse_amount('- $ 80,4')",
            "parse_amount('about 640.25')",
        ),
    ),
)
