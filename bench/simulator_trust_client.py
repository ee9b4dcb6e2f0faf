"""Sends a stage of a workload as HTTP requests, each at its time, and writes down what a client sees of the answers."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import msgspec

from warmroute.demo.options import MODEL
from warmroute.simulator.flight import SessionRun
from warmroute.simulator.ledger import Ledger
from warmroute.simulator.workload import Session, Stage, Turn

_ANSWER_S = 120.0
_DATA = b"data: "
_DONE = b"data: [DONE]"


class _Details(msgspec.Struct):
    cached_tokens: int = 0


class _Usage(msgspec.Struct):
    completion_tokens: int
    prompt_tokens_details: _Details | None = None


class _Choice(msgspec.Struct):
    text: str


class _Chunk(msgspec.Struct):
    choices: list[_Choice] = []
    usage: _Usage | None = None


_decoder = msgspec.json.Decoder(_Chunk)


@dataclass(slots=True)
class Client:
    """Plays stages against the router at `url`. `ledger` has what the simulator would write down, as the client saw it.

    text_of: the text that a turn's answer must have; `strange` counts those that have another one.
    """

    url: str
    workers: int
    text_of: Callable[[Turn], str]
    ledger: Ledger = field(default_factory=Ledger)
    strange: int = 0
    _begun_at: float = 0.0
    _positions: dict[str, int] = field(default_factory=dict)
    _streams: list[tuple[list[bytes], Turn, int]] = field(default_factory=list)

    async def play(self, stage: Stage) -> None:
        """Send everything, and wait for the last answer."""
        self.ledger.stage_names.append(stage.name)
        for _ in range(self.workers):
            self.ledger.gauges.add_worker()
        connector = aiohttp.TCPConnector(limit=0)
        timeout = aiohttp.ClientTimeout(total=_ANSWER_S)
        async with aiohttp.ClientSession(self.url, connector=connector, timeout=timeout) as http:
            self._begun_at = time.monotonic()
            await asyncio.gather(*(self._converse(http, session) for session in stage.sessions))
        for lines, turn, row in self._streams:  # not before: what is measured must not wait for it
            self._take(lines, turn, row)

    def _now(self) -> float:
        return time.monotonic() - self._begun_at

    async def _converse(self, http: aiohttp.ClientSession, session: Session) -> None:
        await asyncio.sleep(max(0.0, session.start_s - self._now()))
        await self._followers(http, SessionRun(session), None)

    async def _followers(self, http: aiohttp.ClientSession, run: SessionRun, position: int | None) -> None:
        await asyncio.gather(*(self._turn(http, run, follower) for follower in run.followers(position)))

    async def _turn(self, http: aiohttp.ClientSession, run: SessionRun, position: int) -> None:
        turn = run.session.turns[position]
        body = _body(turn)
        await asyncio.sleep(turn.wait_s)
        row = self.ledger.requests.begin(0, self._now(), len(turn.prompt))
        try:
            async with http.post("/v1/completions", data=body, headers={"content-type": "application/json"}) as answer:
                await self._read(answer, turn, row)
        except (aiohttp.ClientError, TimeoutError) as error:
            self.ledger.requests.failed[row] = type(error).__name__
            self.ledger.requests.ended_at[row] = self._now()
        await self._followers(http, run, position)

    async def _read(self, answer: aiohttp.ClientResponse, turn: Turn, row: int) -> None:
        requests = self.ledger.requests
        worker = answer.headers.get("x-warmroute-worker", "")
        requests.worker[row] = self._positions.setdefault(worker, len(self._positions))
        requests.predicted[row] = int(answer.headers.get("x-warmroute-cached-tokens", 0))
        lines: list[bytes] = []
        async for line in answer.content:
            if line.startswith(_DATA):
                if not lines:
                    requests.first_at[row] = self._now()
                lines.append(line.strip())
        requests.ended_at[row] = self._now()
        if answer.status != 200 or not lines or lines[-1] != _DONE:
            requests.failed[row] = f"status {answer.status}"
            return
        self._streams.append((lines[:-1], turn, row))

    def _take(self, lines: list[bytes], turn: Turn, row: int) -> None:
        text = ""
        for line in lines:
            chunk = _decoder.decode(line.removeprefix(_DATA))
            text += "".join(choice.text for choice in chunk.choices)
            if chunk.usage is not None:
                self.ledger.requests.output_tokens[row] = chunk.usage.completion_tokens
                details = chunk.usage.prompt_tokens_details
                self.ledger.requests.cached[row] = details.cached_tokens if details else 0
        self.strange += text != self.text_of(turn)


def _body(turn: Turn) -> bytes:
    asked: dict[str, Any] = {
        "model": MODEL,
        "prompt": turn.prompt.ids().tolist(),
        "max_tokens": len(turn.answer),
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    return msgspec.json.encode(asked)
