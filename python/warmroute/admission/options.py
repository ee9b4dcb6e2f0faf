"""What can be said of second tries, of workers that come up, and of the queue."""

from dataclasses import dataclass

from warmroute.config import LONGEST_S, SHORTEST_S, check_range, option


@dataclass(frozen=True, slots=True)
class FailoverOptions:
    """Limits that keep a fleet alive which fails or is full. Raises ConfigError where a value cannot be used."""

    retry_share: float = option(
        0.2,
        "second tries, as a part of all requests, that may be made; a fleet that fails as a whole gets no more",
        live=True,
    )
    retry_floor_per_s: float = option(
        3.0,
        "second tries per second that may be made however few requests there are",
        live=True,
    )
    slow_start_s: float = option(
        10.0,
        "seconds over which the share of a worker that has come up grows, while others serve; 0: at once",
        live=True,
    )
    max_requests: int | None = option(
        None,
        "requests in flight at which a worker is full (default: what its engine tells, as SGLang does)",
        live=True,
    )
    queue_size: int = option(
        1024,
        "requests that may wait in the router while every worker is full; 0: nothing waits, all is sent on",
        live=True,
    )
    queue_timeout_s: float = option(
        30.0,
        "seconds that a request may wait so; the header x-warmroute-timeout-s of a request can only lower it",
        live=True,
    )
    tenant_header: str | None = option(
        None,
        "header whose value says for whom a request is; tenants share a queue fairly (default: the API key's name)",
    )

    def __post_init__(self) -> None:
        check_range(self, 0, 10, "retry_share")
        check_range(self, 0, 1e6, "retry_floor_per_s")
        check_range(self, 0, LONGEST_S, "slow_start_s")
        check_range(self, 1, 1_000_000, "max_requests")
        check_range(self, 0, 1_000_000, "queue_size")
        check_range(self, SHORTEST_S, LONGEST_S, "queue_timeout_s")
