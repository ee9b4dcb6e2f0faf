"""Templates that attack the router: each ends, within bounds, as an error. They run in a process of their own, with
limits on its time and memory, so that one that hangs fails instead of hanging the tests.
"""
# ruff: noqa: E501, T201  (an attack a line; the child answers by printing)

import json
import resource
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from warmroute.errors import TemplateError, TemplateTooCostly
from warmroute.tokenizer.chat_template import ChatTemplate

COSTLY = "TemplateTooCostly"
REFUSED = "TemplateError"

DOUBLED_LIST = "{% set ns = namespace(x=['a']) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}"
DOUBLED_TUPLE = "{% set ns = namespace(x=('a',)) %}{% for i in range(60) %}{% set ns.x = (ns.x, ns.x) %}{% endfor %}"
DOUBLED_DICT = (
    "{% set ns = namespace(x={}) %}{% for i in range(60) %}{% set ns.x = {'a': ns.x, 'b': ns.x} %}{% endfor %}"
)
TWO_DOUBLED = (
    "{% set ns = namespace(x=['a'], y=['a']) %}{% for i in range(60) %}"
    "{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{% endfor %}"
)
LONG = "{% set long = 'a' * 1000000 %}"
MANY = "{% set many = range(9000) | list %}"

HOSTILE: dict[str, tuple[str, str]] = {
    # Loops and recursion without an end.
    "three nested loops": (COSTLY, "{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}x{% endfor %}{% endfor %}{% endfor %}"),
    "an empty body": (COSTLY, "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"),
    "a filtered loop that takes nothing": (COSTLY, "{% for a in range(99999) %}{% for b in range(99999) if b < 0 %}{% endfor %}{% endfor %}"),
    "the else of an empty loop": (COSTLY, "{% for a in range(99999) %}{% for b in [] %}{% else %}{% for c in range(99999) %}{% endfor %}{% endfor %}{% endfor %}"),
    "a macro that calls itself": (COSTLY, "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"),
    "a macro that calls itself twice": (COSTLY, "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}"),
    "two macros that call each other": (COSTLY, "{% macro f() %}{{ g() }}{{ g() }}{% endmacro %}{% macro g() %}{{ f() }}{% endmacro %}{{ f() }}"),
    "a macro that is its own argument": (COSTLY, "{% macro f(g) %}{{ g(g) }}{{ g(g) }}{% endmacro %}{{ f(f) }}"),
    "defaults that cost": (COSTLY, "{% macro f(a=[" + "1," * 2000 + "]) %}{% endmacro %}{% for i in range(99999) %}{{ f() }}{% endfor %}"),
    "a call block in a call block": (COSTLY, "{% macro f(n) %}{% if n %}{% call f(n - 1) %}x{% endcall %}{% call f(n - 1) %}x{% endcall %}{% else %}{{ caller() }}{% endif %}{% endmacro %}{% call f(60) %}x{% endcall %}"),
    "a recursive loop over itself": (COSTLY, "{% for a in [1, 1] recursive %}{{ loop([1, 1]) }}{% endfor %}"),
    "a call with many arguments": (COSTLY, "{% macro f() %}{{ varargs | length }}{% endmacro %}{% for i in range(9999) %}{{ f(*range(99999)) }}{% endfor %}"),
    "a long body in a short loop": (COSTLY, "{% for a in range(99999) %}" + "{{ a.b }}" * 2000 + "{% endfor %}"),
    "a long condition": (COSTLY, "{% for a in range(99999) if " + " or ".join(["a.b"] * 2000) + " %}{% endfor %}"),
    "generators of generators": (COSTLY, "{% set ns = namespace(x=[1]) %}{% for i in range(50000) %}{% set ns.x = ns.x | map('string') %}{% endfor %}"),
    "generators in a list": (COSTLY, "{% set ns = namespace(x=[]) %}{% for i in range(50000) %}{% set ns.x = ns.x + [[1] | map('string')] %}{% endfor %}"),
    "select over select": (COSTLY, "{% for i in range(99999) %}{{ range(99999) | select('odd') | select('even') | list }}{% endfor %}"),
    "a block that contains itself": (REFUSED, "{% block a %}{{ self.a() }}{% endblock %}"),
    # Texts that grow.
    "a text times a number": (COSTLY, "{{ 'a' * 10**9 }}"),
    "a number times a text": (COSTLY, "{{ 10**9 * 'a' }}"),
    "a text that doubles by ~": (COSTLY, "{% set ns = namespace(x='a') %}{% for i in range(99) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}"),
    "a text that doubles by +": (COSTLY, "{% set ns = namespace(x='a') %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}"),
    "a text that doubles in a block": (COSTLY, "{% set ns = namespace(x='a') %}{% for i in range(99) %}{% set y %}{{ ns.x }}{{ ns.x }}{% endset %}{% set ns.x = y %}{% endfor %}"),
    "a text that doubles in a macro": (COSTLY, "{% macro d(x) %}{{ x }}{{ x }}{% endmacro %}{% set ns = namespace(x='a') %}{% for i in range(99) %}{% set ns.x = d(ns.x) %}{% endfor %}"),
    "a text that doubles in a filter block": (COSTLY, "{% set ns = namespace(x='a') %}{% for i in range(99) %}{% set y | upper %}{{ ns.x }}{{ ns.x }}{% endset %}{% set ns.x = y %}{% endfor %}"),
    "output without an end": (COSTLY, LONG + "{% for i in range(99999) %}{{ long }}{% endfor %}"),
    "replace that explodes": (COSTLY, LONG + "{{ long.replace('a', long) }}"),
    "the filter replace": (COSTLY, LONG + "{{ long | replace('', long) }}"),
    "join that explodes": (COSTLY, LONG + "{{ long.join(range(9999) | map('string')) }}"),
    "the filter join": (COSTLY, LONG + "{{ ([long] * 9999) | join(long) }}"),
    "a list joined": (COSTLY, LONG + "{{ ([long] * 9999) | join }}"),
    "center": (COSTLY, "{{ 'a' | center(10**9) }}"),
    "ljust": (COSTLY, "{{ 'a'.ljust(10**9) }}"),
    "zfill": (COSTLY, "{{ 'a'.zfill(10**9) }}"),
    "expandtabs": (REFUSED, "{{ '\t'.expandtabs(10**9) }}"),
    "indent by a width": (COSTLY, "{{ ('a\n' * 9000) | indent(10**6) }}"),
    "indent by a text": (COSTLY, LONG + "{{ ('a\n' * 9000) | indent(long) }}"),
    "a width in %": (COSTLY, "{{ '%1000000000d' % 1 }}"),
    "a width from a value in %": (COSTLY, "{{ '%*d' % (1000000000, 1) }}"),
    "a width behind a nested key in %": (COSTLY, "{{ '%(a(b))1000000000d' % {'a(b)': 1} }}"),
    "a value many times in %": (COSTLY, LONG + "{{ '%(a)s' * 2000 % {'a': long} }}"),
    "the remainder test on a format": (REFUSED, "{{ '%1000000000d' is odd }}"),
    "divisibleby on a format": (REFUSED, "{{ '%s' * 999 is divisibleby('a' * 99999) }}"),
    "the filter format": (COSTLY, "{{ '%1000000000d' | format(1) }}"),
    "a width in format": (COSTLY, "{{ '{:1000000000}'.format(1) }}"),
    "a width from a value in format": (COSTLY, "{{ '{:{}}'.format(1, 10**9) }}"),
    "a value many times in format": (COSTLY, LONG + "{{ ('{0}' * 2000).format(long) }}"),
    "the indentation of JSON": (COSTLY, "{{ [[[1] * 100]] | tojson(indent=10**8) }}"),
    "the separators of JSON": (COSTLY, LONG + "{{ ([1] * 9999) | tojson(separators=(long, long)) }}"),
    "escaping again and again": (REFUSED, "{% set ns = namespace(x='&' * 999) %}{% for i in range(99) %}{% set ns.x = (ns.x | e).striptags() %}{% endfor %}"),
    "a date in a long format": (COSTLY, "{{ strftime_now('%A' * 999999) }}"),
    # Collections that grow.
    "a list times a number": (COSTLY, "{{ [1] * 10**9 }}"),
    "a list that doubles": (COSTLY, "{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}"),
    "a long list that grows": (COSTLY, MANY + "{% set ns = namespace(x=[]) %}{% for i in range(99999) %}{% set ns.x = [many + many, ns.x] %}{% endfor %}"),
    "split into characters": (COSTLY, LONG + "{{ long.replace('a', 'a,').split(',') | length }}"),
    "rsplit": (COSTLY, "{{ ('a,' * 500000).rsplit(',') | length }}"),
    "splitlines": (COSTLY, "{{ ('\\n' * 999999).splitlines() | length }}"),
    "the list of a text": (COSTLY, LONG + "{{ long | list | length }}"),
    "batch that fills": (COSTLY, "{{ [1] | batch(10**9, 0) | list }}"),
    "slice that fills": (COSTLY, "{{ [1] | slice(10**9, 0) | list }}"),
    "a sum of lists": (COSTLY, MANY + "{{ ([many] * 9999) | sum(start=[]) }}"),
    "many large texts": (COSTLY, "{% set ns = namespace(x=[]) %}{% for i in range(9999) %}{% set ns.x = ns.x + ['%d' % i + 'a' * 900000] %}{% endfor %}"),
    "a list in itself twice, printed": (COSTLY, DOUBLED_LIST + "{{ ns.x }}"),
    "a list in itself twice, as JSON": (COSTLY, DOUBLED_LIST + "{{ ns.x | tojson }}"),
    "a list in itself twice, in a format": (COSTLY, DOUBLED_LIST + "{{ '%s' % [ns.x] }}"),
    "a list in itself twice, by format": (COSTLY, DOUBLED_LIST + "{{ '{}'.format(ns.x) }}"),
    "a list in itself twice, repr": (COSTLY, DOUBLED_LIST + "{{ '{!r}'.format(ns.x) }}"),
    "a list in itself twice, joined": (COSTLY, DOUBLED_LIST + "{{ ns.x ~ '' }}"),
    "a list in itself twice, as a text": (COSTLY, DOUBLED_LIST + "{{ ns.x | string }}"),
    "a list in itself twice, in capitals": (COSTLY, DOUBLED_LIST + "{{ ns.x | upper }}"),
    "a list in itself twice, in an error": (COSTLY, DOUBLED_LIST + "{{ raise_exception(ns.x) }}"),
    "a namespace in itself": (COSTLY, "{% set ns = namespace() %}{% set ns.x = [ns, ns] %}{{ ns.x | tojson }}"),
    "a dictionary in itself twice": (COSTLY, DOUBLED_DICT + "{{ ns.x }}"),
    "its items": (COSTLY, DOUBLED_DICT + "{{ ns.x.items() }}"),
    "its values in a namespace": (COSTLY, DOUBLED_DICT + "{{ namespace(x=ns.x.values()) }}"),
    "comparing what doubles": (COSTLY, TWO_DOUBLED + "{{ ns.x == ns.y }}"),
    "ordering what doubles": (COSTLY, TWO_DOUBLED + "{{ ns.x < ns.y }}"),
    "comparing in a chain": (COSTLY, TWO_DOUBLED + "{{ 1 != ns.x != ns.y }}"),
    "finding what doubles": (COSTLY, TWO_DOUBLED + "{{ ns.x in [1, ns.y] }}"),
    "the index of what doubles": (COSTLY, TWO_DOUBLED + "{{ [1, ns.y].index(ns.x) }}"),
    "counting what doubles": (COSTLY, TWO_DOUBLED + "{{ [1, ns.y].count(ns.x) }}"),
    "testing what doubles": (COSTLY, TWO_DOUBLED + "{{ ns.x is eq(ns.y) }}{{ [ns.x] | select('in', [ns.y]) | list }}"),
    "sorting what doubles": (COSTLY, TWO_DOUBLED + "{{ [ns.x, ns.y] | sort | length }}"),
    "the largest of what doubles": (COSTLY, TWO_DOUBLED + "{{ [ns.x, ns.y] | max | length }}"),
    "grouping what doubles": (COSTLY, TWO_DOUBLED + "{{ [{'a': ns.x}, {'a': ns.y}] | groupby('a') | length }}"),
    "what changed in a loop": (COSTLY, TWO_DOUBLED + "{% for i in [1, 2] %}{{ loop.changed(ns.x if i == 1 else ns.y) }}{% endfor %}"),
    "hashing what doubles": (REFUSED, DOUBLED_TUPLE + "{{ {ns.x: 1} }}"),
    "getting by what doubles": (REFUSED, DOUBLED_TUPLE + "{{ {}[ns.x].a }}"),
    "get by what doubles": (REFUSED, DOUBLED_TUPLE + "{{ {}.get(ns.x).a.b }}"),
    "a set of what doubles": (REFUSED, DOUBLED_TUPLE + "{{ [ns.x] | unique | list }}"),
    "dict of what doubles": (REFUSED, DOUBLED_TUPLE + "{{ dict([(ns.x, 1)]) }}"),
    "fromkeys of what doubles": (REFUSED, DOUBLED_TUPLE + "{{ dict.fromkeys([ns.x]) }}"),
    "a filter named by what doubles": (REFUSED, DOUBLED_TUPLE + "{{ [1] | map(ns.x) | list }}{{ ns.x is filter }}"),
    "what doubles in dictionary": (REFUSED, DOUBLED_TUPLE + "{{ raise_exception(ns.x in {'a': 1}) }}"),
    "a deep tuple as a key": (REFUSED, "{% set ns = namespace(x=()) %}{% for i in range(30000) %}{% set ns.x = (ns.x,) %}{% endfor %}{{ {}[ns.x].a }}"),
    "a deep list printed": (REFUSED, "{% set ns = namespace(x=[]) %}{% for i in range(9999) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}"),
    "keys that collide": (COSTLY, "{% set ns = namespace(x=[]) %}{% for i in range(9999) %}{% set ns.x = ns.x + [i * (2**61 - 1)] %}{% endfor %}{{ dict.fromkeys(ns.x) }}"),
    "arguments for a generator": (COSTLY, "{{ range(9000) | map('map', 'upper', *range(99999)) | list | length }}"),
    "named arguments": (COSTLY, "{% set many = dict.fromkeys(range(4000) | map('string')) %}{% for i in range(99999) %}{{ ''.format(**many) }}{% endfor %}"),
    "arguments in one line": (COSTLY, "{% macro f() %}{{ varargs }}{% endmacro %}" + "{% set a = f(*range(99999)) %}" * 300),
    "characters in lists": (COSTLY, "{% set ns = namespace(x=[]) %}{% for i in range(99999) %}{% set ns.x = [('\u4e00' * 9000) | list, ns.x] %}{% endfor %}"),
    "macros in lists": (COSTLY, "{% set ns = namespace(x=[]) %}{% for a in range(99999) %}{% macro f() %}{% endmacro %}{% set ns.x = [f, ns.x] %}{% endfor %}"),
    # One long step in C.
    "a power": (COSTLY, "{{ 2**2**40 }}"),
    "a power of a power": (COSTLY, "{{ (2**60)**60 }}"),
    "numbers that double": (COSTLY, "{% set ns = namespace(x=3) %}{% for i in range(99) %}{% set ns.x = ns.x * ns.x %}{% endfor %}"),
    "numbers that add up": (COSTLY, "{% set ns = namespace(x=3) %}{% for i in range(999) %}{% set ns.x = ns.x + ns.x %}{% endfor %}"),
    "numbers that are taken away": (COSTLY, "{% set ns = namespace(x=3) %}{% for i in range(999) %}{% set ns.x = ns.x - -ns.x %}{% endfor %}"),
    "rounding": (COSTLY, "{{ 1 | round(-10**9) }}"),
    "rounding up": (COSTLY, "{{ 1 | round(10**9, 'ceil') }}"),
    "a number in base 36": (COSTLY, "{{ ('z' * 4000) | int(base=36) }}"),
    "rfind": (COSTLY, LONG + "{% for i in range(9999) %}{{ long.rfind('a' * 9999 + 'b' + 'a' * 9999) }}{% endfor %}"),
    "rsplit at what is nearly there": (COSTLY, LONG + "{% for i in range(9999) %}{{ long.rsplit('a' * 9999 + 'b' + 'a' * 9999) | length }}{% endfor %}"),
    "rpartition": (COSTLY, LONG + "{% for i in range(9999) %}{{ long.rpartition('a' * 9999 + 'b' + 'a' * 9999) | length }}{% endfor %}"),
    "find": (COSTLY, LONG + "{% for i in range(9999) %}{{ long.find('a' * 9999 + 'b' + 'a' * 9999) }}{% endfor %}"),
    "in": (COSTLY, LONG + "{% for i in range(9999) %}{{ 'a' * 9999 + 'b' + 'a' * 9999 in long }}{% endfor %}"),
    "strip by many characters": (COSTLY, LONG + "{{ long.strip('b' * 99999 + 'a') }}"),
    "the filter trim": (COSTLY, LONG + "{{ long | trim('b' * 99999 + 'a') }}"),
    "startswith many": (COSTLY, LONG + "{% for i in range(99999) %}{{ long.endswith(long) }}{{ long.startswith((long,) * 9999) }}{% endfor %}"),
    "a long text among equal ones": (COSTLY, LONG + "{% set almost = [long + 'b'] * 9999 %}{{ (long + 'c') in almost }}"),
    "long texts compared": (COSTLY, LONG + "{% set a = long + 'b' %}{% set b = long + 'c' %}{% for i in range(99999) %}{{ a == b }}{% endfor %}"),
    "a long text reversed again and again": (COSTLY, LONG + "{% for i in range(99999) %}{{ (long[::-1]) | length }}{% endfor %}"),
    "a list searched again and again": (COSTLY, MANY + "{% for i in range(99999) %}{{ -1 in many }}{% endfor %}"),
    "a range searched for a text": (COSTLY, "{% for i in range(99999) %}{{ 'a' in range(99999) }}{% endfor %}"),
    "a list sorted again and again": (COSTLY, MANY + "{% for i in range(99999) %}{{ many | sort(reverse=true) | length }}{% endfor %}"),
    "the attribute of an attribute": (COSTLY, "{{ range(9999) | map(attribute='a.' * 99999 + 'a', default={}) | list }}"),
    "an attribute to sort by": (COSTLY, "{{ ([{}] * 9999) | sort(attribute='a,' * 9999 + 'a') | list }}"),
    "upper again and again": (COSTLY, LONG + "{% for i in range(99999) %}{{ long | upper | length }}{% endfor %}"),
    "a list copied again and again": (COSTLY, MANY + "{% for i in range(99999) %}{{ many.copy() | length }}{{ many[1:] | length }}{% endfor %}"),
    # Templates that are costly to read.
    "a long source": (COSTLY, "a" * 200_000),
    "many statements": (COSTLY, "{% if a %}{% endif %}" * 5000),
    "deep parentheses": (REFUSED, "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}"),
    "deep lists": (REFUSED, "{{ " + "[" * 500 + "]" * 500 + " }}"),
    "deep loops": (REFUSED, "{% for a in b %}" * 60 + "{% endfor %}" * 60),
    "a long sum": (COSTLY, "{{ " + "+".join(["1"] * 9000) + " }}"),
    "a long chain of filters": (COSTLY, "{{ a" + "|trim" * 9000 + " }}"),
    "many signs": (REFUSED, "{{ " + "-" * 9000 + "1 }}"),
    "a long number": (COSTLY, "{{ " + "9" * 9000 + " }}"),
    "a large number": (COSTLY, "{{ " + "9" * 900 + " + 1 }}"),
    "constant keys that collide": (COSTLY, "{% for i in range(9999) %}{% set x = {" + ",".join(f"{i * (2**61 - 1)}: 1" for i in range(2000)) + "} %}{% endfor %}"),
    "a long number in base 16": (COSTLY, "{{ 0x" + "f" * 99_000 + " + 0 }}"),
    "many variables in many branches": (COSTLY, "".join(f"{{% set a{i} = b %}}{{% if b %}}{{% endif %}}" for i in range(3000))),
    "many aliases of messages": (COSTLY, "{% set a0 = messages %}" + "".join(f"{{% set a{i + 1} = a{i} %}}" for i in range(2500))),
    "a source that becomes much code": (COSTLY, "{% for a in b %}{% endfor %}" * 2500),
    "many macros": (COSTLY, "".join(f"{{% macro m{i}(c) %}}{{% endmacro %}}" for i in range(1500))),
    # Ways out of the sandbox, or into the bounds.
    "classes": (REFUSED, "{{ ''.__class__.__mro__[1].__subclasses__() }}"),
    "classes by subscript": (REFUSED, "{{ ''['__class__']['__mro__'] }}"),
    "classes by filter": (REFUSED, "{{ (''|attr('__class__')).__mro__ }}"),
    "classes by map": (REFUSED, "{{ ([''] | map(attribute='__class__') | first).__mro__ }}"),
    "format looks up attributes": (REFUSED, "{{ '{0.__class__.__mro__}'.format('') }}"),
    "format_map": (REFUSED, "{{ '{a.__class__}'.format_map({'a': 1}) }}"),
    "format, kept for later": (REFUSED, "{% set f = '{0.__class__.__mro__}'.format %}{{ f('') }}"),
    "the globals of a function": (REFUSED, "{{ raise_exception.__globals__ }}{{ raise_exception._call.__globals__.a }}"),
    "the function behind one": (REFUSED, "{{ strftime_now._call('%d') }}"),
    "the environment of a macro": (REFUSED, "{% macro f() %}{% endmacro %}{{ f._environment.globals }}{{ f._func.__globals__.x }}"),
    "the frame of a generator": (REFUSED, "{{ ([1] | map('string')).gi_frame.f_globals }}"),
    "the generator's own methods": (REFUSED, "{{ ([1] | map('string')).close() }}"),
    "the recursion of a loop": (REFUSED, "{% for a in [1] recursive %}{{ loop._recurse.__globals__.x }}{% endfor %}"),
    "the budget of the context": (REFUSED, "{{ self._TemplateReference__context.budget.steps.x }}"),
    "a namespace that poses as markup": (REFUSED, "{{ namespace(__html__='a'.upper) | e }}"),
    "an attribute that poses as one": (REFUSED, "{% set ns = namespace() %}{% set ns.__class__ = 1 %}"),
    "changing a message": (REFUSED, "{{ messages[0].update({'role': 'system'}) }}"),
    "changing a list": (REFUSED, "{{ messages.append(1) }}{{ messages.sort() }}"),
    "changing by pop": (REFUSED, "{{ messages[0].pop('role') }}"),
    "a dictionary's class method": (REFUSED, "{{ {}.fromkeys([1]) }}"),
    "bytes": (REFUSED, "{{ 'a'.encode() }}"),
    "translate": (REFUSED, "{{ 'a'.translate({97: 'b' * 999}) }}"),
    "bytes of a number": (REFUSED, "{{ (1).to_bytes(10**9, 'big') }}"),
    "lipsum": (REFUSED, "{{ lipsum(10**9) }}"),
    "urlize": (REFUSED, "{{ 'a' | urlize }}"),
    "wordwrap": (REFUSED, "{{ 'a' | wordwrap }}"),
    "pprint": (REFUSED, "{{ [] | pprint }}"),
    "autoescape": (REFUSED, "{% autoescape true %}{{ '<' }}{% endautoescape %}"),
    "including others": (REFUSED, "{% include ['a', 'b'] %}"),
    "extending others": (REFUSED, "{% extends 'a' %}"),
    "importing others": (REFUSED, "{% import 'a' as b %}"),
}  # fmt: skip

