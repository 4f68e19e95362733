"""The page of a report: one HTML file that loads no resources and runs only its own script."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from string import Template
from typing import Any

from sweetrl_agent.reporting.figures import number, plain
from sweetrl_agent.reporting.markup import Html, embedded_json, folded, join, missing, section, table, tag
from sweetrl_agent.reporting.palette import custom_properties
from sweetrl_agent.reporting.run_folder import CONFIG, MAX_CONFIG_CHARS, VERSIONS, RunFolder


def fill_page(title: str, facts: Html, sections: Html, data: dict[str, Any]) -> str:
    """Fill in the page template.

    Args:
        title: Title of the page.
        facts: The line below the title.
        sections: The sections.
        data: Data of the script: "curves", "colours", and those of `dialogues.dialogues_data`.
    """
    script = "".join(map(resource, ("report.js", "viewer.js", "curves.js", "index.js")))
    page = Template(resource("page.html")).substitute(
        title=join([title]),
        policy=_policy(script),
        style=custom_properties() + "".join(map(resource, ("report.css", "charts.css", "viewer.css"))),
        facts=facts,
        sections=sections,
        data=embedded_json(data),
        script=script,
    )
    return page.encode("utf-8", "replace").decode()  # models may write lone surrogates


def resource(name: str) -> str:
    """Text of a file in this module's folder."""
    return files("sweetrl_agent.reporting").joinpath(name).read_text(encoding="utf-8")


def _policy(script: str) -> str:
    """Content security policy: nothing is loaded, and only the report's own script runs, identified by its hash."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def setup_section(run: RunFolder) -> Html:
    """Configuration and versions, collapsed."""
    config = run.config[:MAX_CONFIG_CHARS]
    config += f"\n[{len(run.config) - len(config)} more characters]" if len(config) < len(run.config) else ""
    parts = [folded(CONFIG, tag("pre", config)) if config else missing(run.trouble(CONFIG))]
    packages = run.versions.get("packages")
    rows = [(name, _cell(value)) for name, value in run.versions.items() if name != "packages"]
    rows += [(name, _cell(value)) for name, value in (packages.items() if isinstance(packages, dict) else ())]
    parts.append(folded(VERSIONS, table(("Of", "Version"), rows)) if rows else missing(run.trouble(VERSIONS)))
    return section("setup", "Setup", *parts)


def _cell(value: object) -> str:
    figure = number(value)
    return str(value) if figure is None else plain(figure, digits=6)
