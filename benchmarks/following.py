"""Do the replies of the scripted human lead to the reference page? Scores by turn, for an agent that follows them and for one that does not.

    PYTHONPATH=. python benchmarks/following.py --tasks frontend_test.jsonl --count 150 --output runs/following

The *follower* has a few rules: it makes a page with items one below the other, and executes each sentence ("A photo is missing on the left,
300 wide and 200 high."). The *deaf* agent executes the replies from the dialogue on the next row instead: as many changes, but none that was
requested. Every page shown is scored by blocks and by the encoder, which the scripted human does not use. The report ends with the
correlation of the two scores over all pages shown. Intervals are 95%, from a bootstrap over rows.
"""

from __future__ import annotations

import argparse
import html
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from colbench_gym.dialogue import Dialogue
from colbench_gym.files import write_json
from colbench_gym.scoring.intervals import mean_interval
from colbench_gym.scoring.similarity import make_similarity
from colbench_gym.simulators.pages.colours import colour_name
from colbench_gym.simulators.pages.scripted_designer import ScriptedDesigner
from colbench_gym.tasks import Task, load_tasks
from sandboxes.browser import Browser
from sandboxes.pages import Page

TURNS = 10
_ALIGN = {"left": "left", "middle": "center", "right": "right"}


@dataclass(frozen=True)
class Item:
    """An item of the page.

    Attributes:
        kind: "text", "photo", "button" or "field".
        words: Its text.
        column: "left", "middle" or "right".
        size: Font size in pixels.
        colour, ground: Colours of its letters and of its background; "" for the default.
        width, height: Size of a photo in pixels.
    """

    kind: str
    words: str = ""
    column: str = "left"
    size: int = 18
    colour: str = ""
    ground: str = ""
    width: int = 0
    height: int = 0

    def html(self) -> str:
        """A line of the page."""
        words = html.escape(self.words)
        inner = {
            "text": f'<span style="font-size:{self.size}px;color:{self.colour or "inherit"}">{words}</span>',
            "photo": f'<img src="https://picsum.photos/{self.width}/{self.height}" width="{self.width}" height="{self.height}">',
            "button": f'<button style="padding:8px 16px;background:{self.ground or "#ddd"}">{words}</button>',
            "field": f'<input placeholder="{words}">',
        }[self.kind]
        ground = f"background:{self.ground};" if self.ground and self.kind == "text" else ""
        return f'<div style="{ground}text-align:{_ALIGN[self.column]};padding:4px 16px">{inner}</div>'


@dataclass
class Sketch:
    """The follower's page: items in a bar at the top, below it, and in a bar at the bottom."""

    items: list[Item]
    ground: str = "#fff"
    top: str = ""
    bottom: str = ""
    in_top: set[str] = field(default_factory=set)
    in_bottom: set[str] = field(default_factory=set)

    def html(self) -> str:
        """Its source."""
        parts = {"top": "", "": "", "bottom": ""}
        for item in self.items:
            place = (
                "top"
                if self.top and item.words in self.in_top
                else "bottom"
                if self.bottom and item.words in self.in_bottom
                else ""
            )
            parts[place] += item.html()
        bars = [
            f'<{tag} style="background:{colour}">{inside}</{tag}>' if colour else ""
            for tag, colour, inside in (("header", self.top, parts["top"]), ("footer", self.bottom, parts["bottom"]))
        ]  # fmt: skip
        return f'<body style="margin:0;background:{self.ground}">{bars[0]}{parts[""]}{bars[1]}</body>'

    def find(self, words: str, kind: str = "") -> int | None:
        """Index of the last item with a text, of which a quote may only have the beginning; without words, of the last item of a kind."""
        start = words.removesuffix("...")
        places = [i for i, item in enumerate(self.items) if (item.words.startswith(start) if words else item.kind == kind)]
        return places[-1] if places else None

    def change(self, place: int | None, **changes: Any) -> None:
        """Change an item if it exists."""
        if place is not None:
            self.items[place] = replace(self.items[place], **changes)


@cache
def _colours() -> dict[str, str]:
    """A typical colour for every name, as CSS."""
    import colorsys

    grid = [
        (h, s, v)
        for s, v, h in product((0.0, 0.7, 0.5, 0.9, 0.2), (0.75, 0.95, 0.45, 0.6, 1.0, 0.2, 0.0), np.arange(0, 1, 0.02))
    ]
    colours: dict[str, str] = {}
    for h, s, v in grid:
        rgb = [round(255 * part) for part in colorsys.hsv_to_rgb(h, s, v)]
        colours.setdefault(colour_name(rgb), "#{:02x}{:02x}{:02x}".format(*rgb))
    return colours


