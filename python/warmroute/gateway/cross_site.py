"""Keeps other people's web pages from using an operator's browser to reach the router's own pages.

A browser sends a form, or a simple request, to any address without asking; what it cannot send unasked are media types
other than a form's and headers that are not simple (Fetch standard, "CORS-safelisted"). The router grants no such
request (it answers OPTIONS with 405), so a POST must come with one of these; methods beyond it are never sent unasked.
A page whose name was made to resolve to a loopback address (DNS rebinding) is told by its own name in `Host`.
"""

import ipaddress

from warmroute.gateway.answers import Answer, error_answer
from warmroute.gateway.relay import Arrival

NOT_A_FORM = "x-warmroute-admin"
"""A header, of any value, that says of a request without a body that no form has sent it."""

_UNCHANGING = ("GET", "HEAD")
_FORM_TYPES = ("application/x-www-form-urlencoded", "multipart/form-data", "text/plain")


def forged(arrival: Arrival) -> Answer | None:
    """What a request is told that another site's page may have had a browser send; None for any other.

    What only looks at something is let through: no page of another site can read the answer.
    """
    if arrival.method in _UNCHANGING:
        return None
    origin, site = arrival.header("origin"), arrival.header("sec-fetch-site")
    elsewhere = site not in (None, "same-origin", "none")
    if elsewhere or (origin is not None and origin.partition("://")[2] != arrival.header("host")):
        return error_answer(arrival.path, 403, "cross_site", "a page of another site may change nothing here")
    if arrival.method != "POST":
        return None
    media_type = (arrival.header("content-type") or "").partition(";")[0].strip().lower()
    told = bool(media_type) and media_type not in _FORM_TYPES
    if told or arrival.header(NOT_A_FORM) is not None:
        return None
    say = f"say that no form sends this: content-type: application/json, or the header {NOT_A_FORM}: 1"
    return error_answer(arrival.path, 415, "content_type_needed", say)


def rebound(arrival: Arrival) -> Answer | None:
    """What is told a request to a loopback address that names another host: an address or localhost is right there."""
    host = arrival.header("host") or ""
    name = host if host.endswith("]") else host.rpartition(":")[0] or host
    if name == "localhost" or name.endswith(".localhost") or _is_address(name):
        return None
    return error_answer(arrival.path, 421, "wrong_host", "this address is the router's own: ask it by address")


def is_loopback(host: str) -> bool:
    """Whether an address to listen on can be reached from this machine only."""
    return host == "localhost" or (_is_address(host) and ipaddress.ip_address(host.strip("[]")).is_loopback)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text.strip("[]"))
    except ValueError:
        return False
    return True
