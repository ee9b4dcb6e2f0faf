"""What an engine answers directly: the measure of what comes through the router."""

import asyncio
from dataclasses import dataclass, field

from chaos.asks import Ask
from chaos.engine_process import ChaosError
from chaos.wire import Response, connect, head, read_response

_LIMIT_S = 60.0
_AT_ONCE = 4


@dataclass(slots=True)
class Reference:
    """Asks each body once of an engine that nothing is done to."""

    url: str
    _answers: dict[tuple[str, bytes], "asyncio.Task[Response]"] = field(default_factory=dict)
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))

    async def answer(self, ask: Ask) -> Response:
        """The engine's answer. Raises ChaosError where it does not give a good one."""
        if ask.key not in self._answers:
            self._answers[ask.key] = asyncio.create_task(self._ask(ask))
        return await asyncio.shield(self._answers[ask.key])

    async def _ask(self, ask: Ask) -> Response:
        async with self._slots, asyncio.timeout(_LIMIT_S):
            connection = await connect(self.url)
            connection.writer.write(head(ask.path, len(ask.body), "connection: close") + ask.body)
            response = await read_response(connection.reader)
            await connection.close()
        if response.status != 200 or not response.whole:
            raise ChaosError(f"the engine answers {ask.path} with {response.status}: {response.body[:200]!r}")
        return response
