"""Ray Serve LLM 2.60, `PrefixCacheAffinityRouter`: a character tree picks replicas, two random choices one of them.

    most - least queue > imbalanced threshold   all replicas
    matched / text < 0.1                        those with the smallest trees
    else                                        those that were sent the match
    of these two at random, the one with the shorter queue

The threshold is infinite by default (10 in earlier releases), and trees are not evicted. Where none of the smallest
trees can be asked, all replicas are drawn from. Chunks of 16 tokens stand for 64 characters.
"""

import random
from collections.abc import Sequence

from warmroute.policy import Candidate, Cost, PolicyRequest
from warmroute.router import Decision
from warmroute.simulator.arm import Arm, Knob
from warmroute.simulator.rivals.choice import RANK, lighter_of, loads, taking
from warmroute.simulator.rivals.learner import Learner
from warmroute.simulator.rivals.prefix_tree import PrefixTree
from warmroute.simulator.rivals.prompt_blocks import CHUNK_TOKENS, PromptBlocks
from warmroute.worker import LaneKey

# Stands for infinity, which has no place in a result file.
NEVER_IMBALANCED = 1e6
MATCH_THRESHOLD = 0.1


class PrefixAffinityPolicy(Learner):
    """`imbalanced_threshold`: requests by which queues may differ."""

    name = "ray-prefix-affinity"
    unit = RANK

    def __init__(self, imbalanced_threshold: float = NEVER_IMBALANCED) -> None:
        self._imbalanced_threshold = imbalanced_threshold
        self._blocks = PromptBlocks()
        self._tree = PrefixTree()

    def costs(self, request: PolicyRequest, candidates: Sequence[Candidate], rng: random.Random) -> list[Cost]:
        load = loads(candidates)
        pool = self._pool(request, candidates, load)
        chosen = lighter_of(2, pool, load, rng)
        terms = [{"requests": float(each), "preferred": float(position in pool)} for position, each in enumerate(load)]
        return taking((chosen,), terms)

    def decided(self, decision: Decision) -> None:
        self._tree.insert(self._blocks.of(decision.request.token_ids), decision.lane.key)

    def _pool(self, request: PolicyRequest, candidates: Sequence[Candidate], load: Sequence[int]) -> list[int]:
        everybody = list(range(len(candidates)))
        if max(load) - min(load) > self._imbalanced_threshold:
            return everybody
        position_of = {candidate.lane.key: position for position, candidate in enumerate(candidates)}
        matched, holders = self._tree.holders(self._blocks.of(request.token_ids), position_of)
        if matched * CHUNK_TOKENS < MATCH_THRESHOLD * request.prompt_tokens:
            holders = self._smallest(list(position_of))
        return [position_of[lane] for lane in holders if lane in position_of] or everybody

    def _smallest(self, here: Sequence[LaneKey]) -> list[LaneKey]:
        """The lanes with the smallest trees, of all ever seen and of those that are here."""
        sizes = dict.fromkeys(here, 0) | self._tree.sizes
        least = min(sizes.values())
        return [lane for lane, size in sizes.items() if size == least]


ARM = Arm(
    "ray-prefix-affinity",
    "the lighter of two replicas that were sent the prefix, or of those that were sent least",
    PrefixAffinityPolicy,
    "ray-project/ray 2.60, python/ray/llm/_internal/serve/routing_policies/prefix_aware",
    hears_events=False,
    knob=Knob(
        "imbalanced_threshold", NEVER_IMBALANCED, (2.0, 5.0, 10.0, 20.0, 50.0, NEVER_IMBALANCED), PrefixAffinityPolicy
    ),
)
