"""Settings that take lists: how they may be written, and what is said where one value was expected and several came."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from sandboxes.lists import listed, split_lists

#: Lists of texts whose values contain no blanks outside of JSON. Paths and names of steps may.
_WORDS = ("algorithms", "critics", "simulators", "report_to", "callbacks", "server_urls")
#: Settings of one value -> the setting of `compare` that takes several.
_PLURALS = {"algorithm": "algorithms", "critic": "algorithms", "seed": "seeds"}

#: Settings of `train` -> the setting of `evaluate` that takes their value.
_OF_EVALUATE = {
    "seed": "seeds", "eval_tasks": "num_tasks", "eval_episodes": "episodes", "test_tasks": "tasks", "unseen_tasks": "tasks", "novel_tasks": "tasks",
    "model": "policies",
}  # fmt: skip


def lists_of(parts: Sequence[Any]) -> dict[str, type]:
    """Settings that take lists, by name, with the type of their values."""
    kinds = {"list[int]": int, "list[str]": str}
    return {one.name: kinds[str(one.type)] for part in parts for one in fields(part) if str(one.type) in kinds}


def split_words(words: Sequence[str], parts: Sequence[Any]) -> list[str]:
    """The words of a command line with one value in each word of its lists; see `sandboxes.lists`."""
    lists = lists_of(parts)
    return split_lists(words, lists, [name for name, kind in lists.items() if kind is int or name in _WORDS])


def from_file(settings: Mapping[str, Any], parts: Sequence[Any]) -> dict[str, Any]:
    """Settings of a YAML file with lists where lists are expected: `seeds: 5` and `seeds: 0, 1` are two lists of numbers."""
    lists = lists_of(parts)

    def value(name: str, given: Any) -> Any:
        if name not in lists or given is None:
            return given
        kind, values = lists[name], given if isinstance(given, list) else [given]
        if isinstance(given, str):
            values = listed(given, kind is int or name in _WORDS) if given else []
        return [int(one) if kind is int and isinstance(one, str) and one.isdigit() else one for one in values]

    return {name: value(name, given) for name, given in settings.items()}


def refuse_repeated(words: Sequence[str]) -> None:
    """Refuse a setting that the command line gives twice, of which the parser would take the last value.

    Raises:
        ValueError: Names the setting.
    """
    names = [words[start].removeprefix("--").partition("=")[0].replace("-", "_") for start, _ in _options(words)]
    if repeated := next((name for name in names if names.count(name) > 1), ""):
        raise ValueError(f"`{repeated}` is given more than once, and one of its values would be ignored; give it once.")


def evaluated_as(words: Sequence[str], name: str) -> str:
    """What `evaluate` takes in place of a setting of `train`, with the value that is given; "" for other names."""
    if name not in _OF_EVALUATE:
        return ""
    values: list[str] = []
    for start, stop in _options(words):
        option, equals, value = words[start].removeprefix("--").partition("=")
        if option == name:
            values = [*([value] if equals else []), *words[start + 1 : stop]]
    option = f"--{_OF_EVALUATE[name]} {shlex.join(values)}".strip()
    return f"`{name}` is a setting of `train`; `evaluate` takes `{option}`."


def refuse_several(words: Sequence[str], program: str) -> None:
    """Refuse several algorithms, critics or seeds where one is expected, with the command that takes them.

    Args:
        words: The words of the command line.
        program: The command, such as "python -m sweetrl_agent.train".

    Raises:
        ValueError: Says the command. In `compare`, `--algorithm` without `--algorithms` is refused too: it would have no effect.
    """
    if not program.endswith(("train", "compare")):
        return
    has_plural = any(word.startswith("--algorithms") for word in words)
    for start, stop in _options(words):
        name, equals, value = words[start].removeprefix("--").partition("=")
        texts = [*([value] if equals else []), *words[start + 1 : stop]]
        values = [one for text in texts for one in listed(text, splits_blanks=True)]
        is_of_train = name == "algorithm" and program.endswith("compare") and not has_plural
        if name in _PLURALS and (len(values) > 1 or is_of_train):
            rest = [*words[:start], *words[stop:]]
            if program.endswith("train") and name != "seed":
                rest = ["--seeds", "1", *rest]
            command = compare_command([f"--{_PLURALS[name]}", *values, *rest], program)
            why = "is a setting of `train`" if is_of_train else f"takes one value, got {' '.join(values)}"
            raise ValueError(f"`{name}` {why}; several are compared by `{command}`.")


def compare_command(words: Sequence[str], program: str) -> str:
    """The command line of `compare` for words of `train`: its `--algorithm` is one of the `--algorithms`."""
    words = [f"--algorithms{word[11:]}" if word.partition("=")[0] == "--algorithm" else word for word in words]
    if program.endswith("train") and not any(word.startswith(("--algorithms", "--config")) for word in words):
        words = ["--algorithms", "sweet", *words]
    return f"{program.replace('train', 'compare')} {shlex.join(words)}"


def _options(words: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Places of an option and of the next one."""
    places = [i for i, word in enumerate(words) if word.startswith("--")]
    yield from itertools.pairwise([*places, len(words)])


def stray_values(words: Sequence[str], left: Sequence[str], program: str) -> str:
    """Error text for values that no option takes; "" if there are none.

    Args:
        words: The words of the command line.
        left: Those that the parser does not know.
        program: The command.
    """
    if not left or any(word.startswith("--") for word in left):
        return ""
    start, stop = next((place for place in _options(words) if left[0] in words[place[0] + 1 : place[1]]), (0, 0))
    if stop == 0:
        return f"Expected `--SETTING VALUE`, got {' '.join(left)}."
    option, *values = words[start:stop]
    name, _, first = option.removeprefix("--").partition("=")
    values = [first, *values] if first else values
    if program.endswith("evaluate"):
        moved = [word for word in words if word not in left]
        return f"`{name}` takes one value, got {shlex.join(values)}; policies come first: `{program} {shlex.join([*left, *moved])}`."
    advice = "" if all(value.replace(".", "").isdigit() for value in values) else "; quote a value with blanks"
    return f"`{name}` takes one value, got {' '.join(values)}{advice}."
