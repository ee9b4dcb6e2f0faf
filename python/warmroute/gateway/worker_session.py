"""The connections over which the router itself asks workers."""

import socket

import aiohttp
from aiohttp import hdrs
from aiohttp.abc import AbstractResolver, ResolveResult

from warmroute.gateway.access import Access
from warmroute.gateway.destinations import NoDestination


class _Resolver(AbstractResolver):
    """Resolves names to those of their addresses at which workers may be."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._all = aiohttp.DefaultResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._all.resolve(host, port, family)
        allowed = self._access.rights.destinations
        permitted = [each for each in found if allowed.permits(host, each["host"])]
        if found and not permitted:
            raise NoDestination()
        return permitted

    async def close(self) -> None:
        await self._all.close()


def worker_session(access: Access, timeout: aiohttp.ClientTimeout | None = None) -> aiohttp.ClientSession:
    """A session whose questions go only where workers may be, and show the router's own key unless they have another.

    As many connections as are needed: hung workers must not delay others' looks. Answers are wanted as they are: what
    is small on the wire and large when unpacked would be a weapon. No cookie is kept.
    """

    async def show_key(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
        if access.rights.destinations.refusal(request.url.host or "") is not None:
            raise NoDestination()
        key = access.rights.worker_keys.of(str(request.url))
        if key is not None and hdrs.AUTHORIZATION not in request.headers:
            request.headers[hdrs.AUTHORIZATION] = f"Bearer {key}"
        return await handler(request)

    return aiohttp.ClientSession(
        timeout=timeout or aiohttp.ClientTimeout(total=None),
        connector=aiohttp.TCPConnector(limit=0, resolver=_Resolver(access), ssl=access.tls.for_workers),
        headers={hdrs.ACCEPT_ENCODING: "identity"},
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        middlewares=(show_key,),
    )
