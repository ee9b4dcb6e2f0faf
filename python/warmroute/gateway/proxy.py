"""The life of one request: prompt, tokens, decision, forward, settle; the next worker when one fails too early."""

import logging
import random
import time
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from warmroute.admission import RetryBudget
from warmroute.gateway.answers import refusal_answer
from warmroute.gateway.reading import RANK_HEADER, REQUEST_ID_HEADER, Reader
from warmroute.gateway.relay import Arrival, AttemptFailed, FirstByte, RelayServer
from warmroute.gateway.relay import Outcome as RelayOutcome
from warmroute.gateway.waiting import WaitingRoom
from warmroute.openai_api import Endpoint, Match, endpoint_of
from warmroute.router import Decision, Outcome, Refusal, Router, RouteRequest, anyone_well
from warmroute.worker import Worker, WorkerId

_log = logging.getLogger(__name__)

PromptCounts = Counter[tuple[Match, str]]
"""Prompts by how well they were known, and the word for why not better."""

MATCH_HEADER = "x-warmroute-match"
"""How well the prompt was known when its worker was chosen: exact, text-prefix or none."""
# Attempts that never came to a worker: it should be looked at before it gets more, and bore no load.
_UNREACHED = ("refused", "connect-timeout")
# The worker was there and closed the connection. It may be about to die; or this request is what it cannot take, and
# must not cost the others their worker.
_BROKEN_OFF = "reset"
_OURS = "no-socket"
_HELD = "held"
_HOLD = (429, 502, 503, 504)
"""Answers that are none where another worker has one. 500 may well be the request's own fault, and is passed on."""
_SILENT = ("connect-timeout", "first-byte-timeout")


def _nobody(arrival: Arrival) -> str:  # noqa: ARG001 - where tenants are not told apart
    return ""


KeysFor = Callable[[Worker], Sequence[tuple[str, str]]]


def _no_keys(worker: Worker) -> Sequence[tuple[str, str]]:  # noqa: ARG001 - where the client's own go on
    return ()


