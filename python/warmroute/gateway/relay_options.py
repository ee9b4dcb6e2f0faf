"""Limits, times and certificates of the relay."""

from dataclasses import dataclass
from pathlib import Path

from warmroute.config import LONGEST_S, SHORTEST_S, check_range, option


@dataclass(frozen=True, slots=True)
class RelayOptions:
    """Limits and times of the relay."""

    relay_threads: int | None = option(
        None, "threads that carry the bytes; as many as half of the cores, up to 8, if not given"
    )
    max_body_bytes: int = option(64 << 20, "largest request body; a larger one is refused with 413")
    max_held_mb: int = option(4096, "MB of request bodies held at once; what would exceed them is refused with 503")
    connect_timeout_s: float = option(5.0, "seconds to connect to a worker before the next one is tried")
    first_byte_timeout_s: float = option(600.0, "seconds a worker may take to begin its answer")
    idle_timeout_s: float = option(600.0, "seconds a worker may be silent in the middle of its answer")
    pool_idle_s: float = option(4.0, "seconds an idle connection to a worker is kept; vLLM closes after 5")
    head_timeout_s: float = option(30.0, "seconds a client may take to send a request head, or a piece of a body")
    # Longer than the load balancers that may stand in front keep theirs (AWS 60 s, Google Cloud 600 s): the one who
    # closes last never finds a connection closed under a request.
    client_idle_s: float = option(620.0, "seconds a client's connection may rest between requests")
    min_body_rate: int = option(256, "bytes per second at which a request body must come, after head-timeout-s")
    client_write_timeout_s: float = option(
        120.0, "seconds a client may read nothing of its answer before it is cut off"
    )
    half_close: bool = option(
        False, "serve clients that close their sending side after the request; that they left shows only when writing"
    )
    h2_streams: int = option(256, "requests that one HTTP/2 connection may have open")
    h2_ping_s: float = option(
        30.0, "seconds of silence after which an HTTP/2 client must give a sign of life, in as many"
    )

    def __post_init__(self) -> None:
        check_range(self, 1, 1024, "relay_threads")
        check_range(self, 1, 2**40, "max_body_bytes")
        check_range(self, SHORTEST_S, LONGEST_S, "connect_timeout_s", "first_byte_timeout_s", "idle_timeout_s")
        check_range(self, SHORTEST_S, LONGEST_S, "pool_idle_s", "head_timeout_s", "client_idle_s")
        check_range(self, SHORTEST_S, LONGEST_S, "client_write_timeout_s", "h2_ping_s")
        check_range(self, 1, 2**20, "max_held_mb", "h2_streams")
        check_range(self, 1, 2**30, "min_body_rate")


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files of a listener: its certificate with the ones that lead to its authority, the private key, and, where
    clients must show a certificate, the authorities that these must come from."""

    certificate: Path
    key: Path
    client_ca: Path | None = None


@dataclass(frozen=True, slots=True)
class ClientTlsFiles:
    """PEM files for workers at https://: their authorities (None: those of the system), and the certificate and private
    key that they are shown."""

    ca: Path | None = None
    identity: tuple[Path, Path] | None = None
