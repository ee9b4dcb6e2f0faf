"""The life of one request: prompt, tokens, decision, forward, settle; the next worker when one fails too early."""

import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from warmroute.gateway.answers import refusal_answer
from warmroute.gateway.relay import Arrival, AttemptFailed, FirstByte, RelayServer
from warmroute.gateway.relay import Outcome as RelayOutcome
from warmroute.openai_api import Endpoint, Prompt, endpoint_of, parse_prompt
from warmroute.router import Decision, Outcome, Refusal, Router, RouteRequest
from warmroute.tokenizer import TokenSource
from warmroute.worker import Worker, WorkerId

_log = logging.getLogger(__name__)

_REQUEST_ID_HEADER = "x-request-id"
# Which data-parallel rank of an engine is to take a request: vLLM from 0.11.2, SGLang.
_RANK_HEADER = "x-data-parallel-rank"
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
    tokens: TokenSource
    rng: random.Random
    max_attempts: int
    suspect: Callable[[Worker, str], None]
    look_at: Callable[[Worker], None]
    untokenized: int = field(default=0, init=False)

    async def handle(self, arrival: Arrival) -> None:
        """Route one request and see it through to its end."""
        request = await self.read(arrival, endpoint_of(arrival.path))
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

    async def read(self, arrival: Arrival, endpoint: Endpoint) -> RouteRequest:
        """What the router needs to know of an arrival; a body that tells nothing is routed by load alone."""
        request_id = arrival.header(_REQUEST_ID_HEADER) or f"{self.rng.getrandbits(128):032x}"
        prompt = parse_prompt(endpoint, arrival.body) if arrival.body else Prompt(endpoint)
        tokens = await self.tokens.tokens(prompt) if prompt.contents else None
        if tokens is None and prompt.contents:
            self.untokenized += 1
        return RouteRequest(
            request_id=request_id,
            model=prompt.model,
            token_ids=None if tokens is None else tokens.ids,
            prompt_tokens=0 if tokens is None else tokens.total,
            stream=prompt.stream,
            max_tokens=prompt.max_tokens,
            namespace=prompt.namespace,
            rank=_rank(arrival.header(_RANK_HEADER)),
        )

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
                    (_REQUEST_ID_HEADER, decision.request.request_id),
                    ("x-warmroute-worker", worker.id),
                    ("x-warmroute-cached-tokens", str(decision.cached_tokens)),
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
    headers = [(_REQUEST_ID_HEADER, decision.request.request_id)]
    rank = decision.lane.rank
    if len(decision.worker.lanes) > 1 and rank is not None and arrival.header(_RANK_HEADER) is None:
        headers.append((_RANK_HEADER, str(rank)))
    return headers


def _rank(value: str | None) -> int | None:
    """The rank that a client names; None where it names none that an engine could read."""
    digits = "" if value is None else value.strip()
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 10 else None


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
