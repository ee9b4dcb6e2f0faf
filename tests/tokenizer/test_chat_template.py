"""Templates: what they can rely on, and what a broken one can do."""
# ruff: noqa: E501  (templates on one line)

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tokenizer.unbounded_templates import NOON, unbounded
from warmroute.errors import TemplateError, TemplateTooCostly
from warmroute.tokenizer.chat_template import ChatTemplate

HELLO = [{"role": "user", "content": "Hello"}]


def render(source: str, messages: list[dict[str, Any]] = HELLO, **variables: Any) -> str:
    return ChatTemplate(source, lambda: NOON).render(messages, variables)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{% for m in messages %}\n    {% if true %}\n{{ m.content }}\n    {% endif %}\n{% endfor %}\n", "Hello\n"),
        ("{{ {'a': '<é>&\\'', 'b': [1, none, true]} | tojson }}", '{"a": "<é>&\'", "b": [1, null, true]}'),
        ("{{ {'b': 1, 'a': 2} | tojson(indent=2, sort_keys=true) }}", '{\n  "a": 2,\n  "b": 1\n}'),
        ("{{ ['é'] | tojson(ensure_ascii=true) }}", '["\\u00e9"]'),
        ("{{ [1, 2] | tojson(separators=(',', ':')) }}", "[1,2]"),
        ("{{ strftime_now('%d %b %Y') }}", "09 Mar 2026"),
        ("{% for i in [1, 2, 3] %}{% if i == 1 %}{% continue %}{% endif %}{{ i }}{% endfor %}", "23"),
        ("{% for i in [1, 2, 3] %}{% if i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %}", "12"),
        ("a{% generation %}{{ messages[0].content }}{% endgeneration %}b", "aHellob"),
        ("{{ nothing }}{{ messages[0].nothing }}{{ messages | length }}", "1"),
        ("{{ x }}{{ messages[0]['content'][::-1] }}", "7olleH"),
    ],
)
def test_the_language_of_templates(source: str, text: str) -> None:
    assert render(source, x=7) == text


@pytest.mark.parametrize(
    "source",
    [
        "{{ raise_exception('roles must alternate') }}",
        "{{ messages.append(1) }}",
        "{{ messages[0].update({'role': 'x'}) }}",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages.__class__.__base__.__subclasses__()[0] }}",
        "{{ raise_exception.__globals__['json'] }}",
        "{{ strftime_now.__globals__['json'] }}",
        "{{ self.__init__.__globals__ }}",
        "{% for i in range(10000000) %}{% endfor %}",
        "{{ 1 / 0 }}",
        "{{ messages[0].content + 1 }}",
        "{{ nothing.at.all }}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% include 'other' %}",
        "{{ messages | tojson(indent='x', y=1) }}",
        "{{ cycler | tojson }}",
    ],
)
def test_a_template_that_fails_is_a_template_error(source: str) -> None:
    template = ChatTemplate(source, datetime.now)
    messages = [{"role": "user", "content": "Hello"}]
    with pytest.raises(TemplateError):
        assert template.render(messages, {}) == "never"
    assert messages == HELLO


def test_the_reason_of_a_template_is_kept() -> None:
    with pytest.raises(TemplateError, match="roles must alternate"):
        render("{{ raise_exception('roles must alternate') }}")


@pytest.mark.parametrize("source", ["{% if %}", "{{", "{% endfor %}", "{{ x | no_such_filter }}", "{% generation %}x"])
def test_what_is_no_template_is_refused_at_once(source: str) -> None:
    with pytest.raises(TemplateError):
        ChatTemplate(source, datetime.now)


def test_deep_nesting_is_a_template_error() -> None:
    deep: Any = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(TemplateError):
        render("{{ messages | tojson }}", [{"role": "user", "content": deep}])


@pytest.mark.parametrize("content", ["a", "a ", " a\n\n", "", "[END]"])
def test_an_open_message_ends_where_its_text_ends(content: str) -> None:
    messages = [{"role": "user", "content": "q"}, {"role": "assistant", "content": content}]
    keeping = ChatTemplate("{% for m in messages %}<{{ m.content }}>{% endfor %}", datetime.now)
    assert keeping.render_open(messages, {}) == "<q><" + content
    trimming = ChatTemplate("{% for m in messages %}<{{ m.content | trim }}>{% endfor %}", datetime.now)
    assert trimming.render_open(messages, {}) == "<q><" + content.strip()


