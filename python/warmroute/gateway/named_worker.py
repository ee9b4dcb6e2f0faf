"""Which worker a request to one of the router's own pages is about."""

from urllib.parse import parse_qs

import msgspec

from warmroute.errors import ConfigError
from warmroute.gateway.answers import Answer, error_answer
from warmroute.gateway.options import worker_url
from warmroute.gateway.relay import Arrival
from warmroute.worker import Worker, WorkerId, WorkerTable


def find_worker(table: WorkerTable, arrival: Arrival) -> Worker | Answer:
    """The worker that `?url=`, `?name=` or the same keys of a JSON body name, or the answer that says what is wrong."""
    try:
        url, name = _named(arrival)
        worker = table.get(WorkerId(worker_url(url, where="the request"))) if url is not None else _by_name(table, name)
    except ConfigError as error:
        return error_answer(arrival.path, 400, "invalid_worker", str(error))
    if worker is None:
        return error_answer(arrival.path, 404, "unknown_worker", f"no worker {url or name} is registered")
    return worker


def query_value(arrival: Arrival, key: str) -> str | None:
    """The first value of `key` in the query; None where it is not there or empty."""
    named = parse_qs(arrival.query).get(key)
    return named[0] if named else None


def _named(arrival: Arrival) -> tuple[str | None, str | None]:
    url, name = query_value(arrival, "url"), query_value(arrival, "name")
    if url is None and name is None and arrival.body:
        body = _object(arrival.body)
        url, name = _text(body.get("url")), _text(body.get("name"))
    if url is None and name is None:
        raise ConfigError("name the worker: ?url=http://host:port or ?name=...")
    return url, name


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _object(body: bytes) -> dict[str, object]:
    try:
        return msgspec.json.decode(body, type=dict[str, object])
    except (msgspec.DecodeError, RecursionError) as error:
        raise ConfigError(f'the body must be JSON such as {{"url": "http://host:port"}}: {error}') from error


def _by_name(table: WorkerTable, name: str | None) -> Worker | None:
    return next((worker for worker in table if worker.name == name), None)
