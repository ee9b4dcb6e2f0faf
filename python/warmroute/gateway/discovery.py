"""What a worker says of itself: models, block size, capacity, load, and where its KV events are published.

Sources: vLLM `/v1/models`, `/metrics` (`vllm:cache_config_info`), `/kv_event_sources` (0.31 and newer); SGLang
`/server_info` (older: `/get_server_info`). The readers below take parsed bodies and never fail on a missing field:
not told is None.
"""

import asyncio
import dataclasses
import math
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import aiohttp

from warmroute.errors import WorkerUnreachable
from warmroute.gateway.destinations import NoDestination
from warmroute.kv_event import EventSource
from warmroute.worker import LARGEST_COUNT, WorkerFacts, WorkerSpec

_RUNNING = ("vllm:num_requests_running", "sglang:num_running_reqs")
_WAITING = ("vllm:num_requests_waiting", "sglang:num_queue_reqs")
_CACHE_CONFIG = "vllm:cache_config_info"
_KV_USAGE = ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "sglang:token_usage")

# A page of vLLM's metrics with a hundred adapters has a megabyte.
_LARGEST_PAGE = 32 << 20
_NAMES_OF_FAULTS: Mapping[type[aiohttp.ClientError], str] = {
    aiohttp.ServerDisconnectedError: "it closed the connection without an answer",
    aiohttp.ClientPayloadError: "its answer broke off",
    aiohttp.ClientOSError: "the connection broke",
    aiohttp.ClientConnectorError: "no connection",
    aiohttp.ClientConnectorSSLError: "TLS is not agreed upon",
}
# A worker that says that it has more data-parallel ranks is not believed: each costs a socket.
_MOST_RANKS = 1024

# prometheus_client's own; several processes behind one page do not tell it.
_STARTED = "process_start_time_seconds"

_NAMES = "|".join((*_RUNNING, *_WAITING, *_KV_USAGE, _CACHE_CONFIG, _STARTED))
# name{labels} value [timestamp]
_SAMPLE = re.compile(
    rf"^({_NAMES})(?:\{{(.*)\}})?[ \t]+([0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?)(?:[ \t].*)?$", re.MULTILINE
)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class WorkerMetrics:
    """What `/metrics` tells; requests are running and waiting ones over all ranks, `waiting` those that wait.

    started_at: when the engine's process began, in seconds since 1970.
    """

    requests: int | None = None
    kv_usage: float | None = None
    block_size: int | None = None
    capacity_blocks: int | None = None
    waiting: int | None = None
    started_at: float | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """What a worker answered."""

    status: int
    body: bytes

    @property
    def wants_key(self) -> bool:
        """Whether the page is kept from those who show no key, or not the right one."""
        return self.status in (401, 403)


async def fetch(session: aiohttp.ClientSession, url: str, path: str) -> bytes | None:
    """The body of a GET, None where the worker has no such page (3xx, 4xx); raises WorkerUnreachable otherwise."""
    page = await fetch_page(session, url, path)
    return page.body if page.status < 300 else None


async def fetch_page(session: aiohttp.ClientSession, url: str, path: str) -> Page:
    """The answer to a GET; raises WorkerUnreachable for 5xx, for none, and for one that is larger than any page is.

    What it redirects to is not asked: a worker must not choose whom the router talks to.
    """
    try:
        async with session.get(url + path, allow_redirects=False) as response:
            body = await _body(response)
    except TimeoutError as error:
        raise WorkerUnreachable(f"no answer from {path} in time") from error
    except aiohttp.ClientConnectorError as error:
        raise WorkerUnreachable(f"cannot connect: {_why(error)}") from error
    except aiohttp.ClientError as error:
        raise WorkerUnreachable(f"{path}: {_why(error)}") from error
    if body is None:
        raise WorkerUnreachable(f"{path} answered more than {_LARGEST_PAGE >> 20} MiB")
    if response.status >= 500:
        raise WorkerUnreachable(f"{path} answered {response.status}")
    return Page(response.status, body)


def _why(error: aiohttp.ClientError) -> str:
    """What went wrong, without addresses and without what the worker has sent: clients and logs are told this."""
    if isinstance(error, NoDestination):
        return str(error)
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "its name has no address"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        told = getattr(error.certificate_error, "verify_message", "")
        return f"its certificate is not believed ({told})" if told else "its certificate is not believed"
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return _NAMES_OF_FAULTS.get(type(error), "what it answers is not HTTP as it should be")


