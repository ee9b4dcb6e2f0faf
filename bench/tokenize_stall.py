"""How long is the router's loop held up while it reads, renders, encodes and hashes a long body that it has never seen?

The router is a process of its own, with a worker that answers at once. Each body is another text; the ids that were
found are checked by their number, which the router's own page tells.
"""

import json
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from bench.environment import distribution
from bench.json_process import JsonProcess
from bench.tokenize_corpus import paragraphs, take
from bench.tokenize_encoders import file_of

MODEL = "bench"
BODY_BYTES = 400_000
MESSAGES = 40
"""Of a chat body; a conversation of agents has many."""
READY_S = 60.0


class Engine(BaseHTTPRequestHandler):
    """A worker that is always ready and has nothing to say."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        known = {"/health": {}, "/v1/models": {"data": [{"id": MODEL, "max_model_len": 1_000_000}]}}
        self._answer(200 if self.path in known else 404, known.get(self.path, {}))

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self._answer(200, {"id": "1", "object": "list", "choices": [], "usage": None})

    def log_message(self, *_: object) -> None:
        """Every request would be a line on stderr."""

    def _answer(self, status: int, value: dict[str, Any]) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def engine() -> Iterator[str]:
    """Its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Engine)
    server.daemon_threads = True
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        serving.join()
        server.server_close()


class Router(JsonProcess):
    """The router's process; see `bench.tokenize_router` for what can be asked."""

    address: str

    def post(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Status and answer, over a connection of its own."""
        client = HTTPConnection(self.address, timeout=READY_S)
        try:
            client.request("POST", path, body, {"content-type": "application/json"})
            answered = client.getresponse()
            return answered.status, answered.read()
        finally:
            client.close()

    def wait_until_ready(self, body: bytes) -> None:
        """Until the worker takes requests. TimeoutError if it never does."""
        give_up = time.monotonic() + READY_S
        while self.post("/v1/completions", body)[0] != 200:
            if time.monotonic() > give_up:
                raise TimeoutError("the router never found its worker ready")
            time.sleep(0.1)


@contextmanager
def router(tokenizer: str, worker: str, cores: list[int]) -> Iterator[Router]:
    """On the given cores."""
    with Router(sys.executable, "-m", "bench.tokenize_router", str(file_of(tokenizer).parent), worker) as process:
        os.sched_setaffinity(process.pid, cores)
        process.address = urlsplit(process.hear()["url"]).netloc
        yield process


def chat_body(pool: Iterator[str]) -> bytes:
    """A conversation of `BODY_BYTES`."""
    roles = ("user", "assistant")
    messages = [{"role": roles[n % 2], "content": take(pool, BODY_BYTES // MESSAGES)} for n in range(MESSAGES - 1)]
    return json.dumps({"model": MODEL, "messages": messages}, ensure_ascii=False).encode()


def text_body(pool: Iterator[str]) -> bytes:
    """One text of `BODY_BYTES`."""
    return json.dumps({"model": MODEL, "prompt": take(pool, BODY_BYTES)}, ensure_ascii=False).encode()


BODIES: dict[str, tuple[str, str, Callable[[Iterator[str]], bytes]]] = {
    "chat": ("/v1/chat/completions", "reordered english", chat_body),
    "text": ("/v1/completions", "reordered english", text_body),
    "chat in Chinese, Japanese and Korean": ("/v1/chat/completions", "cjk", chat_body),
}
"""The path, what the text is, and how the body is made of it."""


def measure(tokenizer: str, repeats: int, seed: int, cores: list[int]) -> dict[str, Any]:
    """Of each kind of body the longest stall while one was on its way, over `repeats` of them; and with none."""
    found: dict[str, Any] = {}
    with engine() as worker, router(tokenizer, worker, cores) as routed:
        routed.wait_until_ready(json.dumps({"model": MODEL, "prompt": "hello"}).encode())
        found["idle"] = distribution([routed.ask("idle", seconds=0.2)["stall_ms"] for _ in range(max(1, repeats))])
        for number, (kind, (path, language, make)) in enumerate(BODIES.items()):
            pool = paragraphs(language, random.Random(seed * 1_000 + number))
            found[kind] = _stalls(routed, path, [make(pool) for _ in range(repeats + 1)])
    return found


def _stalls(routed: Router, path: str, bodies: list[bytes]) -> dict[str, Any]:
    """The first body only wakes what is used for the first time."""
    stalls, took = [], []
    for body in bodies:
        routed.ask("watch")
        start = time.perf_counter()
        status, answer = routed.post(path, body)
        took.append(1_000 * (time.perf_counter() - start))
        stalls.append(routed.ask("told")["stall_ms"])
        assert status == 200, answer
    return {"stall_ms": distribution(stalls[1:]), "first_stall_ms": stalls[0], "request_ms": distribution(took[1:])}
