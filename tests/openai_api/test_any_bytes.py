"""Whatever a client sends, the parser answers, soon."""

import json
import time
from array import array
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from warmroute.openai_api import ChatContent, Endpoint, Prompt, TextContent, TokenContent, parse_prompt

ENDPOINTS = st.sampled_from(Endpoint)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
KEYS = (
    "role content type text thinking reasoning status id call_id output summary name arguments function tool_calls "
    "input source tool_use_id parameters input_schema strict effort"
)
WORDS = (
    "user assistant system tool developer text image image_url tool_use tool_result thinking message reasoning "
    "function function_call function_call_output disabled incomplete"
)
OPTIONS = (
    "model stream cache_salt max_tokens instructions documents thinking reasoning reasoning_effort output_config "
    "chat_template_kwargs add_generation_prompt metadata conversation session_id features image_data "
    "kv_transfer_params tool_choice sampling_params"
)
ANY_JSON = st.recursive(
    SCALARS | st.sampled_from(WORDS.split(" ")),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(KEYS.split(" ")) | st.text(max_size=3), inner, max_size=5)
    ),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from(KEYS.split(" ")), ANY_JSON, max_size=5)


def mostly(value: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Near enough to what is expected to get past the first check, and now and then something else."""
    return st.one_of(value, value, value, ANY_JSON)


PARTS = st.lists(
    mostly(
        st.fixed_dictionaries(
            {"type": mostly(st.sampled_from(WORDS.split(" ")))},
            optional={"text": ANY_JSON, "content": ANY_JSON, "input": ANY_JSON, "thinking": ANY_JSON, "id": ANY_JSON},
        )
    ),
    max_size=3,
)
MESSAGES = st.lists(
    mostly(
        st.fixed_dictionaries(
            {"role": mostly(st.sampled_from(WORDS.split(" ")))},
            optional={
                "content": mostly(st.text(max_size=5) | PARTS),
                "type": mostly(st.sampled_from(WORDS.split(" "))),
                "tool_calls": mostly(st.lists(OBJECTS, max_size=2)),
                "status": ANY_JSON,
                "output": ANY_JSON,
                "summary": mostly(PARTS),
            },
        )
    ),
    max_size=4,
)
BODIES = st.fixed_dictionaries(
    {
        "messages": mostly(MESSAGES),
        "input": mostly(MESSAGES),
        "prompt": ANY_JSON,
        "text": ANY_JSON,
        "input_ids": ANY_JSON,
        "token_ids": mostly(st.lists(st.integers(-1, 2**32), max_size=3)),
    },
    optional={
        "tools": mostly(st.lists(OBJECTS, max_size=2)),
        "system": mostly(PARTS),
        **dict.fromkeys(OPTIONS.split(" "), ANY_JSON),
    },
)


def check(prompt: Prompt, endpoint: Endpoint) -> None:
    """What every Prompt holds to, so that nothing behind the parser has to look again."""
    assert prompt.endpoint is endpoint
    assert prompt.model is None or isinstance(prompt.model, str)
    assert isinstance(prompt.stream, bool)
    assert prompt.max_tokens is None or type(prompt.max_tokens) is int
    assert prompt.namespace.salt is None or prompt.namespace.salt
    assert not (prompt.problem and prompt.contents)
    assert (prompt.untold is None) is prompt.exact
    assert prompt.contents or prompt.untold is not None
    assert prompt.session is None or 0 < len(prompt.session) <= 256
    for content in prompt.contents:
        if isinstance(content, TextContent):
            assert isinstance(content.text, str)
        elif isinstance(content, TokenContent):
            assert isinstance(content.token_ids, array)
            assert content.token_ids.itemsize == 4
        else:
            check_chat(content)


def check_chat(chat: ChatContent) -> None:
    assert all(isinstance(message, dict) for message in chat.messages)
    assert all(isinstance(tool, dict) for tool in chat.tools or [])
    assert isinstance(chat.template_options, dict)


@given(ENDPOINTS, st.binary(max_size=200))
def test_any_bytes(endpoint: Endpoint, body: bytes) -> None:
    check(parse_prompt(endpoint, body), endpoint)


@given(ENDPOINTS, ANY_JSON | BODIES)
@example(Endpoint.EMBEDDINGS, {"messages": [{"role": "user"}], "input_ids": [1]})
@example(Endpoint.EMBEDDINGS, {"messages": [{"role": "user"}], "kv_transfer_params": {"prompt_token_ids": [1]}})
def test_any_json(endpoint: Endpoint, body: Any) -> None:
    check(parse_prompt(endpoint, json.dumps(body).encode()), endpoint)


@given(ENDPOINTS, BODIES, st.data())
def test_any_damage_to_json(endpoint: Endpoint, body: Any, data: st.DataObject) -> None:
    text = json.dumps(body, ensure_ascii=data.draw(st.booleans())).encode("utf-8", "surrogatepass")
    cut = data.draw(st.integers(0, len(text)))
    check(parse_prompt(endpoint, text[:cut] + data.draw(st.binary(max_size=3)) + text[cut:]), endpoint)


def test_large_bodies_are_read_in_bounded_time() -> None:
    bodies = [
        b'{"prompt": "' + b"a" * 5_000_000 + b'"}',
        b'{"prompt": [' + b"1," * 1_000_000 + b"1]}",
        b'{"messages": [' + b'{"role": "user", "content": "x"},' * 50_000 + b'{"role": "user", "content": "x"}]}',
        b'{"prompt": "' + rb"\ud800" * 200_000 + b'"}',
        b"{" + b'"a": NaN,' * 200_000 + b'"b": 1}',
    ]
    for body in bodies:
        for endpoint in Endpoint:
            start = time.perf_counter()
            check(parse_prompt(endpoint, body), endpoint)
            # 5 MB take about 0.1 s; the bound is there for anything worse than linear.
            assert time.perf_counter() - start < 5
