"""gorgo-lb 0.2.0: predicted milliseconds to the first token, with rates learned from those seen.

    score    rtt + prefill ms per token x uncached tokens + load ms per token x queued tokens      lowest wins
    queued   prompt tokens of its own requests in flight, scaled up where the scraped number of running requests is
             larger than its own: queued x max(running, own) / own
    rates    least squares over the times to the first byte of what ended well, both 1 until there are enough

All workers are equally far away here, so rtt is left out. Which tokens are uncached it takes from a tree of the prompts
that it sent, which forgets nothing (chunks of 16 tokens). The publication does not say how old measurements lose their
weight: here by 0.1 % with each new one.
"""

import random
from collections.abc import Sequence

from warmroute.policy import Candidate, Cost, PolicyRequest
from warmroute.router import Decision, Outcome
from warmroute.simulator.arm import Arm, Knob
from warmroute.simulator.rivals.learner import Learner
from warmroute.simulator.rivals.prefix_tree import PrefixTree
from warmroute.simulator.rivals.prompt_blocks import CHUNK_TOKENS, PromptBlocks
from warmroute.worker import LaneKey

LOAD_WEIGHT = 1.0
MS_PER_TOKEN = 1.0
KEPT_WEIGHT = 0.999
ENOUGH = 32


class LeastSquares:
    """Fits y = constant + a x + b z, the newest measurements counting most; a and b are never negative."""

    def __init__(self) -> None:
        self._sums = [0.0] * 9  # of 1, x, z, xx, xz, zz, y, xy, zy
        self._count = 0

    def add(self, x: float, z: float, y: float) -> None:
        self._count += 1
        new = (1.0, x, z, x * x, x * z, z * z, y, x * y, z * y)
        self._sums = [KEPT_WEIGHT * old + each for old, each in zip(self._sums, new, strict=True)]

    def slopes(self) -> tuple[float, float] | None:
        """a and b; None where there are too few measurements, or they do not tell x and z apart."""
        weight, x, z, xx, xz, zz, y, xy, zy = self._sums
        if self._count < ENOUGH:
            return None
        vxx, vxz, vzz = xx - x * x / weight, xz - x * z / weight, zz - z * z / weight
        vxy, vzy = xy - x * y / weight, zy - z * y / weight
        determinant = vxx * vzz - vxz * vxz
        if determinant <= 1e-9 * vxx * vzz:
            return None
        a, b = (vxy * vzz - vzy * vxz) / determinant, (vzy * vxx - vxy * vxz) / determinant
        return max(0.0, a), max(0.0, b)


class GorgoPolicy(Learner):
    """`load_weight`: times the learned load rate."""

    name = "gorgo"
    unit = "milliseconds"

    def __init__(self, load_weight: float = LOAD_WEIGHT) -> None:
        self._load_weight = load_weight
        self._blocks = PromptBlocks()
        self._tree = PrefixTree()
        self._in_flight: dict[LaneKey, tuple[int, int]] = {}
        self._fit = LeastSquares()
        self._seen: dict[str, tuple[float, float]] = {}

    def costs(self, request: PolicyRequest, candidates: Sequence[Candidate], rng: random.Random) -> list[Cost]:
        prefill_ms, load_ms = self._fit.slopes() or (MS_PER_TOKEN, MS_PER_TOKEN)
        features = self._features(request.token_ids, request.prompt_tokens, candidates)
        terms = [
            {"prefill_ms": prefill_ms * uncached, "load_ms": self._load_weight * load_ms * queued}
            for uncached, queued in features
        ]
        return [Cost(sum(each.values()), each) for each in terms]

    def decided(self, decision: Decision) -> None:
        request, lane = decision.request, decision.lane.key
        features = self._features(request.token_ids, request.prompt_tokens, decision.candidates)
        self._seen[request.request_id] = features[decision.position]
        self._count(lane, 1, request.prompt_tokens)
        self._tree.insert(self._blocks.of(request.token_ids), lane)

    def settled(self, decision: Decision, outcome: Outcome) -> None:
        request = decision.request
        self._count(decision.lane.key, -1, -request.prompt_tokens)
        uncached, queued = self._seen.pop(request.request_id)
        if outcome.completed and not outcome.refused and outcome.first_byte_at is not None:
            self._fit.add(uncached, queued, 1000.0 * (outcome.first_byte_at - decision.decided_at))

    def _features(
        self, token_ids: Sequence[int] | None, prompt_tokens: int, candidates: Sequence[Candidate]
    ) -> list[tuple[float, float]]:
        """Of each candidate the uncached and the queued tokens."""
        held = self._tree.held(self._blocks.of(token_ids))
        return [
            (
                float(prompt_tokens - CHUNK_TOKENS * held.get(candidate.lane.key, 0)),
                self._queued(candidate, prompt_tokens),
            )
            for candidate in candidates
        ]

    def _queued(self, candidate: Candidate, prompt_tokens: int) -> float:
        requests, tokens = self._in_flight.get(candidate.lane.key, (0, 0))
        report = candidate.worker.report
        running = 0 if report is None else report.requests - (report.waiting or 0)
        if running <= requests:
            return float(tokens)
        return running * (tokens / requests if requests else float(prompt_tokens))

    def _count(self, lane: LaneKey, requests: int, tokens: int) -> None:
        before = self._in_flight.get(lane, (0, 0))
        self._in_flight[lane] = (before[0] + requests, before[1] + tokens)


ARM = Arm(
    "gorgo",
    "predicted time to the first token, rates learned by least squares",
    GorgoPolicy,
    "gorgo-lb 0.2.0; Toniolo et al., GORGO, arXiv:2602.11688",
    hears_events=False,
    knob=Knob("load weight", LOAD_WEIGHT, (0.25, 0.5, 1.0, 2.0, 4.0), GorgoPolicy),
)
