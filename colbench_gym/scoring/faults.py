"""Why an answer is not right, for the author of its agent: in one sentence, from the answer, the task's signature and the outcomes alone.

A fault quotes neither the reference nor the hidden tests. It is a help: verdicts do not depend on it.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from colbench_gym.python_source import PARSE_ERRORS, parse_source
from colbench_gym.scoring.answer import MAX_PART_CHARS
from colbench_gym.scoring.python_names import Definition, definition, is_main_guard, module_statements
from colbench_gym.tasks.task import Task

#: Patterns that a program in another language has one after the other. Each takes time in proportion to the length of the text: `\s*` at the beginning of a line would
#: go on over the lines below, again for each of them.
_LANGUAGES = {
    "JavaScript": (r"\bfunction\s*+\w*+\s*+\([^()\n]*\)\s*\{|\b(?:const|let|var)\s+\w+\s*=|=>\s*\{|console\.log",),
    "Java or C#": (r"\b(?:public|private|static)\s+\w+(?:<\w+>)?\s+\w+\s*\(|System\.out",),
    "C or C++": (r"#include\b|\b(?:int|double|float|void|char|auto)\s+\w+\s*\([^()\n]*\)\s*\{",),
    "Rust": (r"\bfn\s+\w+\s*\(",),
    "Go": (r"\bfunc\s+\w+\s*\(",),
    "Ruby": (r"^[ \t]*+def\s+\w+[^:\n]*$", r"^[ \t]*+end\b"),
    "SQL": (r"^[ \t]*+(?:SELECT|CREATE|INSERT)\b",),
    "R": (r"<-\s*function",),
}
_CODE = re.compile(
    r"^[ \t]*+(?:(?:async\s+)?def\b|class\s+\w|import\s+\w|from\s+\w+\s+import|return\b|\w++[ \t]*+=[^=]|@\w|[\w.]++\(.*\)[ \t]*$)",
    re.MULTILINE,
)
_MARKED = re.compile(r"^[ \t]*+(?:\d++[ \t]*+[:.|)]?+|\+|In \[\d++\]:)[ \t]*+def\s|^@@ |^[+]{3} ", re.MULTILINE)
_WHOLE_HEAD = re.compile(r"^[ \t]*+def\s+\w+\s*\(.*:[ \t]*$", re.MULTILINE)
_CUT = (
    "was never closed",
    "unterminated",
    "unexpected EOF",
    "expected an indented block",
    "expected 'except'",
    "incomplete input",
)
_MOST_SHOWN = 60
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_PLAIN = re.compile(r"def\s+\w+\s*\((.*?)\)", re.DOTALL)


def fault(task: Task, answer: str | None, source: str, calls: Sequence[str]) -> str:
    """What the author of the agent should change; "" if the answer passes, or if it does not show what is wrong.

    Args:
        task: The task, for its signature.
        answer: The answer; None if there is none.
        source: The program that was graded; "" if there is none.
        calls: Outcome of each hidden test, as in `Score.calls`.
    """
    name, failed = task.function_name, _failed(calls)
    if answer is None or not answer.strip():
        return "There is no answer: no text follows the answer marker."
    if not source.strip():
        return "The answer holds no program, or a word that the released grader forbids."
    if (calls and not failed) or len(source) > MAX_PART_CHARS:
        return ""
    try:
        tree = parse_source(source)
    except PARSE_ERRORS as error:
        return _of_text(name, source, error)
    level = definition(tree, name)
    if level is Definition.NONE:
        return _of_names(name, tree)
    if level is Definition.STUB:
        return f"`{name}` is not complete: it has no body, or `...` in place of a part; give the whole function."
    return _of_function(task, name, tree, failed)


def _failed(calls: Sequence[str]) -> Counter[str]:
    return Counter(call for call in calls if call != "passed")


def _of_text(name: str, source: str, error: BaseException) -> str:
    """The fault of an answer that does not parse."""
    language = next((spoken for spoken, patterns in _LANGUAGES.items() if _has_in_order(patterns, source)), "")
    if language and not _WHOLE_HEAD.search(source):
        return f"The answer is written in {language}, it seems; `{name}` has to be a Python function."
    if _MARKED.search(source):
        return "The lines of the program begin with numbers, prompts or the signs of a diff; give its code alone."
    if not _CODE.search(source):
        return f"The answer has no Python code; give the function `{name}` in a ```python block."
    line, message = getattr(error, "lineno", None) or 1, getattr(error, "msg", None) or str(error)
    lines = source.rstrip().split("\n")
    if re.match(rf"\s*(?:async\s+)?def\s+{re.escape(name)}\b[^\n]*\Z", source.strip()):
        return f"The answer is the signature of `{name}` without a body."
    is_cut = any(part in message for part in _CUT) and (line >= len(lines) or "expected" not in message)
    cut = " It ends in the middle: a limit of tokens may have cut it." if is_cut else ""
    return f"The program does not parse: {_clip(message)}, line {line}.{cut}"


def _has_in_order(patterns: Sequence[str], source: str) -> bool:
    """Whether a text has a match of each pattern behind that of the pattern before."""
    place = 0
    for pattern in patterns:
        match = re.compile(pattern, re.MULTILINE).search(source, place)
        if match is None:
            return False
        place = match.end()
    return True


def _of_names(name: str, tree: ast.Module) -> str:
    """The fault of a program that does not define the function."""
    for around, node in _inner_functions(tree):
        if node.name == name:
            kind = "a method of the class" if isinstance(around, ast.ClassDef) else "defined inside of"
            where = "under a main guard" if isinstance(around, ast.If) else f"{kind} `{_clip(around.name)}`"
            return f"`{name}` is {'defined ' if isinstance(around, ast.If) else ''}{where}; it has to be a function at the top level."
    defined = [node.name for node in module_statements(tree) if isinstance(node, _Function | ast.ClassDef)]
    defined += [
        target.id
        for node in module_statements(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda)
        for target in node.targets
        if isinstance(target, ast.Name)
    ]
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    stored = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    if name in stored:
        return f"`{name}` is assigned a value that is no function; define it with `def {name}`."
    if defined:
        near = difflib.get_close_matches(name.lower(), [candidate.lower() for candidate in defined], 1, 0.0)
        closest = next((candidate for candidate in defined if near and candidate.lower() == near[0]), defined[-1])
        return f"The program defines `{_clip(closest)}` and not `{name}`; give the function the name that was asked for."
    if name in names:
        return f"The program calls `{name}` and does not define it."
    has_code = any(not isinstance(node, ast.Expr) or isinstance(node.value, ast.Call) for node in tree.body)
    if not has_code:
        return f"The answer has no Python code; give the function `{name}` in a ```python block."
    return f"The program does not define `{name}`; give its code as a function."


def _inner_functions(tree: ast.Module) -> Iterator[tuple[ast.ClassDef | _Function | ast.If, _Function]]:
    """Functions that are not at module level, with what they stand in."""
    for around in ast.walk(tree):
        if isinstance(around, ast.ClassDef | _Function) or is_main_guard(around):
            body = getattr(around, "body", ())
            yield from ((around, node) for node in body if isinstance(node, _Function))  # type: ignore[misc]


def _of_function(task: Task, name: str, tree: ast.Module, failed: Counter[str]) -> str:
    """The fault of a function that its source shows; "" if it shows none."""
    functions = [node for node in module_statements(tree) if isinstance(node, _Function) and node.name == name]
    if not functions:
        return ""
    function = functions[-1]
    inner = [node for node in _own_nodes(function)]
    if isinstance(function, ast.AsyncFunctionDef):
        return f"`{name}` is `async`, so that a call returns a coroutine; define it with `def`."
    if any(isinstance(node, ast.Yield | ast.YieldFrom) for node in inner):
        return f"`{name}` is a generator; return the whole value instead of using `yield`."
    wanted = _PLAIN.search(task.signature)
    if failed["exception:TypeError"] and wanted and not _accepts(function.args, wanted.group(1)):
        return (
            f"`{name}` takes ({_clip(_written(function.args))}); the signature that was asked for is `{_clip(task.signature)}`."
        )
    returned = [node.value for node in inner if isinstance(node, ast.Return) and node.value is not None]
    if failed["wrong"] and not returned:
        prints = any(
            isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print" for node in inner
        )
        return f"`{name}` {'prints its result and ' if prints else ''}returns nothing; return the value."
    if (
        failed["wrong"]
        and returned
        and all(isinstance(returned_value, ast.Constant) for returned_value in returned)
        and len(returned) == 1
    ):
        return f"`{name}` returns the same value whatever it is given."
    return ""


def _own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function without those of functions inside of it."""
    waiting = list(ast.iter_child_nodes(function))
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, _Function | ast.Lambda | ast.ClassDef):
            waiting += ast.iter_child_nodes(node)


def _written(arguments: ast.arguments) -> str:
    every = [
        *arguments.posonlyargs,
        *arguments.args,
        *filter(None, [arguments.vararg]),
        *arguments.kwonlyargs,
        *filter(None, [arguments.kwarg]),
    ]
    return ", ".join(argument.arg for argument in every)


def _accepts(given: ast.arguments, wanted: str) -> bool:
    """Whether parameters take as many values as those of a signature, given as text."""
    try:
        asked = parse_source(f"def f({wanted}): pass").body[0].args
    except PARSE_ERRORS:
        return True
    least = len(given.posonlyargs) + len(given.args) - len(given.defaults)
    most = len(given.posonlyargs) + len(given.args)
    count = len(asked.posonlyargs) + len(asked.args)
    required = count - len(asked.defaults)
    return given.vararg is not None or (least <= required and count <= most)


def _clip(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 3]}..."
