"""Journeys: fares, luggage, mileage and itineraries; also topics shared with metering and library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from colbench_gym.tasks.families.family import Family, Option, Topic
from colbench_gym.tasks.families.topics import cap, floor, rounding


def negative(things: str, variable: str, kinds: Sequence[str]) -> Topic:
    """Handling of negative values inside a loop; `kinds` selects from skip, zero and abs."""
    wishes = {
        "skip": Option(
            f"Leave out negative {things} altogether, so that they do not count in any way.",
            {"negative": f"if {variable} < 0:\n    continue"},
        ),
        "zero": Option(
            f"Take zero in place of negative {things}; they still count.",
            {"negative": f"if {variable} < 0:\n    {variable} = 0"},
        ),
        "abs": Option(
            f"First turn negative {things} into positive ones, so that minus 3 becomes 3.",
            {"negative": f"{variable} = abs({variable})"},
        ),
    }
    return Topic(
        "negative",
        (f"What about negative {things}?", f"How do I treat {things} below zero?"),
        (Option(f"Negative {things} count as they are.", {}), *(wishes[kind] for kind in kinds)),
    )


def letter_case(thing: str, when: str, variable: str, kinds: Sequence[str]) -> Topic:
    """Letter case of `variable`, called `thing`, and `when` it is changed; `kinds` selects from upper, lower and title."""
    wishes = {
        "upper": f"{when}, put {thing} in capital letters throughout.",
        "lower": f"{when}, put {thing} in small letters throughout.",
        "title": f"{when}, put {thing} in title case: a capital letter at the start of every word and small letters after it.",
    }
    return Topic(
        "case",
        ("Should I change capital and small letters?", "Do you want capital letters?"),
        (
            Option("Leave capital and small letters as they are.", {}),
            *(Option(wishes[kind], {"case": f"{variable} = {variable}.{kind}()"}) for kind in kinds),
        ),
    )


def blanks(things: str, skip: str, fallback: str = "", entries: str = "") -> Topic:
    """Handling of blank things: `skip` is code that drops them or their `entries`, `fallback` is code that calls them unknown."""
    left_out = f"{entries} with {things}" if entries else things
    wishes = [Option(f"Leave out {left_out} that are empty or only spaces.", {"blanks": skip})]
    if fallback:
        says = f"In place of {things} that are empty or only spaces, use the word unknown, always in small letters."
        wishes.append(Option(says, {"blanks": fallback}))
    return Topic(
        "blanks",
        (f"What about blank {things}?", f"How do I treat {things} that are only spaces?"),
        (Option(f"Treat blank {things} like all others.", {}), *wishes),
    )


def first_few(things: str, when: str, variable: str, counts: Sequence[int]) -> Topic:
    """How many entries of a list are kept, and `when` they are counted; one special wish per count."""
    wishes = (
        Option(f"{when}, keep only the first {count} {things}.", {"first": f"{variable} = {variable}[:{count}]"})
        for count in counts
    )
    return Topic(
        "first",
        ("How many entries do you want at most?", "Should I shorten the list?"),
        (Option("Give all of them.", {}), *wishes),
    )


def in_words(topic: Topic, *wishes: str) -> Topic:
    """A shared topic with the family's own sentences for its special wishes."""
    plain, *options = topic.options
    return replace(topic, options=(plain, *(replace(option, says=says) for option, says in zip(options, wishes, strict=True))))


