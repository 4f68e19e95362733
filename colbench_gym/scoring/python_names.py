"""The names that a statement of Python binds, uses and changes, and whether a module defines a function of a name.

Only as exact as needed to tell which statements a program needs: a use is that of a module's name, not of a parameter or a local one.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum

BUILTINS = frozenset(dir(builtins)) | {"__name__", "__file__", "__doc__", "__builtins__"}
#: Functions whose call returns a function.
_FACTORIES = frozenset(
    {"partial", "cache", "lru_cache", "vectorize", "itemgetter", "attrgetter", "methodcaller", "singledispatch", "wraps"}
)
#: Builtins whose call changes an argument.
_SETTERS = frozenset({"setattr", "delattr", "next", "exec"})
#: Modules whose decorators change nothing of the module.
_MODULES = sys.stdlib_module_names | {"pytest", "np", "numpy"}
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


class Definition(IntEnum):
    """How firmly a module defines a function; a greater one is preferred."""

    NONE = 0
    STUB = 1
    VALUE = 2
    FUNCTION = 3


@dataclass
class Names:
    """Names of a module in a statement.

    Attributes:
        binds: Names that it binds.
        changes: Names of objects that it changes, such as a table that it fills.
        uses: Names that it uses, now or when a function of it is called.
        now: Names that it uses while it is executed.
        later: Names of objects that its functions change when they are called.
    """

    binds: set[str] = field(default_factory=set)
    changes: set[str] = field(default_factory=set)
    uses: set[str] = field(default_factory=set)
    now: set[str] = field(default_factory=set)
    later: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class _Place:
    """Where a node stands: the names of the functions around it, those of a class that it is directly in, and whether there is such a function."""

    local: frozenset[str] = frozenset()
    of_class: frozenset[str] = frozenset()
    is_inside: bool = False

    def knows(self, name: str) -> bool:
        """Whether a name is not the module's."""
        return name in self.local or name in self.of_class


def names_of(node: ast.AST) -> Names:
    """The names of a statement or a module."""
    names = Names()
    waiting = [(node, _Place())]
    while waiting:
        current, place = waiting.pop()
        if isinstance(current, _Function | ast.Lambda | _Comprehension | ast.ClassDef):
            for name in _registries(current):
                if not place.knows(name):
                    (names.later if place.is_inside else names.changes).add(name)
            waiting += _in_scope(current, place, names)
            continue
        if isinstance(current, ast.Name):
            _note(current.id, isinstance(current.ctx, ast.Load), place, names)
        if isinstance(current, ast.AugAssign) and isinstance(current.target, ast.Name):
            _note(current.target.id, True, place, names)  # it is read before it is bound
        for name in _bound(current):
            _note(name, False, place, names)
        for name in _changed(current):
            if not place.knows(name):
                (names.later if place.is_inside else names.changes).add(name)
        waiting += ((child, place) for child in ast.iter_child_nodes(current))
    return names


def _registries(node: ast.AST) -> Iterator[str]:
    """Names of objects that a decorator may put a function into: ``@rules.register``."""
    for decorator in getattr(node, "decorator_list", ()):
        if isinstance(decorator.func if isinstance(decorator, ast.Call) else decorator, ast.Attribute):
            yield from (name for name in _base(decorator) if name not in _MODULES)


def _bound(node: ast.AST) -> Iterator[str]:
    """Names that a node binds by itself: by an import, an exception or a pattern."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
    elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
        yield node.name


def _note(name: str, is_use: bool, place: _Place, names: Names) -> None:
    if place.knows(name):
        return
    if is_use:
        names.uses.add(name)
        if not place.is_inside:
            names.now.add(name)
    elif place.is_inside:
        names.later.add(name)  # declared global
    else:
        names.binds.add(name)


def _in_scope(node: ast.AST, place: _Place, names: Names) -> Iterator[tuple[ast.AST, _Place]]:
    """What a function, a lambda, a comprehension or a class holds, whose own names are not the module's."""
    body: list[ast.AST] = list(ast.iter_child_nodes(node))
    if isinstance(node, _Function | ast.ClassDef):
        _note(node.name, False, place, names)
        body = list(node.body)
        outside: list[ast.AST] = list(node.decorator_list)
        outside += [node.args, *filter(None, [node.returns])] if isinstance(node, _Function) else [*node.bases, *node.keywords]
        yield from ((child, place) for child in outside)
    elif isinstance(node, ast.Lambda):
        yield node.args, place  # its defaults
        body = [node.body]
    bound, is_function = _own_names(node, body), isinstance(node, _Function | ast.Lambda)
    if isinstance(node, ast.ClassDef):  # its methods do not see the names of its body
        for name in _read_first(node):
            _note(name, True, place, names)
        inner = _Place(place.local, bound, place.is_inside)
    else:
        inner = _Place(place.local | bound, frozenset() if is_function else place.of_class, place.is_inside or is_function)
    yield from ((child, inner) for child in body)


def _read_first(node: ast.ClassDef) -> Iterator[str]:
    """Names that the assignments of a class body read before they bind them: the module's, as in ``rate = rate``."""
    bound: set[str] = set()
    for statement in node.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
            names = names_of(statement)
            yield from names.now - bound
            bound |= names.binds
        elif isinstance(statement, _Function | ast.ClassDef):
            bound.add(statement.name)


