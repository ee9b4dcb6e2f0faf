"""The index and its naive twin agree after every step of very many random sequences."""

import os
import random
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import pytest

from prefix_index.naive import NaivePrefixIndex
from prefix_index.sequences import (
    ORPHAN_LIMIT,
    Operation,
    Prompt,
    Twins,
    check_seeds,
    disagreement,
    random_operation,
    random_sequence,
    shrunk,
)
from warmroute.block import EngineHash, Overlap, Tier
from warmroute.prefix_index import PrefixIndex

SLOW_SEQUENCES = int(os.environ.get("WARMROUTE_SEQUENCES", "120000"))
_SEEDS_PER_TASK = 500


def test_some_hundred_sequences() -> None:
    assert check_seeds(range(800)) == 800


@pytest.mark.slow
@pytest.mark.timeout(1_500)
def test_very_many_sequences() -> None:
    first = random.SystemRandom().randrange(10**9)
    parts = [range(start, start + _SEEDS_PER_TASK) for start in range(first, first + SLOW_SEQUENCES, _SEEDS_PER_TASK)]
    # Not forked: the interpreter has threads by now.
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as processes:
        done = sum(processes.map(check_seeds, parts))
    sys.stderr.write(f"\n{done} random sequences from seed {first} on: the index and its twin agree after every step\n")
    assert done >= SLOW_SEQUENCES


def test_the_sequences_do_what_they_should() -> None:
    """Each operation comes up, sequences reach all kinds of answers, and a seed gives the same one again."""
    operations = [operation for seed in range(300) for operation in random_sequence(seed)]
    assert random_sequence(7) == random_sequence(7) != random_sequence(8)
    assert len({operation.name for operation in operations}) == 12
    stats: dict[str, int] = {}
    overlaps: set[str] = set()
    for seed in range(300):
        twins = Twins()
        for operation in random_sequence(seed):
            twins.apply(operation)
            found = twins.index.match(Prompt((0,) * 8, 1).hashes, 10.0).values()
            overlaps.update(field for overlap in found for field in Overlap.__match_args__ if getattr(overlap, field))
        stats = {name: stats.get(name, 0) + value for name, value in twins.index.stats().items()}
    assert overlaps == set(Overlap.__match_args__), "every tier and predictions have been credited"
    counted = ("rejected", "ignored", "replaced", "linked", "orphans_dropped", "orphans_contradicted")
    assert {name for name in counted if not stats[name]} == set()


def test_a_disagreement_is_found_and_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check can fail: a twin that forgets what is removed from the host tier is caught by three operations."""
    right = NaivePrefixIndex.remove

    def wrong(naive: NaivePrefixIndex, worker: int, tier: Tier, names: Sequence[EngineHash]) -> None:
        if tier is not Tier.HOST:
            right(naive, worker, tier, names)

    monkeypatch.setattr(NaivePrefixIndex, "remove", wrong)
    broken = next(found for seed in range(1_000) if disagreement(found := random_sequence(seed)))
    fewest = shrunk(broken)
    assert len(fewest) <= 3
    assert fewest[-1].name == "remove"
    assert disagreement(fewest)
    with pytest.raises(AssertionError, match=r"seed \d+: step \d+"):
        check_seeds(range(1_000))


def work(twins: Twins, seed: int, count: int) -> None:
    """Operations on one worker of a shared index, which nobody else names."""
    rng = random.Random(seed)
    done = 0
    while done < count:
        operation = random_operation(rng, twins.workers)
        if operation.name in ("match", "expire", "restart", "restore_from"):
            continue  # they concern the other workers as well
        twins.apply(operation)
        twins.compare_workers()
        done += 1


def look(index: PrefixIndex, seed: int, count: int) -> None:
    """What a reader sees while others write is a possible answer: contiguous counts of known workers."""
    rng = random.Random(seed)
    prompt = Prompt((0,) * 8, 1)
    for _ in range(count):
        for worker, overlap in index.match(prompt.hashes, float(rng.randrange(20))).items():
            assert worker in range(8)
            assert 0 < overlap.blocks <= len(prompt.prefixes)


def run_threads(seed: int, operations: int) -> None:
    """Six writers, each on its own worker with a twin of its own, and two readers, over one index."""
    index = PrefixIndex(ORPHAN_LIMIT)
    writers = [Twins((worker,), index) for worker in range(6)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(8) as threads:
            tasks = [threads.submit(work, twins, seed + twins.workers[0], operations) for twins in writers]
            tasks += [threads.submit(look, index, seed + reader, operations) for reader in (6, 7)]
            for task in tasks:
                task.result(timeout=600)
    finally:
        sys.setswitchinterval(interval)
    index.check_integrity()
    for twins in writers:
        assert twins.index.blocks(twins.workers[0]) == twins.naive.blocks(twins.workers[0])
    everybody(index, writers)


def everybody(index: PrefixIndex, writers: list[Twins]) -> None:
    """All twins together say what the shared index says."""
    for size in (1, 2):
        probe = Prompt((0,) * 8 * size, size)
        expected: dict[int, Overlap] = {}
        for twins in writers:
            expected |= twins.naive.match(probe.prefixes, 10.0)
        assert index.match(probe.hashes, 10.0) == expected
    held = [
        (*known.stands_for.values(), *known.predictions) for twins in writers for known in twins.naive.known.values()
    ]
    assert index.size() == len({prefix for prefixes in held for prefix in prefixes})
    assert index.stats()["orphans"] == sum(twins.naive.orphans() for twins in writers)


@pytest.mark.parametrize("seed", range(0, 40, 8))
def test_threads_on_different_workers_do_not_disturb_each_other(seed: int) -> None:
    run_threads(seed, 200)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_threads_on_different_workers_do_not_disturb_each_other_for_long() -> None:
    for seed in range(0, 800, 8):
        run_threads(seed, 1_000)


def test_an_operation_tells_itself_so_that_it_can_be_pasted() -> None:
    operation = Operation("clear", (1,))
    assert repr(operation) == "Operation(name='clear', arguments=(1,))"
