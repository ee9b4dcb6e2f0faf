"""From a request as it arrived to what the router needs to know of it."""

import random
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field

from warmroute._native import PlainChat
from warmroute.gateway.estimate import LengthEstimate
from warmroute.gateway.relay import Arrival
from warmroute.gateway.worker_keys import CREDENTIALS
from warmroute.openai_api import Endpoint, Prompt, TokenContent, parse_prompt
from warmroute.router import RouteRequest
from warmroute.tokenizer import NoTokens, Original, PlainChatSource, TokenIds, TokenSource, media_parts

REQUEST_ID_HEADER = "x-request-id"
# Which data-parallel rank of an engine is to take a request: vLLM from 0.11.2, SGLang.
RANK_HEADER = "x-data-parallel-rank"
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
# A body is read at a gigabyte a second; a longer one is read beside the loop.
_MOST_INLINE_BYTES = 1_000_000


@dataclass(slots=True)
class Reader:
    """Reads requests: most of them at once, from their bytes; others by their endpoint's rules.

    `passes_credentials`: whether the keys that clients show are the engines', which are shown them when they are asked
    for tokens; else they are the router's own.
    """

    tokens: TokenSource
    plain: PlainChatSource | None
    rng: random.Random
    passes_credentials: Callable[[], bool] = lambda: True
    _estimate: LengthEstimate = field(default_factory=LengthEstimate, init=False)

    def read_now(self, arrival: Arrival, endpoint: Endpoint) -> RouteRequest | None:
        """What the router needs to know of an arrival, if that can be told at once."""
        if self.plain is None or endpoint is not Endpoint.CHAT or arrival.body_bytes > _MOST_INLINE_BYTES:
            return None
        chat = arrival.plain_chat()
        told = None if chat is None else self.plain.tell_now(chat)
        return None if chat is None or told is None else self._plain(arrival, chat, told)

    async def read(self, arrival: Arrival, endpoint: Endpoint) -> RouteRequest:
        """What the router needs to know of an arrival; of a body that tells nothing load and session decide."""
        now = self.read_now(arrival, endpoint)
        return await self.read_on(arrival, endpoint) if now is None else now

    async def read_on(self, arrival: Arrival, endpoint: Endpoint) -> RouteRequest:
        """As `read`, for what `read_now` cannot tell."""
        if self.plain is not None and endpoint is Endpoint.CHAT:
            large = arrival.body_bytes > _MOST_INLINE_BYTES
            chat = await self.plain.read(arrival.plain_chat) if large else arrival.plain_chat()
            told = None if chat is None else await self.plain.tell(chat)
            if chat is not None and told is not None:
                return self._plain(arrival, chat, told)
        return await self._careful(arrival, endpoint)

    def _plain(self, arrival: Arrival, chat: PlainChat, ids: "array[int]") -> RouteRequest:
        self._estimate.learn(arrival.body_bytes, len(ids))
        return RouteRequest(
            request_id=self._request_id(arrival),
            model=chat.model,
            token_ids=ids,
            prompt_tokens=len(ids),
            stream=chat.stream,
            max_tokens=chat.max_tokens,
            rank=_rank(arrival.header(RANK_HEADER)),
            session=_session(arrival),
        )

    async def _careful(self, arrival: Arrival, endpoint: Endpoint) -> RouteRequest:
        prompt = parse_prompt(endpoint, arrival.body) if arrival.body else Prompt(endpoint)
        tokens = await self._tokens(prompt, arrival)
        # A beginning without a token tells nothing.
        told = tokens if isinstance(tokens, TokenIds) and (tokens.complete or tokens.ids) else None
        return RouteRequest(
            request_id=self._request_id(arrival),
            model=prompt.model,
            token_ids=None if told is None else told.ids,
            prompt_tokens=self._prompt_tokens(prompt, tokens, arrival.body),
            stream=prompt.stream,
            max_tokens=prompt.max_tokens,
            namespace=prompt.namespace,
            rank=_rank(arrival.header(RANK_HEADER)),
            complete=told is None or told.complete,
            untold=_why_untold(prompt, tokens),
            session=_session(arrival) or prompt.session,
        )

    def _request_id(self, arrival: Arrival) -> str:
        return arrival.header(REQUEST_ID_HEADER) or f"{self.rng.getrandbits(128):032x}"

    async def _tokens(self, prompt: Prompt, arrival: Arrival) -> TokenIds | NoTokens | None:
        """The tokens as far as they can be told; None where there is no prompt that could be."""
        if not prompt.contents:
            return None
        shown = CREDENTIALS if self.passes_credentials() else ()
        headers = [(name, value) for name in shown if (value := arrival.header(name)) is not None]
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
