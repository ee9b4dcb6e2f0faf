"""What the index must do, one behaviour a test; most were learned from routers that did otherwise."""

import math

import pytest

from warmroute.block import BlockHashes, EngineHash, Namespace, Overlap, Tier, hash_blocks
from warmroute.prefix_index import PrefixIndex

SIZE = 4
PLAIN = Namespace()


def tokens(*blocks: int) -> list[int]:
    """One block of equal ids for each number."""
    return [block for block in blocks for _ in range(SIZE)]


def prompt(*blocks: int, namespace: Namespace = PLAIN) -> BlockHashes:
    return hash_blocks(tokens(*blocks), SIZE, namespace)


@pytest.fixture
def index() -> PrefixIndex:
    index = PrefixIndex()
    for worker in (1, 2):
        index.add_worker(worker, 100)
    return index


def store(
    index: PrefixIndex,
    names: list[EngineHash],
    blocks: list[int],
    parent: EngineHash | None = None,
    worker: int = 1,
    tier: Tier = Tier.DEVICE,
) -> tuple[int, int, int, int, int, int]:
    result = index.store(worker, tier, parent, names, tokens(*blocks), SIZE)
    index.check_integrity()
    return (result.stored, result.duplicate, result.orphaned, result.rejected, result.ignored, result.linked)


def matched(index: PrefixIndex, *blocks: int, worker: int = 1) -> int:
    return index.match(prompt(*blocks), 0.0).get(worker, Overlap()).blocks


def test_an_event_is_a_chain_not_a_bunch(index: PrefixIndex) -> None:
    store(index, [10], [1])
    assert store(index, [11, 12, 13], [2, 3, 4], parent=10) == (3, 0, 0, 0, 0, 0)
    assert matched(index, 1, 2, 3, 4) == 4
    assert matched(index, 1, 3) == 1


def test_blocks_match_from_the_start_only(index: PrefixIndex) -> None:
    store(index, [11], [2], worker=1)
    store(index, [10], [1], worker=2)
    assert index.match(prompt(1, 2), 0.0) == {2: Overlap(device=1)}


def test_a_hole_ends_the_match(index: PrefixIndex) -> None:
    store(index, [10, 11, 12], [1, 2, 3])
    assert index.remove(1, Tier.DEVICE, [11]) == 1
    assert matched(index, 1, 2, 3) == 1
    assert store(index, [11], [2], parent=10) == (1, 0, 0, 0, 0, 0)
    assert matched(index, 1, 2, 3) == 3


@pytest.mark.parametrize(
    ("said", "meant"),
    [(-27, 2**64 - 27), (2**64 - 1, -1), (-(2**63), 2**63), (100, 100), (b"\0" * 32, b"\0" * 32), (b"", b"")],
)
def test_an_engine_hash_has_one_key_however_it_is_written(
    index: PrefixIndex, said: EngineHash, meant: EngineHash
) -> None:
    store(index, [said], [1])
    assert store(index, [5], [2], parent=meant) == (1, 0, 0, 0, 0, 0)
    assert index.remove(1, Tier.DEVICE, [meant, 5]) == 2
    assert index.size() == 0


def test_bytes_and_integers_never_meet(index: PrefixIndex) -> None:
    store(index, [100], [1])
    assert index.remove(1, Tier.DEVICE, [(100).to_bytes(8, "big"), (100).to_bytes(8, "little"), b"100", b"d"]) == 0
    assert matched(index, 1) == 1


def test_engine_hashes_are_each_workers_own(index: PrefixIndex) -> None:
    store(index, [10], [1], worker=1)
    store(index, [10], [2], worker=2)
    assert index.match(prompt(1), 0.0) == {1: Overlap(device=1)}
    assert index.match(prompt(2), 0.0) == {2: Overlap(device=1)}


def test_a_store_whose_parent_is_unknown_waits_and_is_not_taken_for_a_root(index: PrefixIndex) -> None:
    assert store(index, [13], [3], parent=12) == (0, 0, 1, 0, 0, 0)
    assert store(index, [14], [4], parent=13) == (0, 0, 1, 0, 0, 0)
    assert (matched(index, 3), matched(index, 3, 4), index.stats()["orphans"]) == (0, 0, 2)
    assert store(index, [11, 12], [1, 2]) == (2, 0, 0, 0, 0, 2)
    assert (matched(index, 1, 2, 3, 4), index.stats()["orphans"]) == (4, 0)


def test_an_orphan_that_is_removed_does_not_come_back(index: PrefixIndex) -> None:
    store(index, [12], [2], parent=11)
    store(index, [12], [2], parent=11, tier=Tier.HOST)
    assert index.remove(1, Tier.DEVICE, [12]) == 0
    store(index, [11], [1])
    assert index.match(prompt(1, 2), 0.0) == {1: Overlap(device=1, host=1)}