def _own_names(node: ast.AST, body: Iterable[ast.AST]) -> frozenset[str]:
    """Names that belong to a scope: parameters, and what its body binds without declaring it global."""
    bound: set[str] = set()
    declared: set[str] = set()
    if isinstance(node, _Function | ast.Lambda):
        bound |= {argument.arg for argument in ast.walk(node.args) if isinstance(argument, ast.arg)}
    waiting = list(body)
    while waiting:
        child = waiting.pop()
        if isinstance(child, ast.Global):
            declared |= set(child.names)
        elif isinstance(child, _Function | ast.ClassDef):
            bound.add(child.name)
            continue
        elif isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
            bound.add(child.id)
        bound.update(_bound(child))
        if not isinstance(child, ast.Lambda | _Comprehension):
            waiting += ast.iter_child_nodes(child)
    return frozenset(bound - declared)


def _changed(node: ast.AST) -> Iterator[str]:
    """Names of the objects that a node itself changes: by an item, an attribute, an operator, or a call that is a statement."""
    if isinstance(node, ast.Subscript | ast.Attribute) and not isinstance(node.ctx, ast.Load):
        yield from _base(node)
    elif isinstance(node, ast.AugAssign):
        yield from _base(node.target)
    elif isinstance(node, ast.Delete):
        for target in node.targets:
            yield from _base(target)
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        call = node.value
        if isinstance(call.func, ast.Attribute):
            yield from _base(call.func)
        if not isinstance(call.func, ast.Name) or call.func.id not in BUILTINS - _SETTERS:
            yield from (argument.id for argument in call.args if isinstance(argument, ast.Name))


def _base(node: ast.AST) -> Iterator[str]:
    while isinstance(node, ast.Subscript | ast.Attribute | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    if isinstance(node, ast.Name):
        yield node.id


# ---- definitions ------------------------------------------------------------------------------------------------------------


def module_statements(tree: ast.AST) -> Iterator[ast.stmt]:
    """Statements that are executed with a module: also those inside of its ``if``, ``try``, ``with`` and loops, except a main guard."""
    waiting = list(reversed(getattr(tree, "body", ())))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.ExceptHandler | ast.match_case):
            waiting += reversed(node.body)
            continue
        yield node
        if isinstance(node, _Function | ast.ClassDef) or is_main_guard(node):
            continue
        for block in ("finalbody", "orelse", "handlers", "cases", "body"):
            waiting += reversed(getattr(node, block, ()))


def is_main_guard(node: ast.AST) -> bool:
    """Whether a statement is ``if __name__ == "__main__":``."""
    return isinstance(node, ast.If) and any(
        isinstance(inner, ast.Name) and inner.id == "__name__" for inner in ast.walk(node.test)
    )


def definition(tree: ast.AST, name: str, functions: frozenset[str] = frozenset()) -> Definition:
    """How a module defines a function.

    Args:
        tree: The module.
        name: Name of the function.
        functions: Names of functions of other modules that it may use.
    """
    statements = list(module_statements(tree))
    functions = functions | {node.name for node in statements if isinstance(node, _Function)}
    return max((_definition(node, name, functions - {name}) for node in statements), default=Definition.NONE)


def _definition(node: ast.stmt, name: str, functions: frozenset[str]) -> Definition:
    if isinstance(node, _Function) and node.name == name:
        return Definition.STUB if is_stub(node) else Definition.FUNCTION
    if isinstance(node, ast.ClassDef) and node.name == name:
        return Definition.VALUE
    if isinstance(node, ast.ImportFrom | ast.Import) and any((part.asname or part.name) == name for part in node.names):
        return Definition.VALUE
    if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if any(isinstance(part, ast.Name) and part.id == name for part in targets):
            return _value(node.value, name, functions)
        stored = (part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name))
        return Definition.VALUE if name in stored and isinstance(targets[0], ast.Tuple) else Definition.NONE
    return Definition.NONE


def _value(value: ast.expr, name: str, functions: frozenset[str]) -> Definition:
    """Whether a value that is assigned to the name is a function: certainly, perhaps or not."""
    if isinstance(value, ast.Lambda):
        return Definition.FUNCTION
    if isinstance(value, ast.Name):
        return Definition.FUNCTION if value.id in functions | BUILTINS else Definition.VALUE
    if isinstance(value, ast.Call):
        if any(
            isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id == name for part in ast.walk(value)
        ):
            return Definition.NONE  # an example: total = total([1])
        made_by = next(_base(value.func), "") if not isinstance(value.func, ast.Attribute) else value.func.attr
        arguments = [*value.args, *(part.value for part in value.keywords)]
        takes_function = any(
            isinstance(part, ast.Lambda) or (isinstance(part, ast.Name) and part.id in functions | {name}) for part in arguments
        )
        is_function = made_by in _FACTORIES | functions or takes_function
        return Definition.FUNCTION if is_function else Definition.VALUE
    is_plain = isinstance(
        value, ast.Constant | ast.JoinedStr | ast.BinOp | ast.List | ast.Tuple | ast.Dict | ast.Set | ast.Compare
    )
    return Definition.NONE if is_plain else Definition.VALUE


def is_stub(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function has no body (a docstring, ``pass`` or ``raise NotImplementedError`` alone), or ``...`` in place of a part of it."""
    return all(_is_empty(statement) for statement in node.body) or any(
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant) and statement.value.value is Ellipsis
        for statement in node.body
    )


def _is_empty(node: ast.stmt) -> bool:
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    if isinstance(node, ast.Return):
        return isinstance(node.value, ast.Constant) and node.value.value is Ellipsis
    if isinstance(node, ast.Raise):
        raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        return isinstance(raised, ast.Name) and raised.id == "NotImplementedError"
    return isinstance(node, ast.Pass)
