"""What engines find out about a model and its template; what follows from it is in the golden renderings."""

from datetime import datetime
from typing import Any

import pytest

from tokenizer.requests_to_render import templates
from warmroute.tokenizer.chat_template import ChatTemplate
from warmroute.tokenizer.engine_traits import effort_without_thinking, is_encoded_by_code, merges_inline_system

LOOP = "{% for m in messages %}{{ m.content }}{% endfor %}"
REFUSED = "{{ raise_exception('The system message must be the first one.') }}"


def template(source: str) -> ChatTemplate:
    return ChatTemplate(source, lambda: datetime(2026, 3, 9))


@pytest.mark.parametrize(
    ("source", "merges"),
    [
        (LOOP, False),
        ("{% for m in messages[1:] %}{% if m.role == 'system' %}" + REFUSED + "{% endif %}{% endfor %}", True),
        ("{{ strftime_now('%d') }}" + LOOP, True),
        ("{% if strftime_now is defined %}{{ strftime_now('%d') }}{% endif %}" + LOOP, False),
        ("{% generation %}x{% endgeneration %}" + LOOP, True),
    ],
)
def test_which_templates_want_the_system_first(source: str, merges: bool) -> None:
    assert merges_inline_system(template(source)) is merges


@pytest.mark.parametrize(
    ("source", "effort"),
    [
        (LOOP, "low"),
        ("{{ 'think' if enable_thinking else 'no' }}" + LOOP, "none"),
        ("{{ reasoning_effort }}" + LOOP, "none"),
        ("{% if reasoning_effort == 'none' %}{{ raise_exception('x') }}{% endif %}" + LOOP, "low"),
        ("{{ 'high' if reasoning_effort in ('high', 'xhigh', 'max') else 'low' }}" + LOOP, "low"),
    ],
)
def test_the_effort_where_thinking_is_switched_off(source: str, effort: str) -> None:
    assert effort_without_thinking(template(source)) == effort


@pytest.mark.parametrize(
    ("source", "parts"),
    [
        ("{% set ns.all = messages %}{% for m in messages %}{% for p in m.content %}{% endfor %}{% endfor %}", False),
        ("{% set a, b = messages %}{% for m in messages %}{% for p in m.content %}{% endfor %}{% endfor %}", False),
        ("{% for k, m in messages %}{% for p in m.content %}{% endfor %}{% endfor %}", False),
        ("{% set all = messages %}{% for m in all %}{% for p in m.content %}{% endfor %}{% endfor %}", True),
    ],
)
def test_where_vllms_search_for_parts_fails_contents_are_texts(source: str, parts: bool) -> None:
    assert template(source).takes_parts is parts


def test_the_recorded_templates_are_of_both_kinds() -> None:
    kinds = {name: template(source).takes_parts for name, source in templates().items()}
    assert kinds["shown_parts"]
    assert not kinds["shown_text"]


@pytest.mark.parametrize(
    ("config", "by_code"),
    [
        ({"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}, False),
        ({"architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss"}, True),
        ({"architectures": ["DeepseekV32ForCausalLM"], "model_type": "deepseek_v32"}, True),
        ({"architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3"}, False),
        ({"architectures": ["DeepseekV41ForCausalLM"]}, True),
        ({"architectures": ["KimiK3ForConditionalGeneration"]}, True),
        ({"architectures": None}, False),
        ({}, False),
    ],
)
def test_models_whose_conversations_are_encoded_by_code(config: dict[str, Any], by_code: bool) -> None:
    assert is_encoded_by_code(config) is by_code