def test_an_orphan_does_not_override_what_came_later(index: PrefixIndex) -> None:
    store(index, [12], [2], parent=11)
    store(index, [12], [9])
    assert store(index, [11], [1]) == (1, 0, 0, 0, 0, 0)
    assert (matched(index, 1, 2), matched(index, 9), index.stats()["orphans_contradicted"]) == (1, 1, 1)


def test_copies_are_counted(index: PrefixIndex) -> None:
    store(index, [1, 2, 3], [1, 2, 3], tier=Tier.HOST)
    assert store(index, [3, 4, 5], [3, 4, 5], parent=2, tier=Tier.HOST) == (2, 1, 0, 0, 0, 0)
    assert index.remove(1, Tier.HOST, [1, 2, 3]) == 3
    assert store(index, [1, 2], [1, 2], tier=Tier.HOST) == (2, 0, 0, 0, 0, 0)
    assert matched(index, 1, 2, 3, 4, 5) == 5
    assert index.remove(1, Tier.HOST, [3]) == 1
    assert matched(index, 1, 2, 3, 4, 5) == 2


def test_removing_more_than_there_is_changes_nothing(index: PrefixIndex) -> None:
    store(index, [1, 2], [1, 2])
    assert index.remove(1, Tier.DEVICE, [99, 1, 1, 2, 2, b"?"]) == 2
    assert store(index, [1], [1]) == (1, 0, 0, 0, 0, 0)
    assert matched(index, 1) == 1


def test_two_engine_hashes_may_stand_for_one_block(index: PrefixIndex) -> None:
    store(index, [1], [1])
    assert store(index, [b"lmcache"], [1]) == (0, 1, 0, 0, 0, 0)
    index.remove(1, Tier.DEVICE, [1])
    assert (matched(index, 1), index.blocks(1)) == (1, 1)
    index.remove(1, Tier.DEVICE, [b"lmcache"])
    assert index.size() == 0


def test_the_latest_store_says_what_an_engine_hash_stands_for(index: PrefixIndex) -> None:
    store(index, [1], [1])
    store(index, [1], [1], tier=Tier.HOST)
    assert store(index, [1], [2]) == (1, 0, 0, 0, 0, 0)
    assert (matched(index, 1), matched(index, 2), index.stats()["replaced"]) == (0, 1, 1)
    assert index.remove(1, Tier.DEVICE, [1, 1]) == 2
    assert index.match(prompt(2), 0.0) == {1: Overlap(host=1)}
    assert index.remove(1, Tier.HOST, [1]) == 1
    assert index.size() == 0


@pytest.mark.parametrize(
    ("names", "parent"), [([5, 5], None), ([5], 5), ([5, 6, 5], None), ([5, 6], 6), ([-1], 2**64 - 1), ([b"a"] * 2, 1)]
)
def test_a_block_that_is_its_own_ancestor_is_skipped(
    index: PrefixIndex, names: list[EngineHash], parent: EngineHash | None
) -> None:
    store(index, [1], [1])
    assert store(index, names, [7] * len(names), parent) == (0, 0, 0, len(names), 0, 0)
    assert (matched(index, 1), index.size(), index.stats()["rejected"]) == (1, 1, len(names))


def test_orphans_that_wait_for_each_other_end_nothing(index: PrefixIndex) -> None:
    assert store(index, [1], [1], parent=2) == (0, 0, 1, 0, 0, 0)
    assert store(index, [2], [2], parent=1) == (0, 0, 1, 0, 0, 0)
    assert index.size() == 0
    assert store(index, [2], [2]) == (1, 0, 0, 0, 0, 1)
    assert (matched(index, 2, 1), index.stats()["orphans"], index.stats()["orphans_contradicted"]) == (2, 0, 1)


@pytest.mark.parametrize(
    ("count", "block_size"), [(0, SIZE), (3, SIZE), (5, SIZE), (8, SIZE), (4, 0), (0, 0), (4, -SIZE), (4, 2**40)]
)
def test_a_store_with_the_wrong_number_of_tokens_is_skipped(index: PrefixIndex, count: int, block_size: int) -> None:
    assert index.store(1, Tier.DEVICE, None, [1], [7] * count, block_size).rejected == 1
    assert index.size() == 0


def test_a_store_with_the_wrong_number_of_keys_is_skipped(index: PrefixIndex) -> None:
    assert index.store(1, Tier.DEVICE, None, [1, 2], tokens(1, 2), SIZE, PLAIN, [None]).rejected == 2


def test_an_empty_store_does_nothing(index: PrefixIndex) -> None:
    assert store(index, [], []) == (0, 0, 0, 0, 0, 0)


