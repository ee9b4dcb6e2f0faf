"""The fake workers and the load of bench/relay.py: crates/relay-load, built, placed on a core and spoken to."""

import json
import os
import random
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from bench.json_process import ROOT, JsonProcess

MODEL_FOLDER = ROOT / "python" / "warmroute" / "models" / "warmroute-tiny"
LONGEST_S = 120.0
# Below the ports from which the kernel takes those of clients: thousands of connections would take a free one away.
_PORTS = range(20_000, 32_000)


@dataclass(frozen=True, slots=True)
class Placement:
    """Cores: of the workers and clients, and of the router."""

    load: int
    router: int


def placement() -> Placement:
    """The first core that this process may use, and the last."""
    cores = sorted(os.sched_getaffinity(0))
    return Placement(cores[0], cores[-1])


def build(profile: str) -> Path:
    """The program, built if need be; `profile` is "release", or "dev" where only its working counts."""
    command = ["cargo", "build", "--quiet", "--profile", profile, "-p", "relay-load"]
    subprocess.run(command, cwd=ROOT, check=True)
    folder = "debug" if profile == "dev" else profile
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / folder / "relay-load"


def quiet_port() -> int:
    """A port that nobody listens on and no client will be given."""
    for port in random.sample(_PORTS, len(_PORTS)):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port
    raise RuntimeError(f"no port of {_PORTS} is free")


@dataclass(frozen=True, slots=True)
class Workers:
    """`count` workers in one process, each on an address of its own."""

    program: Path
    pid: int
    count: int
    port: int
    events_port: int
    replay_port: int

    @property
    def hosts(self) -> list[str]:
        return [f"127.0.{1 + number // 250}.{1 + number % 250}" for number in range(self.count)]

    @property
    def urls(self) -> list[str]:
        return [f"http://{host}:{self.port}" for host in self.hosts]

    @property
    def addresses(self) -> list[str]:
        return [f"{host}:{self.port}" for host in self.hosts]

    def counts(self) -> dict[str, Any]:
        """`paths`: calls of each; `subscribers` to KV events now; `batches` of them that were published."""
        with urlopen(f"{self.urls[0]}/counts", timeout=10) as answer:
            counted: dict[str, Any] = json.load(answer)
        return counted


@contextmanager
def running_workers(program: Path, count: int, core: int) -> Iterator[Workers]:
    ports = [quiet_port() for _ in range(3)]
    names = ("--port", "--events-port", "--replay-port")
    options = [text for name, port in zip(names, ports, strict=True) for text in (name, str(port))]
    command = [str(program), "worker", *options, "--model-folder", str(MODEL_FOLDER)]
    with JsonProcess("taskset", "-c", str(core), *command) as process:
        assert process.hear() == {"ready": True}
        yield Workers(program, process.pid, count, *ports)


@dataclass(frozen=True, slots=True)
class Load:
    """Who is asked, from which core, and whose processor time is taken down."""

    program: Path
    targets: Sequence[str]
    core: int
    pids: Sequence[int] = ()

    def ask(self, command: str, **options: float | str) -> dict[str, Any]:
        """Runs a client to its end; what it found. CalledProcessError where it failed, TimeoutExpired where it hung."""
        return self._result(self._command(command, options))

    def hold(self, streams: int) -> JsonProcess:
        """A client that holds streams until it is told to end."""
        return JsonProcess(*self._command("idle", {"streams": streams}))

    def _command(self, command: str, options: dict[str, float | str]) -> list[str]:
        pairs = [text for name, value in options.items() for text in (f"--{name.replace('_', '-')}", str(value))]
        cpu = ["--cpu-of", ",".join(map(str, self.pids))] if self.pids and command != "idle" else []
        start = ["taskset", "-c", str(self.core), str(self.program), command]
        return [*start, "--targets", ",".join(self.targets), *pairs, *cpu]

    def _result(self, command: list[str]) -> dict[str, Any]:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LONGEST_S, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"relay-load {command[4]} ended with {done.returncode}: {done.stderr.strip()[-300:]}")
        found: dict[str, Any] = json.loads(done.stdout)
        return found


def move(pids: Sequence[int], core: int) -> None:
    """Every thread of these processes to a core."""
    for pid in pids:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), {core})
