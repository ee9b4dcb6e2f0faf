"""Streams of KV events that break off, start anew or belong to nobody: what a lookup answers after each."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import aiohttp
import pytest
import zmq.asyncio

from field_failures.engine import MODEL, Engine, routing, warm_blocks, warm_tokens
from field_failures.heard import Heard, tokens
from field_failures.listening import Ears, listening
from kv_event.publisher import Publisher
from kv_event.wire_format import cleared, removed, stored
from warmroute.gateway.fleet_report import member_report
from warmroute.gateway.serve import Gateway
from warmroute.worker import WorkerId, WorkerSpec, WorkerStatus, default_name

PROMPT = tokens(1, 2, 3, 4, 5)


async def publish_chain(publisher: Publisher, *blocks: int, lose: tuple[int, ...] = ()) -> None:
    """Each block in a batch of its own, behind the block of the number before it."""
    for number in blocks:
        parent = number - 1 if number > 1 else None
        await publisher.publish(stored([number], tokens(number), parent), lose=number in lose)


@asynccontextmanager
async def one_lane(publisher: Publisher, **options: bool | float) -> AsyncIterator[tuple[Heard, Ears]]:
    heard = Heard().add(1)
    async with publisher.serve(), listening(heard, {1: publisher}, **options) as ears:  # type: ignore[arg-type]
        yield heard, ears


async def soon(condition: Callable[[], bool], what: str, limit_s: float = 10.0) -> None:
    try:
        async with asyncio.timeout(limit_s):
            while not condition():
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"not within {limit_s} s: {what}") from None


# --- restarts ---


@pytest.mark.parametrize("replay", [True, False], ids=["replay", "no-replay"])
async def test_a_sequence_that_goes_back_clears_that_worker_first(replay: bool) -> None:
    """llm-d-router#2853: the engine restarted in place with an empty cache, and its old blocks were kept."""
    heard = Heard().add(1, 2)
    one, two = Publisher(), Publisher()
    async with one.serve(), two.serve(), listening(heard, {1: one, 2: two}, replay=replay) as ears:
        await publish_chain(one, *range(1, 11))
        await publish_chain(two, 1, 2)
        await ears.until(lambda: heard.index.blocks(1) == 10 and heard.index.blocks(2) == 2, "both")
        one.next_seq, one.buffer = 0, []
        await one.publish(stored([77], tokens(77)))
        await ears.until(lambda: heard.blocks(tokens(77)) == {1: 1}, "the new process's block")
        assert heard.blocks(PROMPT) == {2: 2}, "the other worker keeps its view"
        assert heard.index.blocks(1) == 1
        assert ears.by_lane[1].state().restarts == 1


async def test_many_publishers_behind_one_router_have_a_sequence_each() -> None:
    """llm-d-router#2853: numbers of different engines compared with each other look like gaps and restarts."""
    lanes = range(1, 9)
    heard = Heard().add(*lanes)
    publishers = {lane: Publisher() for lane in lanes}
    async with AsyncExitStack() as stack:
        for publisher in publishers.values():
            await stack.enter_async_context(publisher.serve())
        ears = await stack.enter_async_context(listening(heard, publishers))
        for lane, publisher in publishers.items():
            await publish_chain(publisher, *range(1, 1 + lane))
        await ears.until(lambda: all(heard.index.blocks(lane) == lane for lane in lanes), "every view")
        states = [ear.state() for ear in ears.by_lane.values()]
        assert [(state.gaps, state.restarts, state.duplicates) for state in states] == [(0, 0, 0)] * 8


# --- gaps ---


async def test_a_gap_is_counted_and_a_replay_of_it_asked_for() -> None:
    """llm-d-router#1737: batches 2 and 3 were missed and nobody noticed."""
    publisher = Publisher()
    async with one_lane(publisher) as (heard, ears):
        await publish_chain(publisher, 1, 2, 3, 4, 5, lose=(3, 4))
        await ears.until(lambda: heard.blocks(PROMPT) == {1: 5}, "the whole chain")
        state = ears.by_lane[1].state()
        assert (state.gaps, state.unfilled_gaps, state.complete) == (1, 0, True)
        assert publisher.replays[-1] in (2, 3), "asked from where it was missed, not all over again"


