"""Names, titles and numbers as texts; also topics that families on texts and lists share."""

from __future__ import annotations

from collections.abc import Sequence

from colbench_gym.tasks.families.family import Family, Option, Topic
from colbench_gym.tasks.families.topics import empty


def letter_case(variable: str, what: str, kinds: Sequence[str]) -> Topic:
    """Capital or small letters in `what`; `kinds` picks from upper, lower and title."""
    says = {
        "upper": f"Write {what} all in capital letters.",
        "lower": f"Write {what} all in small letters.",
        "title": f"Start every word of {what} with a capital letter and write the rest of it in small ones.",
    }
    wishes = (Option(says[kind], {"case": f"{variable} = {variable}.{kind}()"}) for kind in kinds)
    return Topic(
        "case",
        ("What about capital and small letters?", "Should I change the case of the letters?"),
        (Option("Leave capital and small letters as they are.", {}), *wishes),
    )


def keep_first(variable: str, limits: Sequence[int], things: str, note: str = "") -> Topic:
    """Cut a list or text after a number of `things`; one special wish per limit. `note` ends its sentence."""
    wishes = (
        Option(f"Keep only the first {limit} {things}{note}.", {"length": f"{variable} = {variable}[:{limit}]"})
        for limit in limits
    )
    return Topic(
        "length",
        (f"Is there a limit on how many {things} to keep?", f"Should I keep all {things}?"),
        (Option(f"Keep all {things}.", {}), *wishes),
    )


def duplicates(variable: str, what: str) -> Topic:
    """Repeated entries of a list, which the simulated human calls `what`."""
    return Topic(
        "duplicates",
        ("What about repeated entries?", "Can the same entry appear twice?"),
        (
            Option("Repeated entries stay in.", {}),
            Option(
                f"Of {what} that are the same, keep only the first one, before any change of the order.",
                {"duplicates": f"{variable} = list(dict.fromkeys({variable}))"},
            ),
        ),
    )


def order(variable: str, kinds: Sequence[str], ties: str = "capital letters before small ones") -> Topic:
    """Order of a list; `kinds` selects from sorted and reverse, `ties` states what alphabetical order leaves open."""
    wishes = {
        "sorted": Option(f"Sort the result by the alphabet, {ties}.", {"order": f"{variable} = sorted({variable})"}),
        "reverse": Option(
            "Turn the order around, so that the last one comes first.", {"order": f"{variable} = {variable}[::-1]"}
        ),
    }
    return Topic(
        "order",
        ("In which order should the result be?", "Should I sort the result?"),
        (Option("Keep the order as it is.", {}), *(wishes[kind] for kind in kinds)),
    )


def separator(things: str, signs: Sequence[str]) -> Topic:
    """The separator between `things`. The first of `signs` is the plain choice. Fills an inline slot."""
    names = {"": "nothing", "-": "a dash", "_": "an underscore", ".": "a dot", " ": "a blank", ", ": "a comma and a blank"}
    return Topic(
        "separator",
        (f"What goes between the {things}?", f"How should the {things} be separated?"),
        tuple(
            Option(f"Put {names[sign]} between the {things}{', but not at the ends' if sign else ''}.", {"separator": sign})
            for sign in signs
        ),
    )


def short_words(limits: Sequence[int]) -> Topic:
    """Short words in a list called words; one special wish per limit."""
    wishes = (
        Option(
            f"Leave out words of fewer than {limit} letters, counting digits and signs that are still in a word as letters.",
            {"short": f"words = [word for word in words if len(word) >= {limit}]"},
        )
        for limit in limits
    )
    return Topic(
        "short",
        ("What about very short words?", "Should I skip short words?"),
        (Option("Short words stay in.", {}), *wishes),
    )


