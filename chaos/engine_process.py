"""An emulated engine as a process that can be killed, stopped and started again on the same ports."""

import asyncio
import json
import signal
import socket
import sys
from dataclasses import dataclass, field

from warmroute.errors import WarmrouteError

_START_S = 40.0
_STOP_S = 10.0
# Streams of some seconds, so that they are interrupted, and few places, so that load is felt.
_FLAGS = ("--speedup", "2", "--request-overhead-s", "0", "--max-num-seqs", "16", "--num-blocks", "2000")
# Below the ports that the system gives to connections: one of those may not take the place of an engine that is down.
_PORTS = range(21_000, 31_000)
_taken: set[int] = set()


class ChaosError(WarmrouteError):
    """The harness itself, or a process that it needs, does not work: nothing is known about the router."""


@dataclass(slots=True)
class EngineProcess:
    """`warmroute engine`; `name` is for people."""

    name: str
    events: bool = True
    ports: list[int] = field(default_factory=lambda: free_ports(3))
    process: asyncio.subprocess.Process | None = None
    starts: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.ports[0]}"

    async def start(self) -> None:
        """Start it and wait until it serves. Raises ChaosError where it does not."""
        names = ("--port", "--kv-events-port", "--kv-replay-port")
        words = [word for name, port in zip(names, self.ports, strict=True) for word in (name, str(port))]
        words += [*_FLAGS, *(() if self.events else ("--kv-events", "off"))]
        self.process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "warmroute", "engine", "--json", *words, stdout=asyncio.subprocess.PIPE
        )
        self.starts += 1
        assert self.process.stdout is not None
        line = await asyncio.wait_for(self.process.stdout.readline(), _START_S)
        if not line or json.loads(line)["url"] != self.url:
            raise ChaosError(f"engine {self.name} did not start: {line!r}")

    def send(self, number: signal.Signals) -> None:
        """A signal, if it runs."""
        if self.process is not None and self.process.returncode is None:
            self.process.send_signal(number)

    async def kill(self) -> None:
        """End it as a crash does."""
        await self._end(signal.SIGKILL)

    async def terminate(self) -> None:
        """Ask it to end; kill it where it does not."""
        await self._end(signal.SIGTERM)

    async def _end(self, number: signal.Signals) -> None:
        self.send(number)
        self.send(signal.SIGCONT)
        if self.process is not None:
            try:
                await asyncio.wait_for(self.process.wait(), _STOP_S)
            except TimeoutError:
                self.process.kill()
                await self.process.wait()


def free_ports(count: int) -> list[int]:
    """Ports of loopback on which nothing listens, each given once."""
    found: list[int] = []
    for port in _PORTS:
        if len(found) == count:
            break
        if port not in _taken and _is_free(port):
            _taken.add(port)
            found.append(port)
    return found


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
