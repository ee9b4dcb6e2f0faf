"""A decision is explained truthfully, also by policies that do not look at prefixes."""

import dataclasses
import json
import random
from collections.abc import Sequence

import pytest

from router.fleet import Fleet, blocks
from warmroute.diagnostics.explain import View, explain
from warmroute.diagnostics.metrics import RouterMetrics, prediction_result
from warmroute.diagnostics.state_metrics import StateCollector
from warmroute.policy import Candidate, Cost, PolicyRequest
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


def test_the_runner_up_is_told_with_what_tells_it_from_the_winner() -> None:
    fleet = Fleet("ABC")
    for name, held in (("A", 4), ("B", 3), ("C", 1)):
        fleet.holds(name, blocks(*"abcd"[:held]))
    told = explain(fleet.route(fleet.request(blocks(*"abcdef"))))
    winner, second, _ = told["workers"]
    told_of = told["runner_up"]
    assert (winner["worker"], told_of["worker"], second["worker"]) == ("http://A:1", "http://B:1", "http://B:1")
    assert told_of["gap"] == second["cost"] - winner["cost"]
    assert told_of["terms"] == {name: second["terms"][name] - winner["terms"][name] for name in winner["terms"]}
    assert told_of["gap"] == pytest.approx(sum(told_of["terms"].values()))
    changes = {(each["worker"], each["figure"]): each["needed"] for each in told_of["changes"]}
    assert changes["http://B:1", "cached_tokens"] == 5 * 16
    assert changes["http://A:1", "cached_tokens"] == 2 * 16
    assert (told["eligible"], told_of["wins_if_idle"], told_of["unchangeable"]) == (3, False, None)
    assert told == json.loads(json.dumps(told))


def test_of_equals_the_winner_is_the_first_line() -> None:
    fleet = Fleet("ABCDEFGH")
    for _ in range(8):
        told = explain(fleet.router.explain(fleet.request(blocks("a")), 0.0, fleet.rng))
        assert told["workers"][0]["worker"] == told["worker"] != told["runner_up"]["worker"]
        assert told["runner_up"]["gap"] == 0.0


class Broken:
    """Has no costs."""

    name = "broken"
    unit = "nothing"

    def costs(self, request: PolicyRequest, candidates: Sequence[Candidate], rng: random.Random) -> list[Cost]:
        raise ZeroDivisionError


def test_whoever_decided_in_place_of_a_broken_policy_is_asked_again() -> None:
    fleet = Fleet("AB")
    fleet.router.policy = Broken()
    fleet.router.table.book(fleet.workers["B"], "other", 10, None)
    told = explain(fleet.route(fleet.request(blocks("a"))))
    assert told["policy"] == "least-loaded"
    changes = {(each["worker"], each["figure"]): each["needed"] for each in told["runner_up"]["changes"]}
    assert changes["http://A:1", "requests"] == 2


def test_the_rank_and_what_is_known_of_its_cache_are_said() -> None:
    fleet = Fleet("AB")
    lanes = fleet.set_ranks("A", 2)
    fleet.holds("A", blocks("a", "b"), lane=1)
    verdict = fleet.route(fleet.request(blocks("a", "b", "c")))
    told = explain(verdict, {lanes[1]: View.PARTIAL}.get)
    assert told["rank"] == 1
    assert [(line["worker"], line["rank"], line["view"]) for line in told["workers"]] == [
        ("http://A:1", 1, "partial"),
        ("http://B:1", None, "whole"),
    ]
    assert told == json.loads(json.dumps(told))


def test_how_well_the_prompt_was_known_is_said() -> None:
    fleet = Fleet("AB")
    fleet.holds("A", blocks("a", "b"))
    known = fleet.request(blocks("a", "b", "c"))
    part = dataclasses.replace(known, complete=False, untold="multimodal", prompt_tokens=900)
    unknown = dataclasses.replace(fleet.request(None), untold="deadline", prompt_tokens=900)
    words = [(told["match"], told["reason"]) for told in map(explain, map(fleet.route, (known, part, unknown)))]
    assert words == [("exact", None), ("text-prefix", "multimodal"), ("none", "deadline")]
    told = explain(fleet.route(part))
    assert told["because"] == (
        "it holds 48 of 900 prompt tokens, as much as any worker; only the first 48 tokens could be told"
    )
    assert told == json.loads(json.dumps(told))
    assert explain(fleet.route(unknown))["because"] == "the prompt's tokens are not known, so load alone decided"


def test_what_a_session_counted_for_is_said() -> None:
    fleet = Fleet("AB")
    request = dataclasses.replace(fleet.request(None), prompt_tokens=5_000, session="s")
    home = fleet.route(request)
    fleet.complete(home)
    told = explain(fleet.route(request))
    assert told["because"] == "it answered this session last, so 4999 tokens should be there"
    assert [line["session_tokens"] for line in told["workers"]] == [4999, 0]
    fleet.router.table.book(home.worker, "other", 1_000_000, None)
    told = explain(fleet.route(request))
    assert told["because"] == "the worker that answered this session last costs more because of its load"


def test_a_worker_without_events_is_said_to_be_guessed() -> None:
    fleet = Fleet("A")
    fleet.router.expect_events(fleet.workers["A"].lanes[0], False)
    assert explain(fleet.route(fleet.request(None)))["workers"][0]["view"] == "guessed"


def test_a_miss_that_may_be_none_is_said() -> None:
    fleet = Fleet("A")
    verdict = fleet.route(fleet.request(blocks("a", "b")))
    assert "may hold more" not in explain(verdict)["because"]
    assert explain(verdict, lambda _: View.PARTIAL)["because"].endswith(
        "KV events of this worker were lost, so it may hold more"
    )


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
    metrics.registry.register(StateCollector(router, list))
    fleet.router = router
    decision = fleet.route(fleet.request(blocks("a", "b")))
    router.settle(decision, Outcome(True, False, 1.0, first_byte_at=0.5, cached_tokens=0))
    page = metrics.expose().decode()
    declared = [line for line in page.splitlines() if line.startswith("# TYPE")]
    assert len(declared) == len({line.split()[2] for line in declared})
    assert "_created" not in page
    assert 'warmroute_predictions_total{result="exact",worker="http' in page
