"""Answers that a person would call wrong: (function of source and name to the text, pattern of the outcome, part of the fault or "")."""

from __future__ import annotations

from textwrap import indent

from .answer_forms import PY, Form, _calling, _fenced, _impl, _stub

NAME = "exception:NameError"
SYNTAX = "exception:(?:Syntax|Indentation)Error"
VALUE = "wrong"


def _named(new: str) -> Form:
    return lambda source, name: PY.format(source.replace(f"def {name}", f"def {new.format(name)}", 1))


def _head(source: str) -> str:
    return source.partition("\n")[0]


def _half(source: str) -> str:
    lines = source.split("\n")
    return "\n".join([*lines[: max(2, len(lines) // 2)], "    if (value and"])


WRONG: dict[str, tuple[Form, str, str]] = {
    # ---- another name
    "renamed": (_named("solution"), NAME, "defines `solution` and not `{name}`"),
    "capitalised": (lambda s, n: _named(n.capitalize())(s, n), NAME, "and not `{name}`"),
    "upper case": (lambda s, n: _named(n.upper())(s, n), NAME, "and not `{name}`"),
    "with a number": (_named("{}2"), NAME, "defines `{name}2` and not `{name}`"),
    "with an underscore": (_named("_{}"), NAME, "defines `_{name}` and not `{name}`"),
    "with a prefix": (_named("get_{}"), NAME, "defines `get_{name}` and not `{name}`"),
    "in plural": (_named("{}s"), NAME, "defines `{name}s` and not `{name}`"),
    "called main": (_named("main"), NAME, "defines `main` and not `{name}`"),
    "renamed, bare": (lambda s, n: s.replace(f"def {n}", "def solve", 1), NAME, "defines `solve` and not `{name}`"),
    "renamed, prose around": (lambda s, n: f"Here:\n\n{s.replace(f'def {n}', 'def solve', 1)}\n\nDone.", NAME, "defines `solve`"),
    "renamed lambda": (lambda s, n: PY.format("solve = lambda *a: a"), NAME, "defines `solve` and not `{name}`"),
    "renamed and an example": (lambda s, n: _fenced(s.replace(f"def {n}", "def solve", 1), f"print({n}(1))"), NAME, "defines `solve`"),
    "two other functions": (lambda s, n: PY.format("def one(): return 1\ndef two(): return 2"), NAME, "and not `{name}`"),
    "renamed in quotes": (lambda s, n: "\n".join(f"> {line}" for line in _named("solve")(s, n).split("\n")), NAME, "defines `solve`"),
    # ---- not at the top level
    "method": (lambda s, n: PY.format(f"class Solution:\n{indent(s.replace('(', '(self, ', 1), '    ')}"), NAME, "method of the class `Solution`"),
    "static method": (lambda s, n: PY.format(f"class Tool:\n    @staticmethod\n{indent(s, '    ')}"), NAME, "method of the class `Tool`"),
    "method, bare": (lambda s, n: f"class Solution:\n\n    @staticmethod\n{indent(s, '    ')}", NAME, "method of the class `Solution`"),
    "method, bare, prose around": (lambda s, n: f"Here is a class.\n\nclass A:\n\n    @staticmethod\n{indent(s, '    ')}\n\nUse A.{n}.", NAME, "method of the class `A`"),
    "method by indentation": (lambda s, n: f"Here is a class:\n\n    class A:\n\n        @staticmethod\n{indent(s, '        ')}", NAME, "method of the class `A`"),
    "method of a broken class": (lambda s, n: f"class A(:\n\n    @staticmethod\n{indent(s, '    ')}", SYNTAX, "does not parse"),
    "method and its instance": (lambda s, n: PY.format(f"class A:\n    @staticmethod\n{indent(s, '    ')}\n\na = A()\nprint(a.{n})"), NAME, "method of the class `A`"),
    "nested": (lambda s, n: PY.format(f"def outer():\n{indent(s, '    ')}\n    return {n}"), NAME, "defined inside of `outer`"),
    "nested, bare": (lambda s, n: f"def outer():\n\n{indent(s, '    ')}\n\n    return {n}", NAME, "defined inside of `outer`"),
    "factory that is not called": (lambda s, n: PY.format(f"def make():\n{indent(s, '    ')}\n    return {n}\n\nmake()"), NAME, "defined inside of `make`"),
    "under a main guard": (lambda s, n: PY.format(f"if __name__ == '__main__':\n{indent(s, '    ')}\n    print({n})"), NAME, "under a main guard"),
    "deleted": (lambda s, n: PY.format(f"{s}\ndel {n}"), NAME, ""),
    # ---- no code
    "prose": (lambda s, n: "I would add the values up and round the result.", SYNTAX, "no Python code"),
    "prose with the name": (lambda s, n: f"The function {n} should add the values up.", SYNTAX, "no Python code"),
    "a description in a list": (lambda s, n: "1. Take the values.\n2. Add them up.\n3. Round.", SYNTAX, "no Python code"),
    "a question": (lambda s, n: "How should I round?", SYNTAX, "no Python code"),
    "one word": (lambda s, n: "Done", NAME, "no Python code"),
    "a number": (lambda s, n: "42", NAME, "no Python code"),
    "name alone": (lambda s, n: f"`{n}`", "exception:.*", ""),
    "an apology": (lambda s, n: "Sorry, I do not know.", SYNTAX, "no Python code"),
    "empty": (lambda s, n: "", "no_answer", "no answer"),
    "blank": (lambda s, n: " \n\t\n", "no_answer", "no answer"),
    "empty fence": (lambda s, n: "```python\n```", "exception:.*", ""),
    "output alone": (lambda s, n: "Output:\n```\n42\n```", NAME, "no Python code"),
    "a heading": (lambda s, n: "# The function", NAME, ""),
    # ---- pseudo-code and other languages
    "pseudo-code": (lambda s, n: PY.format(f"function {n}(values)\n    total = sum of values\n    return total rounded"), SYNTAX, "does not parse"),
    "pseudo-code in words": (lambda s, n: "```\nfor each value:\n    add it to the total\nreturn the total\n```", SYNTAX, ""),
    "placeholders": (lambda s, n: PY.format(f"def {n}(values):\n    <your code here>"), SYNTAX, "does not parse"),
    "JavaScript": (lambda s, n: f"```javascript\nfunction {n}(x) {{\n  return x + 1;\n}}\n```", SYNTAX, "JavaScript"),
    "JavaScript arrow": (lambda s, n: f"```js\nconst {n} = (x) => {{ return x + 1; }};\n```", SYNTAX, "JavaScript"),
    "Java": (lambda s, n: f"```java\npublic static int {n}(int x) {{ return x + 1; }}\n```", SYNTAX, "Java"),
    "C": (lambda s, n: f"```c\n#include <stdio.h>\nint {n}(int x) {{ return x + 1; }}\n```", SYNTAX, "C"),
    "Rust": (lambda s, n: f"```rust\nfn {n}(x: i32) -> i32 {{ x + 1 }}\n```", SYNTAX, "Rust"),
    "Go": (lambda s, n: f"```go\nfunc {n}(x int) int {{ return x + 1 }}\n```", SYNTAX, "Go"),
    "Ruby": (lambda s, n: f"```ruby\ndef {n}(x)\n  x + 1\nend\n```", SYNTAX, "Ruby"),
    "SQL": (lambda s, n: "```sql\nSELECT SUM(x) FROM t;\n```", SYNTAX, "SQL"),
    "Python 2": (lambda s, n: PY.format(f"def {n}(*values):\n    print 'x'\n    return 1"), SYNTAX, "does not parse"),
    # ---- broken or unfinished programs
    "cut in an expression": (lambda s, n: PY.format(_half(s)), SYNTAX, "limit of tokens"),
    "cut, no end of the fence": (lambda s, n: f"```python\n{_half(s)}", SYNTAX, "limit of tokens"),
    "cut in a string": (lambda s, n: f"```python\n{_head(s)}\n    return 'abc", SYNTAX, "limit of tokens"),
    "cut after the head": (lambda s, n: f"```python\n{_head(s)}", SYNTAX, "without a body"),
    "signature alone": (lambda s, n: f"`{_head(s).rstrip(':')}`", SYNTAX, "without a body"),
    "signature in a fence": (lambda s, n: PY.format(_head(s)), SYNTAX, "without a body"),
    "stub": (lambda s, n: PY.format(_stub(n)), VALUE, "has no body"),
    "part of it": (lambda s, n: PY.format(f"def {n}(*values):\n    ...\n    return result"), NAME, "is not complete"),
    "part of it, by a comment": (lambda s, n: PY.format(f"def {n}(*values):\n    # ... existing code ...\n    return result"), NAME, ""),
    "stub with pass": (lambda s, n: PY.format(_stub(n, "pass")), VALUE, "has no body"),
    "stub that raises": (lambda s, n: PY.format(_stub(n, "raise NotImplementedError")), "exception:NotImplementedError", "has no body"),
    "docstring alone": (lambda s, n: PY.format(_stub(n, '"""Adds up."""')), VALUE, "has no body"),
    "colon missing": (lambda s, n: PY.format(s.replace(":", "", 1)), SYNTAX, "does not parse"),
    "indentation lost": (lambda s, n: PY.format("\n".join(line.strip() for line in s.split("\n"))), SYNTAX, "does not parse"),
    "smart quotes": (lambda s, n: PY.format(f"{_head(s)}\n    return “a”"), SYNTAX, "does not parse"),
    "diff": (lambda s, n: "```diff\n" + "\n".join(f"+{line}" for line in s.split("\n")) + "\n```", SYNTAX, "give its code alone"),
    "line numbers": (lambda s, n: "```\n" + "\n".join(f"{i} {line}" for i, line in enumerate(s.split("\n"), 1)) + "\n```", SYNTAX, "give its code alone"),
    "helper missing": (lambda s, n: PY.format(_calling(n)), NAME, ""),
    "helper of another name": (lambda s, n: _fenced(_impl(s, n).replace("_impl", "_imp"), _calling(n)), NAME, ""),
    "import missing": (lambda s, n: PY.format(f"{_head(s)}\n    return math.pi"), NAME, ""),
    # ---- no function
    "example alone": (lambda s, n: PY.format(f"print({n}(2))"), NAME, "calls `{name}` and does not define it"),
    "example in a session": (lambda s, n: f"```\n>>> {n}(2)\n3\n```", "exception:.*", ""),
    "tests alone": (lambda s, n: PY.format(f"def test_{n}():\n    assert {n}(2) == 3"), NAME, "defines `test_{name}` and not `{name}`"),
    "result for an example": (lambda s, n: PY.format("print(3)"), NAME, "does not define `{name}`"),
    "code without a function": (lambda s, n: PY.format("value = 2\nresult = value + 1\nprint(result)"), NAME, "does not define `{name}`"),
    "a value of the name": (lambda s, n: PY.format(f"{n} = 3"), "exception:TypeError", "is assigned a value that is no function"),
    "shell alone": (lambda s, n: "```bash\npip install solution\n```", SYNTAX, ""),
    "import alone": (lambda s, n: PY.format("import math"), NAME, "does not define `{name}`"),
    # ---- functions that do something else
    "constant": (lambda s, n: PY.format(f"def {n}(*values, **named):\n    return 3"), VALUE, "returns the same value whatever it is given"),
    "prints": (lambda s, n: PY.format(f"def {n}(*values, **named):\n    print(1)"), VALUE, "prints its result and returns nothing"),
    "returns nothing": (lambda s, n: PY.format(f"def {n}(*values, **named):\n    x = 1"), VALUE, "returns nothing"),
    "generator": (lambda s, n: PY.format(f"def {n}(*values, **named):\n    yield 1"), "not_serialisable", "generator"),
    "coroutine": (lambda s, n: PY.format(f"async def {n}(*values, **named):\n    return 1"), "not_serialisable", "`async`"),
    "no parameters": (lambda s, n: PY.format(f"def {n}():\n    return 1"), "exception:TypeError", "the signature that was asked for"),
    "too many parameters": (lambda s, n: PY.format(f"def {n}(a, b, c, d, e, f, g, h, i):\n    return 1"), "exception:TypeError", "the signature that was asked for"),
    "corrected for the worse": (lambda s, n: _fenced(s, f"def {n}(*values, **named):\n    return [values]"), VALUE, ""),
    "always raises": (lambda s, n: PY.format(f"def {n}(*values, **named):\n    raise ValueError('x')"), "exception:ValueError", ""),
    "ends the process": (lambda s, n: PY.format(f"import os\n{s}\nos._exit(0)"), "crash", ""),
    "reads the terminal": (lambda s, n: PY.format(f"{s}\nx = input()"), "exception:EOFError", ""),
    "code in a comment of HTML": (lambda s, n: f"<!--\n{PY.format(s)}\n-->\n\nNothing.", "exception:.*", ""),
}  # fmt: skip
