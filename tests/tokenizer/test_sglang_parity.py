"""Conversations as SGLang hands them to the chat template.

SGLang cannot run here. The texts that are expected were worked out by hand from the source of its release 0.5.23:
`entrypoints/openai/serving_chat.py` (`_process_messages`, `_apply_jinja_template`, `_handle_last_assistant_message`),
the request models in `entrypoints/openai/protocol.py`, and `parser/jinja_template_utils.py`.
"""

import json
from datetime import datetime
from typing import Any

import pytest

from warmroute.errors import TemplateError
from warmroute.openai_api import ChatContent, Endpoint, parse_prompt
from warmroute.tokenizer.chat_template import ChatTemplate
from warmroute.tokenizer.dialect import Dialect, Rendered, render, template_name

HELLO = {"role": "user", "content": "Hello"}
# Shows each message whole, and every variable; contents as texts, for there is no loop over them.
SHOWN = (
    "{% for m in messages %}{{ m | tojson }};{% endfor %}"
    "{% if tools is not none %}tools={{ tools | tojson }};{% endif %}"
    "{% if thinking is defined %}thinking={{ thinking }};{% endif %}"
    "{% if enable_thinking is defined %}enable_thinking={{ enable_thinking }};{% endif %}"
    "{% if reasoning_effort is defined %}effort={{ reasoning_effort }};{% endif %}"
    "{% if add_generation_prompt %}>{% endif %}"
)
SHOWN_PARTS = SHOWN + "{# vision #}"
FUNCTION = {"name": "f", "description": "d", "parameters": {"type": "object"}}
TOOL = {"type": "function", "function": FUNCTION}


def template(source: str) -> ChatTemplate:
    return ChatTemplate(source, lambda: datetime(2026, 3, 9))


def rendered(source: str = SHOWN, endpoint: Endpoint = Endpoint.CHAT, **body: Any) -> Rendered:
    """What becomes of a body; one without messages asks a question."""
    body = body if endpoint is not Endpoint.CHAT else {"messages": [HELLO], **body}
    (chat,) = parse_prompt(endpoint, json.dumps(body).encode()).contents
    assert isinstance(chat, ChatContent)
    return render(chat, template(source), {"bos_token": "<s>"}, Dialect.SGLANG)


def shown(*messages: Any, after: str = ">") -> str:
    return "".join(json.dumps(message, ensure_ascii=False) + ";" for message in messages) + after


def conversation(*messages: Any, source: str = SHOWN) -> str:
    """What the template is given of `messages`, with a question after them so that the last one is the user's."""
    end = shown(HELLO)
    text = rendered(source, messages=[*messages, HELLO]).text
    assert text.endswith(end)
    return text.removesuffix(end)


def test_a_text_stays_a_text_also_for_templates_that_take_parts() -> None:
    for source in (SHOWN, SHOWN_PARTS):
        assert rendered(source) == Rendered(shown(HELLO))


def test_special_tokens_stand_in_the_template_alone() -> None:
    found = rendered("{{ bos_token }}{{ messages[0].content }}", add_special_tokens=True)
    assert (found.text, found.add_special_tokens) == ("<s>Hello", False)


@pytest.mark.parametrize(
    ("message", "seen"),
    [
        ({"role": "user", "content": "x", "name": "bob", "foo": 1}, {"role": "user", "content": "x"}),
        ({"role": "System", "content": "x", "foo": 1}, {"role": "system", "content": "x"}),
        ({"role": "system", "content": "x", "name": "n"}, {"role": "system", "content": "x", "name": "n"}),
        ({"role": "developer", "content": "x"}, {"role": "developer", "content": "x"}),
        ({"role": "assistant"}, {"role": "assistant", "content": ""}),
        (
            {"reasoning_content": "r", "tool_calls": [], "content": None, "role": "assistant"},
            {"role": "assistant", "content": "", "reasoning_content": "r", "tool_calls": []},
        ),
        ({"role": "assistant", "content": "x", "reasoning": "r"}, {"role": "assistant", "content": "x"}),
        (
            {"name": "f", "content": "22", "tool_call_id": "c", "role": "tool"},
            {"role": "tool", "content": "22", "tool_call_id": "c", "name": "f"},
        ),
    ],
)
def test_fields_are_those_of_the_request_model_in_its_order(message: dict[str, Any], seen: dict[str, Any]) -> None:
    assert conversation(message) == shown(seen, after="")


