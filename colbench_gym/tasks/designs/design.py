"""A design: one option for each slot, and the resulting page.

The pages use the same style sheet as ColBench's pages (Tailwind 2), with one section per line. Each slot has a visible effect, so that a
simulated human can describe it ("the bar at the top should be dark green") and an edit of one line can correct it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from colbench_gym.tasks.designs.topics import Topic

STYLES = '<link href="https://cdn.jsdelivr.net/npm/tailwindcss@2.2.19/dist/tailwind.min.css" rel="stylesheet">'
TRAIN_LAYOUTS = (
    "landing", "banner", "photo-right", "photo-left", "menu-left", "menu-right", "gallery", "form", "article", "list", "prices", "steps",
)  # fmt: skip
UNSEEN_LAYOUTS = ("profile", "shop", "board")
#: Options of each slot. The first one is the default.
SLOTS: dict[str, tuple[str, ...]] = {
    "layout": (*TRAIN_LAYOUTS, *UNSEEN_LAYOUTS),
    "tone": ("blue", "green", "red", "purple", "pink", "yellow", "gray"),
    "shade": ("500", "800", "200"),
    "ground": ("white", "gray-100", "gray-800", "yellow-50"),
    "links": ("right", "left", "below"),
    "headline": ("0", "1", "2"),
    "size": ("4xl", "2xl", "6xl"),
    "button": ("0", "1", "none"),
    "photo": ("yes", "no"),
    "cards": ("3", "2", "4"),
    "card": ("shadow", "border", "tone"),
    "footer": ("dark", "tone", "none"),
}
_LINKS = {"right": "flex justify-between", "left": "flex space-x-8", "below": "text-center"}
_CARD = {"shadow": "bg-white shadow", "border": "border", "tone": "bg-{tone}-200"}


@dataclass(frozen=True)
class Design:
    """One option for each slot of `SLOTS`, about one topic.

    Raises:
        ValueError: If a slot is missing or unknown, or its option is not one of `SLOTS`.
    """

    topic: Topic
    choices: Mapping[str, str]

    def __post_init__(self) -> None:
        if set(self.choices) != set(SLOTS):
            raise ValueError(f"Expected a choice for each of {tuple(SLOTS)}, got {tuple(self.choices)}.")
        for slot, option in self.choices.items():
            if option not in SLOTS[slot]:
                raise ValueError(f"`{slot}` must be one of {SLOTS[slot]}, got {option!r}.")

    def __getitem__(self, slot: str) -> str:
        return self.choices[slot]

    def html(self) -> str:
        """The source of the page."""
        return "\n".join(
            [
                "<html>",
                STYLES,
                f'<body class="bg-{self["ground"]}{self._ink}">',
                *_LAYOUTS[self["layout"]](self),
                *self._footer(),
                "</html>",
            ]
        )

    @property
    def _ink(self) -> str:
        return " text-white" if self["ground"] == "gray-800" else ""

    @property
    def _tone(self) -> str:
        """CSS classes of a box in the page's colour."""
        return f"bg-{self['tone']}-{self['shade']}" + (" text-white" if self["shade"] != "200" else " text-black")

    def header(self) -> str:
        """The bar at the top."""
        links = "".join(f"<a>{word}</a>" for word in ("Home", *self.topic.items[:2], "Contact"))
        return (
            f'<header class="{self._tone} p-6 {_LINKS[self["links"]]}"><h1 class="text-2xl font-bold">{self.topic.name}</h1>'
            f'<nav class="space-x-4">{links}</nav></header>'
        )

    def headline(self) -> str:
        """The large words."""
        return f'<h2 class="text-{self["size"]} font-bold p-4">{self.topic.headlines[int(self["headline"])]}</h2>'

    def button(self) -> list[str]:
        """The button, if the design has one."""
        if self["button"] == "none":
            return []
        return [f'<button class="{self._tone} rounded px-6 py-2 m-4">{self.topic.buttons[int(self["button"])]}</button>']

    def photo(self, width: int, height: int) -> list[str]:
        """The photo, if the design has one."""
        return [f'<img src="https://picsum.photos/id/48/{width}/{height}">'] if self["photo"] == "yes" else []

    def cards(self, inside: str = "") -> str:
        """Boxes side by side, one for each item."""
        look = _CARD[self["card"]].format(tone=self["tone"]) + (" text-black" if self["card"] != "border" else "")
        boxes = "".join(f'<div class="{look} p-6">{item}{inside}</div>' for item in self.topic.items[: int(self["cards"])])
        return f'<div class="grid grid-cols-{self["cards"]} gap-6 p-6">{boxes}</div>'

    def rows(self, numbered: bool = False) -> list[str]:
        """The items one below the other."""
        return [
            f'<p class="border-b p-4">{f"{i}. " if numbered else ""}{item}</p>'
            for i, item in enumerate(self.topic.items[: int(self["cards"])], 1)
        ]

    def words(self) -> str:
        """A sentence of plain text."""
        return f'<p class="p-4">{self.topic.name} has {", ".join(self.topic.items).lower()} and more.</p>'

    def _footer(self) -> list[str]:
        if self["footer"] == "none":
            return []
        look = "bg-gray-900 text-white" if self["footer"] == "dark" else self._tone
        return [f'<footer class="{look} p-4 text-center">{self.topic.name} 2024</footer>']


