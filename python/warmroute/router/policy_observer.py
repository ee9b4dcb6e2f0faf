"""A policy that keeps a picture of its own is told what became of its decisions."""

import logging
from collections.abc import Callable

from warmroute.policy import Policy
from warmroute.router.decision import Decision, Outcome, Refusal, RouteRequest, RouterObserver
from warmroute.router.router import Router

_log = logging.getLogger(__name__)


class PolicyObserver:
    """Passes on to a router's policy what happens, if the policy is a `RouterObserver` itself.

    One that has taken another's place hears of no decision that the other made. A fault in a policy must not cost the
    client its answer here either: it is counted as its others are.
    """

    def __init__(self, router: Router) -> None:
        self._router = router
        self._policy: Policy | None = None
        self._listener: RouterObserver | None = None
        self._open: set[int] = set()

    def decided(self, decision: Decision) -> None:
        listener = self._listening()
        if listener is not None:
            self._open.add(id(decision))
            self._tell(lambda: listener.decided(decision))

    def refused(self, request: RouteRequest, refusal: Refusal) -> None:
        listener = self._listening()
        if listener is not None:
            self._tell(lambda: listener.refused(request, refusal))

    def settled(self, decision: Decision, outcome: Outcome) -> None:
        listener = self._listening()
        if listener is not None and id(decision) in self._open:
            self._open.remove(id(decision))
            self._tell(lambda: listener.settled(decision, outcome))

    def _listening(self) -> RouterObserver | None:
        """Who listens: found once for each policy, as the look for three methods takes longer than all else here."""
        policy = self._router.policy
        if policy is not self._policy:
            self._policy = policy
            self._listener = policy if isinstance(policy, RouterObserver) else None
            self._open.clear()
        return self._listener

    def _tell(self, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception:
            self._router.policy_failures += 1
            if self._router.policy_failures == 1:
                _log.exception("policy %s failed when it was told of a request", self._router.policy.name)
