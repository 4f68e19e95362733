"""Words, lines and labels for printing."""

from __future__ import annotations

from colbench_gym.tasks.families.family import Family, Option, Topic
from colbench_gym.tasks.families.text import duplicates, keep_first, letter_case, order, short_words
from colbench_gym.tasks.families.topics import empty

FAMILIES = (
    Family(
        name="count_words",
        area="labels",
        request="Tell me how often each word turns up in a customer comment. I want a table from word to number. "
        "Blanks divide the words.",
        signature="def count_words(comment)",
        template="""
def count_words(comment):
    {empty}
    {case}
    words = comment.split()
    {signs}
    {short}
    counts = {}
    for word in words:
        counts[word] = counts.get(word, 0) + 1
    {rare}
    return counts
""",
        topics=(
            letter_case("comment", "the comment, before its words are counted,", ("lower", "upper")),
            Topic(
                "signs",
                ("What about full stops and commas?", "Do signs at the end belong to the word?"),
                (
                    Option("Signs belong to the word.", {}),
                    Option(
                        "Take full stops and commas off both ends of every word before counting anything.",
                        {"signs": 'words = [word.strip(".,") for word in words]'},
                    ),
                ),
            ),
            short_words((3, 5)),
            Topic(
                "rare",
                ("Do you want words that occur only once?", "Should rare words be left out?"),
                (
                    Option("Rare words stay in.", {}),
                    Option(
                        "After counting, leave out the words that occur only once in the comment.",
                        {"rare": "counts = {word: counts[word] for word in counts if counts[word] > 1}"},
                    ),
                ),
            ),
            empty(("None",), "not comment"),
        ),
        calls=(
            "count_words('')",
            "count_words('good food good price')",
            "count_words('Nice shop, nice staff, nice to be in a shop')",
            "count_words('The tea is hot. The tea is good. The TEA')",
            "count_words('slow slow SLOW, so very slow')",
            "count_words('It is what it is')",
            "count_words('Great. Great, great help and help and help')",
            "count_words('Price ok, price ok, place ok.')",
            "count_words('never again, never again, NEVER')",
            "count_words('we love it, we love, it')",
        ),
    ),
    Family(
        name="join_names",
        area="labels",
        request="Make one line out of a list of guest names for our invitations. "
        "Trim blanks around each name, and put a comma and a blank between the names.",
        signature="def join_names(names)",
        template="""
def join_names(names):
    {empty}
    names = [name.strip() for name in names]
    {duplicates}
    {order}
    {length}
    line = ", ".join(names)
    {last}
    return line
""",
        topics=(
            duplicates("names", "trimmed names"),
            order("names", ("sorted", "reverse")),
            keep_first("names", (3, 5), "names", ", counted after dropping repeated ones and changing the order"),
            Topic(
                "last",
                ("How is the last name joined?", "Do you want the word and before the last name?"),
                (
                    Option("The last name follows a comma and a blank like all others.", {}),
                    Option(
                        'In front of the last of several names, put the word "and" between two blanks instead of the comma.',
                        {"last": 'if len(names) > 1:\n    line = ", ".join(names[:-1]) + " and " + names[-1]'},
                    ),
                ),
            ),
            empty(("None",), "not names"),
        ),
        calls=(
            "join_names([])",
            "join_names(['Ann'])",
            "join_names(['Tom', ' Ann'])",
            "join_names(['Bob', 'Ann', 'Bob'])",
            "join_names(['Eve', 'Dan', 'Cal', 'Ben'])",
            "join_names(['Kim', 'Lee', 'Kim', 'Ann', 'Zoe', 'Max', 'Lee'])",
            "join_names(['Ida', 'Gus', 'Hal', 'Fay', 'Jon', 'Kay'])",
            "join_names(['Zed', 'Zed', 'Amy', 'Zed', 'Lou', 'Roy'])",
            "join_names(['Pam', 'Oli', 'Pam', 'Oli'])",
            "join_names(['Una', 'Tim', 'Sam', 'Ray', 'Pia'])",
        ),
    ),
    Family(
        name="wrap_lines",
        area="labels",
        request="Break a message into lines for our till printer, each with as many words as fit. "
        "Width is how many letters, counting blanks, fit on a line.",
        signature="def wrap_lines(message, width)",
        template="""
def wrap_lines(message, width):
    {case}
    lines = []
    for word in message.split():
        {cut}
        if lines and len(lines[-1] + " " + word) <= width:
            lines[-1] += " " + word
        else:
            lines.append(word)
    {length}
    {align}
    {glue}
    return lines
""",
        topics=(
            letter_case("message", "the message", ("upper",)),
            Topic(
                "cut",
                ("What about words longer than a line?", "May I cut long words?"),
                (
                    Option("A word longer than a line stays whole, on a line of its own.", {}),
                    Option(
                        "Of a word longer than the width, keep only the letters that fit on a line and drop the rest.",
                        {"cut": "word = word[:width]"},
                    ),
                ),
            ),
            keep_first("lines", (3, 2), "lines", " and drop all further ones"),
            Topic(
                "align",
                ("Should lines be filled up with blanks?", "Do lines start on the left?"),
                (
                    Option("Lines are not filled up.", {}),
                    Option(
                        "Fill up every line with blanks at the end until it is as long as the width.",
                        {"align": "lines = [line.ljust(width) for line in lines]"},
                    ),
                    Option(
                        "Fill up every line with blanks in front until it is as long as the width.",
                        {"align": "lines = [line.rjust(width) for line in lines]"},
                    ),
                ),
            ),
            Topic(
                "glue",
                ("Do you want a list or one text?", "How do you want the lines back?"),
                (
                    Option("Give me a list of lines.", {}),
                    Option(
                        "Give me one text with a slash, and no extra blanks, between the lines.",
                        {"glue": 'lines = "/".join(lines)'},
                    ),
                ),
            ),
        ),
        calls=(
            "wrap_lines('thank you for shopping with us', 10)",
            "wrap_lines('see you soon', 20)",
            "wrap_lines('Extraordinary offers every day', 8)",
            "wrap_lines('one two three four five six', 5)",
            "wrap_lines('All sales are final', 6)",
            "wrap_lines('No refund without a receipt', 7)",
            "wrap_lines('Happy birthday', 3)",
            "wrap_lines('Open from nine to five on weekdays', 12)",
            "wrap_lines('a b c d e f', 3)",
            "wrap_lines('Welcome', 10)",
        ),
    ),
    Family(
        name="shorten_label",
        area="labels",
        request="Our shelf labels only have room for a few letters. Cut a product name so that it fits. "
        "Size is how many letters there is room for, counting blanks.",
        signature="def shorten_label(name, size)",
        template="""
def shorten_label(name, size):
    {comma}
    {plus}
    if len(name) > size:
        name = name[:size]
        {ending}
    {case}
    {fill}
    return name
""",
        topics=(
            Topic(
                "comma",
                ("What about text after a comma?", "Is everything in the name important?"),
                (
                    Option("Commas do not matter.", {}),
                    Option(
                        "Before measuring the name, drop everything from the first comma on.",
                        {"comma": 'name = name.split(",")[0]'},
                    ),
                ),
            ),
            Topic(
                "plus",
                ("Should I use signs for some words?", "May the word and be written as a sign?"),
                (
                    Option("Words are not changed.", {}),
                    Option(
                        'Before measuring the name, write a plus for each "and" in small letters that stands between two blanks.',
                        {"plus": 'name = name.replace(" and ", " + ")'},
                    ),
                ),
            ),
            Topic(
                "ending",
                ("How should a cut name end?", "Should one see that a name was cut?"),
                (
                    Option("A name that was too long just ends where the room ends.", {}),
                    Option(
                        "Where a name was too long, the last letter that still fits becomes a dot.",
                        {"ending": 'name = name[:-1] + "."'},
                    ),
                    Option(
                        "Where a name was too long, the last 2 letters that still fit become 2 dots.",
                        {"ending": 'name = name[:-2] + ".."'},
                    ),
                ),
            ),
            letter_case("name", "the name", ("upper", "title")),
            Topic(
                "fill",
                ("What about names shorter than the label?", "Should short names be filled up?"),
                (
                    Option("Short names stay short.", {}),
                    Option(
                        "Fill up a shorter name with stars at the end until it has the full size.",
                        {"fill": 'name = name.ljust(size, "*")'},
                    ),
                ),
            ),
        ),
        calls=(
            "shorten_label('milk', 10)",
            "shorten_label('salt and pepper', 10)",
            "shorten_label('green tea, 20 bags', 20)",
            "shorten_label('dark chocolate with nuts', 16)",
            "shorten_label('red wine and cheese box, large', 20)",
            "shorten_label('Sand bucket', 20)",
            "shorten_label('fish and chips', 5)",
            "shorten_label('apple juice, clear', 8)",
            "shorten_label('brown rice, organic', 14)",
            "shorten_label('pens and paper', 20)",
        ),
    ),
)
