"""Whatever a client sends: what is behind the parser counts it, renders it and asks engines for it, or says why not."""

import json
from typing import Any

import pytest
from hypothesis import example, given, settings

from openai_api.test_any_bytes import ANY_JSON, BODIES, ENDPOINTS
from warmroute.errors import TemplateError
from warmroute.openai_api import Endpoint, parse_prompt
from warmroute.tokenizer import Dialect, LocalTokenizer, Original
from warmroute.tokenizer.engine_questions import questions
from warmroute.tokenizer.text_size import media_parts, text_size

TINY = LocalTokenizer.load("warmroute-tiny")
ODD_PART = {"messages": [{"role": "user", "content": [{"type": []}]}]}


@pytest.mark.parametrize("dialect", Dialect)
@settings(max_examples=300, deadline=None)
@given(endpoint=ENDPOINTS, body=ANY_JSON | BODIES)
@example(endpoint=Endpoint.CHAT, body=ODD_PART)
@example(endpoint=Endpoint.CHAT, body={"messages": [{"role": "user", "content": ["a", {"type": {}, "text": "x"}]}]})
@example(endpoint=Endpoint.EMBEDDINGS, body=ODD_PART)
def test_any_json(dialect: Dialect, endpoint: Endpoint, body: Any) -> None:
    raw = json.dumps(body).encode()
    prompt = parse_prompt(endpoint, raw)
    assert text_size(prompt.contents) >= 0
    assert media_parts(prompt.contents) >= 0
    assert all(question.body for question in questions(prompt, dialect, Original(raw)))
    try:
        tokens = TINY.encode(prompt, dialect)
    except TemplateError:
        return
    assert tokens.total >= len(tokens.ids)
