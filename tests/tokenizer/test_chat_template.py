"""Templates: what they can rely on, and what a broken or hostile one can do."""

from datetime import datetime
from typing import Any

import pytest

from warmroute.errors import TemplateError
from warmroute.tokenizer.chat_template import ChatTemplate

HELLO = [{"role": "user", "content": "Hello"}]


def render(source: str, messages: list[dict[str, Any]] = HELLO, **variables: Any) -> str:
    return ChatTemplate(source, lambda: datetime(2026, 3, 9, 12)).render(messages, variables)


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
