"""Workers that fail, are busy, or are given more than their part. Each test names the report that it comes from."""

import asyncio
import contextlib
import random
import time
from collections import Counter

import aiohttp
import pytest
from aiohttp import web

from field_failures.engine import Engine, routing
from gateway.routed import BODY, MODEL, Answering, Routed, broken, routed, until
from relay.served import working
from router.fleet import BLOCK_SIZE, Fleet
from warmroute.admission import FailoverOptions
from warmroute.gateway.prober import Prober
from warmroute.gateway.relay import RelayOptions
from warmroute.policy import Cost
from warmroute.policy.least_loaded import LeastLoadedPolicy
from warmroute.router import Decision, Outcome
from warmroute.worker import CircuitState, LoadReport, WorkerSpec, WorkerStatus, WorkerTable

OFTEN = FailoverOptions(slow_start_s=0.0, retry_floor_per_s=1e6)
_PATHS = (
    "/v1/completions",
    "/v1/chat/completions",
    "/v1/messages",
    "/v1/responses",
    "/v1/embeddings",
    "/generate",
    "/inference/v1/generate",
    "/v1/something/new",
)


def prompt(number: int, tokens: int) -> list[int]:
    """A prompt that shares nothing with those of other numbers."""
    return [1_000_000 * (number + 1) + position for position in range(tokens)]


async def served(r: Routed, engines: list[Answering], count: int, path: str = "/v1/completions") -> list[int]:
    """How many of so many requests that are under way together each engine has got."""
    before = [engine.came for engine in engines]
    for engine in engines:
        engine.open.clear()
    tasks = [asyncio.create_task(r.post(path)) for _ in range(count)]
    await until(lambda: sum(engine.under_way for engine in engines) == count)
    for engine in engines:
        engine.open.set()
    assert {status for status, _, _ in await asyncio.gather(*tasks)} == {200}
    return [engine.came - earlier for engine, earlier in zip(engines, before, strict=True)]


# 61
async def test_bad_requests_open_nothing_and_a_good_one_is_answered() -> None:
    """vllm-project/router PR#60, sgl-project/sglang#25811: 4xx answers took the fleet down."""
    worker = Answering(400)
    async with working(worker.answer) as url, routed(url) as r:
        for _ in range(10):
            assert (await r.post())[0] == 400
        worker.status = 200
        assert (await r.post())[0] == 200
        assert r.workers[0].circuit.at_rest(time.monotonic())


@pytest.mark.parametrize("status", [429, 503])
async def test_a_busy_worker_is_not_a_broken_one(status: int) -> None:
    busy, idle = Answering(status), Answering()
    async with working(busy.answer) as first, working(idle.answer) as second, routed(first, second) as r:
        for _ in range(20):
            assert (await r.post())[0] == 200
        assert r.workers[0].circuit.state(time.monotonic()) is CircuitState.CLOSED
        assert busy.came < 5


# 62
async def test_a_worker_that_accepts_and_never_answers_holds_up_nobody_else() -> None:
    """vllm-project/production-stack#749."""
    silent, well = Answering(), Answering()
    silent.open.clear()
    limits = RelayOptions(first_byte_timeout_s=1.0)
    async with (
        working(silent.answer) as first,
        working(well.answer) as second,
        routed(first, second, relay_options=limits, options=OFTEN) as r,
    ):
        assert {status for status, _, _ in await asyncio.gather(*(r.post() for _ in range(40)))} == {200}
        assert not r.workers[0].circuit.allows(time.monotonic())
        came = silent.came
        assert {(await r.post())[0] for _ in range(10)} == {200}
        assert silent.came == came


# 65
async def test_a_request_before_any_worker_is_known_to_be_well_is_asked_to_come_again() -> None:
    """dynamo PR#13977: requests right after the start got "no endpoints"."""
    engine = Engine(healthy=False)
    async with engine.serve(), routing(engine) as gateway, aiohttp.ClientSession() as client:
        async with client.get(f"{gateway.url}/ready") as response:
            assert response.status == 503
        async with client.post(f"{gateway.url}/v1/completions", json=BODY) as response:
            assert response.status == 503
            assert int(response.headers["retry-after"]) >= 1
        engine.healthy = True
        await until(lambda: all(worker.status is WorkerStatus.READY for worker in gateway.router.table))
        async with client.post(f"{gateway.url}/v1/completions", json=BODY | {"prompt": [1, 2]}) as response:
            assert response.status == 200


# 66
@pytest.mark.parametrize("policy", ["warmroute", "least-loaded"])
async def test_equal_requests_are_spread_on_every_path(policy: str) -> None:
    """vllm-project/router#179, sgl-project/sglang PR#15473: a path that counted no load sent all 480 to one worker."""
    engines = [Answering() for _ in range(4)]
    async with contextlib.AsyncExitStack() as stack:
        urls = [await stack.enter_async_context(working(engine.answer)) for engine in engines]
        r = await stack.enter_async_context(routed(*urls, policy=policy))
        for path in _PATHS:
            assert min(await served(r, engines, 64, path)) >= 8, path


