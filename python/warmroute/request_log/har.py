"""HTTP archives (HAR 1.2), as browsers and debugging proxies save them: one JSON object with all exchanges in it.

{"log": {"entries": [{"startedDateTime": "2026-02-13T11:33:33.512Z", "time": 812.5,
                      "request": {"method": "POST", "url": "https://.../v1/chat/completions", "headers": [...],
                                  "postData": {"mimeType": "application/json", "text": "{...}"}},
                      "response": {"status": 200}}]}}
"""

from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

from warmroute.openai_api.prompt import JsonObject
from warmroute.request_log.bodies import holds_prompt
from warmroute.request_log.fields import inner, json_object, name_in, time_in
from warmroute.request_log.logged import Logged
from warmroute.request_log.request import BrokenLine

NAME = "har"
_SESSION_HEADERS = ("x-session-id", "session_id", "x-session-affinity")
_APPLICATION_HEADERS = ("x-application", "x-title")
_USER_HEADERS = ("x-user-id", "x-tenant-id")


def fits(fields: JsonObject) -> bool:
    """Whether an object is such an archive."""
    return isinstance(inner(fields, "log").get("entries"), list)


def read_bodies(line: bytes) -> Sequence[Logged]:
    """The bodies of an archive's requests that have a prompt, in its order. Raises BrokenLine."""
    entries = inner(json_object(line), "log").get("entries")
    if not isinstance(entries, list):
        raise BrokenLine("it is no HTTP archive: it has no log.entries")
    return list(_logged(entries))


def _logged(entries: Sequence[Any]) -> Iterator[Logged]:
    """What is no request with a prompt, such as a page or a picture, is passed over."""
    for entry in entries:
        request = inner(entry, "request") if isinstance(entry, dict) else {}
        status = inner(entry, "response").get("status") if request else None
        body = inner(inner(request, "postData"), "text")
        if not holds_prompt(body) or (isinstance(status, int) and status >= 400):
            continue
        headers = _headers(request.get("headers"))
        yield Logged(
            body,
            path=urlsplit(str(request.get("url", ""))).path or None,
            at_s=time_in(entry, "startedDateTime"),
            session=name_in(headers, *_SESSION_HEADERS),
            user=name_in(headers, *_USER_HEADERS),
            application=name_in(headers, *_APPLICATION_HEADERS),
        )


def _headers(value: Any) -> JsonObject:
    if not isinstance(value, list):
        return {}
    pairs = [(each.get("name"), each.get("value")) for each in value if isinstance(each, dict)]
    return {name.lower(): told for name, told in pairs if isinstance(name, str)}
