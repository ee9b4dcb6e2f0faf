"""The life of one request: prompt, tokens, decision, forward, settle; the next worker when one fails too early."""

import logging
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from warmroute.gateway.answers import refusal_answer
from warmroute.gateway.estimate import LengthEstimate
from warmroute.gateway.relay import Arrival, AttemptFailed, FirstByte, RelayServer
from warmroute.gateway.relay import Outcome as RelayOutcome
from warmroute.openai_api import Endpoint, Match, Prompt, TokenContent, endpoint_of, parse_prompt
from warmroute.router import Decision, Outcome, Refusal, Router, RouteRequest
from warmroute.tokenizer import NoTokens, Original, TokenIds, TokenSource, media_parts
from warmroute.worker import Worker, WorkerId

_log = logging.getLogger(__name__)

PromptCounts = Counter[tuple[Match, str]]
"""Prompts by how well they were known, and the word for why not better."""

_REQUEST_ID_HEADER = "x-request-id"
# Which data-parallel rank of an engine is to take a request: vLLM from 0.11.2, SGLang.
_RANK_HEADER = "x-data-parallel-rank"
# How clients and peers name a conversation: vLLM (0.28 and newer) and many proxies; Codex; Claude Code; OpenCode;
# SGLang's gateway. Looked at only where tokens cannot be told.
SESSION_HEADERS = (
    "x-session-id",
    "session-id",
    "session_id",
    "x-claude-code-session-id",
    "x-opencode-session",
    "x-smg-routing-key",
)
MATCH_HEADER = "x-warmroute-match"
"""How well the prompt was known when its worker was chosen: exact, text-prefix or none."""
# What an engine needs to answer at all; it goes only to workers, which get the whole request anyway.
_CREDENTIALS = ("authorization",)
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
    prompts: PromptCounts = field(default_factory=Counter, init=False)
    _estimate: LengthEstimate = field(default_factory=LengthEstimate, init=False)

    async def handle(self, arrival: Arrival) -> None:
        """Route one request and see it through to its end."""
        endpoint = endpoint_of(arrival.path)
        request = await self.read(arrival, endpoint)
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

    async def read(self, arrival: Arrival, endpoint: Endpoint) -> RouteRequest:
        """What the router needs to know of an arrival; of a body that tells nothing load and session decide."""
        prompt = parse_prompt(endpoint, arrival.body) if arrival.body else Prompt(endpoint)
        tokens = await self._tokens(prompt, arrival)
        # A beginning without a token tells nothing.
        told = tokens if isinstance(tokens, TokenIds) and (tokens.complete or tokens.ids) else None
        return RouteRequest(
            request_id=arrival.header(_REQUEST_ID_HEADER) or f"{self.rng.getrandbits(128):032x}",
            model=prompt.model,
            token_ids=None if told is None else told.ids,
            prompt_tokens=self._prompt_tokens(prompt, tokens, arrival.body),
            stream=prompt.stream,
            max_tokens=prompt.max_tokens,
            namespace=prompt.namespace,
            rank=_rank(arrival.header(_RANK_HEADER)),
            complete=told is None or told.complete,
            untold=_why_untold(prompt, tokens),
            session=_session(arrival) or prompt.session,
        )

    async def _tokens(self, prompt: Prompt, arrival: Arrival) -> TokenIds | NoTokens | None:
        """The tokens as far as they can be told; None where there is no prompt that could be."""
        if not prompt.contents:
            return None
        headers = [(name, value) for name in _CREDENTIALS if (value := arrival.header(name)) is not None]
        return await self.tokens.tokens(prompt, Original(arrival.body, headers))

    def _prompt_tokens(self, prompt: Prompt, tokens: TokenIds | NoTokens | None, body: bytes) -> int:
        """How many tokens to book: as told, else a guess by the size of the body; none where there is no prompt."""
        if isinstance(tokens, TokenIds) and tokens.complete:
            if prompt.exact and not isinstance(prompt.contents[0], TokenContent):
                self._estimate.learn(len(body), tokens.total)
            return tokens.total
        if prompt.endpoint is Endpoint.OTHER or not body:
            return 0
        guess = self._estimate.tokens(body, media_parts(prompt.contents))
        if not isinstance(tokens, TokenIds):
            return guess
        # An engine that rendered the images as well has counted everything.
        return tokens.total if tokens.total > len(tokens.ids) else max(len(tokens.ids) + 1, guess)

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
    headers = [(_REQUEST_ID_HEADER, decision.request.request_id)]
    rank = decision.lane.rank
    if len(decision.worker.lanes) > 1 and rank is not None and arrival.header(_RANK_HEADER) is None:
        headers.append((_RANK_HEADER, str(rank)))
    return headers


def _why_untold(prompt: Prompt, tokens: TokenIds | NoTokens | None) -> str | None:
    """One word for why the match is not exact."""
    if isinstance(tokens, NoTokens):
        return tokens.value
    if tokens is not None and tokens.complete:
        return None
    if prompt.untold is not None:
        return prompt.untold.value
    return None if tokens is None else (tokens.why or NoTokens.RENDERING).value


def _session(arrival: Arrival) -> str | None:
    """What the client's headers name as its conversation."""
    named = (arrival.header(name) for name in SESSION_HEADERS)
    return next((value for value in named if value), None)


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