def test_clearing_leaves_other_workers_alone(index: PrefixIndex) -> None:
    for worker in (1, 2):
        store(index, [1, 2, 3], [1, 2, 3], worker=worker)
    store(index, [9], [9], parent=8)
    index.predict(1, prompt(5, 6), math.inf)
    assert index.clear(1) == 5
    assert index.match(prompt(1, 2, 3), 0.0) == {2: Overlap(device=3)}
    assert (index.blocks(1), index.stats()["orphans"], index.stats()["predictions"]) == (0, 0, 0)
    assert store(index, [1], [1]) == (1, 0, 0, 0, 0, 0)


def test_late_events_do_not_bring_a_forgotten_worker_back(index: PrefixIndex) -> None:
    store(index, [1, 2], [1, 2])
    assert index.forget(1) == 2
    assert store(index, [1, 2], [1, 2]) == (0, 0, 0, 0, 2, 0)
    index.predict(1, prompt(1, 2), math.inf)
    assert index.remove(1, Tier.DEVICE, [1]) == 0
    assert (index.clear(1), index.forget(1), index.size(), index.workers()) == (0, 0, 0, [2])
    assert index.stats()["ignored"] == 4
    index.add_worker(3, 0)
    assert (index.blocks(3), index.workers()) == (0, [2, 3])


def test_adapters_and_salts_keep_equal_tokens_apart(index: PrefixIndex) -> None:
    spaces = [PLAIN, Namespace("ad-1"), Namespace("ad-2"), Namespace(None, "a"), Namespace("ad-1", "a")]
    for held in spaces:
        index.store(1, Tier.DEVICE, None, [1], tokens(1), SIZE, held)
        assert [index.match(prompt(1, namespace=asked), 0.0) != {} for asked in spaces] == [s == held for s in spaces]
        index.clear(1)


def test_children_inherit_the_namespace_of_their_parent(index: PrefixIndex) -> None:
    salted = Namespace(None, "a")
    index.store(1, Tier.DEVICE, None, [1], tokens(1), SIZE, salted)
    index.store(1, Tier.DEVICE, 1, [2], tokens(2), SIZE)
    assert index.match(prompt(1, 2, namespace=salted), 0.0) == {1: Overlap(device=2)}
    assert index.match(prompt(1, 2), 0.0) == {}


def test_images_keep_equal_placeholder_tokens_apart(index: PrefixIndex) -> None:
    index.store(1, Tier.DEVICE, None, [1, 2, 3], tokens(1, 0, 2), SIZE, PLAIN, [None, b"cat", None])
    cat, dog = (hash_blocks(tokens(1, 0, 2), SIZE, PLAIN, [None, image, None]) for image in (b"cat", b"dog"))
    assert index.match(cat, 0.0) == {1: Overlap(device=3)}
    assert index.match(dog, 0.0) == {1: Overlap(device=1)}
    assert index.match(prompt(1, 0, 2), 0.0) == {1: Overlap(device=1)}


def test_workers_of_different_block_sizes_are_asked_in_their_own(index: PrefixIndex) -> None:
    ids = list(range(256))
    index.store(1, Tier.DEVICE, None, list(range(16)), ids, 16)
    index.store(2, Tier.DEVICE, None, list(range(4)), ids, 64)
    assert index.match(hash_blocks(ids, 16, PLAIN), 0.0) == {1: Overlap(device=16)}
    assert index.match(hash_blocks(ids, 64, PLAIN), 0.0) == {2: Overlap(device=4)}


def test_each_block_counts_once_under_its_best_source(index: PrefixIndex) -> None:
    store(index, [1, 2, 3, 4], [1, 2, 3, 4], tier=Tier.REMOTE)
    store(index, [1, 2, 3], [1, 2, 3], tier=Tier.DISK)
    store(index, [1, 2], [1, 2], tier=Tier.HOST)
    store(index, [1], [1])
    index.predict(1, prompt(1, 2, 3, 4, 5), math.inf)
    overlap = index.match(prompt(1, 2, 3, 4, 5, 6), 0.0)[1]
    assert overlap == Overlap(device=1, host=1, disk=1, remote=1, predicted=1)
    assert overlap.blocks == 5


def test_offloading_keeps_the_block_in_the_other_tier(index: PrefixIndex) -> None:
    store(index, [1, 2], [1, 2])
    assert index.store_known(1, Tier.HOST, [1, 2, 99]) == 2
    assert index.remove(1, Tier.DEVICE, [1, 2]) == 2
    assert index.match(prompt(1, 2), 0.0) == {1: Overlap(host=2)}
    assert index.remove(1, Tier.DEVICE, [1]) == 0
    assert index.remove(1, Tier.HOST, [1, 2]) == 2
    assert index.size() == 0


