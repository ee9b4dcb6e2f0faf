"""What the options of failover mean for the parts of a router, at its start and when they change."""

import time
from collections.abc import Callable

from warmroute.admission import FailoverOptions
from warmroute.diagnostics.failover_metrics import FailoverCollector
from warmroute.gateway.fleet import Fleet
from warmroute.gateway.proxy import Proxy
from warmroute.gateway.relay import Arrival, Outcome
from warmroute.gateway.waiting import WaitingRoom
from warmroute.router import Router

# A client's word for itself; what is longer is cut, so that nobody fills the memory with names.
_LONGEST_TENANT = 64


def apply_failover(options: FailoverOptions, router: Router, proxy: Proxy) -> None:
    """Let these options hold from the next request on."""
    router.table.reconfigure(
        slow_start_s=options.slow_start_s, limits=options.queue_size > 0, max_requests=options.max_requests
    )
    proxy.budget.share, proxy.budget.floor_per_s = options.retry_share, options.retry_floor_per_s
    if proxy.room is None:
        proxy.room = room = WaitingRoom(router, proxy.rng, options.queue_size, options.queue_timeout_s)
        proxy.relay.on_outcome = _in_turn(proxy.relay.on_outcome, lambda outcome: room.left(outcome.request_id))
        if options.tenant_header is not None:
            proxy.tenant_of = _named_by(options.tenant_header)
    proxy.room.resize(options.queue_size)
    proxy.room.timeout_s = options.queue_timeout_s


def failover_metrics(router: Router, proxy: Proxy, fleet: Fleet) -> FailoverCollector:
    """The metrics of all of this, once the options have been applied."""
    assert proxy.room is not None, "apply_failover makes it"
    return FailoverCollector(
        router.table,
        proxy.budget,
        proxy.room.figures,
        lambda: [(member.worker, member.prober.last_look_at) for member in fleet.members],
        time.monotonic,
    )


def _in_turn(first: Callable[[Outcome], None] | None, then: Callable[[Outcome], None]) -> Callable[[Outcome], None]:
    if first is None:
        return then

    def both(outcome: Outcome) -> None:
        first(outcome)
        then(outcome)

    return both


def _named_by(header: str) -> Callable[[Arrival], str]:
    return lambda arrival: (arrival.header(header) or "")[:_LONGEST_TENANT]
