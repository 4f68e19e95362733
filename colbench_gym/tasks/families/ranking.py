"""Leaderboards, medals, grades and penalties."""

from __future__ import annotations

from collections.abc import Sequence

from colbench_gym.tasks.families.family import Family, Option, Topic
from colbench_gym.tasks.families.text import keep_first, letter_case
from colbench_gym.tasks.families.topics import cap, floor


def ties(kinds: Sequence[str]) -> Topic:
    """Sort key of rows of a name and a number, inline; `kinds` picks from name, lowest and alphabet."""
    wishes = {
        "name": Option("Sort rows with equal numbers by name.", {"ties": "(-row[1], row[0])"}),
        "lowest": Option("Put the lowest number first.", {"ties": "row[1]"}),
        "alphabet": Option("Sort by name only.", {"ties": "row[0]"}),
    }
    return Topic(
        "ties",
        ("In which order are rows with equal numbers?", "How should I sort the rows?"),
        (Option("Highest number first, equal ones stay as they come.", {"ties": "-row[1]"}), *(wishes[kind] for kind in kinds)),
        ("ties", "tie", "equal", "same", "order", "sort", "sorted", "name", "highest", "lowest"),
    )


FAMILIES = (
    Family(
        name="leaderboard",
        area="ranking",
        request="Make the leaderboard of our game night out of pairs of player and points, best result on top.",
        signature="def leaderboard(results)",
        template="""
def leaderboard(results):
    rows = []
    for name, points in results:
        {minimum}
        rows.append((name, points))
    {again}
    rows = sorted(rows, key=lambda row: {ties})
    {length}
    {show}
    return rows
""",
        topics=(
            Topic(
                "minimum",
                ("Should weak results be left out?", "Do you want players with few points on the list?"),
                (
                    Option("All results are shown.", {}),
                    Option("Skip points under 10.", {"minimum": "if points < 10:\n    continue"}),
                    Option("Skip negative points.", {"minimum": "if points < 0:\n    continue"}),
                ),
                ("minimum", "weak", "few", "under", "negative", "leave", "low"),
            ),
            Topic(
                "again",
                ("What about a player with several results?", "Can a player be listed twice?"),
                (
                    Option("A player may be listed several times.", {}),
                    Option("Only the last result of a player counts.", {"again": "rows = list(dict(rows).items())"}),
                ),
                ("several", "twice", "again", "same", "last", "duplicate", "once"),
            ),
            ties(("name",)),
            keep_first("rows", (3,), "rows"),
            Topic(
                "show",
                ("What should each row show?", "Do you want points and places in the list?"),
                (
                    Option("Show pairs of player and points.", {}),
                    Option("Show only the names.", {"show": "rows = [row[0] for row in rows]"}),
                    Option(
                        "Put the place in front of every row, from 1.",
                        {"show": "rows = [(place, *row) for place, row in enumerate(rows, 1)]"},
                    ),
                ),
                ("show", "place", "places", "names", "rank", "number"),
            ),
        ),
        calls=(
            "leaderboard([('Tom', 20), ('Ann', 50), ('Lee', 5)])",
            "leaderboard([('Zoe', 30), ('Bob', 30), ('Zoe', 10)])",
            "leaderboard([('Kim', 12), ('Max', -3), ('Ida', 100), ('Gus', 9)])",
            "leaderboard([('Roy', 200), ('Amy', 200), ('Eve', 250), ('Jon', 20), ('Kay', 50)])",
            "leaderboard([('Tim', 20), ('Sam', -10), ('Pia', 20)])",
            "leaderboard([('Una', 100), ('Ray', 70), ('Una', 80), ('Hal', 10)])",
            "leaderboard([('Fay', 3), ('Dan', 50), ('Cal', 3)])",
            "leaderboard([('Ben', 40), ('Al', 40), ('Jo', 20), ('Bo', 10), ('Al', 60)])",
            "leaderboard([('Lou', -5), ('Sue', 11), ('Lou', 33)])",
            "leaderboard([('Vic', 500), ('Wes', 2), ('Nia', 500), ('Ora', 250)])",
        ),
    ),
    Family(
        name="medal_table",
        area="ranking",
        request="I need the medal table of our games as sorted pairs of team and count. Medals are pairs of team and kind.",
        signature="def medal_table(medals)",
        template="""
def medal_table(medals):
    table = {}
    for team, kind in medals:
        {skip}
        {case}
        table[team] = table.get(team, 0) + {points}
    rows = sorted(table.items(), key=lambda row: {ties})
    {length}
    return rows
""",
        topics=(
            Topic(
                "points",
                ("Does gold count more than other medals?", "Are all medals worth the same?"),
                (
                    Option("Every medal counts 1.", {"points": "1"}),
                    Option("Gold counts 3, all other medals count 1.", {"points": '(3 if kind == "gold" else 1)'}),
                    Option("Gold counts 5, all other medals count 2.", {"points": '(5 if kind == "gold" else 2)'}),
                ),
                ("gold", "worth", "more", "count", "points"),
            ),
            Topic(
                "skip",
                ("Do all medals count?", "Should any medals be left out?"),
                (
                    Option("All medals count.", {}),
                    Option("Skip bronze medals.", {"skip": 'if kind == "bronze":\n    continue'}),
                ),
                ("skip", "bronze", "leave", "all"),
            ),
            letter_case("team", "the team", ("upper",)),
            ties(("name", "alphabet")),
            keep_first("rows", (3,), "rows"),
        ),
        calls=(
            "medal_table([('red', 'gold'), ('blue', 'silver'), ('red', 'bronze')])",
            "medal_table([('north', 'silver'), ('east', 'bronze'), ('west', 'gold'), ('south', 'silver')])",
            "medal_table([('Lions', 'bronze'), ('Bears', 'gold'), ('Bears', 'gold')])",
            "medal_table([('red', 'silver'), ('red', 'gold'), ('green', 'silver')])",
            "medal_table([('oak', 'gold'), ('elm', 'gold'), ('ash', 'silver'), ('oak', 'silver'), ('fir', 'gold')])",
            "medal_table([('jets', 'silver'), ('cats', 'silver'), ('cats', 'bronze')])",
            "medal_table([('pink', 'bronze'), ('gray', 'gold'), ('pink', 'silver')])",
            "medal_table([('b', 'silver'), ('a', 'silver'), ('c', 'gold'), ('d', 'bronze'), ('c', 'silver')])",
            "medal_table([('sun', 'gold'), ('moon', 'silver'), ('star', 'gold'), ('sun', 'gold'), ('sky', 'silver')])",
            "medal_table([('ice', 'silver'), ('ice', 'silver'), ('fire', 'gold')])",
        ),
    ),
    Family(
        name="penalty_points",
        area="ranking",
        request="Add up the penalty points of a driver. Every offence comes as points and how many months ago it was.",
        signature="def penalty_points(offences)",
        template="""
def penalty_points(offences):
    total = 0
    for points, months in offences:
        {old}
        {heavy}
        total += points
    {many}
    {cap}
    {floor}
    return total
""",
        topics=(
            Topic(
                "old",
                ("Do old offences still count?", "Does it matter how long ago it was?"),
                (
                    Option("Old offences count like new ones.", {}),
                    Option("Skip offences from more than 20 months ago.", {"old": "if months > 20:\n    continue"}),
                    Option("Beyond 20 months count only half the points.", {"old": "if months > 20:\n    points = points / 2"}),
                ),
                ("old", "months", "ago", "long", "half", "expire"),
            ),
            Topic(
                "heavy",
                ("Do heavy offences count more?", "Are many points in one offence treated differently?"),
                (
                    Option("Heavy offences count as they are.", {}),
                    Option("From 5 points upwards count double.", {"heavy": "if points >= 5:\n    points = points * 2"}),
                    Option("Count at most 3 points for one offence.", {"heavy": "points = min(points, 3)"}),
                ),
                ("heavy", "more", "double", "single", "one"),
            ),
            Topic(
                "many",
                ("Is there extra for many offences?", "Does the number of offences matter?"),
                (
                    Option("The number of offences does not matter.", {}),
                    Option("Add 5 points for more than 3 offences.", {"many": "if len(offences) > 3:\n    total += 5"}),
                ),
                ("many", "number", "extra", "more", "add"),
            ),
            cap("total", (10,)),
            floor("total", (2,)),
        ),
        calls=(
            "penalty_points([(1, 3)])",
            "penalty_points([(3, 5), (2, 30)])",
            "penalty_points([(5, 12)])",
            "penalty_points([(6, 2), (3, 25)])",
            "penalty_points([(1, 20), (1, 24), (2, 8), (1, 1), (1, 2)])",
            "penalty_points([(4, 3), (3, 21)])",
            "penalty_points([(3, 1), (3, 2), (3, 3), (3, 15), (2, 4)])",
            "penalty_points([(20, 10)])",
            "penalty_points([(3, 22), (1, 5)])",
            "penalty_points([(2, 50), (3, 6), (3, 40)])",
        ),
    ),
    Family(
        name="class_grades",
        area="ranking",
        request="Turn a table from student to points into a table of grades. From 50 points it is A, from 20 it is B, else C.",
        signature="def class_grades(results)",
        template="""
def class_grades(results):
    grades = {}
    for name, points in results.items():
        {absent}
        {extra}
        grade = "A" if points >= 50 else "B" if points >= 20 else "C"
        {top}
        {low}
        {case}
        grades[name] = grade
    return grades
""",
        topics=(
            Topic(
                "absent",
                ("What do negative points mean?", "What about students who were absent?"),
                (
                    Option("Negative points count as they are.", {}),
                    Option("Skip negative points.", {"absent": "if points < 0:\n    continue"}),
                ),
                ("negative", "absent", "zero", "below", "skip"),
            ),
            Topic(
                "extra",
                ("Does everybody get extra points?", "Should I change the points first?"),
                (
                    Option("Points stay as they are.", {}),
                    Option("Add 2 points for everybody.", {"extra": "points += 2"}),
                    Option("Add 5 points for everybody.", {"extra": "points += 5"}),
                ),
                ("extra", "add", "bonus", "everybody", "change"),
            ),
            Topic(
                "top",
                ("Is there a grade better than A?", "How do you mark very good students?"),
                (
                    Option("The best grade is A.", {}),
                    Option(
                        "From 100 upwards put a plus behind the grade.", {"top": 'if points >= 100:\n    grade = grade + "+"'}
                    ),
                ),
                ("better", "best", "plus", "top", "good"),
            ),
            Topic(
                "low",
                ("Is there a grade worse than C?", "How do you mark very weak students?"),
                (
                    Option("The worst grade is C.", {}),
                    Option("Under 10 points the grade is D.", {"low": 'if points < 10:\n    grade = "D"'}),
                ),
                ("worse", "worst", "weak", "low", "fail"),
            ),
            letter_case("name", "the name", ("upper", "title")),
        ),
        calls=(
            "class_grades({'ann': 70, 'bob': 18, 'cal': 4})",
            "class_grades({'tom': 45, 'kim': 120, 'lee': -10})",
            "class_grades({'zoe': 100, 'max': 48})",
            "class_grades({'ida': 15, 'gus': 5, 'roy': 98})",
            "class_grades({'amy': -50, 'eve': 50})",
            "class_grades({'jon': 20, 'kay': 10, 'tim': 500})",
            "class_grades({'sam': 3, 'pia': 19})",
            "class_grades({'una': 46, 'ray': -20, 'hal': 8})",
            "class_grades({'fay': 95, 'dan': 16})",
            "class_grades({'ben lowe': 250, 'al': 2})",
        ),
    ),
)
