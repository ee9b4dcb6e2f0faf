"""Session affinity: a session belongs to a place on a hash ring; what names no session goes round in turn.

The usual behaviour of gateways, as production-stack's `session` with its ring of 160 points for each worker.
"""

import random
from collections.abc import Sequence

from warmroute.policy import Candidate, Cost, PolicyRequest
from warmroute.simulator.arm import Arm, Knob
from warmroute.simulator.rivals.choice import RANK, taking
from warmroute.simulator.rivals.hash_ring import POINTS_PER_WORKER, HashRing, text_key


class SessionStickyPolicy:
    """The worker that the ring gives for the session."""

    name = "session-sticky"
    unit = RANK

    def __init__(self, points_per_worker: int = POINTS_PER_WORKER) -> None:
        self._ring = HashRing(points_per_worker)

    def costs(self, request: PolicyRequest, candidates: Sequence[Candidate], rng: random.Random) -> list[Cost]:
        named = request.session is not None
        chosen = self._place(request.session, candidates) if named else request.sequence % len(candidates)
        return taking((chosen,), [{"session_named": float(named)}] * len(candidates))

    def _place(self, session: str | None, candidates: Sequence[Candidate]) -> int:
        return next(self._ring.walk(text_key(session or ""), candidates))


ARM = Arm(
    "session-sticky",
    "a hash of the session's name; in turn where there is none",
    SessionStickyPolicy,
    "vllm-project/production-stack, `--routing-logic session`",
    hears_events=False,
    knob=Knob(
        "points per worker",
        POINTS_PER_WORKER,
        (1.0, 16.0, POINTS_PER_WORKER, 1000.0),
        lambda value: SessionStickyPolicy(int(value)),
    ),
)
