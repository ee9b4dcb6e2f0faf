"""What is read from the bodies of each endpoint."""

import json
from typing import Any

import pytest

from warmroute.block import Namespace
from warmroute.openai_api import ChatContent, Endpoint, Prompt, TextContent, TokenContent, parse_prompt

READ = [endpoint for endpoint in Endpoint if endpoint is not Endpoint.OTHER]
HELLO = {"role": "user", "content": "Hello"}
IMAGE = {
    "role": "user",
    "content": [{"type": "text", "text": "What?"}, {"type": "image_url", "image_url": {"url": "u"}}],
}


def parse(endpoint: Endpoint, **body: Any) -> Prompt:
    return parse_prompt(endpoint, json.dumps(body).encode())


def chat_of(prompt: Prompt) -> ChatContent:
    (content,) = prompt.contents
    assert isinstance(content, ChatContent)
    return content


def test_five_spellings_are_five_contents() -> None:
    prompts: list[Any] = [[1, 2, 3], [[1, 2], [3]], ["a", "b"], "1,2,3", "a b"]
    contents = [parse(Endpoint.COMPLETIONS, prompt=prompt).contents for prompt in prompts]
    assert contents == [
        (TokenContent((1, 2, 3)),),
        (TokenContent((1, 2)), TokenContent((3,))),
        (TextContent("a"), TextContent("b")),
        (TextContent("1,2,3"),),
        (TextContent("a b"),),
    ]


def test_the_common_fields() -> None:
    prompt = parse(Endpoint.COMPLETIONS, model="m", prompt="x", stream=True, max_tokens=7, cache_salt="s")
    assert prompt == Prompt(
        Endpoint.COMPLETIONS, "m", True, (TextContent("x"),), 7, Namespace(adapter=None, salt="s"), True, None
    )


@pytest.mark.parametrize("endpoint", READ)
def test_salt_belongs_to_the_namespace_of_every_endpoint(endpoint: Endpoint) -> None:
    assert parse(endpoint, cache_salt="s").namespace == Namespace(salt="s")
    assert parse(endpoint, cache_salt="").namespace == Namespace()


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"max_tokens": 5}, 5),
        ({"max_tokens": 5, "max_completion_tokens": 6}, 6),
        ({"max_tokens": 5, "max_completion_tokens": None}, 5),
        ({"max_output_tokens": 8}, 8),
        ({"max_tokens": 16.0}, 16),
        ({"max_tokens": 0}, 0),
        ({"max_tokens": -1}, None),
        ({"max_tokens": True}, None),
        ({"max_tokens": "16"}, None),
        ({"max_tokens": 10**40}, None),
        ({"max_tokens": 1e308}, None),
        ({"max_tokens": float("nan")}, None),
        ({"max_tokens": float("inf")}, None),
        ({}, None),
    ],
)
def test_max_tokens_in_its_spellings(fields: dict[str, Any], expected: int | None) -> None:
    assert parse(Endpoint.CHAT, messages=[HELLO], **fields).max_tokens == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(True, True), ("true", True), (1, True), (False, False), (None, False), ("no", False), ([], False)],
)
def test_stream_is_read_as_leniently_as_the_engines_read_it(value: Any, expected: bool) -> None:
    assert parse(Endpoint.CHAT, messages=[HELLO], stream=value).stream is expected


@pytest.mark.parametrize("endpoint", READ)
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b"1",
        b'"x"',
        b"{",
        b'{"prompt": }',
        b"\xff\xfe",
        b"\x00",
        b"[" * 200_000,
        b'{"a":' * 200_000,
        b'{"model": ' + b"9" * 10_000 + b"}",
        b"prompt=x&model=y",
    ],
)
def test_an_unreadable_body_is_a_prompt_with_a_problem(endpoint: Endpoint, body: bytes) -> None:
    prompt = parse_prompt(endpoint, body)
    assert prompt.problem
    assert len(prompt.problem) < 300
    assert (prompt.endpoint, prompt.model, prompt.contents) == (endpoint, None, ())