def test_a_message_that_is_not_shown_cannot_be_continued() -> None:
    with pytest.raises(TemplateError):
        ChatTemplate("nothing", datetime.now).render_open(HELLO, {})
    with pytest.raises(TemplateError):
        ChatTemplate("{{ messages }}", datetime.now).render_open([{"role": "user", "content": None}], {})


WALK = "{% macro t(c) %}{% for p in c %}{% endfor %}{% endmacro %}"


@pytest.mark.parametrize(
    ("source", "takes_parts"),
    [
        ("{% for m in messages %}{{ m.content }}{% endfor %}", False),
        ("{% for m in messages %}{% for p in m.content %}{% endfor %}{% endfor %}", True),
        ("{% for m in messages %}{% for p in m['content'] %}{% endfor %}{% endfor %}", True),
        ("{% for m in messages %}{% for p in m['content'] | list %}{% endfor %}{% endfor %}", True),
        ("{% for m in messages %}{% set content = m.content %}{% for p in content %}{% endfor %}{% endfor %}", True),
        ("{% for m in messages %}{% for p in m.parts %}{% endfor %}{% endfor %}", False),
        ("{% for m in others %}{% for p in m.content %}{% endfor %}{% endfor %}", False),
        ("{% set rest = messages[1:] %}{% for m in rest %}{% for p in m.content %}{% endfor %}{% endfor %}", True),
        ("{% for m in messages[::-1] %}{% for p in m.content %}{% endfor %}{% endfor %}", True),
        (
            WALK + "{% for m in messages %}{{ t(m.content) }}{% endfor %}",
            True,
        ),
        (
            WALK + "{% for m in messages %}{{ t(c=m.content) }}{% endfor %}",
            True,
        ),
        (
            WALK + "{% for m in messages %}{{ t(m.tools) }}{% endfor %}",
            False,
        ),
    ],
)
def test_what_a_template_takes_is_read_from_its_loops(source: str, takes_parts: bool) -> None:
    assert ChatTemplate(source, datetime.now).takes_parts is takes_parts


TEMPLATES = sorted((Path(__file__).parent / "templates").glob("*.jinja"))


