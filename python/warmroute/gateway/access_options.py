"""Options of who may reach the router, by what address, and what the router itself may reach."""

from dataclasses import dataclass

from warmroute.config import option
from warmroute.errors import ConfigError

JOINED = "same"
"""The word for `--admin-port` that puts the router's own pages on the traffic port."""


@dataclass(frozen=True, slots=True)
class AccessOptions:
    """Addresses and rights; see each one's help. Raises ConfigError where a value cannot be used."""

    admin_host: str = option("127.0.0.1", "address on which the router's own pages, and /metrics, are served")
    admin_port: int | str | None = option(
        None,
        "port of the router's own pages; 0 takes a free one, 'same' serves them on the traffic port "
        "(default: the port after --port; a free one with --port 0)",
        metavar="PORT",
        words=(JOINED,),
    )
    api_keys: str | None = option(
        None,
        "file of the API keys that clients and operators need, made with 'warmroute keys new NAME'; without it nobody "
        "needs one, and clients' keys go on to the workers",
        metavar="FILE",
        live=True,
    )
    worker_api_key_file: str | None = option(
        None,
        "file with the API key that the router shows to workers: 'KEY' for all, 'URL KEY' for one; clients' requests "
        "get it where --api-keys is given",
        metavar="FILE",
        live=True,
    )
    tls_cert: str | None = option(
        None,
        "PEM file with the certificate that clients see; the traffic port then speaks TLS only",
        metavar="FILE",
        live=True,
    )
    tls_key: str | None = option(None, "PEM file with its private key", metavar="FILE", live=True)
    tls_client_ca: str | None = option(
        None, "PEM file with the authorities of clients' certificates, which they then need", metavar="FILE", live=True
    )
    admin_tls_cert: str | None = option(
        None, "as --tls-cert, for the port of the router's own pages", metavar="FILE", live=True
    )
    admin_tls_key: str | None = option(None, "PEM file with its private key", metavar="FILE", live=True)
    admin_tls_client_ca: str | None = option(
        None, "PEM file with the authorities of operators' certificates", metavar="FILE", live=True
    )
    worker_ca: str | None = option(
        None,
        "PEM file with the authorities of workers at https:// (default: those of the system)",
        metavar="FILE",
        live=True,
    )
    worker_client_cert: str | None = option(
        None, "PEM file with the certificate that workers see", metavar="FILE", live=True
    )
    worker_client_key: str | None = option(None, "PEM file with its private key", metavar="FILE", live=True)
    allow_workers: tuple[str, ...] = option(
        (),
        "where workers may be: a network such as 10.0.0.0/8, an address, a name or a pattern such as *.example.org; "
        "may be repeated (default: everywhere but link-local, metadata, multicast and unspecified addresses)",
        metavar="WHERE",
        live=True,
    )
    show_addresses: bool = option(False, "show clients and logs the workers' URLs, not only their names")

    def tls_files(self) -> tuple[str, ...]:
        """Every file of certificates that is named: each may be renewed."""
        named = (
            *(self.tls_cert, self.tls_key, self.tls_client_ca),
            *(self.admin_tls_cert, self.admin_tls_key, self.admin_tls_client_ca),
            *(self.worker_ca, self.worker_client_cert, self.worker_client_key),
        )
        return tuple(file for file in named if file is not None)

    def __post_init__(self) -> None:
        if isinstance(self.admin_port, int) and not 0 <= self.admin_port <= 65535:
            raise ConfigError(f"admin_port must lie between 0 and 65535 or be '{JOINED}', not {self.admin_port}")


def admin_port(access: AccessOptions, traffic_port: int) -> int | None:
    """The port to listen on for the router's own pages; 0: any free one, None: they are on the traffic port."""
    if isinstance(access.admin_port, str):
        return None
    if access.admin_port is not None:
        return None if access.admin_port == traffic_port != 0 else access.admin_port
    return 0 if traffic_port in (0, 65535) else traffic_port + 1
