"""A policy with a picture of its own is told what became of its decisions, and of no other's."""

import pytest

from router.fleet import Fleet, blocks
from warmroute.policy.least_loaded import LeastLoadedPolicy
from warmroute.router import Decision, Outcome, PolicyObserver, Refusal, RouteRequest


class Listening(LeastLoadedPolicy):
    """Notes what it is told."""

    def __init__(self, fails: bool = False) -> None:
        self.heard: list[object] = []
        self.fails = fails

    def _hear(self, *told: object) -> None:
        self.heard.append(told)
        if self.fails:
            raise ZeroDivisionError("a fault in a policy")

    def decided(self, decision: Decision) -> None:
        self._hear("decided", decision)

    def refused(self, request: RouteRequest, refusal: Refusal) -> None:
        self._hear("refused", request, refusal)

    def settled(self, decision: Decision, outcome: Outcome) -> None:
        self._hear("settled", decision, outcome)


def fleet(policy: LeastLoadedPolicy) -> Fleet:
    made = Fleet("AB")
    made.router.policy = policy
    made.router.observe(PolicyObserver(made.router))
    return made


def outcome() -> Outcome:
    return Outcome(completed=True, worker_failed=False, ended_at=1.0)


def test_it_hears_of_each_request_from_its_decision_to_its_end() -> None:
    policy = Listening()
    gate = fleet(policy)
    decision = gate.route(gate.request(blocks("a")))
    ended = outcome()
    gate.router.settle(decision, ended)
    assert policy.heard == [("decided", decision), ("settled", decision, ended)]
    request = gate.request(blocks("a"), model="absent")
    refusal = gate.refuse(request)
    assert policy.heard[2:] == [("refused", request, refusal)]


def test_one_that_takes_anothers_place_hears_of_what_it_decided_alone() -> None:
    first, second = Listening(), Listening()
    gate = fleet(first)
    old = gate.route(gate.request(blocks("a")))
    gate.router.policy = second
    new = gate.route(gate.request(blocks("b")))
    for decision in (old, new):
        gate.complete(decision)
    assert [told[:2] for told in first.heard] == [("decided", old)]  # type: ignore[index]
    assert [told[:2] for told in second.heard] == [("decided", new), ("settled", new)]  # type: ignore[index]


def test_a_fault_costs_no_request_and_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    policy = Listening(fails=True)
    gate = fleet(policy)
    for _ in range(2):
        gate.complete(gate.route(gate.request(blocks("a"))))
    gate.refuse(gate.request(blocks("a"), model="absent"))
    assert len(policy.heard) == gate.router.policy_failures == 5
    assert caplog.text.count("policy least-loaded failed when it was told of a request") == 1
    assert "a fault in a policy" in caplog.text


def test_a_policy_that_does_not_listen_is_left_alone() -> None:
    gate = fleet(LeastLoadedPolicy())
    gate.complete(gate.route(gate.request(blocks("a"))))
    assert gate.router.policy_failures == 0
