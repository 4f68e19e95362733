"""The cases of a `match` statement as tests."""

from __future__ import annotations

import ast
import copy


def pattern_test(subject: ast.expr, pattern: ast.pattern) -> tuple[ast.expr | None, str]:
    """The test of a pattern, None if it has none that is a comparison; and the name that it gives to the whole subject."""
    if isinstance(pattern, ast.MatchValue):
        return ast.Compare(subject, [ast.Eq()], [pattern.value]), ""
    if isinstance(pattern, ast.MatchSingleton):
        return ast.Compare(subject, [ast.Is()], [ast.Constant(pattern.value)]), ""
    if isinstance(pattern, ast.MatchAs):
        inner = pattern_test(subject, pattern.pattern)[0] if pattern.pattern else None
        return inner, pattern.name or ""
    if isinstance(pattern, ast.MatchOr):
        tests = [pattern_test(subject, part)[0] for part in pattern.patterns]
        values = [test.comparators[0] for test in tests if isinstance(test, ast.Compare) and len(test.ops) == 1]
        if len(values) == len(tests):
            return ast.Compare(subject, [ast.In()], [ast.Tuple(values)]), ""
    return None, ""


def with_subject(
    name: str, subject: ast.expr, guard: ast.expr | None, body: list[ast.stmt]
) -> tuple[ast.expr | None, list[ast.stmt]]:
    """The guard and body of a case with the subject in place of a name that captures it, unless the body gives the name another value."""
    parts = [*([guard] if guard else []), *body]
    kept = {name, *(part.id for part in ast.walk(subject) if isinstance(part, ast.Name))}
    is_changed = any(not kept.isdisjoint(_bound(part)) for of in parts for part in ast.walk(of))
    if not name or is_changed:
        return guard, body
    replaced = [_Renamed(name, subject).visit(copy.deepcopy(part)) for part in parts]
    return (replaced[0] if guard else None), replaced[len(parts) - len(body) :]


def _bound(node: ast.AST) -> set[str]:
    """Names that a node gives a value."""
    if isinstance(node, ast.Name):
        return set() if isinstance(node.ctx, ast.Load) else {node.id}
    return (
        {getattr(node, "arg", None) or getattr(node, "name", None) or ""}
        if isinstance(node, (ast.arg, ast.MatchAs, ast.MatchStar))
        else set()
    )


class _Renamed(ast.NodeTransformer):
    """Puts an expression in place of a name."""

    def __init__(self, name: str, value: ast.expr) -> None:
        self.name, self.value = name, value

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """See `ast.NodeTransformer`."""
        return copy.deepcopy(self.value) if node.id == self.name else node
