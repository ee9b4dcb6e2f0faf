"""The environment that chat templates run in: a sandbox of what is listed, all of it paid for from a budget."""

from collections.abc import Callable, Mapping
from datetime import datetime
from types import CodeType
from typing import Any

import jinja2
from jinja2 import filters as jinja_filters
from jinja2 import nodes
from jinja2 import tests as jinja_tests
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context, LoopContext, Macro, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Cycler

from warmroute.tokenizer.template_bounds.code import BudgetedCode, check_code, check_size, check_syntax
from warmroute.tokenizer.template_bounds.filters import (
    CHEAP_FILTERS,
    CHEAP_TESTS,
    FILTERS,
    LAZY_FILTERS,
    TESTS,
    budgeted,
)
from warmroute.tokenizer.template_bounds.functions import Function, call, functions
from warmroute.tokenizer.template_bounds.methods import METHODS
from warmroute.tokenizer.template_bounds.namespace import TemplateNamespace
from warmroute.tokenizer.template_bounds.operators import PLAIN, BudgetedContext, Operations, budget_of

_ATTRIBUTES: dict[type, frozenset[str]] = {
    **{kind: frozenset(methods) for kind, methods in METHODS.items()},
    LoopContext: frozenset({
        "index", "index0", "first", "last", "length", "revindex", "revindex0", "previtem", "nextitem",
        "cycle", "changed", "depth", "depth0",
    }),
    Macro: frozenset({"name", "arguments", "catch_kwargs", "catch_varargs", "caller"}),
    Cycler: frozenset({"next", "reset", "current"}),
}  # fmt: skip
_SUBSCRIPTABLE = (dict, list, tuple, str, range)
_OF_DICTIONARIES = frozenset(dir(dict))


class BudgetedEnvironment(ImmutableSandboxedEnvironment):
    """Compiles and renders templates; safe from any thread, since what changes is in the context of a rendering.

    Looking up attributes is jinja's sandbox in short: what may be reached is listed by type, and a dictionary is asked
    for an item before Python is asked for an attribute that dictionaries do not have. That saves more time than all
    the budget takes.
    """

    code_generator_class = BudgetedCode
    context_class = BudgetedContext

    def __init__(self, clock: Callable[[], datetime]) -> None:
        """`clock` is what `strftime_now` reads. The options are those of transformers."""
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationTag, loopcontrols])
        self.filters = {name: jinja_filters.FILTERS[name] for name in CHEAP_FILTERS}
        self.filters |= LAZY_FILTERS | {name: budgeted(call) for name, call in FILTERS.items()}
        self.tests = {name: jinja_tests.TESTS[name] for name in CHEAP_TESTS}
        self.tests |= {name: budgeted(call) for name, call in TESTS.items()}
        self.globals = dict(functions(clock))

    def read(self, source: str) -> nodes.Template:
        """The syntax of a template. Raises TemplateTooCostly, TemplateError, and whatever jinja raises."""
        check_size(source)
        syntax = self.parse(source)
        check_syntax(syntax)
        return syntax

    def program(self, syntax: nodes.Template) -> jinja2.Template:
        """A template that can be rendered. Raises TemplateTooCostly, and whatever Python raises for jinja's code."""
        code = self.compile(syntax, raw=True)
        check_code(code)
        program: CodeType = compile(code, "<chat template>", "exec")
        return jinja2.Template.from_code(self, program, self.globals)

    def render(self, template: jinja2.Template, variables: Mapping[str, Any]) -> str:
        """The text of a template. Raises TemplateTooCostly, and whatever the template raises."""
        context = template.new_context(dict(variables))
        assert isinstance(context, BudgetedContext)
        context.budget = Operations(self, variables)
        return context.budget.gather(template.root_render_func(context))

    def call(self, context: Context, called: Any, /, *args: Any, **kwargs: Any) -> Any:
        kwargs.pop("_loop_vars", None)
        kwargs.pop("_block_vars", None)
        return call(budget_of(context), called, args, kwargs)

    def getattr(self, obj: Any, attribute: str) -> Any:
        kind = type(obj)
        if kind is dict and attribute not in _OF_DICTIONARIES:
            return obj[attribute] if attribute in obj else self.undefined(obj=obj, name=attribute)
        if kind is TemplateNamespace:
            values = obj.values
            return values[attribute] if attribute in values else self.undefined(obj=obj, name=attribute)
        if attribute in _ATTRIBUTES.get(kind, ()):
            return getattr(obj, attribute)
        return self._unlisted(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        kind = type(argument)
        if kind is str and type(obj) is dict and argument in obj:
            return obj[argument]
        if isinstance(obj, Undefined):
            return obj[argument]
        if kind not in PLAIN and not isinstance(argument, str | Undefined):
            return self.undefined(obj=obj, name=kind.__name__)  # Nothing has such a key, see `Operations.key`.
        if isinstance(obj, _SUBSCRIPTABLE):
            try:
                return obj[argument]
            except (TypeError, LookupError):
                pass
        return self.getattr(obj, argument) if kind is str and type(obj) is not dict else self._item(obj, argument)

    def _item(self, obj: Any, argument: Any) -> Any:
        """What a dictionary has that is no item: `d['items']` is the method if there is no such key."""
        if argument in _OF_DICTIONARIES and type(argument) is str and type(obj) is dict:
            return self.getattr(obj, argument)
        return self.undefined(obj=obj, name=argument)

    def _unlisted(self, obj: Any, attribute: str) -> Any:
        """What is not listed does not exist, or must not be used. Raises UndefinedError if `obj` is undefined."""
        if isinstance(obj, Undefined):
            return obj[attribute]
        if isinstance(obj, tuple) and attribute in getattr(obj, "_fields", ()):
            return getattr(obj, attribute)  # `grouper` and `list` of what `groupby` gives
        if isinstance(obj, Function) and attribute == "fromkeys":
            return getattr(obj, attribute, self.undefined(obj=obj, name=attribute))
        if hasattr(type(obj), attribute):
            return self.unsafe_undefined(obj, attribute)
        return self.undefined(obj=obj, name=attribute)


class _GenerationTag(Extension):
    """`{% generation %}` marks the assistant's tokens for training; for a prompt its body alone counts."""

    tags = {"generation"}  # noqa: RUF012  (jinja declares it as a plain class attribute)

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body).set_lineno(line)
