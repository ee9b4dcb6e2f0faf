"""Child processes with a log file each, ready when their HTTP address answers, stopped with everything they started."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import aiohttp

_STOP_GRACE_S = 15.0
_POLL_S = 0.25


class StartError(Exception):
    """A process ended, or did not answer in time, before it was ready; the message holds the end of its log."""


def free_port() -> int:
    """A loopback port that nothing listens on now. Another process may take it before the caller does: rare here."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass(slots=True)
class Process:
    """One child process, the head of its own process group."""

    name: str
    popen: subprocess.Popen[bytes]
    log: Path

    @classmethod
    def start(
        cls, name: str, argv: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
    ) -> "Process":
        """Start `argv` with `environment` on top of this process's, output appended to `log`."""
        with log.open("ab") as output:
            popen = subprocess.Popen(  # a group of its own: vLLM's engine processes must go with it
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
            )
        return cls(name, popen, log)

    async def ready(self, session: aiohttp.ClientSession, url: str, timeout_s: float) -> None:
        """Wait until GET `url` answers 200. Raises StartError when the process ends or `timeout_s` passes first."""
        deadline = asyncio.get_running_loop().time() + timeout_s
        while not await _answers(session, url):
            if self.popen.poll() is not None:
                raise StartError(f"{self.name} ended with status {self.popen.returncode}\n{self.log_end()}")
            if asyncio.get_running_loop().time() > deadline:
                raise StartError(f"{self.name} was not ready after {timeout_s:.0f} s\n{self.log_end()}")
            await asyncio.sleep(_POLL_S)

    async def kill(self) -> None:
        """End the whole group at once, as a machine that fails would."""
        self._signal(signal.SIGKILL)
        await asyncio.to_thread(self.popen.wait)

    async def stop(self) -> None:
        """End the whole group: asked first, killed after a grace period. Safe to call twice."""
        self._signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            await asyncio.to_thread(self.popen.wait, _STOP_GRACE_S)
        await self.kill()

    def log_end(self, lines: int = 25) -> str:
        """The last `lines` lines of the log, indented, under its path."""
        text = self.log.read_text(errors="replace").splitlines()[-lines:]
        return "\n".join([f"  end of {self.log}:", *(f"    {line}" for line in text)])

    def _signal(self, number: signal.Signals) -> None:
        try:
            os.killpg(self.popen.pid, number)
        except ProcessLookupError:
            return  # the group is gone already


async def _answers(session: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with session.get(url, timeout=aiohttp.ClientTimeout(total=5)) as response:
            return response.status == 200
    except (aiohttp.ClientError, TimeoutError):
        return False
