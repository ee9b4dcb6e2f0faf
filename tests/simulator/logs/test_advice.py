"""What is recommended, and why."""

from typing import Any

import pytest

from warmroute.simulator.logs.advice import Findings, Reason, advice


def summary(p90_s: float, cached: float = 0.5, queue: float = 1.0, failed: int = 0) -> dict[str, Any]:
    return {"ttft_p90_s": p90_s, "cached_token_share": cached, "queue_mean": queue, "failed": failed, "requests": 1_000}


def findings(
    alone: dict[str, Any], fleets: dict[int, dict[str, dict[str, Any]]], reuse: float = 0.8, target_s: float = 1.0
) -> Findings:
    return Findings(reuse, 0.5, fleets, alone, target_s)


def test_it_helps_and_saves_workers() -> None:
    given = advice(
        findings(
            summary(50.0),
            {
                2: {"round-robin": summary(30.0), "dynamo": summary(3.0), "warmroute": summary(4.0)},
                3: {"round-robin": summary(9.0), "dynamo": summary(0.5), "warmroute": summary(0.4, 0.78)},
                5: {"round-robin": summary(0.8), "dynamo": summary(0.3), "warmroute": summary(0.2)},
            },
        )
    )
    assert given.reasons == (Reason.HELPS,)
    assert given.needed == {"round-robin": 5, "dynamo": 3, "warmroute": 3}
    for part in ("80%", "78%", "on 3 workers", "0.4 s", "instead of 9 s", "22.5 times", "needs 3 workers", "2 fewer"):
        assert part in given.text
    assert "dynamo does best: it has 0.5 s on 3 workers, and reaches the target with 3" in given.text


def test_it_helps_where_the_others_do_not_reach_the_target_at_all() -> None:
    given = advice(findings(summary(50.0), {4: {"random": summary(9.0), "warmroute": summary(0.4)}}))
    assert given.reasons == (Reason.HELPS,)
    assert "random does not reach it with 4" in given.text
    assert "with 1 it does not; between them was not tried" in given.text


def test_another_prefix_aware_policy_speaks_where_ours_gains_nothing() -> None:
    fleet = {"round-robin": summary(9.0), "llm-d-precise": summary(0.5), "warmroute": summary(9.1)}
    given = advice(findings(summary(50.0), {4: fleet}))
    assert given.reasons == (Reason.HELPS,)
    assert "llm-d-precise has 50%" in given.text
    assert "warmroute has 9.1 s on 4 workers, and does not reach the target" in given.text


def test_little_reuse() -> None:
    fleet = {"round-robin": summary(2.0, 0.01), "warmroute": summary(1.95, 0.02)}
    given = advice(findings(summary(50.0), {4: fleet}, reuse=0.02))
    assert given.reasons == (Reason.OVERLOAD, Reason.LITTLE_REUSE)
    assert "Only 2%" in given.text
    assert "warmroute tokens --diff" in given.text


def test_one_worker_is_enough() -> None:
    fleet = {"round-robin": summary(0.3), "warmroute": summary(0.3)}
    given = advice(findings(summary(0.4), {2: fleet}))
    assert given.reasons == (Reason.ONE_WORKER,)
    assert given.needed == {"round-robin": 1, "warmroute": 1}
    assert "would not help" in given.text
    assert "all the same" not in given.text


def test_one_worker_is_enough_and_more_have_something_of_it() -> None:
    fleet = {"round-robin": summary(0.9), "warmroute": summary(0.3)}
    assert "On 4 workers all the same, for safety say, warmroute has 0.3 s where round-robin has 0.9 s" in (
        advice(findings(summary(0.4), {4: fleet})).text
    )


def test_low_load_and_what_is_cached_anyway() -> None:
    fleet = {"round-robin": summary(0.31, 0.79, 0.0), "warmroute": summary(0.30, 0.8, 0.0)}
    given = advice(findings(summary(5.0), {4: fleet}))
    assert given.reasons == (Reason.CACHED_ANYWAY, Reason.LOW_LOAD)
    assert "more different prefixes" in given.text
    assert "more traffic" in given.text


def test_overload_and_failed_requests() -> None:
    fleet = {"round-robin": summary(0.3, failed=400), "warmroute": summary(0.3, failed=300)}
    given = advice(findings(summary(5.0), {4: fleet}))
    assert given.reasons[0] is Reason.OVERLOAD
    assert given.needed == {"round-robin": None, "warmroute": None}


def test_turning_requests_away_is_no_gain() -> None:
    fleet = {"round-robin": summary(380.0), "warmroute": summary(39.0, failed=325)}
    given = advice(findings(summary(900.0), {4: fleet}))
    assert Reason.HELPS not in given.reasons
    assert "warmroute has 39 s (where 32% of the requests are turned away)" in given.text
    given = advice(findings(summary(900.0), {4: {"round-robin": summary(3.0, failed=90), "warmroute": summary(0.5)}}))
    assert given.reasons == (Reason.HELPS,)
    assert "instead of 3 s (where 9% of the requests are turned away)." in given.text


@pytest.mark.parametrize("policies", [["warmroute"], ["dynamo", "llm-d-precise"], ["random", "round-robin"]])
@pytest.mark.parametrize("p90_s", [0.1, 3.0])
def test_any_choice_of_policies_has_a_text(policies: list[str], p90_s: float) -> None:
    given = advice(findings(summary(4.0), {2: {policy: summary(p90_s) for policy in policies}}))
    assert given.reasons
    assert given.text.endswith(".")
    assert Reason.HELPS not in given.reasons


def test_nothing_measured_is_no_error() -> None:
    none = {**summary(0.0, failed=1_000), "ttft_p90_s": None, "cached_token_share": None}
    assert Reason.OVERLOAD in advice(findings(none, {2: {"round-robin": none, "warmroute": none}})).reasons