@dataclass(slots=True)
class Proxy:
    """Takes requests from the relay to workers.

    `suspect` is told of a worker that could not be reached, `look_at` of one that broke off before it answered.
    `room` is where requests wait while every worker is full; without it nothing waits. `tenant_of` says for whom a
    request is, `keys_for` what a worker gets in place of the key that the client has shown.
    """

    router: Router
    relay: RelayServer
    reader: Reader
    rng: random.Random
    max_attempts: int
    suspect: Callable[[Worker, str], None]
    look_at: Callable[[Worker], None]
    budget: RetryBudget = field(default_factory=RetryBudget)
    room: WaitingRoom | None = None
    tenant_of: Callable[[Arrival], str] = _nobody
    keys_for: KeysFor = _no_keys
    prompts: PromptCounts = field(default_factory=Counter, init=False)

    def arrived(self, arrival: Arrival) -> Coroutine[Any, Any, None] | None:
        """Send a request on at once, as most can be; else what sees it through to its end."""
        endpoint = endpoint_of(arrival.path)
        request = self.reader.read_now(arrival, endpoint)
        if request is None:
            return self._read_and_handle(arrival, endpoint)
        self._count(request, endpoint)
        if self.room is not None and self.room.concerns(request):
            return self._see_through(arrival, request)
        verdict = self.router.route(request, time.monotonic(), self.rng)
        if isinstance(verdict, Refusal):
            return self._refuse(arrival, verdict)
        self._dispatch(arrival, verdict)
        return None

    async def handle(self, arrival: Arrival) -> None:
        """Route one request and see it through to its end."""
        endpoint = endpoint_of(arrival.path)
        request = await self.reader.read(arrival, endpoint)
        self._count(request, endpoint)
        await self._see_through(arrival, request)

    async def _read_and_handle(self, arrival: Arrival, endpoint: Endpoint) -> None:
        request = await self.reader.read_on(arrival, endpoint)
        self._count(request, endpoint)
        await self._see_through(arrival, request)

    async def _see_through(self, arrival: Arrival, request: RouteRequest) -> None:
        """Ask one worker after the other, the first one when it has room."""
        if self.relay.gone(arrival.request_id):
            return
        if self.room is not None and self.room.concerns(request):
            verdict = await self.room.wait(arrival, request, self.tenant_of(arrival))
        else:
            verdict = self.router.route(request, time.monotonic(), self.rng)
        await self._ask(arrival, verdict, set())

    async def _ask(self, arrival: Arrival, verdict: Decision | Refusal | None, tried: set[WorkerId]) -> None:
        """Ask the worker that was decided on, then others. `tried`: those that have failed this request."""
        while isinstance(verdict, Decision):
            ended = await self._attempt(arrival, verdict)
            if not isinstance(ended, AttemptFailed):
                return
            verdict = await self._next(arrival, verdict, ended, tried)
        if verdict is not None:
            await self._refuse(arrival, verdict)

    async def _go_on(self, arrival: Arrival, decision: Decision, failed: AttemptFailed) -> None:
        tried: set[WorkerId] = set()
        await self._ask(arrival, await self._next(arrival, decision, failed, tried), tried)

    async def _next(
        self, arrival: Arrival, decision: Decision, failed: AttemptFailed, tried: set[WorkerId]
    ) -> Decision | Refusal | None:
        """Who is asked after a worker has failed the request, and who is not; None where nobody is, and the client has
        its answer or has left. Where a worker has said why it does not answer, that is what the client hears last.

        A request waits for room once only: the second time it may take the place of the one who failed it.
        """
        if self.relay.gone(arrival.request_id):
            return None
        tried.add(decision.worker.id)
        now = time.monotonic()
        why_not = self._why_not_again(decision, failed, tried, now)
        if why_not is None:
            return self.router.route(decision.request, now, self.rng, tried=tried)
        if failed.kind == _HELD:
            await self.relay.pass_on(arrival.request_id)
            return None
        return self.router.give_up(decision.request, why_not)

    def _why_not_again(
        self, decision: Decision, failed: AttemptFailed, tried: Collection[WorkerId], now: float
    ) -> str | None:
        """Why no other worker is asked; None where one may be."""
        if len(tried) >= self.max_attempts:
            return f"{len(tried)} workers failed this request; the last, {decision.worker.shown}: {failed.kind}"
        if failed.kind == _HELD and not anyone_well(self.router.table, decision.request.model, tried, now):
            return "nobody else is well"
        if failed.kind in _UNREACHED or self.budget.take(now):
            return None
        return f"{decision.worker.shown} failed it ({failed.kind}), and so many requests fail that none is tried again"

    def _count(self, request: RouteRequest, endpoint: Endpoint) -> None:
        self.budget.request()
        if endpoint is not Endpoint.OTHER:
            self.prompts[request.match, request.untold or ""] += 1

    def _dispatch(self, arrival: Arrival, decision: Decision) -> None:
        """Send a request to its worker. If that fails before it answers, go on elsewhere."""

        def end(event: AttemptFailed | RelayOutcome) -> None:
            self._settle(decision, event)
            if isinstance(event, AttemptFailed):
                self.relay.go_on(arrival.request_id, self._go_on(arrival, decision, event))

        try:
            self.relay.dispatch(
                arrival.request_id,
                decision.worker.spec.url,
                _headers_for_worker(arrival, decision, self.keys_for),
                _headers_for_client(decision),
                end,
                self._on_first_byte(decision),
                hold=_HOLD,
            )
        except ValueError:
            self._not_sent(decision)
            raise

    async def _attempt(self, arrival: Arrival, decision: Decision) -> AttemptFailed | RelayOutcome:
        # Settled in the callback, not after the await: it is called exactly once, also when this task is cancelled.
        def end(event: AttemptFailed | RelayOutcome) -> None:
            self._settle(decision, event)

        try:
            return await self.relay.forward(
                arrival.request_id,
                decision.worker.spec.url,
                _headers_for_worker(arrival, decision, self.keys_for),
                _headers_for_client(decision),
                on_first_byte=self._on_first_byte(decision),
                on_end=end,
                hold=_HOLD,
            )
        except ValueError:
            self._not_sent(decision)
            raise

    def _on_first_byte(self, decision: Decision) -> Callable[[FirstByte], None] | None:
        """Who hears the first byte of a stream. That of any other answer comes with its last one and tells nothing."""
        if not decision.request.stream:
            return None
        return lambda event: self.router.first_byte(decision, event.at, refused=event.status >= 400)

    def _not_sent(self, decision: Decision) -> None:
        """The relay did not take it, so nothing was sent and no callback will come."""
        self.router.settle(decision, Outcome(False, False, time.monotonic(), unsent=True))

    def _settle(self, decision: Decision, event: AttemptFailed | RelayOutcome) -> None:
        self.router.settle(decision, outcome_of(event), self.rng)
        if isinstance(event, AttemptFailed):
            self._tell(decision.worker, event)
            if event.kind in _UNREACHED:
                self.suspect(decision.worker, event.message)
            elif event.kind == _BROKEN_OFF:
                self.look_at(decision.worker)
        elif event.end == "worker-failed":
            _log.warning(
                "worker %s died in the middle of its answer to request %s, after %d bytes",
                decision.worker.shown,
                decision.request.request_id,
                event.response_bytes,
            )

    def _tell(self, worker: Worker, failed: AttemptFailed) -> None:
        """A worker that is busy says so a thousand times, and its rests are counted; others are worth a warning."""
        level = logging.DEBUG if failed.status in (429, 503) else logging.WARNING
        why = f"it answered {failed.status}" if failed.kind == _HELD else failed.message
        _log.log(level, "worker %s failed a request (%s): %s", worker.shown, failed.kind, why)

    async def _refuse(self, arrival: Arrival, refusal: Refusal) -> None:
        answer = refusal_answer(arrival.path, refusal)
        await self.relay.respond(arrival.request_id, answer.status, answer.headers, answer.body)