FAMILIES = (
    Family(
        name="trip_fare",
        area="travel",
        request="Work out the fare of a journey. I have its legs, each with first the kilometres and then the "
        "price per kilometre. "
        "Each leg costs its kilometres times its price, and the fare is the sum over all legs.",
        signature="def trip_fare(legs)",
        template="""
def trip_fare(legs):
    fare = 0
    for distance, price in legs:
        {short}
        {long}
        fare += distance * price
    {booking}
    {rounding}
    {cap}
    return fare
""",
        topics=(
            Topic(
                "short",
                ("What about very short legs?", "Is there a shortest distance per leg?"),
                (
                    Option("Short legs count like all others.", {}),
                    Option(
                        "Leave out legs of less than 5 kilometres; a leg of exactly 5 kilometres counts.",
                        {"short": "if distance < 5:\n    continue"},
                    ),
                    Option(
                        "Count a leg of less than 10 kilometres as 10 kilometres.", {"short": "distance = max(distance, 10)"}
                    ),
                ),
            ),
            Topic(
                "long",
                ("Are long legs cheaper?", "Is there a discount on long distances?"),
                (
                    Option("Long legs are not cheaper.", {}),
                    Option(
                        "A quarter off for a leg of 100 kilometres or more: multiply its price per kilometre by 0.75.",
                        {"long": "if distance >= 100:\n    price = price * 0.75"},
                    ),
                    Option(
                        "For a leg of more than 200 kilometres, charge only half its price per kilometre.",
                        {"long": "if distance > 200:\n    price = price / 2"},
                    ),
                ),
            ),
            Topic(
                "booking",
                ("Is there a booking fee?", "Does booking cost extra?"),
                (
                    Option("Booking is free.", {}),
                    Option(
                        "When the fare of all legs together, before any rounding, is less than 50, add 10 to it for booking.",
                        {"booking": "if fare < 50:\n    fare += 10"},
                    ),
                ),
            ),
            rounding("fare", ("cents", "up")),
            in_words(cap("fare", (250,)), "The fare is never more than 250: if it comes out higher, it is 250."),
        ),
        calls=(
            "trip_fare([(6, 2.3125)])",
            "trip_fare([(3, 1.21875)])",
            "trip_fare([(5, 6.09375)])",
            "trip_fare([(100, 0.59375), (2, 3.09375)])",
            "trip_fare([(120, 0.34375)])",
            "trip_fare([(200, 0.71875)])",
            "trip_fare([(210, 0.515625), (8, 1.5)])",
            "trip_fare([(40, 10.125)])",
            "trip_fare([(12, 2.703125), (30, 0.515625), (4, 5.015625)])",
            "trip_fare([(90, 3.3125), (260, 2.125)])",
        ),
    ),
    Family(
        name="luggage_fee",
        area="travel",
        request="I need the luggage fee of a passenger, from the list of the weights of the bags and the allowance, one number, which "
        "holds for each single bag. "
        "A bag costs 5 for each kilo by which it is over the allowance, and the fee is the sum over all bags.",
        signature="def luggage_fee(weights, allowance)",
        template="""
def luggage_fee(weights, allowance):
    fee = 0
    {free}
    for weight in weights:
        {part}
        if weight > allowance:
            fee += (weight - allowance) * 5
        {heavy}
    {floor}
    {cap}
    return fee
""",
        topics=(
            Topic(
                "free",
                ("Is any bag free?", "Does every bag have to be paid for?"),
                (
                    Option("No bag is free.", {}),
                    Option(
                        "The first bag in the list is free, so charge nothing at all for it.", {"free": "weights = weights[1:]"}
                    ),
                    Option(
                        "The heaviest bag is free, so charge nothing at all for it; if several weigh the "
                        "same, only one is free.",
                        {"free": "weights = sorted(weights)[:-1]"},
                    ),
                ),
            ),
            Topic(
                "part",
                ("What about part of a kilo?", "Should weights be whole kilos?"),
                (
                    Option("Charge for part of a kilo in proportion.", {}),
                    Option(
                        "Round the weight of each bag up to a whole kilo, so a bag of 18.5 counts as 19.",
                        {"part": "weight = int(-(-weight // 1))"},
                    ),
                    Option(
                        "Use only the whole kilos of each bag, so a bag of 18.5 counts as 18.",
                        {"part": "weight = int(weight // 1)"},
                    ),
                ),
            ),
            Topic(
                "heavy",
                ("Do very heavy bags cost extra?", "Is there a surcharge for heavy bags?"),
                (
                    Option("Heavy bags cost nothing extra.", {}),
                    Option(
                        "Add 20 for each bag of more than 50 kilos, whatever the allowance; a bag of exactly 50 adds nothing.",
                        {"heavy": "if weight > 50:\n    fee += 20"},
                    ),
                ),
            ),
            in_words(
                floor("fee", (10,)), "The fee for all bags together is never less than 10: if it comes out lower, it is 10."
            ),
            in_words(
                cap("fee", (100, 200)),
                "The fee for all bags together is never more than 100: if it comes out higher, it is 100.",
                "The fee for all bags together is never more than 200: if it comes out higher, it is 200.",
            ),
        ),
        calls=(
            "luggage_fee([21, 18.5], 20)",
            "luggage_fee([30.5, 22, 24.25], 20)",
            "luggage_fee([26.75, 33.5, 29.25], 23)",
            "luggage_fee([51, 52.5, 50], 50)",
            "luggage_fee([50.5, 49, 51.25, 47], 45)",
            "luggage_fee([70, 65.5, 80, 75], 30)",
            "luggage_fee([40.5, 42.25, 39.5], 20)",
            "luggage_fee([12.5, 17.75], 10)",
            "luggage_fee([24.5, 20.5, 22.75, 31], 20)",
            "luggage_fee([55, 60.25], 40)",
        ),
    ),
    Family(
        name="mileage_claim",
        area="travel",
        request="Staff send me trips, each with first the driver's name and then the kilometres. "
        "Show me how far each driver went in all, as a dictionary from the name to the kilometres.",
        signature="def mileage_claim(trips)",
        template="""
def mileage_claim(trips):
    totals = {}
    for driver, distance in trips:
        {case}
        {blanks}
        {negative}
        {longest}
        totals[driver] = totals.get(driver, 0) + distance
    {small}
    return totals
""",
        topics=(
            letter_case("each driver's name", "Before adding up", "driver", ("lower", "title")),
            blanks(
                "names",
                "if not driver.strip():\n    continue",
                'if not driver.strip():\n    driver = "unknown"',
                entries="trips",
            ),
            negative("distances", "distance", ("skip", "abs")),
            Topic(
                "longest",
                ("Is there a limit per trip?", "What about very long trips?"),
                (
                    Option("Every trip counts in full.", {}),
                    Option(
                        "Count a single trip of more than 200 kilometres as 200 kilometres.",
                        {"longest": "distance = min(distance, 200)"},
                    ),
                ),
            ),
            Topic(
                "small",
                ("What about drivers who hardly drove?", "Should everybody be in the answer?"),
                (
                    Option("Show every driver.", {}),
                    Option(
                        "At the end, leave out drivers with less than 10 kilometres in all; a driver with exactly 10 stays in.",
                        {"small": "totals = {name: far for name, far in totals.items() if far >= 10}"},
                    ),
                ),
            ),
        ),
        calls=(
            'mileage_claim([("Ann", 12), ("ann", 30), ("BOB", 7)])',
            'mileage_claim([("Cem", 250), ("Dora", 40), ("Cem", 15)])',
            'mileage_claim([("", 60), ("Eve", 25)])',
            'mileage_claim([(" ", 18), ("eve", 210), ("Eve", 10)])',
            'mileage_claim([("Finn", -30), ("Finn", 100)])',
            'mileage_claim([("Gus", 10), ("Hal", 9), ("ida", 200)])',
            'mileage_claim([("Jo Li", 340), ("jo li", 5), ("Kim", 20)])',
            'mileage_claim([("Lea", 80), ("Max", -15), ("Lea", -20), ("Max", 50)])',
            'mileage_claim([("NED", 3), ("Ned", 8), ("Ole", 205), ("Ole", 1)])',
            'mileage_claim([("Pia", 44), ("", 11), ("pia", 6)])',
        ),
    ),
    Family(
        name="itinerary_text",
        area="travel",
        request="I have the places of a journey in their order. Join them to one line of text "
        "with space, hyphen, space between two places, like Rome - Oslo - Paris.",
        signature="def itinerary_text(places)",
        template="""
def itinerary_text(places):
    route = []
    for place in places:
        {blanks}
        {repeats}
        route.append(place)
    {first}
    {back}
    text = " - ".join(route)
    {case}
    return text
""",
        topics=(
            blanks("places", "if not place.strip():\n    continue"),
            Topic(
                "repeats",
                ("What about places that come up twice?", "Should repeated places stay in?"),
                (
                    Option("Repeated places stay in.", {}),
                    Option(
                        "Leave out a place that has come up before; compare places exactly as they are spelled in the input.",
                        {"repeats": "if place in route:\n    continue"},
                    ),
                ),
            ),
            first_few("places", "After anything else has been left out", "route", (3, 5)),
            Topic(
                "back",
                ("Does the journey go back to the start?", "Is it a round trip?"),
                (
                    Option("The journey ends at the last place.", {}),
                    Option(
                        "After any leaving out or shortening, add the first place of the list once more "
                        "at the end, even if it is the only one.",
                        {"back": "route = route + route[:1]"},
                    ),
                ),
            ),
            letter_case("the whole line", "At the very end", "text", ("upper", "title")),
        ),
        calls=(
            'itinerary_text(["Rome"])',
            'itinerary_text(["Oslo", "bergen", "Oslo", "Voss"])',
            'itinerary_text(["Lima", "", "Cusco", "puno"])',
            'itinerary_text(["Delhi", "Agra", "Jaipur", "Pune", "Goa", "Kochi"])',
            'itinerary_text(["new york", "Boston", "new york"])',
            'itinerary_text(["Bern", "Bern", "Genf", " ", "Chur"])',
            'itinerary_text(["Kyoto", "Nara", "Osaka", "Kobe"])',
            'itinerary_text(["", "Tunis", "Sfax"])',
            'itinerary_text(["Accra", "Lome", "Accra", "Cotonou", "Lagos", "Lome", "Kano"])',
            'itinerary_text(["PRAGUE", "Brno"])',
        ),
    ),
)