def _box(classes: str, lines: Sequence[str]) -> list[str]:
    return [f'<div class="{classes}">', *lines, "</div>"]


def _landing(d: Design) -> list[str]:
    return [d.header(), *_box("text-center py-8", [d.headline(), *d.button(), *d.photo(900, 300)]), d.cards()]


def _banner(d: Design) -> list[str]:
    return [d.header(), *d.photo(1280, 320), *_box("p-8", [d.headline(), d.words(), *d.button()]), d.cards()]


def _photo_right(d: Design) -> list[str]:
    left = _box("w-1/2", [d.headline(), d.words(), *d.button()])
    return [d.header(), *_box("flex p-8", [*left, *d.photo(560, 360)]), d.cards()]


def _photo_left(d: Design) -> list[str]:
    right = _box("w-1/2", [d.headline(), d.words(), *d.button()])
    return [d.header(), *_box("flex p-8", [*d.photo(560, 360), *right]), d.cards()]


def _side(d: Design) -> str:
    items = "".join(f'<p class="p-4">{item}</p>' for item in d.topic.items)
    return f'<aside class="{d._tone} w-1/4">{items}</aside>'


def _menu_left(d: Design) -> list[str]:
    main = _box("w-3/4", [d.headline(), d.words(), *d.photo(800, 300), *d.button()])
    return [d.header(), *_box("flex", [_side(d), *main])]


def _menu_right(d: Design) -> list[str]:
    main = _box("w-3/4", [d.headline(), d.words(), *d.photo(800, 300), *d.button()])
    return [d.header(), *_box("flex", [*main, _side(d)])]


def _gallery(d: Design) -> list[str]:
    inside = '<img src="https://picsum.photos/id/48/240/160">' if d["photo"] == "yes" else ""
    return [d.header(), *_box("text-center py-8", [d.headline(), *d.button()]), d.cards(inside)]


def _form(d: Design) -> list[str]:
    fields = [
        '<input class="border p-2 m-2 block" placeholder="Name">',
        '<input class="border p-2 m-2 block" placeholder="Email">',
    ]
    return [d.header(), *_box("flex p-8", [*_box("w-1/2", [d.headline(), *fields, *d.button()]), *d.photo(480, 360)])]


def _article(d: Design) -> list[str]:
    return [d.header(), *_box("w-1/2 mx-auto py-8", [d.headline(), *d.photo(640, 320), d.words(), *d.button()])]


def _list(d: Design) -> list[str]:
    return [d.header(), *_box("p-8", [d.headline(), *d.photo(400, 200), *_box("py-4", d.rows()), *d.button()])]


def _prices(d: Design) -> list[str]:
    return [
        d.header(),
        *_box("text-center p-8", [d.headline(), *d.photo(1000, 200), d.cards('<p class="text-4xl">$9</p>'), *d.button()]),
    ]


def _steps(d: Design) -> list[str]:
    return [
        d.header(),
        *_box("flex p-8", [*_box("w-1/2", d.rows(numbered=True)), *_box("", [d.headline(), *d.photo(480, 280), *d.button()])]),
    ]


def _profile(d: Design) -> list[str]:
    return [*_box("text-center p-8", [*d.photo(200, 200), d.headline(), d.words(), *d.button()]), d.header(), d.cards()]


def _shop(d: Design) -> list[str]:
    return [d.header(), d.cards('<p class="text-2xl">$9</p>'), *d.photo(1280, 200), *_box("p-8", [d.headline(), *d.button()])]


def _board(d: Design) -> list[str]:
    return [*_box("flex", [_side(d), *_box("w-3/4", [d.header(), d.headline(), d.cards(), *d.photo(640, 240), *d.button()])])]


_LAYOUTS = {
    "landing": _landing, "banner": _banner, "photo-right": _photo_right, "photo-left": _photo_left, "menu-left": _menu_left,
    "menu-right": _menu_right, "gallery": _gallery, "form": _form, "article": _article, "list": _list, "prices": _prices, "steps": _steps,
    "profile": _profile, "shop": _shop, "board": _board,
}  # fmt: skip


def plain_design(topic: Topic) -> Design:
    """The default design: the first option of every slot."""
    return Design(topic, {slot: options[0] for slot, options in SLOTS.items()})
