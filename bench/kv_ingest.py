"""How fast are the engines' KV events taken in, until a lookup sees them, and is the router's loop held up by it?

Publishers are processes with real ZeroMQ sockets that send frames of 32 blocks, as vLLM does, as fast as they can. On
the other side, by turns: our listening threads and index, and `python -m dynamo.indexer`, asked over its HTTP. All
publishers share the first core, the reader has another one to itself. A run ends when every publisher's last block is
found; then every prompt is looked up, and all of it has to be there.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Protocol

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench import dynamo
from bench.environment import environment, spread
from bench.json_process import ROOT, JsonProcess
from bench.kv_prompts import BLOCK_SIZE, FRAME_BLOCKS, Announcements, vocabulary_ids

RESULT = ROOT / "bench" / "results" / "kv_ingest.json"
MODEL = "bench"
POLL_S = 0.002
DEADLINE_S = 300.0


class Reader(Protocol):
    """Who follows the publishers, in the process `pid`."""

    pid: int

    def begin(self, probes: list[list[int]]) -> None:
        """From now on the probes are looked up."""

    def seen_at(self) -> list[float]:
        """Waits until all have been found; when each was, on the clock of `time.perf_counter`."""

    def query(self, token_ids: list[int]) -> dict[int, int]:
        """Leading tokens that each publisher holds."""


def on_core(core: int, *command: str) -> JsonProcess:
    return JsonProcess("taskset", "-c", str(core), *command)


class Warmroute:
    """Ours, in a process of its own; see `bench.kv_router`."""

    def __init__(self, process: JsonProcess) -> None:
        self._process = process
        self.pid = process.pid
        self.stall_ms: dict[str, float] = {}
        self.idle_stall_ms: dict[str, float] = {}

    def begin(self, probes: list[list[int]]) -> None:
        self.idle_stall_ms = self._process.ask("idle", ticks=500)["stall_ms"]
        assert self._process.ask("watch", probes=probes) == {"watching": True}

    def seen_at(self) -> list[float]:
        heard = self._process.hear()
        self.stall_ms = heard["stall_ms"]
        seen: list[float] = heard["seen_at"]
        return seen

    def query(self, token_ids: list[int]) -> dict[int, int]:
        return {int(lane): n for lane, n in self._process.ask("query", token_ids=token_ids)["tokens"].items()}


class DynamoIndexer:
    """Dynamo's, over HTTP; its workers are the publishers, by number plus one."""

    def __init__(self, pid: int, port: int) -> None:
        self.pid = pid
        self._http = HTTPConnection("127.0.0.1", port, timeout=30)
        self._probes: list[list[int]] = []

    def begin(self, probes: list[list[int]]) -> None:
        self._probes = probes

    def seen_at(self) -> list[float]:
        seen: dict[int, float] = {}
        give_up = time.perf_counter() + DEADLINE_S
        while len(seen) < len(self._probes):
            for publisher, probe in enumerate(self._probes):
                if publisher not in seen and publisher in self.query(probe):
                    seen[publisher] = time.perf_counter()
            if time.perf_counter() > give_up:
                raise TimeoutError(f"Dynamo's indexer has found {sorted(seen)} only")
            time.sleep(POLL_S)
        return [seen[publisher] for publisher in sorted(seen)]

    def query(self, token_ids: list[int]) -> dict[int, int]:
        body = json.dumps({"token_ids": token_ids, "model_name": MODEL})
        self._http.request("POST", "/query", body, {"content-type": "application/json"})
        answer = self._http.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"Dynamo's indexer answers {answer.status}: {text!r}")
        return {int(worker) - 1: ranks["0"] for worker, ranks in json.loads(text)["scores"].items() if ranks.get("0")}


@contextmanager
def warmroute(endpoints: list[str], core: int) -> Iterator[Warmroute]:
    process = on_core(core, sys.executable, "-m", "bench.kv_router", *endpoints)
    try:
        assert process.hear() == {"ready": True}
        yield Warmroute(process)
    finally:
        process.end()


