"""Chat templates at random, which no list foresees: each ends, and writes what jinja writes without any bounds."""
# ruff: noqa: E501, SIM905  (words instead of lists of them)

import warnings
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenizer.unbounded_templates import unbounded
from warmroute.errors import TemplateError
from warmroute.tokenizer.chat_template import ChatTemplate
from warmroute.tokenizer.template_bounds import budget

NAMES = st.sampled_from(
    ["a", "b", "c", "ns.x", "m.role", "m.content", "m['content']", "messages", "m", "loop.index", "caller"]
)
CONSTANTS = st.sampled_from(
    ["'a'", "'<b> c'", "''", "1", "0", "-2", "3", "2.5", "none", "true", "[]", "{}", "[1, 'a']", "(1, 2)", "{'a': 1}"]
)
OPERATORS = st.sampled_from("+ - * / // % ** ~ == != < >= in and or".split() + ["not in", "is not eq"])
FILTERS = st.sampled_from(
    "trim upper lower title capitalize length list first last string tojson join reverse sort unique sum min max abs int float "
    "round default('d') join('-') replace('a','bc') indent(2) center(9) truncate(5) map('string')|list batch(2)|list "
    "select('string')|list rejectattr('role')|list map(attribute='role')|list selectattr('role','eq','user')|list "
    "dictsort items|list slice(2)|list groupby('role') attr('x') format(1) tojson(indent=2) e safe escape title wordless".split()
)
METHODS = st.sampled_from(
    "strip() split() split('a') rsplit('a',1) upper() startswith('a') endswith(('a','b')) replace('a','bb') find('a') rfind('b') "
    "partition('a') rpartition('a') join(['x','y']) format(1) get('role') items() keys() values() index('a') count('a') splitlines() "
    "zfill(4) ljust(3) title() isdigit() append(1) pop() copy() lstrip('a') removeprefix('a') casefold() role content".split()
)
TESTS = st.sampled_from(
    "defined none string mapping sequence iterable number odd even true lower callable undefined in(['a'])".split()
)


def expressions() -> st.SearchStrategy[str]:
    def grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return st.one_of(
            st.builds("({} {} {})".format, inner, OPERATORS, inner),
            st.builds("({})|{}".format, inner, FILTERS),
            st.builds("({}).{}".format, inner, METHODS),
            st.builds("({})[{}]".format, inner, inner),
            st.builds("({})[{}:{}]".format, inner, st.sampled_from(["", "1", "-1"]), st.sampled_from(["", "2", ":-1"])),
            st.builds("({} if {} is {} else {})".format, inner, inner, TESTS, inner),
            st.builds("[{}, {}]".format, inner, inner),
            st.builds("{{'k': {}}}".format, inner),
            st.builds("f({})".format, inner),
            st.builds("range({})".format, st.integers(-2, 4)),
        )

    return st.recursive(st.one_of(NAMES, CONSTANTS), grown, max_leaves=6)


def programs() -> st.SearchStrategy[str]:
    def grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        expression = expressions()
        return st.one_of(
            st.builds("{}{}".format, inner, inner),
            st.builds("{{% for m in {} %}}{}{{% else %}}{}{{% endfor %}}".format, expression, inner, inner),
            st.builds("{{% for m in messages if {} %}}{}{{% endfor %}}".format, expression, inner),
            st.builds("{{% for m in {} recursive %}}{}{{{{ loop([]) }}}}{{% endfor %}}".format, expression, inner),
            st.builds("{{% if {} %}}{}{{% elif {} %}}{}{{% endif %}}".format, expression, inner, expression, inner),
            st.builds("{{% set {} = {} %}}{}".format, st.sampled_from(["a", "b", "c", "ns.x"]), expression, inner),
            st.builds(
                "{{% set a | {} %}}{}{{% endset %}}{{{{ a }}}}".format, st.sampled_from(["upper", "trim"]), inner
            ),
            st.builds("{{% macro f(a, b={}) %}}{}{{% endmacro %}}{}".format, expression, inner, inner),
            st.builds("{{% call f({}) %}}{}{{% endcall %}}".format, expression, inner),
            st.builds(
                "{{% filter {} %}}{}{{% endfilter %}}".format, st.sampled_from(["upper", "trim", "indent(3)"]), inner
            ),
            st.builds("{{% with a = {} %}}{}{{% endwith %}}".format, expression, inner),
            st.builds(
                "{{% for i in range(3) %}}{}{{% {} %}}{{% endfor %}}".format,
                inner,
                st.sampled_from(["break", "continue"]),
            ),
            st.builds("{{% generation %}}{}{{% endgeneration %}}".format, inner),
        )

    shown = st.builds("{{{{ {} }}}}".format, expressions())
    return st.recursive(st.one_of(shown, st.just("text "), st.just("\n  ")), grown, max_leaves=5)


