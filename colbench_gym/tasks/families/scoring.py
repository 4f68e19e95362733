"""Scores, ratings and points for one person or thing."""

from __future__ import annotations

from collections.abc import Sequence

from colbench_gym.tasks.families.family import Family, Option, Topic
from colbench_gym.tasks.families.topics import cap, floor, rounding


def few(variable: str, things: str, options: Sequence[tuple[int, str]]) -> Topic:
    """Too few `things` in the list `variable`; one special wish for each limit and value to return (None or a number)."""
    wishes = (
        Option(
            f"With fewer than {limit} {things} return {'nothing at all' if value == 'None' else value}; "
            "count them after skipping any but before leaving any out.",
            {"few": f"if len({variable}) < {limit}:\n    return {value}"},
        )
        for limit, value in options
    )
    return Topic(
        "few",
        (f"What if there are very few {things}?", f"How many {things} are needed?"),
        (Option(f"Any number of {things} will do.", {}), *wishes),
    )


FAMILIES = (
    Family(
        name="weighted_score",
        area="scoring",
        request="Work out the overall score of a supplier from pairs of points and weight. "
        "It is the weighted average, points times weight added up and divided by the sum of the weights.",
        signature="def weighted_score(marks)",
        template="""
def weighted_score(marks):
    {negative}
    {few}
    {lowest}
    weights = sum(weight for points, weight in marks)
    score = sum(points * weight for points, weight in marks)
    score = score / weights
    {rounding}
    {cap}
    return score
""",
        topics=(
            Topic(
                "negative",
                ("What about negative points?", "Can points be below zero?"),
                (
                    Option("Negative points count as they are.", {}),
                    Option(
                        "First of all skip every pair with negative points, along with its weight.",
                        {"negative": "marks = [row for row in marks if row[0] >= 0]"},
                    ),
                ),
            ),
            Topic(
                "lowest",
                ("Do all points count?", "Should the lowest or highest points be left out?"),
                (
                    Option("All pairs count, the lowest and the highest too.", {}),
                    Option(
                        "Leave out the one pair with the lowest points, along with its weight.",
                        {"lowest": "marks = sorted(marks)[1:]"},
                    ),
                    Option(
                        "Leave out the one pair with the highest points, along with its weight.",
                        {"lowest": "marks = sorted(marks)[:-1]"},
                    ),
                ),
            ),
            rounding("score", ("tenths", "down")),
            cap("score", (100,)),
            few("marks", "pairs", ((3, "None"),)),
        ),
        calls=(
            "weighted_score([(30, 2), (75, 1)])",
            "weighted_score([(70, 1), (81, 3), (45, 2)])",
            "weighted_score([(-20, 2), (60, 3), (-5, 1), (33, 1)])",
            "weighted_score([(120, 2), (150, 1), (130, 4)])",
            "weighted_score([(10, 5), (22, 2), (35, 4)])",
            "weighted_score([(50, 3), (20, 3), (5, 1)])",
            "weighted_score([(99, 1), (-50, 2), (88, 4), (17, 2)])",
            "weighted_score([(8, 1), (7, 2), (3, 4), (5, 4)])",
            "weighted_score([(250, 1), (110, 2), (105, 5)])",
            "weighted_score([(12, 3), (40, 1), (28, 3)])",
        ),
    ),
    Family(
        name="star_rating",
        area="scoring",
        request="Show how many stars a product has, the average of the list of stars that customers gave.",
        signature="def star_rating(stars)",
        template="""
def star_rating(stars):
    {zeros}
    {few}
    {trim}
    total = sum(stars)
    rating = total / len(stars)
    {rounding}
    {floor}
    return rating
""",
        topics=(
            Topic(
                "zeros",
                ("What do zero stars mean?", "Should zeros count?"),
                (
                    Option("Zero stars count like all others.", {}),
                    Option(
                        "First of all skip zeros, as if nobody had given them.",
                        {"zeros": "stars = [star for star in stars if star > 0]"},
                    ),
                ),
            ),
            few("stars", "ratings", ((5, "None"), (5, "3"))),
            Topic(
                "trim",
                ("Do all ratings count?", "Should some ratings be left out?"),
                (
                    Option("No rating is left out for being the best, the worst or an early one.", {}),
                    Option(
                        "Leave out one best and one worst rating before taking the average.",
                        {"trim": "stars = sorted(stars)[1:-1]"},
                    ),
                    Option(
                        "Leave out all ratings but the last 3 in the list before taking the average.",
                        {"trim": "stars = stars[-3:]"},
                    ),
                ),
            ),
            rounding("rating", ("tenths", "whole")),
            floor("rating", (2,)),
        ),
        calls=(
            "star_rating([5, 4, 2])",
            "star_rating([4, 5, 3, 3, 5, 5, 1])",
            "star_rating([1, 3, 2, 0, 1, 1, 1, 1])",
            "star_rating([0, 5, 5, 4, 3, 4, 2, 4])",
            "star_rating([1, 4, 5, 5, 5, 5])",
            "star_rating([1, 2, 1, 2, 1, 1])",
            "star_rating([5, 5, 1, 2, 2, 0, 4])",
            "star_rating([2, 3, 3, 5, 4, 3])",
            "star_rating([5, 0, 5, 4, 5, 2, 3, 2, 2])",
            "star_rating([1, 2, 1, 1, 2, 1, 4])",
        ),
    ),
    Family(
        name="quiz_score",
        area="scoring",
        request="Count the points of a quiz. Answers and solution are texts with one letter for each question, in the same order. "
        "An answer is right when it is the letter of the solution.",
        signature="def quiz_score(answers, solution)",
        template="""
def quiz_score(answers, solution):
    score = 0
    {case}
    for given, right in zip(answers, solution):
        if given == right:
            score += {points}
        {wrong}
    {bonus}
    {cap}
    return score
""",
        topics=(
            Topic(
                "points",
                ("How many points does a right answer give?", "Is a right answer worth just one point?"),
                (
                    Option("Each right answer gives 1 point.", {"points": "1"}),
                    Option("Each right answer gives 2 points.", {"points": "2"}),
                    Option("Each right answer gives 5 points.", {"points": "5"}),
                ),
            ),
            Topic(
                "wrong",
                ("Do wrong answers cost anything?", "Is there a penalty for wrong answers?"),
                (
                    Option("Wrong answers cost nothing.", {}),
                    Option(
                        "Everything that is not right, a dash too, takes off 1 point, and the score may go below zero.",
                        {"wrong": "else:\n    score -= 1"},
                    ),
                    Option(
                        "A wrong answer takes off 1 point, even below zero, but a dash means no answer and costs nothing.",
                        {"wrong": 'elif given != "-":\n    score -= 1'},
                    ),
                ),
            ),
            Topic(
                "case",
                ("Do small letters count as well?", "What about capital and small letters in the answers?"),
                (
                    Option("Only the very same letter is right, a small letter is not its capital.", {}),
                    Option(
                        "Turn small letters in the answers into capital letters before comparing them with the solution.",
                        {"case": "answers = answers.upper()"},
                    ),
                ),
            ),
            Topic(
                "bonus",
                ("Is there a bonus when all is right?", "Do you give extra points?"),
                (
                    Option("There is no bonus.", {}),
                    Option(
                        "Add 5 points to the score when all answers are right.",
                        {"bonus": "if answers == solution:\n    score += 5"},
                    ),
                ),
            ),
            cap("score", (10,)),
        ),
        calls=(
            "quiz_score('ABCD', 'ABDD')",
            "quiz_score('ab-D', 'ABCD')",
            "quiz_score('A', 'A')",
            "quiz_score('BD', 'BB')",
            "quiz_score('ABCDABCDABCDABC', 'ABCDABCDABCDABD')",
            "quiz_score('a--C-', 'ABCCD')",
            "quiz_score('DDDD--', 'DDDDAB')",
            "quiz_score('CCCCCCCCCCCCCCCC', 'CCCCCCCCCCCCCCCC')",
            "quiz_score('bcd', 'BCD')",
            "quiz_score('AC-DBA', 'ACBDBB')",
        ),
    ),
    Family(
        name="loyalty_points",
        area="scoring",
        request="Tell me how many loyalty points a customer earns with a list of purchases, each an amount in euros. "
        "One euro is one point.",
        signature="def loyalty_points(purchases)",
        template="""
def loyalty_points(purchases):
    points = 0
    for amount in purchases:
        {small}
        {double}
        points += amount
    {bonus}
    {rounding}
    {cap}
    return points
""",
        topics=(
            Topic(
                "small",
                ("Do small purchases earn points?", "What about returns with a negative amount?"),
                (
                    Option("Every amount counts, and a negative one lowers the points.", {}),
                    Option(
                        "Amounts under 5, negative ones too, earn and cost nothing; exactly 5 counts.",
                        {"small": "if amount < 5:\n    continue"},
                    ),
                    Option(
                        "Negative amounts earn and cost nothing; all others count.", {"small": "if amount < 0:\n    continue"}
                    ),
                ),
            ),
            Topic(
                "double",
                ("Do large purchases earn more?", "Is every euro worth the same?"),
                (
                    Option("Every euro earns one point, however large the purchase.", {}),
                    Option(
                        "The whole amount of a purchase of 100 or more counts double.",
                        {"double": "if amount >= 100:\n    amount = amount * 2"},
                    ),
                    Option(
                        "The whole amount of a purchase above 50, not exactly 50, counts double.",
                        {"double": "if amount > 50:\n    amount = amount * 2"},
                    ),
                ),
            ),
            Topic(
                "bonus",
                ("Is there a bonus for many purchases?", "Do you give extra points?"),
                (
                    Option("There is no bonus.", {}),
                    Option(
                        "Add 20 points once when the list holds 3 or more purchases, whatever their amounts.",
                        {"bonus": "if len(purchases) >= 3:\n    points += 20"},
                    ),
                ),
            ),
            rounding("points", ("down", "up")),
            cap("points", (250,)),
        ),
        calls=(
            "loyalty_points([12.5, 30.25])",
            "loyalty_points([3.5, 20])",
            "loyalty_points([100])",
            "loyalty_points([60.5, -10.25])",
            "loyalty_points([50, 2.75])",
            "loyalty_points([200.5, 180, 99])",
            "loyalty_points([15, 8.5, 5, 40.75])",
            "loyalty_points([-20, 75.5])",
            "loyalty_points([500])",
            "loyalty_points([0.5, 20, 5, 110.5])",
        ),
    ),
)
