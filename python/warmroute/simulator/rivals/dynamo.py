"""Dynamo's default KV router, 1.6.1: what a worker would have to prefill and to keep, in blocks.

    prefill   max(0, (tokens being prefilled + prompt) / block size - credit)
    credit    device blocks + 0.75 x host blocks + 0.25 x disk blocks of the overlap
    decode    blocks of the requests in flight and of this one, each once
    cost      prefill load scale x prefill + decode                              lowest wins, ties at random

Its index is fed by events only (predicting on route is off), so blocks that our router merely expects do not count.
A request counts as being prefilled, with its prompt less its credit, until its first byte. Other defaults: no credit
decay, temperature 0, generated blocks not tracked, no queueing, no weight per active request.
"""

import random
from collections.abc import Sequence

from warmroute.block import Overlap
from warmroute.policy import Candidate, Cost, PolicyRequest
from warmroute.router import Decision, Outcome
from warmroute.simulator.arm import Arm, Knob
from warmroute.simulator.rivals.in_flight import ActiveBlocks, Prefilling, chosen_candidate
from warmroute.simulator.rivals.learner import Learner
from warmroute.simulator.rivals.prompt_blocks import PromptBlocks

PREFILL_LOAD_SCALE = 1.0
HOST_HIT_WEIGHT = 0.75
DISK_HIT_WEIGHT = 0.25


class DynamoPolicy(Learner):
    """`prefill_load_scale` weighs blocks to compute against blocks to keep."""

    name = "dynamo"
    unit = "blocks"

    def __init__(self, prefill_load_scale: float = PREFILL_LOAD_SCALE) -> None:
        self._scale = prefill_load_scale
        self._blocks = PromptBlocks()
        self._prefilling = Prefilling()
        self._active = ActiveBlocks()

    def costs(self, request: PolicyRequest, candidates: Sequence[Candidate], rng: random.Random) -> list[Cost]:
        return [self._cost(request, candidate) for candidate in candidates]

    def decided(self, decision: Decision) -> None:
        candidate = chosen_candidate(decision)
        cached = int(_credit(candidate.overlap) * candidate.block_size)
        self._prefilling.add(decision, max(0, candidate.prompt_tokens - cached))
        self._active.add(decision.lane.key, self._blocks.of(decision.request.token_ids, candidate.block_size))

    def settled(self, decision: Decision, outcome: Outcome) -> None:
        self._prefilling.settled(decision)
        size = chosen_candidate(decision).block_size
        self._active.remove(decision.lane.key, self._blocks.of(decision.request.token_ids, size))

    def _cost(self, request: PolicyRequest, candidate: Candidate) -> Cost:
        lane, size = candidate.lane.key, candidate.block_size
        waiting = (self._prefilling.tokens(lane) + candidate.prompt_tokens) / size
        prefill = self._scale * max(0.0, waiting - _credit(candidate.overlap))
        decode = float(self._active.count_with(lane, self._blocks.of(request.token_ids, size)))
        return Cost(prefill + decode, {"prefill_blocks": prefill, "decode_blocks": decode})


def _credit(overlap: Overlap) -> float:
    return overlap.device + HOST_HIT_WEIGHT * overlap.host + DISK_HIT_WEIGHT * overlap.disk


ARM = Arm(
    "dynamo",
    "blocks to prefill plus blocks to keep, KV router with its defaults",
    DynamoPolicy,
    "ai-dynamo/dynamo 1.6.1, lib/kv-router/src/scheduling",
    knob=Knob("prefill load scale", PREFILL_LOAD_SCALE, (0.25, 1.0, 4.0, 8.0, 16.0, 32.0), DynamoPolicy),
)