@pytest.mark.parametrize(
    ("endpoint", "body"),
    [
        (Endpoint.COMPLETIONS, {"prompt": 5}),
        (Endpoint.COMPLETIONS, {"prompt": [1, "a"]}),
        (Endpoint.COMPLETIONS, {"prompt": ["a", 1]}),
        (Endpoint.COMPLETIONS, {"prompt": [1, -1]}),
        (Endpoint.COMPLETIONS, {"prompt": [1, 2**32]}),
        (Endpoint.COMPLETIONS, {"prompt": [1, True]}),
        (Endpoint.COMPLETIONS, {"prompt": [1.5]}),
        (Endpoint.COMPLETIONS, {"prompt": [[1], [None]]}),
        (Endpoint.COMPLETIONS, {"prompt": {"a": 1}}),
        (Endpoint.CHAT, {"messages": "Hello"}),
        (Endpoint.CHAT, {"messages": []}),
        (Endpoint.CHAT, {"messages": ["Hello"]}),
        (Endpoint.CHAT, {"messages": [{"role": "user", "content": 5}]}),
        (Endpoint.CHAT, {"messages": [{"role": "user", "content": [5]}]}),
        (Endpoint.CHAT, {"messages": [HELLO], "tools": {"a": 1}}),
        (Endpoint.CHAT, {"messages": [HELLO], "chat_template": 5}),
        (Endpoint.EMBEDDINGS, {"input": {"a": 1}}),
        (Endpoint.RESPONSES, {"input": []}),
        (Endpoint.RESPONSES, {"input": [{"type": "item_reference", "id": "x"}]}),
        (Endpoint.MESSAGES, {"messages": [{"content": "x"}]}),
        (Endpoint.MESSAGES, {"messages": [{"role": "user", "content": 5}]}),
        (Endpoint.MESSAGES, {"messages": [HELLO], "system": 5}),
    ],
)
def test_a_bad_prompt_still_has_its_model_and_stream(endpoint: Endpoint, body: dict[str, Any]) -> None:
    prompt = parse(endpoint, model="m", stream=True, **body)
    assert prompt.problem
    assert (prompt.model, prompt.stream, prompt.contents, prompt.exact) == ("m", True, (), False)


def test_python_json_that_is_no_json_is_read_as_the_engines_read_it() -> None:
    prompt = parse_prompt(Endpoint.COMPLETIONS, b'{"model": "m", "prompt": "a", "temperature": NaN, "x": 1e999}')
    assert (prompt.model, prompt.contents, prompt.problem) == ("m", (TextContent("a"),), None)


def test_half_a_surrogate_pair_does_not_hide_the_rest() -> None:
    prompt = parse_prompt(Endpoint.COMPLETIONS, rb'{"model": "m", "prompt": "a\ud800b", "stream": true}')
    assert (prompt.model, prompt.stream) == ("m", True)
    (content,) = prompt.contents
    assert isinstance(content, TextContent)
    assert content.text.encode() == b"a?b"


def test_text_inside_a_prompt_is_not_a_field() -> None:
    prompt = parse(Endpoint.COMPLETIONS, prompt='{"model": "other", "cache_salt": "x", "stream": true}')
    assert (prompt.model, prompt.stream, prompt.namespace) == (None, False, Namespace())


def test_unknown_fields_and_an_explicit_null_are_as_good_as_absent() -> None:
    prompt = parse(Endpoint.CHAT, messages=[HELLO], tools=None, documents=None, stream=None, cache_salt=None, foo=1)
    assert prompt.contents == parse(Endpoint.CHAT, messages=[HELLO]).contents
    assert prompt.problem is None


def test_chat_options_reach_the_content() -> None:
    chat = chat_of(
        parse(
            Endpoint.CHAT,
            messages=[HELLO],
            tools=[{"type": "function", "function": {"name": "ping"}}],
            documents=[{"title": "t"}],
            chat_template="tool_use",
            add_generation_prompt=False,
            continue_final_message=True,
            add_special_tokens=True,
            chat_template_kwargs={"a": 1},
            reasoning_effort="none",
        )
    )
    assert chat == ChatContent(
        messages=[HELLO],
        tools=[{"type": "function", "function": {"name": "ping"}}],
        documents=[{"title": "t"}],
        chat_template="tool_use",
        add_generation_prompt=False,
        continue_final_message=True,
        add_special_tokens=True,
        template_options={"a": 1, "enable_thinking": False, "reasoning_effort": "none"},
    )


