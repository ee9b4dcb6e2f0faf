"""What all rivals with a memory have in common."""

from warmroute.router import Decision, Outcome, Refusal, RouteRequest


class Learner:
    """Hears of everything that the router did and remembers nothing: a rival overrides what it learns from."""

    def decided(self, decision: Decision) -> None:
        """A request was given to a worker."""

    def refused(self, request: RouteRequest, refusal: Refusal) -> None:
        """No worker was found for a request."""

    def settled(self, decision: Decision, outcome: Outcome) -> None:
        """A dispatched request ended."""
