"""The life of one request: prompt, tokens, decision, forward, settle; the next worker when one fails too early."""

import logging
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from warmroute.gateway.answers import refusal_answer
from warmroute.gateway.reading import RANK_HEADER, REQUEST_ID_HEADER, Reader
from warmroute.gateway.relay import Arrival, AttemptFailed, FirstByte, RelayServer
from warmroute.gateway.relay import Outcome as RelayOutcome
from warmroute.openai_api import Endpoint, Match, endpoint_of
from warmroute.router import Decision, Outcome, Refusal, Router
from warmroute.worker import Worker, WorkerId

_log = logging.getLogger(__name__)

PromptCounts = Counter[tuple[Match, str]]
"""Prompts by how well they were known, and the word for why not better."""

MATCH_HEADER = "x-warmroute-match"
"""How well the prompt was known when its worker was chosen: exact, text-prefix or none."""
# Attempts that never came to a worker, so that the worker should be looked at before it gets more.
_UNREACHED = ("refused", "connect-timeout")
# The worker was there and closed the connection. It may be about to die; or this request is what it cannot take, and
# must not cost the others their worker.
_BROKEN_OFF = "reset"


@dataclass(slots=True)
class Proxy:
    """Takes requests from the relay to workers.

    `suspect` is told of a worker that could not be reached, `look_at` of one that broke off before it answered.
    """

    router: Router
    relay: RelayServer
    reader: Reader
    rng: random.Random
    max_attempts: int
    suspect: Callable[[Worker, str], None]
    look_at: Callable[[Worker], None]
    prompts: PromptCounts = field(default_factory=Counter, init=False)

    async def handle(self, arrival: Arrival) -> None:
        """Route one request and see it through to its end."""
        endpoint = endpoint_of(arrival.path)
        request = await self.reader.read(arrival, endpoint)
        if endpoint is not Endpoint.OTHER:
            self.prompts[request.match, request.untold or ""] += 1
        tried: set[WorkerId] = set()
        while not self.relay.gone(arrival.request_id):
            verdict = self.router.route(request, time.monotonic(), self.rng, tried=tried)
            if isinstance(verdict, Refusal):
                await self._refuse(arrival, verdict)
                return
            ended = await self._attempt(arrival, verdict)
            if not isinstance(ended, AttemptFailed):
                return
            tried.add(verdict.worker.id)
            if len(tried) >= self.max_attempts:
                detail = f"{len(tried)} workers failed this request; the last: {ended.message}"
                await self._refuse(arrival, self.router.give_up(request, detail))
                return

    async def _attempt(self, arrival: Arrival, decision: Decision) -> AttemptFailed | RelayOutcome:
        # Settled in the callback, not after the await: it is called exactly once, also when this task is cancelled.
        def end(event: AttemptFailed | RelayOutcome) -> None:
            self._settle(decision, event)

        def first_byte(event: FirstByte) -> None:
            self.router.first_byte(decision, event.at, refused=event.status >= 400)

        worker = decision.worker
        try:
            return await self.relay.forward(
                arrival.request_id,
                worker.spec.url,
                _headers_for_worker(arrival, decision),
                [
                    (REQUEST_ID_HEADER, decision.request.request_id),
                    ("x-warmroute-worker", worker.id),
                    ("x-warmroute-cached-tokens", str(decision.cached_tokens)),
                    (MATCH_HEADER, decision.request.match),
                ],
                on_first_byte=first_byte,
                on_end=end,
            )
        except ValueError:
            # The relay did not take it, so nothing was sent and no callback will come.
            self.router.settle(decision, Outcome(False, False, time.monotonic()))
            raise

    def _settle(self, decision: Decision, event: AttemptFailed | RelayOutcome) -> None:
        self.router.settle(decision, outcome_of(event))
        if isinstance(event, AttemptFailed):
            _log.warning("worker %s failed a request (%s): %s", decision.worker.id, event.kind, event.message)
            if event.kind in _UNREACHED:
                self.suspect(decision.worker, event.message)
            elif event.kind == _BROKEN_OFF:
                self.look_at(decision.worker)
        elif event.end == "worker-failed":
            _log.warning(
                "worker %s died in the middle of its answer to request %s, after %d bytes",
                decision.worker.id,
                decision.request.request_id,
                event.response_bytes,
            )

    async def _refuse(self, arrival: Arrival, refusal: Refusal) -> None:
        answer = refusal_answer(arrival.path, refusal)
        await self.relay.respond(arrival.request_id, answer.status, answer.headers, answer.body)


def _headers_for_worker(arrival: Arrival, decision: Decision) -> list[tuple[str, str]]:
    """What the worker is told beside the client's own words; a rank that the client named stays as it is."""
    headers = [(REQUEST_ID_HEADER, decision.request.request_id)]
    rank = decision.lane.rank
    if len(decision.worker.lanes) > 1 and rank is not None and arrival.header(RANK_HEADER) is None:
        headers.append((RANK_HEADER, str(rank)))
    return headers


def outcome_of(event: AttemptFailed | RelayOutcome) -> Outcome:
    """What the relay saw, in the router's terms."""
    if isinstance(event, AttemptFailed):
        return Outcome(completed=False, worker_failed=True, ended_at=event.at)
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
