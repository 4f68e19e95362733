"""Python expressions in plain words.

`Speaker.phrase` gives a noun phrase ("the price times 2") and `Speaker.condition` a clause that can be true or false ("the
price is at least 20"). Both accept every expression: one without a specific wording is described loosely, and the depth is
bounded. If a sentence would get too long, its writer gives names ("part A") to sub-expressions.
"""

from __future__ import annotations

import ast
import re

from colbench_gym.simulators.code_to_text.calls import call_words
from colbench_gym.simulators.code_to_text.conditions import MAX_DEPTH, ConditionSpeaker
from colbench_gym.simulators.code_to_text.plain_names import joined, number, ordinal, quoted, the

MAX_LISTED = 40
_LOOSE = "something worked out from the input"
_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "{0} plus {1}",
    ast.Sub: "{0} minus {1}",
    ast.Mult: "{0} times {1}",
    ast.Div: "{0} divided by {1}",
    ast.FloorDiv: "{0} divided by {1} and rounded down",
    ast.Mod: "the remainder of {0} divided by {1}",
    ast.Pow: "{0} to the power of {1}",
    ast.BitAnd: "what {0} and {1} have in common",
    ast.BitOr: "{0} together with {1}",
    ast.RShift: "{0} shifted right by {1} bits",
    ast.LShift: "{0} shifted left by {1} bits",
    ast.BitXor: "{0} exclusive or {1}",
    ast.MatMult: "the matrix product of {0} and {1}",
}
_GROUPED: dict[type[ast.operator], str] = {
    ast.Add: "the sum of {0} and {1}",
    ast.Sub: "the difference of {0} minus {1}",
    ast.Mult: "the product of {0} and {1}",
    ast.Div: "the quotient of {0} by {1}",
}
_FORMAT = re.compile(
    r"(?:(?P<fill>.)?[<>=^])?(?P<sign>[-+ ]?)#?(?P<zero>0?)(?P<width>\d{0,3})(?P<groups>[,_]?)(?:\.(?P<places>\d{1,3}))?(?P<kind>[a-zA-Z%]?)"
)
_RANK: dict[type[ast.operator], int] = {ast.Add: 1, ast.Sub: 1, ast.Mult: 2, ast.Div: 2, ast.FloorDiv: 2}


_OPEN_ENDED = (", ", " and ", "the difference of ", "the quotient of ", " if ")