def test_arguments_of_calls_are_decoded_and_absent_keys_written_out() -> None:
    call = {"type": "function", "function": {"arguments": '{"a": "é"}', "name": "f"}, "id": "c", "foo": 1}
    seen = {"id": "c", "index": None, "type": "function", "function": {"name": "f", "arguments": {"a": "é"}}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    assert conversation(message) == shown({"role": "assistant", "content": "", "tool_calls": [seen]}, after="")


@pytest.mark.parametrize("arguments", ["", "{", "[1]", "1", '{"a": NaN}'])
def test_arguments_that_are_no_object_are_refused(arguments: str) -> None:
    """vLLM renders them as an empty object; SGLang answers 400."""
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
    with pytest.raises(TemplateError):
        conversation({"role": "assistant", "content": "", "tool_calls": [call]})


def test_parts_are_joined_by_a_blank_for_templates_that_take_texts() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b", "cache_control": {"type": "ephemeral"}}]
    assert conversation({"role": "user", "content": parts}) == shown({"role": "user", "content": "a b"}, after="")
    thought = [{"type": "thinking", "thinking": "t"}, {"type": "text", "text": "x"}]
    seen = shown({"role": "assistant", "content": "x"}, after="")
    assert conversation({"role": "assistant", "content": thought}) == seen


def test_parts_are_kept_bare_for_templates_that_take_them() -> None:
    parts = [{"text": "a", "type": "text", "cache_control": {"type": "ephemeral"}}]
    seen = {"role": "user", "content": [{"type": "text", "text": "a"}]}
    assert conversation({"role": "user", "content": parts}, source=SHOWN_PARTS) == shown(seen, after="")
    result = {"role": "tool", "tool_call_id": "c", "content": [*parts, {"type": "text", "text": "b"}]}
    seen = {"role": "tool", "content": "a b", "tool_call_id": "c"}
    assert conversation(result, source=SHOWN_PARTS) == shown(seen, after="")


@pytest.mark.parametrize(
    ("source", "takes_parts"),
    [
        ("{{ messages[0].content }}", False),
        ("{# an image #}{{ messages[0].content }}", True),
        ("{% for message in messages %}{% for p in message['content'] %}{% endfor %}{% endfor %}", True),
        ("{% for m in messages %}{% for p in m.content | list %}{% endfor %}{% endfor %}", True),
        ("{% for turn in messages %}{% for p in turn.content %}{% endfor %}{% endfor %}", False),
        (
            "{% for m in messages %}{% generation %}{%for p in m.content%}{%endfor%}{% endgeneration %}{% endfor %}",
            True,
        ),
    ],
)
def test_which_templates_take_parts(source: str, takes_parts: bool) -> None:
    """Found out otherwise than in vLLM, which takes the second for texts and the fifth for parts."""
    shown_type = source + "{{ messages[0].content is string }}"
    content = [{"type": "text", "text": "x"}]
    assert rendered(shown_type, messages=[{"role": "user", "content": content}]).text.endswith(str(not takes_parts))


def test_a_last_word_of_the_assistant_is_the_users_or_begins_the_answer() -> None:
    messages = [HELLO, {"role": "assistant", "content": "The answer"}]
    assert rendered(messages=messages) == Rendered(shown(HELLO, {"role": "user", "content": "The answer"}))
    continued = rendered(messages=messages, continue_final_message=True, add_generation_prompt=False)
    assert continued == Rendered(shown(HELLO), tail="The answer")
    parts = {"role": "assistant", "content": [{"type": "text", "text": "x"}]}
    found = rendered(SHOWN_PARTS, messages=[HELLO, parts], continue_final_message=True)
    assert found == Rendered(shown(HELLO, parts)), "parts are left where they are"


def test_the_cue_is_always_there() -> None:
    assert rendered(add_generation_prompt=False).text.endswith(">")


def test_tools_keep_the_order_of_the_clients_keys() -> None:
    found = rendered(tools=[{"function": {"parameters": {"type": "object"}, "name": "f", "foo": 1}}])
    function = {"parameters": {"type": "object"}, "name": "f", "description": None}
    tool = {"type": "function", "function": function, "defer_loading": None}
    assert found.text == shown(HELLO, after=f"tools={json.dumps([tool])};>")


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        ("auto", ["f", "g"]),
        (None, ["f", "g"]),
        ("required", ["f", "g"]),
        ("none", None),
        ({"type": "function", "function": {"name": "g"}}, ["g"]),
        ({"type": "function", "function": {"name": "h"}}, None),
    ],
)
def test_the_choice_of_a_tool_decides_which_the_template_sees(choice: Any, names: list[str] | None) -> None:
    source = "{{ tools | map(attribute='function.name') | list | tojson if tools else 'null' }}"
    other = {"type": "function", "function": {"name": "g"}}
    assert rendered(source, tools=[TOOL, other], tool_choice=choice).text == json.dumps(names)


