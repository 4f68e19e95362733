"""Leaderboards, medals, grades and penalties."""

from __future__ import annotations

from collections.abc import Sequence

from colbench_gym.tasks.families.family import Family, Option, Topic
from colbench_gym.tasks.families.text import keep_first, letter_case
from colbench_gym.tasks.families.topics import cap, floor


def ties(kinds: Sequence[str]) -> Topic:
    """Sort key of (name, number) rows, inline; `kinds` selects from name, lowest and alphabet."""
    wishes = {
        "name": Option("Highest number first, and rows with equal numbers by name from A to Z.", {"ties": "(-row[1], row[0])"}),
        "lowest": Option("Lowest number first, and equal ones stay in the order in which they first came.", {"ties": "row[1]"}),
        "alphabet": Option("Sort the rows by name from A to Z and pay no attention to the numbers.", {"ties": "row[0]"}),
    }
    return Topic(
        "ties",
        ("In which order are rows with equal numbers?", "How should I sort the rows?"),
        (
            Option("Highest number first, and equal ones stay in the order in which they first came.", {"ties": "-row[1]"}),
            *(wishes[kind] for kind in kinds),
        ),
    )


FAMILIES = (
    Family(
        name="leaderboard",
        area="ranking",
        request="Make the leaderboard of our game night out of a list of results, pairs of player and points. Best result on top.",
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
                    Option("Weak results are shown like all others.", {}),
                    Option(
                        "First of all drop results under 10 points; exactly 10 stays.",
                        {"minimum": "if points < 10:\n    continue"},
                    ),
                    Option(
                        "First of all drop results with negative points; zero stays.",
                        {"minimum": "if points < 0:\n    continue"},
                    ),
                ),
            ),
            Topic(
                "again",
                ("What about a player with several results?", "Can a player be listed twice?"),
                (
                    Option("A player is listed once for each result.", {}),
                    Option(
                        "List each player once, with the last of the results in the list, not the best.",
                        {"again": "rows = list(dict(rows).items())"},
                    ),
                ),
            ),
            ties(("name",)),
            keep_first("rows", (3,), "rows", ", after sorting them"),
            Topic(
                "show",
                ("What should each row show?", "Do you want points and places in the list?"),
                (
                    Option("Each row is a pair of player and points.", {}),
                    Option(
                        "Each row is only the name of the player, without the points.",
                        {"show": "rows = [row[0] for row in rows]"},
                    ),
                    Option(
                        "Each row is place, player and points; places are 1, 2, 3 and so on, also for equal points.",
                        {"show": "rows = [(place, *row) for place, row in enumerate(rows, 1)]"},
                    ),
                ),
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
        request="I need the medal table of our games as sorted pairs of team and count. "
        "The list of medals has pairs of team and kind, which is gold, silver or bronze.",
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
                    Option("Every medal counts 1, whatever its kind.", {"points": "1"}),
                    Option("A gold medal counts 3, every other medal counts 1.", {"points": '(3 if kind == "gold" else 1)'}),
                    Option("A gold medal counts 5, every other medal counts 2.", {"points": '(5 if kind == "gold" else 2)'}),
                ),
            ),
            Topic(
                "skip",
                ("Do all medals count?", "Should any medals be left out?"),
                (
                    Option("No medals are left out of the table.", {}),
                    Option(
                        "Skip bronze medals, so a team with nothing but bronze is not in the table.",
                        {"skip": 'if kind == "bronze":\n    continue'},
                    ),
                ),
            ),
            letter_case("team", "the team", ("upper",)),
            ties(("name", "alphabet")),
            keep_first("rows", (3,), "rows", ", after sorting them"),
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
        request="Add up the penalty points of a driver. The list of offences has pairs of points and how many months ago it was.",
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
                    Option(
                        "Offences from more than 20 months ago give no points; exactly 20 still counts.",
                        {"old": "if months > 20:\n    continue"},
                    ),
                    Option(
                        "First of all halve the points of offences from more than 20 months ago; exactly 20 counts in full.",
                        {"old": "if months > 20:\n    points = points / 2"},
                    ),
                ),
            ),
            Topic(
                "heavy",
                ("Do heavy offences count more?", "Are many points in one offence treated differently?"),
                (
                    Option("Heavy offences count with their points as they are.", {}),
                    Option(
                        "An offence that still has 5 points or more after any change for its age counts double.",
                        {"heavy": "if points >= 5:\n    points = points * 2"},
                    ),
                    Option(
                        "After any change for its age, no single offence counts more than 3 points.",
                        {"heavy": "points = min(points, 3)"},
                    ),
                ),
            ),
            Topic(
                "many",
                ("Is there extra for many offences?", "Does the number of offences matter?"),
                (
                    Option("The number of offences does not matter.", {}),
                    Option(
                        "Add 5 points to the sum for more than 3 offences in the list, old ones included.",
                        {"many": "if len(offences) > 3:\n    total += 5"},
                    ),
                ),
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
        request="Turn a table from student to points into a table from student to grade. "
        "From 50 points upwards it is A, from 20 upwards it is B, else C.",
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
                    Option("Negative points are points like all others.", {}),
                    Option(
                        "Leave out students with negative points, looked at before any points are added.",
                        {"absent": "if points < 0:\n    continue"},
                    ),
                ),
            ),
            Topic(
                "extra",
                ("Does everybody get extra points?", "Should I change the points first?"),
                (
                    Option("Nobody gets extra points.", {}),
                    Option("Add 2 points for everybody before looking for the grade.", {"extra": "points += 2"}),
                    Option("Add 5 points for everybody before looking for the grade.", {"extra": "points += 5"}),
                ),
            ),
            Topic(
                "top",
                ("Is there a grade better than A?", "How do you mark very good students?"),
                (
                    Option("There is no grade better than A.", {}),
                    Option(
                        "From 100 points upwards, any extra points included, put a plus sign right behind the letter A.",
                        {"top": 'if points >= 100:\n    grade = grade + "+"'},
                    ),
                ),
            ),
            Topic(
                "low",
                ("Is there a grade worse than C?", "How do you mark very weak students?"),
                (
                    Option("There is no grade worse than C.", {}),
                    Option(
                        "Under 10 points, any extra points included, the grade is D; exactly 10 is not.",
                        {"low": 'if points < 10:\n    grade = "D"'},
                    ),
                ),
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