FAMILIES = (
    Family(
        name="clean_name",
        area="text",
        request="People type their names carelessly into our sign-up form. Can you tidy up a name for me? "
        "I want no blanks around it and exactly one blank between two words.",
        signature="def clean_name(name)",
        template="""
def clean_name(name):
    {empty}
    words = name.split()
    {titles}
    {turn}
    name = " ".join(words)
    {case}
    {length}
    return name
""",
        topics=(
            Topic(
                "titles",
                ("What about titles such as Mr?", "Should titles in front of the name stay?"),
                (
                    Option("Titles stay in.", {}),
                    Option(
                        "Before anything else, drop every word that is exactly Mr or Mrs, with a capital M and no dot.",
                        {"titles": 'words = [word for word in words if word not in ("Mr", "Mrs")]'},
                    ),
                    Option(
                        "Before anything else, drop every word that ends with a dot, wherever it stands.",
                        {"titles": 'words = [word for word in words if not word.endswith(".")]'},
                    ),
                ),
            ),
            Topic(
                "turn",
                ("Which part of the name comes first?", "Should the last name be in front?"),
                (
                    Option("Keep all parts of the name as they come.", {}),
                    Option(
                        "Put the last word in front of the others, which keep their order, and add no comma.",
                        {"turn": "words = words[-1:] + words[:-1]"},
                    ),
                ),
            ),
            letter_case("name", "the name", ("title", "upper")),
            keep_first("name", (20, 10), "letters", " of the tidy name, counting blanks, even a blank at the end"),
            empty(("None",), "not name"),
        ),
        calls=(
            "clean_name('')",
            "clean_name('  john   smith ')",
            "clean_name('Mr Peter van Dyke')",
            "clean_name('Dr. Anna LEE')",
            "clean_name('Mrs Joan K. Rowe')",
            "clean_name('maria magdalena theresia von hohenberg')",
            "clean_name('Bob  Mr J. Long')",
            "clean_name('Lin Chen')",
            "clean_name('alexandra konstantinopoulou featherstone')",
            "clean_name('Ed Mrs. Bo Mrs Fox')",
        ),
    ),
    Family(
        name="make_slug",
        area="text",
        request="Turn the title of an article into the last part of its web address: "
        "its words, joined together and all in small letters.",
        signature="def make_slug(title)",
        template="""
def make_slug(title):
    {empty}
    text = "".join({signs} for letter in title.lower())
    words = text.split()
    {short}
    {length}
    slug = "{separator}".join(words)
    return slug
""",
        topics=(
            Topic(
                "signs",
                ("What about signs such as commas?", "Do signs and digits stay in the title?"),
                (
                    Option(
                        "Every sign that is neither a letter nor a digit becomes a gap between words.",
                        {"signs": 'letter if letter.isalnum() else " "'},
                    ),
                    Option(
                        "Everything that is not a letter, digits included, becomes a gap between words.",
                        {"signs": 'letter if letter.isalpha() else " "'},
                    ),
                    Option("Signs and digits all stay where they stand, and only blanks divide words.", {"signs": "letter"}),
                ),
            ),
            short_words((3,)),
            keep_first("words", (5, 3), "words", " that remain after all others were left out"),
            separator("words", ("-", "_")),
            empty(("None",), "not title"),
        ),
        calls=(
            "make_slug('')",
            "make_slug('Hello World')",
            "make_slug('The End of 2024, a Review')",
            "make_slug('It is fun: how we grow fine red apples at home')",
            "make_slug('Ten tips: save money, time and water every day')",
            "make_slug('Rock & Roll')",
            "make_slug('Win 500 prizes')",
            "make_slug('Why? Because we can!')",
            "make_slug('Big City Life')",
            "make_slug('Salt/Pepper to go')",
        ),
    ),
    Family(
        name="initials",
        area="text",
        request="I need the initials of a customer for the round badge in our app, "
        "that is the first letter of each word of the name, as a capital.",
        signature="def initials(name)",
        template="""
def initials(name):
    {double}
    words = name.split()
    {skipped}
    {length}
    {single}
    letters = [word[0].upper() for word in words]
    badge = "{separator}".join(letters)
    return badge
""",
        topics=(
            Topic(
                "double",
                ("How do I treat double names with a dash?", "Is a name with a dash one word or two?"),
                (
                    Option("A name with a dash is one word.", {}),
                    Option(
                        "A dash counts as a blank, so it splits a name into two words.",
                        {"double": 'name = name.replace("-", " ")'},
                    ),
                ),
            ),
            Topic(
                "skipped",
                ("Are there words to leave out?", "What about little words inside a name?"),
                (
                    Option("Every word counts.", {}),
                    Option(
                        "Leave out the words van and de where they are all in small letters.",
                        {"skipped": 'words = [word for word in words if word not in ("van", "de")]'},
                    ),
                    Option(
                        "Leave out every word that ends with a dot, wherever it stands.",
                        {"skipped": 'words = [word for word in words if not word.endswith(".")]'},
                    ),
                ),
            ),
            keep_first("words", (2, 3), "words", ", not counting words that are left out"),
            Topic(
                "single",
                ("What if there is only one word?", "How many letters for a single word?"),
                (
                    Option("A single word gives one letter.", {}),
                    Option(
                        "If only one word remains, give its first 2 letters as capitals, with nothing between them.",
                        {"single": "if len(words) == 1:\n    return words[0][:2].upper()"},
                    ),
                ),
            ),
            separator("initials", ("", ".", " ")),
        ),
        calls=(
            "initials('Anna Berg')",
            "initials('prince')",
            "initials('Ludwig van Beethoven')",
            "initials('Dr. Hans-Peter Maria Koch')",
            "initials('Jean-Luc de Grand')",
            "initials('Tom A. Brown Long')",
            "initials('Maria Lena Ida Ross')",
            "initials('van Gogh')",
            "initials('Dr. Who')",
            "initials('Kim Ho Park Lee Song')",
        ),
    ),
    Family(
        name="mask_number",
        area="text",
        request="Hide an account number, which is a text, before we print it on a receipt. "
        "Only the last 4 signs stay readable, and in place of each other sign stands a mark that hides it.",
        signature="def mask_number(number)",
        template="""
def mask_number(number):
    {gaps}
    hidden = max(len(number) - 4, 0)
    {brief}
    stars = "{sign}" * hidden
    text = stars + number[hidden:]
    {start}
    {tail}
    return text
""",
        topics=(
            Topic(
                "gaps",
                ("What about blanks and dashes in the number?", "Do gaps in the number stay?"),
                (
                    Option("Blanks and dashes count like digits.", {}),
                    Option(
                        "Take out all blanks before counting any signs, but leave dashes in.",
                        {"gaps": 'number = number.replace(" ", "")'},
                    ),
                    Option(
                        "Take out all dashes before counting any signs, but leave blanks in.",
                        {"gaps": 'number = number.replace("-", "")'},
                    ),
                ),
            ),
            Topic(
                "brief",
                ("What about very short numbers?", "Should short numbers be hidden too?"),
                (
                    Option("Short numbers are treated the same.", {}),
                    Option(
                        "If the number to be printed has fewer than 10 signs, hide none of them.",
                        {"brief": "if len(number) < 10:\n    hidden = 0"},
                    ),
                ),
            ),
            Topic(
                "sign",
                ("Which sign hides the digits?", "Stars or some other sign?"),
                (
                    Option("Each hidden sign becomes a star.", {"sign": "*"}),
                    Option("Each hidden sign becomes a small letter x.", {"sign": "x"}),
                    Option("Each hidden sign becomes a dot.", {"sign": "."}),
                ),
            ),
            Topic(
                "start",
                ("Is the start of the number hidden too?", "Should the first digits stay readable?"),
                (
                    Option("The start is hidden.", {}),
                    Option(
                        "The first 2 signs of the number to be printed stay readable too.",
                        {"start": "text = number[:2] + text[2:]"},
                    ),
                ),
            ),
            Topic(
                "tail",
                ("Should anything be added to the hidden number?", "Do you want the number of signs shown as well?"),
                (
                    Option("Add nothing to the number.", {}),
                    Option(
                        "At the end add a blank and the count of all printed signs, hidden and readable together.",
                        {"tail": 'text = text + " " + str(len(number))'},
                    ),
                ),
            ),
        ),
        calls=(
            "mask_number('12345678')",
            "mask_number('4000123412341234')",
            "mask_number('4000 1234 5678 9010')",
            "mask_number('55-77-3')",
            "mask_number('DE89 3704 00')",
            "mask_number('123')",
            "mask_number('771-204-99812')",
            "mask_number('90 210')",
            "mask_number('A1B2C3D4E5F6')",
            "mask_number('20-51 77-18 330')",
        ),
    ),
)
