"""The router under test as a process: its addresses, its log, its own pages, and what it holds."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from chaos import options as limits
from chaos.engine_process import ChaosError
from chaos.inspected import FILE_VARIABLE
from chaos.wire import Response, connect, head, read_response

_START_S = 40.0
_STOP_S = 60.0
_LOOK_S = 10.0


@dataclass(slots=True)
class RouterProcess:
    """`warmroute serve` on free ports."""

    log: Path
    flags: Sequence[str] = ()
    url: str = ""
    admin_url: str = ""
    process: asyncio.subprocess.Process | None = None
    _reading: asyncio.Task[None] | None = None
    _inspection: Path = field(init=False)

    def __post_init__(self) -> None:
        self._inspection = self.log.with_suffix(".inspection")

    @property
    def pid(self) -> int:
        assert self.process is not None, "it has been started"
        return self.process.pid

    async def start(self, workers: Sequence[str]) -> None:
        """Start it before `workers`. Raises ChaosError where it does not come up."""
        words = ["serve", "--port", "0", "--tokenizer", "warmroute-tiny", *_limits(), *self.flags]
        words += [word for url in workers for word in ("--worker", url)]
        self.process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "chaos.inspected",
            *words,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, FILE_VARIABLE: str(self._inspection)},
        )
        announced: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._reading = asyncio.create_task(self._read_log(announced))
        await asyncio.wait_for(announced, _START_S)

    async def stop(self) -> int:
        """SIGTERM, and the exit code. Raises ChaosError where it does not end."""
        assert self.process is not None, "it has been started"
        assert self._reading is not None, "its log is read from the start"
        if self.process.returncode is None:
            self.process.terminate()
        try:
            code = await asyncio.wait_for(self.process.wait(), _STOP_S)
        except TimeoutError:
            self.process.kill()
            await self.process.wait()
            raise ChaosError(f"the router did not end within {_STOP_S:g} s of SIGTERM") from None
        await self._reading
        return code

    async def end(self) -> None:
        """Kill it, if it still runs."""
        if self.process is not None and self.process.returncode is None:
            self.process.kill()
            await self.process.wait()

    def ended(self) -> int | None:
        """The exit code, where it has ended by itself."""
        return None if self.process is None else self.process.returncode

    async def page(self, path: str, method: str = "GET", body: Any = None, /, **query: str) -> Any:
        """The JSON of one of its own pages."""
        response = await self.ask_page(path, method, body, **query)
        return json.loads(response.body)

    async def ask_page(self, path: str, method: str = "GET", body: Any = None, /, **query: str) -> Response:
        """The answer of one of its own pages."""
        raw = b"" if body is None else json.dumps(body).encode()
        where = f"{path}?{urlencode(query)}" if query else path
        connection = await connect(self.admin_url)
        try:
            host = f"host: {self.admin_url.removeprefix('http://')}"
            request = head(where, len(raw), "connection: close", method=method).replace(b"host: router", host.encode())
            connection.writer.write(request + raw)
            return await asyncio.wait_for(read_response(connection.reader, method=method), _LOOK_S)
        finally:
            await connection.close()

    async def inspect(self) -> dict[str, Any]:
        """What the process holds at this moment; see `chaos.inspected`."""
        self._inspection.unlink(missing_ok=True)
        os.kill(self.pid, signal.SIGUSR1)
        async with asyncio.timeout(_LOOK_S):
            while not self._inspection.exists():
                await asyncio.sleep(0.01)
        seen: dict[str, Any] = json.loads(self._inspection.read_text())
        return seen

    async def _read_log(self, announced: "asyncio.Future[None]") -> None:
        assert self.process is not None, "it has been started"
        assert self.process.stderr is not None, "its log is a pipe"
        with self.log.open("w") as log:
            while line := (await self.process.stderr.readline()).decode("utf-8", "replace"):
                log.write(line)
                log.flush()
                if line.startswith("warmroute listens on ") and not announced.done():
                    self.url, self.admin_url = line.split()[3], line.split()[-1]
                    announced.set_result(None)
        if not announced.done():
            announced.set_exception(ChaosError(f"the router did not start; see {self.log}"))


def _limits() -> list[str]:
    values = {
        "connect-timeout-s": limits.CONNECT_TIMEOUT_S,
        "first-byte-timeout-s": limits.FIRST_BYTE_TIMEOUT_S,
        "idle-timeout-s": limits.IDLE_TIMEOUT_S,
        "queue-timeout-s": limits.QUEUE_TIMEOUT_S,
        "max-attempts": limits.MAX_ATTEMPTS,
        "pool-idle-s": limits.POOL_IDLE_S,
        "max-body-bytes": limits.MAX_BODY_BYTES,
        "max-requests": limits.MAX_REQUESTS,
        "queue-size": limits.QUEUE_SIZE,
        "tokenizer-cache-mb": 4,
        "probe-interval-s": 0.25,
        "probe-timeout-s": 1.0,
    }
    return [word for name, value in values.items() for word in (f"--{name}", str(value))]