# 67
async def test_load_counts_from_dispatch_on() -> None:
    """smg PR#1714, aibrix#646: load that was counted when the answer began sent everything to one worker."""
    engines = [Answering() for _ in range(4)]
    async with contextlib.AsyncExitStack() as stack:
        urls = [await stack.enter_async_context(working(engine.answer)) for engine in engines]
        r = await stack.enter_async_context(routed(*urls, policy="warmroute"))
        got = await served(r, engines, 32)
        assert max(got) - min(got) <= 1, got


# 70
def test_a_head_that_all_share_pins_nobody_and_each_conversation_stays() -> None:
    """vllm-project/production-stack#957."""
    fleet, head = Fleet("ABCD"), prompt(0, 2_048)
    homes: dict[int, str] = {}
    open_decisions: list[Decision] = []
    for number in range(100):
        asked = head + prompt(number + 1, 1_024)
        decision = fleet.route(fleet.request(asked), now=0.01 * number)
        homes[number] = fleet.name_of(decision)
        fleet.holds(homes[number], asked)
        open_decisions.append(decision)
    spread = Counter(homes.values())
    assert min(spread[name] for name in "ABCD") >= 12, spread
    for decision in open_decisions:
        fleet.complete(decision, 10.0)
    for number in range(100):
        asked = head + prompt(number + 1, 1_024) + prompt(number + 500, 64)
        decision = fleet.route(fleet.request(asked), now=20.0 + number)
        assert fleet.name_of(decision) == homes[number]
        fleet.complete(decision, 20.5 + number)


# 71
def test_a_conversation_that_grows_stays_where_it_began() -> None:
    """vllm-project/production-stack PR#990: a threshold that was never reached, as misses were not recorded."""
    fleet = Fleet("ABC")
    homes = set()
    for turn in range(1, 13):
        asked = prompt(1, 512 * turn)
        decision = fleet.route(fleet.request(asked), now=float(turn))
        homes.add(fleet.name_of(decision))
        fleet.holds(fleet.name_of(decision), asked)
        fleet.complete(decision, turn + 0.5)
    assert len(homes) == 1


# 72
def test_siblings_that_come_before_the_first_event_are_not_scattered() -> None:
    """dynamo PR#8276: each of them paid a full prefill."""
    fleet = Fleet("ABCDEFGH")
    asked = prompt(1, 8_192)
    homes = {fleet.name_of(fleet.route(fleet.request(asked), now=0.0006 * number)) for number in range(8)}
    assert len(homes) <= 2


# 74
@pytest.mark.parametrize("seed", range(10))
def test_the_long_prompts_do_not_share_a_worker(seed: int) -> None:
    """llm-d-router#1977: even by count, eight times uneven by tokens."""
    fleet = Fleet("ABCD")
    sizes = [32_000] * 2 + [4_000] * 6
    random.Random(seed).shuffle(sizes)
    homes = [
        (size, fleet.name_of(fleet.route(fleet.request(prompt(number, size)), now=0.001 * number)))
        for number, size in enumerate(sizes)
    ]
    assert len({home for size, home in homes if size == 32_000}) == 2, homes


# 75
def test_no_worker_is_left_out_of_unrelated_load() -> None:
    """dynamo#7836: two of five workers got nothing."""
    fleet = Fleet("ABCDE")
    got = Counter(
        fleet.name_of(fleet.route(fleet.request(prompt(number, 16 * BLOCK_SIZE)), now=0.001 * number))
        for number in range(256)
    )
    assert all(256 / 5 / 2 <= got[name] <= 2 * 256 / 5 for name in "ABCDE"), got


# 93
async def test_a_fault_in_the_choice_costs_no_request() -> None:
    worker = Answering()
    async with working(worker.answer) as url, routed(url) as r:

        class Faulty(LeastLoadedPolicy):
            def costs(self, *_: object) -> list[Cost]:
                raise ZeroDivisionError

        r.router.policy = Faulty()
        assert {(await r.post())[0] for _ in range(5)} == {200}
        assert r.router.policy_failures == 5


# 94
async def test_a_worker_that_failed_a_request_does_not_get_it_again() -> None:
    async with (
        broken() as (one, first),
        broken() as (two, second),
        routed(one, two, options=OFTEN, max_attempts=10) as r,
    ):
        assert (await r.post())[0] == 502
        assert (len(first), len(second)) == (1, 1)


