"""A request's body as it was sent, and what its envelope tells."""

from dataclasses import dataclass

from warmroute.openai_api import JsonObject


@dataclass(frozen=True, slots=True)
class Logged:
    """One request of a log.

    body: as it was parsed, in the order of its keys. path: of the endpoint, such as `/v1/messages`; without one the
    body's fields tell the dialect. at_s: seconds on a clock of the log's own. session, user, application: the names
    that the envelope gives to the conversation, to who asks, and to the program that sent it.
    """

    body: JsonObject
    path: str | None = None
    at_s: float | None = None
    session: str | None = None
    user: str | None = None
    application: str | None = None