async def test_without_a_replay_a_gap_leaves_a_partial_view_that_is_told_and_used() -> None:
    """llm-d-router#1737: keep routing on what is known, and say that it is not all."""
    publisher = Publisher()
    async with one_lane(publisher, replay=False) as (heard, ears):
        await publish_chain(publisher, 1, 2, 3, 4, 5, lose=(3, 4))
        await ears.until(lambda: ears.by_lane[1].state().last_seq == 4, "the last batch")
        assert heard.blocks(PROMPT) == {1: 2}, "what is behind the hole is not credited"
        assert heard.index.stats()["orphans"] == 1
        state = ears.by_lane[1].state()
        assert (state.gaps, state.unfilled_gaps, state.complete) == (1, 1, False)
        await publisher.publish(cleared())
        await ears.until(lambda: ears.by_lane[1].state().complete, "a clear makes the view whole again")


async def test_a_gap_that_no_replay_can_fill_is_asked_for_once() -> None:
    """vllm-project/vllm, `kv_events.py`: a batch that cannot be encoded spends its number and is missing for good."""
    publisher = Publisher()
    async with one_lane(publisher) as (heard, ears):
        await publish_chain(publisher, 1)
        publisher.spend_number()
        await publish_chain(publisher, 2, 3, 4)
        await ears.until(lambda: heard.blocks(PROMPT) == {1: 4}, "what came after")
        await asyncio.sleep(0.3)
        assert len(publisher.replays) == 2, "at the first contact, and once for the gap"
        assert ears.by_lane[1].state().unfilled_gaps == 1
        assert not ears.by_lane[1].state().complete


async def test_a_replay_that_never_ends_costs_a_deadline_and_nothing_more() -> None:
    """vllm-project/vllm, before 0.33: a slow reader never gets the end marker, and waited for it for good."""
    publisher = Publisher(replies_at_most=2)
    async with publisher.serve():
        await publish_chain(publisher, 1, 2, 3)
        heard = Heard().add(1)
        async with listening(heard, {1: publisher}, deadline_s=0.3) as ears:
            await ears.until(lambda: heard.blocks(PROMPT) == {1: 2}, "what the replay did bring")
            await publish_chain(publisher, 4)
            await ears.until(lambda: ears.by_lane[1].state().last_seq == 3, "the live stream")
            assert heard.index.blocks(1) >= 2


class Endless(Publisher):
    """Answers a replay with its whole history over and over, for as long as anybody reads."""

    async def _answer(self, router: zmq.asyncio.Socket, client: bytes, start: int) -> None:
        while True:
            for seq, payload in self.buffer:
                await router.send_multipart([client, b"", self.topic, seq.to_bytes(8), payload])
            await asyncio.sleep(0.002)


async def test_a_replay_that_goes_on_for_ever_is_cut_off_and_counts_each_batch_once() -> None:
    """vllm-project/vllm, `kv_events.py`: whatever a publisher does with its replay, the live stream must go on."""
    publisher = Endless()
    async with publisher.serve():
        await publish_chain(publisher, 1, 2)
        heard = Heard().add(1)
        async with listening(heard, {1: publisher}, deadline_s=0.5) as ears:
            await ears.until(lambda: heard.blocks(PROMPT) == {1: 2}, "what the replay brought")
            await publisher.publish(removed([2]))
            await ears.until(lambda: heard.blocks(PROMPT) == {1: 1}, "the live stream, and one copy to remove")


