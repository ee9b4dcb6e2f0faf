"""How well a prompt was known, told to clients, on the pages and in the metrics, by routers and engines that run."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from prometheus_client.parser import text_string_to_metric_families

from e2e.processes import Running, engine, router, until, until_ready

MODEL = "warmroute-tiny"
SYSTEM = {"role": "system", "content": "You are terse. " * 40}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 4000}}


def chat(*messages: dict[str, object], **fields: object) -> dict[str, object]:
    return {"model": MODEL, "max_tokens": 2, "messages": [SYSTEM, *messages]} | fields


HELLO: dict[str, object] = {"role": "user", "content": "hello"}
PICTURE: dict[str, object] = {"role": "user", "content": [{"type": "text", "text": "what is it?"}, IMAGE]}


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as made:
        yield made


async def prompts(session: aiohttp.ClientSession, gate: Running) -> dict[tuple[str, str], float]:
    """The counter of prompts."""
    async with session.get(f"{gate.admin_url}/metrics") as response:
        families = {family.name: family for family in text_string_to_metric_families(await response.text())}
    return {(s.labels["match"], s.labels["reason"]): s.value for s in families["warmroute_prompts"].samples}


async def test_each_decision_says_how_well_it_knew_the_prompt(session: aiohttp.ClientSession) -> None:
    cases = [
        ("/v1/chat/completions", chat(HELLO), "exact", None),
        ("/v1/completions", {"model": MODEL, "prompt": "some words", "max_tokens": 2}, "exact", None),
        ("/v1/chat/completions", chat(PICTURE), "text-prefix", "multimodal"),
        ("/v1/chat/completions", chat(HELLO, chat_template="{{ messages }}"), "none", "client-template"),
        ("/v1/completions", {"model": MODEL, "prompt": 7}, "none", "unreadable"),
    ]
    async with engine() as worker, router([worker.url]) as gate:
        await until_ready(gate.admin_url, 1)
        for path, body, match, reason in cases:
            async with session.post(f"{gate.admin_url}/warmroute/explain?path={path}", json=body) as response:
                told = await response.json()
            if reason != "unreadable":
                assert (told["match"], told["reason"]) == (match, reason), path
                assert told["prompt_tokens"] > 0
            async with session.post(f"{gate.url}{path}", json=body) as response:
                assert response.headers["x-warmroute-match"] == match
        counted = {("exact", ""): 2.0} | {(match, reason): 1.0 for _, _, match, reason in cases if reason}
        assert await prompts(session, gate) == counted
        state = await until(
            gate.admin_url, "/warmroute/state", lambda page: page["tokenizers"] == {MODEL: "same-as-engine"}
        )
        assert {"match": "text-prefix", "reason": "multimodal", "count": 1} in state["prompts"]


async def test_a_template_of_a_client_is_rendered_where_that_is_trusted(session: aiohttp.ClientSession) -> None:
    async with engine() as worker, router([worker.url], "--trust-request-chat-template") as gate:
        await until_ready(gate.admin_url, 1)
        body = chat(HELLO, chat_template="{{ messages[0].content }}")
        async with session.post(f"{gate.admin_url}/warmroute/explain?path=/v1/chat/completions", json=body) as response:
            assert (await response.json())["match"] == "exact"


@asynccontextmanager
async def plain_worker() -> AsyncIterator[str]:
    """Serves one model without telling anything of itself, and counts 3,000 prompt tokens each time."""
    app = web.Application()
    models = {"data": [{"id": MODEL}]}
    usage = {"prompt_tokens": 3_000, "completion_tokens": 2}
    for path, answer in (("/health", {}), ("/v1/models", models), ("/v1/completions", {"usage": usage})):

        async def page(request: web.Request, answer: object = answer) -> web.Response:
            return web.json_response(answer)

        app.router.add_route("*", path, page)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def test_a_session_keeps_its_worker_where_tokens_are_not_told(session: aiohttp.ClientSession) -> None:
    async with plain_worker() as a, plain_worker() as b, router([a, b]) as gate:
        await until_ready(gate.admin_url, 2)
        homes: dict[str, set[str]] = {}
        for _ in range(4):
            for name in ("one", "two", "three"):
                body = {"model": MODEL, "prompt": name + " word" * 500, "max_tokens": 2, "truncate_prompt_tokens": 4000}
                headers = {"x-session-id": name}
                async with session.post(f"{gate.url}/v1/completions", json=body, headers=headers) as response:
                    assert (response.status, response.headers["x-warmroute-match"]) == (200, "none")
                    homes.setdefault(name, set()).add(response.headers["x-warmroute-worker"])
                    cached = int(response.headers["x-warmroute-cached-tokens"])
        assert all(len(found) == 1 for found in homes.values()), homes
        assert cached > 500
        assert await prompts(session, gate) == {("none", "truncated"): 12.0}


async def test_each_model_has_its_tokenizer_and_one_at_hand_is_taken_for_the_rest(
    session: aiohttp.ClientSession, tmp_path: Path
) -> None:
    async with (
        engine("--served-model-name", "named") as first,
        engine("--served-model-name", "found") as second,
        router([first.url, second.url], "--tokenizer", f"named={MODEL}", tokenizer=None) as gate,
    ):
        await until_ready(gate.admin_url, 2)
        standings = {"named": "same-as-engine", "found": "same-as-engine"}
        await until(gate.admin_url, "/warmroute/state", lambda page: page["tokenizers"] == standings)
        for model in ("named", "found"):
            async with session.post(f"{gate.url}/v1/chat/completions", json=chat(HELLO, model=model)) as response:
                assert response.headers["x-warmroute-match"] == "exact"
        async with session.post(f"{gate.url}/v1/chat/completions", json=chat(HELLO, model="unknown")) as response:
            assert response.status == 404
        assert await prompts(session, gate) == {("exact", ""): 2.0, ("none", "no-worker"): 1.0}


async def test_the_router_stops_while_prompts_wait_and_loses_none(session: aiohttp.ClientSession) -> None:
    import asyncio

    large = {"model": MODEL, "prompt": "some words to encode " * 40_000, "max_tokens": 1}
    raw = json.dumps(large)
    async with engine() as worker, router([worker.url], "--tokenizer-threads", "1") as gate:
        await until_ready(gate.admin_url, 1)

        async def ask() -> int:
            async with session.post(f"{gate.url}/v1/completions", data=raw) as response:
                await response.read()
                return response.status

        asked = [asyncio.ensure_future(ask()) for _ in range(8)]
        await until(gate.admin_url, "/warmroute/state", lambda page: page["requests_in_flight"] >= 0)
        await asyncio.sleep(0.1)
        gate.process.terminate()
        statuses = await asyncio.gather(*asked)
        assert len(statuses) == 8
        assert all(status < 500 for status in statuses), statuses
