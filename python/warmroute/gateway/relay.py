"""The asyncio face of the relay: each request is an `Arrival`; one coroutine answers it by `forward` or `respond`.

    arrival -> forward -> AttemptFailed -> forward (elsewhere) or respond -> Outcome
                       -> AttemptFailed("held") -> forward (elsewhere), respond or pass_on -> Outcome
                       -> Outcome
            -> respond -> Outcome

The sockets and the bytes live in Rust threads; events come over through one file descriptor, many per wake-up.
Every arrival ends in exactly one `Outcome`, whoever fails. `on_end` and `on_outcome` are called from the event loop,
also when the awaiting task has been cancelled: what was acquired for a request is released there.
"""

import asyncio
import errno
import json
import logging
import os
from collections.abc import Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from warmroute._native import Arrival, AttemptFailed, FirstByte, Outcome, Relay
from warmroute.errors import AddressInUse, ConfigError
from warmroute.gateway.relay_exchange import Attempt, Exchange, OnEnd, OnFirstByte, RelayCounts
from warmroute.gateway.relay_options import ClientTlsFiles, RelayOptions, TlsFiles

__all__ = [
    "Arrival",
    "AttemptFailed",
    "ClientTlsFiles",
    "FirstByte",
    "Outcome",
    "RelayCounts",
    "RelayOptions",
    "RelayServer",
    "TlsFiles",
]

Headers = Sequence[tuple[str, str]]
Handler = Coroutine[Any, Any, None]
OnArrival = Callable[[Arrival], Handler | None]
OnOutcome = Callable[[Outcome], None]

_log = logging.getLogger(__name__)
_NO_ANSWER = json.dumps(
    {"error": {"message": "the router failed to answer", "type": "internal_error", "code": "internal_error"}}
).encode()
# After the sockets are closed a handler has nothing to wait for but its own code.
_HANDLER_GRACE_S = 1.0