async def _body(response: aiohttp.ClientResponse) -> bytes | None:
    """The body; None where it does not end in time to be read."""
    try:
        await response.content.readexactly(_LARGEST_PAGE + 1)
    except asyncio.IncompleteReadError as whole:
        return whole.partial
    return None


def read_models(body: Any) -> tuple[dict[str, bool], int | None]:
    """`/v1/models`: each name with whether it is an adapter (it has a parent), and the longest context."""
    entries = [entry for entry in _items(body, "data") if isinstance(entry.get("id"), str)]
    models = {entry["id"]: bool(entry.get("parent")) for entry in entries}
    lengths = [entry["max_model_len"] for entry in entries if isinstance(entry.get("max_model_len"), int)]
    return models, max(lengths, default=None)


def read_origins(body: Any) -> tuple[str | None, dict[str, str]]:
    """`/v1/models`: the kind of engine, from `owned_by` ("vllm", "sglang"), and where each model was loaded from."""
    entries = [entry for entry in _items(body, "data") if isinstance(entry.get("id"), str)]
    owners = (entry["owned_by"] for entry in entries if isinstance(entry.get("owned_by"), str))
    roots = {e["id"]: e["root"] for e in entries if isinstance(e.get("root"), str) and not e.get("parent")}
    return next(owners, None), roots


