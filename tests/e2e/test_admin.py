"""The router's own pages."""

from collections.abc import AsyncIterator

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from e2e.processes import Running, engine, router, until, until_ready
from warmroute.worker import WorkerId, default_name

_COMPLETION = {"model": "warmroute-tiny", "prompt": list(range(20, 120)), "max_tokens": 2}


@pytest.fixture
async def workers() -> AsyncIterator[tuple[Running, Running]]:
    async with engine() as first, engine() as second:
        yield first, second


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as made:
        yield made


async def test_workers_come_and_go(workers: tuple[Running, Running], session: aiohttp.ClientSession) -> None:
    first, second = workers
    async with router([first.url]) as gate:
        await until_ready(gate.admin_url, 1)
        pages = f"{gate.admin_url}/warmroute/workers"
        async with session.post(pages, json={"url": second.url}) as response:
            assert response.status == 201
        async with session.post(pages, json={"url": second.url}) as response:
            assert response.status == 400
        async with session.post(pages, json={"url": second.url, "blok_size": 3}) as response:
            assert "did you mean 'block_size'" in (await response.json())["error"]["message"]
        await until_ready(gate.admin_url, 2)
        async with session.delete(pages, params={"url": first.url}) as response:
            assert response.status == 200
        async with session.delete(pages, params={"url": first.url}) as response:
            assert response.status == 404
        for _ in range(4):
            async with session.post(f"{gate.url}/v1/completions", json=_COMPLETION) as response:
                assert response.headers["x-warmroute-worker"] == default_name(WorkerId(second.url))
        async with session.get(f"{gate.admin_url}/metrics") as response:
            assert first.url not in await response.text()


async def test_what_no_page_can_use_is_answered_and_changes_nothing(session: aiohttp.ClientSession) -> None:
    async with router([]) as gate:
        pages = f"{gate.admin_url}/warmroute/workers"
        bad_url, huge = '{"url": "http://[::1"}', f'{{"url": "http://127.0.0.1:9", "capacity_blocks": {10**30}}}'
        for body in ("[" * 100_000, bad_url, huge):
            async with session.post(pages, data=body.encode()) as response:
                assert (response.status, (await response.json())["error"]["code"]) == (400, "invalid_worker")
        for body in ("[" * 100_000, bad_url):
            async with session.delete(pages, data=body) as response:
                assert response.status == 400
        async with session.post(f"{gate.admin_url}/warmroute/explain", data=b"[" * 100_000) as response:
            assert response.status == 400
        async with session.get(pages) as response:
            assert (await response.json())["workers"] == []
        async with session.put(f"{gate.url}/health") as response:
            assert (response.status, response.headers["allow"]) == (405, "GET")


async def test_explain_tells_what_would_happen_and_sends_nothing(
    workers: tuple[Running, Running], session: aiohttp.ClientSession
) -> None:
    urls = [worker.url for worker in workers]
    async with router(urls) as gate:
        await until_ready(gate.admin_url, 2)
        async with session.post(f"{gate.url}/v1/completions", json=_COMPLETION) as response:
            home = response.headers["x-warmroute-worker"]
        await until(gate.admin_url, "/warmroute/state", lambda state: state["index"]["blocks"] >= 6)
        async with session.post(f"{gate.admin_url}/warmroute/explain", json=_COMPLETION) as response:
            told = await response.json()
        assert default_name(told["worker"]) == home
        assert told["cached_tokens"] == 96
        assert default_name(told["workers"][0]["worker"]) == home
        assert {line["worker"] for line in told["workers"]} == set(urls)
        for line in told["workers"]:
            assert line["cost"] == pytest.approx(sum(line["terms"].values()))
        async with session.get(f"{gate.admin_url}/warmroute/state") as response:
            assert (await response.json())["requests_in_flight"] == 0