@contextmanager
def dynamo_indexer(endpoints: list[str], core: int) -> Iterator[DynamoIndexer]:
    """With its defaults. It listens on every interface and cannot be told otherwise."""
    port = free_port()
    workers = ",".join(f"{number + 1}={endpoint}" for number, endpoint in enumerate(endpoints))
    command = [str(dynamo.PYTHON), "-m", "dynamo.indexer", "--port", str(port), "--workers", workers]
    command += ["--block-size", str(BLOCK_SIZE), "--model-name", MODEL]
    with open(os.devnull, "w") as nowhere:
        process = subprocess.Popen(["taskset", "-c", str(core), *command], stdout=nowhere, stderr=nowhere)
    try:
        wait_for_port(port, process)
        yield DynamoIndexer(process.pid, port)
    finally:
        process.terminate()
        process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_for_port(port: int, process: "subprocess.Popen[bytes]") -> None:
    for _ in range(300):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        if process.poll() is not None:
            raise RuntimeError(f"Dynamo's indexer ended with {process.returncode}")
        time.sleep(0.1)
    raise TimeoutError("Dynamo's indexer does not listen")


@contextmanager
def publishing(announcements: Announcements, core: int) -> Iterator[tuple[list[JsonProcess], list[str]]]:
    """The publishers, ready to send, and where they are."""
    numbers = [str(each) for each in (announcements.publishers, announcements.prompts, announcements.seed)]
    script = str(ROOT / "bench" / "kv_publisher.py")
    with ExitStack() as stack:
        publishers = [
            on_core(core, sys.executable, script, str(number), *numbers) for number in range(announcements.publishers)
        ]
        for publisher in publishers:
            stack.callback(publisher.end)
        yield publishers, [publisher.hear()["endpoint"] for publisher in publishers]


def run(reader: Reader, publishers: list[JsonProcess], announcements: Announcements) -> dict[str, float]:
    """One run: blocks per second until all are visible, and until all were sent. Raises where a block is missing."""
    for publisher in publishers:
        publisher.tell("await")
    for publisher in publishers:
        publisher.hear()
    numbers = range(announcements.publishers)
    reader.begin([vocabulary_ids(announcements.probe(number)).tolist() for number in numbers])
    cpu, start = cpu_seconds(reader.pid), time.perf_counter()
    for publisher in publishers:
        publisher.tell("send")
    elapsed = max(reader.seen_at()) - start
    cpu = cpu_seconds(reader.pid) - cpu
    sent = max(publisher.hear()["send_s"] for publisher in publishers)
    check(reader, announcements)
    blocks = announcements.blocks * announcements.publishers
    return {"blocks_per_s": blocks / elapsed, "sent_blocks_per_s": blocks / sent, "elapsed_s": elapsed, "cpu_s": cpu}


