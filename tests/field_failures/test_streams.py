"""Streams through a whole router: cut, aborted, dying, many. Each test names the report that it comes from."""

import asyncio
import random
import re
import resource
from collections import Counter
from collections.abc import Iterator

import aiohttp
import pytest

from e2e.processes import router, until_ready
from e2e.processes import until as until_page
from field_failures.lying import (
    BODY,
    STREAM_HEAD,
    STREAMED,
    Asked,
    Before,
    LyingWorker,
    answer,
    answers_well,
    before,
    held,
    stream,
)
from field_failures.wire import LAST_CHUNK, Client, chunked, request
from gateway.routed import until
from warmroute.admission import FailoverOptions
from warmroute.gateway.relay import RelayOptions

ASK = request(body=BODY)
ASK_STREAM = request(body=STREAMED)
PATIENT = FailoverOptions(slow_start_s=0.0, retry_floor_per_s=1e6)


async def figures(r: Before, *names: str) -> dict[str, float]:
    """The sums over all workers of gauges of `/metrics`."""
    async with aiohttp.ClientSession() as session, session.get(r.gateway.admin_url + "/metrics") as response:
        page = await response.text()
    return {name: sum(float(value) for value in re.findall(rf"^{name}{{[^}}]*}} (.+)$", page, re.M)) for name in names}


# 47
async def test_a_client_that_leaves_an_answer_that_is_not_streamed_ends_it_at_the_worker() -> None:
    """vllm-project/production-stack#634, BerriAI/litellm#37140: the worker ran on."""
    worker = LyingWorker()
    worker.script = worker.see_it_go
    async with worker.serve(), before(worker) as r:
        client = await r.client()
        await client.send(ASK)
        await until(lambda: len(worker.asked) == 1)
        await client.leave()
        await until(lambda: worker.gone == 1)
        (outcome,) = await r.ended(1)
        assert (outcome.end, outcome.status, held(r.gateway)) == ("client-gone", None, 0)
        worker.script = answers_well
        assert (await r.ask(ASK)).status == 200, "and nothing is held against the worker"


# 48
@pytest.mark.parametrize("begun", [b"", STREAM_HEAD, STREAM_HEAD + chunked(*(f"data: {n}\n\n" for n in range(3)))])
async def test_a_client_that_leaves_a_stream_ends_it_at_the_worker(begun: bytes) -> None:
    """BerriAI/litellm#30244, PR#31499: gone before the first token or after some, and the upstream stayed open."""
    worker = LyingWorker()

    async def begin(asked: Asked) -> None:
        await asked.send(begun)
        await worker.see_it_go(asked)

    worker.script = begin
    async with worker.serve(), before(worker) as r:
        client = await r.client()
        await client.send(ASK_STREAM)
        if begun:
            assert (await client.head()).status == 200
        if len(begun) > len(STREAM_HEAD):
            await client.reader.readuntil(b"data: 2\n\n")
        await until(lambda: len(worker.asked) == 1)
        await client.leave()
        await until(lambda: worker.gone == 1)
        assert [outcome.end for outcome in await r.ended(1)] == ["client-gone"]