async def test_a_publisher_that_answers_no_replay_holds_up_its_own_stream_once() -> None:
    """vllm-project/vllm: a replay is served by the publisher's thread, which may be stuck; others must not wait."""
    heard = Heard().add(1, 2)
    mute, fine = Publisher(answers_replays=False), Publisher()
    async with mute.serve(), fine.serve():
        await publish_chain(fine, 1, 2)
        async with listening(heard, {1: mute, 2: fine}, deadline_s=1.0) as ears:
            await ears.until(lambda: heard.blocks(PROMPT) == {2: 2}, "the other's replay", limit_s=0.9)
            await publish_chain(mute, 1, 2, 3, lose=(2,))
            await ears.until(lambda: ears.by_lane[1].state().last_seq == 2, "the mute one's live stream")
            assert mute.replays == [0]
            assert not ears.by_lane[1].state().complete


@pytest.mark.parametrize("round_", range(3))
async def test_what_a_replay_and_the_live_stream_both_bring_counts_once(round_: int) -> None:
    """ai-dynamo/dynamo#8012 and others: a batch taken twice leaves a block that one removal does not take."""
    heard = Heard().add(1)
    publisher = Publisher()
    total = 200

    async def burst() -> None:
        for number in range(1, total + 1):
            await publisher.publish(stored([number], tokens(number)), lose=number % 31 == 30)
            if number % (2 + round_) == 0:
                await asyncio.sleep(0.001)

    async with publisher.serve():
        publishing = asyncio.create_task(burst())
        await asyncio.sleep(0.02)
        async with listening(heard, {1: publisher}) as ears:
            await publishing
            await publisher.publish(removed(list(range(1, total + 1))))
            await ears.until(lambda: ears.by_lane[1].state().last_seq == total, "the last batch")
            assert heard.index.size() == 0, "each block was stored once and removed once"
            assert ears.by_lane[1].state().complete


async def test_a_late_joiner_asks_for_what_was_published_before() -> None:
    """vllm-project/vllm PR#18722: a first number above 0 is a gap, not a beginning."""
    publisher = Publisher()
    async with publisher.serve():
        await publish_chain(publisher, 1, 2, 3)
        await asyncio.sleep(0.2)
        heard = Heard().add(1)
        async with listening(heard, {1: publisher}) as ears:
            await publish_chain(publisher, 4)
            await ears.until(lambda: heard.blocks(PROMPT) == {1: 4}, "the first batches and the live one")
            assert ears.by_lane[1].state().complete


async def test_a_late_joiner_without_replay_says_that_its_view_is_partial() -> None:
    """vllm-project/vllm PR#18722: nobody can bring what was missed, and the router must know it."""
    publisher = Publisher()
    async with publisher.serve():
        await publish_chain(publisher, 1, 2, 3)
        await asyncio.sleep(0.2)
        heard = Heard().add(1)
        async with listening(heard, {1: publisher}, replay=False) as ears:
            await publish_chain(publisher, 4)
            await ears.until(lambda: ears.by_lane[1].state().last_seq == 3, "the live batch")
            assert heard.blocks(PROMPT) == {}
            state = ears.by_lane[1].state()
            assert (state.gaps, state.unfilled_gaps, state.complete) == (1, 1, False)


# --- clears ---


async def test_a_clear_empties_the_worker_that_said_it_and_no_other() -> None:
    """llm-d-kv-cache#537, vllm-project/aibrix#2287: the event was logged and nothing else."""
    heard = Heard().add(1, 2)
    one, two = Publisher(), Publisher()
    async with one.serve(), two.serve(), listening(heard, {1: one, 2: two}) as ears:
        for publisher in (one, two):
            await publish_chain(publisher, 1, 2, 3)
        await ears.until(lambda: heard.blocks(PROMPT) == {1: 3, 2: 3}, "both")
        await one.publish(cleared())
        await ears.until(lambda: heard.blocks(PROMPT) == {2: 3}, "the clear")
        await publish_chain(one, 1)
        await ears.until(lambda: heard.blocks(PROMPT) == {1: 1, 2: 3}, "what is stored after it")


