"""What is kept of each request, so that one that went wrong can be understood and repeated."""

from dataclasses import asdict, dataclass, field
from typing import Any

from chaos.asks import Ask
from chaos.judgement import WORKER_HEADER, End, Judgement
from chaos.wire import Response

_SHOWN = 400


@dataclass(slots=True)
class Story:
    """One request: who sent it and how, what came back, and what that was judged to be. Times in seconds of the run."""

    client: int
    number: int
    behaviour: str
    ask: Ask
    began: float
    ended: float = 0.0
    response: Response = field(default_factory=Response)
    judgement: Judgement = field(default_factory=lambda: Judgement(End.LEFT))

    @property
    def took_s(self) -> float:
        return self.ended - self.began

    @property
    def worker(self) -> str:
        return self.response.headers.get(WORKER_HEADER, "")

    def told(self, going_on: list[dict[str, Any]]) -> dict[str, Any]:
        """All of it, fit for JSON."""
        body = self.response.body
        return {
            "why": self.judgement.why,
            "client": self.client,
            "number": self.number,
            "behaviour": self.behaviour,
            "path": self.ask.path,
            "stream": self.ask.stream,
            "sent": self.ask.body.decode("utf-8", "replace")[:_SHOWN],
            "began_s": round(self.began, 3),
            "took_s": round(self.took_s, 3),
            "status": self.response.status,
            "headers": self.response.headers,
            "whole": self.response.whole,
            "broken": self.response.broken,
            "body_bytes": len(body),
            "body_begins": body[:_SHOWN].decode("utf-8", "replace"),
            "body_ends": body[-_SHOWN:].decode("utf-8", "replace"),
            "going_on": going_on,
        }


@dataclass(frozen=True, slots=True)
class Violation:
    """Something that must never be: in one request (with its story), or in the router as a whole."""

    what: str
    story: dict[str, Any] | None = None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)
