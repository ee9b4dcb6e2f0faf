"""AIBrix, `prefix-cache`: match percentage first, among pods that are not far busier than the others.

    most - least requests > 8   only the least loaded pods are matched
    sort                        by match percentage, then by requests
    take                        the first with requests <= mean + 1 standard deviation (of a sample)
    nobody                      the fewest requests

One table for all pods: a block (4 bytes by default, about a token) with the pods that were sent it; 200,000 blocks,
the least recently sent leaving first, and each after 20 minutes. Here a chunk of 16 tokens stands for 16 blocks, so
the table has 12,500. Later releases test most > 2 x (mean + 1) as well before they call the load imbalanced.
"""

import random
import statistics
from collections import OrderedDict
from collections.abc import Sequence

from warmroute.policy import Candidate, Cost, PolicyRequest
from warmroute.router import Decision
from warmroute.simulator.arm import Arm, Knob
from warmroute.simulator.rivals.choice import RANK, loads, taking
from warmroute.simulator.rivals.learner import Learner
from warmroute.simulator.rivals.prompt_blocks import CHARACTERS_PER_TOKEN, CHUNK_CHARACTERS, PromptBlocks
from warmroute.worker import LaneKey

IMBALANCE_REQUESTS = 8.0
TABLE_CHUNKS = 200_000 * CHARACTERS_PER_TOKEN // CHUNK_CHARACTERS
ENTRY_AGE_S = 20 * 60.0


class PrefixTable:
    """Which lanes were sent which chunk; times in seconds of the router's clock."""

    def __init__(self, most_chunks: int = TABLE_CHUNKS, age_s: float = ENTRY_AGE_S) -> None:
        self._most_chunks, self._age_s = most_chunks, age_s
        self._bits: dict[LaneKey, int] = {}
        self._entries: OrderedDict[int, tuple[float, int]] = OrderedDict()  # when, and the bits of all lanes

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, hashes: Sequence[int], lane: LaneKey, now: float) -> None:
        """Note that a lane was sent these chunks, and drop what is too old or too much."""
        entries, bit = self._entries, self._bits.setdefault(lane, 1 << len(self._bits))
        for chunk in hashes:
            _, lanes = entries.get(chunk, (now, 0))
            entries[chunk] = (now, lanes | bit)
            entries.move_to_end(chunk)
        while entries and (len(entries) > self._most_chunks or self._is_over(next(iter(entries.values()))[0], now)):
            entries.popitem(last=False)

    def percents(self, hashes: Sequence[int], among: Sequence[LaneKey], now: float) -> dict[LaneKey, int]:
        """The leading part of a prompt that each of these lanes was sent, in whole percent; none: left out."""
        bits = {lane: self._bits[lane] for lane in among if lane in self._bits}
        left, ends = sum(bits.values()), dict[int, int]()
        for place, chunk in enumerate(hashes):
            sent_at, lanes = self._entries.get(chunk, (now, 0))
            still = 0 if self._is_over(sent_at, now) else left & lanes
            if still != left:
                ends[left & ~still] = place
                left = still
            if not left:
                break
        ends[left] = len(hashes)
        found = {lane: next(end for gone, end in ends.items() if gone & bit) for lane, bit in bits.items()}
        return {lane: end * 100 // len(hashes) for lane, end in found.items() if end}

    def _is_over(self, sent_at: float, now: float) -> bool:
        return now - sent_at >= self._age_s


class AibrixPrefixCachePolicy(Learner):
    """`imbalance`: by how many requests loads may differ."""

    name = "aibrix-prefix-cache"
    unit = RANK

    def __init__(self, imbalance: float = IMBALANCE_REQUESTS) -> None:
        self._imbalance = imbalance
        self._blocks = PromptBlocks()
        self._table = PrefixTable()

    def costs(self, request: PolicyRequest, candidates: Sequence[Candidate], rng: random.Random) -> list[Cost]:
        load = loads(candidates)
        least = min(load)
        imbalanced = max(load) - least > self._imbalance
        among = [each.lane.key for each in candidates if not imbalanced or each.load.requests == least]
        percents = self._table.percents(self._blocks.of(request.token_ids), among, request.now)
        match = [percents.get(candidate.lane.key) for candidate in candidates]
        terms = [{"percent": float(part or 0), "requests": float(each)} for part, each in zip(match, load, strict=True)]
        return taking(_best(match, load), terms)

    def decided(self, decision: Decision) -> None:
        self._table.add(self._blocks.of(decision.request.token_ids), decision.lane.key, decision.decided_at)


def _best(match: Sequence[int | None], load: Sequence[int]) -> list[int]:
    """The positions that come first: best match that is not too busy, else fewest requests; several are equal."""
    most = statistics.fmean(load) + (statistics.stdev(load) if len(load) > 1 else 0.0)
    ranks = {
        position: (-part, load[position])
        for position, part in enumerate(match)
        if part is not None and load[position] <= most
    }
    if not ranks:
        ranks = {position: (0, each) for position, each in enumerate(load)}
    first = min(ranks.values())
    return [position for position, rank in ranks.items() if rank == first]


ARM = Arm(
    "aibrix-prefix-cache",
    "best match among pods within one standard deviation of the mean load",
    AibrixPrefixCachePolicy,
    "vllm-project/aibrix, pkg/plugins/gateway/algorithms/prefix_cache.go",
    hears_events=False,
    knob=Knob(
        "imbalance, requests",
        IMBALANCE_REQUESTS,
        (2.0, 4.0, IMBALANCE_REQUESTS, 16.0, 32.0, 64.0),
        AibrixPrefixCachePolicy,
    ),
)
