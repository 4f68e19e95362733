"""Topics of the embedded pages. Everything except the headlines and the button is in the request or follows from it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Topic:
    """A shop, club or office that needs a page.

    Attributes:
        key: Short name, part of a task's id.
        name: Its full name.
        what: A description with an article, as in the request.
        items: The items on the page, in order.
        headlines: Possible headlines of the page.
        buttons: Possible texts of the button.
    """

    key: str
    name: str
    what: str
    items: tuple[str, str, str, str]
    headlines: tuple[str, str, str]
    buttons: tuple[str, str]


TOPICS = (
    Topic("bakery", "Crumb", "a bakery", ("Bread", "Cakes", "Rolls", "Tarts"),
          ("Baked this morning", "Warm bread every day", "Flour, water, time"), ("Order now", "See our bread")),
    Topic("gym", "Ironwood", "a gym", ("Weights", "Yoga", "Boxing", "Running"),
          ("Stronger every week", "Train with friends", "Your hour of the day"), ("Join us", "Try a class")),
    Topic("museum", "Harbour House", "a museum", ("Ships", "Maps", "Tools", "Stories"),
          ("The sea in ten rooms", "Come aboard", "Two hundred years of tides"), ("Buy a ticket", "Plan a visit")),
    Topic("clinic", "Oak Street", "a clinic", ("Check-ups", "Children", "Teeth", "Eyes"),
          ("Care close to home", "We have time for you", "Open when you need us"), ("Book a visit", "Call us")),
    Topic("school", "Northlight", "a music school", ("Piano", "Guitar", "Violin", "Drums"),
          ("Play from the first day", "Music for all ages", "Find your sound"), ("Book a lesson", "Meet the teachers")),
    Topic("garden", "Fernhill", "a garden centre", ("Trees", "Roses", "Herbs", "Seeds"),
          ("Grow something good", "Spring is here", "Green from root to leaf"), ("Shop plants", "Ask a gardener")),
    Topic("hotel", "Lakeview", "a hotel", ("Rooms", "Breakfast", "Spa", "Boats"),
          ("Wake up by the water", "Stay a little longer", "Quiet nights, clear days"), ("Book a room", "See the rooms")),
    Topic("books", "Paper Lane", "a book shop", ("Novels", "Poems", "Comics", "Travel"),
          ("A book for every evening", "Read something new", "Stories on every shelf"), ("Browse books", "Reserve a copy")),
    Topic("bikes", "Two Wheels", "a bike shop", ("Road", "City", "Cargo", "Kids"),
          ("Ride to work", "Built to be repaired", "Wheels for every road"), ("Find a bike", "Book a repair")),
    Topic("coffee", "Third Cup", "a coffee bar", ("Espresso", "Filter", "Beans", "Snacks"),
          ("Slow coffee, fast smiles", "Roasted in this room", "Your table is free"), ("Order a cup", "See the menu")),
    Topic("law", "Kern and Daughters", "a law office", ("Family", "Work", "Housing", "Traffic"),
          ("On your side", "Clear words about law", "First call is free"), ("Call now", "Ask a question")),
    Topic("vet", "Pawprint", "an animal clinic", ("Dogs", "Cats", "Birds", "Horses"),
          ("Gentle hands for animals", "They cannot say what hurts", "Help day and night"), ("Book a check", "Find us")),
)  # fmt: skip
