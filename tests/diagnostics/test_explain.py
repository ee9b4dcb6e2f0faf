"""A decision is explained truthfully, also by policies that do not look at prefixes."""

import json

import pytest

from router.fleet import Fleet, blocks
from warmroute.diagnostics.explain import explain
from warmroute.diagnostics.metrics import RouterMetrics, StateCollector, prediction_result
from warmroute.router import Outcome, Router


@pytest.mark.parametrize(
    ("policy", "because"),
    [
        ("random", "it was chosen at random"),
        ("round-robin", "it was this worker's turn"),
        ("least-loaded", "it had the fewest requests in flight"),
        ("warmroute", "it holds 32 of 48 prompt tokens, as much as any worker"),
        ("longest-prefix", "it holds 32 of 48 prompt tokens, as much as any worker"),
    ],
)
def test_the_reason_is_the_policys_own(policy: str, because: str) -> None:
    fleet = Fleet("AB", policy)
    for name in "AB":
        fleet.holds(name, blocks("a", "b"))
    told = explain(fleet.route(fleet.request(blocks("a", "b", "c"))))
    assert told["because"] == because
    assert told == json.loads(json.dumps(told))
    assert [line["cost"] for line in told["workers"]] == sorted(line["cost"] for line in told["workers"])


def test_a_loss_to_load_is_said() -> None:
    fleet = Fleet("AB")
    fleet.holds("B", blocks("a", "b"))
    fleet.router.table.book(fleet.workers["B"], "other", 1_000_000, None)
    told = explain(fleet.route(fleet.request(blocks("a", "b", "c"))))
    assert told["because"] == "it holds 0 of 48 prompt tokens; a worker that holds 32 costs more because of its load"


@pytest.mark.parametrize(
    ("predicted", "reported", "result"),
    [(32, 32, "exact"), (32, 0, "over"), (0, 32, "under"), (32, None, "unknown"), (0, None, "unknown")],
)
def test_unknown_is_not_zero(predicted: int, reported: int | None, result: str) -> None:
    assert prediction_result(predicted, reported) == result


def test_no_family_of_metrics_appears_twice() -> None:
    fleet = Fleet("AB")
    metrics = RouterMetrics()
    router = Router(fleet.router.table, fleet.router.index, fleet.router.policy, observers=[metrics])
    metrics.registry.register(StateCollector(router.table, router.index, list))
    fleet.router = router
    decision = fleet.route(fleet.request(blocks("a", "b")))
    router.settle(decision, Outcome(True, False, 1.0, first_byte_at=0.5, cached_tokens=0))
    page = metrics.expose().decode()
    declared = [line for line in page.splitlines() if line.startswith("# TYPE")]
    assert len(declared) == len({line.split()[2] for line in declared})
    assert "_created" not in page
    assert 'warmroute_predictions_total{result="exact",worker="http' in page
