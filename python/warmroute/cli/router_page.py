"""Asks a running router for one of its own pages, for commands that look into it."""

import asyncio
import os
from typing import TypeVar

import aiohttp
import msgspec

from warmroute.errors import WarmrouteError
from warmroute.gateway.cross_site import NOT_A_FORM

DEFAULT_URL = "http://127.0.0.1:8081"
"""Where `warmroute serve` has its own pages when it is told nothing else."""
KEY_VARIABLE = "WARMROUTE_ADMIN_KEY"
"""The environment's name for the key that the router's pages want where it has `--api-keys`."""
_Report = TypeVar("_Report")
# A router answers at once; a large index takes a while to be written out.
_TIMEOUT = aiohttp.ClientTimeout(total=None, connect=5.0, sock_read=120.0)


class RouterUnreachable(WarmrouteError):
    """Nothing that answers like a router is at the URL; the text says what to do next."""


class PageRefused(WarmrouteError):
    """The router answered a request with an error of its own, in `body`."""

    def __init__(self, status: int, message: str, body: bytes) -> None:
        super().__init__(message)
        self.status = status
        self.body = body


def get(url: str, path: str) -> bytes:
    """The body at `path`. Raises RouterUnreachable or PageRefused."""
    return _ask(url, "GET", path)


def post(url: str, path: str, body: bytes = b"") -> bytes:
    """The body of the answer. Raises RouterUnreachable or PageRefused."""
    return _ask(url, "POST", path, body)


def delete(url: str, path: str) -> bytes:
    """The body of the answer. Raises RouterUnreachable or PageRefused."""
    return _ask(url, "DELETE", path)


def told(data: bytes, kind: type[_Report], url: str) -> _Report:
    """What a page of the router at `url` says. Raises RouterUnreachable where it is nothing of that kind."""
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.DecodeError as error:
        raise RouterUnreachable(f"what {url} sent is not understood ({error}): is it of the same version?") from error


def _ask(url: str, method: str, path: str, body: bytes | None = None) -> bytes:
    async def exchange() -> bytes:
        async with (
            aiohttp.ClientSession(timeout=_TIMEOUT) as session,
            session.request(method, url.rstrip("/") + path, data=body, headers=_headers()) as response,
        ):
            if response.status >= 400:
                raise PageRefused(response.status, await _message(response), await response.read())
            return await response.read()

    try:
        return asyncio.run(exchange())
    except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError) as error:
        raise RouterUnreachable(f"'{url}' is no URL; write http://HOST:PORT") from error
    except (aiohttp.ClientError, TimeoutError) as error:
        raise RouterUnreachable(
            f"no router answers at {url} ({error or 'it took too long'}); start one with 'warmroute serve', "
            f"or name another with --url http://HOST:PORT"
        ) from error


def _headers() -> dict[str, str]:
    key = os.environ.get(KEY_VARIABLE)
    return {NOT_A_FORM: "1"} | ({} if not key else {"authorization": f"Bearer {key}"})


async def _message(response: aiohttp.ClientResponse) -> str:
    """The router's reason where it gave one, else the status."""
    if response.status in (401, 403):
        return f"the router wants an admin key: put it into the variable {KEY_VARIABLE}"
    try:
        return str((await response.json(content_type=None))["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return f"{response.url} answers {response.status} {response.reason}: is a warmroute router there?"
