"""Metrics count what happened, for the workers that there are."""

import random
from collections import Counter

from warmroute.diagnostics.metrics import RouterMetrics
from warmroute.diagnostics.state_metrics import StateCollector
from warmroute.openai_api import Match
from warmroute.policy import POLICIES
from warmroute.prefix_index import PrefixIndex
from warmroute.router import Decision, Outcome, Router, RouteRequest
from warmroute.worker import WorkerFacts, WorkerSpec, WorkerStatus, WorkerTable

_URL = "http://h:1"
_REQUEST = RouteRequest(request_id="r", model=None, token_ids=list(range(32)), prompt_tokens=32)


def test_a_request_that_outlives_its_worker_brings_no_series_back() -> None:
    metrics = RouterMetrics()
    router = Router(WorkerTable(), PrefixIndex(), POLICIES["warmroute"](), observers=[metrics])
    worker = router.add_worker(WorkerSpec(_URL))
    router.learn(worker, WorkerFacts({"m": False}, 16, 100))
    router.table.set_status(worker, WorkerStatus.READY)
    first, second = (router.route(_REQUEST, 0.0, random.Random(1)) for _ in range(2))
    assert isinstance(first, Decision)
    assert isinstance(second, Decision)
    ended = Outcome(completed=True, worker_failed=False, ended_at=2.0, first_byte_at=1.0, status=200, cached_tokens=0)
    router.settle(first, ended)
    assert _URL in metrics.expose().decode()
    router.forget(worker)
    metrics.forget(_URL)
    router.settle(second, ended)
    assert _URL not in metrics.expose().decode()


def test_prompts_are_counted_by_how_well_they_were_known() -> None:
    router = Router(WorkerTable(), PrefixIndex(), POLICIES["warmroute"]())
    metrics = RouterMetrics()
    prompts: Counter[tuple[Match, str]] = Counter()
    metrics.registry.register(StateCollector(router, tuple, prompts))
    prompts[Match.EXACT, ""] += 2
    prompts[Match.NONE, "deadline"] += 1
    text = metrics.expose().decode()
    assert 'warmroute_prompts_total{match="exact",reason=""} 2.0' in text
    assert 'warmroute_prompts_total{match="none",reason="deadline"} 1.0' in text
