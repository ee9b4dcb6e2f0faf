"""Request bodies on which other routers failed: they refused them, wrote them anew, or did not find the prompt."""

import asyncio
import hashlib
import io
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from e2e.processes import engine, router, until_ready
from field_failures.engine import Engine
from warmroute.block import Namespace, hash_blocks
from warmroute.gateway.configuration import Configuration
from warmroute.gateway.options import ServeConfig
from warmroute.gateway.relay import RelayOptions
from warmroute.gateway.serve import Gateway, running_gateway
from warmroute.openai_api import Endpoint, parse_prompt
from warmroute.tokenizer import LocalTokenizer
from warmroute.worker import WorkerSpec

TINY = LocalTokenizer.load("warmroute-tiny")
JSON = {"content-type": "application/json"}
SPELLINGS: list[Any] = [[1, 2, 3], [[1, 2], [3]], ["a", "b"], "1,2,3", "a b"]
# No answer of a router or of an engine that a test plays takes a tenth of this; one that never comes fails the test.
SOON = aiohttp.ClientTimeout(total=15)


@dataclass
class Heard(Engine):
    """An engine that keeps the bytes it got, and answers each request with `status`; with `deaf` it breaks off."""

    status: int = 200
    deaf: bool = False
    bodies: list[bytes] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.Response:
        if request.method == "GET" or request.path == "/tokenize":
            # What the router asks on its own behalf.
            return await super().answer(request)
        # Not `read()`, which has a limit of its own.
        self.bodies.append(b"".join([chunk async for chunk in request.content.iter_any()]))
        if self.deaf:
            assert request.transport is not None
            request.transport.abort()
        return web.json_response({"ok": self.status < 400}, status=self.status)


@dataclass(frozen=True)
class Routed:
    """A router in front of engines that keep what they hear."""

    url: str
    engines: tuple[Heard, ...]
    session: aiohttp.ClientSession

    async def post(self, path: str, body: Any, headers: dict[str, str] = JSON) -> int:
        """Sends a body, bytes or pieces of them, and gives the status of the answer, which is read to its end."""
        async with self.session.post(self.url + path, data=body, headers=headers, timeout=SOON) as response:
            await response.read()
            return response.status

    @property
    def heard(self) -> list[bytes]:
        """Every body that came to an engine."""
        return [body for each in self.engines for body in each.bodies]


@asynccontextmanager
async def routed(*engines: Heard, limits: RelayOptions | None = None) -> AsyncIterator[Routed]:
    config = ServeConfig(
        port=0, probe_interval_s=0.05, grace_s=0.1, seed=1, state_file="", tokenizer=("warmroute-tiny",)
    )
    async with (
        _served(engines) as specs,
        running_gateway(Configuration(config, limits or RelayOptions(), specs=specs)) as gateway,
    ):
        await _until_ready(gateway, len(engines))
        async with aiohttp.ClientSession() as session:
            yield Routed(gateway.url, engines, session)


@asynccontextmanager
async def _served(engines: tuple[Heard, ...]) -> AsyncIterator[tuple[WorkerSpec, ...]]:
    first, *others = engines
    async with first.serve() as url:
        if not others:
            yield (WorkerSpec(url),)
            return
        async with _served(tuple(others)) as specs:
            yield (WorkerSpec(url), *specs)


async def _until_ready(gateway: Gateway, workers: int) -> None:
    async with asyncio.timeout(10):
        while sum(worker.status.value == "ready" for worker in gateway.router.table) < workers:
            await asyncio.sleep(0.01)


def blocks(prompt: Any, block_size: int = 1) -> tuple[int, ...]:
    """The hashes of the blocks of a completion's prompt, which are what the router knows it by."""
    body = json.dumps({"prompt": prompt, "add_special_tokens": False}).encode()
    ids = TINY.encode(parse_prompt(Endpoint.COMPLETIONS, body)).ids
    return tuple(hash_blocks(ids, block_size, Namespace()))


# --- prompts as token ids, and several in one body ---


def test_five_spellings_have_five_keys() -> None:
    """production-stack#1037 (33): token ids broke prefix routing, and a first mending made them equal to text."""
    assert len({blocks(prompt) for prompt in SPELLINGS}) == 5


def test_the_same_prompt_has_the_same_key_in_a_list_of_one() -> None:
    """production-stack#1037 (33): as ids and as text."""
    assert blocks([[1, 2, 3]]) == blocks([1, 2, 3])
    assert blocks(["a b"]) == blocks("a b")


