"""The tables of the guessing games: what may be asked for, and what is true of it.

A table is a JSON file of the package. Its "secrets" are objects or cities with their names, a group (a category, a country) and measures; its
"attributes" are properties with example questions and the secrets that have them: names, "@group", or "-name" to take one out again; or, with
"within", the range of a measure. Those below "understood" are known to the oracle alone: our policies never ask for them, and what is hidden does
not mention them. Names and categories of the original are facts; everything else was written for this package.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Of each secret, whether something is true of it; shape (secrets,).
Truths = NDArray[np.bool_]


@dataclass(frozen=True)
class Secret:
    """What the oracle may think of.

    Attributes:
        names: Names that the original knows; the first is the name here.
        also: Further names.
        group: Category of an object, country of a city.
        measures: Numbers by name: "cm" (longest side), "kg", "usd" (usual price); "people", "latitude" and "longitude" (degrees), "altitude"
            (meters), "founded" (year). One that has no meaning is absent.
        original: What the original calls a city and its country, where its spelling differs.
        article: What stands before the name of an object in a sentence, with a space behind it.
    """

    names: tuple[str, ...]
    also: tuple[str, ...]
    group: str
    measures: Mapping[str, float]
    original: str
    article: str

    @property
    def name(self) -> str:
        """Its first name."""
        return self.names[0]

    @property
    def in_words(self) -> str:
        """Its name in a sentence: "a dog", "Lima"."""
        return self.name if "latitude" in self.measures else self.article + self.name.lower()


@dataclass(frozen=True)
class Attribute:
    """A property of secrets.

    Attributes:
        says: What is said of a secret that has it: "is alive".
        questions: Examples of questions about it; the first is the one that our policies ask.
        keys: Names, in lower case, one of which must occur in a question about it; empty if none has to.
        truths: Which secrets have it.
    """

    says: str
    questions: tuple[str, ...]
    keys: tuple[str, ...]
    truths: Truths


class SecretTable:
    """A table, read from JSON.

    Args:
        content: The parsed file.

    Attributes:
        kind: "object" or "city".
        secrets: In the order of the original.
        attributes: What our policies ask and what is hidden information.
        understood: Further attributes, which only the oracle knows.
        plain_names: First names of the secrets as from `plain`.
        references: Measures of further things that secrets are compared with, by their names in lower case.
    """

    def __init__(self, content: Mapping[str, Any]) -> None:
        self.kind = str(content["kind"])
        self.secrets = tuple(_secret(row) for row in content["secrets"])
        self.references: Mapping[str, Mapping[str, float]] = content["references"]
        self.attributes = tuple(self._attribute(row) for row in content["attributes"])
        self.understood = tuple(self._attribute(row) for row in content.get("understood", ()))
        self.plain_names = tuple(plain(secret.name) for secret in self.secrets)
        self._by_name = {plain(name): i for i, secret in enumerate(self.secrets) for name in (*secret.also, *secret.names)}
        self._any_name = re.compile(rf"(?<!\w)(?:{'|'.join(sorted(map(_form, self._by_name), key=len, reverse=True))})(?!\w)")

    def find(self, name: str) -> int:
        """Index of the secret with a name.

        Raises:
            ValueError: If there is none.
        """
        index = self._by_name.get(plain(name))
        if index is None:
            raise ValueError(f"Expected the name of one of the {len(self.secrets)} secrets ({self.kind}), got {name!r}.")
        return index

    def named(self, text: str) -> list[tuple[int, int, int]]:
        """The secrets that a text names, in its order: index, and where the name begins and ends. `text` is as from `plain`."""
        return [(self._singular(match.group()), match.start(), match.end()) for match in self._any_name.finditer(text)]

    def measure(self, name: str) -> NDArray[np.float64]:
        """A measure of every secret, shape (secrets,); NaN where it has none."""
        return np.array([secret.measures.get(name, np.nan) for secret in self.secrets])

    def _singular(self, name: str) -> int:
        endings = ("", "s", "es", "ies")
        return next(
            self._by_name[singular]
            for ending in endings
            if name.endswith(ending)
            and (singular := name[: len(name) - len(ending)] + ("y" if ending == "ies" else "")) in self._by_name
        )

    def _attribute(self, row: Mapping[str, Any]) -> Attribute:
        truths = np.zeros(len(self.secrets), bool)
        for entry in row.get("yes", ()):
            is_meant = [entry.lstrip("-") in (secret.name, f"@{secret.group}") for secret in self.secrets]
            if not any(is_meant):
                raise ValueError(f"Expected a name or a group of the table in attribute {row['name']!r}, got {entry!r}.")
            truths[is_meant] = not entry.startswith("-")
        if "within" in row:
            truths[:] = True
            for name, (least, most) in row["within"].items():
                values = self.measure(name)
                truths &= ~np.isnan(values)
                truths &= (values >= (-np.inf if least is None else least)) & (values <= (np.inf if most is None else most))
        return Attribute(row["says"], tuple(row["questions"]), tuple(row.get("keys", ())), truths)


@cache
def load_table(name: str) -> SecretTable:
    """The table in a file of this package, read once.

    Args:
        name: "objects" or "cities".
    """
    return SecretTable(json.loads((resources.files("colbench_gym.lmrl.guessing") / f"{name}.json").read_text(encoding="utf-8")))


def plain(text: str) -> str:
    """A text in lower case without accents, and with straight apostrophes and single spaces."""
    text = unicodedata.normalize("NFKD", text.lower().replace("’", "'"))
    return " ".join("".join(char for char in text if not unicodedata.combining(char)).split())


def _form(name: str) -> str:
    """A pattern for a name and its plural."""
    return re.escape(name[:-1]) + "(?:y|ies)" if name.endswith("y") else re.escape(name) + "(?:s|es)?"


def _secret(row: Mapping[str, Any]) -> Secret:
    measures = {key: float(value) for key, value in row.items() if isinstance(value, int | float)}
    names: Sequence[str] = row["names"]
    article = row.get("article", "an " if names[0][0] in "AEIOU" else "a ")
    return Secret(tuple(names), tuple(row.get("also", ())), row["group"], measures, row.get("original", ""), article)