class Speaker(ConditionSpeaker):
    """Turns expressions into words."""

    def phrase(self, node: ast.expr) -> str:
        """The value of an expression as a noun phrase."""
        if id(node) in self.named:
            return self.named[id(node)]
        if self._depth >= MAX_DEPTH:
            return _LOOSE
        self._depth += 1
        try:
            method = getattr(self, f"_say_{type(node).__name__.lower()}", None)
            return method(node) if method else _LOOSE
        finally:
            self._depth -= 1

    # The wording of each kind of node; found by name from `phrase`.

    def _say_name(self, node: ast.Name) -> str:
        return self.variables.get(node.id) or the(node.id)

    def _say_constant(self, node: ast.Constant) -> str:
        if isinstance(node.value, str):
            return quoted(node.value)
        if isinstance(node.value, bool):
            return str(node.value).lower()
        if isinstance(node.value, (int, float, complex)):
            return number(node.value)
        return "None" if node.value is None else "a constant"

    def _say_binop(self, node: ast.BinOp) -> str:
        if isinstance(node.op, ast.Add) and is_text(node):
            return " followed by ".join(self.phrase(term) for _, term in terms(node))
        if isinstance(node.op, ast.Mod) and is_text(node.left):
            return f"{self.phrase(node.left)} filled in with {self.phrase(node.right)}"
        if isinstance(node.op, ast.Pow) and isinstance(node.right, ast.Constant) and node.right.value == 2:
            return f"{self._operand(node.left, 3)} squared"
        if isinstance(node.op, (ast.Add, ast.Sub)) and isinstance(node.left, ast.BinOp):
            return self._chain(node)
        rank = _RANK.get(type(node.op), 3)
        left, right = self._operand(node.left, rank), self._operand(node.right, rank + 1)
        return _OPERATORS[type(node.op)].format(_closed(left), right)

    def _chain(self, node: ast.BinOp) -> str:
        """A sum of many terms, without one level of recursion per term."""
        first, *rest = terms(node)
        signs = [" plus " if is_added else " minus " for is_added, _ in rest]
        words = [self._operand(term, 2) for _, term in rest]
        words = [*map(_closed, words[:-1]), words[-1]]
        return _closed(self._operand(first[1], 1)) + "".join(sign + word for sign, word in zip(signs, words, strict=True))

    def _operand(self, node: ast.expr, rank: int) -> str:
        """An operand. If Python would need brackets, "the sum of ..." replaces them."""
        if isinstance(node, ast.BinOp) and id(node) not in self.named and _RANK.get(type(node.op), 3) < rank:
            template = _GROUPED.get(type(node.op))
            if template and not (is_text(node.left) or is_text(node.right)):
                return template.format(self.phrase(node.left), self.phrase(node.right))
        return self.phrase(node)

    def _say_unaryop(self, node: ast.UnaryOp) -> str:
        if isinstance(node.op, ast.Not):
            return f"whether {self.condition(node.operand, is_negated=True)}"
        if isinstance(node.op, ast.USub):
            return f"minus {self.phrase(node.operand)}"
        return f"the opposite of {self.phrase(node.operand)}" if isinstance(node.op, ast.Invert) else self.phrase(node.operand)

    def _say_compare(self, node: ast.Compare) -> str:
        return f"whether {self.condition(node)}"

    def _say_boolop(self, node: ast.BoolOp) -> str:
        tests = (ast.Compare, ast.BoolOp, ast.UnaryOp)
        if isinstance(node.op, ast.Or) and not isinstance(node.values[0], tests):
            return ", or if that is empty ".join(self.phrase(value) for value in node.values)
        return f"whether {self.condition(node)}"

    def _say_call(self, node: ast.Call) -> str:
        name = getattr(node.func, "id", "")
        inner = node.args[0] if len(node.args) == 1 else None
        if isinstance(inner, (ast.GeneratorExp, ast.ListComp)) and name in ("sum", "any", "all"):
            if name != "sum":
                return f"whether {self.condition(node)}"
            if isinstance(inner.elt, ast.Constant) and inner.elt.value == 1:
                return f"the count of each {self.source(inner.generators)}"
            return f"the sum of {self.phrase(inner.elt)} over each {self.source(inner.generators)}"
        return call_words(node, self.phrase, self.modules)

    def _say_attribute(self, node: ast.Attribute) -> str:
        if isinstance(node.value, ast.Name) and node.value.id in ("math", "np", "numpy"):
            return the(node.attr).removeprefix("the ")
        return f"{the(node.attr)} of {self.phrase(node.value)}"

    def _say_subscript(self, node: ast.Subscript) -> str:
        owner, key = self.phrase(node.value), node.slice
        if isinstance(key, ast.Slice):
            return self._slice(owner, key)
        position = _whole(key)
        if position is not None:
            return f"the {ordinal(position)} item of {owner}"
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            return f"the {quoted(key.value)} of {owner}"
        if isinstance(node.value, ast.Subscript) and owner.startswith("the entry of "):
            return f"{owner} and then {self.phrase(key)}"
        return f"the entry of {owner} for {self.phrase(key)}"

    def _slice(self, owner: str, key: ast.Slice) -> str:
        if key.step is not None and _whole(key.step) != 1:
            return self._steps(owner, key, key.step)
        if key.lower is None and key.upper is None:
            return f"a copy of {owner}"
        if key.lower is None and key.upper is not None:
            low = _whole(key.upper)
            if low is None:
                return f"as many items from the start of {owner} as {self.phrase(key.upper)}"
            return f"{owner} without its last {-low}" if low < 0 else f"the first {low} of {owner}"
        if key.lower is not None and key.upper is None:
            low = _whole(key.lower)
            return (
                f"the last {-low} of {owner}"
                if low is not None and low < 0
                else f"{owner} from position {self.phrase(key.lower)} on"
            )
        assert key.lower is not None and key.upper is not None
        return f"{owner} from position {self.phrase(key.lower)} up to but not including {self.phrase(key.upper)}"

    def _steps(self, owner: str, key: ast.Slice, step: ast.expr) -> str:
        size = _whole(step)
        if size is None or size > 0:
            part = owner if key.lower is None and key.upper is None else self._slice(owner, ast.Slice(key.lower, key.upper))
            return f"every item of {part} in steps of {self.phrase(step)}"
        if key.lower is None and key.upper is None and size == -1:
            return f"{owner} in reverse order"
        start = "the last item" if key.lower is None else self._place(key.lower)
        end = "" if key.upper is None else f" down to but not including {self._place(key.upper)}"
        return f"the items of {owner} going backwards from {start}{end}" + (f" in steps of {-size}" if size < -1 else "")

    def _place(self, index: ast.expr) -> str:
        position = _whole(index)
        return f"position {self.phrase(index)}" if position is None or position >= 0 else f"the {ordinal(position)} item"

    def _say_ifexp(self, node: ast.IfExp) -> str:
        return f"{self.phrase(node.body)} if {self.condition(node.test)}, otherwise {self.phrase(node.orelse)}"

    def _say_lambda(self, node: ast.Lambda) -> str:
        before = dict(self.variables)
        self.variables.update({argument.arg: "each" for argument in node.args.args})
        words = self.phrase(node.body)
        self.variables = before
        return words

    def _say_list(self, node: ast.List) -> str:
        return self._elements("list", node.elts)

    def _say_set(self, node: ast.Set) -> str:
        return self._elements("set", node.elts)

    def _elements(self, kind: str, elements: list[ast.expr]) -> str:
        listed = joined([self.phrase(element) for element in elements[:MAX_LISTED]])
        return f"a {kind} of {listed}" if elements else f"an empty {kind}"

    def _say_tuple(self, node: ast.Tuple) -> str:
        return self._elements("tuple", node.elts)

    def _say_dict(self, node: ast.Dict) -> str:
        if not node.keys:
            return "an empty dictionary"
        return "a dictionary with " + joined(
            [self.entry(k, v) for k, v in zip(node.keys, node.values, strict=True)][:MAX_LISTED]
        )

    def entry(self, key: ast.expr | None, value: ast.expr) -> str:
        """One entry of a dictionary: "'small' as 1"."""
        return f"all of {self.phrase(value)}" if key is None else f"{self.phrase(key)} as {self.phrase(value)}"

    def _say_listcomp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> str:
        source = self.source(node.generators)
        target = node.generators[0].target
        first = target.elts[0] if isinstance(target, ast.Tuple) and target.elts else target
        if isinstance(node.elt, ast.Name) and getattr(first, "id", None) == node.elt.id:
            return f"every {source}"
        return f"{self.phrase(node.elt)} for each {source}"

    _say_setcomp = _say_generatorexp = _say_listcomp

    def _say_dictcomp(self, node: ast.DictComp) -> str:
        return f"a dictionary from {self.phrase(node.key)} to {self.phrase(node.value)} for each {self.source(node.generators)}"

    def _say_joinedstr(self, node: ast.JoinedStr) -> str:
        return "the text " + ", then ".join(self.phrase(value) for value in node.values) if node.values else "an empty text"

    def _say_formattedvalue(self, node: ast.FormattedValue) -> str:
        words = self.phrase(node.value)
        spec = "".join(str(p.value) for p in getattr(node.format_spec, "values", ()) if isinstance(p, ast.Constant))
        return words + format_words(spec)

    def _say_starred(self, node: ast.Starred) -> str:
        return f"all of {self.phrase(node.value)}"

    def _say_namedexpr(self, node: ast.NamedExpr) -> str:
        return self.phrase(node.value)


