"""Translate a reference function into facts in plain words, which a simulated human can state.

Rows of the real benchmark have no facts, only a reference function. This module walks through it statement by statement. Each
statement becomes a self-contained sentence that starts with its loops and conditions. `inputs` adds facts about the
parameters, the result, and cases that the code does not handle specially.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from colbench_gym.python_source import PARSE_ERRORS, parse_source
from colbench_gym.simulators.code_to_text.context import ELSE, ELSE_WHEN, WHEN, Context, loop_words, targets
from colbench_gym.simulators.code_to_text.expressions import Speaker, is_text
from colbench_gym.simulators.code_to_text.inputs import describe_unhandled_cases, tell_parameters, tell_result
from colbench_gym.simulators.code_to_text.keywords import keywords, test_roles
from colbench_gym.simulators.code_to_text.kinds import infer_kinds, kind_of
from colbench_gym.simulators.code_to_text.patterns import pattern_test, with_subject
from colbench_gym.simulators.code_to_text.plain_names import be, plain_name, the
from colbench_gym.simulators.code_to_text.sentences import Piece, Slot, Subject, Writer
from colbench_gym.tasks.function import Definition, definitions
from colbench_gym.tasks.task import Fact, name_in

MAX_NESTING, MAX_CLAUSES = 20, 3
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_EXITS = (ast.Return, ast.Raise, ast.Continue, ast.Break)


def facts_from_reference(source: str, signature: str) -> tuple[Fact, ...]:
    """Translate a reference function into facts.

    Args:
        source: Python source. If it has several functions, that of the signature comes first, the others follow as helpers.
        signature: `Task.signature`.

    Returns:
        Facts in the order of the code, then about parameters and the result, then about cases without special handling; empty if
        the source does not parse. Every sentence has at most about 25 words and 200 characters and contains no code.
    """
    try:
        module = parse_source(source)
    except PARSE_ERRORS:
        return ()
    speaker = Speaker()
    speaker.modules = _modules(module)
    writer = Writer(speaker)
    try:
        definition = _definition(module, name_in(signature))
        main = definition if isinstance(definition, _Function) else None
        reader = _Reader(writer, speaker, main)
        reader.read(main.body if main else [definition] if definition else module.body, Context())
        if main:
            tell_parameters(writer, main)
            tell_result(writer, main)
        if definition:
            reader.read([node for node in module.body if not any(inner is definition for inner in ast.walk(node))], Context())
        if main:
            describe_unhandled_cases(writer, main)
    except RecursionError:
        # The source is nested hundreds of levels deep. The facts collected so far are true.
        pass
    return tuple(writer.facts)


def _definition(module: ast.Module, name: str) -> Definition | None:
    """The definition of a name; of an unknown name the last function of the module. None if there is no definition to read."""
    known = definitions(module)
    return known[name] if name in known else next((d for d in [*known.values()][::-1] if isinstance(d, _Function)), None)


class _Reader:
    """Walks through statements and passes sentences to a writer."""

    def __init__(self, writer: Writer, speaker: Speaker, main: _Function | None) -> None:
        self._writer = writer
        self._speaker = speaker
        speaker.kinds = infer_kinds(main) if main else {}
        self._about = tuple(word for word in plain_name(main.name).split() if len(word) > 2) if main else ()
        self._accumulated = _accumulated(main) if main else set()
        self._cases: dict[tuple[int, ...], str] = {}
        self._nesting = 0

    def read(self, body: Sequence[ast.stmt], context: Context) -> None:
        """Describe the statements of a block. After an early exit, the rest of the block is the other branch."""
        if self._nesting >= MAX_NESTING:
            return
        self._nesting += 1
        for number, statement in enumerate(body):
            rest = list(body[number + 1 :])
            if isinstance(statement, ast.If) and _is_guard(statement) and rest and _is_simple(rest):
                self._read_if(ast.If(statement.test, statement.body, rest), context)
                break
            if isinstance(statement, ast.Return) and not context.clauses and _has_return(body[:number]):
                context = context.under(ELSE, None)
            method = getattr(self, f"_read_{type(statement).__name__.lower()}", None)
            if method:
                method(statement, context)
        self._nesting -= 1

    def _tell(self, topic: str, context: Context, pieces: Sequence[Piece], node: ast.AST, extra: Sequence[str] = ()) -> None:
        self._writer.tell(self._subject(topic, context, node, extra), [*self._opening(context), *pieces])

    def _subject(self, topic: str, context: Context, node: ast.AST, extra: Sequence[str]) -> Subject:
        """The subject of a sentence. A topic that starts with "plain" is never volunteered."""
        marks = [*extra, *(["condition"] if context.clauses else []), *(["default"] if context.is_default else [])]
        values = (
            [node.value]
            if isinstance(node, ast.Return) and node.value
            else node.elts[1:]
            if isinstance(node, ast.Tuple)
            else []
        )
        marks += sorted({role for test in context.nodes for role in test_roles(test, values)})
        words = keywords([node, *context.nodes], marks)
        if "result" in extra:
            words = (*words, *self._about)
        return Subject(topic.removeprefix("plain "), words, not topic.startswith("plain "))

    def _opening(self, context: Context) -> list[Piece]:
        """The opening of a sentence. A deep context is described once as "case A" and then referred to."""
        if len(context.clauses) < MAX_CLAUSES:
            return context.opening()
        outer = replace(context, clauses=context.clauses[:-1])
        key = tuple(id(slot.node) if slot else hash(word) for word, slot in outer.clauses)
        if key not in self._cases:
            opening = self._opening(outer)[:-1]
            name = self._cases[key] = f"case {len(self._cases) + 1}"
            subject = Subject(name, keywords(outer.nodes, ("condition",)))
            self._writer.tell(subject, [f"{name} is: ", *opening])
        return [f"in {self._cases[key]}, ", *replace(context, clauses=context.clauses[-1:], loops=()).opening()]

    # Statements, found by name from `read`.

    def _read_if(self, node: ast.If, context: Context) -> None:
        self._branches([(node.test, node.body)], node.orelse, context)

    def _branches(self, branches: list[tuple[ast.expr, list[ast.stmt]]], rest: list[ast.stmt], context: Context) -> None:
        while len(rest) == 1 and isinstance(rest[0], ast.If):
            branches.append((rest[0].test, rest[0].body))
            rest = rest[0].orelse
        if len(rest) > 1 and isinstance(rest[0], ast.If) and _is_guard(rest[0]) and _is_simple(rest[1:]):
            branches.append((rest[0].test, rest[0].body))
            self._branches(branches, rest[1:], context)
            return
        for number, (test, body) in enumerate(branches):
            self.read(body, context.under(ELSE_WHEN if number else WHEN, Slot(test, "condition")))
        if rest:
            only = branches[0][0]
            is_single = len(branches) == 1 and isinstance(only, (ast.Compare, ast.Name, ast.UnaryOp, ast.Call))
            self.read(rest, context.under(WHEN, Slot(only, "negated")) if is_single else context.under(ELSE, None))

    def _read_match(self, node: ast.Match, context: Context) -> None:
        branches, rest, has_shapes = list[tuple[ast.expr, list[ast.stmt]]](), list[ast.stmt](), False
        for case in node.cases:
            test, captured = pattern_test(node.subject, case.pattern)
            is_open = isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None
            guard, body = with_subject(captured, node.subject, case.guard, case.body)
            if test is None and not is_open:  # a shape: sequences, mappings and classes
                has_shapes = True
                self.read(body, context.under("for an input of one of several forms", None))
            elif parts := [part for part in (test, guard) if part]:
                branches.append((ast.BoolOp(ast.And(), parts) if len(parts) > 1 else parts[0], body))
            else:
                rest = body
                break
        if branches:
            self._branches(branches, [] if has_shapes else rest, context)
        if has_shapes or not branches:
            self.read(rest, context.under(ELSE, None) if has_shapes else context)

    def _read_return(self, node: ast.Return, context: Context) -> None:
        value = node.value or ast.Constant(None)
        if isinstance(value, ast.IfExp):
            then, other = ast.Return(value.body), ast.Return(value.orelse)
            self._branches([(value.test, [then])], [other], context)
        elif (
            isinstance(value, (ast.Compare, ast.BoolOp, ast.Call, ast.UnaryOp))
            and kind_of(value, self._speaker.kinds) == "flag"
        ):
            pieces: list[Piece] = ["the answer is true when ", Slot(value, "condition"), ", and false otherwise"]
            self._tell("result", context, pieces, node, ("result",))
        else:
            topic = "plain result" if isinstance(value, ast.Name) and not context.clauses else "result"
            self._writer.define(self._subject(topic, context, node, ("result",)), "the answer", value, self._opening(context))

    def _read_assign(self, node: ast.Assign, context: Context) -> None:
        target, value = node.targets[0], node.value
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            for part, part_value in zip(target.elts, value.elts, strict=True):
                self._assign(part, part_value, context)
            return
        for each in node.targets:
            self._assign(each, value, context)

    def _read_annassign(self, node: ast.AnnAssign, context: Context) -> None:
        if node.value is not None:
            self._assign(node.target, node.value, context)

    def _assign(self, target: ast.expr, value: ast.expr, context: Context) -> None:
        if isinstance(value, ast.IfExp):
            first: ast.stmt = ast.Assign([target], value.body)
            second: ast.stmt = ast.Assign([target], value.orelse)
            self._branches([(value.test, [first])], [second], context)
        elif isinstance(target, ast.Name):
            self._define(target, value, context)
        elif isinstance(target, (ast.Subscript, ast.Attribute)):
            self._tell(_root(target), context, [Slot(target), " is set to ", Slot(value)], ast.Tuple([target, value]))
        else:
            names = " and ".join(targets(target)) or "the parts"
            self._tell("parts", context, [f"{names} {be(names)} taken from ", Slot(value)], ast.Tuple([target, value]))

    def _define(self, target: ast.Name, value: ast.expr, context: Context) -> None:
        name = self._speaker.phrase(target)
        both = ast.Tuple([target, value])
        topic = plain_name(target.id)
        if target.id in self._accumulated and _is_start(value) and not context.clauses:
            self._tell(f"plain {topic}", context, [f"the starting value of {name} is ", Slot(value)], both)
        elif kind_of(value, self._speaker.kinds) == "flag" and isinstance(value, (ast.Compare, ast.BoolOp, ast.Call)):
            self._tell(topic, context, [f"{name} is true when ", Slot(value, "condition")], both, ("condition",))
        else:
            extra = ("text",) if is_text(value) else ("table",) if isinstance(value, (ast.Dict, ast.List, ast.Set)) else ()
            self._writer.define(self._subject(topic, context, both, extra), name, value, self._opening(context))

    def _read_augassign(self, node: ast.AugAssign, context: Context) -> None:
        target, value = Slot(node.target), Slot(node.value)
        is_text = kind_of(node.value, self._speaker.kinds) == "text"
        wordings: dict[type[ast.operator], list[Piece]] = {
            ast.Add: [target, " goes on with ", value] if is_text else ["add ", value, " to ", target],
            ast.Sub: ["take ", value, " off ", target],
            ast.Mult: ["multiply ", target, " by ", value],
            ast.Div: ["divide ", target, " by ", value],
        }
        update = ast.BinOp(node.target, node.op, node.value)
        pieces = wordings.get(type(node.op), [target, " becomes ", Slot(update)])
        self._tell(_root(node.target), context, pieces, update)

    def _read_expr(self, node: ast.Expr, context: Context) -> None:
        call = node.value
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            return
        owner, arguments = Slot(call.func.value), [Slot(argument) for argument in call.args]
        wordings: dict[tuple[str, int], list[Piece]] = {
            ("append", 1): ["put ", *arguments[:1], " at the end of ", owner],
            ("add", 1): ["put ", *arguments[:1], " into ", owner],
            ("extend", 1): ["put all of ", *arguments[:1], " at the end of ", owner],
            ("update", 1): ["take all of ", *arguments[:1], " into ", owner],
            ("remove", 1): ["remove ", *arguments[:1], " from ", owner],
            ("sort", 0): [owner, " is sorted", self._ordering(call)],
            ("reverse", 0): [owner, " is put in reverse order"],
        }
        pieces = wordings.get((call.func.attr, len(arguments)))
        if pieces:
            self._tell(_root(call.func.value), context, pieces, call)

    def _ordering(self, call: ast.Call) -> str:
        copied = ast.Call(ast.Name("sorted", ast.Load()), [ast.Name("it", ast.Load())], call.keywords)
        return self._speaker.phrase(copied).removeprefix("it sorted").removeprefix("the it sorted")

    def _read_for(self, node: ast.For, context: Context) -> None:
        name, pieces = loop_words(node)
        self._tell("plain loop", context, pieces, node.iter, ("loop",))
        self.read(node.body, context.each(name, ast.Tuple([node.target, node.iter])))
        self.read(node.orelse, context)

    _read_asyncfor = _read_for

    def _read_while(self, node: ast.While, context: Context) -> None:
        self._tell("loop", context, ["the steps repeat as long as ", Slot(node.test, "condition")], node.test, ("loop",))
        self.read(node.body, context)

    def _read_break(self, node: ast.Break, context: Context) -> None:
        self._tell("loop", context, ["stop looking further"], node, ("loop",))

    def _read_continue(self, node: ast.Continue, context: Context) -> None:
        self._tell("skipping", context, ["skip it and go on with the next"], node, ("filter",))

    def _read_raise(self, node: ast.Raise, context: Context) -> None:
        error = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        name = plain_name(getattr(error, "id", "error")).replace(" ", "")
        pieces: list[Piece] = [f"raise an error of type {_error_name(error) or name}"]
        if isinstance(node.exc, ast.Call) and node.exc.args:
            pieces += [" that says ", Slot(node.exc.args[0])]
        self._tell("errors", context, pieces, node, ("error",))

    def _read_assert(self, node: ast.Assert, context: Context) -> None:
        self._tell("errors", context, ["it is an error unless ", Slot(node.test, "condition")], node, ("error",))

    def _read_try(self, node: ast.Try, context: Context) -> None:
        self.read(node.body, context)
        for handler in node.handlers:
            kind = _error_name(handler.type) or "any kind"
            self.read(handler.body, context.under(f"when an error of {kind} comes up", None))
        self.read([*node.orelse, *node.finalbody], context)

    _read_trystar = _read_try

    def _read_with(self, node: ast.With, context: Context) -> None:
        self.read(node.body, context)

    _read_asyncwith = _read_with

    def _read_functiondef(self, node: ast.FunctionDef, context: Context) -> None:
        names = " and ".join(the(argument.arg) for argument in node.args.args[:4]) or "nothing"
        words = (*plain_name(node.name).split(), "helper", "function")
        self._writer.tell(Subject("helper", words, False), [f"a helper called {plain_name(node.name)} takes {names}"])
        self.read(node.body, context.under(f"in the helper {plain_name(node.name)}", None))

    def _read_classdef(self, node: ast.ClassDef, context: Context) -> None:
        self.read(node.body, context.under(f"in the class {plain_name(node.name)}", None))

    def _read_import(self, node: ast.Import | ast.ImportFrom, context: Context) -> None:
        module = getattr(node, "module", None) or node.names[0].name
        words = ("import", "library", "module", "package", *plain_name(module).split())
        self._writer.tell(Subject("library", words, False), [f"it makes use of the {plain_name(module.split('.')[0])} library"])

    _read_importfrom = _read_import


def _modules(tree: ast.Module) -> set[str]:
    """Names of modules: those that are imported, and common ones, unless they are names of values."""
    nodes = list(ast.walk(tree))
    imported = {
        alias.asname or alias.name.partition(".")[0] for node in nodes if isinstance(node, ast.Import) for alias in node.names
    }
    values = {node.arg for node in nodes if isinstance(node, ast.arg)}
    values |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return (imported | {"re", "math", "statistics", "np", "numpy", "itertools", "functools"}) - values


def _accumulated(function: _Function) -> set[str]:
    """Names of accumulators: variables that are added to after their first value. Their initial value is not worth a fact."""
    names = set()
    for node in ast.walk(function):
        if isinstance(node, (ast.AugAssign, ast.Subscript)):
            target = node.target if isinstance(node, ast.AugAssign) else node.value
            names.add(getattr(target, "id", ""))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
            names.add(node.func.value.id)
    return names


def _is_start(value: ast.expr) -> bool:
    if isinstance(value, ast.Constant):
        return value.value in (0, "", None, 1) or value.value is False
    is_call = isinstance(value, ast.Call) and getattr(value.func, "id", "") in ("set", "dict", "list") and not value.args
    return (
        is_call or (isinstance(value, (ast.List, ast.Dict)) and not list(ast.iter_child_nodes(value))[:1]) or _is_empty(value)
    )


def _is_empty(value: ast.expr) -> bool:
    return not getattr(value, "elts", getattr(value, "keys", True))


def _has_return(body: Sequence[ast.stmt]) -> bool:
    return any(isinstance(node, ast.Return) for statement in body for node in ast.walk(statement))


def _is_guard(node: ast.If) -> bool:
    return not node.orelse and bool(node.body) and isinstance(node.body[-1], _EXITS)


def _is_simple(rest: list[ast.stmt]) -> bool:
    """Whether only further guards and a final return follow a guard."""
    return all(isinstance(node, ast.If) and _is_guard(node) for node in rest[:-1]) and isinstance(
        rest[-1], (ast.Return, ast.If, ast.Raise)
    )


def _root(node: ast.expr) -> str:
    """Name of the variable that an expression belongs to, as a topic."""
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        node = node.value
    return plain_name(node.id) if isinstance(node, ast.Name) else "value"


def _error_name(node: ast.expr | None) -> str:
    return getattr(node, "id", "")
