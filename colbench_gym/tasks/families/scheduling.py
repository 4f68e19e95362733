"""Free time, shifts, overtime and due days."""

from __future__ import annotations

from colbench_gym.tasks.families.billing import first, order, reworded
from colbench_gym.tasks.families.family import Family, Option, Topic
from colbench_gym.tasks.families.topics import cap, empty, rounding

FAMILIES = (
    Family(
        name="free_slots",
        area="scheduling",
        request="Find the free times in someone's day. There are the busy times as pairs of start and end, "
        "not always sorted, then the start of the day and the end of the day, all in minutes.",
        signature="def free_slots(busy, start, end)",
        template="""
def free_slots(busy, start, end):
    slots = []
    for begin, finish in sorted(busy) + [(end, end)]:
        if begin > start:
            slots.append((start, begin))
        {pause}
        start = max(start, finish)
    {least}
    {order}
    {first}
    {show}
    return slots
""",
        topics=(
            Topic(
                "pause",
                ("Is a pause needed after a busy time?", "Can the free time begin right after a meeting?"),
                (
                    Option("No pause is needed, free time can begin as soon as a busy time ends.", {}),
                    Option(
                        "The 5 minutes after each busy time are a pause and not free; no pause is needed before a busy time.",
                        {"pause": "finish += 5"},
                    ),
                    Option(
                        "The 10 minutes after each busy time are a pause and not free; no pause is needed before a busy time.",
                        {"pause": "finish += 10"},
                    ),
                ),
            ),
            Topic(
                "least",
                ("Do very short gaps count?", "How long must a free time be at least?"),
                (
                    Option("Free times count however short they are.", {}),
                    Option(
                        "Leave out free times shorter than 20 minutes, measured after any pause; exactly 20 minutes stays in.",
                        {"least": "slots = [slot for slot in slots if slot[1] - slot[0] >= 20]"},
                    ),
                    Option(
                        "Leave out free times shorter than 50 minutes, measured after any pause; exactly 50 minutes stays in.",
                        {"least": "slots = [slot for slot in slots if slot[1] - slot[0] >= 50]"},
                    ),
                ),
            ),
            reworded(
                order("slots", ("last",)),
                "List the free times from the earliest to the latest.",
                "List the free times the other way around, from the latest to the earliest.",
            ),
            reworded(
                first("slots", (2,)),
                "Give all the free times.",
                "Give only the first 2 free times, as they stand in the final order.",
            ),
            Topic(
                "show",
                ("Do you want start and end or the length?", "What should I show for each free time?"),
                (
                    Option("Show each free time as a pair of start and end.", {}),
                    Option(
                        "Show only the length of each free time, in minutes.",
                        {"show": "slots = [slot[1] - slot[0] for slot in slots]"},
                    ),
                ),
            ),
        ),
        calls=(
            "free_slots([(757, 772), (607, 667), (532, 592), (817, 862)], 480, 932)",
            "free_slots([(777, 822), (687, 717), (597, 657), (548, 578)], 480, 830)",
            "free_slots([(641, 656), (592, 622), (547, 562)], 480, 776)",
            "free_slots([(517, 577), (592, 652), (742, 802), (892, 937)], 480, 1057)",
            "free_slots([(546, 606), (666, 711), (716, 731), (746, 776)], 480, 846)",
            "free_slots([(510, 570), (589, 634)], 480, 704)",
            "free_slots([(560, 605), (624, 639), (699, 714)], 480, 834)",
            "free_slots([(520, 550), (562, 592)], 480, 662)",
            "free_slots([(598, 658)], 568, 778)",
            "free_slots([(497, 542)], 480, 662)",
        ),
    ),
    Family(
        name="shift_hours",
        area="scheduling",
        request="Add up the time someone worked and give it in hours. "
        "Each shift is a pair of start and end in minutes since midnight.",
        signature="def shift_hours(shifts)",
        template="""
def shift_hours(shifts):
    {empty}
    total = 0
    for start, end in shifts:
        {night}
        length = end - start
        {pause}
        total += length
    hours = total / 60
    {rounding}
    {cap}
    return hours
""",
        topics=(
            Topic(
                "night",
                ("What if a shift ends before it starts?", "Are there night shifts over midnight?"),
                (
                    Option("Nothing special for shifts over midnight, simply take end minus start.", {}),
                    Option("Leave out shifts whose end is before their start.", {"night": "if end < start:\n    continue"}),
                    Option(
                        "When the end is before the start, the shift goes over midnight and ends on the next day.",
                        {"night": "if end < start:\n    end += 1440"},
                    ),
                ),
            ),
            Topic(
                "pause",
                ("Is a break taken off?", "Do I subtract a pause from a shift?"),
                (
                    Option("No break is taken off a shift.", {}),
                    Option(
                        "Take 20 minutes off each shift that is longer than 200 minutes; exactly 200 minutes stays whole.",
                        {"pause": "if length > 200:\n    length -= 20"},
                    ),
                    Option(
                        "Take 50 minutes off each shift that is longer than 500 minutes; exactly 500 minutes stays whole.",
                        {"pause": "if length > 500:\n    length -= 50"},
                    ),
                ),
            ),
            reworded(
                empty(("None", "-1"), "not shifts"),
                "Nothing special: without shifts the total is zero.",
                "When there are no shifts at all, return nothing, that is None.",
                "When there are no shifts at all, return minus one.",
            ),
            reworded(
                rounding("hours", ("tenths", "down")),
                "No rounding, give the exact hours.",
                "Round the total hours to one decimal.",
                "Round the total hours down to a whole number, so that minus 1.5 becomes minus 2.",
            ),
            reworded(
                cap("hours", (20,)),
                "There is no upper limit on the hours.",
                "The total is never above 20 hours; a higher one becomes 20.",
            ),
        ),
        calls=(
            "shift_hours([(1275, 33), (15, 567), (1380, 1416), (675, 823)])",
            "shift_hours([(720, 1223), (360, 474), (870, 66), (600, 1116)])",
            "shift_hours([])",
            "shift_hours([(1230, 108), (720, 911), (135, 768), (120, 726)])",
            "shift_hours([(255, 883), (1170, 126)])",
            "shift_hours([(780, 1302), (60, 575), (240, 864)])",
            "shift_hours([(1335, 273), (0, 33), (555, 1192)])",
            "shift_hours([(0, 569), (300, 936), (30, 613)])",
            "shift_hours([(390, 1020), (1410, 82)])",
            "shift_hours([(360, 948), (840, 1356), (15, 507)])",
        ),
    ),
    Family(
        name="overtime_minutes",
        area="scheduling",
        request="A normal day has 480 minutes of work, what is above that is overtime. "
        "From the minutes worked on each day I want the overtime of all days, summed up in minutes.",
        signature="def overtime_minutes(worked)",
        template="""
def overtime_minutes(worked):
    {empty}
    total = 0
    for minutes in worked:
        extra = minutes - 480
        {short}
        {small}
        {long}
        total += extra
    {steps}
    return total
""",
        topics=(
            Topic(
                "short",
                ("What about days that are too short?", "Do short days reduce the overtime?"),
                (
                    Option("Days under 480 minutes count as zero and take nothing off.", {"short": "extra = max(extra, 0)"}),
                    Option("On days under 480 minutes, take the missing minutes off the sum, which may go below zero.", {}),
                ),
            ),
            Topic(
                "small",
                ("Do a few minutes count?", "Should I leave out very little overtime?"),
                (
                    Option("Even a single minute of difference counts.", {}),
                    Option(
                        "Leave out days less than 10 minutes above or below 480; a difference of exactly 10 counts in full.",
                        {"small": "if abs(extra) < 10:\n    continue"},
                    ),
                    Option(
                        "Leave out days less than 20 minutes above or below 480; a difference of exactly 20 counts in full.",
                        {"small": "if abs(extra) < 20:\n    continue"},
                    ),
                ),
            ),
            Topic(
                "long",
                ("Do very long days count more?", "Is there a rule for very long days?"),
                (
                    Option("Long days count like all others.", {}),
                    Option(
                        "On a day with more than 100 minutes of overtime, all overtime of that day counts double.",
                        {"long": "if extra > 100:\n    extra = extra * 2"},
                    ),
                    Option(
                        "No day counts for more than 100 minutes of overtime, what is above that is lost.",
                        {"long": "extra = min(extra, 100)"},
                    ),
                ),
            ),
            Topic(
                "steps",
                ("Should the sum be rounded to full steps?", "Do you want the exact minutes?"),
                (
                    Option("Give the exact sum of minutes.", {}),
                    Option(
                        "Round the sum down to a multiple of 10; minus 12 becomes minus 20.",
                        {"steps": "total = total // 10 * 10"},
                    ),
                    Option(
                        "Round the sum up to a multiple of 10; minus 12 becomes minus 10.",
                        {"steps": "total = -(-total // 10) * 10"},
                    ),
                ),
            ),
            reworded(
                empty(("-1",), "not worked"),
                "Nothing special: without any days the sum is zero.",
                "When there are no days at all, return minus one.",
            ),
        ),
        calls=(
            "overtime_minutes([472, 383, 493, 489, 658])",
            "overtime_minutes([430, 489, 480, 588, 495])",
            "overtime_minutes([601, 473, 536, 495])",
            "overtime_minutes([402, 517, 480, 487, 621])",
            "overtime_minutes([])",
            "overtime_minutes([487, 621, 465, 493, 404])",
            "overtime_minutes([568, 651, 463, 488, 487])",
            "overtime_minutes([495, 458, 526, 657])",
            "overtime_minutes([487, 549])",
            "overtime_minutes([430, 490, 565])",
        ),
    ),
    Family(
        name="next_due_days",
        area="scheduling",
        request="A machine needs a check every so many days. From the day of the last check, the gap in days and a count, "
        "list that many next due days. Days are numbers and day 0 is a Monday.",
        signature="def next_due_days(last, gap, count)",
        template="""
def next_due_days(last, gap, count):
    days = []
    for number in range(1, count + 1):
        day = last + gap * number
        {weekend}
        {early}
        {until}
        days.append(day)
    {include}
    {order}
    return days
""",
        topics=(
            Topic(
                "weekend",
                ("What if a day falls on a weekend?", "May a check be on Saturday or Sunday?"),
                (
                    Option("Saturdays and Sundays are like other days.", {}),
                    Option(
                        "A due day on Saturday or Sunday moves to the next Monday; later due days do not shift with it.",
                        {"weekend": "while day % 7 > 4:\n    day += 1"},
                    ),
                    Option(
                        "A due day on Saturday or Sunday moves to the Friday before; later due days do not shift with it.",
                        {"weekend": "while day % 7 > 4:\n    day -= 1"},
                    ),
                ),
            ),
            Topic(
                "early",
                ("Do you want to be told ahead of time?", "Should I give the due day or an earlier day?"),
                (
                    Option("Give the due day itself, not an earlier one.", {}),
                    Option(
                        "Give the day 2 days before each due day, after any move off a weekend, even if it is a weekend day.",
                        {"early": "day -= 2"},
                    ),
                    Option(
                        "Give the day 5 days before each due day, after any move off a weekend, even if it is a weekend day.",
                        {"early": "day -= 5"},
                    ),
                ),
            ),
            Topic(
                "until",
                ("Is there a last day for the plan?", "How far ahead should the list go?"),
                (
                    Option("The plan has no last day.", {}),
                    Option(
                        "Leave out days that would be listed with a number above 100; 100 stays in, nothing is added instead.",
                        {"until": "if day > 100:\n    continue"},
                    ),
                    Option(
                        "Leave out days that would be listed with a number above 200; 200 stays in, nothing is added instead.",
                        {"until": "if day > 200:\n    continue"},
                    ),
                ),
            ),
            Topic(
                "include",
                ("Should the last check be in the list?", "Do I list only the coming days?"),
                (
                    Option("List only the coming days, not the last check.", {}),
                    Option(
                        "Put the day of the last check, unchanged, in front of the coming days, before any change of order.",
                        {"include": "days.insert(0, last)"},
                    ),
                ),
            ),
            reworded(
                order("days", ("last",)),
                "Keep the days in the order in which they come.",
                "Turn the finished list around, so that its last day comes first.",
            ),
        ),
        calls=(
            "next_due_days(11, 50, 4)",
            "next_due_days(80, 10, 4)",
            "next_due_days(16, 50, 4)",
            "next_due_days(29, 20, 4)",
            "next_due_days(21, 50, 4)",
            "next_due_days(30, 30, 3)",
            "next_due_days(14, 50, 4)",
            "next_due_days(4, 5, 3)",
            "next_due_days(2, 2, 3)",
            "next_due_days(8, 5, 4)",
        ),
    ),
)
