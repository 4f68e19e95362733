"""Settings by part and stage of a run, with defaults, bounds and names: what `--help` prints and docs/settings.md shows.

Everything is read from the declarations and the registries; nothing is listed here a second time.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from importlib import import_module
from typing import Any

import sandboxes
from sweetrl_agent.config.pipeline import STAGES, first_stage
from sweetrl_agent.core.environment import EnvironmentRecord
from sweetrl_agent.core.settings import Help
from sweetrl_agent.envs.registry import RECORDS

#: Parts of a run by their dataclass, in order -> title of their section.
PARTS = {
    "CompareArguments": "compare", "RunArguments": "run", "TaskArguments": "task", "ModelArguments": "model", "SFTArguments": "sft",
    "CollectArguments": "collect", "EvaluationArguments": "evaluate", "EvaluateArguments": "evaluation", "SharedArguments": "shared",
}  # fmt: skip
#: Stages whose settings are declared with an algorithm.
ALGORITHM_STAGES = ("critic", "candidates", "rank", "actor")
_ORDER = ("compare", "evaluation", "shared", "run", "task", "model", "sft", "collect", *ALGORITHM_STAGES, "evaluate")
_METAVARS = {int: "N", float: "X", bool: "true|false", str: "TEXT"}


@dataclass(frozen=True)
class Setting:
    """A setting.

    Attributes:
        name: Its name: `--name` on the command line, `name` in files.
        default: Its default.
        text: Its help text.
        bounds: Its bounds in words; "" for none.
        names: Names that it takes, from a registry; empty for other settings.
        kind: Type of its value, or of the items of a list.
    """

    name: str
    default: Any
    text: str
    bounds: str
    names: tuple[str, ...]
    kind: type

    @property
    def metavar(self) -> str:
        """Placeholder of its value."""
        if self.name.endswith("tasks") and self.kind is str:
            word = "SOURCE"
        else:
            word = "NAME" if self.names else _METAVARS[self.kind]
        return f"{word} ..." if isinstance(self.default, list) else word

    @property
    def shown_default(self) -> str:
        """Its default as one would type it; "" for an empty one."""
        value = self.default
        if isinstance(value, list):
            return " ".join(map(str, value))
        return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class Section:
    """Settings of a part, a stage or an algorithm."""

    title: str
    text: str
    settings: tuple[Setting, ...]


def sections(parts: Sequence[Any], record: EnvironmentRecord, defaults: Mapping[str, Any] | None = None) -> list[Section]:
    """All settings by section, in the order of a run, then each algorithm.

    Args:
        parts: Dataclasses of settings.
        record: Record of the environment, for the names of its simulated humans.
        defaults: Defaults that differ from the declared ones, by name.
    """
    registry = import_module("sweetrl_agent.algorithms.registry")
    owners, found = registry.setting_owners(), dict[str, list[Setting]]()
    names = registered(record)
    for part in parts:
        for one in fields(part):
            title = owners.get(one.name) or PARTS.get(part.__name__) or _stage(one.name)
            default = (defaults or {}).get(one.name, one.default if one.default_factory is MISSING else one.default_factory())
            help_text = one.metadata["help"]
            item = Setting(
                one.name, default, str(help_text), _bounds(help_text), tuple(names.get(one.name, ())), _kind(one.type, default)
            )
            found.setdefault(title, []).append(item)
    texts = {PARTS[part.__name__]: _first_line(part) for part in parts if part.__name__ in PARTS}
    texts |= {stage: f"Stage `{stage}`: {STAGES[stage].purpose}." for stage in ALGORITHM_STAGES}
    order = [*(title for title in _ORDER if title in found), *(title for title in found if title not in _ORDER)]
    return [Section(title, texts.get(title) or f"{registry.titles()[title]}.", tuple(found[title])) for title in order]


def registered(record: EnvironmentRecord) -> dict[str, Sequence[str]]:
    """Names that settings take, from the registries."""
    registry = import_module("sweetrl_agent.algorithms.registry")
    critics = import_module("sweetrl_agent.algorithms.critics")
    humans = list(record.human_names)
    return {
        "algorithm": list(registry.ALGORITHMS), "algorithms": list(registry.ALGORITHMS), "critic": list(critics.CRITICS),
        "critics": list(critics.CRITICS), "env": list(RECORDS), "simulator": humans, "simulators": [*record.simulators, *humans],
        "sandbox": list(sandboxes.NAMES), "stage": ["all", *STAGES],
    }  # fmt: skip


def as_help(found: Sequence[Section], usage: str, description: str, width: int = 100) -> str:
    """The text of `--help`.

    Args:
        found: The sections.
        usage: The first line.
        description: What the command does.
        width: Characters of a line.
    """
    lines = [f"usage: {usage}", "", description.strip(), ""]
    for section in found:
        lines += [f"{section.title}: {section.text}", *_help_lines(section, width), ""]
    titles = import_module("sweetrl_agent.algorithms.registry").titles()
    lines += ["algorithms:", *(f"  {name:18} {title}" for name, title in titles.items())]
    return "\n".join(lines) + "\n"


def _help_lines(section: Section, width: int) -> Iterator[str]:
    for one in section.settings:
        said = [one.text, f"Names: {', '.join(one.names)}." if one.names else ""]
        notes = [note for note in (f"default: {one.shown_default}" if one.shown_default else "", one.bounds) if note]
        said += [f"({'; '.join(notes)})"] if notes else []
        head = f"  --{one.name} {one.metavar}"
        body = textwrap.wrap(" ".join(filter(None, said)), width - 28, break_on_hyphens=False, break_long_words=False)
        if len(head) < 27:
            yield f"{head:28}{body[0]}"
            body = body[1:]
        else:
            yield head
        yield from (" " * 28 + line for line in body)


def as_markdown(found: Sequence[Section]) -> str:
    """The settings as Markdown: one table for each section."""
    lines: list[str] = []
    for section in found:
        lines += [f"## {section.title}", "", section.text, "", "| setting | default | bounds | meaning |", "|---|---|---|---|"]
        for one in section.settings:
            default = f"`{_cell(one.shown_default)}`" if one.shown_default else "(empty)"
            named = f" Names: {', '.join(f'`{name}`' for name in one.names)}." if one.names else ""
            lines.append(f"| `--{one.name}` | {default} | {one.bounds} | {_cell(one.text)}{named} |")
        lines.append("")
    return "\n".join(lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def _stage(name: str) -> str:
    """Section of a setting that is declared with SWEET-RL; `critic` chooses what is trained in the stage of this name."""
    return "critic" if name == "critic" else first_stage(name)


def _bounds(given: Help) -> str:
    low = f"above {given.above:g}" if given.above is not None else f"at least {given.least:g}" if given.least else ""
    return ", ".join(filter(None, (low, f"at most {given.most:g}" if given.most is not None else "")))


def _kind(declared: Any, default: Any) -> type:
    if isinstance(default, list):
        return int if "int" in str(declared) else str
    return type(default)


def _first_line(part: Any) -> str:
    return str(part.__doc__).strip().splitlines()[0]
