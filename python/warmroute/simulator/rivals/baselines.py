"""Our own policies as arms: the one that serves, and the plain ones."""

from warmroute.policy import POLICIES
from warmroute.policy.weighted import QUEUE_LATENCY_PENALTY_MS, WeightedPolicy
from warmroute.simulator.arm import Arm, Knob

_SOURCE = "warmroute.policy"


def _weighted(penalty_ms: float) -> WeightedPolicy:
    return WeightedPolicy(queue_latency_penalty=penalty_ms)


ARMS = (
    Arm(
        "warmroute",
        "least cost in seconds: prefill, queue, and what the new request and the running ones do to each other",
        POLICIES["warmroute"],
        _SOURCE,
        holds_back=True,
    ),
    Arm("random", "any worker", POLICIES["random"], _SOURCE, hears_events=False),
    Arm("round-robin", "each worker in turn", POLICIES["round-robin"], _SOURCE, hears_events=False),
    Arm("least-loaded", "fewest requests in flight", POLICIES["least-loaded"], _SOURCE, hears_events=False),
    Arm("longest-prefix", "most of the prompt in the cache, whatever the load", POLICIES["longest-prefix"], _SOURCE),
    Arm(
        "weighted",
        "blocks saved against requests ahead, with two weights set by hand",
        POLICIES["weighted"],
        _SOURCE,
        knob=Knob("queue penalty, ms", QUEUE_LATENCY_PENALTY_MS, (2.0, 5.0, 10.0, 20.0, 50.0, 100.0), _weighted),
    ),
)
