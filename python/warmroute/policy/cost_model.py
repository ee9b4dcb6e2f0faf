"""The policy `warmroute`: what the request costs on each worker, in seconds.

    prefill   our prompt tokens that the worker does not hold, at its prefill rate, which falls with what stands before
              them, or their way back from a slower tier where that is quicker
    queue     the prompt tokens booked before ours and not computed yet, at the same rate
    room      those who wait in the engine for a place or for memory, and we behind them: until as many have ended
    decode    our answer's tokens, each slowed by everybody who already runs there, and everybody slowed by ours
    stall     our prefill, once for whoever comes next (without this a burst of equal prompts is scattered, each
              computing what it could have waited for), and for each request there, whose next tokens it holds up

Every term is a time that somebody waits, so they add up without weights, but for one: a second by which an answer comes
late that streams already counts as a quarter (`STREAMING`) of one without a first token. Prefill and decode share the
engine's steps (step time = base + slope x running + prefill tokens / rate), which is where the last two come from.
"""

import random
from collections.abc import Sequence

from warmroute.block import Tier
from warmroute.policy.protocol import Candidate, Cost, PolicyRequest

STREAMING = 0.25
"""What a second of a streaming answer counts. With 1 prompts go where few stream, past caches and into queues: over
eleven simulated workloads the mean time to the first token was a tenth longer."""


class CostModelPolicy:
    """Lowest cost in seconds; see the module for its terms."""

    name = "warmroute"
    unit = "seconds"
    considers_all = False

    def costs(self, request: PolicyRequest, candidates: Sequence[Candidate], rng: random.Random) -> list[Cost]:
        return [_cost(request, candidate) for candidate in candidates]


def _cost(request: PolicyRequest, candidate: Candidate) -> Cost:
    rates, load = candidate.rates, candidate.load
    prefill_s = rates.prefill_s(candidate.uncached_tokens, candidate.attended_tokens) + _reload_s(candidate)
    queue_s = rates.prefill_s(load.queued_tokens, load.queued_attended)
    room_s = _room_s(request, candidate)
    decode_s = 2.0 * STREAMING * request.output_tokens * rates.decode_slope_s * load.requests
    # Those who wait there are not held up, as they are served first; but they will stream while ours is computed.
    stall_s = prefill_s * (1 + STREAMING * load.requests)
    terms = {
        "prefill_s": prefill_s,
        "queue_s": queue_s,
        "room_s": room_s,
        "decode_s": decode_s,
        "stall_s": stall_s,
    }
    return Cost(prefill_s + queue_s + room_s + decode_s + stall_s, terms)


def _room_s(request: PolicyRequest, candidate: Candidate) -> float:
    """Seconds until as many have ended as wait in the engine, where each waits for the place of another."""
    rates, load = candidate.rates, candidate.load
    if not load.waiting:
        return 0.0
    running = max(1, load.requests - load.waiting)
    answer_s = request.output_tokens * (rates.decode_base_s + rates.decode_slope_s * running)
    return load.waiting * answer_s / running


def _reload_s(candidate: Candidate) -> float:
    """Seconds to bring the blocks in slower tiers back, each tier at its rate or computed again if that is quicker."""
    rates, overlap = candidate.rates, candidate.overlap
    seconds = 0.0
    if not (overlap.host or overlap.disk or overlap.remote):
        return seconds
    # The last block of a prompt that is held whole is computed, and counted as such: it is in the tier furthest away.
    computed = max(0, overlap.blocks - candidate.cached_tokens // candidate.block_size)
    for tier, blocks in ((Tier.REMOTE, overlap.remote), (Tier.DISK, overlap.disk), (Tier.HOST, overlap.host)):
        rate = max(rates.load_tokens_per_s.get(tier, 0.0), rates.prefill_tokens_per_s)
        seconds += max(0, blocks - computed) * candidate.block_size / rate
        computed = max(0, computed - blocks)
    return seconds
