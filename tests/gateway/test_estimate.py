"""What a prompt that cannot be told is taken to weigh."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmroute.gateway.estimate import MOST_TOKENS, LengthEstimate, without_media
from warmroute.openai_api.prompt import MEDIA_TOKENS

_DATA = "A" * 100_000


def body(*parts: dict[str, object]) -> bytes:
    return json.dumps(
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "x" * 4000}, *parts]}]}
    ).encode()


@given(st.binary(max_size=2000))
def test_it_is_never_nothing_and_never_beyond_a_context(raw: bytes) -> None:
    assert 1 <= LengthEstimate().tokens(raw) <= MOST_TOKENS


def test_the_bytes_of_a_token_are_learned_from_what_was_told() -> None:
    estimate = LengthEstimate()
    assert estimate.tokens(b"x" * 4000) == 1000
    for _ in range(500):
        estimate.learn(2000, 1000)
    assert estimate.tokens(b"x" * 4000) == pytest.approx(2000, rel=0.01)
    estimate.learn(10**9, 64)
    estimate.learn(10, 1)
    assert estimate.tokens(b"x" * 4000) > 1500, "one odd body changes little, a tiny one nothing"


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{_DATA}"}},
        {"type": "input_audio", "input_audio": {"data": _DATA, "format": "wav"}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": _DATA}},
    ],
    ids=["data URL", "audio", "Anthropic's image"],
)
@pytest.mark.parametrize("compact", [False, True])
def test_an_image_weighs_the_same_whatever_its_bytes(part: dict[str, object], compact: bool) -> None:
    raw = body(part, part)
    if compact:
        raw = json.dumps(json.loads(raw), separators=(",", ":")).encode()
    text, media = without_media(raw)
    assert media == 2
    assert 4000 < text < 4600
    assert LengthEstimate().tokens(raw) == round(text / 4) + 2 * MEDIA_TOKENS


@pytest.mark.parametrize("tail", [b'";base64,' * 200_000, b'"data":"' * 200_000, b";base64," + b"x" * 10**6])
def test_bodies_made_to_be_slow_are_not(tail: bytes) -> None:
    assert 1 <= LengthEstimate().tokens(b"{" + tail) <= MOST_TOKENS