async def test_a_body_that_cannot_be_explained_is_refused_with_the_reason(
    workers: tuple[Running, Running], session: aiohttp.ClientSession
) -> None:
    async with router([workers[0].url]) as gate:
        await until_ready(gate.admin_url, 1)
        for body, reason in ((b"{not json", "no messages"), (b"", "no messages"), (b'{"messages": "x"}', "messages")):
            async with session.post(f"{gate.admin_url}/warmroute/explain", data=body) as response:
                assert response.status == 400, body
                assert reason in (await response.json())["error"]["message"]
        async with session.post(f"{gate.admin_url}/warmroute/explain?path=/v1/rerank", data=b"{}") as response:
            assert response.status == 200
            assert (await response.json())["because"].startswith("the prompt's tokens are not known")


async def test_without_a_tokenizer_a_worker_that_serves_the_model_is_asked(session: aiohttp.ClientSession) -> None:
    async with (
        engine("--served-model-name", "one") as first,
        engine("--served-model-name", "two") as second,
        router([first.url, second.url], tokenizer=None) as gate,
    ):
        await until_ready(gate.admin_url, 2)
        for model, home in (("one", first.url), ("two", second.url)):
            body = {"model": model, "messages": [{"role": "user", "content": "word " * 100}], "max_tokens": 2}
            for _ in range(2):
                async with session.post(f"{gate.url}/v1/chat/completions", json=body) as response:
                    assert response.headers["x-warmroute-worker"] == default_name(WorkerId(home))
            assert int(response.headers["x-warmroute-cached-tokens"]) > 50, model


async def test_models_are_merged_and_other_paths_reach_a_worker(
    workers: tuple[Running, Running], session: aiohttp.ClientSession
) -> None:
    async with router([worker.url for worker in workers]) as gate:
        await until_ready(gate.admin_url, 2)
        async with session.get(f"{gate.url}/v1/models") as response:
            models = (await response.json())["data"]
            assert [model["id"] for model in models] == ["warmroute-tiny"]
        async with session.post(f"{gate.url}/tokenize", json={"model": "warmroute-tiny", "prompt": "hi"}) as response:
            assert response.status == 200
            assert (await response.json())["count"] > 0
        async with session.get(f"{gate.url}/v1/no-such-page") as response:
            assert response.status == 404
            assert "x-warmroute-worker" in response.headers
        async with session.get(f"{gate.url}/elsewhere") as response:
            assert response.status == 404
            assert "x-warmroute-worker" not in response.headers


async def test_metrics_can_be_read_and_count(workers: tuple[Running, Running], session: aiohttp.ClientSession) -> None:
    async with router([worker.url for worker in workers]) as gate:
        await until_ready(gate.admin_url, 2)
        for _ in range(3):
            async with session.post(f"{gate.url}/v1/completions", json=_COMPLETION) as response:
                await response.read()
        async with session.get(f"{gate.admin_url}/metrics") as response:
            families = {f.name: f for f in text_string_to_metric_families(await response.text())}
        ended = families["warmroute_requests"].samples
        assert sum(s.value for s in ended if s.name.endswith("_total")) == 3
        results = {
            s.labels["result"]: s.value for s in families["warmroute_predictions"].samples if s.name.endswith("_total")
        }
        assert results == {"exact": 3}
        assert [s.value for s in families["warmroute_worker_ready"].samples] == [1.0, 1.0]
        assert [s.value for s in families["warmroute_kv_events_complete"].samples] == [1.0, 1.0]


async def test_without_a_tokenizer_the_engine_is_asked(
    workers: tuple[Running, Running], session: aiohttp.ClientSession
) -> None:
    chat = {"model": "warmroute-tiny", "messages": [{"role": "user", "content": "word " * 200}], "max_tokens": 2}
    async with router([worker.url for worker in workers], tokenizer=None) as gate:
        await until_ready(gate.admin_url, 2)
        homes, predicted, reported = set(), [], []
        for _ in range(4):
            async with session.post(f"{gate.url}/v1/chat/completions", json=chat) as response:
                answer = await response.json()
            homes.add(response.headers["x-warmroute-worker"])
            predicted.append(int(response.headers["x-warmroute-cached-tokens"]))
            reported.append(answer["usage"]["prompt_tokens_details"]["cached_tokens"])
        assert len(homes) == 1
        assert predicted == reported
        assert predicted[-1] > 100
