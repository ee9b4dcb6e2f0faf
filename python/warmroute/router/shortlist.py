"""Of a large fleet the workers that are worth a closer look.

Making a cost for each worker takes 2.5 us: for a thousand of them more than all else that a request needs. Only two
kinds can be the cheapest, those that hold much of the prompt and those that have little to do. So where there are more
than `MOST_CONSIDERED`, half of as many are taken of each kind: the most blocks held, then the fewest requests.
"""

from collections.abc import Mapping, Sequence

from warmroute.block import BlockHashes
from warmroute.policy import Policy
from warmroute.prefix_index import PrefixIndex
from warmroute.worker import LaneKey, Worker, WorkerTable

MOST_CONSIDERED = 32


def considers_all(policy: Policy) -> bool:
    """Whether a policy must see every worker, as one that takes turns; one that does not say so is shown all."""
    return bool(getattr(policy, "considers_all", True))


def shortlist(
    workers: Sequence[Worker], hashes: Mapping[int, BlockHashes], index: PrefixIndex, table: WorkerTable, now: float
) -> Sequence[Worker]:
    """At most `MOST_CONSIDERED` of `workers`, in no order that means anything."""
    among = set(workers)
    most = MOST_CONSIDERED // 2
    found: dict[Worker, None] = {}
    for size in hashes:
        for lane in index.holders(hashes[size], now, most):
            worker = table.worker_of(LaneKey(lane))
            if worker is not None and worker in among:
                found[worker] = None
    holders = list(found)[:most]
    lightest = table.lightest(MOST_CONSIDERED - len(holders), among.difference(holders))
    return [*holders, *lightest]
