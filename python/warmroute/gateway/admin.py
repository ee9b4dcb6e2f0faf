"""The router's own pages: health, readiness, metrics, models, and everything under `/warmroute/`.

GET    /health                200 while the process runs
GET    /ready                 200 when a worker is ready and its cache known, 503 with the reason until then
GET    /metrics               Prometheus text
GET    /v1/models             every model of every worker, once
GET    /warmroute/workers     the workers: state, facts, load, KV events
POST   /warmroute/workers     {"url": "http://host:port", ...}: add one
DELETE /warmroute/workers     ?url=http://host:port or {"url": ...}: remove one
POST   /warmroute/workers/drain   see `warmroute.gateway.drain_pages`
POST   /warmroute/explain     a request's body: the decision that it would get, without sending it
GET    /warmroute/state       the router: policy, index, rates, counts
POST   /warmroute/reload      read the configuration anew, as SIGHUP does
GET    /warmroute/openapi.json what these pages take and give
*      /warmroute/index...    see `warmroute.gateway.index_pages`
"""

import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

import msgspec

from warmroute._native import __version__
from warmroute.diagnostics.explain import explain
from warmroute.diagnostics.metrics import RouterMetrics
from warmroute.errors import ConfigError, RefusalReason
from warmroute.gateway import page_descriptions as described
from warmroute.gateway.answers import JSON_TYPE, REFUSAL_STATUS, Answer, error_answer, json_answer
from warmroute.gateway.drain_pages import DrainPages
from warmroute.gateway.fleet import Fleet
from warmroute.gateway.fleet_report import member_report, partial_views
from warmroute.gateway.index_pages import IndexPages
from warmroute.gateway.named_worker import find_worker
from warmroute.gateway.openapi import openapi
from warmroute.gateway.options import with_defaults, worker_spec
from warmroute.gateway.origin import Origin
from warmroute.gateway.own_page import OwnPage, Pages
from warmroute.gateway.proxy import Proxy
from warmroute.gateway.relay import Arrival
from warmroute.gateway.reload import Reloader
from warmroute.gateway.shutdown import Shutdown
from warmroute.gateway.tokenizer_check import Standing
from warmroute.openai_api import Endpoint, endpoint_of, guess_endpoint, parse_prompt
from warmroute.router import Refusal, Router
from warmroute.worker import WorkerStatus

# What engines serve elsewhere: tokens of vLLM and SGLang, and generation from tokens or text without a dialect.
_ENGINE_PATHS = ("/tokenize", "/detokenize", "/inference/v1/generate", "/generate")
_METRICS_TYPE = ("content-type", "text/plain; version=0.0.4; charset=utf-8")