def conversation(turns: int) -> list[dict[str, Any]]:
    """A system text, then questions, calls, results and answers."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": " You may read files. \n"}]
    for i in range(turns):
        call = {"name": "read", "arguments": {"path": f"/src/{i}.py", "lines": [1, 2.5, None, True]}}
        messages += [
            {"role": "user", "content": f" Wofür ist {i}?\n"},
            {
                "role": "assistant",
                "content": "<think>\nHm.\n</think>\n\nI look.",
                "tool_calls": [{"id": "c", "function": call}],
            },
            {"role": "tool", "content": f"x = {i} # <tag> & 'quote'\n", "tool_call_id": "c", "name": "read"},
            {"role": "assistant", "content": f"It is for {i}.", "reasoning_content": "So."},
        ]
    return messages


def tools(count: int, depth: int) -> list[dict[str, Any]]:
    def schema(level: int) -> dict[str, Any]:
        inner = {
            f"p{i}": schema(level - 1) if level and i < 2 else {"type": "string", "enum": ["a", "b"]} for i in range(5)
        }
        return {"type": "object", "description": "Some thing. " * 4, "properties": inner, "required": ["p0"]}

    return [{"type": "function", "function": {"name": f"f{i}", "parameters": schema(depth)}} for i in range(count)]


def ours(source: str, messages: list[dict[str, Any]], variables: dict[str, Any]) -> str | None:
    try:
        return ChatTemplate(source, lambda: NOON).render(messages, variables)
    except TemplateError:
        return None


def theirs(source: str, messages: list[dict[str, Any]], variables: dict[str, Any]) -> str | None:
    try:
        return unbounded(source).render(messages=messages, **variables)
    except Exception:
        return None


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
@pytest.mark.parametrize("given", [None, tools(3, 1)], ids=["no tools", "tools"])
@pytest.mark.parametrize("turns", [0, 1, 12])
def test_a_template_writes_what_it_writes_without_bounds(path: Path, given: Any, turns: int) -> None:
    source = path.read_text()
    plain = [message for message in conversation(turns) if message["role"] != "tool" and "tool_calls" not in message]
    for messages in (conversation(turns), plain, plain[1:], plain[:-1]):
        variables = {"tools": given, "add_generation_prompt": True, "bos_token": "<s>", "eos_token": "</s>"}
        assert ours(source, messages, variables) == theirs(source, messages, variables)


@pytest.mark.parametrize(
    "source",
    [
        "{{ dict(a=1, budget=2)['budget'] }}{{ dict([('a', 1)]) }}{{ dict({'b': 2}, c=3) }}",
        "{{ namespace(self=1, budget=2, context=3).context }}{{ '{value} {form}'.format(value=1, form=2) }}",
        "{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.current }}{% set j = joiner('; ') %}{{ j() }}{{ j() }}",
        "{% for a in [3, 1, 2] %}{{ loop.index }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }}{{ loop.cycle('x', 'y') }}{{ loop.changed(a) }}{{ loop.nextitem }}{% endfor %}",
        "{% for a in [1, [2, [3]]] recursive %}{{ loop.depth }}{{ a if a is number else loop(a) }}{% endfor %}",
        "{% macro f(a, b=2, c=a) %}{{ a }}{{ b }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1) }}{{ f(1, 2, 3, 4, x=5) }}{{ f.name }}",
        "{% macro f() %}[{{ caller('x') }}]{% endmacro %}{% call(y) f() %}{{ y }}!{% endcall %}",
        "{% set x %}a{{ 1 }}{% endset %}{{ x }}{% filter upper %}b{{ x }}{% endfilter %}{% set y | trim %} c {% endset %}{{ y }}",
        "{{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | map('trim') | join('|') }}",
        "{{ messages | rejectattr('content') | list }}{{ messages | groupby('role') }}{{ messages | map(attribute='x', default=1) | sum }}",
        "{% if messages | selectattr('nothing') %}always{% endif %}{{ [3, 1, 2] | sort(reverse=true) }}{{ {'b': 1, 'A': 2} | dictsort }}",
        "{{ [1, 2, 3, 4, 5] | batch(2, 0) | list }}{{ [1, 2, 3] | slice(2) | list }}{{ 'a b' | title }}{{ ['a', 'A', 'b'] | unique | list }}",
        "{{ 'a\nb\n\nc' | indent(2) }}{{ 'a\nb' | indent('> ', true) }}{{ 'a b c d' | truncate(5) }}{{ 'x' | center(5) }}{{ '3.7' | int + 1 }}",
        "{{ 2 ** 3 ** 2 }}{{ 7 // 2 }}{{ -7 % 3 }}{{ 7 / 2 }}{{ 'ab' * 2 }}{{ [1] * 2 + [3] }}{{ '%s-%05.1f' % ('a', 2) }}{{ 1 < 2 < 3 }}",
        "{{ 'a' ~ 1 ~ none ~ true ~ [1] }}{{ 'abc'[::-1] }}{{ [1, 2, 3][1:] }}{{ 'b' in 'abc' }}{{ 'k' in {'k': 1} }}{{ 2 not in [1] }}",
        "{{ '<b>' | safe }}{{ '<b>' | e }}{{ '<' + ('>' | safe) + '<' }}{{ 'a' | safe | upper }}{{ ['<', '>' | safe] | join }}",
        "{{ messages[0].items() | list }}{{ messages[0]['get']('role') }}{{ messages[0].keys() }}{{ messages[0]['items'] is callable }}",
        "{{ 'a-b-c'.rsplit('-', 1) }}{{ 'a-b-c'.rpartition('-') }}{{ 'abcab'.rfind('ab') }}{{ 'a,b'.split(',') }}{{ ' a  b '.split() }}",
        "{{ [1, 2, 1].index(1, 1) }}{{ [1, 2, 1].count(1) }}{{ (1, 2).index(2) }}{{ 'x'.join(['a', 'b']) }}{{ 'aXbX'.replace('X', '-', 1) }}",
        "{% block a %}{{ messages | length }}{% for m in messages %}{% block b scoped %}{{ m.role }}{% endblock %}{% endfor %}{% endblock %}",
        "{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{% set a, b = 1, 2 %}{{ a }}{{ b }}{{ x if false }}{{ x is defined }}{{ 3 is odd }}",
        "{{ 5 is in [5] }}{{ 'a' is lower }}{{ 1 is eq 1 }}{{ 2 is gt(1) }}{{ 'trim' is filter }}{{ 'odd' is test }}{{ [] is sameas [] }}",
    ],
)
def test_the_rest_of_the_language_is_jinjas(source: str) -> None:
    messages = conversation(2)
    assert render(source, messages) == unbounded(source).render(messages=messages)


def test_long_conversations_may_be_walked_once_per_message() -> None:
    messages = [{"role": "tool" if i % 4 == 2 else "user", "content": "x"} for i in range(2_000)]
    source = (
        "{% for m in messages %}{% set ns = namespace(i=-1) %}{% for k in range(loop.index0 - 1, -1, -1) %}"
        "{% if messages[k].role != 'tool' and ns.i == -1 %}{% set ns.i = k %}{% endif %}{% endfor %}{{ ns.i }},{% endfor %}"
    )
    before = [str(i - 2 if i % 4 == 3 else i - 1) for i in range(2_000)]
    assert render(source, messages) == ",".join(before) + ","


def test_a_prompt_may_have_sixteen_million_characters() -> None:
    line = "A line of text, as long as most of them.\n"
    messages = [{"role": "user", "content": line * 200_000}, {"role": "user", "content": line * 200_000}]
    source = (
        "{% set ns = namespace(all='') %}{% for m in messages %}{% set ns.all = ns.all + m.content.strip() %}"
        "{% for part in m.content.split('\n') %}{{ part | trim }}{% endfor %}{% endfor %}{{ ns.all | replace('A', 'B') }}"
    )
    joined = (line * 200_000).strip() * 2
    assert render(source, messages) == line.strip() * 400_000 + joined.replace("A", "B")


def test_five_hundred_tools_may_be_written_as_json_and_as_types() -> None:
    given = tools(500, 3)
    source = (
        "{% macro type(s, ind) %}{% if s.type == 'object' %}{{ '{\n' }}{% for k, v in s.properties.items() %}"
        "{{ ind + k + ('' if k in s.required else '?') + ': ' }}{{ type(v, ind + '  ') }}{{ ',\n' }}{% endfor %}{{ ind + '}' }}"
        "{% else %}{{ s.enum | map('tojson') | join(' | ') }}{% endif %}{% endmacro %}"
        "{{ tools | tojson }}{% for t in tools %}{{ t | tojson(indent=4) }}{{ type(t.function.parameters, '') }}{% endfor %}"
    )
    text = render(source, [], tools=given)
    assert text.startswith(json.dumps(given))
    assert text.count("p0: {") == 500 * 7
    assert text.count('\n    "type": "function"') == 500


def test_the_depth_of_schemas_is_that_of_calls() -> None:
    deep: dict[str, Any] = {}
    for _ in range(80):
        deep = {"in": deep}
    source = "{% macro f(s) %}({% if s %}{{ f(s['in']) }}{% endif %}){% endmacro %}{{ f(deep) }}"
    assert render(source, [], deep=deep) == "(" * 81 + ")" * 81


def test_one_template_renders_in_any_number_of_threads() -> None:
    source = "{% set ns = namespace(n=0) %}{% set c = cycler('a', 'b') %}{% for i in range(500) %}{% set ns.n = ns.n + i %}{{ c.next() }}{% endfor %}{{ ns.n }}{{ m }}"
    template = ChatTemplate(source, datetime.now)
    with ThreadPoolExecutor(8) as threads:
        texts = list(threads.map(lambda i: template.render([], {"m": i}), range(200)))
    assert texts == ["ab" * 250 + f"{500 * 499 // 2}{i}" for i in range(200)]


def test_what_one_rendering_spends_is_not_missed_by_the_next() -> None:
    template = ChatTemplate(
        "{% for i in range(n) %}{% for j in range(9000) %}{% endfor %}{% endfor %}done", datetime.now
    )
    for _ in range(3):
        assert template.render([], {"n": 50}) == "done"
        with pytest.raises(TemplateTooCostly):
            template.render([], {"n": 9000})
