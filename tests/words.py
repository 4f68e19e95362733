"""Settings as words of a command line."""

from __future__ import annotations


def words(settings=(), **more):
    """`--name value` for each setting; a list has one word for each of its values."""
    given = {**dict(settings), **more}
    return [
        word
        for name, value in given.items()
        for word in (f"--{name}", *map(str, value if isinstance(value, list) else [value]))
    ]


def with_defaults(defaults, given):
    """The words of a command line, behind those of settings that they do not give."""
    names = {word[2:].partition("=")[0] for word in given if word.startswith("--")}
    return [*words({name: value for name, value in defaults.items() if name not in names}), *given]
