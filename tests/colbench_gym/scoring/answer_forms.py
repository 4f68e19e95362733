"""Forms in which people and models write a right program: each is a function of (source, name of the function) to the text of an answer.

Forms that need several pieces divide the program: `_impl` is the reference under another name, and the function calls it.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from textwrap import indent

Form = Callable[[str, str], str]
PY = "```python\n{}\n```"


def _impl(source: str, name: str) -> str:
    return re.sub(rf"\b{name}\b", "_impl", source)


def _calling(name: str, before: str = "", value: str = "_impl(*values, **named)") -> str:
    return f"def {name}(*values, **named):\n{indent(before, '    ')}    return {value}"


NEEDS_ONE = "assert ONE == 1\n"


def _first(source: str, statement: str) -> str:
    head, _, body = source.partition("\n")
    return f"{head}\n    {statement}\n{body}"


def _defined(source: str) -> str:
    return source.partition("(")[0].removeprefix("def ")


def _wrong(name: str) -> str:
    return f"def {name}(*values, **named):\n    return 'wrong'"


def _stub(name: str, body: str = "...") -> str:
    return f"def {name}(*values, **named):\n    {body}"


def _docstring(source: str, text: str) -> str:
    head, _, body = source.partition("\n")
    return f'{head}\n    """Does it.\n\n{text}\n    """\n{body}'


def _lines(source: str, before: str, after: str = "") -> str:
    return "\n".join(f"{before}{line}{after}" for line in source.split("\n"))


def _quoted(text: str, mark: str = "> ") -> str:
    return _lines(text, mark)


def _fenced(*pieces: str, between: str = "\n\nThen:\n\n", info: str = "python") -> str:
    return between.join(f"```{info}\n{piece}\n```" for piece in pieces)


#: Containers of one program: {} is its source.
CONTAINERS: dict[str, Callable[[str], str]] = {
    "bare": lambda s: s,
    "bare, blank lines around": lambda s: f"\n\n{s}\n\n",
    "bare, prose before": lambda s: f"Here is the function:\n\n{s}",
    "bare, prose after": lambda s: f"{s}\n\nIt does what you asked for.",
    "bare, prose around": lambda s: f"Sure, here it is.\n\n{s}\n\nTell me if it fits: I can change it.",
    "bare, one word after": lambda s: f"{s}\n\nDone",
    "bare, a list after": lambda s: f"{s}\n\n- simple\n- fast",
    "bare, indented as a whole": lambda s: indent(s, "    "),
    "bare, indented by a tab": lambda s: indent(s, "\t"),
    "backticks": lambda s: f"```\n{s}\n```",
    "four backticks": lambda s: f"````python\n{s}\n````",
    "nine backticks": lambda s: f"`````````python\n{s}\n`````````",
    "tildes": lambda s: f"~~~\n{s}\n~~~",
    "tildes, python": lambda s: f"~~~python\n{s}\n~~~",
    "five tildes": lambda s: f"~~~~~py\n{s}\n~~~~~",
    "longer end": lambda s: f"```python\n{s}\n`````",
    "no end": lambda s: f"```python\n{s}",
    "no end, tildes": lambda s: f"~~~\n{s}\n",
    "no start": lambda s: f"{s}\n```",
    "end with blanks": lambda s: f"```python\n{s}\n```   \n\nBye.",
    "end with prose": lambda s: f"```python\n{s}\n```\nThat is all.",
    "start below prose": lambda s: f"Here you are:\n```python\n{s}\n```",
    "indented by one": lambda s: indent(f"```python\n{s}\n```", " "),
    "indented by three": lambda s: indent(f"```python\n{s}\n```", "   "),
    "indented by four": lambda s: "Here:\n\n" + indent(f"```python\n{s}\n```", "    "),
    "indented by four below prose": lambda s: "Here:\n" + indent(f"```python\n{s}\n```", "    "),
    "indented by eight": lambda s: "Here:\n" + indent(f"```python\n{s}\n```", " " * 8),
    "indented by a tab": lambda s: "Here:\n" + indent(f"```python\n{s}\n```", "\t"),
    "indented by a tab, blank line before": lambda s: "Here:\n\n" + indent(f"```python\n{s}\n```", "\t") + "\n\nBye.",
    "code indented as a whole": lambda s: f"```python\n{indent(s, '    ')}\n```",
    "code indented by a tab": lambda s: f"```python\n{indent(s, chr(9))}\n```",
    "code indented by two": lambda s: f"```\n{indent(s, '  ')}\n```",
    "code block by indentation": lambda s: f"Here:\n\n{indent(s, '    ')}\n\nThat is it.",
    "code block by a tab": lambda s: f"Here:\n\n{indent(s, chr(9))}\n\nThat is it.",
    "bullet": lambda s: "- Here:\n" + indent(f"```python\n{s}\n```", "  "),
    "bullet, blank line": lambda s: "* Here:\n\n" + indent(f"```python\n{s}\n```", "  ") + "\n\n* Good?",
    "bullet starts with the fence": lambda s: "- " + indent(f"```python\n{s}\n```", "  ")[2:],
    "number": lambda s: "1. First I asked.\n2. Here:\n" + indent(f"```python\n{s}\n```", "   ") + "\n3. Done.",
    "number, blank lines": lambda s: "1. Here:\n\n" + indent(f"```python\n{s}\n```", "   ") + "\n\n2. Done.",
    "number in parentheses": lambda s: "1) Here:\n\n" + indent(f"```python\n{s}\n```", "   "),
    "number, two columns too few": lambda s: "1. Here:\n" + indent(f"```python\n{s}\n```", " "),
    "number, indented by a tab": lambda s: "1. Here:\n" + indent(f"```python\n{s}\n```", "\t"),
    "two-digit number": lambda s: "10. Here:\n" + indent(f"```python\n{s}\n```", "    "),
    "list in a list": lambda s: "- a\n  - b\n" + indent(f"```python\n{s}\n```", "    "),
    "three lists deep": lambda s: "- a\n  - b\n    1. c\n" + indent(f"```python\n{s}\n```", "       "),
    "list, code block by indentation": lambda s: "- Here:\n\n" + indent(s, "      "),
    "list, fence at the margin": lambda s: f"1. Here:\n```python\n{s}\n```\n2. Done.",
    "list, code at the margin": lambda s: f"1. Here:\n\n   ```python\n{s}\n   ```",
    "quote": lambda s: _quoted(f"```python\n{s}\n```"),
    "quote without blanks": lambda s: _quoted(f"```python\n{s}\n```", ">"),
    "quote in a quote": lambda s: _quoted(f"```python\n{s}\n```", "> > "),
    "three quotes deep": lambda s: _quoted(f"```python\n{s}\n```", ">>> ") if ">>>" not in s else s,
    "quote, prose before": lambda s: "He said:\n\n" + _quoted(f"Here:\n\n```python\n{s}\n```"),
    "quote without a fence": lambda s: _quoted(s),
    "quote, code block by indentation": lambda s: _quoted(f"Here:\n\n{indent(s, '    ')}"),
    "quote in a list": lambda s: "- Here:\n\n" + indent(_quoted(f"```python\n{s}\n```"), "  "),
    "list in a quote": lambda s: _quoted("1. Here:\n" + indent(f"```python\n{s}\n```", "   ")),
    "pre and code": lambda s: f"<pre><code>{html.escape(s)}</code></pre>",
    "pre and code with a class": lambda s: f'<pre><code class="language-python">\n{html.escape(s)}\n</code></pre>',
    "pre": lambda s: f"Here:\n<pre>\n{html.escape(s)}\n</pre>\nBye.",
    "pre, no entities": lambda s: f"<pre>\n{s}\n</pre>",
    "pre in upper case": lambda s: f"<PRE>\n{html.escape(s)}\n</PRE>",
    "pre in a division": lambda s: f'<div class="highlight"><pre><span></span>{html.escape(s)}</pre></div>',
    "pre without an end": lambda s: f"<pre><code>\n{html.escape(s)}",
    "details": lambda s: f"<details>\n<summary>Code</summary>\n\n```python\n{s}\n```\n\n</details>",
    "details without blank lines": lambda s: f"<details>\n<summary>Code</summary>\n```python\n{s}\n```\n</details>",
    "heading before": lambda s: f"## Answer\n```python\n{s}\n```",
    "underlined heading before": lambda s: f"Answer\n======\n```python\n{s}\n```",
    "line before": lambda s: f"---\n```python\n{s}\n```\n---",
    "table before": lambda s: f"| a | b |\n|---|---|\n| 1 | 2 |\n\n```python\n{s}\n```",
    "whole answer in a fence of Markdown": lambda s: f"````markdown\nHere:\n\n```python\n{s}\n```\n````",
    "the same with three backticks": lambda s: f"```markdown\nHere:\n\n```python\n{s}\n```\n```",
    "language on a line of its own": lambda s: f"```\npython\n{s}\n```",
    "a fence within a fence": lambda s: f"```\n```python\n{s}\n```\n```",
    "inline fence": lambda s: f"```{s}```",
    "inline fence with a language": lambda s: f"```python {s}```",
    "prose inside of the fence": lambda s: f"```\nHere is the function:\n{s}\nIt does it.\n```",
    "bare, indented below prose": lambda s: f"Here:\n{indent(s, '    ')}\nBye.",
    "bare, indented by two": lambda s: f"Here:\n\n{indent(s, '  ')}\n\nBye.",
    "bare, indented by one below prose": lambda s: f"Here:\n{indent(s, ' ')}\nBye.",
    "bare, indented by a tab below prose": lambda s: f"Here:\n{indent(s, chr(9))}\nBye.",
    "bare, indented, with an import": lambda s: f"Here:\n{indent(f'import math{chr(10)}{chr(10)}{s}', '  ')}\n\nBye.",
    "bare, after words on its line": lambda s: f"Answer: {s}",
    "bare, after bold words on its line": lambda s: f"**The solution:** {s}\n\nThat is it.",
    "bare, escaped for Markdown": lambda s: "Here:\n\n" + s.replace("_", "\\_").replace("*", "\\*") + "\n\nBye.",
    "bare, many words that start statements": lambda s: "from the list I take some.\nimport duty is added.\nclass sizes are left out.\n" * 25 + f"\n{s}",
    "here document": lambda s: f"```bash\ncat > f.py <<EOF\n{s}\nEOF\n```",
    "a string with tags that hide": lambda s: "Here:\n\nA = 1\nB = \'\'\'\n<script>\n</script>\n<style>\n\'\'\'\n\n" + _first(s, "assert A and B") + "\n\nBye.",
    "a string with an open comment": lambda s: f"Here:\n\nA = '<!-- x'\n{s}\n\nBye.",
    "words about tags": lambda s: f"<style> is not needed, nor is\n<script>, <!-- as you said.\n\n```python\n{s}\n```",
    "wrong version in a comment within a line": lambda s: f"```python\n{s}\n```\n\nAs said <!-- before:\ndef {_defined(s)}(*a):\n    return 'wrong'\n--> it fits.",
    "wrong version in a script": lambda s: f"```python\n{s}\n```\n\n<script>\ndef {_defined(s)}(*a):\n    return 'wrong'\n</script>",
    "wrong version in a style": lambda s: f"{s}\n\n<div><style>\ndef {_defined(s)}(*a):\n    return 'wrong'\n</style></div>",
    "wrong version in a comment in pre": lambda s: f"<pre>\n{html.escape(s)}\n</pre>\n<pre>\n<!--\ndef {_defined(s)}(*a):\n    return 'wrong'\n-->\n</pre>",
    "old version in a comment": lambda s: f"<!--\n```python\ndef broken(:\n```\n-->\n\n```python\n{s}\n```",
    "interactive session": lambda s: "```\n" + "\n".join((">>> " if i == 0 else "... ") + line for i, line in enumerate(s.split("\n"))) + "\n... \n```",
}  # fmt: skip
INFOS = (
    "Python", "PYTHON", "py", "python3", "python3.11", " python", "{.python}", "{python}", 'python title="a.py"', "python {linenos=true}",
    "python:main.py", "py3", "text", "code", "pycon", "python\t", "Python 3", "ipython",
)  # fmt: skip


def _in(container: Callable[[str], str]) -> Form:
    return lambda source, name: container(source)


FORMS: dict[str, Form] = {name: _in(container) for name, container in CONTAINERS.items()}
FORMS |= {f"info string {info!r}": _in(lambda s, info=info: f"```{info}\n{s}\n```") for info in INFOS}
_ENDS = {"CRLF": "\r\n", "CR": "\r"}
_WRAPPED = {"bare": "{}", "fence": "Here:\n\n```python\n{}\n```\n\nBye.", "list": "1. Here:\n\n   ```python\n{}\n   ```"}
for _end, _sign in _ENDS.items():
    for _wrap, _text in _WRAPPED.items():
        FORMS[f"{_wrap}, line ends {_end}"] = _in(lambda s, t=_text, e=_sign: t.format(s).replace("\n", e))
for _name, _sign in {
    "U+2028": "\u2028",
    "U+2029": "\u2029",
    "U+0085": "\u0085",
    "vertical tab": "\x0b",
    "form feed": "\x0c",
}.items():
    FORMS[f"lines end in {_name}"] = _in(lambda s, e=_sign: f"```python\n{s}\n```".replace("\n", e))
    FORMS[f"{_name} before the fence"] = _in(lambda s, e=_sign: f"Here:{e}```python\n{s}\n```")
_SIGNS = {
    "byte order mark": "\ufeff", "zero-width space": "\u200b", "zero-width joiner": "\u200d", "zero-width non-joiner": "\u200c", "word joiner": "\u2060",
    "soft hyphen": "\u00ad", "left-to-right mark": "\u200e", "right-to-left embedding": "\u202b", "isolate": "\u2066", "variation selector": "\ufe0f",
}  # fmt: skip
for _name, _sign in _SIGNS.items():
    FORMS[f"{_name} first, bare"] = _in(lambda s, c=_sign: c + s)
    FORMS[f"{_name} first, fence"] = _in(lambda s, c=_sign: f"{c}```python\n{s}\n```")
    FORMS[f"{_name} in the code"] = _in(lambda s, c=_sign: f"```python\n{c}{s.replace('return ', 'return ' + c, 1)}{c}\n```")
_BLANKS = {
    "no-break space": "\u00a0",
    "narrow no-break space": "\u202f",
    "ideographic space": "\u3000",
    "em space": "\u2003",
    "figure space": "\u2007",
}
for _name, _sign in _BLANKS.items():
    FORMS[f"{_name}s as indentation"] = _in(
        lambda s, c=_sign: f"```python\n{re.sub('^ +', lambda m: c * len(m.group()), s, flags=re.M)}\n```"
    )
    FORMS[f"{_name}s everywhere, bare"] = _in(lambda s, c=_sign: re.sub("(?<=return) ", c, s))
FORMS |= {
    "no-break spaces before the fence": _in(lambda s: f"Here:\n\u00a0\u00a0```python\n{s}\n\u00a0\u00a0```"),
    "docstring with a fence": lambda s, n: PY.format(_docstring(s, f"```\n{n}()\n```")),
    "docstring with a fence of Python": lambda s, n: PY.format(_docstring(s, f"```python\n{n}()\n```")),
    "docstring with an indented fence": lambda s, n: PY.format(_docstring(s, f"    ```\n    {n}()\n    ```")),
    "docstring with a fence, four backticks": lambda s, n: f"````python\n{_docstring(s, f'```{chr(10)}{n}(){chr(10)}```')}\n````",
    "docstring with a fence, tildes": lambda s, n: f"~~~python\n{_docstring(s, f'```{chr(10)}{n}(){chr(10)}```')}\n~~~",
    "docstring with a fence, bare": lambda s, n: _docstring(s, f"```\n{n}()\n```"),
    "docstring with a fence, bare, prose around": lambda s, n: f"Here:\n\n{_docstring(s, f'```{chr(10)}{n}(){chr(10)}```')}\n\nThat is it.",
    "docstring with two fences": lambda s, n: PY.format(_docstring(s, f"```\n{n}()\n```\nor\n```\n{n}(1)\n```")),
    "docstring with a fence, list": lambda s, n: "1. Here:\n" + indent(PY.format(_docstring(s, f"```\n{n}()\n```")), "   "),
    "docstring with a fence, quote": lambda s, n: _quoted(PY.format(_docstring(s, f"```\n{n}()\n```"))),
    "string with three backticks": lambda s, n: PY.format(f"MARK = '```'\n{s}"),
    "string with a fence": lambda s, n: PY.format(f"MARK = '''\n```\n'''\n{s}"),
    "OUTPUT: in a docstring": lambda s, n: PY.format(_docstring(s, "    OUTPUT: a value")),
    "OUTPUT: in a docstring, bare": lambda s, n: _docstring(s, "    OUTPUT: a value"),
    "OUTPUT: in a docstring at the margin": lambda s, n: _docstring(s, "OUTPUT: a value"),
    "OUTPUT: in a print": lambda s, n: s.replace("    return", "    print('OUTPUT: ', 1)\n    return", 1),
    "OUTPUT: in a comment": lambda s, n: f"# OUTPUT: a value\n{s}",
    "OUTPUT: after the code": lambda s, n: PY.format(s) + "\n\nOUTPUT: what you asked for",
    "doctest in the docstring": lambda s, n: PY.format(_docstring(s, f"    >>> {n}()\n    0")),
    "doctest after the function": lambda s, n: PY.format(f"{s}\n\n>>> {n}()\n0"),
    "call after the function": lambda s, n: PY.format(f"{s}\n\nprint(callable({n}))"),
    "main guard": lambda s, n: PY.format(f'{s}\n\nif __name__ == "__main__":\n    print({n}(input()))'),
    "comments and a module docstring": lambda s, n: PY.format(f'"""A module."""\n# a comment\n{s}\n# the end'),
    "lines that end in py": lambda s, n: PY.format(f"# a copy\n{s}\n\n# not happy\n"),
    "import before": lambda s, n: PY.format(f"import math\nfrom typing import Any\n\n{s}"),
    "future import": lambda s, n: PY.format(f"from __future__ import annotations\n\n{s}"),
    "async-free lambda": lambda s, n: PY.format(f"{_impl(s, n)}\n\n{n} = lambda *values, **named: _impl(*values, **named)"),
    "name assigned": lambda s, n: PY.format(f"{_impl(s, n)}\n\n{n} = _impl"),
    "partial": lambda s, n: PY.format(f"from functools import partial\n{_impl(s, n)}\n\n{n} = partial(_impl)"),
    "static method assigned": lambda s, n: PY.format(f"class A:\n    @staticmethod\n{indent(_impl(s, n), '    ')}\n\n{n} = A._impl"),
    "method of an object assigned": lambda s, n: PY.format(f"{_impl(s, n)}\n\nclass A:\n    def run(self, *a, **k):\n        return _impl(*a, **k)\n\n{n} = A().run"),
    "class that is called": lambda s, n: PY.format(f"{_impl(s, n)}\n\nclass {n}:\n    def __new__(cls, *a, **k):\n        return _impl(*a, **k)"),
    "defined in a try": lambda s, n: PY.format(f"try:\n{indent(s, '    ')}\nexcept ImportError:\n    pass"),
    "defined in an if": lambda s, n: PY.format(f"if True:\n{indent(s, '    ')}"),
    "decorated": lambda s, n: PY.format(f"def same(function):\n    return function\n\n@same\n{s}"),
    "type hints and a comment between": lambda s, n: PY.format(f"X: int = 3\n\n\n# then\n{s}"),
    # ---- several pieces
    "helper before": lambda s, n: _fenced(_impl(s, n), _calling(n)),
    "helper after": lambda s, n: _fenced(_calling(n), _impl(s, n), between="\n\nand the helper:\n\n"),
    "helper before, bare": lambda s, n: f"The helper:\n\n{_impl(s, n)}\n\nThe function itself:\n\n{_calling(n)}\n\nThat is it.",
    "helper by indentation": lambda s, n: f"First:\n\n{indent(_impl(s, n), '    ')}\n\nThen:\n\n```python\n{_calling(n)}\n```",
    "helper in pre": lambda s, n: f"<pre>{html.escape(_impl(s, n))}</pre>\n\n```python\n{_calling(n)}\n```",
    "helper in a list": lambda s, n: "1. Helper:\n" + indent(PY.format(_impl(s, n)), "   ") + "\n2. Function:\n" + indent(PY.format(_calling(n)), "   "),
    "helper with a docstring of the module": lambda s, n: _fenced(f'"""Helpers."""\n{_impl(s, n)}', _calling(n)),
    "helper with a main guard": lambda s, n: _fenced(f"{_impl(s, n)}\n\nif __name__ == '__main__':\n    print(_impl())", _calling(n)),
    "helper with a loop": lambda s, n: _fenced(f"TABLE = {{}}\nfor i in range(3):\n    TABLE[i] = i\n{_impl(s, n)}", _calling(n, "assert TABLE == {0: 0, 1: 1, 2: 2}\n")),
    "helper with appends": lambda s, n: _fenced(f"TABLE = []\nTABLE.append(1)\nTABLE.extend([2, 3])\nTABLE += [4]\n{_impl(s, n)}", _calling(n, "assert TABLE == [1, 2, 3, 4]\n")),
    "helper with a registry": lambda s, n: _fenced(f"ALL = []\ndef register(one):\n    ALL.append(one)\n    return one\n\n@register\n{_impl(s, n)}", _calling(n, value="ALL[0](*values, **named)")),
    "helper with try: import": lambda s, n: _fenced(f"try:\n    import numpy_that_is_not_there as np\nexcept ImportError:\n    np = None\n{_impl(s, n)}", _calling(n, "assert np is None\n")),
    "helper with an if": lambda s, n: _fenced(f"import sys\nif sys.version_info > (3,):\n    NEW = True\nelse:\n    NEW = False\n{_impl(s, n)}", _calling(n, "assert NEW\n")),
    "helper with a with": lambda s, n: _fenced(f"import contextlib\nwith contextlib.suppress(Exception):\n    ONE = 1\n{_impl(s, n)}", _calling(n, "assert ONE == 1\n")),
    "helper with a future import": lambda s, n: _fenced(f"from __future__ import annotations\n{_impl(s, n)}", f"from __future__ import annotations\n{_calling(n)}"),
    "helper with prints and asserts": lambda s, n: _fenced(f"{_impl(s, n)}\nprint(_impl)\nassert callable(_impl)\nx = 1 / 1", _calling(n)),
    "helper that a helper uses": lambda s, n: _fenced("A = 1", f"def one():\n    return A\n\n{_impl(s, n)}", _calling(n, "assert one() == 1\n")),
    "imports in a block of their own": lambda s, n: _fenced("import math\nfrom os import path as p", _impl(s, n), _calling(n, "assert math.pi > 3 and p\n")),
    "star import in a block of its own": lambda s, n: _fenced("from math import *", _impl(s, n), _calling(n, "assert pi > 3\n")),
    "constant in a block of its own": lambda s, n: _fenced("RATE, OTHER = 2, 3", _impl(s, n), _calling(n, "assert RATE == 2\n")),
    "class in a block of its own": lambda s, n: _fenced("class Box:\n    size = 2", _impl(s, n), _calling(n, "assert Box.size == 2\n")),
    "two statements a line": lambda s, n: _fenced("A = 1; B = 2; print(B)", _impl(s, n), _calling(n, "assert (A, B) == (1, 2)\n")),
    "decorator in a block of its own": lambda s, n: _fenced(f"def same(function):\n    return function\n\n@same\n{_impl(s, n)}", "@same\n" + _calling(n)),
    "decorator after": lambda s, n: _fenced("@same\n" + s, "def same(function):\n    return function", between="\n\nwith this decorator:\n\n"),
    "cached in a second block": lambda s, n: _fenced(s, f"{n} = (lambda one: one)({n})", between="\n\nand wrapped:\n\n"),
    "global counter": lambda s, n: _fenced(f"COUNT = 0\ndef count():\n    global COUNT\n    COUNT += 1\n{_impl(s, n)}", _calling(n, "count()\nassert COUNT >= 1\n")),
    # ---- several versions
    "wrong, then corrected": lambda s, n: _fenced(_wrong(n), s, between="\n\nWait, that is wrong.\n\n"),
    "wrong, then corrected, bare": lambda s, n: f"{_wrong(n)}\n\nWait, that is wrong:\n\n{s}\n\nNow it is right.",
    "wrong in a fence, then corrected without": lambda s, n: f"{PY.format(_wrong(n))}\n\nWait, that is wrong:\n\n{s}",
    "wrong by indentation, then corrected": lambda s, n: f"First:\n\n{indent(_wrong(n), '    ')}\n\nNo:\n\n{PY.format(s)}",
    "three versions": lambda s, n: _fenced(_wrong(n), _wrong(n).replace("wrong", "worse"), s),
    "wrong lambda, then corrected": lambda s, n: _fenced(f"{n} = lambda *a: 0", s),
    "wrong, then corrected with a helper of before": lambda s, n: _fenced(f"{_impl(s, n)}\n{_wrong(n)}\nprint({n}())\nx = {n}(1)", _calling(n)),
    "wrong version with code that fails": lambda s, n: _fenced(f"{_wrong(n)}\nprint(undefined)\n1 / 0", s),
    "corrected in the same block": lambda s, n: PY.format(f"{_wrong(n)}\n\n{s}"),
    "helper corrected": lambda s, n: _fenced("def _impl(*a, **k):\n    return 'wrong'", _calling(n), _impl(s, n), between="\n\nand better:\n\n"),
    "helper corrected alone": lambda s, n: _fenced(f"def _impl(*a, **k):\n    return 1 / 0\n\n{_calling(n)}", _impl(s, n), between="\n\nThe helper has to be:\n\n"),
    "helper corrected twice, with helpers": lambda s, n: _fenced(f"def _impl(*a, **k):\n    return 1 / 0\n\n{_calling(n)}", "def _impl(*a, **k):\n    return 2 / 0", f"import math\ndef one(x):\n    return math.floor(x)\nassert one\n\n{_impl(s, n)}\n"),
    "helper, then its stub": lambda s, n: _fenced(f"{_impl(s, n)}\n\n{_calling(n)}", "def _impl(*a, **k): ..."),
    "helper with the name of a builtin": lambda s, n: _fenced("def hash(x):\n    return 'mine'\n\ndef filter(x):\n    return hash(x)", _impl(s, n), _calling(n, "assert filter(1) == 'mine'\n")),
    "two files": lambda s, n: f"**helpers.py**\n{PY.format(_impl(s, n))}\n\n**main.py**\n{PY.format(f'from helpers import _impl{chr(10)}{chr(10)}{_calling(n)}')}",
    "two files, main first": lambda s, n: _fenced(f"from .helpers import (\n    _impl,\n)\n\n{_calling(n)}", _impl(s, n)),
    "two files, another name": lambda s, n: _fenced(f"ONE = 1\n{_impl(s, n)}", f"import math\nfrom tools.helpers import ONE, _impl as run\n\n{_calling(n, NEEDS_ONE, 'run(*values, **named)')}"),
    "a package": lambda s, n: _fenced(s, f"from .{n} import {n}\n\n__all__ = ['{n}']"),
    "whole, then its last lines": lambda s, n: _fenced(s, f"def {n}(*values):\n    ...\n    return result"),
    "whole, then its last lines below a comment": lambda s, n: _fenced(s, f"def {n}(*values):\n    # ... existing code ...\n    return result"),
    "whole, then its lines between comments": lambda s, n: _fenced(s, f"def {n}(*values):\n    # ...\n    result = 0\n    # … (the rest is unchanged)\n    return result"),
    "wrong, then one with other ellipses": lambda s, n: _fenced(_wrong(n), _first(s, "# ... and the rest is easy\n    try: ...\n    except ValueError: ...")),
    "stub, then whole": lambda s, n: _fenced(_stub(n), s),
    "stub with pass": lambda s, n: _fenced(_stub(n, "pass"), s),
    "stub with a docstring": lambda s, n: _fenced(_stub(n, '"""Does it."""'), s),
    "stub that raises": lambda s, n: _fenced(_stub(n, "raise NotImplementedError('to do')"), s),
    "signature, then whole": lambda s, n: _fenced(f"def {n}(values)", s),
    "signature with a colon, then whole": lambda s, n: _fenced(f"def {n}(values):", s),
    "whole, then stub": lambda s, n: _fenced(s, _stub(n), between="\n\nIts interface:\n\n"),
    "whole, then signature": lambda s, n: _fenced(s, f"def {n}(values):", between="\n\nIts signature:\n\n"),
    "whole, then import of it": lambda s, n: _fenced(s, f"from solution import {n}\nprint({n}())", between="\n\nUse it:\n\n"),
    # ---- examples and tests
    "example before": lambda s, n: _fenced(f"print({n}())", s),
    "example after": lambda s, n: _fenced(s, f"print({n}())\nresult = {n}(2)", between="\n\nFor example:\n\n"),
    "example that rebinds the name": lambda s, n: _fenced(s, f"{n} = {n}(2)", between="\n\nFor example:\n\n"),
    "example with input": lambda s, n: _fenced(s, f"x = int(input())\nprint({n}(x))", between="\n\nFor example:\n\n"),
    "tests after": lambda s, n: _fenced(s, f"import unittest\nclass T(unittest.TestCase):\n    def test(self):\n        assert {n}() == 0\nunittest.main()"),
    "asserts after": lambda s, n: _fenced(s, f"assert {n}() == 'never'"),
    "pytest after": lambda s, n: _fenced(s, f"from mine import {n}\n\ndef test_{n}():\n    assert {n}() == 0"),
    "main guard after": lambda s, n: _fenced(s, f'if __name__ == "__main__":\n    print({n}(input()))'),
    "session after": lambda s, n: _fenced(s, f">>> {n}()\n0", between="\n\nUse:\n\n"),
    "shell before": lambda s, n: f"```bash\n$ pip install numpy\n```\n\n{PY.format(s)}",
    "shell that parses": lambda s, n: f"```sh\npython -m x\nls\n```\n\n{PY.format(s)}\n\n```sh\ncd\n```",
    "output after": lambda s, n: f"{PY.format(s)}\n\nOutput:\n\n```\n42\n```",
    "output with an assignment": lambda s, n: f"{PY.format(s)}\n\n```text\n{n} = 42\n```",
    "JSON before": lambda s, n: f'```json\n{{"a": 1}}\n```\n\n{PY.format(s)}',
    "JavaScript before": lambda s, n: f"```js\nfunction {n}(x) {{ return 0; }}\n```\n\nIn Python:\n\n{PY.format(s)}",
    "pseudo-code before": lambda s, n: f"```\nfor each value:\n    add it\n```\n\n{PY.format(s)}",
    "inline code before": lambda s, n: f"I call `{n}` with `x = 3`.\n\n{PY.format(s)}",
    "formula before": lambda s, n: f"total = price * quantity\n\n{PY.format(s)}",
}  # fmt: skip