BEFORE = "{% macro f(x) %}<{{ x }}{{ caller() if caller }}>{% endmacro %}{% set ns = namespace(x='n') %}{% set m = messages[0] %}"


def conversation() -> list[dict[str, Any]]:
    return [
        {"role": "user", "content": "Hello a b\n"},
        {"role": "assistant", "content": "  <a> & b", "x": [1, {"role": 2}]},
    ]


@settings(max_examples=300, deadline=None)
@given(program=programs())
def test_a_program_at_random_writes_what_it_writes_without_bounds(program: str) -> None:
    variables = {"a": "a text", "b": 2, "messages": conversation()}
    try:
        bounded: str | None = ChatTemplate(BEFORE + program, datetime.now).render(conversation(), variables)
    except TemplateError:
        bounded = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python's, of code like `1[:]`.
            expected: str | None = unbounded(BEFORE + program).render(**variables)
    except Exception:
        expected = None
    if bounded is not None and "0x" not in bounded.lower():
        assert bounded == expected
    assert variables["messages"] == conversation()


LOOPS = st.sampled_from(
    [
        "range(99999)",
        "[1, 2, 3]",
        "messages",
        "ns.x",
        "'abc' * 999",
        "ns.x | map('string')",
        "range(99) | select('odd')",
    ]
)
GROWTH = st.sampled_from(
    [
        "ns.x + ns.x",
        "ns.x ~ ns.x",
        "[ns.x, ns.x]",
        "(ns.x, 1)",
        "{'a': ns.x}",
        "ns.x * 3",
        "ns.x | string",
        "ns.x | tojson",
        "ns.x | list",
    ]
    + [
        "f(ns.x)",
        "ns.x | replace('a', 'aaa')",
        "(ns.x | string).split('a')",
        "ns.x ** 2",
        "'%s%s' | format(ns.x, ns.x)",
        "ns.x | join(ns.x)",
    ]
    + [
        "'{0}{0}'.format(ns.x)",
        "ns.x | indent(99)",
        "ns.x | center(9999)",
        "dict(a=ns.x)",
        "ns.x == [ns.x]",
        "ns.x in [ns.x]",
        "ns.x | sort",
    ]
)


def runaways() -> st.SearchStrategy[str]:
    def grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return st.one_of(
            st.builds("{}{}".format, inner, inner),
            st.builds("{{% for i in {} %}}{}{{% endfor %}}".format, LOOPS, inner),
            st.builds("{{% for i in {} recursive %}}{}{{{{ loop(ns.x) }}}}{{% endfor %}}".format, LOOPS, inner),
            st.builds("{{% macro f(x) %}}{}{{{{ f(x) }}}}{{% endmacro %}}".format, inner),
            st.builds("{{% set y %}}{}{{% endset %}}{{% set ns.x = y %}}".format, inner),
        )

    steps = st.one_of(st.builds("{{% set ns.x = {} %}}".format, GROWTH), st.builds("{{{{ {} }}}}".format, GROWTH))
    return st.recursive(steps, grown, max_leaves=8)


@settings(max_examples=300, deadline=None)
@given(program=runaways(), start=st.sampled_from(["'a'", "['a']", "3", "{'a': 'b'}"]))
def test_a_program_that_runs_away_ends(program: str, start: str) -> None:
    source = "{% macro f(x) %}{{ x }}{{ x }}{% endmacro %}{% set ns = namespace(x=" + start + ") %}" + program
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(budget, "BASE_STEPS", 20_000)
        try:
            text = ChatTemplate(source, datetime.now).render([], {})
        except TemplateError:
            return
    assert len(text) <= budget.BASE_LENGTH * 2