def test_a_conversation_is_told_up_to_its_first_image() -> None:
    system = {"role": "system", "content": "Be kind."}
    prompt = parse(Endpoint.CHAT, messages=[system, HELLO, IMAGE, HELLO])
    chat = chat_of(prompt)
    assert (chat.messages, chat.add_generation_prompt, prompt.exact) == ([system, HELLO], False, False)
    assert prompt.problem is None


def test_a_conversation_that_begins_with_an_image_cannot_be_told() -> None:
    prompt = parse(Endpoint.CHAT, model="m", messages=[IMAGE, HELLO])
    assert (prompt.contents, prompt.exact, prompt.problem, prompt.model) == ((), False, None, "m")


@pytest.mark.parametrize(
    ("endpoint", "body"),
    [
        (Endpoint.COMPLETIONS, {"prompt": "x", "prompt_embeds": "AAAA"}),
        (Endpoint.COMPLETIONS, {"prompt": "x", "truncate_prompt_tokens": 3}),
        (Endpoint.CHAT, {"messages": [HELLO], "truncate_prompt_tokens": 3}),
        (Endpoint.EMBEDDINGS, {"input": "x", "truncate_prompt_tokens": 3}),
        (Endpoint.RESPONSES, {"input": "x", "previous_response_id": "resp_1"}),
        (Endpoint.RESPONSES, {"input": "x", "conversation": "conv_1"}),
    ],
)
def test_what_only_the_engine_knows_is_not_guessed(endpoint: Endpoint, body: dict[str, Any]) -> None:
    prompt = parse(endpoint, **body)
    assert (prompt.contents, prompt.exact, prompt.problem) == ((), False, None)


@pytest.mark.parametrize("value", ["x", ["x", "y"], [1, 2], [[1], [2]], []])
def test_embeddings_take_what_completions_take(value: Any) -> None:
    embeddings = parse(Endpoint.EMBEDDINGS, input=value)
    assert embeddings.contents == parse(Endpoint.COMPLETIONS, prompt=value).contents
    assert embeddings.problem is None


def test_embeddings_of_a_conversation_have_no_cue_to_answer() -> None:
    assert chat_of(parse(Endpoint.EMBEDDINGS, messages=[HELLO])).add_generation_prompt is False
    assert chat_of(parse(Endpoint.EMBEDDINGS, messages=[HELLO], add_generation_prompt=True)).add_generation_prompt


def test_an_unfinished_response_is_continued() -> None:
    items = [HELLO, {"type": "message", "role": "assistant", "status": "incomplete", "content": "The"}]
    chat = chat_of(parse(Endpoint.RESPONSES, input=items))
    assert (chat.continue_final_message, chat.add_generation_prompt) == (True, False)


def test_one_turn_of_the_assistant_may_span_several_items() -> None:
    items = [
        HELLO,
        {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "hm"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
        {"type": "function_call", "call_id": "b", "name": "g", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a", "output": "1"},
    ]
    messages = chat_of(parse(Endpoint.RESPONSES, input=items)).messages
    assert [message["role"] for message in messages] == ["user", "assistant", "tool"]
    assert (messages[1]["reasoning"], messages[1]["content"]) == ("hm", "I look.")
    assert [call["id"] for call in messages[1]["tool_calls"]] == ["a", "b"]


def test_an_image_in_a_result_of_a_tool_ends_what_can_be_told() -> None:
    result = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "image", "source": {}}]}
    prompt = parse(Endpoint.MESSAGES, messages=[HELLO, {"role": "user", "content": [result]}])
    assert [message["role"] for message in chat_of(prompt).messages] == ["user", "tool"]
    assert prompt.exact is False


def test_other_endpoints_give_their_model_and_nothing_else() -> None:
    prompt = parse(Endpoint.OTHER, model="m", input="x")
    assert (prompt.model, prompt.contents, prompt.exact) == ("m", (), False)
    assert parse_prompt(Endpoint.OTHER, b"--boundary\r\n") == Prompt(Endpoint.OTHER, exact=False)