@pytest.mark.parametrize("status", [200, 422])
async def test_ids_and_lists_reach_the_worker_which_decides_whether_they_are_valid(status: int) -> None:
    """sglang#35262, litellm#17118, llm-d-router#848 (34): routers answered 422 or 500 to what the worker takes."""
    async with routed(Heard(status=status)) as sent:
        bodies = [json.dumps({"model": "m", "prompt": prompt}).encode() for prompt in [*SPELLINGS, []]]
        assert [await sent.post("/v1/completions", body) for body in bodies] == [status] * 6
        assert sent.heard == bodies


# --- nothing is written anew ---

ARRAY_CONTENT = {
    "model": "m",
    "messages": [
        {"role": "user", "content": "x"},
        {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f"}}]},
        {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "x"}]},
    ],
}
NO_PARAMETERS = {
    "model": "m",
    "messages": [{"role": "user", "content": "x"}],
    "tools": [{"type": "function", "function": {"name": "ping"}}],
}
# Spaces, the order of keys, a key twice, escapes and numbers: all that writing JSON anew would change.
UNTIDY = (
    rb'{ "return_token_ids":true,"chat_template_kwargs" : {"z":1,"a":[]}, "stream_options":null, "model":"m",'
    rb' "big": 9007199254740993, "one":1.0, "e":"\u00e9", "raw":"' + "é".encode() + rb'", "f":1e2, "one":1.00,'
    rb' "messages":[{"content":"\u00e9","role":"user"}]} '
)
BODIES = {
    "vllm-project/router#107 (35): an array as content of a tool message arrived empty": json.dumps(
        ARRAY_CONTENT
    ).encode(),
    "vllm-project/router#275 (36): a tool without parameters was refused": json.dumps(NO_PARAMETERS).encode(),
    "vllm-project/router#161, sglang#8500, semantic-router#2128 (37): unknown fields were lost": UNTIDY,
    "vllm-project/router#2 (38): stream was taken out and its options left in": (
        b'{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"x"}]}'
    ),
    "gateway-api-inference-extension#790 (39): a chat body has no prompt": (
        b'{"model":"m","messages":[{"role":"user","content":"x"}]}'
    ),
}


@pytest.mark.parametrize("why", BODIES)
async def test_a_body_reaches_the_worker_byte_for_byte(why: str) -> None:
    async with routed(Heard()) as sent:
        assert await sent.post("/v1/chat/completions", BODIES[why]) == 200
        assert sent.heard == [BODIES[why]]


@pytest.mark.parametrize("why", BODIES)
async def test_also_when_another_worker_had_to_be_asked(why: str) -> None:
    """vllm-project/router#2 (38): a copy of the body was changed. Here nothing is, whichever way a request takes."""
    async with routed(Heard(deaf=True), Heard(deaf=True), Heard()) as sent:
        statuses = [await sent.post("/v1/chat/completions", BODIES[why]) for _ in range(3)]
        assert 200 in statuses
        assert set(sent.heard) == {BODIES[why]}
        assert len(sent.heard) > 3, "some were asked in vain"


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/responses", "/v1/messages", "/v1/embeddings", "/v1/anything"])
async def test_no_endpoint_writes_a_body_anew(path: str) -> None:
    """vllm-project/router#161, #2 (37, 38): on every path, whether the router reads its bodies or not."""
    async with routed(Heard()) as sent:
        assert await sent.post(path, UNTIDY) == 200
        assert sent.heard == [UNTIDY]


# --- the prompt is found ---


async def test_a_conversation_goes_where_it_was_prefilled() -> None:
    """production-stack#1045 (41): without the template of the engine no cache was ever found for a chat."""
    words = " ".join(f"word{number}" for number in range(2_500))
    body = {"model": "warmroute-tiny", "max_tokens": 1, "messages": [{"role": "user", "content": words}]}
    async with engine() as one, engine() as two, router([one.url, two.url]) as gate:
        await until_ready(gate.admin_url, 2)
        workers, cached = [], []
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30)) as session:
            for _ in range(4):
                async with session.post(f"{gate.url}/v1/chat/completions", json=body) as response:
                    answer = await response.json()
                workers.append(response.headers["x-warmroute-worker"])
                cached.append(int(response.headers["x-warmroute-cached-tokens"]))
        assert answer["usage"]["prompt_tokens"] > 5_000
        assert len(set(workers)) == 1
        assert cached[0] == 0
        assert min(cached[1:]) > 4_900