def css(words: str, before: str = "") -> str:
    """A colour in words as CSS; "a darker green" is darker than it was."""
    for word, factor in (("a darker ", 0.75), ("a lighter ", 1.3)):
        if words.startswith(word):
            old = before or _colours().get(words.removeprefix(word), "#888888")
            return (
                "#" + "".join(f"{min(255, round(int(old[i : i + 2], 16) * factor) + 8):02x}" for i in (1, 3, 5))
                if len(old) == 7
                else old
            )
    return _colours().get(words, "#888888")


def _add(sketch: Sketch, item: Item, place: str) -> None:
    """Add an item at the requested place: below another item, at the top, or at the end."""
    column = next((column for column in _ALIGN if column in place.partition(", under")[0]), "left")
    under = re.search(r'under "(.*)"$', place)
    at = sketch.find(under[1]) if under else None
    where = 0 if "at the top" in place else len(sketch.items) if at is None else at + 1
    sketch.items.insert(where, replace(item, column=column))


def _photo(sketch: Sketch, place: str, width: str, height: str) -> None:
    _add(sketch, Item("photo", width=int(width), height=int(height)), place)


def _bar(sketch: Sketch, where: str, words: str, colour: str) -> None:
    if sketch.find(words) is None:
        _add(sketch, Item("text", words), "on the left" if where == "bottom" else "on the left at the top")
    if where == "bottom":
        sketch.bottom = css(colour)
        sketch.in_bottom.add(words)
    else:
        sketch.top = css(colour)
        sketch.in_top.add(words)


def _sized(sketch: Sketch, words: str, much: str, which: str) -> None:
    place = sketch.find(words)
    if place is not None:
        factor = 2.0 if much else 1.5
        sketch.change(place, size=round(sketch.items[place].size * (factor if which == "larger" else 1 / factor)))


def _resized(sketch: Sketch, how: str) -> None:
    place = sketch.find("", "photo")
    if place is not None:
        name, factor = {
            "wider": ("width", 1.5),
            "narrower": ("width", 0.67),
            "higher": ("height", 1.5),
            "less high": ("height", 0.67),
        }[how]
        sketch.change(place, **{name: round(getattr(sketch.items[place], name) * factor)})


def _gone(sketch: Sketch, kind: str, words: str) -> None:
    place = sketch.find(words, kind)
    if place is not None:
        del sketch.items[place]


def _shifted(sketch: Sketch, kind: str, words: str, way: str) -> None:
    place = sketch.find(words, "photo" if kind == "photo" else "")
    if place is not None:
        item = sketch.items.pop(place)
        sketch.items.insert(max(place + (1 if way == "down" else -1), 0), item)


RULES: tuple[tuple[str, Callable[..., None]], ...] = (
    (r"A photo is missing (.*), (\d+) wide and (\d+) high", _photo),
    (r"There should be no photo.*", lambda s: _gone(s, "photo", "")),
    (r"The photo should be (wider|narrower|higher|less high)", _resized),
    (r'The words "(.*)" are missing (.*)', lambda s, words, place: _add(s, Item("text", words), place)),
    (r'The words "(.*)" should not be there', lambda s, words: _gone(s, "", words)),
    (r'It should say "(.*)" where it says "(.*)"', lambda s, new, old: s.change(s.find(old), words=new)),
    (r'The words "(.*)" should be (much )?(larger|smaller)', _sized),
    (r'A(?: (button|field)) ?(?:"(.*)")? is missing (.*)', lambda s, kind, words, place: _add(s, Item(kind, words or ""), place)),
    (r'There should be no (button|field) ?(?:"(.*)")?', lambda s, kind, words: _gone(s, kind, words or "")),
    (r"There should be no (?:bar at the top|menu)", lambda s: setattr(s, "top", "")),
    (r"There should be no bar at the bottom", lambda s: setattr(s, "bottom", "")),
    (r'A bar at the (top|bottom) is missing with the words "(.*)", in (.*)', _bar),
    (r'A (menu) is missing with the words "(.*)", in (.*)', _bar),
    (r"The (?:bar at the top|menu) should be (.*)", lambda s, colour: setattr(s, "top", css(colour, s.top))),
    (r"The bar at the bottom should be (.*)", lambda s, colour: setattr(s, "bottom", css(colour, s.bottom))),
    (r"The background of the page should be (.*)", lambda s, colour: setattr(s, "ground", css(colour, s.ground))),
    (r'A box is missing with the words "(.*)", in (.*)', lambda s, words, colour: s.change(s.find(words), ground=css(colour))),
    (r'The (?:box|button)(?: with the words)? "(.*)" should be (?!on |in the |further)(.*)',
     lambda s, words, colour: s.change(s.find(words), ground=css(colour))),
    (r'The (words|photo|button|field) ?(?:"(.*)")? should be (?:on|in) the (left|middle|right)',
     lambda s, kind, words, column: s.change(s.find(words or "", kind), column=column)),
    (r'The (words|photo|button|field) ?(?:"(.*)")? should be further (up|down)',
     lambda s, kind, words, way: _shifted(s, kind, words or "", way)),
    (r'The words "(.*)" should be (.*)', lambda s, words, colour: s.change(s.find(words), colour=css(colour))),
)  # fmt: skip


