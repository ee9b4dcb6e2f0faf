"""The block pool against its readable twin, and the rules of vLLM's that it must keep."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine_model.naive_block_pool import NaiveBlockPool
from warmroute.engine_model.block_pool import BlockPool

_BLOCKS = 7
_HASHES = 5


@settings(deadline=None)
@given(st.data())
def test_every_operation_gives_what_the_twin_gives(data: st.DataObject) -> None:
    pool, twin = BlockPool(_BLOCKS), NaiveBlockPool(_BLOCKS)
    held: list[list[int]] = []
    for _ in range(data.draw(st.integers(0, 40))):
        operation = data.draw(st.sampled_from(["grow", "share", "release", "label", "reset"]))
        if operation == "grow" and pool.free_blocks:
            count = data.draw(st.integers(1, pool.free_blocks))
            blocks, lost = pool.take(count)
            taken = [twin.take() for _ in range(count)]
            assert blocks == [block for block, _ in taken]
            assert lost == [block_hash for _, block_hash in taken if block_hash is not None]
            joins: bool = data.draw(st.booleans())
            if held and joins:
                held[data.draw(st.integers(0, len(held) - 1))] += blocks
            else:
                held.append(blocks)
        elif operation == "share":
            found = pool.find(data.draw(st.integers(0, _HASHES)))
            if found is not None:
                pool.hold([found])
                twin.hold([found])
                held.append([found])
        elif operation == "release" and held:
            blocks = held.pop(data.draw(st.integers(0, len(held) - 1)))
            pool.release(blocks)
            twin.release(blocks)
        elif operation == "label" and held:
            block = held[data.draw(st.integers(0, len(held) - 1))][-1]
            if twin.blocks[block].block_hash is None:
                block_hash = data.draw(st.integers(0, _HASHES))
                pool.label(block, block_hash)
                twin.label(block, block_hash)
        elif operation == "reset":
            pool.unlabel_all()
            twin.unlabel_all()
        assert pool.free_blocks == twin.free_blocks
        assert pool.labels() == twin.labels()
        assert [pool.find(h) for h in range(_HASHES + 1)] == [twin.find(h) for h in range(_HASHES + 1)]
        leading = data.draw(st.lists(st.integers(0, _HASHES), max_size=4))
        assert pool.find_leading(leading) == list(itertools.takewhile(lambda b: b is not None, map(twin.find, leading)))
        pool.check_integrity(held)


def test_the_tail_of_a_request_is_evicted_before_its_beginning() -> None:
    pool = BlockPool(3)
    blocks, _ = pool.take(3)
    for block, block_hash in zip(blocks, (100, 101, 102), strict=True):
        pool.label(block, block_hash)
    pool.release(blocks)
    assert pool.take(3)[1] == [102, 101, 100]


def test_a_block_without_hash_is_used_before_any_cached_one() -> None:
    pool = BlockPool(3)
    blocks, _ = pool.take(3)
    pool.label(blocks[0], 100)
    pool.label(blocks[1], 101)
    pool.release(blocks)
    assert pool.take() == ([blocks[2]], [])


def test_a_hash_stays_findable_until_its_last_copy_is_reused() -> None:
    pool = BlockPool(2)
    (first, second), _ = pool.take(2)
    pool.label(first, 100)
    pool.label(second, 100)
    assert pool.find(100) == first
    pool.release([first])
    pool.release([second])
    assert pool.take() == ([first], [100])
    assert pool.find(100) == second
    assert pool.take() == ([second], [100])
    assert pool.find(100) is None


def test_the_integrity_check_sees_a_lost_block() -> None:
    pool = BlockPool(2)
    (block,), _ = pool.take()
    with pytest.raises(AssertionError, match="holders differ"):
        pool.check_integrity([])
    pool.check_integrity([[block]])
