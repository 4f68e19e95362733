"""Lending and rentals: late fees, holds, reading lists and labels."""

from __future__ import annotations

from colbench_gym.tasks.families.family import Family, Option, Topic
from colbench_gym.tasks.families.topics import cap, rounding
from colbench_gym.tasks.families.travel import blanks, first_few, in_words, letter_case

FAMILIES = (
    Family(
        name="overdue_charge",
        area="library",
        request="Members bring things back late. For each loan I have first the days late and then the fee per day. "
        "Each loan costs its days times its fee; what do they owe for all loans together?",
        signature="def overdue_charge(loans)",
        template="""
def overdue_charge(loans):
    total = 0
    for days, rate in loans:
        {grace}
        fee = days * rate
        {most}
        total += fee
    {waiver}
    {rounding}
    {cap}
    return total
""",
        topics=(
            Topic(
                "grace",
                ("Are the first days free?", "Is there a period of grace?"),
                (
                    Option("Every late day counts.", {}),
                    Option(
                        "In each loan the first 3 late days are free: charge only the days after them, and nothing for 3 days or less.",
                        {"grace": "days = max(days - 3, 0)"},
                    ),
                    Option(
                        "A loan that is less than 5 days late costs nothing; from 5 days on, charge for all its days.",
                        {"grace": "if days < 5:\n    continue"},
                    ),
                ),
            ),
            Topic(
                "most",
                ("Can one loan cost any amount?", "Is there a limit for a single loan?"),
                (
                    Option("A single loan can cost any amount.", {}),
                    Option(
                        "A loan never costs more than 10: if it comes out higher, it costs 10. The total may be higher.",
                        {"most": "fee = min(fee, 10)"},
                    ),
                    Option(
                        "A loan never costs more than 20: if it comes out higher, it costs 20. The total may be higher.",
                        {"most": "fee = min(fee, 20)"},
                    ),
                ),
            ),
            Topic(
                "waiver",
                ("Do you collect very small sums?", "Is a small total waived?"),
                (
                    Option("Collect small totals as well.", {}),
                    Option(
                        "When the total, before any rounding, is less than 5, charge nothing; otherwise charge it in full.",
                        {"waiver": "if total < 5:\n    total = 0"},
                    ),
                ),
            ),
            rounding("total", ("tenths", "up")),
            in_words(cap("total", (50,)), "What they owe in all is never more than 50: if it comes out higher, it is 50."),
        ),
        calls=(
            "overdue_charge([(6, 0.4375), (4, 0.3125)])",
            "overdue_charge([(2, 0.25), (60, 0.15625)])",
            "overdue_charge([(20, 0.515625), (5, 0.609375)])",
            "overdue_charge([(20, 0.671875)])",
            "overdue_charge([(25, 1.21875)])",
            "overdue_charge([(60, 0.875), (3, 2.125)])",
            "overdue_charge([(40, 0.75), (50, 0.625), (30, 1.125), (25, 0.875), (31, 1.3125), (44, 2)])",
            "overdue_charge([(8, 1.53125), (1, 0.4375), (6, 0.265625)])",
            "overdue_charge([(14, 0.90625), (4, 4.015625)])",
            "overdue_charge([(90, 1.0625), (12, 0.125)])",
        ),
    ),
    Family(
        name="reading_list",
        area="library",
        request="Our reading list is in a mess. Take the book titles and give them back sorted.",
        signature="def reading_list(titles)",
        template="""
def reading_list(titles):
    books = []
    for title in titles:
        {blanks}
        {case}
        {repeats}
        books.append(title)
    books.sort({order})
    {first}
    return books
""",
        topics=(
            blanks("titles", "if not title.strip():\n    continue"),
            letter_case("each title", "Before comparing or sorting", "title", ("lower", "title")),
            Topic(
                "repeats",
                ("What about titles that come up twice?", "Should repeated titles stay in?"),
                (
                    Option("Repeated titles stay in.", {}),
                    Option(
                        "Keep each title only once, comparing titles exactly as they are spelled in the finished list.",
                        {"repeats": "if title in books:\n    continue"},
                    ),
                ),
            ),
            Topic(
                "order",
                ("In which order should they be sorted?", "What should I sort by?"),
                (
                    Option("Sort from A to Z in the usual way, capital letters before small ones.", {}),
                    Option(
                        "Sort from Z to A, the exact reverse of the usual order, so small letters come before capital ones.",
                        {"order": "reverse=True"},
                    ),
                    Option(
                        "Sort by number of characters only, shortest title first; titles of equal length "
                        "keep the order in which I gave them.",
                        {"order": "key=len"},
                    ),
                ),
            ),
            first_few("titles", "After sorting", "books", (3, 5)),
        ),
        calls=(
            'reading_list(["Emma", "Dracula", "Walden", "Ulysses"])',
            'reading_list(["emma", "Persuasion", "Emma", "Mansfield Park"])',
            'reading_list(["Dune", "", "Solaris", "Kim"])',
            'reading_list(["Jane Eyre", "Villette", "Jane Eyre"])',
            'reading_list(["  ", "the trial", "The Castle"])',
            'reading_list(["Ivanhoe", "Rob Roy", "Waverley", "Kenilworth", "Redgauntlet", "Woodstock"])',
            'reading_list(["Hamlet", "macbeth", "Othello", "HAMLET", "King Lear", "hamlet", "Pericles"])',
            'reading_list(["Cranford"])',
            'reading_list(["Nana", "Germinal", "Nana", "La Terre", "The Debacle"])',
            'reading_list(["Middlemarch", "Romola", "", "adam bede", ""])',
        ),
    ),
    Family(
        name="hold_queue",
        area="library",
        request="People put holds on a book, each with first the name and then the day as a number. "
        "Tell me who is next, as a list of the names alone, earliest day first.",
        signature="def hold_queue(holds)",
        template="""
def hold_queue(holds):
    names = []
    for name, day in sorted(holds, key=lambda hold: {key}):
        {old}
        {again}
        names.append(name)
    {first}
    {place}
    return names
""",
        topics=(
            Topic(
                "tie",
                ("What if two people ask on the same day?", "Who goes first on the same day?"),
                (
                    Option("For holds of the same day, keep the order in which I gave them.", {"key": "hold[1]"}),
                    Option("For holds of the same day, go by name from A to Z.", {"key": "(hold[1], hold[0])"}),
                ),
            ),
            Topic(
                "old",
                ("Do old holds still count?", "Can a hold expire?"),
                (
                    Option("Old holds count as well.", {}),
                    Option(
                        "Leave out holds whose day is less than 5; day 5 itself counts.", {"old": "if day < 5:\n    continue"}
                    ),
                    Option(
                        "Leave out holds whose day is less than 10; day 10 itself counts.",
                        {"old": "if day < 10:\n    continue"},
                    ),
                ),
            ),
            Topic(
                "again",
                ("Can a person be in the queue twice?", "What about people who ask again?"),
                (
                    Option("A person may be in the queue more than once.", {}),
                    Option(
                        "If a name comes several times in the queue, keep only its first place.",
                        {"again": "if name in names:\n    continue"},
                    ),
                ),
            ),
            first_few("people", "When the queue is complete", "names", (2, 3)),
            Topic(
                "place",
                ("Do you want place numbers?", "Should I number the people?"),
                (
                    Option("Give only the names, no numbers.", {}),
                    Option(
                        "Make each entry of the list a pair: first the place, counted from 1, and then the name.",
                        {"place": "names = list(enumerate(names, 1))"},
                    ),
                ),
            ),
        ),
        calls=(
            'hold_queue([("Ann", 12), ("Bo", 7), ("Cy", 10)])',
            'hold_queue([("Dot", 11), ("Al", 11), ("Cas", 11)])',
            'hold_queue([("Eva", 3), ("Fay", 5), ("Gil", 15)])',
            'hold_queue([("Hana", 20), ("Ivo", 14), ("Hana", 16), ("Jan", 30)])',
            'hold_queue([("Kai", 4), ("Leo", 22), ("Kai", 9), ("Leo", 22)])',
            'hold_queue([("Mia", 13), ("Noa", 2), ("Ole", 13), ("Liv", 13), ("Noa", 17)])',
            'hold_queue([("Pam", 18), ("Quin", 10), ("Rhea", 25), ("Sid", 21)])',
            'hold_queue([("Tom", 50)])',
            'hold_queue([("Uwe", 6), ("Vi", 19), ("Uwe", 12), ("Abe", 19)])',
            'hold_queue([("Wim", 1), ("Xia", 10), ("Yan", 8), ("Zoe", 10), ("Bea", 10), ("Xia", 11)])',
        ),
    ),
    Family(
        name="catalogue_label",
        area="library",
        request="Make the label of a book: its title, its author and the year, with a comma and a space between each two of these three, "
        "like Emma, Jane Austen, 1815.",
        signature="def catalogue_label(title, author, year)",
        template="""
def catalogue_label(title, author, year):
    {long}
    {author}
    {blanks}
    parts = [title, author, str(year)]
    {year}
    label = ", ".join(parts)
    {case}
    return label
""",
        topics=(
            Topic(
                "long",
                ("What about long titles?", "Is there a limit for the title?"),
                (
                    Option("Give the title in full.", {}),
                    Option(
                        "Keep only the first 10 characters of the title, spaces included, and put nothing "
                        "in place of the rest.",
                        {"long": "title = title[:10]"},
                    ),
                    Option(
                        "Keep only the first 20 characters of the title, spaces included, and put nothing "
                        "in place of the rest.",
                        {"long": "title = title[:20]"},
                    ),
                ),
            ),
            Topic(
                "author",
                ("Should the author's name be in full?", "Can I shorten the author?"),
                (
                    Option("Give the author in full.", {}),
                    Option("Shorten the author's name to its first 5 letters.", {"author": "author = author[:5]"}),
                    Option("Shorten the author's name to its first 3 letters.", {"author": "author = author[:3]"}),
                ),
            ),
            Topic(
                "blanks",
                ("What about a missing author?", "How do I treat an empty author?"),
                (
                    Option("An empty author stays empty, between its two commas.", {}),
                    Option(
                        "When the author is empty, write the word unknown, always in full.",
                        {"blanks": 'if not author:\n    author = "unknown"'},
                    ),
                ),
            ),
            Topic(
                "year",
                ("How should the year be written?", "Does the year go at the end?"),
                (
                    Option("Give the year in full at the end.", {}),
                    Option(
                        "At the end give only the last 2 digits of the year, like 15 for 1815.",
                        {"year": "parts[2] = parts[2][-2:]"},
                    ),
                    Option("Leave out the year, together with the comma before it.", {"year": "parts = parts[:2]"}),
                ),
            ),
            letter_case("the whole label", "At the very end", "label", ("upper",)),
        ),
        calls=(
            'catalogue_label("Dracula", "Bram Stoker", 1897)',
            'catalogue_label("Beowulf", "", 1000)',
            'catalogue_label("Great Expectations", "Charles Dickens", 1861)',
            'catalogue_label("The Count of Monte Cristo", "Alexandre Dumas", 1846)',
            'catalogue_label("Njal", "", 1280)',
            'catalogue_label("Around the World in Eighty Days", "Jules Verne", 1872)',
            'catalogue_label("Kim", "Rudyard Kipling", 1901)',
            'catalogue_label("Middlemarch", "George Eliot", 1871)',
            'catalogue_label("The Thousand and One Nights", "", 1706)',
            'catalogue_label("Candide", "Voltaire", 1759)',
        ),
    ),
)
