"""Composed families of functions that map a text to a line made of its words.

Words are separated by blanks. The steps before the core work on the list of words, the steps after it on the line.
"""

from __future__ import annotations

from colbench_gym.tasks.composed.shape import Base, Shape, Step, wish_topic

_CALLS = (
    '"the North Street e-mail, of @anna 42 #now"',
    '"#sale of B2 shoes, yes! and a a T-shirt"',
    '"Doctor Who, or Company X? 12 the e-book"',
    '"@bob and @eve go South, for x-ray x-ray"',
    '"7 7 road or #fun #fun the B-side!"',
    '"Oh! 3 Doctor a co-op, and @tim #going on"',
    '"for up-to-date, now! call 555 @desk and doctor"',
    '"Street or road the the #map, of North 9th!"',
    '"so so many of x-mas, trips a South @guide"',
    '"#one @two 3 re-do! and last and last Never."',
)


def _base(name: str, sign: str, char: str, made: str) -> Base:
    """A base function that joins the words of a text."""
    request = (
        f'Write a function that joins the words of a text to one line, with {sign} between two words: from "red house" it makes '
        f'"{made}". A word is whatever stands between blanks.'
    )
    calls = tuple(f"{name}({call})" for call in _CALLS)
    return Base(name, request, f"def {name}(text)", f'line = "{char}".join(words)', calls, f'{name}("Three small, red houses")')


def _only(condition: str) -> str:
    """Code that keeps the words that satisfy a condition."""
    return f"words = [w for w in words if {condition}]"


def _each(word: str) -> str:
    """Code that rewrites every word."""
    return f"words = [{word} for w in words]"


def _last(condition: str) -> str:
    """Code that moves the words that satisfy a condition to the end."""
    return f"words = [w for w in words if not {condition}] + [w for w in words if {condition}]"


def _short(word: str, short: str) -> str:
    """Code that replaces a word by another."""
    return _each(f'"{short}" if w == "{word}" else w')