TESTS_FOLDER = Path(__file__).parents[1]
TEXT_OF_64_KB = "word " * 13_000


def main() -> None:
    """Renders every hostile template twice, and writes a line for each outcome."""
    resource.setrlimit(resource.RLIMIT_AS, (3 * 2**30, 3 * 2**30))
    messages = [{"role": "user", "content": TEXT_OF_64_KB}]
    for name, (_, source) in HOSTILE.items():
        print(json.dumps([name, outcome(source, messages), outcome(source, messages)]), flush=True)


def outcome(source: str, messages: list[dict[str, Any]]) -> str:
    try:
        ChatTemplate(source, lambda: datetime(2026, 3, 9, 12)).render(messages, {})
    except TemplateError as exc:
        return type(exc).__name__
    except BaseException as exc:
        return f"not a TemplateError: {exc!r}"[:200]
    return "rendered"


def outcomes() -> dict[str, list[str]]:
    """Of each template that ended."""
    command = [sys.executable, "-m", "tokenizer.test_hostile_templates"]
    try:
        lines = subprocess.run(
            command, cwd=TESTS_FOLDER, stdout=subprocess.PIPE, text=True, timeout=300, check=False
        ).stdout
    except subprocess.TimeoutExpired as exc:
        lines = (exc.stdout or b"").decode()
    return {name: both for name, *both in map(json.loads, lines.splitlines())}


@pytest.fixture(scope="module")
def ended() -> dict[str, list[str]]:
    return outcomes()


@pytest.mark.timeout(330)
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_template_ends_as_an_error(name: str, ended: dict[str, list[str]]) -> None:
    expected, _ = HOSTILE[name]
    assert ended.get(name, "it did not end") == [expected, expected]


def test_what_is_costly_is_known_by_its_class() -> None:
    assert issubclass(TemplateTooCostly, TemplateError)


if __name__ == "__main__":
    main()
