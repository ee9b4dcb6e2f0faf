"""Where requests come in: which of the router's pages are served at which address, and who may go on from there.

The traffic port serves what goes to workers, and what load balancers and clients ask; everything that tells of the
fleet or changes it is served on the admin port.
"""

import dataclasses
import logging
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from warmroute.gateway.access import Access
from warmroute.gateway.access_options import admin_port
from warmroute.gateway.admin import Admin, is_for_workers, no_such_page
from warmroute.gateway.answers import Answer, error_answer
from warmroute.gateway.configuration import Configuration
from warmroute.gateway.cross_site import forged, is_loopback, rebound
from warmroute.gateway.inherited import ADMIN, TRAFFIC, Inherited
from warmroute.gateway.keys import Role
from warmroute.gateway.proxy import Proxy
from warmroute.gateway.relay import Arrival, RelayServer

_log = logging.getLogger(__name__)

ON_BOTH = ("/health", "/ready", "/v1/models")
"""The router's own pages that the traffic port serves as well."""

# Load balancers have no keys.
_OPEN = ("/health", "/ready")
# What operators ask takes milliseconds, but for a dump.
_PAGES_GRACE_S = 1.0


class Serves(StrEnum):
    """What is served at an address."""

    TRAFFIC = "traffic"
    ADMIN = "admin"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class Door:
    """Takes the requests of one address to the workers or to the router's own pages."""

    serves: Serves
    admin: Admin
    proxy: Proxy
    access: Access
    relay: RelayServer
    on_loopback: bool

    def arrived(self, arrival: Arrival) -> Coroutine[Any, Any, None] | None:
        """What answers a request; None where it is on its way already."""
        if self.serves is Serves.ADMIN or not self.admin.leaves(arrival):
            return self._answer(arrival)
        refusal = self.access.refusal(arrival, Role.TRAFFIC)
        return self.proxy.arrived(arrival) if refusal is None else self._respond(arrival, refusal)

    async def _answer(self, arrival: Arrival) -> None:
        answer = self._misdirected(arrival) or self._refusal(arrival)
        await self._respond(arrival, answer or await self.admin.answer(arrival))

    async def _respond(self, arrival: Arrival, answer: Answer) -> None:
        await self.relay.respond(arrival.request_id, answer.status, answer.headers, answer.body)

    def _refusal(self, arrival: Arrival) -> Answer | None:
        """What is told to those who may not see a page of the router's own."""
        path = arrival.path.rstrip("/")
        if path in _OPEN:
            return None
        if path in ON_BOTH:
            return self.access.refusal(arrival, Role.TRAFFIC)
        # Whoever shows a key is no page of another site.
        rebinding = rebound(arrival) if self.on_loopback and self.access.rights.keys is None else None
        return rebinding or self.access.refusal(arrival, Role.ADMIN) or forged(arrival)

    def _misdirected(self, arrival: Arrival) -> Answer | None:
        path = arrival.path.rstrip("/") or "/"
        if self.serves is Serves.BOTH or path in ON_BOTH:
            return None
        if self.serves is Serves.ADMIN:
            if not is_for_workers(path):
                return None
            return error_answer(path, 404, "not_found", "requests for workers are taken on the traffic port")
        if path.startswith("/warmroute/") or path == "/metrics":
            return error_answer(path, 404, "not_found", f"{path} is served on the router's admin port")
        return no_such_page(path)


@dataclass(frozen=True, slots=True)
class Doors:
    """Where the router listens: the URL of traffic, that of its own pages, and the relays that take requests there."""

    url: str
    admin_url: str
    relays: tuple[RelayServer, ...]


async def open_doors(
    stack: AsyncExitStack,
    configuration: Configuration,
    admin: Admin,
    proxy: Proxy,
    access: Access,
    inherited: Inherited,
) -> Doors:
    """Listen for traffic, and for operators at an address of their own. What is opened `stack` closes.

    Sockets that were inherited are listened on instead of the configured addresses. The relay of the pages has a thread
    of its own, so that a look at the router neither waits for traffic nor holds it up. It is closed last: operators can
    look until the last request has ended.
    """
    options, config = configuration.access, configuration.serve
    port = admin_port(options, config.port)
    door = Door(
        Serves.BOTH if port is None else Serves.TRAFFIC, admin, proxy, access, proxy.relay, is_loopback(config.host)
    )
    access.tls.carry(proxy.relay)
    url = await _listen(inherited, TRAFFIC, door, config.host, config.port)
    if port is None:
        return Doors(url, url, (proxy.relay,))
    relay = RelayServer(dataclasses.replace(configuration.relay, relay_threads=1))
    stack.push_async_callback(relay.close, _PAGES_GRACE_S)
    door = Door(Serves.ADMIN, admin, proxy, access, relay, is_loopback(options.admin_host))
    if not (door.on_loopback or access.rights.keys):
        _log.warning("the router's own pages can be reached from elsewhere, and need no key; see --api-keys")
    return Doors(url, await _listen(inherited, ADMIN, door, options.admin_host, port), (proxy.relay, relay))


async def _listen(inherited: Inherited, listener: str, door: Door, host: str, port: int) -> str:
    """The URL of the listener: that of the sockets that were inherited for it, else a new one."""
    scheme = "https" if door.access.tls.begin(listener, door.relay) else "http"
    address: tuple[str, int] | None = None
    for each in inherited.take(listener):
        with each:
            address = await door.relay.listen_on(each.fileno(), door.arrived, listener=listener)
    host, port = address or await door.relay.start(host, port, door.arrived, listener=listener)
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"
