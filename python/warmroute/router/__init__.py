"""The router: which worker a request goes to. `route` decides, `settle` learns; no clock, no socket, no await."""

from warmroute.router.decision import Decision, Outcome, Refusal, RouteRequest, RouterObserver, WorkerCost
from warmroute.router.eligibility import all_saturated, anyone_well, eligible
from warmroute.router.policy_observer import PolicyObserver
from warmroute.router.router import Router
from warmroute.router.turns import RouteWaiter, Turn, Turns

__all__ = [
    "Decision",
    "Outcome",
    "PolicyObserver",
    "Refusal",
    "RouteRequest",
    "RouteWaiter",
    "Router",
    "RouterObserver",
    "Turn",
    "Turns",
    "WorkerCost",
    "all_saturated",
    "anyone_well",
    "eligible",
]
