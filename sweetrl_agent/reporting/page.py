"""Pages and Markdown from parts, by templates. A page is one file that loads no resources and runs only its own scripts.

All content of a run folder is untrusted, since much of it is written by models: the templates escape every text, and data is embedded as JSON
without "<", ">" and "&".
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any

from sweetrl_agent.reporting.charts import converter
from sweetrl_agent.reporting.numbers import number, plain
from sweetrl_agent.reporting.palette import custom_properties, dark_rules
from sweetrl_agent.reporting.parts import Live, Part, Table, clip
from sweetrl_agent.reporting.run_folder import CONFIG, MAX_CONFIG_CHARS, VERSIONS, RunFolder

if TYPE_CHECKING:
    from jinja2 import Environment


def page(
    title: str, facts: Mapping[str, str], parts: Sequence[Part], data: Mapping[str, Any] | None = None, live: Live | None = None
) -> str:
    """A page.

    Args:
        title: Its title.
        facts: The line below the title: values by name.
        parts: Its parts, most important first.
        data: Data of the dialogue viewer: "colours", and those of `dialogues.dialogues_data`.
        live: Of a page that `watch` serves, the part above the others. The page asks for changes, and is loaded again when it has another version.
            None for a file.
    """
    if live:
        parts = [live.part, *parts]
    charts = [chart.page_spec() for part in parts for chart in part.charts]
    scripts = [
        *([vega()] if charts else []),
        "".join(map(_resource, ("report.js", *(["viewer.js"] if data else []), "index.js", *(["watch.js"] if live else [])))),
    ]
    style = custom_properties() + dark_rules() + "".join(map(_resource, ("report.css", "viewer.css")))
    text = _templates().get_template("page.html.jinja").render(
        title=title, facts=facts, parts=parts, scripts=scripts, style=style, policy=_policy(scripts, live is not None), live=live,
        data=embedded_json({"charts": charts, "version": live.version if live else "", **(data or {})}),
    )  # fmt: skip
    return text.encode("utf-8", "replace").decode()  # models may write lone surrogates


def markdown(title: str, parts: Sequence[Part]) -> str:
    """The parts as Markdown, with links to the chart files; a chart's numbers are in its table."""
    return _templates().get_template("report.md.jinja").render(title=title, parts=parts)


def embedded_json(value: object) -> str:
    """JSON that is safe inside a <script> element: "<", ">" and "&" are escaped.

    Raises:
        ValueError: If it contains NaN or infinity, which browsers cannot parse.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


@cache
def vega() -> str:
    """Vega, Vega-Lite and vega-embed as one script. Bundling takes seconds, so the user's cache folder keeps it for each version."""
    bundle = converter().javascript_bundle
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "colbench-gym"
    path = folder / f"vega-{version('vl-convert-python')}.js"
    try:
        if path.is_file():
            return path.read_text(encoding="utf-8")
    except OSError:
        pass
    script = str(bundle("window.vegaEmbed = vegaEmbed;"))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile("w", dir=folder, encoding="utf-8", delete=False) as file:  # other runs may write it too
            file.write(script)
        os.replace(file.name, path)
    except OSError:  # no cache: the next report bundles again
        pass
    return script


def setup_part(run: RunFolder) -> Part:
    """Configuration and versions, folded."""
    config = run.config[:MAX_CONFIG_CHARS]
    config += f"\n[{len(run.config) - len(config)} more characters]" if len(config) < len(run.config) else ""
    packages = run.versions.get("packages")
    rows = [(name, text_of(value)) for name, value in run.versions.items() if name != "packages"]
    rows += [(name, text_of(value)) for name, value in (packages.items() if isinstance(packages, dict) else ())]
    tables = [Table(("Of", "Version"), rows, VERSIONS, is_folded=True)] if rows else []
    lacks = [run.trouble(name) for name, content in ((CONFIG, config), (VERSIONS, rows)) if not content]
    return Part("setup", "Setup", tables, texts={CONFIG: config} if config else {}, missing=" ".join(lacks))


def text_of(value: object) -> str:
    """A value of a file as text; numbers with six digits."""
    figure = number(value)
    return str(value) if figure is None else plain(figure, digits=6)


@cache
def _templates() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("sweetrl_agent.reporting")
    templates = Environment(
        loader=loader,
        autoescape=lambda name: ".html" in str(name),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters["clip"] = clip
    return templates


def _resource(name: str) -> str:
    return files("sweetrl_agent.reporting").joinpath(name).read_text(encoding="utf-8")


def _policy(scripts: Sequence[str], is_watched: bool) -> str:
    """Content security policy: nothing is loaded, but what changes in a page that is watched, and only the page's own scripts run, identified by their hashes."""
    digests = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    connect = " connect-src 'self';" if is_watched else ""
    return f"default-src 'none';{connect} style-src 'unsafe-inline'; img-src data:; script-src {allowed}; base-uri 'none'; form-action 'none'"
