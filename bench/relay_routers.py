"""The routers of bench/relay.py: how each is started, and on what it decides."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from bench.json_process import ROOT
from bench.relay_load import Workers, quiet_port

BIN = ROOT / ".venv-routers" / "bin"
READY_S = 90.0
BLOCK_SIZE = 32
MODEL = "warmroute-tiny"


@dataclass(frozen=True, slots=True)
class Ports:
    """Where a router listens, and where it tells of itself."""

    traffic: int
    metrics: int


Command = Callable[[Workers, Ports, Path], list[str]]


@dataclass(frozen=True, slots=True)
class Router:
    """`decides_on` is what it knows of a prompt and of the caches; a prefix-aware one counts as a peer."""

    name: str
    decides_on: str
    command: Command
    prefix_aware: bool = True
    asks_workers: bool = False
    hears_events: bool = False


@dataclass(frozen=True, slots=True)
class Running:
    """A router that answers at `port`."""

    router: Router
    pid: int
    ports: Ports

    @property
    def target(self) -> str:
        return f"127.0.0.1:{self.ports.traffic}"

    def pids(self) -> list[int]:
        """Of the process and all that it has started."""
        found, new = [], [self.pid]
        while new:
            found += new
            new = [child for pid in new for child in _children(pid)]
        return found

    def resident_bytes(self) -> int:
        pages = [int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in self.pids()]
        return sum(pages) * os.sysconf("SC_PAGE_SIZE")

    def metrics(self, *words: str) -> dict[str, float]:
        """Its counters that have one of `words` in their name and are not 0, without histograms' buckets."""
        try:
            with urlopen(f"http://127.0.0.1:{self.ports.metrics}/metrics", timeout=10) as answer:
                text = answer.read().decode()
        except (URLError, HTTPException, OSError):
            return {}
        lines = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
        samples = ((name, value) for name, _, value in lines if any(word in name.partition("{")[0] for word in words))
        return {name: float(value) for name, value in samples if "_bucket" not in name and float(value)}


def _children(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for each in listed for child in each.read_text().split()]


def _warmroute(workers: Workers, ports: Ports, folder: Path) -> list[str]:
    tables = "".join(f'[[workers]]\nurl = "{url}"\n' for url in workers.urls)
    (folder / "warmroute.toml").write_text(f'tokenizer = "{MODEL}"\nstate_file = ""\n{tables}')
    start = [sys.executable, "-m", "warmroute", "serve", "--log-level", "warning"]
    start += ["--port", str(ports.traffic), "--admin-port", str(ports.metrics)]
    return [*start, "--config", str(folder / "warmroute.toml")]


def _rust(*launch: str, policy: str) -> Command:
    def command(workers: Workers, ports: Ports, _: Path) -> list[str]:
        listen = ["--host", "127.0.0.1", "--port", str(ports.traffic)]
        metrics = ["--prometheus-host", "127.0.0.1", "--prometheus-port", str(ports.metrics)]
        return [*launch, *listen, *metrics, "--policy", policy, "--worker-urls", *workers.urls]

    return command


def _kv_aware(workers: Workers, ports: Ports, folder: Path) -> list[str]:
    plain = _rust(str(BIN / "vllm-router"), policy="kv_aware")(workers, ports, folder)
    for url, host in zip(workers.urls, workers.hosts, strict=True):
        plain += ["--kv-event-source", f"{url}=tcp://{host}:{workers.events_port}"]
        plain += ["--kv-event-replay-source", f"{url}=tcp://{host}:{workers.replay_port}"]
    return [*plain, "--kv-event-block-size", str(BLOCK_SIZE), "--kv-event-model", MODEL]


_NGINX = """daemon off; worker_processes 1; user {user}; pid {folder}/nginx.pid; error_log {folder}/error.log;
worker_rlimit_nofile {files};
events {{ worker_connections {files}; }}
http {{
  access_log off; tcp_nodelay on; keepalive_requests 1000000000; keepalive_timeout 600s;
  client_max_body_size 0; client_body_buffer_size 1m; client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  upstream workers {{ {servers} keepalive 1024; keepalive_requests 1000000000; }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location / {{
      proxy_pass http://workers; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off;
      proxy_read_timeout 600s;
    }}
  }}
}}
"""


def _nginx(workers: Workers, ports: Ports, folder: Path) -> list[str]:
    servers = " ".join(f"server {address};" for address in workers.addresses)
    user = Path("/proc/self").owner()
    files = os.sysconf("SC_OPEN_MAX")
    text = _NGINX.format(user=user, folder=folder, files=files, servers=servers, port=ports.traffic)
    (folder / "nginx.conf").write_text(text)
    return [nginx_program() or "nginx", "-p", str(folder), "-e", "stderr", "-c", str(folder / "nginx.conf")]


def nginx_program() -> str | None:
    return shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


# smg and sglang-router both install a command `smg`: it is the module that tells them apart.
_SMG = (str(BIN / "python"), "-m", "smg", "launch")

WARMROUTE = Router(
    "warmroute", "tokens of the whole prompt, by its own tokenizer; KV events", _warmroute, hears_events=True
)
PEERS = (
    Router("nginx", "nothing: round robin", _nginx, prefix_aware=False),
    Router(
        "sglang-router 0.3.2 cache_aware",
        "characters; what it sent where",
        _rust(str(BIN / "sglang-router"), "launch", policy="cache_aware"),
    ),
    Router("smg 1.13.0 cache_aware", "characters; what it sent where", _rust(*_SMG, policy="cache_aware")),
    Router(
        "vllm-router 0.1.17 cache_aware",
        "tokens, by asking every worker; what it sent where",
        _rust(str(BIN / "vllm-router"), policy="cache_aware"),
        asks_workers=True,
    ),
    Router(
        "vllm-router 0.1.17 kv_aware",
        "tokens, by asking every worker; KV events",
        _kv_aware,
        asks_workers=True,
        hears_events=True,
    ),
)


def install() -> None:
    """The others, where they are missing. CalledProcessError where they cannot be had."""
    subprocess.run([str(ROOT / "scripts" / "install_routers.sh")], check=True)


@contextmanager
def running(router: Router, workers: Workers, core: int) -> Iterator[Running]:
    """The router on its core, once it answers requests and hears the events that it is to hear."""
    ports = Ports(quiet_port(), quiet_port())
    with tempfile.TemporaryDirectory() as folder, Path(folder, "log").open("wb") as log:
        command = ["taskset", "-c", str(core), *router.command(workers, ports, Path(folder))]
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)
        try:
            started = Running(router, process.pid, ports)
            _await(router, workers, started, process, Path(folder, "log"))
            yield started
        finally:
            process.terminate()
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _await(router: Router, workers: Workers, started: Running, process: "subprocess.Popen[bytes]", log: Path) -> None:
    give_up = time.monotonic() + READY_S
    while not (_answers(started.ports.traffic) and (not router.hears_events or _heard(workers))):
        if process.poll() is not None or time.monotonic() > give_up:
            raise RuntimeError(f"{router.name} does not start: {log.read_text(errors='replace')[-600:]}")
        time.sleep(0.1)


def _heard(workers: Workers) -> bool:
    told: int = workers.counts()["subscribers"]
    return told >= workers.count


def _answers(port: int) -> bool:
    body = f'{{"model":"{MODEL}","messages":[{{"role":"user","content":"hi"}}],"max_tokens":1}}'
    http = HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        http.request("POST", "/v1/chat/completions", body, {"content-type": "application/json"})
        return http.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        http.close()
