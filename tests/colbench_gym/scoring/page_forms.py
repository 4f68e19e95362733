"""Forms in which people and models show a page: each is a function of its source to the text of a message."""

from __future__ import annotations

import html
from collections.abc import Callable
from textwrap import indent

_SNIPPET = "```html\n<h1>Other</h1>\n```"

FORMS: dict[str, Callable[[str], str]] = {
    "bare": lambda p: p,
    "bare, prose around": lambda p: f"Here it is:\n{p}\nDo you like it?",
    "bare, quoted": lambda p: "\n".join(f"> {line}" for line in p.split("\n")),
    "html": lambda p: f"```html\n{p}\n```",
    "HTML": lambda p: f"```HTML\n{p}\n```",
    "no language": lambda p: f"```\n{p}\n```",
    "text": lambda p: f"```text\n{p}\n```",
    "xml": lambda p: f"```xml\n{p}\n```",
    "tildes": lambda p: f"~~~html\n{p}\n~~~",
    "four backticks": lambda p: f"````html\n{p}\n````",
    "no end": lambda p: f"```html\n{p}",
    "prose around": lambda p: f"Like this?\n\n```html\n{p}\n```\n\nOr not?",
    "bullet": lambda p: "- Here:\n" + indent(f"```html\n{p}\n```", "  "),
    "number": lambda p: "1. Here:\n\n" + indent(f"```html\n{p}\n```", "   ") + "\n\n2. Good?",
    "quote": lambda p: "\n".join(f"> {line}" for line in f"```html\n{p}\n```".split("\n")),
    "quote in a list": lambda p: "- x\n\n" + "\n".join(f"  > {line}" for line in f"```html\n{p}\n```".split("\n")),
    "indented by four": lambda p: "Here:\n" + indent(f"```html\n{p}\n```", "    "),
    "indented by a tab": lambda p: "Here:\n\n" + indent(f"```html\n{p}\n```", "\t"),
    "pre": lambda p: f"<pre><code>{html.escape(p)}</code></pre>",
    "pre, prose around": lambda p: f"Here:\n\n<pre>\n{html.escape(p)}\n</pre>\n\nGood?",
    "details": lambda p: f"<details>\n```html\n{p}\n```\n</details>",
    "fence of Markdown": lambda p: f"````markdown\nHere:\n```html\n{p}\n```\n````",
    "the same with three backticks": lambda p: f"```markdown\nHere:\n```html\n{p}\n```\n```",
    "CRLF": lambda p: f"Here:\n```html\n{p}\n```\nGood?".replace("\n", "\r\n"),
    "CR": lambda p: f"Here:\n```html\n{p}\n```\nGood?".replace("\n", "\r"),
    "line separators": lambda p: f"Here:\n```html\n{p}\n```\nGood?".replace("\n", "\u2028"),
    "byte order mark": lambda p: f"\ufeff```html\n{p}\n```",
    "byte order mark, bare": lambda p: f"\ufeff{p}",
    "zero-width space": lambda p: f"\u200b```html\n\u200b{p}\u200b\n\u200b```",
    "no-break spaces": lambda p: f"Here:\n\u00a0```html\n{p}\n\u00a0```",
    "marker": lambda p: f"I WANT TO ANSWER:\n```html\n{p}\n```",
    "marker in bold": lambda p: f"**I want to answer:**\n\n```html\n{p}\n```",
    "old version": lambda p: f"```html\n<html><body>old</body></html>\n```\nNo, better:\n```html\n{p}\n```",
    "old fragment": lambda p: f"```html\n<h1>Old</h1>\n```\n\n```html\n{p}\n```",
    "fragment after": lambda p: f"```html\n{p}\n```\n\nThe heading may become:\n\n{_SNIPPET}",
    "script after": lambda p: f"```html\n{p}\n```\n\n```js\ndocument.write('<p>x</p>');\n```",
    "script before": lambda p: f"```js\nlet a = '<html>';\n```\n\n```html\n{p}\n```",
    "shell before": lambda p: f"```sh\nnpx serve\n```\n\n```html\n{p}\n```",
    "Python after": lambda p: f"```html\n{p}\n```\n\n```python\nprint('<html></html>')\n```",
    "end on the last line": lambda p: f"Here:\n```html\n{p}```\nGood?",
    "end on the last line, tildes": lambda p: f"~~~\n{p} ~~~\n\nGood?",
    "old version in a comment": lambda p: f"<!--\n```html\n<html>old</html>\n```\n-->\n\n```html\n{p}\n```",
}  # fmt: skip