def test_a_template_that_fails_on_wrapped_tools_gets_them_bare() -> None:
    source = "{% for tool in tools %}{{ tool.name + ': ' + tool.description }}{% endfor %}"
    assert rendered(source, tools=[TOOL]).text == "f: d"
    with pytest.raises(TemplateError):
        rendered("{{ tools[0].nothing.at_all }}", tools=[TOOL])


def test_types_of_other_schema_languages_are_rewritten_by_the_engine_and_not_told() -> None:
    parameters: dict[str, Any] = {"type": "object", "properties": {"a": {"type": ["string", "null"], "enum": ["int"]}}}
    assert rendered(tools=[{"type": "function", "function": {**FUNCTION, "parameters": parameters}}])
    parameters["properties"]["a"] = {"type": "varchar"}
    with pytest.raises(TemplateError):
        rendered(tools=[{"type": "function", "function": {**FUNCTION, "parameters": parameters}}])


@pytest.mark.parametrize(
    ("body", "seen"),
    [
        ({}, ""),
        ({"reasoning_effort": "low"}, "thinking=True;enable_thinking=True;effort=low;"),
        ({"reasoning_effort": "none"}, "thinking=False;enable_thinking=False;effort=none;"),
        ({"reasoning_effort": 0.5}, "thinking=True;enable_thinking=True;effort=0.5;"),
        ({"reasoning": {"effort": "high"}}, "thinking=True;enable_thinking=True;effort=high;"),
        ({"reasoning": {"enabled": True}}, "thinking=True;enable_thinking=True;"),
        ({"reasoning": {"enabled": False}}, ""),
        (
            {"reasoning_effort": "low", "chat_template_kwargs": {"enable_thinking": False, "reasoning_effort": "high"}},
            "thinking=True;enable_thinking=False;effort=high;",
        ),
        ({"chat_template_kwargs": {"thinking": True}}, "thinking=True;"),
    ],
)
def test_an_effort_sets_thinking_under_both_names_unless_the_client_does(body: dict[str, Any], seen: str) -> None:
    assert rendered(**body).text == shown(HELLO, after=seen + ">")


def test_an_effort_that_there_is_not_is_refused() -> None:
    with pytest.raises(TemplateError):
        rendered(reasoning_effort="enormous")


def test_documents_do_not_reach_the_template() -> None:
    assert rendered("{{ documents is none }}", documents=[{"title": "x"}]).text == "True"


@pytest.mark.parametrize(
    "message",
    [
        {"role": "critic", "content": "x"},
        {"role": "user", "content": [{"type": "file"}]},
        {"role": "user", "content": ["x"]},
        {"role": "assistant", "content": "x", "tool_calls": 5},
        {"role": "assistant", "content": "x", "tool_calls": [{"function": "f"}]},
        {"role": "system", "content": "x", "tools": ["f"]},
    ],
)
def test_what_the_engine_refuses_is_a_template_error(message: dict[str, Any]) -> None:
    with pytest.raises(TemplateError):
        conversation(message)


def test_of_other_endpoints_only_a_plain_question_is_told() -> None:
    """How answers, calls and thoughts of a responses or messages body are put together differs from vLLM's way."""
    asked = rendered(endpoint=Endpoint.RESPONSES, input="Hello", instructions="Be kind.")
    assert asked.text == shown({"role": "system", "content": "Be kind."}, HELLO)
    for endpoint, body in (
        (Endpoint.RESPONSES, {"input": [HELLO, {"role": "assistant", "content": "x"}, HELLO]}),
        (Endpoint.RESPONSES, {"input": "Hello", "reasoning": {"effort": "low"}}),
        (Endpoint.MESSAGES, {"messages": [HELLO], "system": [{"type": "text", "text": "a"}]}),
    ):
        with pytest.raises(TemplateError):
            rendered(endpoint=endpoint, **body)


def test_which_of_several_templates_each_engine_takes() -> None:
    chat = ChatContent([HELLO], tools=[TOOL])
    names = ["default", "tool_use"]
    assert template_name(chat, names, Dialect.VLLM) == "tool_use"
    assert template_name(ChatContent([HELLO]), names, Dialect.VLLM) == "default"
    assert template_name(chat, names, Dialect.SGLANG) == "default"
    assert template_name(chat, ["rag", "tool_use"], Dialect.SGLANG) == "rag"