def format_words(spec: str) -> str:
    """What a format adds to a value: " with 2 decimals" of ".2f"; "" if it is none that is known."""
    parts = _FORMAT.fullmatch(spec)
    if not parts:
        return ""
    places = int(parts["places"] or 6)
    decimals = f"{places} decimal{'' if places == 1 else 's'}" if places else "no decimals"
    digits = f"{places} significant digit{'' if places == 1 else 's'}"
    number = {
        "f": f" with {decimals}", "F": f" with {decimals}", "%": f" as a percentage with {decimals}", "e": f" in scientific form with {decimals}",
        "E": f" in scientific form with {decimals}", "g": f" with {digits}", "x": " in hexadecimal", "X": " in hexadecimal in capitals",
        "b": " in binary", "o": " in octal",
    }  # fmt: skip
    words = number.get(parts["kind"], f" cut to {places} characters" if parts["places"] and parts["kind"] == "s" else "")
    words += " with its sign" if parts["sign"] == "+" else ""
    words += {",": " with commas between thousands", "_": " with underscores between thousands", "": ""}[parts["groups"]]
    width = int(parts["width"] or 0)
    if width:
        fill = (
            "zeros"
            if parts["zero"] or parts["fill"] == "0"
            else "spaces"
            if parts["fill"] in (None, " ")
            else quoted(parts["fill"])
        )
        words += f" padded with {fill} to {width} characters"
    return words


def terms(node: ast.expr) -> list[tuple[bool, ast.expr]]:
    """The terms of a sum in order, each with True if it is added and False if it is subtracted."""
    signed_terms: list[tuple[bool, ast.expr]] = []
    while isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        signed_terms.append((isinstance(node.op, ast.Add), node.right))
        node = node.left
    signed_terms.append((True, node))
    return signed_terms[::-1]


def is_text(node: ast.expr) -> bool:
    """Whether an expression has the form of a text: a string, a formatted string or a sum with one of these."""
    return any(
        isinstance(term, ast.JoinedStr) or (isinstance(term, ast.Constant) and isinstance(term.value, str))
        for _, term in terms(node)
    )


def _whole(node: ast.expr) -> int | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _whole(node.operand)
        return None if value is None else -value
    is_whole = isinstance(node, ast.Constant) and isinstance(node.value, int) and not isinstance(node.value, bool)
    return node.value if is_whole else None  # type: ignore[attr-defined]


def _closed(words: str) -> str:
    """A left operand, with a comma if the following words could be read as part of it."""
    return words if words.endswith(",") or not any(mark in words for mark in _OPEN_ENDED) else f"{words},"
