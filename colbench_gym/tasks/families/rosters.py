"""Meeting rooms, reminders and duty rosters."""

from __future__ import annotations

from colbench_gym.tasks.families.billing import letters, reworded
from colbench_gym.tasks.families.family import Family, Option, Topic

FAMILIES = (
    Family(
        name="choose_room",
        area="rosters",
        request="Give me the name of the right meeting room for a number of people: the smallest one that fits. "
        "Rooms are pairs of name and seats.",
        signature="def choose_room(rooms, people)",
        template="""
def choose_room(rooms, people):
    {spare}
    fitting = [room for room in rooms if room[1] >= people]
    {none}
    smallest = min(room[1] for room in fitting)
    best = [room[0] for room in fitting if room[1] == smallest]
    name = best[{ties}]
    {letters}
    {seats}
    return name
""",
        topics=(
            Topic(
                "spare",
                ("Should some seats stay free?", "Do we need more seats than people?"),
                (
                    Option("No seats need to stay free, one seat for each person is enough.", {}),
                    Option(
                        "Keep 2 seats free: a room fits only with at least 2 more seats than people.", {"spare": "people += 2"}
                    ),
                    Option(
                        "Keep 5 seats free: a room fits only with at least 5 more seats than people.", {"spare": "people += 5"}
                    ),
                ),
            ),
            Topic(
                "none",
                ("What if no room is big enough?", "What do you want when nothing fits?"),
                (
                    Option("When no room fits, return nothing at all.", {"none": "if not fitting:\n    return None"}),
                    Option(
                        "When no room fits, give just the word none in small letters, whatever else is wanted.",
                        {"none": 'if not fitting:\n    return "none"'},
                    ),
                    Option(
                        "When no room fits, take the last room on the list and treat it as if it fitted.",
                        {"none": "if not fitting:\n    fitting = rooms[-1:]"},
                    ),
                ),
            ),
            Topic(
                "ties",
                ("What if two rooms are the same size?", "Which room wins on a tie?"),
                (
                    Option(
                        "When several smallest rooms have the same size, take the first of them on the list.", {"ties": "0"}
                    ),
                    Option(
                        "When several smallest rooms have the same size, take the last of them on the list.", {"ties": "-1"}
                    ),
                ),
            ),
            reworded(
                letters("name"),
                "Leave the letters of the name of the room as they are.",
                "Write the name of the room in small letters.",
                "Write the name of the room in capital letters.",
            ),
            Topic(
                "seats",
                ("Do you want the seats as well?", "Is the name enough, or more about the room?"),
                (
                    Option("The name of the room is enough.", {}),
                    Option(
                        "After the name add a space and the number of seats the room has.",
                        {"seats": 'name += " " + str(smallest)'},
                    ),
                ),
            ),
        ),
        calls=(
            "choose_room([('Oak', 10), ('Hall', 9), ('Sky', 10), ('Sun', 9)], 8)",
            "choose_room([('Sky', 10), ('Oak', 8), ('Sun', 4), ('Hall', 10)], 4)",
            "choose_room([('Oak', 4), ('Sun', 4)], 9)",
            "choose_room([('Sky', 6), ('Hall', 6), ('Sun', 15), ('elm', 15)], 5)",
            "choose_room([('Sky', 20), ('Sun', 6), ('Hall', 6)], 4)",
            "choose_room([('Oak', 8), ('Sun', 6)], 9)",
            "choose_room([('Sky', 20), ('Hall', 20), ('Sun', 12), ('elm', 10)], 10)",
            "choose_room([('Hall', 8), ('river', 8), ('Sky', 4), ('Oak', 4)], 3)",
            "choose_room([('Oak', 8), ('Hall', 8), ('Sky', 10)], 5)",
            "choose_room([('elm', 9), ('Sun', 9)], 4)",
        ),
    ),
    Family(
        name="reminder_texts",
        area="rosters",
        request='Write a list of reminders like "tax in 3 days" for events that are still to come. '
        "Each event is a pair of name and day number, and I give you the day number of today.",
        signature="def reminder_texts(events, today)",
        template="""
def reminder_texts(events, today):
    texts = []
    {soonest}
    for name, day in events:
        left = day - today
        when = "in " + str(left) + " days"
        {past}
        {near}
        {today}
        {letters}
        texts.append(name + " " + when)
    return texts
""",
        topics=(
            Topic(
                "soonest",
                ("In which order do you want the reminders?", "Should the soonest event come first?"),
                (
                    Option("Keep the events in the order given.", {}),
                    Option(
                        "Sort the events by day, the smallest day number first.",
                        {"soonest": "events = sorted(events, key=lambda event: event[1])"},
                    ),
                ),
            ),
            Topic(
                "past",
                ("What about events that are over?", "How do I treat events in the past?"),
                (
                    Option("Leave out events whose day is before today.", {"past": "if left < 0:\n    continue"}),
                    Option(
                        "For an event before today do not leave it out but write its name, a space and the word over.",
                        {"past": 'if left < 0:\n    when = "over"'},
                    ),
                ),
            ),
            Topic(
                "near",
                ("How many days ahead should I remind you?", "Do you want events that are far away?"),
                (
                    Option("Remind me of all coming events, however far away.", {}),
                    Option(
                        "Leave out events more than 10 days after today; exactly 10 days stays in.",
                        {"near": "if left > 10:\n    continue"},
                    ),
                    Option(
                        "Leave out events more than 50 days after today; exactly 50 days stays in.",
                        {"near": "if left > 50:\n    continue"},
                    ),
                ),
            ),
            Topic(
                "today",
                ("What should it say for events of today?", "How do I write zero days?"),
                (
                    Option('An event of today gets "in 0 days", like any other number.', {}),
                    Option(
                        "For an event of today write its name, a space and the word today.",
                        {"today": 'if left == 0:\n    when = "today"'},
                    ),
                ),
            ),
            reworded(
                letters("name"),
                "Leave the letters of the names of the events as they are.",
                "Write the names of the events in small letters; the other words stay as they are.",
                "Write the names of the events in capital letters; the other words stay as they are.",
            ),
        ),
        calls=(
            "reminder_texts([('tax', 65), ('doctor', 134), ('Trip', 50), ('bills', 42)], 50)",
            "reminder_texts([('Trip', 111), ('bills', 94), ('Party', 187), ('Rent', 100)], 100)",
            "reminder_texts([('doctor', 13), ('Party', 10), ('Trip', 30), ('tax', 3)], 10)",
            "reminder_texts([('Trip', 203), ('bills', 196), ('doctor', 275), ('tax', 200)], 200)",
            "reminder_texts([('Trip', 69), ('Rent', 16), ('Party', 10), ('doctor', 45)], 10)",
            "reminder_texts([('Trip', 68), ('Rent', 1), ('tax', 27), ('doctor', 10)], 10)",
            "reminder_texts([('tax', 55), ('Party', 50), ('Rent', 44)], 50)",
            "reminder_texts([('Rent', 54), ('tax', 86)], 50)",
            "reminder_texts([('tax', 10)], 10)",
            "reminder_texts([('tax', 50)], 50)",
        ),
    ),
    Family(
        name="duty_roster",
        area="rosters",
        request="The people on a list take turns at being on duty, and when all had their turn it begins again. "
        "List who is on duty on each of a number of days.",
        signature="def duty_roster(names, days)",
        template="""
def duty_roster(names, days):
    {sequence}
    roster = []
    for day in range(days):
        name = names[{turns} % len(names)]
        {letters}
        {rest}
        roster.append({number})
    return roster
""",
        topics=(
            Topic(
                "sequence",
                ("In what sequence do the names come?", "In which order do people take turns?"),
                (
                    Option("People take turns as they stand on the list.", {}),
                    Option(
                        "Sort the names as they are written, capital letters before small ones, then go through that list.",
                        {"sequence": "names = sorted(names)"},
                    ),
                    Option("Start with the last person on the list and go backwards.", {"sequence": "names = names[::-1]"}),
                ),
            ),
            Topic(
                "turns",
                ("How long is one turn?", "Does someone stay on for several days in a row?"),
                (
                    Option("Each turn is a single day.", {"turns": "day"}),
                    Option("Each turn is 2 days in a row for the same person.", {"turns": "day // 2"}),
                ),
            ),
            reworded(
                letters("name"),
                "Leave the letters of the names of the people as they are.",
                "Write the names of the people in small letters; any other word stays as it is.",
                "Write the names of the people in capital letters; any other word stays as it is.",
            ),
            Topic(
                "rest",
                ("Are there days with nobody on duty?", "Are some days free?"),
                (
                    Option("Someone is on duty every day.", {}),
                    Option(
                        "On days 3, 6, 9 and so on write the word free instead of the name; that turn is lost, not moved.",
                        {"rest": 'if day % 3 == 2:\n    name = "free"'},
                    ),
                    Option(
                        "On days 5, 10, 15 and so on write the word free instead of the name; that turn is lost, not moved.",
                        {"rest": 'if day % 5 == 4:\n    name = "free"'},
                    ),
                ),
            ),
            Topic(
                "number",
                ("Do you want the day with each name?", "Are the names alone enough?"),
                (
                    Option("The names alone are enough, without the days.", {"number": "name"}),
                    Option(
                        "For each day give a pair of its number and the name; the first day has number 1.",
                        {"number": "(day + 1, name)"},
                    ),
                ),
            ),
        ),
        calls=(
            "duty_roster(['Kim', 'Tom', 'Eve'], 7)",
            "duty_roster(['Tom', 'Eve', 'ann'], 7)",
            "duty_roster(['Tom', 'Eve', 'ann'], 5)",
            "duty_roster(['Tom', 'bob', 'Kim'], 5)",
            "duty_roster(['bob', 'Eve', 'ann'], 6)",
            "duty_roster(['Kim', 'Eve', 'Tom'], 5)",
            "duty_roster(['Eve', 'bob'], 6)",
            "duty_roster(['bob', 'Kim'], 4)",
            "duty_roster(['Kim', 'ann'], 2)",
            "duty_roster(['ann', 'Tom'], 7)",
        ),
    ),
)