_BEFORE = (
    Step(
        wish_topic(
            "portion",
            ("Do I use the whole text?", "How many of the words do you want?"),
            "Use all of the text.",
            ("First of all, cut the text off behind its fourth word.", "words = words[:4]"),
            ("First of all, cut the text off behind its fifth word.", "words = words[:5]"),
            ("First of all, cut the text off behind its sixth word.", "words = words[:6]"),
            ("First of all, drop all of the text but its last four words.", "words = words[-4:]"),
        ),
        order=-2,
    ),
    Step(
        wish_topic(
            "brevity",
            ("What about very short words?", "Is there a least length of a word?"),
            "Words of every length are used alike.",
            (
                "Before you do anything with the single words, leave out those that have only one character.",
                _only("len(w) > 1"),
            ),
            (
                "Before you do anything with the single words, leave out those that have one or two characters.",
                _only("len(w) > 2"),
            ),
            (
                "Before you do anything with the single words, leave out those that have one to three characters.",
                _only("len(w) > 3"),
            ),
            (
                "Before you do anything with the single words, leave out those that have one to four characters.",
                _only("len(w) > 4"),
            ),
        ),
        order=-1,
    ),
    Step(
        wish_topic(
            "capitals",
            ("Do I change capital and small letters?", "What about upper and lower case?"),
            "Letters stay as large or small as they are.",
            ("Write every word in lower case, all of its letters.", _each("w.lower()")),
            ("Write every word in upper case, all of its letters.", _each("w.upper()")),
            (
                "Write every word with a capital first and small letters behind it, as Python's capitalize does.",
                _each("w.capitalize()"),
            ),
            ('Swap the case of every letter in the words: "Red" becomes "rED".', _each("w.swapcase()")),
        )
    ),
    Step(
        wish_topic(
            "punctuation",
            ("What about commas and other marks?", "Does punctuation stay in?"),
            "Punctuation stays where it is.",
            ("Strip dots, commas, exclamation marks and question marks off the end of every word.", _each('w.rstrip(".,!?")')),
            ("Delete all commas from the words.", _each('w.replace(",", "")')),
            ("Leave out every word with an exclamation mark or a question mark in it.", _only('"!" not in w and "?" not in w')),
            ("Leave out every word that ends with a comma.", _only('not w.endswith(",")')),
        )
    ),
    Step(
        wish_topic(
            "filler",
            ("Do words such as articles count?", "Are there words without meaning to leave out?"),
            "Every kind of word is used.",
            ('Leave out the words "the" and "a".', _only('w not in ("the", "a")')),
            ('Leave out the words "and" and "or".', _only('w not in ("and", "or")')),
            ('Leave out the words "of" and "for".', _only('w not in ("of", "for")')),
            ('Leave out the words "the", "of" and "and".', _only('w not in ("the", "of", "and")')),
        )
    ),
    Step(
        wish_topic(
            "repeats",
            ("What if a word comes again?", "Do I use a word twice if it is there twice?"),
            "A word that comes again is used again.",
            (
                "If a word comes several times, keep only the first of them and leave out the others.",
                "words = list(dict.fromkeys(words))",
            ),
            (
                "Leave out every word that occurs more than once in the text, with all of its copies.",
                _only("words.count(w) == 1"),
            ),
            (
                "Leave out a word that is equal to the word right before it.",
                "words = [w for i, w in enumerate(words) if i == 0 or w != words[i - 1]]",
            ),
        )
    ),
    Step(
        wish_topic(
            "numerals",
            ("What about numbers in the text?", "Do digits stay in?"),
            "Digits are characters like all others.",
            ("Leave out every word that consists of digits only.", _only("not w.isdigit()")),
            ("Leave out every word that has a digit anywhere in it.", _only("not any(c.isdigit() for c in w)")),
            ("Move every word that consists of digits only behind all other words.", _last("w.isdigit()")),
            ('Write "N" instead of every word that consists of digits only.', _each('"N" if w.isdigit() else w')),
        )
    ),
    Step(
        wish_topic(
            "hyphens",
            ("Is a word with a hyphen one word or two?", "What about hyphens?"),
            "A hyphen is a character like all others.",
            (
                'Split words at their hyphens: "e-mail" becomes the two words "e" and "mail".',
                'words = [part for w in words for part in w.split("-")]',
            ),
            ('Delete all hyphens inside the words: "e-mail" becomes "email".', _each('w.replace("-", "")')),
            (
                'Of a word with hyphens use only what stands before the first one: "e-mail" becomes "e".',
                _each('w.split("-")[0]'),
            ),
            ("Leave out every word that has a hyphen in it.", _only('"-" not in w')),
        )
    ),
    Step(
        wish_topic(
            "shorthand",
            ("Are there abbreviations to use?", "Is any word replaced by a shorter form?"),
            "Every word is written out as it is.",
            ('Write "&" instead of the word "and".', _short("and", "&")),
            ('Write "o." instead of the word "of".', _short("of", "o.")),
            ('Write "4" instead of the word "for".', _short("for", "4")),
            ('Write "th" instead of the word "the".', _short("the", "th")),
        )
    ),
    Step(
        wish_topic(
            "hashtags",
            ("What about hash tags?", "How do I treat words that start with #?"),
            "Hash tags are words like all others.",
            ("Leave out every word that starts with #.", _only('not w.startswith("#")')),
            ('Remove the # from the start of every word that has one there: "#now" becomes "now".', _each('w.lstrip("#")')),
            ("Move every word that starts with # behind all other words.", _last('w.startswith("#")')),
            ('Write "TAG" instead of every word that starts with #.', _each('"TAG" if w.startswith("#") else w')),
        )
    ),
    Step(
        wish_topic(
            "mentions",
            ("What about names with an @?", "How do I treat mentions of users?"),
            "Mentions are words like all others.",
            ("Leave out every word that starts with @.", _only('not w.startswith("@")')),
            ('Remove the @ from the start of every word that has one there: "@anna" becomes "anna".', _each('w.lstrip("@")')),
            ('Write "YOU" instead of every word that starts with @.', _each('"YOU" if w.startswith("@") else w')),
            ("Move every word that starts with @ behind all other words.", _last('w.startswith("@")')),
        )
    ),
    Step(
        wish_topic(
            "arrangement",
            ("In which order do the words come?", "Should the words be sorted?"),
            "The words keep their order.",
            (
                "After any other change to the words, sort them with Python's sorted; only then make the line.",
                "words = sorted(words)",
            ),
            (
                "After any other change to the words, reverse their order, so that the last word comes first; only then make the line.",
                "words = words[::-1]",
            ),
            (
                "After any other change to the words, sort them by length, shortest first; only then make the line.",
                "words = sorted(words, key=len)",
            ),
            (
                "After any other change to the words, sort them by length, longest first; only then make the line.",
                "words = sorted(words, key=lambda w: -len(w))",
            ),
        ),
        order=1,
    ),
)
_AFTER = (
    Step(
        wish_topic(
            "width",
            ("How long may the line be?", "Is there a longest allowed length?"),
            "The line may have any length.",
            (
                "Cut the joined line down to its first 12 characters, before anything is added to it.",
                "line = line[:12]",
            ),
            (
                "Cut the joined line down to its first 20 characters, before anything is added to it.",
                "line = line[:20]",
            ),
            (
                "Cut the joined line down to its first 25 characters, before anything is added to it.",
                "line = line[:25]",
            ),
            (
                "Cut the joined line down to its last 15 characters, before anything is added to it.",
                "line = line[-15:]",
            ),
        ),
        order=2,
    ),
    Step(
        wish_topic(
            "prefix",
            ("Does anything come in front of the line?", "What does the line start with?"),
            "Nothing comes in front.",
            ('Add "NEW:" directly in front of the line, without a blank.', 'line = "NEW:" + line'),
            ('Add "id_" directly in front of the line, without a blank.', 'line = "id_" + line'),
            ('Add ">>" directly in front of the line, without a blank.', 'line = ">>" + line'),
            ("Add one star directly in front of the line, without a blank.", 'line = "*" + line'),
        ),
        order=3,
    ),
    Step(
        wish_topic(
            "closing",
            ("Does anything come behind the line?", "Does the line end with a dot?"),
            "Nothing comes behind the line.",
            ("Add one dot directly behind the line, even where another mark ends it.", 'line = line + "."'),
            ("Add three dots directly behind the line, even where another mark ends it.", 'line = line + "..."'),
            ("Add an exclamation mark directly behind the line, even where another mark ends it.", 'line = line + "!"'),
            ('Add "_end" directly behind the line, even where another mark ends it.', 'line = line + "_end"'),
        ),
        order=3,
    ),
    Step(
        wish_topic(
            "quotes",
            ("Do you want quotes or brackets around the line?", "Is the line enclosed in anything?"),
            "Nothing stands around the line.",
            ("Put double quotes around the line, outside of any prefix or ending.", "line = '\"' + line + '\"'"),
            ("Put single quotes around the line, outside of any prefix or ending.", 'line = "\'" + line + "\'"'),
            ("Put round brackets around the line, outside of any prefix or ending.", 'line = "(" + line + ")"'),
            ("Put square brackets around the line, outside of any prefix or ending.", 'line = "[" + line + "]"'),
        ),
        order=4,
    ),
    Step(
        wish_topic(
            "padding",
            ("Should the line be padded?", "Is a short line filled up?"),
            "A short line stays short.",
            ('Last of all, put dots, ".", behind the line until it has 60 characters.', 'line = line.ljust(60, ".")'),
            ('Last of all, put dots, ".", in front of the line until it has 60 characters.', 'line = line.rjust(60, ".")'),
            ('Last of all, put stars, "*", behind the line until it has 70 characters.', 'line = line.ljust(70, "*")'),
            ('Last of all, put stars, "*", in front of the line until it has 70 characters.', 'line = line.rjust(70, "*")'),
        ),
        order=5,
    ),
    Step(
        wish_topic(
            "package",
            ("In which form do you want it back?", "Do you want only the line back, or more?"),
            "Give the line alone.",
            ("Return a tuple of two: the finished line, and how many characters it has.", "line = (line, len(line))"),
            ("Return a list with a single entry, the finished line.", "line = [line]"),
            ('Return a dict with a single key, "line", for the finished line.', 'line = {"line": line}'),
            ("Return a tuple of two: the finished line, and the same line in capital letters.", "line = (line, line.upper())"),
        ),
        order=6,
    ),
)
TEXTS = Shape(
    name="texts",
    bases=(
        _base("make_label", "one blank", " ", "red house"),
        _base("make_handle", "a hyphen", "-", "red-house"),
        _base("make_path", "a slash", "/", "red/house"),
        _base("make_record", "a semicolon", ";", "red;house"),
    ),
    before=_BEFORE,
    after=_AFTER,
    result="line",
    opening=("words = text.split()",),
)
