"""The index is shared by the event loop and the subscribers' threads."""

import math
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from warmroute.block import Namespace, Overlap, Tier, hash_blocks
from warmroute.prefix_index import PrefixIndex

SIZE = 1
BLOCKS = 2_100
"""More than run with the interpreter held."""


def tokens(worker: int) -> list[int]:
    return [worker] * (SIZE * BLOCKS)


def test_writers_and_readers_of_several_threads_leave_a_consistent_index() -> None:
    index = PrefixIndex()
    names = list(range(BLOCKS))

    def write(worker: int) -> None:
        index.add_worker(worker, BLOCKS)
        for _ in range(10):
            assert index.store(worker, Tier.DEVICE, None, names, tokens(worker), SIZE).stored == BLOCKS
            assert index.remove(worker, Tier.DEVICE, names) == BLOCKS
            index.predict(worker, hash_blocks(tokens(worker), SIZE, Namespace()), math.inf)
            assert index.clear(worker) == BLOCKS

    def read(worker: int) -> None:
        hashes = hash_blocks(tokens(worker), SIZE, Namespace())
        for _ in range(100):
            for overlap in index.match(hashes, 0.0).values():
                assert overlap in (Overlap(device=overlap.blocks), Overlap(predicted=overlap.blocks))

    with ThreadPoolExecutor(6) as threads:
        tasks = [threads.submit(task, worker) for worker in range(3) for task in (write, read)]
        for task in tasks:
            task.result(timeout=50)
    index.check_integrity()
    assert index.size() == 0


def progresses_during(call: Callable[[], object]) -> bool:
    """Whether another thread runs while `call` does, which only a call that releases the interpreter allows.

    A thread may be woken too late to make use of it, so a False is a proof only where it comes every time.
    """
    called, progressed = threading.Event(), threading.Event()

    def other() -> None:
        called.wait(10)
        progressed.set()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(100)  # nobody is interrupted: control changes hands only where it is given
    thread = threading.Thread(target=other)
    try:
        thread.start()
        called.set()
        call()
        return progressed.is_set()
    finally:
        sys.setswitchinterval(interval)
        thread.join(10)


def test_long_calls_let_other_threads_run_and_short_ones_do_not() -> None:
    names = list(range(50_000))
    ids = [7] * len(names)
    index = PrefixIndex()
    index.add_worker(1, 0)
    hashes = hash_blocks(ids, 1, Namespace())

    def store() -> None:
        # Not in the GPU: there one lookup jumps over all of it, too short for anybody to be woken meanwhile.
        index.store(1, Tier.HOST, None, names, ids, 1)

    assert any(progresses_during(store) for _ in range(50))
    assert any(progresses_during(lambda: index.match(hashes, 0.0)) for _ in range(200))
    assert not any(progresses_during(lambda: index.match(hashes.prefix(16), 0.0)) for _ in range(5))