def _headers_for_client(decision: Decision) -> list[tuple[str, str]]:
    """What the client is told beside the worker's own words."""
    return [
        (REQUEST_ID_HEADER, decision.request.request_id),
        ("x-warmroute-worker", decision.worker.shown),
        ("x-warmroute-cached-tokens", str(decision.cached_tokens)),
        (MATCH_HEADER, decision.request.match),
    ]


def _headers_for_worker(arrival: Arrival, decision: Decision, keys_for: KeysFor) -> list[tuple[str, str]]:
    """What the worker is told beside the client's own words; a rank that the client named stays as it is."""
    headers = [(REQUEST_ID_HEADER, decision.request.request_id), *keys_for(decision.worker)]
    rank = decision.lane.rank
    if len(decision.worker.lanes) > 1 and rank is not None and arrival.header(RANK_HEADER) is None:
        headers.append((RANK_HEADER, str(rank)))
    return headers


def outcome_of(event: AttemptFailed | RelayOutcome) -> Outcome:
    """What the relay saw, in the router's terms."""
    if isinstance(event, AttemptFailed):
        ours = event.kind == _OURS
        silent = event.kind in _SILENT
        return Outcome(
            completed=False,
            worker_failed=not ours,
            ended_at=event.at,
            status=event.status,
            silent=silent,
            unsent=ours,
            retry_after_s=event.retry_after_s,
        )
    return Outcome(
        completed=event.end == "completed",
        worker_failed=event.end == "worker-failed",
        ended_at=event.ended_at,
        first_byte_at=event.first_byte_at,
        status=event.status,
        prompt_tokens=event.prompt_tokens,
        output_tokens=event.completion_tokens,
        cached_tokens=event.cached_tokens,
    )