# 49
async def test_a_hundred_aborts_at_any_point_leave_every_counter_at_zero() -> None:
    """vllm-project/router PR#215, vllm-project/production-stack PR#1072, sgl-project/sglang-omni PR#931: each abort
    leaked one, and a worker that began anew at zero got everything.
    """
    rng = random.Random(49)
    workers = [LyingWorker() for _ in range(3)]
    whole = stream(*("x" * 40 for _ in range(5)))

    async def stop_somewhere(asked: Asked) -> None:
        said = rng.choice((0, rng.randrange(len(whole)), len(whole)))
        await asked.send(whole[:said])
        if rng.random() < 0.3:
            asked.reset()
        elif said < len(whole):
            await asked.until_gone()

    async def abort(client: Client) -> None:
        ask = rng.choice((ASK, ASK_STREAM))
        await client.send(ask[: rng.choice((rng.randrange(1, len(ask)), len(ask), len(ask)))])
        for _ in range(rng.randrange(20)):
            await asyncio.sleep(0)
        await asyncio.sleep(rng.choice((0, 0.002, 0.02)))
        await rng.choice((client.leave, client.close))()

    for worker in workers:
        worker.script = stop_somewhere
    async with (
        workers[0].serve(),
        workers[1].serve(),
        workers[2].serve(),
        before(*workers, failover=PATIENT) as r,
    ):
        await asyncio.gather(*[abort(await r.client()) for _ in range(100)])
        await until(lambda: held(r.gateway) == 0)
        counts = r.gateway.relay.counts
        assert counts.outcomes >= counts.arrivals > 10, "those that left within their upload never arrived"
        told = await figures(r, "warmroute_worker_requests", "warmroute_worker_queued_tokens")
        assert told == {"warmroute_worker_requests": 0, "warmroute_worker_queued_tokens": 0}
        for worker in workers:
            worker.script = answers_well
        before_that = [len(worker.asked) for worker in workers]
        # Each has as little to do as the others, so none is shunned; some may still be set aside for their resets.
        assert Counter([(await r.ask(ASK)).status for _ in range(30)]) == {200: 30}
        assert sum(len(worker.asked) for worker in workers) == sum(before_that) + 30


async def test_two_hundred_clients_that_leave_at_once_are_all_let_go() -> None:
    """As above, with every stream under way: as when a service before the router is started anew."""
    worker = LyingWorker()

    async def begin(asked: Asked) -> None:
        await asked.send(STREAM_HEAD + chunked("data: 1\n\n"))
        await worker.see_it_go(asked)

    worker.script = begin
    async with worker.serve(), before(worker) as r:
        clients = [await r.client() for _ in range(200)]
        for client in clients:
            await client.send(ASK_STREAM)
        for client in clients:
            await client.reader.readuntil(b"data: 1\n\n")
        assert held(r.gateway) >= 200
        await asyncio.gather(*(client.leave() for client in clients))
        await until(lambda: worker.gone == 200)
        assert Counter(outcome.end for outcome in await r.ended(200)) == {"client-gone": 200}


# 51
def _recorded(end: str, space: str, comment: str) -> bytes:
    """A recorded stream in one spelling: an event before, one over two lines, the usage, and the end."""
    usage = '{"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}}'
    events = [
        [f'data:{space}{{"choices": [{{"text": "\u00e9"}}]}}'],
        [f"id:{space}1", f"data:{space}[1,", f"data:{space}2]"],
        [f"data:{space}{usage}"],
        [f"data:{space}[DONE]"],
    ]
    lines = [line for event in events for line in (*comment.split("|"), *event, "") if line or event]
    return (end.join(lines) + end).encode()


