"""From prompts to blocks."""

import json
from array import array
from typing import Any

import pytest

from warmroute.block import Namespace, hash_blocks
from warmroute.errors import ConfigError
from warmroute.openai_api import ChatContent, TextContent, TokenContent
from warmroute.request_log import BlockedRequest, Blocking
from warmroute.request_log.prompt_text import prompt_bytes
from warmroute.request_log.request import BlockIds, BrokenLine, LoggedRequest, ToldPrompt
from warmroute.tokenizer import LocalTokenizer


def blocked(prompt: ToldPrompt | BlockIds, blocking: Blocking | None = None) -> BlockedRequest:
    return (blocking or Blocking()).blocked(LoggedRequest(0.0, prompt))


def shared(one: BlockedRequest, other: BlockedRequest) -> int:
    return next(
        (at for at, (a, b) in enumerate(zip(one.blocks, other.blocks, strict=False)) if a != b),
        min(len(one.blocks), len(other.blocks)),
    )


def test_token_ids_have_the_hashes_of_the_router() -> None:
    ids = list(range(40))
    request = blocked(ToldPrompt(TokenContent(ids), "m", "s"))
    assert list(request.blocks[:2]) == hash_blocks(ids, 16, Namespace("m", "s")).to_list()
    assert (len(request.blocks), request.full_blocks, request.prompt_tokens, request.estimated) == (3, 2, 40, False)


def test_a_text_is_four_bytes_a_token_and_equal_texts_are_equal() -> None:
    text = "0123456789abcdef" * 20
    one, two = blocked(ToldPrompt(TextContent(text))), blocked(ToldPrompt(TextContent(text + "and more")))
    assert (one.prompt_tokens, two.prompt_tokens, one.estimated) == (80, 82, True)
    assert one.full_blocks == shared(one, two) == 5
    assert one.blocks == blocked(ToldPrompt(TextContent(text, add_special_tokens=False))).blocks


@pytest.mark.parametrize(("bytes_per_token", "tokens"), [(2.0, 160), (3.5, 92), (4.0, 80), (8.0, 40)])
def test_other_sizes_of_tokens(bytes_per_token: float, tokens: int) -> None:
    request = blocked(ToldPrompt(TextContent("0123456789" * 32)), Blocking(16, bytes_per_token=bytes_per_token))
    assert request.prompt_tokens == tokens
    assert len(request.blocks) == -(-tokens // 16)


def test_models_and_salts_keep_prompts_apart() -> None:
    text = TextContent("a" * 1_000)
    one = blocked(ToldPrompt(text, "m"))
    assert shared(one, blocked(ToldPrompt(text, "m"))) == len(one.blocks)
    assert shared(one, blocked(ToldPrompt(text, "n"))) == 0
    assert shared(one, blocked(ToldPrompt(text, "m", "salt"))) == 0


def test_a_conversation_that_goes_on_begins_with_what_it_was() -> None:
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "s" * 500},
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
    ]
    call = {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}
    more = [*messages, call, {"role": "tool", "tool_call_id": "1", "content": "result"}]
    tools = [{"type": "function", "function": {"name": "f"}}]
    assert prompt_bytes(ChatContent(more, tools)).startswith(prompt_bytes(ChatContent(messages, tools)))
    assert b"result" in prompt_bytes(ChatContent(more))
    assert prompt_bytes(ChatContent(messages, tools)) != prompt_bytes(ChatContent(messages))


def test_an_image_counts_flat_and_its_text_is_nowhere() -> None:
    def of(url: str) -> bytes:
        parts = [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": url}}]
        return prompt_bytes(ChatContent([{"role": "user", "content": parts}]))

    small, large = of("data:image/png;base64,AAAA"), of("data:image/png;base64," + "B" * 1_000_000)
    assert len(small) == len(large) > 3_900
    assert small != large
    assert small == of("data:image/png;base64,AAAA")


def test_a_tokenizer_counts_and_renders() -> None:
    blocking = Blocking(16, LocalTokenizer.load("warmroute-tiny"))
    chat = ChatContent([{"role": "user", "content": "hello " * 40}])
    request = blocked(ToldPrompt(chat), blocking)
    assert not request.estimated
    assert request.prompt_tokens == len(LocalTokenizer.load("warmroute-tiny").tell(chat).ids)
    beginning = blocked(ToldPrompt(chat, whole=False), blocking)
    assert beginning.estimated
    assert beginning.prompt_tokens > request.full_blocks * 16
    assert list(beginning.blocks) == list(request.blocks[: request.full_blocks])


def test_a_conversation_that_cannot_be_rendered_is_broken() -> None:
    chat = ChatContent([{"role": "user", "content": "x"}], chat_template="{{ nothing }}")
    with pytest.raises(BrokenLine, match="template"):
        blocked(ToldPrompt(chat), Blocking(16, LocalTokenizer.load("warmroute-tiny")))


def test_names_of_blocks_stay_or_become_numbers() -> None:
    request = blocked(BlockIds([1, "1", 2**64, -1, 2**64 - 1], 4, 18))
    assert (request.blocks[0], request.blocks[4], request.block_tokens) == (1, 2**64 - 1, 4)
    assert len(set(request.blocks)) == 5
    assert request.full_blocks == 4


def test_an_empty_prompt_is_broken() -> None:
    with pytest.raises(BrokenLine, match="empty"):
        blocked(ToldPrompt(TokenContent(array("I"))))
    assert blocked(ToldPrompt(TextContent(""))).prompt_tokens == 1


def test_sizes_that_cannot_be() -> None:
    for block_tokens, bytes_per_token in ((0, 4.0), (1, 0.25)):
        with pytest.raises(ConfigError):
            Blocking(block_tokens, bytes_per_token=bytes_per_token)


def test_half_a_surrogate_pair_is_a_text() -> None:
    assert blocked(ToldPrompt(TextContent(json.loads('"\\ud800"')))).prompt_tokens == 1
