"""How a template becomes Python: jinja's code generator, with what it takes to pay for the work.

Every block of statements (a template, a loop's body, a branch, a macro) begins with the number of syntax nodes that it
evaluates itself, taken from the budget; so all work is paid for before it is done, and a loop cannot go on when nothing
is left. Operators are the budget's. Nothing is computed when a template is compiled: jinja would fold `{{ 2**2**40 }}`.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame, MacroRef

from warmroute.errors import TemplateError, TemplateTooCostly
from warmroute.tokenizer.template_bounds.operators import BINARY

MAX_SOURCE = 2**17
"""Characters of a template. The longest in use that we know (GigaChat 3.5) has 40,000; most have 1,000 to 10,000."""

MAX_NODES = 8_000
"""Nodes of its syntax tree; the longest has about 4,000. Reading one takes 20 to 30 µs."""

MAX_CODE = 2**18
"""Characters of the Python that it becomes, which is compiled in one call that holds the interpreter: 0.25 µs for each.
Templates in use have 2,000 to 15,000, the longest 150,000."""

MAX_FOLLOWED = 1_000_000
"""Nodes of syntax that are looked at to find out how contents are handed on (see `content_format`): all of them once
for each name. That takes 1 µs a node; the longest template in use needs 300,000."""

MAX_NESTING = 100
"""Levels of its syntax tree; templates in use have 10 to 30."""

_LONG_NUMBER = re.compile(r"\d[\d_]{1000}|0[xX][\da-fA-F_]{1000}")  # Read by one call: 40 ms for 100,000 digits.
_FREE = (nodes.Const, nodes.TemplateData, nodes.Operand, nodes.Keyword, nodes.Pair)
# What takes memory (50 to 400 bytes, of which a template may keep as many as it has steps for), or more time.
_STEPS: dict[type[nodes.Node], int] = {
    nodes.List: 16,
    nodes.Tuple: 16,
    nodes.Dict: 32,
    nodes.For: 8,
    nodes.Macro: 48,
    nodes.CallBlock: 48,
    nodes.Output: 3,
    nodes.Getattr: 2,
}
_OWN_BLOCKS = frozenset({"body", "else_"})
_SHORT_CONSTANT = 256


def check_size(source: str) -> None:
    """Raises TemplateTooCostly for a source that is not worth reading."""
    if len(source) > MAX_SOURCE:
        raise TemplateTooCostly(f"the chat template has {len(source)} characters; at most {MAX_SOURCE} are read")
    if _LONG_NUMBER.search(source):
        raise TemplateTooCostly("the chat template has a number with a thousand digits")


def check_syntax(template: nodes.Template) -> None:
    """Raises TemplateTooCostly for more syntax than a chat template needs, TemplateError for some of no use in one."""
    waiting: list[tuple[nodes.Node, int]] = [(template, 1)]
    count = names = 0
    while waiting:
        node, level = waiting.pop()
        count += 1
        if count > MAX_NODES or level > MAX_NESTING:
            raise TemplateTooCostly(
                f"the chat template is longer than {MAX_NODES} nodes of syntax or nested deeper than {MAX_NESTING}"
            )
        if isinstance(node, nodes.EvalContextModifier):
            raise TemplateError("{% autoescape %} is not for chat templates")
        names += isinstance(node, nodes.Macro) or _hands_on(node)
        waiting.extend((child, level + 1) for child in node.iter_child_nodes())
    if count * names > MAX_FOLLOWED:
        raise TemplateTooCostly(f"the chat template gives {names} names to what it is given")


def check_code(code: str) -> None:
    """Raises TemplateTooCostly for Python that is not worth compiling."""
    if len(code) > MAX_CODE:
        raise TemplateTooCostly(f"the chat template becomes {len(code)} characters of Python; at most {MAX_CODE} do")


def _hands_on(node: nodes.Node) -> bool:
    """Whether it gives another name to something, or to a part of it."""
    return isinstance(node, nodes.Assign) and isinstance(node.node, nodes.Name | nodes.Getitem | nodes.Filter)


class BudgetedCode(CodeGenerator):
    """Writes `budget` into all that a template does. The name stands for the budget of one rendering."""

    def __init__(
        self,
        environment: Any,
        name: str | None,
        filename: str | None,
        stream: TextIO | None = None,
        defer_init: bool = False,
        optimized: bool = True,
    ) -> None:
        super().__init__(environment, name, filename, stream, defer_init, optimized=False)
        self._defaults: Sequence[nodes.Node] = ()

    def write_commons(self) -> None:
        super().write_commons()
        self.writeline("budget = context.budget")
        self.writeline("concat = budget.concat")

    def blockvisit(self, nodes: Iterable[nodes.Node], frame: Frame) -> None:
        statements = list(nodes)
        steps = 1 + sum(map(_steps, [*statements, *self._defaults]))
        self._defaults = ()
        self.writeline(f"budget.steps -= {steps}")
        self.writeline("if budget.steps < 0: budget.overdrawn()")
        super().blockvisit(statements, frame)

    def macro_body(self, node: nodes.Macro | nodes.CallBlock, frame: Frame) -> tuple[Frame, MacroRef]:
        self._defaults = node.defaults  # They are evaluated in the macro, before its block.
        return super().macro_body(node, frame)

    def visit_For(self, node: nodes.For, frame: Frame) -> None:
        if node.test is not None:  # It is evaluated for each item, outside of the body.
            tick: nodes.Expr = object.__new__(nodes.InternalName)
            nodes.Expr.__init__(tick, f"budget.tick({1 + _steps(node.test)})")
            node.test = nodes.And(tick, node.test)
        super().visit_For(node, frame)

    def _output_child_to_const(self, node: nodes.Expr, frame: Frame, finalize: Any) -> str:
        if not isinstance(node, nodes.TemplateData | nodes.Const):
            raise nodes.Impossible
        return super()._output_child_to_const(node, frame, finalize)

    def _output_child_pre(self, node: nodes.Expr, frame: Frame, finalize: Any) -> None:
        self.write("(shown if type(shown := ")

    def _output_child_post(self, node: nodes.Expr, frame: Frame, finalize: Any) -> None:
        self.write(") is str else budget.text(shown))")

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:
        self._call("join", node.nodes, frame)

    def visit_Add(self, node: nodes.BinExpr, frame: Frame) -> None:
        values: list[nodes.Expr] = [node.right]
        left = node.left
        while isinstance(left, nodes.Add):
            values.append(left.right)
            left = left.left
        self._call("plus", [left, *reversed(values)], frame)

    def _binary(self, node: nodes.BinExpr, frame: Frame) -> None:
        self.write(f"budget.{BINARY[type(node).__name__]}(")
        self._visit_all((node.left, node.right), frame)
        self.write(")")

    visit_Sub = visit_Mul = visit_Div = visit_FloorDiv = visit_Mod = visit_Pow = _binary

    def visit_Getitem(self, node: nodes.Getitem, frame: Frame) -> None:
        if not isinstance(node.arg, nodes.Slice):
            super().visit_Getitem(node, frame)
            return
        self.write("budget.cut(")
        self.visit(node.node, frame)
        self.write(", slice(")
        ends = (node.arg.start, node.arg.stop, node.arg.step)
        self._visit_all([end if end is not None else nodes.Const(None) for end in ends], frame)
        self.write("))")

    def visit_Dict(self, node: nodes.Dict, frame: Frame) -> None:
        self.write("{")
        for pair in node.items:
            plain = isinstance(pair.key, nodes.Const) and isinstance(pair.key.value, str)
            self._write_guarded(pair.key, "key", plain, frame)
            self.write(": ")
            self.visit(pair.value, frame)
            self.write(", ")
        self.write("}")

    def visit_Compare(self, node: nodes.Compare, frame: Frame) -> None:
        """A comparison costs no more than its smaller side: of two neighbours one has to be paid for."""
        sides = [node.expr, *(operand.expr for operand in node.ops)]
        operators = [operand.op for operand in node.ops]
        if "in" in operators or "notin" in operators:
            self._contains(node, frame)
            return
        cheap = len(sides) == 2 and any(map(_is_cheap, sides))
        self.write("(")
        for i, side in enumerate(sides):
            if i:
                self.write(f" {_COMPARISONS[operators[i - 1]]} ")
            self._write_guarded(side, "comparable", cheap or i == len(sides) - 1, frame)
        self.write(")")

    def _contains(self, node: nodes.Compare, frame: Frame) -> None:
        if len(node.ops) > 1:
            self.fail("comparisons with 'in' cannot be chained", node.lineno)
        self.write("(not " if node.ops[0].op == "notin" else "(")
        self._call("contains", (node.expr, node.ops[0].expr), frame, several=False)
        self.write(")")

    def _write_guarded(self, node: nodes.Expr, guard: str, plain: bool, frame: Frame) -> None:
        self.write("" if plain else f"budget.{guard}(")
        self.visit(node, frame)
        self.write("" if plain else ")")

    def _call(self, method: str, arguments: Iterable[nodes.Expr], frame: Frame, several: bool = True) -> None:
        """`budget.method(arguments)`, as one tuple where there may be several."""
        self.write(f"budget.{method}({'(' * several}")
        self._visit_all(arguments, frame)
        self.write(f"{')' * several})")

    def _visit_all(self, expressions: Iterable[nodes.Expr], frame: Frame) -> None:
        for expression in expressions:
            self.visit(expression, frame)
            self.write(", ")


_COMPARISONS = {"eq": "==", "ne": "!=", "gt": ">", "gteq": ">=", "lt": "<", "lteq": "<="}


def _is_cheap(node: nodes.Expr) -> bool:
    """A constant that takes no time to compare with."""
    return isinstance(node, nodes.Const) and not (isinstance(node.value, str) and len(node.value) > _SHORT_CONSTANT)


def _steps(node: nodes.Node) -> int:
    """The steps of evaluating `node` once, without the blocks in it, which are counted where they begin."""
    steps, waiting = 0, [node]
    while waiting:
        node = waiting.pop()
        if isinstance(node, _FREE):
            steps += isinstance(node, nodes.TemplateData)
        else:
            steps += _STEPS.get(type(node), 1)
        waiting.extend(node.iter_child_nodes(exclude=_elsewhere(node)))
    return steps


def _elsewhere(node: nodes.Node) -> frozenset[str]:
    """The fields of a statement that are counted elsewhere."""
    if isinstance(node, nodes.For):
        return _OWN_BLOCKS | {"test"}
    if isinstance(node, nodes.Macro | nodes.CallBlock):
        return _OWN_BLOCKS | {"args", "defaults"}
    return _OWN_BLOCKS