@pytest.mark.parametrize("comment", ["", ": ping", ":|:data: [DONE]"], ids=["plain", "comment", "comments"])
@pytest.mark.parametrize("space", ["", " "], ids=["tight", "space"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["lf", "crlf", "cr"])
async def test_a_stream_cut_anywhere_gives_the_same_bytes_and_counts(end: str, space: str, comment: str) -> None:
    """gateway-api-inference-extension#1626, PR#2026: usage and [DONE] in different network chunks gave no tokens."""
    recorded = _recorded(end, space, comment)
    cuts = iter(range(1, len(recorded)))

    async def cut(asked: Asked) -> None:
        at = next(cuts)
        await asked.send(STREAM_HEAD + chunked(recorded[:at]))
        await asyncio.sleep(0)
        await asked.send(chunked(recorded[at:]) + LAST_CHUNK)

    asyncio.get_running_loop().set_debug(False)  # of a thousand requests it takes more time than they do
    worker = LyingWorker(cut)
    async with worker.serve(), before(worker) as r:
        client = await r.client()
        for _ in range(1, len(recorded)):
            await client.send(ASK_STREAM)
            assert (await client.answer()).body == recorded
        outcomes = await r.ended(len(recorded) - 1)
        told = {(o.end, o.events, o.prompt_tokens, o.completion_tokens) for o in outcomes}
        assert told == {("completed", 4, 7, 3)}
        await client.close()


# 56
@pytest.mark.parametrize("done", [False, True], ids=["within", "after-done"])
@pytest.mark.parametrize("how", ["close", "reset"])
@pytest.mark.parametrize("path", ["/v1/completions", "/v1/messages"])
async def test_a_worker_that_dies_within_a_stream_is_told_once_and_never_tried_again(
    path: str, how: str, done: bool
) -> None:
    """dynamo PR#8430, open-webui/open-webui#29628: the client saw 200, a few chunks and a clean end."""
    said = chunked("data: 1\n\n", "data: 2\n\n", "data: 3\n\n", *(["data: [DONE]\n\n"] if done else []))
    read = asyncio.Event()

    async def die(asked: Asked) -> None:
        await asked.send(STREAM_HEAD + said)
        await read.wait()  # what has come is on its way: a reset throws away what has not
        getattr(asked, how)()

    workers = [LyingWorker(die), LyingWorker(die)]
    async with workers[0].serve(), workers[1].serve(), before(*workers, failover=PATIENT) as r:
        client = await r.client()
        await client.send(request(path, STREAMED))
        head = await client.head()
        relayed = await client.reader.readuntil(b"[DONE]\n\n" if done else b"data: 3\n\n")
        read.set()
        rest = await client.reader.readuntil(LAST_CHUNK)
        assert head.status == 200
        assert relayed.count(b"data: ") == 3 + done
        assert rest.count(b"data: ") == 1, rest
        assert b'"error"' in rest
        assert (b"event: error" in rest) == (path == "/v1/messages")
        assert [outcome.end for outcome in await r.ended(1)] == ["worker-failed"]
        assert sum(len(worker.asked) for worker in workers) == 1
        await client.close()


@pytest.mark.parametrize("how", ["close", "reset"])
async def test_a_worker_that_dies_within_a_body_of_known_length_breaks_the_connection(how: str) -> None:
    """As above where no event can be put in: the client must see that bytes are missing."""
    begun = asyncio.Event()

    async def die(asked: Asked) -> None:
        await asked.send(answer("x" * 100)[:-50])
        await begun.wait()
        getattr(asked, how)()

    worker = LyingWorker(die)
    async with worker.serve(), before(worker) as r:
        client = await r.client()
        await client.send(ASK)
        head = await client.head()
        assert (head.status, head.header("content-length")) == (200, "100")
        begun.set()
        assert await client.reader.read() == b"x" * 50
        await client.close()
        assert [outcome.end for outcome in await r.ended(1)] == ["worker-failed"]
        assert len(worker.asked) == 1


async def test_a_worker_that_falls_silent_within_a_stream_is_told_like_one_that_died() -> None:
    """As above where the connection stays: the client must not wait for ever."""
    worker = LyingWorker()

    async def stall(asked: Asked) -> None:
        await asked.send(STREAM_HEAD + chunked("data: 1\n\n", "data: 2"))
        await worker.see_it_go(asked)

    worker.script = stall
    async with worker.serve(), before(worker, relay=RelayOptions(idle_timeout_s=0.5)) as r:
        message = await r.ask(ASK_STREAM)
        lines = [line for line in message.body.split(b"\n") if line]
        assert (message.status, message.whole, lines[0]) == (200, True, b"data: 1")
        assert b"worker_failed" in lines[-1]
        assert [outcome.end for outcome in await r.ended(1)] == ["worker-failed"]
        await until(lambda: worker.gone == 1)


# 104
async def test_each_chunk_goes_on_before_the_next_one_comes() -> None:
    """Chunks were batched for 50 ms. Here the worker says nothing more until the client has what was said."""
    got = [asyncio.Event() for _ in range(50)]

    async def one_by_one(asked: Asked) -> None:
        await asked.send(STREAM_HEAD)
        for number, event in enumerate(got):
            await asked.send(chunked(f"data: {number}\n\n"))
            await event.wait()
        await asked.send(LAST_CHUNK)

    worker = LyingWorker(one_by_one)
    async with worker.serve(), before(worker) as r:
        client = await r.client()
        await client.send(ASK_STREAM)
        await client.head()
        for number, event in enumerate(got):
            await client.reader.readuntil(b"data: %d\n\n" % number)
            event.set()
        assert (await client.reader.readuntil(LAST_CHUNK)).endswith(LAST_CHUNK)
        await client.close()


# 60
STREAMS = 1_200


@pytest.fixture
def a_thousand_descriptors_for_the_router() -> Iterator[None]:
    """The usual soft limit of a shell, which is the router's beginning; the test itself takes two for each stream."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 2 * STREAMS + 500
    if hard < needed:
        pytest.skip(f"{needed} descriptors are needed, {hard} are allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (1_024, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("a_thousand_descriptors_for_the_router")
async def test_a_router_carries_1200_streams_and_answers_probes_meanwhile() -> None:
    """vllm-project/production-stack#448: it was started anew above about a thousand concurrent requests."""
    end, worker = asyncio.Event(), LyingWorker()

    async def go_on(asked: Asked) -> None:
        await asked.send(STREAM_HEAD + chunked("data: 1\n\n"))
        await end.wait()
        await asked.send(chunked("data: [DONE]\n\n") + LAST_CHUNK)

    async def read(url: str) -> bytes:
        client = await Client.of(url)
        await client.send(ASK_STREAM)
        message = await client.answer()
        await client.close()
        return message.body

    asyncio.get_running_loop().set_debug(False)
    worker.script = go_on
    async with worker.serve(), router([worker.url], "--queue-size", "0", tokenizer=None) as gate:
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        await until_ready(gate.admin_url, 1)
        reading = [asyncio.create_task(read(gate.url)) for _ in range(STREAMS)]
        async with asyncio.timeout(40):
            while len(worker.asked) < STREAMS:
                await asyncio.sleep(0.02)
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)) as session:
            for url in (f"{gate.url}/health", f"{gate.url}/ready", f"{gate.admin_url}/metrics"):
                async with session.get(url) as response:
                    assert response.status == 200
            async with session.get(f"{gate.admin_url}/warmroute/state") as response:
                assert (await response.json())["requests_in_flight"] == STREAMS
            end.set()
            assert set(await asyncio.gather(*reading)) == {b"data: 1\n\ndata: [DONE]\n\n"}
        await until_page(gate.admin_url, "/warmroute/state", lambda state: state["requests_in_flight"] == 0)
        assert gate.process.returncode is None


async def test_above_a_set_limit_requests_are_told_to_come_again() -> None:
    """As above: what a limit does not let in gets 429 with Retry-After, and what is under way is not touched."""
    end, worker = asyncio.Event(), LyingWorker()

    async def go_on(asked: Asked) -> None:
        await asked.send(STREAM_HEAD + chunked("data: 1\n\n"))
        await end.wait()
        await asked.send(LAST_CHUNK)

    worker.script = go_on
    limits = FailoverOptions(max_requests=4, queue_size=2, slow_start_s=0.0)
    async with worker.serve(), before(worker, failover=limits) as r:
        tasks = [asyncio.create_task(r.ask(ASK_STREAM)) for _ in range(50)]
        await until(lambda: len(r.outcomes) == 44)
        await until(lambda: len(worker.asked) == 4)
        end.set()
        messages = await asyncio.gather(*tasks)
        assert Counter(message.status for message in messages) == {200: 6, 429: 44}
        assert all(message.header("retry-after") for message in messages if message.status == 429)
