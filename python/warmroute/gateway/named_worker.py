"""Which worker a request to one of the router's own pages is about."""

from urllib.parse import parse_qs

import msgspec

from warmroute.config import reject_unknown_keys
from warmroute.errors import ConfigError
from warmroute.gateway.answers import Answer, error_answer
from warmroute.gateway.options import worker_url
from warmroute.gateway.page_types import NamedWorker
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
    """The value of `key` in the query; None where it is not there. Raises ConfigError where it is there twice."""
    named = parse_qs(arrival.query, keep_blank_values=True).get(key, [])
    if len(named) > 1:
        raise ConfigError(f"the query has {key} {len(named)} times")
    return named[0] if named else None


def _named(arrival: Arrival) -> tuple[str | None, str | None]:
    """URL or name. What is said twice may be said in two ways, so nothing is done then."""
    told = [query_value(arrival, "url"), query_value(arrival, "name"), *_in_body(arrival.body)]
    if sum(word is not None for word in told) != 1:
        raise ConfigError("name the worker, once: ?url=http://host:port or ?name=...")
    url, name, url_in_body, name_in_body = told
    return url if url is not None else url_in_body, name if name is not None else name_in_body


def _in_body(body: bytes) -> tuple[str | None, str | None]:
    if not body:
        return None, None
    try:
        named = msgspec.json.decode(body, type=NamedWorker)
        reject_unknown_keys(msgspec.json.decode(body), NamedWorker.__annotations__, where="the body")
    except (msgspec.DecodeError, RecursionError) as error:
        raise ConfigError(f'the body must be JSON such as {{"url": "http://host:port"}}: {error}') from error
    return named.get("url"), named.get("name")


def _by_name(table: WorkerTable, name: str | None) -> Worker | None:
    return next((worker for worker in table if worker.name == name), None)