def read_metrics(text: str) -> WorkerMetrics:
    """`/metrics` in Prometheus text; other metrics, and what is no sample, are passed over."""
    totals: dict[str, float] = {}
    config: Mapping[str, str] = {}
    # Only the lines that count are taken apart: a whole page of vLLM's, read by prometheus_client's parser for each of
    # 200 workers each second, filled a core (9 ms a page).
    for name, labels, value in _SAMPLE.findall(text):
        totals[name] = totals.get(name, 0.0) + float(value)
        if name == _CACHE_CONFIG:
            config = dict(_LABEL.findall(labels))
    running, waiting = _first(totals, _RUNNING), _first(totals, _WAITING)
    blocks = _number(config.get("num_gpu_blocks"))
    # vLLM's number is the sum over its data-parallel ranks, said once for each of them; the value of the metric is 1.
    ranks = max(1, round(totals.get(_CACHE_CONFIG, 1.0)))
    return WorkerMetrics(
        requests=_whole(running, waiting),
        waiting=_whole(waiting, None),
        started_at=totals.get(_STARTED),
        kv_usage=_first(totals, _KV_USAGE),
        block_size=_number(config.get("block_size")),
        capacity_blocks=None if blocks is None else max(1, blocks // ranks),
    )


def read_kv_event_sources(body: Any, worker_url: str) -> tuple[EventSource, ...]:
    """vLLM's `/kv_event_sources`: one publisher per data-parallel rank."""
    if not isinstance(body, dict):
        return ()
    entries = {int(rank): entry for rank, entry in body.items() if _is_rank(rank) and isinstance(entry, dict)}
    found = {rank: _vllm_source(entry, worker_url) for rank, entry in sorted(entries.items())}
    return _ranked({rank: source for rank, source in found.items() if source is not None})


def read_server_info(body: Any, worker_url: str) -> tuple[WorkerFacts, tuple[EventSource, ...]]:
    """SGLang's `/server_info`: block size, capacity, limit of each rank, and one publisher per data-parallel rank."""
    if not isinstance(body, dict):
        return WorkerFacts(), ()
    told = body.get("kv_events")
    events: Mapping[str, Any] = told if isinstance(told, dict) else {}
    block_size = _number(events.get("block_size")) or _number(body.get("page_size"))
    tokens = _number(body.get("max_total_num_tokens"))
    capacity = tokens // block_size if tokens and block_size else None
    facts = WorkerFacts(
        block_size=block_size,
        capacity_blocks=capacity,
        max_running_requests=_running_limit(body),
    )
    return facts, _sglang_sources(events, worker_url)


def _running_limit(body: Mapping[str, Any]) -> int | None:
    """How many requests each rank of SGLang runs at once: as its scheduler has settled it, else as it was told to.

    The option is for all ranks together where attention is data-parallel.
    """
    settled = next(iter(_items(body, "internal_states")), {})
    told = _number(body.get("max_running_requests"))
    if told is not None and body.get("enable_dp_attention") is True:
        told = max(1, told // (_number(body.get("dp_size")) or 1))
    return _number(settled.get("effective_max_running_requests_per_dp")) or told


def reachable(endpoint: str, worker_url: str) -> str:
    """A publisher's endpoint as the router can connect to it: a wildcard host becomes the worker's own."""
    try:
        parts = urlsplit(endpoint)
    except ValueError:
        return endpoint  # no address, as will be seen when it is connected to
    if parts.scheme != "tcp" or parts.hostname not in (None, "*", "0.0.0.0", "::"):
        return endpoint
    host = urlsplit(worker_url).hostname or "127.0.0.1"
    port = endpoint.rsplit(":", 1)[1]
    return urlunsplit(("tcp", f"{f'[{host}]' if ':' in host else host}:{port}", "", "", ""))


def _vllm_source(entry: Mapping[str, Any], worker_url: str) -> EventSource | None:
    endpoint, replay = entry.get("endpoint"), entry.get("replay_endpoint")
    if not isinstance(endpoint, str) or entry.get("publisher") == "null":
        return None
    topic = entry.get("topic")
    return EventSource(
        reachable(endpoint, worker_url),
        reachable(replay, worker_url) if isinstance(replay, str) else None,
        topic if isinstance(topic, str) else "",
    )


def _sglang_sources(events: Mapping[str, Any], worker_url: str) -> tuple[EventSource, ...]:
    base, replay = _number(events.get("endpoint_port_base")), _number(events.get("replay_endpoint_port_base"))
    if base is None or events.get("publisher") == "null":
        return ()
    host, topic = str(events.get("endpoint_host") or "*"), str(events.get("topic") or "")
    ranks = min(_number(events.get("dp_size")) or 1, _MOST_RANKS)
    first = EventSource(
        reachable(f"tcp://{host}:{base}", worker_url),
        None if replay is None else reachable(f"tcp://{host}:{replay}", worker_url),
        topic,
    )
    return _ranked({rank: _of_rank(first, rank) for rank in range(ranks)})


def configured_sources(spec: WorkerSpec) -> tuple[EventSource, ...]:
    """What a person named: one publisher, or one for each of `kv_ranks`, on the ports from the named ones on."""
    if spec.kv_events is None:
        return ()
    first = EventSource(spec.kv_events, spec.kv_replay, spec.kv_topic)
    return _ranked({rank: _of_rank(first, rank) for rank in range(min(spec.kv_ranks or 1, _MOST_RANKS))})


def _is_rank(key: Any) -> bool:
    return isinstance(key, str) and key.isdecimal() and len(key) <= len(str(_MOST_RANKS))


def _ranked(sources: Mapping[int, EventSource]) -> tuple[EventSource, ...]:
    """An engine with one rank is not addressed by it."""
    if len(sources) == 1:
        return tuple(sources.values())
    return tuple(dataclasses.replace(source, rank=rank) for rank, source in sources.items())


def _of_rank(first: EventSource, rank: int) -> EventSource:
    """The publisher of a rank, as vLLM and SGLang number their ports."""
    replay = first.replay_endpoint
    return dataclasses.replace(
        first,
        endpoint=_port_plus(first.endpoint, rank),
        replay_endpoint=None if replay is None else _port_plus(replay, rank),
    )


def _port_plus(endpoint: str, rank: int) -> str:
    address, colon, port = endpoint.rpartition(":")
    return f"{address}{colon}{int(port) + rank}" if rank and port.isdecimal() else endpoint


def _items(body: Any, key: str) -> Iterable[Mapping[str, Any]]:
    found = body.get(key) if isinstance(body, dict) else None
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def _first(totals: Mapping[str, float], names: Iterable[str]) -> float | None:
    return next((totals[name] for name in names if name in totals), None)


def _number(value: Any) -> int | None:
    """A positive whole number of sensible size, also one written as text, as vLLM's metric labels are."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and value.isdecimal() and len(value) <= len(str(LARGEST_COUNT)):
        value = int(value)
    return value if isinstance(value, int) and 0 < value <= LARGEST_COUNT else None


def _whole(running: float | None, waiting: float | None) -> int | None:
    """Requests running and waiting; None where they are not told, or are no number."""
    total = math.nan if running is None else running + (waiting or 0.0)
    return int(total) if math.isfinite(total) else None
