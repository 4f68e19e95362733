"""The function of a task: the one that its hidden tests call, as the reference defines it.

A test uses a name of the reference if the name occurs in it, also inside another call or as an argument: `sorted(f(3))`, `[f(x) for x in (1, 2)]`,
`max(xs, key=f)`. If one test uses several, the outermost one counts: in `f(Point(1))` it is `f`. The function of the task is the name that most
tests use, in a tie the one that is used first. It may also be a class (`Stack().push(1)`) or an assigned name (`f = functools.partial(g, 2)`).

Names are those that Python binds at module level: the last definition counts, and of the branches of an `if` or `try` the first.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
Definitions = Mapping[str, Definition | None]
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
#: Values that cannot be called.
_DATA = (ast.Constant, ast.JoinedStr, ast.Tuple, ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)


def definitions(module: ast.Module) -> Definitions:
    """What a module binds its names to: a definition, or None for a value of unknown parameters. Plain data and imports are left out."""
    bindings: dict[str, Definition | None] = {}
    _bind(module.body, bindings)
    return bindings


def used_names(calls: Iterable[ast.AST], names: Collection[str]) -> list[str]:
    """The names that tests use, that of the task first; empty if they use none.

    Args:
        calls: Parsed tests.
        names: Names that the reference defines.
    """
    used = [[name for name in _free_names(call) if name in names] for call in calls]
    outermost = Counter(each[0] for each in used if each)  # in a tie `most_common` keeps the order
    return [*dict.fromkeys([*(name for name, _ in outermost.most_common()), *(name for each in used for name in each)])]


def head(name: str, definition: Definition | None) -> str:
    """The signature: `def f(x)`, `async def f(x)`, a class with the parameters of its public methods, or `f = ...` where they are unknown.

    Raises:
        ValueError: If `ast.unparse` of this Python cannot write the parameters out.
    """
    if definition is None:
        return f"{name} = ..."
    if isinstance(definition, ast.ClassDef):
        methods = [node for node in definition.body if isinstance(node, _FUNCTIONS)]
        public = {node.name: node for node in methods if node.name == "__init__" or not node.name.startswith("_")}
        return "\n    ".join([f"class {name}:", *(head(method, node) for method, node in public.items())])
    prefix = "async def" if isinstance(definition, ast.AsyncFunctionDef) else "def"
    return f"{prefix} {name}({ast.unparse(definition.args)})"


def _bind(body: Sequence[Any], bindings: dict[str, Definition | None]) -> None:
    for node in body:
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            bindings[node.name] = _decorated(node, bindings)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                _assign(target, node.value, bindings)
        else:
            _bind_branches(node, bindings)


def _assign(target: ast.expr, value: ast.expr | None, bindings: dict[str, Definition | None]) -> None:
    """Bind a target of an assignment; of several names at once (`f, g = ...`), each to its own value if the source shows it."""
    if isinstance(target, ast.Name):
        if not isinstance(value, (*_DATA, type(None))):
            bindings[target.id] = _value(value, bindings)
    elif isinstance(target, ast.Tuple | ast.List):
        if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts):
            for part, part_value in zip(target.elts, value.elts, strict=True):
                _assign(part, part_value, bindings)
        elif not isinstance(value, _DATA):
            bindings.update((part.id, None) for part in target.elts if isinstance(part, ast.Name))


def _decorated(node: Definition, bindings: Definitions) -> Definition:
    """A definition with the parameters that decorators of the same source give it, if these are stated and not passed on as `*args`."""
    for decorator in reversed(node.decorator_list):
        name = decorator.func if isinstance(decorator, ast.Call) else decorator
        maker = bindings.get(name.id) if isinstance(name, ast.Name) else None
        if isinstance(decorator, ast.Call) and isinstance(maker, ast.FunctionDef):
            maker = _returned(maker)
        made = _returned(maker) if isinstance(maker, ast.FunctionDef) else None
        if isinstance(made, _FUNCTIONS) and not made.args.vararg and not made.args.kwarg:
            node = type(made)(node.name, made.args, node.body, [])
    return node


def _bind_branches(node: ast.stmt, bindings: dict[str, Definition | None]) -> None:
    """Bind the names of a compound statement; of several branches that bind a name, the first counts."""
    inside: dict[str, Definition | None] = {}
    parts = [part for field in ("handlers", "cases") for part in getattr(node, field, [])]
    for block in (getattr(part, field, []) for part in (node, *parts) for field in ("body", "orelse", "finalbody")):
        bound = dict(bindings)
        _bind(block, bound)
        for name, value in bound.items():
            if bindings.get(name, ...) is not value:
                inside.setdefault(name, value)
    bindings.update(inside)


def _value(node: ast.expr | None, bindings: Definitions) -> Definition | None:
    """The function behind an assigned value: another name for one, a `lambda`, a `partial`, a call that wraps one, or one that another returns."""
    if isinstance(node, ast.Name):
        return bindings.get(node.id)
    if isinstance(node, ast.Lambda):
        return ast.FunctionDef("<lambda>", node.args, [ast.Return(node.body)], [])
    if not isinstance(node, ast.Call):
        return None
    first = node.args[0] if node.args else None
    wrapped = bindings.get(first.id) if isinstance(first, ast.Name) else None
    if not isinstance(wrapped, _FUNCTIONS):
        maker = bindings.get(node.func.id) if isinstance(node.func, ast.Name) else None
        return _returned(maker) if isinstance(maker, ast.FunctionDef) else None
    is_partial = ast.unparse(node.func).rpartition(".")[2] == "partial"
    return _without_given(wrapped, node) if is_partial else wrapped


def _returned(maker: ast.FunctionDef) -> Definition | None:
    """The function that a function defines and returns; None if it returns anything else."""
    inner: dict[str, Definition | None] = {}
    _bind(maker.body, inner)
    last = maker.body[-1]
    return _value(last.value, inner) if isinstance(last, ast.Return) else None


def _without_given(function: ast.FunctionDef | ast.AsyncFunctionDef, call: ast.Call) -> Definition | None:
    """A function without the arguments that a `partial` gives it."""
    given = {keyword.arg for keyword in call.keywords}
    if None in given or any(isinstance(argument, ast.Starred) for argument in call.args):
        return None
    a, skipped = function.args, len(call.args) - 1
    positional = [*a.posonlyargs, *a.args]
    defaults: list[ast.expr | None] = [*[None] * (len(positional) - len(a.defaults)), *a.defaults]
    kept = [pair for pair in list(zip(positional, defaults, strict=True))[skipped:] if pair[0].arg not in given]
    only = [pair for pair in zip(a.kwonlyargs, a.kw_defaults, strict=True) if pair[0].arg not in given]
    arguments = ast.arguments(
        [], [argument for argument, _ in kept], a.vararg, [argument for argument, _ in only], [default for _, default in only], a.kwarg,
        [default for _, default in kept if default is not None],
    )  # fmt: skip
    return type(function)(function.name, arguments, function.body, [])


def _free_names(expression: ast.AST) -> Iterator[str]:
    """The names that an expression reads and does not bind itself, the outermost first."""
    nodes = list(ast.walk(expression))
    bound = {node.arg for node in nodes if isinstance(node, ast.arg)}
    bound |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return (node.id for node in nodes if isinstance(node, ast.Name) and node.id not in bound)
