"""Engines of several block sizes are compared in tokens, in the sizes that they really announce."""

import pytest

from router.fleet import BLOCK_SIZE, MODEL, Fleet
from warmroute.block import Tier
from warmroute.router.block_sizes import MOST_BLOCK_SIZES, most_used
from warmroute.worker import WorkerFacts

_PROMPT = list(range(1024))


def test_a_fleet_of_two_block_sizes_is_compared_in_tokens() -> None:
    fleet = Fleet("AB")
    fleet.router.learn(fleet.workers["B"], WorkerFacts({MODEL: False}, 64, 10_000))
    fleet.holds("A", _PROMPT)
    fleet.holds("B", _PROMPT, block_size=64)
    decision = fleet.route(fleet.request([*_PROMPT, 1]))
    assert [line.cached_tokens for line in decision.considered] == [1024, 1024]
    assert [line.overlap.blocks for line in decision.considered] == [64, 16]


def test_offloaded_chunks_count_beside_the_blocks_in_the_gpu() -> None:
    fleet = Fleet("A")
    fleet.holds("A", _PROMPT[:160])
    fleet.holds("A", _PROMPT, Tier.HOST, block_size=256)
    decision = fleet.route(fleet.request([*_PROMPT, 1]))
    assert decision.cached_tokens == 1024
    assert decision.chosen.overlap.host == 4
    assert fleet.route(fleet.request([*_PROMPT[:160], 1]), now=0.1).cached_tokens == 160


def test_predictions_are_made_in_the_size_of_the_gpus_blocks() -> None:
    fleet = Fleet("A")
    fleet.holds("A", _PROMPT[:512], Tier.HOST, block_size=256)
    fleet.holds("A", _PROMPT[:BLOCK_SIZE])
    first = fleet.route(fleet.request([*_PROMPT, 1]))
    assert (first.foundation.block_size, first.foundation.held_blocks) == (BLOCK_SIZE, 1)
    assert first.cached_tokens == 512
    assert fleet.route(fleet.request([*_PROMPT, 1]), now=0.1).cached_tokens == 1024


def test_blocks_of_another_size_than_told_are_matched_logged_once_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    fleet = Fleet("AB")
    fleet.holds("A", _PROMPT, block_size=32)
    fleet.holds("B", _PROMPT)
    for i in range(5):
        decision = fleet.route(fleet.request([*_PROMPT, 1]), now=2.0 * i)
        assert [line.cached_tokens for line in decision.considered] == [1024, 1024]
        assert decision.foundation.block_size == (32 if fleet.name_of(decision) == "A" else BLOCK_SIZE)
        fleet.complete(decision)
    assert caplog.text.count(": its KV events have blocks of 32 tokens, not of 16") == 1
    assert len(caplog.records) == 1
    assert fleet.router.block_sizes.mismatches == 1


def test_offloaded_chunks_alone_are_no_contradiction_once_blocks_were_told(caplog: pytest.LogCaptureFixture) -> None:
    fleet = Fleet("A")
    fleet.holds("A", _PROMPT[:16])
    fleet.route(fleet.request(_PROMPT))
    fleet.router.index.clear(fleet.workers["A"].lanes[0].key)
    fleet.holds("A", _PROMPT, Tier.HOST, block_size=256)
    assert fleet.route(fleet.request([*_PROMPT, 1]), now=5.0).cached_tokens == 1024
    assert not caplog.records


def test_a_worker_that_names_no_size_is_matched_in_what_it_announces() -> None:
    fleet = Fleet("A")
    fleet.router.learn(fleet.workers["A"], WorkerFacts({MODEL: False}))
    fleet.holds("A", _PROMPT, block_size=128)
    decision = fleet.route(fleet.request([*_PROMPT, 1]))
    assert (decision.cached_tokens, decision.foundation.block_size) == (1024, 128)


def test_a_size_is_noticed_within_a_second() -> None:
    fleet = Fleet("A")
    fleet.complete(fleet.route(fleet.request(None), now=0.0))
    fleet.holds("A", _PROMPT, block_size=64)
    assert fleet.route(fleet.request([*_PROMPT, 1]), now=1.0).cached_tokens == 1024


def test_a_prompt_is_hashed_for_the_most_used_sizes_only() -> None:
    lanes = [(16, 256)] * 3 + [(32,)] * 2 + [(64,)] * 2 + [(1,), (2,)]
    assert set(most_used(lanes)) == {16, 256, 32, 64}
    assert len(most_used([(size,) for size in range(1, 100)])) == MOST_BLOCK_SIZES
    assert most_used([(16,), (32, 16)]) == [16, 32]
    assert most_used([]) == []


def test_a_worker_of_a_size_that_is_not_looked_up_still_gets_requests() -> None:
    fleet = Fleet("ABCDEFG")
    for size, worker in enumerate(fleet.workers.values(), start=5):
        fleet.router.learn(worker, WorkerFacts({MODEL: False}, size, 10_000))
    homes = {fleet.name_of(fleet.route(fleet.request(_PROMPT[i:]), now=float(i))) for i in range(7)}
    assert homes == set("ABCDEFG")
