"""Settings by part and algorithm, with defaults, bounds and names: what `--help` prints and docs/settings.md shows.

Everything is read from the declarations and the registries; nothing is listed here a second time.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import sandboxes
from sweetrl_agent.algorithms.critic_settings import SWEET
from sweetrl_agent.algorithms.critics import CRITICS
from sweetrl_agent.algorithms.registry import ALGORITHMS, titles
from sweetrl_agent.config import files
from sweetrl_agent.config.pipeline import STAGES
from sweetrl_agent.core.environment import EnvironmentRecord
from sweetrl_agent.core.settings import LARGEST, Section, Setting, default_of, section, type_of
from sweetrl_agent.envs.registry import RECORDS, find_record
from sweetrl_agent.models.loading import ENGINES

_FILES = """
`--config NAME` sets defaults from a YAML file: a path, such as config.yaml of a run folder, or one of the package: {}.
Flags override it. A boolean setting takes true or false, and alone means true. {}
"""
_OTHERS = "Settings of algorithms that are not chosen: `--algorithm NAME --help` for one of them, `--help all` for all."
_OF_CRITICS = " Defaults of SWEET-RL with any other critic, whose name in place of `sweet` sets them for this critic alone."
_METAVARS = {int: "N", float: "X", bool: "true|false", str: "TEXT"}
Names = Mapping[str, Sequence[str]]


def algorithm_sections(algorithms: Sequence[str]) -> list[Section]:
    """Settings of algorithms by name, of those that have any; all critics of SWEET-RL have those of `sweet`."""
    names = dict.fromkeys(SWEET if ALGORITHMS[name].critic else name for name in algorithms if name in ALGORITHMS)
    made = [(name, section(name, ALGORITHMS[name].Config)) for name in names]
    return [
        replace(
            part,
            text=f"{titles()[name]}.{_OF_CRITICS if name == SWEET else ''}",
            settings={f"{name}.{setting}": declared for setting, declared in part.settings.items()},
        )
        for name, part in made
        if part.settings
    ]


def split_help(words: Sequence[str]) -> tuple[list[str], str]:
    """The words of a command line without a request for help, and the request: "chosen", "all", or "" for none."""
    place = next((i for i, word in enumerate(words) if word in ("-h", "--help")), None)
    if place is None:
        return list(words), ""
    is_all = [*words[place + 1 : place + 2]] == ["all"]
    return [*words[:place], *words[place + 1 + is_all :]], "all" if is_all else "chosen"


def show(
    program: str, description: str | None, sections: Sequence[Section], settings: Mapping[str, Any], algorithms: Sequence[str]
) -> None:
    """Print the text of `--help`.

    Args:
        program: The command.
        description: What it does.
        sections: Its settings.
        settings: Settings that are given and defaults of their environment, which are shown as defaults.
        algorithms: Names of the algorithms with settings that are shown; () for a command without algorithms.
    """
    names = registered(find_record(str(settings.get("env", next(iter(RECORDS)))), str(settings.get("env_record", ""))))
    text = f"{(description or '').strip()}\n{_FILES.format(', '.join(files.names()), _OTHERS if algorithms else '')}"
    listed = "\n".join(f"  {name:18} {title}" for name, title in titles().items())
    parser = argparse.ArgumentParser(
        usage=f"{program} [--config NAME] [--SETTING VALUE ...]", description=text, add_help=False,
        epilog=f"algorithms:\n{listed}" if algorithms else "", formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    for part in [*sections, *algorithm_sections(algorithms)]:
        group = parser.add_argument_group(part.title, part.text)
        for name, default, bounds, meaning in _rows(part, names, settings):
            notes = "; ".join(filter(None, (f"default: {default}" if default else "", bounds)))
            meaning = f"{meaning} ({notes})" if notes else meaning
            metavar = _metavar(name, part.settings[name], name in names)
            group.add_argument(f"--{name}", metavar=metavar, help=meaning.replace("%", "%%"))
    print(parser.format_help(), end="")


def _rows(part: Section, names: Names, settings: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    """Name, default, bounds and meaning of every setting of a section."""
    for name, declared in part.settings.items():
        named = f" Names: {', '.join(names[name])}." if names.get(name) else ""
        default = _shown(settings.get(name, default_of(declared)), declared)
        yield name, default, _bounds(declared), f"{declared.metadata['description']}{named}"


def _metavar(name: str, declared: Setting, is_named: bool) -> str:
    kind = type_of(declared)
    word = "SOURCE" if name.endswith("tasks") and kind is str else "NAME" if is_named else _METAVARS[kind]
    return f"{word} ..." if isinstance(default_of(declared), list) else word


def registered(record: EnvironmentRecord) -> dict[str, Sequence[str]]:
    """Names that settings take, from the registries."""
    humans = list(record.human_names)
    return {
        "algorithm": list(ALGORITHMS), "algorithms": list(ALGORITHMS), "critic": list(CRITICS), "critics": list(CRITICS), "env": list(RECORDS),
        "engine": list(ENGINES), "simulator": humans, "simulators": [*record.simulators, *humans], "sandbox": list(sandboxes.NAMES),
        "stage": ["all", *STAGES],
    }  # fmt: skip


def as_markdown(sections: Sequence[Section], names: Names) -> str:
    """Sections as Markdown, a table each.

    Args:
        sections: The sections.
        names: Names that settings take, see `registered`.
    """
    lines: list[str] = []
    for part in sections:
        lines += [f"## {part.title}", "", part.text, "", "| setting | default | bounds | meaning |", "|---|---|---|---|"]
        for name, default, bounds, meaning in _rows(part, names, {}):
            lines.append(f"| `--{name}` | {f'`{_cell(default)}`' if default else '(empty)'} | {bounds} | {_cell(meaning)} |")
        lines.append("")
    return "\n".join(lines)


def _shown(value: Any, declared: Setting) -> str:
    """A default as one would type it; "" for an empty one."""
    if isinstance(value, list):
        return " ".join(map(str, value))
    if type_of(declared) is bool:
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def _bounds(declared: Setting) -> str:
    above, least, most = (declared.metadata.get(key) for key in ("gt", "ge", "le"))
    low = f"above {above:g}" if above is not None else f"at least {least:g}" if least and least > -LARGEST else ""
    return ", ".join(filter(None, (low, f"at most {most:g}" if most is not None and most < LARGEST else "")))


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
