"""`warmroute engine` as a process."""

import json
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

_COMMAND = [sys.executable, "-m", "warmroute", "engine"]


@contextmanager
def engine_process(*flags: str) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen([*_COMMAND, *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def ready(process: "subprocess.Popen[str]") -> dict[str, Any]:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.stderr.read() if process.stderr else ""
    return dict(json.loads(line))


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_an_engine_tells_when_it_is_ready_and_ends_cleanly(signum: signal.Signals) -> None:
    flags = ("--port", "0", "--json", "--speedup", "50", "--num-blocks", "100", "--served-model-name", "m")
    with engine_process(*flags) as process:
        told = ready(process)
        with urllib.request.urlopen(told["url"] + "/v1/models", timeout=10) as answer:
            models = json.load(answer)
        assert models["data"][0]["id"] == told["model"] == "m"
        assert models["data"][0]["max_model_len"] == 1600
        assert told["kv_events_endpoint"].startswith("tcp://127.0.0.1:")
        assert told["pid"] == process.pid
        process.send_signal(signum)
        _, errors = process.communicate(timeout=10)
    assert (process.returncode, errors) == (0, "")


def test_an_engine_ends_while_a_stream_runs() -> None:
    with engine_process("--port", "0", "--json") as process:
        body = json.dumps({"prompt": "a", "max_tokens": 5000, "ignore_eos": True, "stream": True}).encode()
        request = urllib.request.Request(ready(process)["url"] + "/v1/completions", data=body)
        with urllib.request.urlopen(request, timeout=10) as stream:
            assert stream.readline().startswith(b"data:")
            process.terminate()
            _, errors = process.communicate(timeout=10)
    assert (process.returncode, errors) == (0, "")


@pytest.mark.parametrize("flag", ["--port", "--kv-events-port"])
def test_a_taken_port_is_named(flag: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        flags = [flag, port] if flag == "--port" else ["--port", "0", flag, port]
        result = subprocess.run([*_COMMAND, *flags], capture_output=True, text=True, timeout=30, check=False)
    assert result.returncode == 2
    assert f"port {port} on 127.0.0.1 is taken" in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--model", "/nowhere/at/all"], "/nowhere/at/all"),
        (["--speedup", "0"], "speedup must be above 0"),
        (["--num-blocks", "4", "--max-model-len", "100"], "more than the 64 tokens of KV"),
        (["--host", "203.0.113.1", "--kv-events", "off"], "cannot listen on 203.0.113.1"),
        (["--host", "203.0.113.1"], "cannot publish KV events on 203.0.113.1"),
        (["--host", "no.such.name.invalid"], "cannot listen on no.such.name.invalid"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(flags: list[str], message: str) -> None:
    command = [*_COMMAND, "--port", "0", *flags]
    result = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert result.returncode == 2
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1