def follow(sketch: Sketch, reply: str) -> int:
    """Execute every sentence of a reply. Returns the number of understood sentences."""
    understood = 0
    for sentence in re.split(r"(?<=[^.]\.) (?=(?:A|The|There|It) )", reply):
        for pattern, change in RULES:
            if match := re.fullmatch(pattern, sentence.rstrip(".") if not sentence.endswith('..."') else sentence):
                change(sketch, *match.groups())
                understood += 1
                break
    return understood


def _begin(task: Task) -> Sketch:
    return Sketch([Item("text", re.split(r"[:,.]", task.description)[0], size=36, column="middle")])


def play(tasks: Sequence[Task], browser: Browser, is_deaf: bool) -> tuple[list[list[str]], list[int]]:
    """Pages of all dialogues by turn, with all dialogues in parallel; and the numbers of sentences said and understood."""
    person = ScriptedDesigner(browser)
    sketches = [_begin(task) for task in tasks]
    dialogues = [Dialogue().add("user", task.description) for task in tasks]
    shown: list[list[str]] = [[] for _ in tasks]
    counts = [0, 0]
    for _ in range(TURNS):
        pages = [sketch.html() for sketch in sketches]
        browser.render([Page(page) for page in pages])  # all at once: the simulated human then finds them in the cache
        replies = []
        for i, (task, page) in enumerate(zip(tasks, pages, strict=True)):
            shown[i].append(page)
            dialogues[i] = dialogues[i].add("assistant", page)
            replies.append(person.reply(task, dialogues[i], 0))
            dialogues[i] = dialogues[i].add("user", replies[-1])
        for i, sketch in enumerate(sketches):
            reply = replies[(i + 1) % len(tasks)] if is_deaf else replies[i]
            counts[0] += max(1, reply.count(". ") + 1)
            counts[1] += follow(sketch, reply)
    return shown, counts


def main() -> None:
    """Play, score, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default="embedded:train")
    parser.add_argument("--count", type=int, default=150)
    parser.add_argument("--output", type=Path, required=True)
    given = parser.parse_args()
    tasks = load_tasks(given.tasks, kind="page")[: given.count]
    scores: dict[str, dict[str, Any]] = {}
    with Browser() as browser:
        references = browser.render([Page(task.hidden.reference) for task in tasks])
        for agent, is_deaf in (("follows", False), ("deaf", True)):
            shown, counts = play(tasks, browser, is_deaf)
            print(f"{agent}: about {counts[0]} sentences said, {counts[1]} understood")
            pages = [browser.render([Page(page) for page in turns]) for turns in shown]
            for name in ("blocks", "encoder"):
                similarity = make_similarity(name)
                table = [
                    similarity.score(row, [reference] * len(row)) for row, reference in zip(pages, references, strict=True)
                ]
                scores.setdefault(agent, {})[name] = np.array(table)
    report: dict[str, Any] = {"n": len(tasks), "turns": TURNS, "curves": {}, "correlation": {}}
    for agent, by_name in scores.items():
        for name, table in by_name.items():
            curve = [
                (float(column.mean()), *map(float, mean_interval(list(column), [task.id for task in tasks])))
                for column in table.T
            ]
            report["curves"][f"{agent} {name}"] = curve
            gain = table[:, -1] - table[:, 0]
            low, high = mean_interval(list(gain), [task.id for task in tasks])
            report["curves"][f"{agent} {name} gain"] = [float(gain.mean()), low, high]
            print(
                f"{agent:8} {name:8}",
                " ".join(f"{mean:.3f}" for mean, *_ in curve),
                f"gain {gain.mean():+.3f} ({low:+.3f} to {high:+.3f})",
            )
    blocks, encoder = (np.concatenate([scores[agent][name].ravel() for agent in scores]) for name in ("blocks", "encoder"))
    within = [
        stats.spearmanr(b, e).statistic
        for agent in scores
        for b, e in zip(scores[agent]["blocks"], scores[agent]["encoder"], strict=True)
        if np.ptp(b) > 0 and np.ptp(e) > 0
    ]
    report["correlation"] = {
        "spearman": float(stats.spearmanr(blocks, encoder).statistic),
        "pearson": float(stats.pearsonr(blocks, encoder).statistic),
        "spearman_within_dialogues": float(np.mean(within)),
        "pages": len(blocks),
    }
    print(report["correlation"])
    given.output.mkdir(parents=True, exist_ok=True)
    write_json(given.output / "following.json", report)


if __name__ == "__main__":
    main()