@dataclass(slots=True)
class RelayServer:
    """An HTTP/1.1 and HTTP/2 server whose requests are answered by a coroutine and carried by Rust.

    `on_outcome` sees every outcome, also of requests that never arrived: refused by the relay itself (end
    `refused-by-relay`; `reason` is the word that the client gets as `code`, such as `body_too_large`), or left by their
    client before their body was whole (`client-gone`).
    """

    options: RelayOptions = field(default_factory=RelayOptions)
    on_outcome: OnOutcome | None = None
    counts: RelayCounts = field(default_factory=RelayCounts, init=False)
    _native: Relay = field(init=False)
    _open: dict[int, Exchange] = field(default_factory=dict, init=False)
    _on_arrival: OnArrival | None = field(default=None, init=False)
    _loop: asyncio.AbstractEventLoop | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        options = self.options
        self._native = Relay(
            threads=options.relay_threads or _half_of_the_cores(),
            max_body_bytes=options.max_body_bytes,
            connect_timeout_s=options.connect_timeout_s,
            first_byte_timeout_s=options.first_byte_timeout_s,
            idle_timeout_s=options.idle_timeout_s,
            pool_idle_s=options.pool_idle_s,
            head_timeout_s=options.head_timeout_s,
            client_idle_s=options.client_idle_s,
            max_held_bytes=options.max_held_mb << 20,
            min_body_rate=options.min_body_rate,
            client_write_timeout_s=options.client_write_timeout_s,
            half_close=options.half_close,
            h2_streams=options.h2_streams,
            h2_ping_s=options.h2_ping_s,
        )

    def set_tls(self, listener: str, files: TlsFiles) -> None:
        """From now on connections of `listener` speak TLS by these files; open ones go on as they are.

        Raises ConfigError, which names the file that cannot be used; then nothing has changed.
        """
        client_ca = None if files.client_ca is None else str(files.client_ca)
        try:
            self._native.set_tls(listener, str(files.certificate), str(files.key), client_ca)
        except ValueError as error:
            raise ConfigError(str(error)) from error

    def set_client_tls(self, files: ClientTlsFiles) -> None:
        """From now on connections to workers at https:// use these files. Raises ConfigError as `set_tls`."""
        identity = None if files.identity is None else (str(files.identity[0]), str(files.identity[1]))
        try:
            self._native.set_client_tls(None if files.ca is None else str(files.ca), identity)
        except ValueError as error:
            raise ConfigError(str(error)) from error

    async def start(self, host: str, port: int, on_arrival: OnArrival, *, listener: str = "traffic") -> tuple[str, int]:
        """Listen on `host`:`port` (0: any free port) and give the address bound; may be called for several addresses.

        `on_arrival` is called with every request, of every listener: `Arrival.listener` is the name given here. It
        gives back the coroutine that answers it, which runs in a task of its own, or None when it has dispatched the
        request itself: a task and its future take 20 us. Raises AddressInUse, or ConfigError for an address that cannot
        be listened on.
        """
        loop = self._begin_reading(on_arrival)
        try:
            return await loop.run_in_executor(None, self._native.listen, host, port, listener)
        except OSError as exc:
            if exc.errno == errno.EADDRINUSE:
                raise AddressInUse(f"{host}:{port} is in use by another process; choose another port") from exc
            raise ConfigError(f"cannot listen on {host}:{port}: {exc}") from exc

    async def listen_on(self, fd: int, on_arrival: OnArrival, *, listener: str = "traffic") -> tuple[str, int]:
        """As `start`, on a socket that listens already: inherited, or handed over by `listener_fds` of another process.

        `fd` is duplicated and stays the caller's. Raises ConfigError if it is no listening internet socket.
        """
        self._begin_reading(on_arrival)
        try:
            return self._native.listen_on(fd, listener)
        except (OSError, ValueError) as exc:
            raise ConfigError(f"cannot listen on descriptor {fd}: {exc}") from exc

    def listener_fds(self) -> list[tuple[str, int]]:
        """Names and duplicates, which the caller closes, of the sockets that listen; none after `stop_accepting`."""
        return self._native.listener_fds()

    async def forward(
        self,
        request_id: int,
        base_url: str,
        request_headers: Headers = (),
        response_headers: Headers = (),
        on_first_byte: OnFirstByte | None = None,
        on_end: OnEnd | None = None,
        hold: Collection[int] = (),
    ) -> AttemptFailed | Outcome:
        """Send the request to the worker at `base_url` and wait until it has ended, or until this attempt failed.

        After AttemptFailed the client still waits: forward again or respond. An answer whose status is in `hold` is
        held back, which counts as a failure of kind `held`: it may also be sent to the client by `pass_on`, and is
        dropped by everything else. If the client has left already, its outcome is returned at once. `on_end` is called
        exactly once with what this returns, before it returns and also if the awaiting task is cancelled. Raises
        ValueError, without a call of `on_end`, for a header that cannot be sent.
        """
        exchange = self._open[request_id]
        attempt = self._begin(exchange, Attempt(_new_future(), on_first_byte, on_end))
        if exchange.outcome is not None:
            self._end_attempt(exchange, exchange.outcome)
        else:
            self._ask(exchange, request_id, base_url, request_headers, response_headers, hold)
        assert attempt.future is not None, "it was made for being waited for"
        return await attempt.future

    def dispatch(
        self,
        request_id: int,
        base_url: str,
        request_headers: Headers,
        response_headers: Headers,
        on_end: OnEnd,
        on_first_byte: OnFirstByte | None = None,
        hold: Collection[int] = (),
    ) -> None:
        """As `forward`, without waiting: `on_end` hears how it ended. After AttemptFailed it must `go_on`.

        Raises ValueError, without a call of `on_end`, for a header that cannot be sent.
        """
        exchange = self._open[request_id]
        self._begin(exchange, Attempt(None, on_first_byte, on_end))
        self._ask(exchange, request_id, base_url, request_headers, response_headers, hold)

    async def pass_on(self, request_id: int, on_end: OnEnd | None = None) -> Outcome:
        """Send the answer that is held back to the client, with the headers of its forward, and wait for the outcome.

        `on_end` is called as by `forward`. Raises RuntimeError if no answer is held back.
        """
        exchange = self._open[request_id]
        if exchange.outcome is None and not exchange.held:
            raise RuntimeError("no answer is held back")
        attempt = self._begin(exchange, Attempt(_new_future(), on_end=on_end))
        if exchange.outcome is not None:
            self._end_attempt(exchange, exchange.outcome)
        else:
            self._native.pass_on(request_id)
        return await _outcome(attempt)

    def go_on(self, request_id: int, handler: Handler) -> None:
        """Let `handler` answer a request whose dispatch has failed."""
        exchange = self._open.get(request_id)
        assert exchange is not None, "a request is open until its outcome has been told"
        self._run(request_id, exchange, handler)

    async def respond(self, request_id: int, status: int, headers: Headers, body: bytes) -> Outcome:
        """Answer the request with the router's own words and wait for its outcome.

        Raises ValueError for a status or header that cannot be sent.
        """
        exchange = self._open[request_id]
        if exchange.outcome is not None:
            return exchange.outcome
        attempt = self._begin(exchange, Attempt(_new_future()))
        self._send(exchange, self._native.respond, request_id, status, headers, body)
        return await _outcome(attempt)

    def gone(self, request_id: int) -> bool:
        """Whether the request has ended already, as when its client left while the handler was deciding."""
        exchange = self._open.get(request_id)
        return exchange is None or exchange.outcome is not None

    def in_flight(self) -> int:
        """Requests that have arrived and not ended."""
        return self._native.in_flight()

    def stop_accepting(self) -> None:
        """Take no further connections and close the idle ones; requests in flight go on."""
        self._native.stop_accepting()

    async def close(self, grace_s: float) -> None:
        """Stop accepting, give the requests in flight `grace_s` seconds, end what is left.

        Streams then end with an error event (`router_stopping`), requests without an answer with 503, anything else is
        broken off. A second call while the first waits may shorten its grace, `close(0)` ends it.
        Every outcome has been delivered and every handler has ended when this returns.
        """
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self._native.close, grace_s)
        self._drain()
        if self._loop is not None:
            self._loop.remove_reader(self._native.fileno())
            self._loop = None
        await self._finish_handlers()

    def _begin_reading(self, on_arrival: OnArrival) -> asyncio.AbstractEventLoop:
        self._on_arrival = on_arrival
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._loop.add_reader(self._native.fileno(), self._drain)
        return self._loop

    def _begin(self, exchange: Exchange, attempt: Attempt) -> Attempt:
        if exchange.attempt is not None:
            raise RuntimeError("the request is being answered already")
        exchange.attempt, exchange.held = attempt, False
        return attempt

    def _ask(
        self,
        exchange: Exchange,
        request_id: int,
        base_url: str,
        request_headers: Headers,
        response_headers: Headers,
        hold: Collection[int],
    ) -> None:
        timed = exchange.attempt is not None and exchange.attempt.on_first_byte is not None
        forward = self._native.forward
        self._send(exchange, forward, request_id, base_url, request_headers, response_headers, tuple(hold), timed)

    def _send(self, exchange: Exchange, send: Callable[..., None], *args: object) -> None:
        try:
            send(*args)
        except ValueError:
            exchange.attempt = None
            raise

    def _drain(self) -> None:
        for event in self._native.take_events():
            if isinstance(event, Arrival):
                self._arrived(event)
            elif isinstance(event, FirstByte):
                self._first_byte(event)
            elif isinstance(event, AttemptFailed):
                self._attempt_failed(event)
            else:
                self._ended(event)

    def _arrived(self, arrival: Arrival) -> None:
        self.counts.arrivals += 1
        exchange = self._open[arrival.request_id] = Exchange()
        assert self._on_arrival is not None, "nothing arrives before start"
        try:
            handler = self._on_arrival(arrival)
        except Exception:
            _log.exception("a %s request could not be handled", arrival.method)
            self._handled(arrival.request_id, exchange)
            return
        if handler is not None:
            self._run(arrival.request_id, exchange, handler)
        elif exchange.attempt is None:
            self._handled(arrival.request_id, exchange)

    def _run(self, request_id: int, exchange: Exchange, handler: Handler) -> None:
        assert self._loop is not None, "arrivals are drained between start and close only"
        # The exchange keeps its task: the loop itself holds tasks weakly.
        exchange.task = self._loop.create_task(self._handle(request_id, exchange, handler))

    async def _handle(self, request_id: int, exchange: Exchange, handler: Handler) -> None:
        try:
            await handler
        except Exception:
            _log.exception("the handler of a request failed")
        finally:
            self._handled(request_id, exchange)

    def _handled(self, request_id: int, exchange: Exchange) -> None:
        exchange.task = None
        if exchange.outcome is not None:
            self._open.pop(request_id, None)
            return
        # The client still waits. If an attempt is under way, this answer is used only should the attempt fail.
        self.counts.unanswered += 1
        self._native.respond(request_id, 500, [("content-type", "application/json")], _NO_ANSWER)

    def _first_byte(self, event: FirstByte) -> None:
        exchange = self._open.get(event.request_id)
        if exchange is not None and exchange.attempt is not None:
            self._call(exchange.attempt.on_first_byte, event)

    def _attempt_failed(self, event: AttemptFailed) -> None:
        self.counts.failed_attempts += 1
        exchange = self._open.get(event.request_id)
        if exchange is not None:
            exchange.held = event.kind == "held"
            self._end_attempt(exchange, event)

    def _ended(self, outcome: Outcome) -> None:
        self.counts.outcomes += 1
        self.counts.cut_off += outcome.end == "shutdown"
        exchange = self._open.get(outcome.request_id)
        if exchange is not None:
            exchange.outcome = outcome
            self._end_attempt(exchange, outcome)
            if exchange.task is None:
                self._open.pop(outcome.request_id, None)
        self._call(self.on_outcome, outcome)

    def _end_attempt(self, exchange: Exchange, event: AttemptFailed | Outcome) -> None:
        attempt, exchange.attempt = exchange.attempt, None
        if attempt is None:
            return
        self._call(attempt.on_end, event)
        if attempt.future is None:
            if isinstance(event, AttemptFailed) and exchange.task is None:
                self._handled(event.request_id, exchange)
        elif not attempt.future.done():
            attempt.future.set_result(event)

    def _call(self, callback: Callable[[Any], None] | None, event: object) -> None:
        if callback is None:
            return
        try:
            callback(event)
        except Exception:
            # One bad observer must not keep the other events of this wake-up from their requests.
            self.counts.callback_errors += 1
            _log.exception("a callback of the relay failed on %r", event)

    async def _finish_handlers(self) -> None:
        tasks = [exchange.task for exchange in self._open.values() if exchange.task is not None]
        tasks = [task for task in tasks if task is not asyncio.current_task()]
        if not tasks:
            return
        _, late = await asyncio.wait(tasks, timeout=_HANDLER_GRACE_S)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)


async def _outcome(attempt: Attempt) -> Outcome:
    assert attempt.future is not None, "it was made for being waited for"
    ended = await attempt.future
    assert isinstance(ended, Outcome), "neither an answer of the router's own nor a held one can fail"
    return ended


def _new_future() -> asyncio.Future[AttemptFailed | Outcome]:
    return asyncio.get_running_loop().create_future()


def _half_of_the_cores() -> int:
    """The other half is for decisions and KV events. More than 8 threads carry more than any network brings."""
    return min(8, max(1, len(os.sched_getaffinity(0)) // 2))
