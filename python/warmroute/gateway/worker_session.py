"""The connections over which the router itself asks workers."""

import aiohttp
from aiohttp import hdrs

from warmroute.gateway.access import Access


def worker_session(access: Access, timeout: aiohttp.ClientTimeout | None = None) -> aiohttp.ClientSession:
    """A session whose questions show the router's own key to each worker, unless they have one already.

    As many connections as are needed: hung workers must not delay others' looks. Answers are wanted as they are: what
    is small on the wire and large when unpacked would be a weapon. No cookie is kept.
    """

    async def show_key(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
        key = access.rights.worker_keys.of(str(request.url))
        if key is not None and hdrs.AUTHORIZATION not in request.headers:
            request.headers[hdrs.AUTHORIZATION] = f"Bearer {key}"
        return await handler(request)

    return aiohttp.ClientSession(
        timeout=timeout or aiohttp.ClientTimeout(total=None),
        connector=aiohttp.TCPConnector(limit=0),
        headers={hdrs.ACCEPT_ENCODING: "identity"},
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        middlewares=(show_key,),
    )
