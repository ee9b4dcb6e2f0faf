"""What a body names as its conversation."""

import json
from typing import Any

import pytest

from warmroute.openai_api import Endpoint, parse_prompt

UUID = "123e4567-e89b-12d3-a456-426614174000"
LEGACY = f"user_{'a1b2c3d4' * 8}_account__session_{UUID}"
OF_AN_ACCOUNT = f"user_{'a1b2c3d4' * 8}_account_{'0' * 36}_session_{UUID}"
NEWER = json.dumps({"device_id": "a1b2" * 16, "account_uuid": "", "session_id": UUID})


@pytest.mark.parametrize(
    ("fields", "session"),
    [
        ({}, None),
        ({"prompt_cache_key": "k"}, "k"),
        ({"session_id": "s", "prompt_cache_key": "k"}, "s"),
        ({"conversation": "conv_1"}, "conv_1"),
        ({"conversation": {"id": "conv_1"}}, "conv_1"),
        ({"session_params": {"id": "s", "rid": None}}, "s"),
        ({"metadata": {"session_id": "s"}}, "s"),
        ({"metadata": {"user_id": LEGACY}}, UUID),
        ({"metadata": {"user_id": OF_AN_ACCOUNT}}, UUID),
        ({"metadata": {"user_id": NEWER}}, UUID),
        ({"metadata": {"user_id": "bob"}}, None),
        ({"metadata": {"user_id": "{broken"}}, None),
        ({"metadata": {"user_id": "[1]"}}, None),
        ({"metadata": {"user_id": "{" * 900}}, None),
        ({"metadata": {"user_id": 5}}, None),
        ({"metadata": "m"}, None),
        ({"session_id": 5}, None),
        ({"session_id": ""}, None),
        ({"session_id": "s" * 256}, "s" * 256),
        ({"session_id": "s" * 257}, None),
        ({"user": "bob"}, None),
    ],
)
def test_a_session_is_what_the_body_names(fields: dict[str, Any], session: str | None) -> None:
    for endpoint in Endpoint:
        assert parse_prompt(endpoint, json.dumps(fields).encode()).session == session


def test_a_prompt_that_is_not_told_still_has_its_session() -> None:
    body = json.dumps({"input": "x", "previous_response_id": "r", "conversation": {"id": "c"}}).encode()
    prompt = parse_prompt(Endpoint.RESPONSES, body)
    assert (prompt.contents, prompt.session) == ((), "c")
