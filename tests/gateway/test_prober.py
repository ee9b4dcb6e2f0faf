"""What looks at a worker say of it: whether its process may be another, what it has room for."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp
import pytest
from aiohttp import web

from gateway.routed import BODY
from relay.served import working
from warmroute.gateway import prober as prober_module
from warmroute.gateway.configuration import Configuration
from warmroute.gateway.options import ServeConfig
from warmroute.gateway.prober import Discovery, Prober
from warmroute.gateway.serve import running_gateway
from warmroute.worker import Worker, WorkerSpec, WorkerStatus, WorkerTable


@dataclass
class Looked:
    """A worker whose pages a test writes, and what its prober tells."""

    pages: dict[str, str] = field(default_factory=lambda: {"/health": "", "/v1/models": '{"data": [{"id": "m"}]}'})
    status: int = 200
    came_up: list[Worker] = field(default_factory=list)
    found: list[Discovery] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.Response:
        text = self.pages.get(request.path)
        if text is None:
            return web.Response(status=404)
        return web.Response(status=self.status if request.path == "/health" else 200, text=text)

    @asynccontextmanager
    async def prober(self, table: WorkerTable) -> AsyncIterator[Prober]:
        async with working(self.answer) as url, aiohttp.ClientSession() as session:
            worker = table.add(WorkerSpec(url))
            yield Prober(worker, table, session, 60.0, lambda _, told: self.found.append(told), self.came_up.append)


async def looks(prober: Prober, count: int) -> None:
    for _ in range(count):
        await prober.look()


async def test_a_worker_that_is_not_ready_for_a_while_is_the_same_one() -> None:
    looked = Looked()
    async with looked.prober(WorkerTable()) as prober:
        await prober.look()
        assert len(looked.came_up) == 1, "it has never been seen before"
        looked.status = 503
        await looks(prober, 5)
        assert prober.worker.status is WorkerStatus.DOWN
        looked.status = 200
        await prober.look()
        assert [worker.status for worker in prober.table] == [WorkerStatus.READY]
        assert len(looked.came_up) == 1


async def test_one_that_refused_connections_may_be_another() -> None:
    looked = Looked()
    async with looked.prober(WorkerTable()) as prober:
        await prober.look()
        url = prober.worker.spec.url
        prober.worker.spec = WorkerSpec("http://127.0.0.1:9")
        await prober.look()
        assert prober.worker.status is WorkerStatus.DOWN
        prober.worker.spec = WorkerSpec(url)
        await prober.look()
        assert len(looked.came_up) == 2


async def test_one_that_was_away_for_longer_than_a_restart_takes_may_be_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked = Looked()
    async with looked.prober(WorkerTable()) as prober:
        await prober.look()
        looked.status = 503
        await looks(prober, 3)
        monkeypatch.setattr(prober_module, "_SHORTEST_HIDDEN_RESTART_S", 0.0)
        looked.status = 200
        await prober.look()
        assert len(looked.came_up) == 2


@pytest.mark.parametrize(("began", "times"), [("1.7e9", 1), ("1.70001e9", 2)])
async def test_where_the_process_tells_when_it_began_nothing_is_guessed(began: str, times: int) -> None:
    looked = Looked()
    looked.pages["/metrics"] = "process_start_time_seconds 1.7e9\n"
    async with looked.prober(WorkerTable()) as prober:
        await prober.look()
        url = prober.worker.spec.url
        prober.worker.spec = WorkerSpec("http://127.0.0.1:9")
        await prober.look()
        prober.worker.spec = WorkerSpec(url)
        looked.pages["/metrics"] = f"process_start_time_seconds {began}\n"
        await prober.look()
        assert len(looked.came_up) == times


@pytest.mark.parametrize(
    ("told", "limit"),
    [
        ('"max_running_requests": 48', 48),
        ('"max_running_requests": 48, "dp_size": 4, "enable_dp_attention": true', 12),
        ('"max_running_requests": 48, "internal_states": [{"effective_max_running_requests_per_dp": 7}]', 7),
        ('"max_running_requests": null', None),
        ('"max_running_requests": "many"', None),
    ],
)
async def test_what_sglang_says_of_its_limit(told: str, limit: int | None) -> None:
    looked = Looked()
    looked.pages["/server_info"] = f'{{"page_size": 64, {told}}}'
    async with looked.prober(WorkerTable()) as prober:
        await prober.look()
        assert looked.found[0].facts.max_running_requests == limit


async def test_a_full_engine_is_relieved_by_the_queue_of_a_running_router() -> None:
    """It says how many it runs; it gets these and two more, the others wait here."""
    looked, under_way, going_on = Looked(), list[int](), asyncio.Event()
    looked.pages["/server_info"] = '{"page_size": 64, "max_running_requests": 4}'

    async def answer(request: web.Request) -> web.Response:
        if request.path != "/v1/completions":
            return await looked.answer(request)
        under_way.append(1)
        await going_on.wait()
        return web.json_response({"choices": []})

    config = ServeConfig(port=0, probe_interval_s=0.02, grace_s=0.1, state_file="")
    async with working(answer) as url:
        configuration = Configuration(config, specs=(WorkerSpec(url),))
        async with running_gateway(configuration) as gateway, aiohttp.ClientSession() as client:
            worker = next(iter(gateway.router.table))
            async with asyncio.timeout(10):
                while worker.full_at != 6:
                    await asyncio.sleep(0.01)

            async def ask() -> int:
                async with client.post(f"{gateway.url}/v1/completions", json=BODY) as response:
                    return response.status

            tasks = [asyncio.create_task(ask()) for _ in range(20)]
            async with asyncio.timeout(10):
                while len(under_way) < 6:
                    await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)
            assert len(under_way) == 6
            going_on.set()
            assert set(await asyncio.gather(*tasks)) == {200}