# 95
def test_one_transient_does_not_close_the_fleet_and_a_hung_try_does_not_keep_a_worker_out() -> None:
    fleet = Fleet("AB")
    for _ in range(3):
        for name in "AB":
            others = [other for other in "AB" if other != name]
            decision = fleet.route(fleet.request(None), 0.0, tried=others)
            fleet.router.settle(decision, Outcome(False, True, 0.0))
    states = [worker.circuit.state(0.1) for worker in fleet.workers.values()]
    assert states == [CircuitState.OPEN] * 2
    homes = Counter(fleet.name_of(fleet.route(fleet.request(None), 0.1)) for _ in range(20))
    assert set(homes) == {"A", "B"}, "with nobody better both still serve"
    assert fleet.router.table.last_resorts >= 20
    fleet.route(fleet.request(None), 2.0, tried=["B"])
    assert not fleet.workers["A"].circuit.allows(3.0), "one try at a time"
    assert fleet.workers["A"].circuit.allows(40.0), "but it does not hang for ever"


# 96
async def test_the_router_starts_although_a_worker_is_down() -> None:
    engine, gone = Engine(), Engine(url="http://127.0.0.1:9")
    async with engine.serve(), routing(gone, engine) as gateway, aiohttp.ClientSession() as client:
        await until(lambda: any(worker.status is WorkerStatus.READY for worker in gateway.router.table))
        async with client.post(f"{gateway.url}/v1/completions", json=BODY | {"prompt": [1]}) as response:
            assert response.status == 200


async def test_a_worker_that_is_slow_to_say_that_it_is_well_is_busy_and_not_dead() -> None:
    slow = asyncio.Event()

    async def answer(request: web.Request) -> web.Response:
        if request.path == "/health":
            await slow.wait()
        return web.json_response({"data": [{"id": MODEL}]} if request.path == "/v1/models" else {})

    slow.set()
    table, restarts = WorkerTable(), list[str]()
    async with (
        working(answer) as url,
        aiohttp.ClientSession() as patient,
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=0.1)) as hasty,
    ):
        worker = table.add(WorkerSpec(url))
        prober = Prober(worker, table, patient, 0.05, lambda *_: None, lambda each: restarts.append(each.id))
        await prober.look()
        slow.clear()
        prober.session = hasty
        statuses = []
        for _ in range(3):
            await prober.look()
            statuses.append(worker.status)
        assert statuses == [WorkerStatus.READY, WorkerStatus.READY, WorkerStatus.DOWN]
        slow.set()
        prober.session = patient
        await prober.look()
        assert worker.status is WorkerStatus.READY
        assert restarts == [url], "only at first: what its cache holds is as true as before"


# 97
async def test_health_is_answered_beside_a_thousand_requests() -> None:
    going_on = asyncio.Event()

    class Slow(Engine):
        async def answer(self, request: web.Request) -> web.Response:
            found = await super().answer(request)
            if request.path == "/v1/completions":
                await going_on.wait()
            return found

    engine, connector = Slow(), aiohttp.TCPConnector(limit=0)
    async with engine.serve(), routing(engine) as gateway, aiohttp.ClientSession(connector=connector) as client:
        await until(lambda: all(worker.status is WorkerStatus.READY for worker in gateway.router.table))

        async def ask() -> int:
            async with client.post(f"{gateway.url}/v1/completions", json=BODY | {"prompt": [1]}) as response:
                return response.status

        tasks = [asyncio.create_task(ask()) for _ in range(1_000)]
        await until(lambda: len(engine.prompts) == 1_000)
        for page in ("/health", "/ready"):
            async with client.get(gateway.url + page) as response:
                assert response.status == 200
        going_on.set()
        assert Counter(await asyncio.gather(*tasks)) == {200: 1_000}


# 98
async def test_a_fault_does_not_end_the_watching_of_a_worker() -> None:
    table = WorkerTable()
    async with aiohttp.ClientSession() as session:
        worker = table.add(WorkerSpec("http://127.0.0.1:9"))
        prober = Prober(worker, table, session, 0.01, lambda *_: None, lambda _: None)
        fault = iter([RuntimeError("a reload went wrong")])

        def set_status(*args: object, **named: object) -> bool:
            for error in fault:
                raise error
            return False

        table.set_status = set_status  # type: ignore[method-assign]
        task = asyncio.create_task(prober.run())
        await until(lambda: prober.faults == 1 and prober.last_look_at is not None)
        assert not task.done()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


# 105
def test_what_is_in_flight_here_counts_whatever_a_worker_reports_and_old_reports_do_not() -> None:
    fleet = Fleet("AB", "least-loaded")
    table, a = fleet.router.table, fleet.workers["A"]
    for _ in range(3):
        table.book(a, "r", 0, None)
    table.take_report(a, LoadReport(0, None, at=10.0), own_requests=3)
    assert a.load(10.0).requests == 3
    table.take_report(a, LoadReport(9, None, at=10.0), own_requests=3)
    assert (a.load(11.0).requests, a.load(16.0).requests) == (9, 3)
