"""How the two kinds of server of the check are started: vLLM on CPU, and warmroute in front of it."""

import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from tests_vllm.process import Process, free_port

REPOSITORY = Path(__file__).resolve().parent.parent
VLLM_PYTHON = REPOSITORY / ".venv-vllm" / "bin" / "python"
MODEL_NAME = "warmroute-tiny"

# vLLM's CPU attention takes multiples of 32 only.
BLOCK_SIZE = 32
# 5,120 tokens a worker: the conversations outgrow one cache, so that blocks are evicted and removals are seen.
NUM_BLOCKS = 160
MAX_MODEL_LEN = 2048
# 35 s alone on two idle cores, 70 s for two at once; other work on the machine may triple that.
_START_TIMEOUT_S = 300.0
_ROUTER_START_TIMEOUT_S = 60.0

# A request may bring a chat template, and tools without a choice of one.
_TRUSTING = ("--trust-request-chat-template", "--enable-auto-tool-choice", "--tool-call-parser", "hermes")

_ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_SERVER_DEV_MODE": "1",  # opens /reset_prefix_cache
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    "VLLM_HOST_IP": "127.0.0.1",  # what `tcp://*:0` binds to
    "PYTHONHASHSEED": "0",
    "PYTHONWARNINGS": "ignore",
}


@dataclass(frozen=True, slots=True)
class Server:
    """A running server: its process and the loopback port it answers at."""

    process: Process
    port: int

    @property
    def url(self) -> str:
        """Its address, without a slash at the end."""
        return f"http://127.0.0.1:{self.port}"


def _events_config(port: int) -> str:
    # `tcp://*:0` is a loopback port that the system picks; /kv_event_sources tells which. A plain
    # `tcp://127.0.0.1:PORT` would make vLLM connect there instead of listening.
    return json.dumps(
        {
            "enable_kv_cache_events": True,
            "publisher": "zmq",
            "endpoint": "tcp://*:0",
            "replay_endpoint": "tcp://*:0",
            "topic": f"kv@127.0.0.1:{port}@{MODEL_NAME}",
        }
    )


def vllm_arguments(model: Path, port: int) -> list[str]:
    """The command line of one vLLM server on `port` for the model in folder `model`."""
    options = {
        "--model": str(model),
        "--served-model-name": MODEL_NAME,
        # In bfloat16, on a CPU with AMX, vLLM 0.32 dies of an illegal instruction when its first prompt is short.
        "--dtype": "float32",
        "--host": "127.0.0.1",
        "--port": str(port),
        "--max-model-len": str(MAX_MODEL_LEN),
        "--max-num-seqs": "16",
        "--block-size": str(BLOCK_SIZE),
        "--num-gpu-blocks-override": str(NUM_BLOCKS),
        "--kv-events-config": _events_config(port),
    }
    switches = ["--enable-prefix-caching", "--enable-prompt-tokens-details", "--enforce-eager", "--enable-scale-out"]
    pairs = [part for option in options.items() for part in option]
    return [str(VLLM_PYTHON), "-m", "vllm.entrypoints.openai.api_server", *pairs, *switches, *_TRUSTING]


async def start_vllm(session: aiohttp.ClientSession, model: Path, logs: Path, count: int) -> list[Server]:
    """Start `count` vLLM servers side by side and wait for all. Raises StartError, with all of them stopped again."""
    servers = [_launch_vllm(f"vllm-{number}", model, free_port(), logs) for number in range(count)]
    await _all_healthy(session, servers)
    return servers


async def start_renderer(session: aiohttp.ClientSession, name: str, model: Path, logs: Path) -> Server:
    """Start vLLM's render server, which has no engine, for the model in folder `model`. Raises StartError."""
    port = free_port()
    argv = [str(VLLM_PYTHON), str(Path(__file__).with_name("render_server.py")), "--model", str(model)]
    argv += ["--served-model-name", MODEL_NAME, "--host", "127.0.0.1", "--port", str(port)]
    argv += ["--max-model-len", str(MAX_MODEL_LEN), *_TRUSTING]
    server = Server(Process.start(name, argv, logs / f"{name}.log", _ENVIRONMENT), port)
    await _all_healthy(session, [server])
    return server


async def restart_vllm(session: aiohttp.ClientSession, server: Server, model: Path, logs: Path) -> Server:
    """Start another process at the address of `server`, which has ended. Raises StartError."""
    restarted = _launch_vllm(server.process.name, model, server.port, logs)
    await _all_healthy(session, [restarted])
    return restarted


def _launch_vllm(name: str, model: Path, port: int, logs: Path) -> Server:
    process = Process.start(name, vllm_arguments(model, port), logs / f"{name}.log", _ENVIRONMENT)
    return Server(process, port)


async def _all_healthy(session: aiohttp.ClientSession, servers: Sequence[Server]) -> None:
    try:
        await asyncio.gather(*(s.process.ready(session, f"{s.url}/health", _START_TIMEOUT_S) for s in servers))
    except BaseException:
        await stop(servers)
        raise


async def start_router(
    session: aiohttp.ClientSession, workers: Sequence[Server], tokenizer: Path, logs: Path
) -> Server:
    """Start `warmroute serve` before `workers` and wait until it is ready. Raises StartError."""
    port = free_port()
    argv = [
        sys.executable,
        "-m",
        "warmroute",
        "serve",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--admin-port",
        "same",
    ]
    argv += [part for worker in workers for part in ("--worker", worker.url)]
    process = Process.start("warmroute", [*argv, "--tokenizer", str(tokenizer)], logs / "warmroute.log")
    router = Server(process, port)
    try:
        await process.ready(session, f"{router.url}/ready", _ROUTER_START_TIMEOUT_S)
    except BaseException:
        await process.stop()
        raise
    return router


async def stop(servers: Sequence[Server]) -> None:
    """Stop every one of `servers`, also when one of them resists."""
    await asyncio.gather(*(server.process.stop() for server in servers), return_exceptions=True)