async def test_one_rank_that_clears_or_restarts_leaves_the_other_ranks_blocks() -> None:
    """llm-d-router#2853, for one worker of several ranks: each has its own cache and its own sequence."""
    ranks = [Publisher(), Publisher()]
    engine = Engine(ranks)
    async with ranks[0].serve(), ranks[1].serve(), engine.serve() as url, routing(engine) as gateway:
        await soon(lambda: all_connected(gateway, 2), "both ranks are heard")
        await publish_chain(ranks[0], 1, 2, 3)
        await publish_chain(ranks[1], 1, 2)
        await soon(lambda: gateway.router.index.size() == 3 and warm_blocks(gateway, PROMPT) == {url: 3}, "both")
        await soon(lambda: sum(map(gateway.router.index.blocks, gateway.router.index.workers())) == 5, "both ranks")
        await ranks[0].publish(cleared())
        await soon(lambda: warm_blocks(gateway, PROMPT) == {url: 2}, "the other rank's blocks only")
        ranks[1].next_seq, ranks[1].buffer = 0, []
        await ranks[1].publish(stored([1], tokens(1)))
        await soon(lambda: warm_blocks(gateway, PROMPT) == {url: 1}, "the restarted rank's blocks only")


async def test_a_block_size_other_than_the_one_told_is_used_counted_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """vllm-project/vllm PR#26296, PR#50118: context parallelism multiplies it, and every lookup was a silent 0."""
    usual, other = Publisher(), Publisher()
    engines = Engine([usual]), Engine([other], block_size=2)
    prompt = list(range(64))
    async with usual.serve(), other.serve(), engines[0].serve(), engines[1].serve(), routing(*engines) as gateway:
        await soon(lambda: all_connected(gateway, 2), "both are heard")
        await usual.publish(stored(list(range(32)), prompt))
        await other.publish(stored(list(range(8)), prompt))
        expected = {engines[0].url: 64, engines[1].url: 64}
        await soon(lambda: warm_tokens(gateway, [*prompt, 7]) == expected, "equal scores in tokens")
        await asyncio.sleep(1.1)
        assert warm_tokens(gateway, [*prompt, 7]) == expected
        assert "warmroute_block_size_mismatches_total 1.0" in await metrics_page(gateway)
    told = [record.getMessage() for record in caplog.records]
    assert sum(default_name(WorkerId(engines[1].url)) in message and "tokens" in message for message in told) == 1


# --- membership ---


def all_connected(gateway: Gateway, streams: int) -> bool:
    """Whether there are that many event streams, each of them heard and caught up with."""
    reports = [member_report(member, gateway.router, 0.0) for member in gateway.fleet.members]
    found = [stream["connected"] and stream["complete"] for report in reports for stream in report["kv_events"]]
    return len(found) == streams and all(found)


async def test_a_removed_worker_leaves_nothing_and_its_queued_events_do_not_bring_it_back() -> None:
    """llm-d-router#1736, gateway-api-inference-extension#1289: its entries stayed, drew traffic and leaked."""
    publisher = Publisher()
    engine = Engine([publisher])
    async with publisher.serve(), engine.serve() as url, routing(engine) as gateway:
        await soon(lambda: all_connected(gateway, 1), "the worker is heard")
        await publish_chain(publisher, 1, 2, 3)
        await soon(lambda: warm_blocks(gateway, PROMPT) == {url: 3}, "its blocks")
        for number in range(100):
            await publisher.publish(stored([100 + number], tokens(100 + number)))
        assert await gateway.fleet.remove(WorkerId(url))
        for number in range(100):
            await publisher.publish(stored([300 + number], tokens(300 + number)))
        await asyncio.sleep(0.3)
        index = gateway.router.index
        index.check_integrity()
        assert (index.size(), index.workers(), index.stats()["orphans"]) == (0, [], 0)


