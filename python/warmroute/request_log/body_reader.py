"""Requests of a log of which only the bodies are read."""

from collections.abc import Callable, Sequence

from warmroute.request_log.bodies import parsed, requests_of
from warmroute.request_log.logged import Logged
from warmroute.request_log.request import BrokenLine, LoggedRequest

ReadBodies = Callable[[bytes], Sequence[Logged]]


class BodyReader:
    """Makes requests of the bodies that `read_bodies` finds in a line."""

    def __init__(self, read_bodies: ReadBodies) -> None:
        self._read_bodies = read_bodies

    def read(self, line: bytes) -> Sequence[LoggedRequest]:
        """The prompts of a line. Raises BrokenLine and LeftOut."""
        return [request for logged in self._read_bodies(line) for request in _requests(logged)]

    def rest(self) -> Sequence[LoggedRequest]:
        """Nothing is kept back."""
        return ()


def _requests(logged: Logged) -> list[LoggedRequest]:
    if logged.at_s is None:
        raise BrokenLine("it has no time")
    return requests_of(
        parsed(logged.body, logged.path),
        logged.at_s,
        session=logged.session,
        ended_at_s=None,
        prompt_tokens=None,
        answer_tokens=None,
    )
