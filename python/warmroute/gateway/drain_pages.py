"""Draining a worker: nothing new is sent to it, what it has is waited for.

POST   /warmroute/workers/drain   ?url=http://host:port or ?name=..., &timeout_s=30: begin, wait, report what is left
DELETE /warmroute/workers/drain   ?url=... or ?name=...: send it requests again

Its prefixes are kept, so that one that is taken back is as warm as before; no request is sent for their sake meanwhile.
"""

import asyncio
import logging
import time
from dataclasses import dataclass

from warmroute.config import LONGEST_S
from warmroute.errors import ConfigError
from warmroute.gateway import page_descriptions as described
from warmroute.gateway.answers import Answer, error_answer, json_answer
from warmroute.gateway.fleet import Fleet
from warmroute.gateway.named_worker import find_worker, query_value
from warmroute.gateway.own_page import OwnPage, Pages
from warmroute.gateway.page_types import DrainReport
from warmroute.gateway.relay import Arrival
from warmroute.gateway.shutdown import Shutdown
from warmroute.worker import Worker, WorkerTable

_log = logging.getLogger(__name__)

DEFAULT_WAIT_S = 30.0
# How often the requests that are left are counted.
_LOOK_S = 0.05


@dataclass(frozen=True, slots=True)
class DrainPages:
    """Answers the pages about draining. A wait ends when the router itself does."""

    table: WorkerTable
    fleet: Fleet
    shutdown: Shutdown

    def pages(self) -> Pages:
        """Each page by method and path."""
        return {
            ("POST", "/warmroute/workers/drain"): OwnPage(self._drain, described.DRAIN),
            ("DELETE", "/warmroute/workers/drain"): OwnPage(self._take_back, described.TAKE_BACK),
        }

    async def _drain(self, arrival: Arrival) -> Answer:
        try:
            limit_s = wait_limit_s(arrival)
        except ConfigError as error:
            return error_answer(arrival.path, 400, "invalid_timeout", str(error))
        worker = find_worker(self.table, arrival)
        if isinstance(worker, Answer):
            return worker
        if not worker.draining:
            _log.info("worker %s is being drained; %d requests are left", worker.shown, worker.requests)
        self.fleet.set_draining(worker, True)
        await self._wait(worker, limit_s)
        report = drain_report(worker, time.monotonic())
        return json_answer(report, 200 if report["done"] else 202)

    async def _wait(self, worker: Worker, limit_s: float) -> None:
        ends_at = time.monotonic() + limit_s
        while worker.requests and worker.draining and not self.shutdown.begun.is_set():
            left_s = ends_at - time.monotonic()
            if left_s <= 0:
                return
            await asyncio.sleep(min(_LOOK_S, left_s))

    async def _take_back(self, arrival: Arrival) -> Answer:
        worker = find_worker(self.table, arrival)
        if isinstance(worker, Answer):
            return worker
        if worker.draining:
            _log.info("worker %s is no longer drained", worker.shown)
        self.fleet.set_draining(worker, False)
        return json_answer(drain_report(worker, time.monotonic()))


def drain_report(worker: Worker, now: float) -> DrainReport:
    """Where the draining of `worker` stands."""
    return {
        "worker": worker.id,
        "status": worker.status,
        "draining": worker.draining,
        "requests": worker.requests,
        "requests_of_others": worker.load(now).requests - worker.requests,
        "done": worker.draining and worker.requests == 0,
    }


def wait_limit_s(arrival: Arrival) -> float:
    """`timeout_s` of the query. Raises ConfigError where it is no time."""
    text = query_value(arrival, "timeout_s")
    try:
        limit_s = DEFAULT_WAIT_S if text is None else float(text)
    except ValueError:
        limit_s = -1.0
    if not 0 <= limit_s <= LONGEST_S:
        raise ConfigError(f"timeout_s must be seconds between 0 and {LONGEST_S:g}, not '{text}'")
    return limit_s
