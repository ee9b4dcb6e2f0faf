"""One publisher of bench/kv_ingest.py, in a process of its own: sends frames that were written before, when told to.

JSON lines. Says where it is bound; `await` answers when somebody has subscribed since, `send` when all has been handed
to ZeroMQ. It can be told again: each time the numbers begin at 0, as for an engine that has just been started.
"""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import zmq

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.kv_prompts import Announcements, payloads


def numbered(announcements: Announcements, publisher: int) -> Iterator[list[bytes]]:
    """Topic, number and payload of each message."""
    written = (payload for prompt in announcements.announced(publisher) for payload in payloads(prompt))
    for number, payload in enumerate(written):
        yield [b"", number.to_bytes(8), payload]


def await_subscriber(socket: "zmq.Socket[bytes]") -> None:
    """Returns once somebody has subscribed; those who left before are passed over."""
    while socket.recv()[:1] != b"\x01":
        pass


def main() -> None:
    publisher, *numbers = map(int, sys.argv[1:])
    announcements = Announcements(*numbers)
    messages = list(numbered(announcements, publisher))
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    with context.socket(zmq.XPUB) as socket:
        # Nothing is dropped, however slow the reader; and every subscription is told of, not the first only.
        socket.setsockopt(zmq.SNDHWM, 0)
        socket.setsockopt(zmq.XPUB_VERBOSE, 1)
        socket.setsockopt(zmq.LINGER, 0)
        port = socket.bind_to_random_port("tcp://127.0.0.1")
        print(json.dumps({"endpoint": f"tcp://127.0.0.1:{port}"}), flush=True)
        for line in sys.stdin:
            if line.strip() == "await":
                await_subscriber(socket)
                print(json.dumps({"subscribed": True}), flush=True)
                continue
            start = time.perf_counter()
            for message in messages:
                socket.send_multipart(message)
            print(json.dumps({"send_s": time.perf_counter() - start}), flush=True)


if __name__ == "__main__":
    main()
