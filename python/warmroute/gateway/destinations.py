"""What the router may be sent to by those who register workers, and by what workers say of themselves.

Whoever may add a worker must not be able to have the router ask a cloud's metadata service, or whatever else listens
where only the router's machine can reach it. A name is judged by itself when it is given, and by its addresses whenever
the router asks there: one that resolves elsewhere later is down.
"""

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from urllib.parse import urlsplit

import aiohttp

from warmroute.errors import ConfigError
from warmroute.worker import WorkerSpec

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_NEVER_UNASKED = tuple(
    map(
        ipaddress.ip_network,
        (
            "0.0.0.0/32",  # unspecified: this machine itself, under a name that no list of forbidden ones has
            "::/128",
            "169.254.0.0/16",  # link-local; metadata of AWS, Azure, Google Cloud, OpenStack
            "fe80::/10",
            "fd00:ec2::254/128",  # metadata of AWS over IPv6
            "fd20:ce::254/128",  # of Google Cloud
            "100.100.100.200/32",  # of Alibaba Cloud
            "192.0.0.192/32",  # of Oracle Cloud
            "224.0.0.0/4",  # multicast
            "ff00::/8",
            "255.255.255.255/32",
        ),
    )
)
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
# A host that ends so is an address to the resolver (inet_aton: 2852039166, 0xa9fea9fe, 169.254.43518) and to browsers.
_ENDS_IN_A_NUMBER = re.compile(r"(^|\.)(0x[0-9a-f]*|[0-9]+)\.?$")


class NoDestination(aiohttp.ClientError):
    """A worker's address is none at which workers may be, so it is not asked anything."""

    def __str__(self) -> str:
        return "no worker may be where it is; see --allow-workers"


@dataclass(frozen=True, slots=True)
class Destinations:
    """What `--allow-workers` says; without any entry everything but addresses that no worker has."""

    networks: tuple[Network, ...] = ()
    patterns: tuple[str, ...] = ()

    def refusal(self, host: str) -> str | None:
        """Why a host, an address or a name, is none for a worker; None where it may be one."""
        address = _address(host)
        if address is not None:
            return None if self.permits(host, address) else f"{host} is no address that workers may have"
        if _ENDS_IN_A_NUMBER.search(host.lower()):
            return f"{host} is an address in a shape that is not taken; write it in full"
        if not self._any or self.networks or self._named(host):
            return None
        return f"{host} is no name that workers may have"

    def permits(self, host: str, address: Address | str) -> bool:
        """Whether one of the addresses of a host may be connected to."""
        told = _address(address) if isinstance(address, str) else address
        if told is None:
            return False
        real = _embedded(told)
        if any(
            each in network for each in (told, real) for network in self.networks if each.version == network.version
        ):
            return True
        if any(real in network for network in _NEVER_UNASKED if real.version == network.version):
            return False
        return not self._any or self._named(host)

    def check(self, spec: WorkerSpec) -> None:
        """Raises ConfigError for a worker, or an endpoint of its KV events, that is not where workers may be."""
        host = _host(spec.url)
        self._raise(self.refusal(host), spec.url)
        for endpoint in (spec.kv_events, spec.kv_replay):
            if endpoint is not None:
                self._raise(self._refusal_of_endpoint(endpoint, host), endpoint)

    def permits_told(self, endpoint: str, worker_url: str) -> bool:
        """Whether an endpoint that a worker names for its KV events is its own, or an address where workers may be.

        A name of its choice is neither: nobody would look at what it resolves to.
        """
        host, named = _host(worker_url), _host(endpoint)
        if endpoint.startswith("ipc:") or named == host:
            return self._refusal_of_endpoint(endpoint, host) is None
        return _address(named) is not None and self.refusal(named) is None

    def _refusal_of_endpoint(self, endpoint: str, worker_host: str) -> str | None:
        if not endpoint.startswith("ipc:"):
            return self.refusal(_host(endpoint))
        address = _address(worker_host)
        local = worker_host == "localhost" if address is None else address.is_loopback
        return None if local else "a socket of this machine is none of a worker elsewhere"

    def _raise(self, refusal: str | None, what: str) -> None:
        if refusal is not None:
            raise ConfigError(f"'{what}' cannot be a worker's: {refusal}; see --allow-workers")

    @property
    def _any(self) -> bool:
        return bool(self.networks or self.patterns)

    def _named(self, host: str) -> bool:
        return any(fnmatchcase(host.lower().rstrip("."), pattern) for pattern in self.patterns)


def destinations(entries: Iterable[str]) -> Destinations:
    """`--allow-workers`: networks such as 10.0.0.0/8, addresses, and names or patterns such as *.gpu.example.org.

    Raises ConfigError for an entry that is none of these.
    """
    networks: list[Network] = []
    patterns: list[str] = []
    for entry in entries:
        try:
            networks.append(ipaddress.ip_network(entry.strip("[]"), strict=False))
        except ValueError:
            if not entry or re.fullmatch(r"[A-Za-z0-9._*?-]+", entry) is None or _ENDS_IN_A_NUMBER.search(entry):
                raise ConfigError(f"'{entry}' in allow_workers is neither a network nor a host's name") from None
            patterns.append(entry.lower().rstrip("."))
    return Destinations(tuple(networks), tuple(patterns))


def _host(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").lower()
    except ValueError:
        return ""


def _address(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host.strip("[]").split("%", 1)[0])
    except ValueError:
        return None


def _embedded(address: Address) -> Address:
    """The IPv4 address that an IPv6 one leads to, where it is such a one."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address