ODD_BODIES = [
    ("/v1/embeddings", b'{"model": "m", "input": "x"}'),
    ("/v1/embeddings", b'{"input": ["x", "y"]}'),
    ("/v1/chat/completions", b"{}"),
    ("/v1/chat/completions", b""),
    ("/v1/chat/completions", b"{broken"),
    ("/v1/completions", b"[1, 2]"),
    ("/v1/messages", b"null"),
    ("/v1/responses", b'"x"'),
    ("/v1/completions", b"\xff\xfe\x00"),
    ("/v1/chat/completions", b"[" * 100_000),
]


@pytest.mark.parametrize(("path", "body"), ODD_BODIES)
async def test_a_body_without_a_prompt_is_answered_soon(path: str, body: bytes) -> None:
    """ray#64326 (43): the router found no prompt and every request hung, while it said that it was healthy."""
    async with routed(Heard()) as sent:
        assert await sent.post(path, body) == 200
        assert sent.heard == [body], "by load alone, and the worker is the one to refuse it"


# --- characters of several bytes ---


def edges() -> Iterator[str]:
    """Texts whose odd character stands at every offset around the end of a block of bytes, tokens or characters."""
    for character in ("\u00d7", "Δ", "好", "😀", "é", "\u200d", "\x00"):
        for offset in range(20):
            yield "a" * offset + character + "b" * 20
            yield "word " * offset + character * 3


def test_characters_of_several_bytes_at_every_offset_have_stable_keys() -> None:
    """sglang#11766 (44): a cut in the middle of a character ended the router."""
    for text in edges():
        assert blocks(text, 16) == blocks(text, 16)
        longer = blocks(text + " and more" * 16, 16)
        head = blocks(text, 16)[:-1]
        assert longer[: len(head)] == head


@pytest.mark.parametrize("escaped", [rb"\ud83d", rb"\ud800", rb"a\udc00b", rb"\ud83d\ud83d", rb"\ud83d\ude00"])
async def test_half_of_a_surrogate_pair_ends_nothing(escaped: bytes) -> None:
    """sglang#11766 (44): in the prompt and in a stop string; what is next is served as before."""
    bodies = [
        b'{"model": "m", "prompt": "' + escaped + b'"}',
        b'{"model": "m", "prompt": "x", "stop": ["' + escaped + b'"]}',
        b'{"model": "m", "messages": [{"role": "user", "content": "' + escaped + b'"}]}',
    ]
    async with routed(Heard()) as sent:
        assert await sent.post("/v1/completions", bodies[0]) == 200
        assert await sent.post("/v1/completions", bodies[1]) == 200
        assert await sent.post("/v1/chat/completions", bodies[2]) == 200
        assert sent.heard == bodies


# --- large bodies ---

SIZES = [6_300, 31_000, 129_000, 1_100_000, 20_000_000]


def large(size: int) -> bytes:
    """A body of about `size` bytes, all of it the prompt."""
    return json.dumps({"model": "m", "prompt": "lorem ipsum " * (size // 12)}).encode()


async def pieces(body: bytes) -> AsyncIterator[bytes]:
    """A body without a length told before it: it is sent in chunks, of an odd size."""
    for begin in range(0, len(body), 99_991):
        yield body[begin : begin + 99_991]


@pytest.mark.parametrize("size", SIZES)
async def test_a_large_body_arrives_whole_with_a_length_and_in_chunks(size: int) -> None:
    """gateway-api-inference-extension#854, #2056, #2115, #2988 (45): beyond some size bodies failed or grew."""
    body = large(size)
    async with routed(Heard()) as sent:
        assert await sent.post("/v1/completions", io.BytesIO(body)) == 200
        assert await sent.post("/v1/completions", pieces(body)) == 200
        checksums = {hashlib.sha256(each).hexdigest() for each in sent.heard}
        assert (len(sent.heard), checksums) == (2, {hashlib.sha256(body).hexdigest()})


@pytest.mark.parametrize("size", SIZES)
async def test_beyond_the_limit_there_is_one_clean_refusal(size: int) -> None:
    """gateway-api-inference-extension#2988, headroom#3326 (45): the limit holds for chunked bodies as well."""
    body = large(size)
    async with routed(Heard(), limits=RelayOptions(max_body_bytes=6_000)) as sent:
        assert await sent.post("/v1/completions", io.BytesIO(body)) == 413
        assert await sent.post("/v1/completions", pieces(body)) == 413
        assert sent.heard == []
        assert await sent.post("/v1/completions", b'{"prompt": "x"}') == 200
