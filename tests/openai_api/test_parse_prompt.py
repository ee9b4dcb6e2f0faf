"""What is read from the bodies of each endpoint."""

import json
from array import array
from typing import Any

import pytest

from warmroute.block import Namespace
from warmroute.openai_api import ChatContent, Endpoint, Prompt, TextContent, TokenContent, Untold, parse_prompt

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


def ids(*token_ids: int) -> TokenContent:
    return TokenContent(array("I", token_ids))


def test_five_spellings_are_five_contents() -> None:
    prompts: list[Any] = [[1, 2, 3], [[1, 2], [3]], ["a", "b"], "1,2,3", "a b"]
    contents = [parse(Endpoint.COMPLETIONS, prompt=prompt).contents for prompt in prompts]
    assert contents == [
        (ids(1, 2, 3),),
        (ids(1, 2), ids(3)),
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
    assert (prompt.exact, prompt.untold) == (False, Untold.UNREADABLE)


@pytest.mark.parametrize(
    ("endpoint", "body"),
    [
        (Endpoint.COMPLETIONS, {"prompt": 5}),
        (Endpoint.COMPLETIONS, {"prompt": [1, "a"]}),
        (Endpoint.COMPLETIONS, {"prompt": ["a", 1]}),
        (Endpoint.COMPLETIONS, {"prompt": [1, -1]}),
        (Endpoint.COMPLETIONS, {"prompt": [1, 2**32]}),
        (Endpoint.COMPLETIONS, {"prompt": [1, None]}),
        (Endpoint.GENERATE, {}),
        (Endpoint.GENERATE, {"text": 5}),
        (Endpoint.GENERATE, {"input_ids": [[1], "a", 2]}),
        (Endpoint.TOKENS, {"token_ids": "a"}),
        (Endpoint.TOKENS, {"token_ids": ["a"]}),
        (Endpoint.TOKENS, {"token_ids": [1], "features": {"mm_placeholders": {"image": [{"offset": -1}]}}}),
        (Endpoint.MESSAGES, {"messages": [{"role": "system", "content": [{"type": "tool_addition"}]}]}),
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
    assert prompt.untold is Untold.UNREADABLE


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
            tool_choice="required",
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
        client_options={"a": 1},
        effort="none",
        tool_choice="required",
    )


@pytest.mark.parametrize("messages", [[HELLO, IMAGE, HELLO], [IMAGE, HELLO]])
def test_a_conversation_with_an_image_is_read_and_not_told_exactly(messages: list[Any]) -> None:
    prompt = parse(Endpoint.CHAT, model="m", messages=messages)
    assert chat_of(prompt).messages == messages
    assert (prompt.exact, prompt.untold, prompt.problem) == (False, Untold.MULTIMODAL, None)


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": "u"}},
        {"type": "input_image", "image_url": "u"},
        {"type": "image_url", "uuid": "sku-1"},
        {"image_url": "u"},
        {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
        {"type": "video_url", "video_url": {"url": "u"}},
        {"type": "prompt_embeds", "data": "AAAA"},
    ],
)
def test_what_becomes_tokens_of_its_own_making_is_multimodal(part: dict[str, Any]) -> None:
    messages = [{"role": "user", "content": [{"type": "text", "text": "What?"}, part]}]
    assert parse(Endpoint.CHAT, messages=messages).untold is Untold.MULTIMODAL


def test_a_part_of_an_unknown_kind_is_named_as_that() -> None:
    messages = [{"role": "user", "content": [{"type": "file", "file": {"file_id": "f"}}]}]
    assert parse(Endpoint.CHAT, messages=messages).untold is Untold.UNKNOWN_PART


@pytest.mark.parametrize(
    ("endpoint", "body", "untold"),
    [
        (Endpoint.COMPLETIONS, {"prompt": "x", "prompt_embeds": "AAAA"}, Untold.EMBEDDINGS),
        (Endpoint.COMPLETIONS, {"prompt": "x", "truncate_prompt_tokens": 3}, Untold.TRUNCATED),
        (Endpoint.COMPLETIONS, {"prompt": "x", "suffix": "y"}, Untold.UNKNOWN_PART),
        (Endpoint.COMPLETIONS, {"prompt": []}, Untold.NO_PROMPT),
        (Endpoint.CHAT, {"messages": [HELLO], "truncate_prompt_tokens": 3}, Untold.TRUNCATED),
        (Endpoint.EMBEDDINGS, {"input": "x", "truncate_prompt_tokens": 3}, Untold.TRUNCATED),
        (Endpoint.EMBEDDINGS, {"input": [{"text": "x", "image": "u"}]}, Untold.MULTIMODAL),
        (Endpoint.RESPONSES, {"input": "x", "previous_response_id": "resp_1"}, Untold.KEPT_STATE),
        (Endpoint.RESPONSES, {"input": "x", "conversation": "conv_1"}, Untold.KEPT_STATE),
        (Endpoint.RESPONSES, {"input": "x", "prompt": {"id": "pmpt_1"}}, Untold.KEPT_STATE),
        (Endpoint.GENERATE, {"text": "x", "session_params": {"id": "s"}}, Untold.KEPT_STATE),
        (Endpoint.GENERATE, {"input_embeds": [[0.5]]}, Untold.EMBEDDINGS),
        (Endpoint.GENERATE, {"text": "<image>", "image_data": "u"}, Untold.MULTIMODAL),
        (Endpoint.TOKENS, {"token_ids": [1], "content_parts": [{"type": "image_url"}]}, Untold.MULTIMODAL),
        (Endpoint.OTHER, {"input": "x"}, Untold.NO_PROMPT),
    ],
)
def test_what_only_the_engine_knows_is_not_guessed(endpoint: Endpoint, body: dict[str, Any], untold: Untold) -> None:
    prompt = parse(endpoint, **body)
    assert (prompt.contents, prompt.exact, prompt.problem, prompt.untold) == ((), False, None, untold)


def test_a_cut_to_the_models_context_is_none() -> None:
    """What is longer would be refused without it, so that a prompt which is served is not cut."""
    assert parse(Endpoint.CHAT, messages=[HELLO], truncate_prompt_tokens=-1).exact


def test_ids_in_place_of_messages() -> None:
    """SGLang takes them as `input_ids`; vLLM's decode stage gets them from the prefill stage."""
    for fields in ({"input_ids": [1, 2]}, {"kv_transfer_params": {"prompt_token_ids": [1, 2]}}):
        assert parse(Endpoint.CHAT, messages=[HELLO], **fields).contents == (ids(1, 2),)
        assert chat_of(parse(Endpoint.CHAT, messages=[IMAGE], **fields))


def test_texts_and_ids_for_sglang() -> None:
    assert parse(Endpoint.GENERATE, text="x").contents == (TextContent("x"),)
    assert parse(Endpoint.GENERATE, text=["x", "y"]).contents == (TextContent("x"), TextContent("y"))
    assert parse(Endpoint.GENERATE, input_ids=[1, 2]).contents == (ids(1, 2),)
    prompt = parse(Endpoint.GENERATE, input_ids=[[1], [2, 3]], sampling_params={"max_new_tokens": 7}, stream=True)
    assert prompt.contents == (ids(1), ids(2, 3))
    assert (prompt.max_tokens, prompt.stream, prompt.exact) == (7, True, True)


def test_ids_for_vllm_count_up_to_the_first_image() -> None:
    prompt = parse(Endpoint.TOKENS, token_ids=[1, 2, 3], sampling_params={"max_tokens": 5}, features=None)
    assert (prompt.contents, prompt.exact, prompt.max_tokens) == ((ids(1, 2, 3),), True, 5)
    places = {"image": [{"offset": 2, "length": 1}], "audio": [{"offset": 1, "length": 1}]}
    prompt = parse(Endpoint.TOKENS, token_ids=[1, 2, 3], features={"mm_hashes": {}, "mm_placeholders": places})
    assert (prompt.contents, prompt.untold) == ((ids(1),), Untold.MULTIMODAL)


@pytest.mark.parametrize("value", ["x", ["x", "y"], [1, 2], [[1], [2]], []])
def test_embeddings_take_what_completions_take(value: Any) -> None:
    embeddings = parse(Endpoint.EMBEDDINGS, input=value)
    assert embeddings.contents == parse(Endpoint.COMPLETIONS, prompt=value).contents
    assert embeddings.problem is None


def test_embeddings_of_a_conversation_have_no_cue_to_answer() -> None:
    assert chat_of(parse(Endpoint.EMBEDDINGS, messages=[HELLO])).add_generation_prompt is False
    assert chat_of(parse(Endpoint.EMBEDDINGS, messages=[HELLO], add_generation_prompt=True)).add_generation_prompt


def test_embeddings_of_conversations_in_their_places() -> None:
    one = parse(Endpoint.EMBEDDINGS, messages=[HELLO], tools=[{"function": {"name": "f"}}])
    assert chat_of(one).tools is None
    assert parse(Endpoint.EMBEDDINGS, input=[HELLO]).contents == one.contents
    assert parse(Endpoint.EMBEDDINGS, input=[[HELLO], [HELLO]]).contents == one.contents * 2
    assert parse(Endpoint.EMBEDDINGS, messages=[[HELLO], [IMAGE]]).untold is Untold.MULTIMODAL


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


def test_an_image_in_a_result_of_a_tool_is_a_turn_of_its_own() -> None:
    result = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "image", "source": {}}]}
    prompt = parse(Endpoint.MESSAGES, messages=[HELLO, {"role": "user", "content": [result]}])
    assert [message["role"] for message in chat_of(prompt).messages] == ["user", "tool", "user"]
    assert prompt.untold is Untold.MULTIMODAL


def test_the_clients_own_objects_are_not_written_to() -> None:
    """Items of one turn are joined, in objects of ours: two prompts may be read from the same body."""
    body = json.dumps(
        {
            "input": [
                {"role": "assistant", "content": []},
                {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
            ]
        }
    ).encode()
    assert parse_prompt(Endpoint.RESPONSES, body) == parse_prompt(Endpoint.RESPONSES, body)


def test_other_endpoints_give_their_model_and_nothing_else() -> None:
    prompt = parse(Endpoint.OTHER, model="m", input="x")
    assert (prompt.model, prompt.contents, prompt.exact) == ("m", (), False)
    nothing = Prompt(Endpoint.OTHER, exact=False, untold=Untold.NO_PROMPT)
    assert parse_prompt(Endpoint.OTHER, b"--boundary\r\n") == nothing