async def test_a_worker_at_a_removed_ones_address_starts_with_nothing() -> None:
    """llm-d-router#1736: the address is reused, the cache is not."""
    old, new = Publisher(), Publisher()
    engine = Engine([old])
    async with old.serve(), new.serve(), engine.serve() as url, routing(engine) as gateway:
        await soon(lambda: all_connected(gateway, 1), "the worker is heard")
        await publish_chain(old, 1, 2, 3)
        await soon(lambda: warm_blocks(gateway, PROMPT) == {url: 3}, "its blocks")
        await gateway.fleet.remove(WorkerId(url))
        engine.publishers = [new]
        gateway.fleet.add(WorkerSpec(url))
        assert warm_blocks(gateway, PROMPT) == {}
        await soon(lambda: all_connected(gateway, 1), "the new one is heard")
        await publish_chain(old, 4)
        await publish_chain(new, 1)
        await soon(lambda: warm_blocks(gateway, PROMPT) == {url: 1}, "what the new one said")
        assert gateway.router.index.size() == 1


async def test_a_worker_that_is_not_ready_for_a_moment_keeps_its_view() -> None:
    """vllm-project/aibrix#2287 and others: a readiness blip wiped a view that events had kept true."""
    publisher = Publisher()
    engine = Engine([publisher])
    async with publisher.serve(), engine.serve() as url, routing(engine) as gateway:
        await soon(lambda: all_connected(gateway, 1), "the worker is heard")
        await publish_chain(publisher, 1, 2, 3)
        await soon(lambda: warm_blocks(gateway, PROMPT) == {url: 3}, "its blocks")
        engine.healthy = False
        await soon(lambda: warm_blocks(gateway, PROMPT) == {}, "it gets no requests")
        await publish_chain(publisher, 4)
        engine.healthy = True
        await soon(lambda: warm_blocks(gateway, PROMPT) == {url: 4}, "its blocks, the new one among them")


async def test_a_worker_without_events_is_told_once_and_tracked_by_what_it_is_sent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """dynamo PR#11194: it was taken as cold for good, and nobody was told."""
    silent = Engine()
    async with silent.serve() as url, routing(silent) as gateway:
        await soon(lambda: all_ready(gateway), "it is ready")
        await send(gateway, PROMPT)
        assert warm_blocks(gateway, PROMPT) == {url: 5}
        await asyncio.sleep(1.2)
        assert warm_blocks(gateway, PROMPT) == {url: 5}, "kept, for no event will confirm it"
        assert caplog.text.count(f"{default_name(WorkerId(url))} publishes no KV events") == 1


async def test_a_worker_without_events_is_seen_in_the_metrics() -> None:
    """dynamo PR#11194: beside one that publishes, the silent one must stand out."""
    publisher = Publisher()
    loud, silent = Engine([publisher]), Engine()
    async with publisher.serve(), loud.serve(), silent.serve(), routing(loud, silent) as gateway:
        await soon(lambda: all_ready(gateway) and all_connected(gateway, 1), "both are known")
        lines = [line for line in (await metrics_page(gateway)).splitlines() if "kv_events_complete{" in line]
        assert {url: line.endswith(" 1.0") for line in lines for url in (loud.url, silent.url) if url in line} == {
            loud.url: True,
            silent.url: False,
        }


def all_ready(gateway: Gateway) -> bool:
    return all(member.worker.status is WorkerStatus.READY for member in gateway.fleet.members)


async def send(gateway: Gateway, token_ids: list[int]) -> None:
    body = {"model": MODEL, "prompt": token_ids, "max_tokens": 1}
    async with aiohttp.ClientSession() as session, session.post(f"{gateway.url}/v1/completions", json=body) as response:
        assert response.status == 200, await response.text()


async def metrics_page(gateway: Gateway) -> str:
    async with aiohttp.ClientSession() as session, session.get(f"{gateway.admin_url}/metrics") as response:
        return await response.text()
