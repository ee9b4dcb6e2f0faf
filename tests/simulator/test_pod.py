"""An engine on the agenda: many iterations at once are as good as one after the other."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.worlds import PLAIN, Talk, arm, played, single, talks
from warmroute.engine_model import EngineOptions
from warmroute.policy import POLICIES
from warmroute.simulator.arm import Arm
from warmroute.simulator.ledger import Ledger
from warmroute.simulator.rivals import ARMS
from warmroute.simulator.workload import EventPath, Session, WorkerLost

# Little room, so that there are evictions and preemptions, and steps whose ends do not fall together by chance.
TIGHT = EngineOptions(
    block_size=16,
    num_blocks=60,
    max_num_batched_tokens=128,
    max_num_seqs=5,
    step_base_s=0.0113,
    step_per_running_s=0.00037,
    prefill_tokens_per_s=2_000.0,
    request_overhead_s=0.0313,
)


def both_ways(arm: Arm, sessions: list[Session], engines: list[EngineOptions], **plan: object) -> tuple[Ledger, Ledger]:
    """The same in steps of many iterations and in single ones."""
    many, _ = played(arm, sessions, engines, **plan)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("warmroute.simulator.pod._MOST_ITERATIONS", 1)
        single, _ = played(arm, sessions, engines, **plan)
    return many, single


def assert_alike(many: Ledger, single: Ledger) -> None:
    ones, others = many.requests, single.requests
    for name in ("prompt_tokens", "output_tokens", "cached", "predicted", "worker", "failed"):
        assert getattr(ones, name) == getattr(others, name), name
    for name in ("arrived_at", "sent_at", "first_at", "ended_at"):  # sums of many terms, in another order
        assert list(getattr(ones, name)) == pytest.approx(list(getattr(others, name)), abs=1e-6), name
    assert many.gauges.running == single.gauges.running
    for usage, other in zip(many.gauges.kv_usage, single.gauges.kv_usage, strict=True):
        assert list(usage) == pytest.approx(list(other))
    assert many.gauges.waiting == single.gauges.waiting


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 100_000), st.sampled_from(["round-robin", "warmroute", "llm-d-precise"]))
def test_steps_of_many_iterations_end_as_single_ones(seed: int, name: str) -> None:
    assert_alike(*both_ways(ARMS[name], talks(seed), [TIGHT, TIGHT]))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 100_000), st.floats(0.5, 6.0))
def test_so_do_those_that_a_death_breaks_off(seed: int, at_s: float) -> None:
    lost = [WorkerLost(at_s, 0, for_s=1.0)]
    assert_alike(*both_ways(ARMS["round-robin"], talks(seed), [TIGHT, TIGHT], happenings=lost))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 100_000))
def test_what_the_router_hears_does_not_depend_on_who_looks(seed: int) -> None:
    """Scrapes ten times as often cut nothing and tell nothing sooner; they are no part of this policy's picture."""
    often, seldom = (
        played(arm(POLICIES["longest-prefix"], scrape_interval_s=interval_s), talks(seed), [TIGHT] * 2)[0]
        for interval_s in (0.1, 1.0)
    )
    assert often.requests.worker == seldom.requests.worker
    assert often.requests.predicted == seldom.requests.predicted
    assert often.requests.ended_at == seldom.requests.ended_at


def test_a_newcomer_is_admitted_as_soon_as_the_iteration_in_work_is_over() -> None:
    engine = dataclasses.replace(PLAIN, request_overhead_s=0.105)
    ledger, _ = played(arm(), [single(0.0, answer=1_000), single(1.0, prompt=10, seed=1)], [engine])
    # The first one's prompt ends at 0.105 + 0.16 + 0.01 = 0.275; iterations go on from there, each of 0.01 s.
    assert ledger.requests.first_at[0] == pytest.approx(0.275)
    # Ready at 1.105, which is an iteration's end at that; its prompt takes 0.1 s, its step 0.01 more.
    assert ledger.requests.first_at[1] == pytest.approx(1.105 + 0.11, abs=0.0101)
    assert ledger.requests.first_at[1] > 1.105 + 0.11 - 1e-9
    assert ledger.requests.ended_at[0] == pytest.approx(0.275 + 999 * 0.01 + 0.1)


def test_what_died_is_given_back_once_and_never_ends() -> None:
    """The end of the step that was in work comes when another process has one in work."""
    sessions = [single(0.0, answer=500), single(2.5, answer=10, seed=1)]
    ledger, _ = played(arm(), sessions, [PLAIN], happenings=[WorkerLost(1.0, 0, for_s=0.5)])
    requests = ledger.requests
    assert requests.failed == ["worker-died", ""]
    assert (requests.ended_at[0], requests.output_tokens[0]) == (1.0, 0)
    assert requests.ended_at[1] == pytest.approx(2.5 + 0.1 + 0.16 + 10 * 0.01)


def test_a_new_process_has_an_empty_cache_and_the_router_knows() -> None:
    same = [single(at, prompt=161) for at in (0.0, 3.0, 9.0)]
    ledger, _ = played(arm(), same, [PLAIN], happenings=[WorkerLost(5.0, 0, for_s=1.0)])
    assert list(ledger.requests.cached) == [0, 160, 0]
    assert list(ledger.requests.predicted) == [0, 160, 0]


def test_a_router_that_hears_nothing_forgets_what_it_sent_to_a_worker_that_was_away() -> None:
    same = [single(at, prompt=161) for at in (0.0, 3.0, 9.0, 12.0)]
    way = arm(hears_events=False)
    ledger, _ = played(way, same, [PLAIN], happenings=[WorkerLost(5.0, 0, for_s=1.5)])
    assert list(ledger.requests.cached) == list(ledger.requests.predicted) == [0, 160, 0, 160]


@pytest.mark.parametrize("delay_s", [0.0, 0.4, 3.0])
def test_caches_are_known_after_the_delay_and_not_before(delay_s: float) -> None:
    """The second request comes 0.2 s after the first one's blocks were there; a prediction says so to us only."""
    path = EventPath(delay_s=delay_s)
    blocks_at = 0.1 + 1.6 + 0.01
    first, second = single(0.0, prompt=160, answer=1), single(blocks_at + 0.2, prompt=160, answer=1)
    heard, world = played(arm(), [first, second], [PLAIN], event_path=path)
    assert heard.requests.cached[1] == 144  # the last token is always computed
    pod = world.fleet.pods[0]
    confirmed = world.router.index.worker_stats(pod.worker.lanes[0].key)["confirmed"]
    assert confirmed == (10 if blocks_at + delay_s <= world.now else 0)


def test_shapes_cover_what_they_are_for() -> None:
    """Preemptions, evictions and full engines do occur in the worlds above."""
    _, world = played(ARMS["round-robin"], talks(3, Talk(sessions=20)), [TIGHT, TIGHT])
    states = [pod.state() for pod in world.fleet.pods]
    assert sum(state.preemptions for state in states) > 0
    assert max(map(max, world.ledger.gauges.waiting)) > 0