def test_a_prediction_lasts_until_its_time(index: PrefixIndex) -> None:
    index.predict(1, prompt(1, 2), 5.0)
    assert index.match(prompt(1, 2, 3), 4.99) == {1: Overlap(predicted=2)}
    assert index.match(prompt(1, 2, 3), 5.0) == {}
    assert (index.expire(4.99), index.expire(5.0), index.expire(5.0), index.size()) == (0, 2, 0, 0)


def test_predicting_again_extends_the_time_of_shared_blocks_only(index: PrefixIndex) -> None:
    index.predict(1, prompt(1, 2), 5.0)
    index.predict(1, prompt(1, 3), 9.0)
    assert index.expire(5.0) == 1
    assert (matched(index, 1, 2), matched(index, 1, 3)) == (1, 2)


def test_an_expiring_prediction_never_takes_what_is_confirmed(index: PrefixIndex) -> None:
    index.predict(1, prompt(1, 2), 5.0)
    store(index, [1], [1])
    assert index.match(prompt(1, 2), 0.0) == {1: Overlap(device=1, predicted=1)}
    assert index.expire(5.0) == 1
    assert index.match(prompt(1, 2), 9.0) == {1: Overlap(device=1)}
    index.predict(1, prompt(1), 20.0)
    assert (index.expire(20.0), matched(index, 1)) == (0, 1)


def test_a_confirmed_prediction_ends_when_the_engine_removes_the_block(index: PrefixIndex) -> None:
    index.predict(1, prompt(1), math.inf)
    store(index, [1], [1])
    index.remove(1, Tier.DEVICE, [1])
    assert index.match(prompt(1), 0.0) == {}


def test_predictions_beyond_the_limit_go_oldest_prompt_and_tail_first() -> None:
    index = PrefixIndex()
    index.add_worker(1, 4)
    index.predict(1, prompt(1, 2), math.inf)
    index.predict(1, prompt(3, 4), math.inf)
    index.predict(1, prompt(1, 2), math.inf)
    index.predict(1, prompt(5), math.inf)
    assert [matched(index, 1, 2), matched(index, 3, 4), matched(index, 5)] == [2, 1, 1]
    assert index.stats()["predictions_evicted"] == 1
    index.add_worker(1, 1)
    assert [matched(index, 1, 2), matched(index, 3, 4), matched(index, 5)] == [0, 0, 1]


def test_orphans_are_bounded() -> None:
    index = PrefixIndex(orphan_limit=3)
    index.add_worker(1, 0)
    for name in range(10, 15):
        store(index, [name], [name], parent=1)
    assert (index.stats()["orphans"], index.stats()["orphans_dropped"]) == (3, 2)
    assert store(index, [1], [1]) == (1, 0, 0, 0, 0, 3)
    assert [matched(index, 1, name) for name in range(10, 15)] == [1, 1, 2, 2, 2]


@pytest.mark.parametrize("name", [2**64, -(2**63) - 1, 2**200])
def test_integers_beyond_64_bits_are_no_engine_hashes(index: PrefixIndex, name: int) -> None:
    with pytest.raises(ValueError, match="does not fit in 64 bits"):
        index.store(1, Tier.DEVICE, None, [name], tokens(1), SIZE)
    with pytest.raises(ValueError, match="does not fit in 64 bits"):
        index.remove(1, Tier.DEVICE, [name])


@pytest.mark.parametrize("name", [None, 1.0, "1", True, [1], bytearray(b"1")])
def test_other_types_are_no_engine_hashes(index: PrefixIndex, name: EngineHash) -> None:
    with pytest.raises(TypeError, match="an engine hash is an int or bytes"):
        index.store(1, Tier.DEVICE, None, [name], tokens(1), SIZE)
    assert index.size() == 0


def test_times_that_are_none_are_refused(index: PrefixIndex) -> None:
    with pytest.raises(ValueError, match="expires_at"):
        index.predict(1, prompt(1), math.nan)
    for now in (math.nan, math.inf):
        with pytest.raises(ValueError, match="now is"):
            index.match(prompt(1), now)
        with pytest.raises(ValueError, match="now is"):
            index.expire(now)


def test_nothing_stays_of_what_is_removed(index: PrefixIndex) -> None:
    for number in range(2_000):
        store_and_remove(index, number)
    gone = {"blocks": 0, "engine_hashes": 0, "orphans": 0, "predictions": 0}
    assert {name: index.stats()[name] for name in gone} == gone


def store_and_remove(index: PrefixIndex, number: int) -> None:
    names = list(range(10 * number, 10 * number + 5))
    index.store(1, Tier.DEVICE, None, names, tokens(*names), SIZE)
    assert index.remove(1, Tier.DEVICE, names) == 5
