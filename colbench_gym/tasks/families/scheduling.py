"""Free time, shifts, overtime and due days."""

from __future__ import annotations

from colbench_gym.tasks.families.billing import first, order
from colbench_gym.tasks.families.family import Family, Option, Topic
from colbench_gym.tasks.families.topics import cap, empty, rounding

FAMILIES = (
    Family(
        name="free_slots",
        area="scheduling",
        request="Find the free times in someone's day. There are the busy times as pairs, "
        "and the start and end of the day, all in minutes.",
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
                    Option("No pause is needed.", {}),
                    Option("Keep a pause of 5 after each busy time.", {"pause": "finish += 5"}),
                    Option("Keep a pause of 10 after each busy time.", {"pause": "finish += 10"}),
                ),
                ("pause", "break", "buffer", "right"),
            ),
            Topic(
                "least",
                ("Do very short gaps count?", "How long must a free time be at least?"),
                (
                    Option("Short gaps count as well.", {}),
                    Option("Skip gaps under 20.", {"least": "slots = [slot for slot in slots if slot[1] - slot[0] >= 20]"}),
                    Option("Skip gaps under 50.", {"least": "slots = [slot for slot in slots if slot[1] - slot[0] >= 50]"}),
                ),
                ("short", "gaps", "long", "least", "minimum"),
            ),
            order("slots", ("last",)),
            first("slots", (2,)),
            Topic(
                "show",
                ("Do you want start and end or the length?", "What should I show for each free time?"),
                (
                    Option("Show start and end of each.", {}),
                    Option("Show only the length of each.", {"show": "slots = [slot[1] - slot[0] for slot in slots]"}),
                ),
                ("show", "length", "start", "each"),
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
        request="Add up the hours someone worked. Each shift is a pair of start and end in minutes since midnight.",
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
                    Option("Nothing special for shifts over midnight.", {}),
                    Option("Skip shifts that end before they start.", {"night": "if end < start:\n    continue"}),
                    Option("An end before the start is on the next day.", {"night": "if end < start:\n    end += 1440"}),
                ),
                ("night", "midnight", "before", "over"),
            ),
            Topic(
                "pause",
                ("Is a break taken off?", "Do I subtract a pause from a shift?"),
                (
                    Option("No break is taken off.", {}),
                    Option("Take 20 minutes off shifts above 200 minutes.", {"pause": "if length > 200:\n    length -= 20"}),
                    Option("Take 50 minutes off shifts above 500 minutes.", {"pause": "if length > 500:\n    length -= 50"}),
                ),
                ("break", "pause", "off", "subtract", "lunch"),
            ),
            empty(("None", "-1"), "not shifts"),
            rounding("hours", ("tenths", "down")),
            cap("hours", (20,)),
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
        request="A normal day has 480 minutes of work. From the minutes worked on each day I want the overtime, summed up.",
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
                    Option("Days that are too short count as zero.", {"short": "extra = max(extra, 0)"}),
                    Option("Days that are too short are taken off.", {}),
                ),
                ("short", "reduce", "less", "under", "negative"),
            ),
            Topic(
                "small",
                ("Do a few minutes count?", "Should I leave out very little overtime?"),
                (
                    Option("Every minute counts.", {}),
                    Option(
                        "Leave out days with less than 10 minutes difference.", {"small": "if abs(extra) < 10:\n    continue"}
                    ),
                    Option(
                        "Leave out days with less than 20 minutes difference.", {"small": "if abs(extra) < 20:\n    continue"}
                    ),
                ),
                ("few", "little", "every", "leave"),
            ),
            Topic(
                "long",
                ("Do very long days count more?", "Is there a rule for very long days?"),
                (
                    Option("Long days count like others.", {}),
                    Option("Overtime above 100 on one day counts double.", {"long": "if extra > 100:\n    extra = extra * 2"}),
                    Option("One day counts 100 minutes at most.", {"long": "extra = min(extra, 100)"}),
                ),
                ("long", "rule", "double", "day"),
            ),
            Topic(
                "steps",
                ("Should the sum be rounded to full steps?", "Do you want the exact minutes?"),
                (
                    Option("Give the exact minutes.", {}),
                    Option("Round the sum down to full 10 minutes.", {"steps": "total = total // 10 * 10"}),
                    Option("Round the sum up to full 10 minutes.", {"steps": "total = -(-total // 10) * 10"}),
                ),
                ("round", "exact", "steps", "full"),
            ),
            empty(("-1",), "not worked"),
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
        request="A machine needs a check every so many days. From the last day, the gap and a count, list the next due days; "
        "days are numbers and day 0 is a Monday.",
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
                    Option("Weekends are like other days.", {}),
                    Option("Move weekend days to the next Monday.", {"weekend": "while day % 7 > 4:\n    day += 1"}),
                    Option("Move weekend days to the Friday before.", {"weekend": "while day % 7 > 4:\n    day -= 1"}),
                ),
                ("weekend", "saturday", "sunday"),
            ),
            Topic(
                "early",
                ("Do you want to be told ahead of time?", "Should I give the due day or an earlier day?"),
                (
                    Option("Give the due day as such.", {}),
                    Option("Give the day 2 days earlier.", {"early": "day -= 2"}),
                    Option("Give the day 5 days earlier.", {"early": "day -= 5"}),
                ),
                ("early", "earlier", "ahead", "warning"),
            ),
            Topic(
                "until",
                ("Is there a last day for the plan?", "How far ahead should the list go?"),
                (
                    Option("The list has no last day.", {}),
                    Option("Leave out days above 100.", {"until": "if day > 100:\n    continue"}),
                    Option("Leave out days above 200.", {"until": "if day > 200:\n    continue"}),
                ),
                ("until", "far", "above", "end"),
            ),
            Topic(
                "include",
                ("Should the last check be in the list?", "Do I list only the coming days?"),
                (
                    Option("List only the coming days.", {}),
                    Option("Put the last day in front of the list.", {"include": "days.insert(0, last)"}),
                ),
                ("include", "only", "coming", "front"),
            ),
            order("days", ("last",)),
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