@dataclass(slots=True)
class Admin:
    """Answers the pages that the router has of its own; everything else is for the proxy."""

    reloader: Reloader
    router: Router
    fleet: Fleet
    proxy: Proxy
    metrics: RouterMetrics
    started_at: float
    index_pages: IndexPages
    standings: Mapping[str, Standing]
    shutdown: Shutdown
    _pages: Pages = field(init=False)
    _caught_up: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._pages = {
            ("GET", "/health"): OwnPage(self._health, described.HEALTH),
            ("GET", "/ready"): OwnPage(self._ready, described.READY),
            ("GET", "/metrics"): OwnPage(self._metrics, described.METRICS),
            ("GET", "/v1/models"): OwnPage(self._models, described.MODELS),
            ("GET", "/warmroute/workers"): OwnPage(self._workers, described.WORKERS),
            ("POST", "/warmroute/workers"): OwnPage(self._add_worker, described.ADD_WORKER),
            ("DELETE", "/warmroute/workers"): OwnPage(self._remove_worker, described.REMOVE_WORKER),
            ("POST", "/warmroute/explain"): OwnPage(self._explain, described.EXPLAIN),
            ("GET", "/warmroute/state"): OwnPage(self._state, described.STATE),
            ("POST", "/warmroute/reload"): OwnPage(self._reload, described.RELOAD),
            ("GET", "/warmroute/openapi.json"): OwnPage(self._openapi, described.OPENAPI),
            **DrainPages(self.router.table, self.fleet, self.shutdown).pages(),
            **self.index_pages.pages(),
        }

    def leaves(self, arrival: Arrival) -> bool:
        """Whether a request is for a worker, and not for one of the router's own pages."""
        path = arrival.path
        if endpoint_of(path) is not Endpoint.OTHER:
            return True
        return is_for_workers(path.rstrip("/")) and not self._methods(path)

    async def answer(self, arrival: Arrival) -> Answer:
        """The answer of one of the router's own pages."""
        path = arrival.path.rstrip("/") or "/"
        page = self._pages.get(("GET" if arrival.method == "HEAD" else arrival.method, path))
        if page is not None:
            return await page(arrival)
        if methods := self._methods(path):
            allowed = ", ".join(methods)
            answer = error_answer(path, 405, "method_not_allowed", f"{path} takes {allowed}")
            return Answer(405, answer.body, (JSON_TYPE, ("allow", allowed)))
        return no_such_page(path)

    def _methods(self, path: str) -> list[str]:
        """What the router's own page of this path takes; nothing where there is none."""
        bare = path.rstrip("/") or "/"
        return sorted(method for method, known in self._pages if known == bare)

    async def _health(self, arrival: Arrival) -> Answer:
        return json_answer({"status": "ok"})

    async def _ready(self, arrival: Arrival) -> Answer:
        ready = [worker.shown for worker in self.router.table if worker.status is WorkerStatus.READY]
        leaving = self.shutdown.begun.is_set()
        if ready and self._has_caught_up() and not leaving:
            return json_answer({"ready": True, "workers": ready})
        reason = "draining" if leaving else "catching-up" if ready else RefusalReason.NO_WORKER_READY
        waiting = {worker.shown: worker.status_reason for worker in self.router.table}
        return json_answer({"ready": False, "reason": reason, "workers": waiting}, 503)

    def _has_caught_up(self) -> bool:
        """Whether what the engines hold is known: a router that knows nothing yet scatters warm prompts.

        Once true it stays so: a worker that joins later must not take the router out of service.
        """
        now = time.monotonic()
        self._caught_up = self._caught_up or not any(member.catching_up(now) for member in self.fleet.members)
        return self._caught_up

    async def _metrics(self, arrival: Arrival) -> Answer:
        return Answer(200, self.metrics.expose(), (_METRICS_TYPE,))

    async def _models(self, arrival: Arrival) -> Answer:
        models: dict[str, dict[str, Any]] = {}
        for worker in self.router.table:
            for name in worker.models:
                entry = models.setdefault(name, {"id": name, "object": "model", "created": 0, "owned_by": "warmroute"})
                known = entry.get("max_model_len")
                length = worker.facts.max_model_len
                entry["max_model_len"] = length if known is None else min(known, length or known)
        return json_answer({"object": "list", "data": [models[name] for name in sorted(models)]})

    async def _workers(self, arrival: Arrival) -> Answer:
        now = time.monotonic()
        return json_answer({"workers": [member_report(member, self.router, now) for member in self.fleet.members]})

    async def _add_worker(self, arrival: Arrival) -> Answer:
        try:
            spec = worker_spec(_object(arrival.body), where="the request")
            self.fleet.destinations().check(spec)
            worker = self.fleet.add(with_defaults(spec, self.reloader.current.serve), Origin.ADDED)
        except ConfigError as error:
            return error_answer(arrival.path, 400, "invalid_worker", str(error))
        return json_answer({"worker": worker.id, "status": worker.status}, 201)

    async def _remove_worker(self, arrival: Arrival) -> Answer:
        worker = find_worker(self.router.table, arrival)
        if isinstance(worker, Answer):
            return worker
        await self.fleet.remove(worker.id)
        self.metrics.forget(worker.id)
        return json_answer({"worker": worker.id, "removed": True})

    async def _explain(self, arrival: Arrival) -> Answer:
        endpoint = _asked_endpoint(arrival)
        problem = parse_prompt(endpoint, arrival.body).problem
        if endpoint is Endpoint.OTHER and "path=" not in arrival.query:
            problem = "the body has no messages, prompt or input; name another endpoint with ?path=/v1/..."
        if problem is not None:
            return error_answer(arrival.path, 400, "nothing_to_explain", problem)
        request = await self.proxy.reader.read(arrival, endpoint)
        # Of its own, so that asking does not change what the next request gets.
        rng = random.Random(self.reloader.current.serve.seed)
        verdict = self.router.explain(request, time.monotonic(), rng)
        status = REFUSAL_STATUS[verdict.reason] if isinstance(verdict, Refusal) else 200
        return json_answer(explain(verdict, partial_views(self.fleet.members).get), status)

    async def _state(self, arrival: Arrival) -> Answer:
        table, reload = self.router.table, self.reloader.last
        return json_answer(
            {
                "version": __version__,
                "policy": self.router.policy.name,
                "uptime_s": time.monotonic() - self.started_at,
                "workers": {status.value: sum(worker.status is status for worker in table) for status in WorkerStatus},
                "requests_in_flight": sum(worker.requests for worker in table),
                "prompts": [
                    {"match": match, "reason": reason or None, "count": count}
                    for (match, reason), count in sorted(self.proxy.prompts.items())
                ],
                "tokenizers": self.standings,
                "sessions": len(self.router.sessions),
                "policy_failures": self.router.policy_failures,
                "index": self.router.index.stats(),
                "reload": None if reload is None else reload.report(time.monotonic()),
            }
        )

    async def _reload(self, arrival: Arrival) -> Answer:
        reload = await self.reloader.reload("POST")
        return json_answer(reload.report(time.monotonic()), 200 if reload.error is None else 409)

    async def _openapi(self, arrival: Arrival) -> Answer:
        return json_answer(openapi(self._pages))


def is_for_workers(path: str) -> bool:
    """Whether a path is an engine's and not the router's."""
    return path.startswith("/v1/") or path in _ENGINE_PATHS


def no_such_page(path: str) -> Answer:
    """What is told to one who asks for neither a worker nor a page of the router's own."""
    return error_answer(path, 404, "not_found", f"the router has no page {path}; workers are reached under /v1/")


def _object(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ConfigError(f'the body must be JSON such as {{"url": "http://host:port"}}: {error}') from error


def _asked_endpoint(arrival: Arrival) -> Endpoint:
    """`?path=/v1/...` where given, else what the body's fields say."""
    named = parse_qs(arrival.query).get("path")
    if named:
        return endpoint_of(named[0])
    return guess_endpoint(arrival.body)