def cpu_seconds(pid: int) -> float:
    """What all threads of a process have used so far. Unlike wall time it does not grow where others work too."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def check(reader: Reader, announcements: Announcements) -> None:
    """AssertionError unless every prompt is found whole, with its holders and nobody else."""
    for publisher in range(announcements.publishers):
        for prompt in announcements.announced(publisher):
            found = reader.query(vocabulary_ids(prompt).tolist())
            wanted = dict.fromkeys(prompt.holders, prompt.blocks * BLOCK_SIZE)
            assert found == wanted, f"{type(reader).__name__} finds {found} tokens instead of {wanted}"


def measure(announcements: Announcements, repeats: int, with_dynamo: bool) -> dict[str, Any]:
    """All of it, as one object."""
    started = environment()
    if with_dynamo:
        dynamo.install()
    cores = sorted(os.sched_getaffinity(0))
    publisher_core, reader_core = cores[0], cores[-1]
    ours, theirs = [], []
    say(f"{announcements.publishers} publishers write {announcements.frames:,} frames each")
    with publishing(announcements, publisher_core) as (publishers, endpoints):
        for repeat in range(repeats):
            say(f"run {repeat + 1} of {repeats}")
            with warmroute(endpoints, reader_core) as reader:
                shown = run(reader, publishers, announcements)
                ours.append({**shown, "stall_ms": reader.stall_ms, "idle_stall_ms": reader.idle_stall_ms})
            if with_dynamo:
                with dynamo_indexer(endpoints, reader_core) as indexer:
                    theirs.append(run(indexer, publishers, announcements))
    return {
        "question": "blocks per second from engines' sockets until a lookup sees them, and the loop's longest stall",
        **headline(ours, theirs),
        **cpu_per_block(ours, theirs, announcements.blocks * announcements.publishers),
        "publishers": announcements.publishers,
        "frames": announcements.frames * announcements.publishers,
        "frame_blocks": FRAME_BLOCKS,
        "block_size": BLOCK_SIZE,
        "blocks": announcements.blocks * announcements.publishers,
        "cores": {"publishers": publisher_core, "reader": reader_core},
        "runs": {"warmroute": ours, "dynamo": theirs},
        "environment": {**started, "dynamo": dynamo.version() if with_dynamo else None},
        "seed": announcements.seed,
        "repeats": repeats,
    }


def headline(ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians over the runs; a stall is the longest of all runs."""
    rate = spread([each["blocks_per_s"] for each in ours])
    their_rate = spread([each["blocks_per_s"] for each in theirs]) if theirs else None
    return {
        "warmroute_blocks_per_s": rate["median"],
        "dynamo_blocks_per_s": their_rate["median"] if their_rate else None,
        "ingest_ratio_warmroute_over_dynamo": rate["median"] / their_rate["median"] if their_rate else None,
        "loop_stall_ms_max": max(each["stall_ms"]["max"] for each in ours),
        "loop_stall_ms_p99": max(each["stall_ms"]["p99"] for each in ours),
        "loop_stall_ms_idle_max": max(each["idle_stall_ms"]["max"] for each in ours),
        "spread": {
            "warmroute_blocks_per_s": rate,
            "dynamo_blocks_per_s": their_rate,
            "loop_stall_ms_max": spread([each["stall_ms"]["max"] for each in ours]),
        },
    }


def cpu_per_block(ours: list[dict[str, Any]], theirs: list[dict[str, Any]], blocks: int) -> dict[str, Any]:
    """Microseconds of processor time per block, medians; for ours with the loop and its lookups beside it."""
    names = {"warmroute_cpu_us_per_block": ours, "dynamo_cpu_us_per_block": theirs}
    return {
        name: spread([1e6 * each["cpu_s"] / blocks for each in runs])["median"] if runs else None
        for name, runs in names.items()
    }


def say(what: str) -> None:
    print(f"kv_ingest: {what}", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")
    parser.add_argument("--quick", action="store_true", help="small and short, to see that it works; writes no result")
    parser.add_argument("--without-dynamo", action="store_true", help="measure ours alone")
    parser.add_argument("--publishers", type=int, default=4)
    parser.add_argument("--prompts", type=int, default=500, help="of 1,024 blocks, from each publisher (default: 500)")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=None, help=f"where the result goes (default: {RESULT.name})")
    options = parser.parse_args()
    prompts, repeats = (2, 1) if options.quick else (options.prompts, options.repeats)
    announcements = Announcements(options.publishers, prompts, options.seed)
    result = measure(announcements, repeats, not options.without_dynamo)
    if result["environment"]["native_build"] != "release":
        say("this is a debug build, its figures mean nothing; run: make build")
    out = options.out or (None if options.quick else RESULT)
    if out is not None:
        out.write_text(json.dumps(result, indent=1) + "\n")
        say(f"wrote {out}")
    print(json.dumps(result) if options.json else "\n".join(show(result)))


def show(result: dict[str, Any]) -> Iterator[str]:
    """The figures of the headline, a line each."""
    for name, value in result.items():
        if isinstance(value, float):
            yield f"{name:36} {value:14,.2f}"


if __name__ == "__main__":
    main()
