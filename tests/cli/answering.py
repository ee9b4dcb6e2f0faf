"""A server that stands in for a router, to see what commands make of its answers."""

import contextlib
import json
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@contextlib.contextmanager
def answering(pages: Mapping[str, tuple[int, bytes]]) -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    """A server that answers `METHOD path` with these; its URL and what it was asked."""
    asked: list[tuple[str, bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", "0")))
            asked.append((f"{self.command} {self.path}", body))
            status, answer = pages.get(asked[-1][0], (404, b"<html>nothing here</html>"))
            self.send_response(status)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_POST = do_GET

        def log_message(self, *words: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join()


def error(message: str) -> bytes:
    """An error as the router's pages write it."""
    return json.dumps({"error": {"message": message, "code": "x"}}).encode()
